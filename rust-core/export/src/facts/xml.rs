// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Static facts as XML. `schema/static.xsd` describes it.

use std::io::{self, Write};

use jportal_plain::line;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use super::method::{BlockFacts, MethodFacts};
use super::{ClassFacts, StaticFacts};
use crate::Error;

/// A start tag with its attributes. Names are plain text, since XML has no place for most control
/// characters.
struct Tag<'t>(BytesStart<'t>);

impl<'t> Tag<'t> {
    fn new(name: &'t str) -> Self {
        Self(BytesStart::new(name))
    }
    fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push_attribute((name, value.to_string().as_str()));
        self
    }
    fn named(mut self, name: &str, value: &str) -> Self {
        self.0.push_attribute((name, &*line(value)));
        self
    }
    fn perhaps(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

struct Xml<W: Write>(Writer<W>);

impl<W: Write> Xml<W> {
    /// An element without content.
    fn empty(&mut self, tag: Tag<'_>) -> io::Result<()> {
        self.0.write_event(Event::Empty(tag.0))
    }
    /// An element with content.
    fn element(&mut self, tag: Tag<'_>, inside: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let end = tag.0.to_end().into_owned();
        self.0.write_event(Event::Start(tag.0))?;
        inside(self)?;
        self.0.write_event(Event::End(end))
    }

    fn class(&mut self, facts: &StaticFacts<'_>, class: &ClassFacts<'_>) -> io::Result<()> {
        let source = Some(class.source).filter(|s| !s.is_empty()).map(line);
        let tag = Tag::new("class").with("id", class.id).named("name", class.name);
        let tag = tag.named("loader", class.loader).perhaps("source", source);
        let tag = tag.perhaps("super", class.superclass.map(line)).perhaps("flags", class.flags);
        let tag =
            tag.perhaps("interfaces", class.interfaces.as_ref().map(|all| line(&all.join(" ")).into_owned()));
        self.element(tag, |xml| facts.methods(class).try_for_each(|m| xml.method(&m)))
    }
    fn method(&mut self, m: &MethodFacts<'_>) -> io::Result<()> {
        let tag = Tag::new("method").with("id", m.id).named("name", m.name);
        let tag =
            tag.named("descriptor", m.descriptor).with("flags", m.flags).with("code_bytes", m.code_bytes);
        let tag =
            tag.perhaps("version", m.version.map(|v| v.number)).perhaps("versions", m.version.map(|v| v.of));
        let tag = tag.perhaps("malformed", m.malformed.as_deref().map(line));
        self.element(tag, |xml| m.blocks.iter().try_for_each(|b| xml.block(b)))
    }
    fn block(&mut self, b: &BlockFacts<'_>) -> io::Result<()> {
        let tag = Tag::new("basic_block").with("id", b.id).with("bci", b.bci).with("end", b.end);
        let tag = tag.perhaps("line", b.line).with("metrics", b.metrics.text());
        let tag = b.metrics.known().fold(tag, |tag, (name, n)| tag.with(name, n));
        if b.calls.is_empty() && b.handlers.is_empty() {
            return self.empty(tag);
        }
        self.element(tag, |xml| {
            if !b.calls.is_empty() {
                xml.element(Tag::new("call_site_list"), |xml| xml.calls(b))?;
            }
            if !b.handlers.is_empty() {
                xml.element(Tag::new("exception_handler_list"), |xml| xml.handlers(b))?;
            }
            Ok(())
        })
    }
    fn calls(&mut self, b: &BlockFacts<'_>) -> io::Result<()> {
        b.calls.iter().try_for_each(|c| {
            let target = c.target.map(|to| line(&to.text()).into_owned());
            let tag = Tag::new("call_site").perhaps("call", target).with("type", c.opcode);
            self.empty(tag.with("bci", c.bci))
        })
    }
    fn handlers(&mut self, b: &BlockFacts<'_>) -> io::Result<()> {
        b.handlers.iter().try_for_each(|h| {
            let tag = Tag::new("exception_handler").with("basic_block_id", h.block);
            let tag = tag.perhaps("type", h.catch_type.map(line));
            self.empty(tag.with("from", h.from).with("to", h.to))
        })
    }
}

impl StaticFacts<'_> {
    /// Writes the facts as XML. Unknown values are absent; in the list of the 19 counts they are
    /// `-`.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write_xml(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut xml = Xml(Writer::new_with_indent(io::BufWriter::new(out), b' ', 1));
        xml.0.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let tag = Tag::new("program").with("format", self.format().name());
        xml.element(tag, |xml| self.classes().iter().try_for_each(|c| xml.class(self, c)))?;
        let mut out = xml.0.into_inner();
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }
}
