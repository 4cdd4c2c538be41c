// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage as text.

use jportal_flow::Tally;
use jportal_plain::line;
use jportal_plain::table::{Align, table};

use super::{ClassCoverage, Coverage, Figures, LineCoverage, MethodCoverage, Ratio, WayCoverage};
use crate::hidden::{Bounds, counted};
use crate::hot::at_least;
use crate::names::version_text;

impl Coverage {
    /// A table of classes, with their methods when `methods` is set.
    pub fn text(&self, methods: bool) -> String {
        let mut rows = Vec::new();
        for class in &self.classes {
            rows.push(row(&class.class, &class.figures));
            for method in class.methods.iter().filter(|_| methods) {
                let name = format!("  {}{}", method.name, version_text(method.version));
                rows.push(row(&name, &method.figures));
            }
        }
        rows.push(row(&format!("total ({} classes)", self.classes.len()), &self.total));
        let columns = [
            ("class", Align::Left),
            ("bytecodes", Align::Right),
            ("", Align::Right),
            ("lines", Align::Right),
            ("", Align::Right),
            ("branches", Align::Right),
            ("", Align::Right),
        ];
        table(&columns, &rows) + &self.notes()
    }
    /// The lines with their counts, by class and method. Methods without counts
    /// ([`counts`](super::CoverageOptions::counts)) have no lines.
    pub fn counts_text(&self) -> String {
        let blind = self.inexact.is_blind();
        let mut text = String::new();
        for class in &self.classes {
            text.push_str(&class_heading(class));
            class.methods.iter().for_each(|method| text.push_str(&counts_of(method, blind)));
            text.push('\n');
        }
        text + &self.notes()
    }
    fn notes(&self) -> String {
        let notes = [self.units_note(), self.provenance_note(), self.unknown_note(), self.blind_note()];
        notes.concat()
    }
    fn units_note(&self) -> String {
        let share = |ratio: &Ratio, what: &str| {
            let [count, share] = ratio.cells();
            format!("{count} {what} ({share})")
        };
        let (methods, classes) =
            (share(&self.units.methods, "methods"), share(&self.units.classes, "classes"));
        format!("executed: {methods}, {classes}\n")
    }
    fn provenance_note(&self) -> String {
        let Tally { projected, recovered, .. } = self.total.bytecodes.executed;
        if projected + recovered == 0 {
            return String::new();
        }
        format!(
            "of the executed bytecodes, {projected} are known by projection only, {recovered} by recovery only\n"
        )
    }
    fn unknown_note(&self) -> String {
        if !self.total.has_unknown() {
            return String::new();
        }
        let Figures { bytecodes, lines, branches } = &self.total;
        let why = [self.inexact.stretches_text(), self.inexact.blind_text()];
        let why: Vec<_> = why.into_iter().filter(|w| !w.is_empty()).collect();
        let parts = [
            counted(bytecodes.unknown, "bytecode"),
            counted(lines.unknown, "line"),
            match branches.unknown {
                1 => "1 branch".to_owned(),
                n => format!("{n} branches"),
            },
        ];
        let (parts, why) = (parts.join(", "), why.join("; "));
        format!("{parts} are unknown, neither executed for certain nor missed: {why}\n")
    }
    pub(super) fn blind_note(&self) -> String {
        match self.inexact.blind_text() {
            why if why.is_empty() => why,
            why => format!("{why}: what counts as missed was not seen, but may have been executed there\n"),
        }
    }
}

fn row(name: &str, f: &Figures) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for ratio in [&f.bytecodes, &f.lines, &f.branches] {
        cells.extend(ratio.cells());
    }
    cells
}

fn class_heading(class: &ClassCoverage) -> String {
    let source = match &*class.source_file {
        "" => String::new(),
        file => format!("  {}", line(file)),
    };
    let [methods, share] = class.units.methods.cells();
    format!("{}{source}: {methods} methods ({share})\n", line(&class.class))
}

fn counts_of(method: &MethodCoverage, blind: bool) -> String {
    let Some(detail) = &method.detail else { return String::new() };
    let calls = match detail.entries.calls.total() {
        1 => "1 call".to_owned(),
        _ => format!("{} calls", at_least(&detail.entries.calls, Bounds::default(), 0, blind)),
    };
    let name = line(&method.name).into_owned() + &version_text(method.version);
    let mut text = format!("{name}: {calls}\n");
    let rows: Vec<_> = detail.lines.iter().map(|line| line_row(line, blind)).collect();
    let columns = [
        ("executions", Align::Right),
        ("entered", Align::Right),
        ("line", Align::Right),
        ("bytecodes", Align::Right),
        ("branches", Align::Right),
    ];
    if !rows.is_empty() {
        text.push_str(&table(&columns, &rows));
    }
    detail.exceptions.iter().for_each(|way| text.push_str(&exception(way, blind)));
    text
}

fn line_row(line: &LineCoverage, blind: bool) -> Vec<String> {
    let count = |times: &Tally| at_least(times, Bounds::default(), 0, line.perhaps_more || blind);
    let [bytecodes, _] = line.bytecodes.cells();
    let branches = if line.branches.present == 0 { String::new() } else { line.branches.cells()[0].clone() };
    vec![count(&line.times), count(&line.entered), line.line.to_string(), bytecodes, branches]
}

fn exception(way: &WayCoverage, blind: bool) -> String {
    let from = way.from.map_or_else(|| "?".to_owned(), |bci| bci.to_string());
    let to = way.to.map_or_else(|| "out".to_owned(), |bci| bci.to_string());
    let times = at_least(&way.times, Bounds::default(), 0, way.perhaps_more || blind);
    format!("exceptions {from} → {to}: {times}\n")
}
