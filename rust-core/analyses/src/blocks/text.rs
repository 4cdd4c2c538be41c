// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report `blocks` as text, and as rows of a table.

use jportal_flow::Tally;
use jportal_plain::line;
use jportal_plain::table::{Align, table};
use serde::Serialize;

use super::report::{Blocks, BranchWay, BytecodeCount, ClassBlocks, ExceptionWay, LineCount, MethodBlocks};
use crate::hidden::{Bounds, counted};
use crate::hot::{at_least, least_note};
use crate::names::version_text;

impl Blocks {
    /// The report as text: a heading and a table for each method. With bytecodes, the table is the
    /// method's code with counts in the margin. `≥` marks counts of which more may have happened.
    pub fn text(&self) -> String {
        let blind = self.inexact.is_blind();
        let mut text = String::new();
        for class in &self.classes {
            for method in &class.methods {
                text.push_str(&heading(class, method, blind));
                text.push_str(&match (&method.code, &method.lines) {
                    (Some(code), _) => listing(code, &method.ways, blind),
                    (None, Some(lines)) => lines_of(lines, blind),
                    (None, None) => blocks_of(method, blind),
                });
                let exceptions = method.exceptions.iter();
                exceptions.for_each(|way| text.push_str(&exception(way, blind)));
                text.push('\n');
            }
        }
        text.push_str(&self.notes());
        text
    }
    fn notes(&self) -> String {
        let (blind, more) = (self.inexact.is_blind(), self.any_more());
        let count = |t: &Tally| margin(t, more, blind);
        let mut text =
            format!("{} block executions, {} bytecodes\n", count(&self.executions), count(&self.bytecodes));
        if self.methods_left_out > 0 {
            text.push_str(&format!("{} more methods were selected\n", self.methods_left_out));
        }
        if self.repeated > 0 {
            let repeated = counted(self.repeated, "bytecode");
            text.push_str(&format!("{repeated} repeated after a deoptimisation may be counted twice\n"));
        }
        text + &least_note(&self.inexact, self.exact)
    }
    fn any_more(&self) -> bool {
        self.classes.iter().flat_map(|c| &c.methods).any(|m| m.perhaps_more)
    }
    /// All counts as rows of one table, for CSV.
    pub fn rows(&self) -> impl Iterator<Item = BlockRow<'_>> {
        let methods = self.classes.iter().flat_map(|c| c.methods.iter().map(move |m| (c, m)));
        methods.flat_map(|(class, method)| rows_of(class, method))
    }
}

/// A count with `≥` if more are possible.
fn margin(times: &Tally, perhaps_more: bool, blind: bool) -> String {
    at_least(times, Bounds::default(), 0, perhaps_more || blind)
}

fn heading(class: &ClassBlocks, method: &MethodBlocks, blind: bool) -> String {
    let version = version_text(method.version);
    let variant = method.variant.map_or_else(String::new, |v| format!(" [code {} of {}]", v.number, v.of));
    let name = format!("{}.{}{version}{variant}", class.class, method.name);
    let entries = &method.entries;
    let noun = |n: &Tally, what: &str| if n.total() == 1 { what.to_owned() } else { format!("{what}s") };
    let count = |n: &Tally, what: &str, more| format!("{} {}", margin(n, more, blind), noun(n, what));
    let mut parts = vec![count(&entries.calls, "call", false)];
    let others = [(&entries.found, "found on the stack"), (&entries.unstarted, "unstarted")];
    parts
        .extend(others.iter().filter(|(n, _)| n.total() > 0).map(|(n, what)| format!("{} {what}", n.text())));
    parts.push(count(&method.bytecodes, "bytecode", method.perhaps_more));
    if method.malformed {
        parts.push("malformed code".to_owned());
    }
    let source = if class.source_file.is_empty() { "" } else { "  " };
    format!("{}{source}{}: {}\n", line(&name), line(&class.source_file), parts.join(", "))
}

fn blocks_of(method: &MethodBlocks, blind: bool) -> String {
    let row = |b: &super::BlockCount| {
        let lines = match b.lines {
            Some((first, last)) if first == last => first.to_string(),
            Some((first, last)) => format!("{first}–{last}"),
            None => String::new(),
        };
        let ways = method.ways.iter().filter(|w| w.bci == b.end);
        vec![
            margin(&b.executions, b.perhaps_more, blind),
            format!("{}–{}", b.bci, b.end),
            lines,
            b.bytecodes.to_string(),
            ways.map(|w| way(w, blind)).collect::<Vec<_>>().join(", "),
        ]
    };
    let columns = [
        ("executions", Align::Right),
        ("block", Align::Left),
        ("lines", Align::Left),
        ("bytecodes", Align::Right),
        ("ways", Align::Left),
    ];
    table(&columns, &method.blocks.iter().map(row).collect::<Vec<_>>())
}

