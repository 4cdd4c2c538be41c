// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the formats have in common.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jportal_analyses::blocks::State;
use jportal_analyses::coverage::{ClassCoverage, Coverage, Detail, MethodCoverage, WayCoverage};
use jportal_plain::line;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::Error;

/// The counts of a method.
pub(super) fn detail<'c>(class: &ClassCoverage, method: &'c MethodCoverage) -> Result<&'c Detail, Error> {
    let name = || line(&format!("{}.{}", class.class, method.name)).into_owned();
    method.detail.as_ref().ok_or_else(|| Error::NoCounts { method: name() })
}

/// The package in VM notation (`java/lang`), empty for the unnamed one.
pub(super) fn package(class: &str) -> String {
    class.rsplit_once('.').map_or_else(String::new, |(package, _)| package.replace('.', "/"))
}

/// The source file with the directories of its package; `None` if it is unknown.
pub(super) fn source_path(class: &ClassCoverage) -> Option<String> {
    let file = Some(&*class.source_file).filter(|file| !file.is_empty())?;
    let package = package(&class.class);
    Some(if package.is_empty() { file.to_owned() } else { format!("{package}/{file}") })
}

/// Name and descriptor.
pub(super) fn name_and_descriptor(name: &str) -> (&str, &str) {
    name.find('(').map_or((name, ""), |at| name.split_at(at))
}

/// The ways of each branch.
pub(super) fn branches(detail: &Detail) -> impl Iterator<Item = &[WayCoverage]> {
    detail.branches.chunk_by(WayCoverage::is_of_branch)
}

/// Covered and missed ways. Unknown ones are in neither.
pub(super) fn covered_and_missed(ways: &[WayCoverage]) -> (u64, u64) {
    let of = |state| ways.iter().filter(|way| way.state == state).count() as u64;
    (of(State::Executed), of(State::Missed))
}

/// A source line of a class or file.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) state: State,
    /// Executions: the greatest count of the methods that have the line.
    pub(super) times: u64,
    /// Covered and missed instructions.
    pub(super) instructions: (u64, u64),
    /// Covered and missed ways.
    pub(super) branches: (u64, u64),
    /// The ways of each branch.
    pub(super) ways: Vec<Vec<WayCoverage>>,
}

pub(super) type Lines = BTreeMap<u16, Line>;

/// Adds the lines of a method.
pub(super) fn add_lines(lines: &mut Lines, detail: &Detail) {
    for of in &detail.lines {
        let line = lines.entry(of.line).or_insert_with(Line::none);
        line.state = line.state.or(of.state);
        line.times = line.times.max(of.times.total());
        line.instructions.0 += of.bytecodes.executed.total();
        line.instructions.1 += of.bytecodes.missed();
        line.branches.0 += of.branches.executed.total();
        line.branches.1 += of.branches.missed();
    }
    for ways in branches(detail) {
        let line = ways.first().and_then(|way| way.line).and_then(|line| lines.get_mut(&line));
        if let Some(line) = line {
            line.ways.push(ways.to_vec());
        }
    }
}

impl Line {
    const fn none() -> Self {
        Self { state: State::Missed, times: 0, instructions: (0, 0), branches: (0, 0), ways: Vec::new() }
    }
}

/// What a format cannot say of a coverage, one sentence per line.
pub(super) fn remarks(coverage: &Coverage) -> Vec<String> {
    let (total, units) = (&coverage.total, &coverage.units);
    let mut all = vec!["Written by JPortal. A bytecode that throws is covered.".to_owned()];
    let unknown = [
        (units.classes.unknown, "classes"),
        (units.methods.unknown, "methods"),
        (total.lines.unknown, "lines"),
        (total.branches.unknown, "branch ways"),
        (total.bytecodes.unknown, "bytecodes"),
    ];
    let parts: Vec<_> = unknown.iter().filter(|u| u.0 > 0).map(|(n, what)| format!("{what}: {n}")).collect();
    if !parts.is_empty() {
        all.push(format!(
            "Left out, because it is unknown whether they were executed ({}).",
            parts.join(", ")
        ));
    }
    if !coverage.exact {
        all.push("The coverage is not exact: counts may be lower bounds.".to_owned());
    }
    if !coverage.missed_is_certain {
        all.push("Trace was lost: what counts as missed may have been executed there.".to_owned());
    }
    all
}

/// Writes elements.
pub(super) struct Xml<'w> {
    writer: Writer<&'w mut dyn Write>,
}

/// Attributes: names and values.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

impl<'w> Xml<'w> {
    /// Begins a document.
    pub(super) fn new(out: &'w mut dyn Write, doctype: &str, remarks: &[String]) -> io::Result<Self> {
        let mut writer = Writer::new_with_indent(out, b' ', 1);
        writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        writer.write_event(Event::DocType(BytesText::from_escaped(doctype)))?;
        // Two hyphens end a comment.
        let text = remarks.join(" ").replace("--", "- -");
        writer.write_event(Event::Comment(BytesText::from_escaped(format!(" {text} "))))?;
        Ok(Self { writer })
    }
    fn element<'a>(name: &'a str, attributes: Attributes<'_>) -> BytesStart<'a> {
        let mut start = BytesStart::new(name);
        for (name, value) in attributes {
            // XML has no representation of control characters.
            start.push_attribute((*name, &*line(value)));
        }
        start
    }
    pub(super) fn begin(&mut self, name: &str, attributes: Attributes<'_>) -> io::Result<()> {
        self.writer.write_event(Event::Start(Self::element(name, attributes)))
    }
    pub(super) fn empty(&mut self, name: &str, attributes: Attributes<'_>) -> io::Result<()> {
        self.writer.write_event(Event::Empty(Self::element(name, attributes)))
    }
    pub(super) fn end(&mut self, name: &str) -> io::Result<()> {
        self.writer.write_event(Event::End(BytesEnd::new(name)))
    }
    /// An element that contains a text.
    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        let text = line(text);
        self.writer.create_element(name).write_text_content(BytesText::new(&text)).map(drop)
    }
    /// Ends the document.
    pub(super) fn finish(self) -> io::Result<()> {
        let out = self.writer.into_inner();
        out.write_all(b"\n")?;
        out.flush()
    }
}
