// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Only what was missed.

use jportal_plain::line;
use serde::Serialize;

use super::{Coverage, MethodCoverage, WayCoverage};
use crate::blocks::State;
use crate::names::{Version, version_text};

/// What was missed of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UncoveredMethod {
    /// Name and descriptor.
    pub name: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Whether all of its bytecodes were missed.
    pub whole: bool,
    /// Number of bytecodes that were missed.
    pub bytecodes: u64,
    /// Lines of which no bytecode was executed.
    pub lines: Vec<u16>,
    /// Branch outcomes that were missed, of branches that are on executed lines. Absent if the
    /// coverage was made without counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Vec<WayCoverage>>,
}

/// What was missed of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UncoveredClass {
    /// Binary name.
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: String,
    /// Whether all of its methods were missed.
    pub whole: bool,
    /// The methods of which something was missed, in order of definition.
    pub methods: Vec<UncoveredMethod>,
}

/// What was missed, and nothing else. What is unknown is not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uncovered {
    /// Whether everything here was certainly not executed in the threads shown. It is not
    /// certain where trace was lost.
    pub missed_is_certain: bool,
    /// Classes of which something was missed, by name.
    pub classes: Vec<UncoveredClass>,
    /// Why it is not certain.
    #[serde(skip)]
    note: String,
}

impl Coverage {
    /// Only what was missed. Branch outcomes need counts
    /// ([`counts`](super::CoverageOptions::counts)).
    pub fn uncovered(&self) -> Uncovered {
        let class = |class: &super::ClassCoverage| UncoveredClass {
            class: class.class.clone(),
            loader: class.loader.clone(),
            source_file: class.source_file.clone(),
            whole: class.units.methods.missed() == class.units.methods.present,
            methods: class.methods.iter().filter_map(missed).collect(),
        };
        let classes = self.classes.iter().map(class).filter(|c| !c.methods.is_empty()).collect();
        Uncovered { missed_is_certain: self.missed_is_certain, classes, note: self.blind_note() }
    }
}

fn missed(method: &MethodCoverage) -> Option<UncoveredMethod> {
    let bytecodes = method.figures.bytecodes.missed();
    let ways = method.detail.as_ref().map(|detail| {
        let line_missed = |line: Option<u16>| line.is_some_and(|l| method.missed_lines.contains(&l));
        let ways = detail.branches.iter().filter(|w| w.state == State::Missed && !line_missed(w.line));
        ways.cloned().collect::<Vec<_>>()
    });
    if bytecodes == 0 && ways.as_ref().is_none_or(Vec::is_empty) && method.figures.branches.missed() == 0 {
        return None;
    }
    Some(UncoveredMethod {
        name: method.name.clone(),
        version: method.version,
        whole: bytecodes == method.figures.bytecodes.present,
        bytecodes,
        lines: method.missed_lines.clone(),
        ways,
    })
}

impl Uncovered {
    /// The report as text: a line for each method, under a line for each class.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for class in &self.classes {
            let whole = if class.whole { ": never executed" } else { "" };
            text.push_str(&format!("{}{whole}\n", line(&class.class)));
            for method in class.methods.iter().filter(|_| !class.whole) {
                text.push_str(&method.text());
            }
        }
        if text.is_empty() {
            text.push_str("nothing was missed\n");
        }
        text + &self.note
    }
}

impl UncoveredMethod {
    fn text(&self) -> String {
        let name = line(&self.name).into_owned() + &version_text(self.version);
        if self.whole {
            return format!("  {name}: never executed\n");
        }
        let mut parts = vec![crate::hidden::counted(self.bytecodes, "bytecode")];
        if !self.lines.is_empty() {
            parts.push(format!("lines {}", ranges(&self.lines)));
        }
        let ways = self.ways.iter().flatten().map(|way| {
            let place = way.line.map_or_else(String::new, |line| format!(" in line {line}"));
            let bci = |bci: Option<u16>| bci.map_or_else(|| "?".to_owned(), |bci| bci.to_string());
            format!("way {} → {}{place}", bci(way.from), bci(way.to))
        });
        parts.extend(ways);
        format!("  {name}: {}\n", parts.join("; "))
    }
}

/// `4–8, 15`: ascending lines, with consecutive ones together.
fn ranges(lines: &[u16]) -> String {
    let mut all: Vec<(u16, u16)> = Vec::new();
    for &line in lines {
        match all.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(line) => *last = line,
            _ => all.push((line, line)),
        }
    }
    let text = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    };
    all.iter().map(text).collect::<Vec<_>>().join(", ")
}
