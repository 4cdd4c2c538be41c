// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage from what is known of each method.

use std::collections::BTreeMap;

use jportal_bytecode::Method;
use jportal_flow::Tally;

use super::detail::{Detail, LineCoverage, WayCoverage, branch_ways, exception_ways};
use super::{ClassCoverage, Coverage, CoverageOptions, Figures, MethodCoverage, Ratio, Units};
use crate::blocks::{ClassRows, CountsAnalysis, Entries, MethodVariants, State};

impl CountsAnalysis {
    /// The coverage of the classes whose methods `wanted` accepts.
    pub fn coverage(&self, options: CoverageOptions, wanted: impl Fn(&Method) -> bool) -> Coverage {
        let classes: Vec<_> = self.rows(wanted).into_iter().map(|rows| class_of(rows, options)).collect();
        let (mut total, mut units) = (Figures::default(), Units::default());
        for class in &classes {
            total.merge(&class.figures);
            units.merge(&class.units);
        }
        let inexact = self.hidden.inexact.clone();
        Coverage {
            exact: !inexact.is_lossy() && !total.has_unknown(),
            missed_is_certain: !inexact.is_blind(),
            inexact,
            total,
            units,
            classes,
        }
    }
}

fn class_of(rows: ClassRows<'_>, options: CoverageOptions) -> ClassCoverage {
    let ClassRows { class, loader, source_file, rows, .. } = rows;
    let methods: Vec<_> = rows.into_iter().map(|row| cover(row, options)).collect();
    let (mut figures, mut units) = (Figures::default(), Units::default());
    for method in &methods {
        figures.merge(&method.figures);
        let code = &method.figures.bytecodes;
        units.methods.add(&code.executed, code.unknown > 0);
    }
    units.classes.add(&units.methods.executed, units.methods.unknown > 0);
    ClassCoverage { class, loader, source_file, figures, units, methods }
}

/// Sums up one row. Bytecodes and branches of different code are added; equal line numbers are
/// the same line.
fn cover(row: MethodVariants<'_>, options: CoverageOptions) -> MethodCoverage {
    let MethodVariants { name, version, variants } = row;
    let mut figures = Figures::default();
    let mut lines = BTreeMap::<u16, LineCoverage>::new();
    let (mut branches, mut exceptions) = (Vec::new(), Vec::new());
    let mut entries = Entries::default();
    for (number, (parts, facts)) in (1..).zip(&variants) {
        for at in 0..parts.shape.starts.len() {
            let (times, perhaps_more) = facts.at(at);
            figures.bytecodes.add(&times, perhaps_more);
        }
        for (line, of) in facts.lines(parts) {
            lines.entry(line).or_insert_with(|| LineCoverage::new(line)).add(&of);
        }
        branches.extend(branch_ways(number, parts, facts));
        exceptions.extend(exception_ways(number, parts, facts, options.exception_branches));
        entries.merge(&facts.entries);
    }
    let counted = exceptions.iter().filter(|_| options.exception_branches);
    for way in branches.iter().chain(counted) {
        figures.branches.add(&way.times, way.perhaps_more);
        if let Some(line) = way.line.and_then(|line| lines.get_mut(&line)) {
            line.branches.add(&way.times, way.perhaps_more);
        }
    }
    lines.values().for_each(|line| add_line(&mut figures.lines, line));
    let of = |state| lines.values().filter(|l| l.state == state).map(|l| l.line).collect();
    let (missed_lines, unknown_lines) = (of(State::Missed), of(State::Unknown));
    let detail = options.counts.then(|| Detail {
        state: figures.bytecodes.state(),
        entries,
        lines: lines.into_values().collect(),
        branches,
        exceptions,
    });
    MethodCoverage { name, version, figures, missed_lines, unknown_lines, detail }
}

/// A line is known by the best provenance of its bytecodes.
fn add_line(lines: &mut Ratio, line: &LineCoverage) {
    let executed: &Tally = &line.bytecodes.executed;
    lines.add(executed, line.bytecodes.unknown > 0);
}

impl WayCoverage {
    /// Whether two ways leave the same bytecode.
    pub fn is_of_branch(&self, other: &Self) -> bool {
        (self.code, self.from) == (other.code, other.from)
    }
}
