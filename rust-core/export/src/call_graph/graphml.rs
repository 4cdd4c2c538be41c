// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A call graph as GraphML (graphml.graphdrawing.org), for yEd, Gephi, NetworkX and others.

use std::io::{self, BufWriter, Write};

use jportal_analyses::calls::CallGraph;
use jportal_plain::line;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesStart, BytesText, Event};

use crate::Error;

/// The namespace of the format.
const NAMESPACE: &str = "http://graphml.graphdrawing.org/xmlns";

/// The data of nodes and edges: what has it, its name, its type.
const KEYS: [(&str, &str, &str); 12] = [
    ("graph", "title", "string"),
    ("graph", "exact", "boolean"),
    ("node", "method", "string"),
    ("node", "loader", "string"),
    ("edge", "count", "string"),
    ("edge", "calls", "long"),
    ("edge", "sites", "long"),
    ("edge", "interpreter", "long"),
    ("edge", "c1", "long"),
    ("edge", "c2", "long"),
    ("edge", "native", "long"),
    ("edge", "exact", "boolean"),
];

struct GraphmlWriter<W: Write>(Writer<W>);

impl<W: Write> GraphmlWriter<W> {
    fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        inside: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        let end = start.to_end().into_owned();
        self.0.write_event(Event::Start(start))?;
        inside(self)?;
        self.0.write_event(Event::End(end))
    }
    /// The key of some data is named after what has it, because a graph and an edge are `exact`.
    fn data(&mut self, of: &str, name: &str, value: &str) -> io::Result<()> {
        self.element("data", &[("key", &format!("{of}_{name}"))], |xml| {
            // XML has no place for most control characters.
            xml.0.write_event(Event::Text(BytesText::new(&line(value))))
        })
    }
    fn keys(&mut self) -> io::Result<()> {
        for (of, name, kind) in KEYS {
            let id = format!("{of}_{name}");
            let attributes = [("id", &*id), ("for", of), ("attr.name", name), ("attr.type", kind)];
            let key = BytesStart::new("key").with_attributes(attributes);
            self.0.write_event(Event::Empty(key))?;
        }
        Ok(())
    }
    fn graph(&mut self, graph: &CallGraph, title: &str) -> io::Result<()> {
        self.data("graph", "title", title)?;
        self.data("graph", "exact", &graph.exact.to_string())?;
        for (at, method) in graph.methods.iter().enumerate() {
            self.element("node", &[("id", &format!("n{at}"))], |xml| {
                xml.data("node", "method", &method.name)?;
                xml.data("node", "loader", &method.loader)
            })?;
        }
        for (at, calls) in graph.calls.iter().enumerate() {
            let (id, from, to) = (format!("e{at}"), format!("n{}", calls.from), format!("n{}", calls.to));
            self.element("edge", &[("id", &id), ("source", &from), ("target", &to)], |xml| {
                xml.data("edge", "count", &graph.count_text(calls))?;
                let all = [("calls", calls.calls.total()), ("sites", calls.sites)];
                for (name, n) in all.into_iter().chain(calls.tiers.named()) {
                    xml.data("edge", name, &n.to_string())?;
                }
                xml.data("edge", "exact", &calls.exact.to_string())
            })?;
        }
        Ok(())
    }
}

/// Writes a graph. `title` is its name.
///
/// # Errors
/// If the output cannot be written.
pub fn write_graphml(graph: &CallGraph, title: &str, out: &mut dyn Write) -> Result<(), Error> {
    let mut xml = GraphmlWriter(Writer::new_with_indent(BufWriter::new(out), b' ', 1));
    xml.0.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.element("graphml", &[("xmlns", NAMESPACE)], |xml| {
        xml.keys()?;
        xml.element("graph", &[("id", "calls"), ("edgedefault", "directed")], |xml| xml.graph(graph, title))
    })?;
    let mut out = xml.0.into_inner();
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