fn lines_of(lines: &[LineCount], blind: bool) -> String {
    let row = |l: &LineCount| {
        vec![
            margin(&l.times, l.perhaps_more, blind),
            margin(&l.entered, l.perhaps_more, blind),
            l.line.to_string(),
            format!("{}/{}", l.executed, l.bytecodes),
        ]
    };
    let columns = [
        ("executions", Align::Right),
        ("entered", Align::Right),
        ("line", Align::Right),
        ("bytecodes", Align::Right),
    ];
    table(&columns, &lines.iter().map(row).collect::<Vec<_>>())
}

fn listing(code: &[BytecodeCount], ways: &[BranchWay], blind: bool) -> String {
    let mut last = None;
    let mut rows = Vec::new();
    for b in code {
        let ways = ways.iter().filter(|w| w.bci == b.bci);
        let line = b.line.filter(|line| last.replace(*line) != Some(*line));
        rows.push(vec![
            margin(&b.executions, b.perhaps_more, blind),
            if b.leader { ">" } else { "" }.to_owned(),
            b.bci.to_string(),
            b.instruction.clone(),
            ways.map(|w| way(w, blind)).collect::<Vec<_>>().join(", "),
            line.map_or_else(String::new, |line| line.to_string()),
        ]);
    }
    let columns = [
        ("executions", Align::Right),
        ("", Align::Left),
        ("bci", Align::Right),
        ("bytecode", Align::Left),
        ("ways", Align::Left),
        ("line", Align::Right),
    ];
    table(&columns, &rows)
}

fn way(way: &BranchWay, blind: bool) -> String {
    format!("→ {}: {}", way.to, margin(&way.times, way.perhaps_more, blind))
}

fn exception(way: &ExceptionWay, blind: bool) -> String {
    let from = way.from.map_or_else(|| "?".to_owned(), |from| from.to_string());
    let to = way.to.map_or_else(|| "out".to_owned(), |to| to.to_string());
    format!("exceptions {from} → {to}: {}\n", margin(&way.times, way.perhaps_more, blind))
}

/// A count of a block, line, bytecode or way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BlockRow<'a> {
    /// Binary name.
    pub class: &'a str,
    /// Loader, empty for the boot loader.
    pub loader: &'a str,
    /// Name and descriptor.
    pub method: &'a str,
    /// The number of the version, if the method was redefined.
    pub version: Option<u32>,
    /// Which of several methods of the name.
    pub variant: Option<u32>,
    /// `method`, `block`, `line`, `bytecode`, `way` or `exception`.
    pub item: &'static str,
    /// The first or only bytecode. Of an exception: what threw, empty if unknown.
    pub bci: Option<u16>,
    /// The last bytecode of a block, the target of a way, or the handler. Empty for an exception
    /// that left the method.
    pub to: Option<u16>,
    /// The source line, the first one of a block.
    pub line: Option<u16>,
    /// The instruction of a bytecode.
    pub instruction: Option<&'a str>,
    /// Executions, decoded. Of a method: its calls.
    pub decoded: u64,
    /// Executions, projected.
    pub projected: u64,
    /// Executions, recovered.
    pub recovered: u64,
    /// How often a line was entered from another line.
    pub entered: Option<u64>,
    /// Whether the count is complete.
    pub exact: bool,
    /// Whether more executions are possible.
    pub perhaps_more: bool,
}

fn rows_of<'a>(class: &'a ClassBlocks, m: &'a MethodBlocks) -> Vec<BlockRow<'a>> {
    let row = |item, times: &Tally, (exact, perhaps_more): (bool, bool)| BlockRow {
        class: &class.class,
        loader: &class.loader,
        method: &m.name,
        version: m.version.map(|v| v.number),
        variant: m.variant.map(|v| v.number),
        item,
        bci: None,
        to: None,
        line: None,
        instruction: None,
        decoded: times.decoded,
        projected: times.projected,
        recovered: times.recovered,
        entered: None,
        exact,
        perhaps_more,
    };
    let mut rows = vec![row("method", &m.entries.calls, (m.exact, m.perhaps_more))];
    rows.extend(m.blocks.iter().map(|b| BlockRow {
        bci: Some(b.bci),
        to: Some(b.end),
        line: b.lines.map(|l| l.0),
        ..row("block", &b.executions, (b.exact, b.perhaps_more))
    }));
    rows.extend(m.lines.iter().flatten().map(|l| BlockRow {
        line: Some(l.line),
        entered: Some(l.entered.total()),
        ..row("line", &l.times, (l.exact, l.perhaps_more))
    }));
    rows.extend(m.code.iter().flatten().map(|b| BlockRow {
        bci: Some(b.bci),
        line: b.line,
        instruction: Some(&b.instruction),
        ..row("bytecode", &b.executions, (b.exact, b.perhaps_more))
    }));
    rows.extend(m.ways.iter().map(|w| BlockRow {
        bci: Some(w.bci),
        to: Some(w.to),
        line: w.line,
        ..row("way", &w.times, (w.exact, w.perhaps_more))
    }));
    rows.extend(m.exceptions.iter().map(|e| BlockRow {
        bci: e.from,
        to: e.to,
        line: e.line,
        ..row("exception", &e.times, (e.exact, e.perhaps_more))
    }));
    rows
}
