// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares lists: hot methods, calls, coverage by method.

use std::collections::BTreeMap;

use super::collect::{Collector, DiffSubject, Figures, Lines, Pair, add};
use super::{Diff, DiffOptions, DocumentKind, loader};
use crate::calls::Calls;
use crate::coverage::{Coverage, MethodCoverage};
use crate::hot::HotMethods;
use crate::names::stable;

/// Adds up and compares the methods.
pub(super) fn hot_methods(both: [&HotMethods; 2], options: &DiffOptions) -> Diff {
    let mut rows: BTreeMap<(String, String), Pair<2>> = BTreeMap::new();
    for (side, result) in both.into_iter().enumerate() {
        for m in result.methods.iter().filter(|m| options.selects_qualified(&m.method)) {
            let key = (options.name(&m.method, m.version), loader(&m.loader));
            let figures = [m.counts.bytecodes.total(), m.counts.calls.total()];
            add(&mut rows.entry(key).or_default()[side], figures);
        }
    }
    let mut collector = Collector::new(["bytecodes", "calls"], options);
    for ((method, loader), pair) in rows {
        collector.item(pair, Lines::default(), || DiffSubject { thread: None, path: vec![method], loader });
    }
    collector.end(DocumentKind::HotMethods)
}

/// Adds up and compares the pairs of call site and target. Patterns select by the callee.
pub(super) fn calls(both: [&Calls; 2], options: &DiffOptions) -> Diff {
    let mut rows: BTreeMap<(String, Option<u16>, String), Pair<1>> = BTreeMap::new();
    for (side, result) in both.into_iter().enumerate() {
        for c in result.calls.iter().filter(|c| options.selects_qualified(&c.callee)) {
            let caller = options.name(&c.caller, c.caller_version);
            let key = (caller, c.bci, options.name(&c.callee, c.callee_version));
            add(&mut rows.entry(key).or_default()[side], [c.count.total()]);
        }
    }
    let mut collector = Collector::new(["calls"], options);
    for ((caller, bci, callee), pair) in rows {
        let from = || bci.map_or_else(|| caller.clone(), |bci| format!("{caller} @{bci}"));
        let place = || DiffSubject { path: vec![from(), callee], ..DiffSubject::default() };
        collector.item(pair, Lines::default(), place);
    }
    collector.end(DocumentKind::Calls)
}

/// Numbers of executed, present and unknown items.
const COVERAGE: [&str; 9] = [
    "bytecodes",
    "bytecodes.present",
    "bytecodes.unknown",
    "lines",
    "lines.present",
    "lines.unknown",
    "branches",
    "branches.present",
    "branches.unknown",
];

/// The methods of one name, added up.
#[derive(Default)]
struct Covered {
    figures: Pair<9>,
    /// In how many of the methods a line counts as missed.
    missed: BTreeMap<u16, [u64; 2]>,
}

/// Adds up and compares the methods of all classes.
pub(super) fn coverage(both: [&Coverage; 2], options: &DiffOptions) -> Diff {
    let mut rows: BTreeMap<(String, String, String), Covered> = BTreeMap::new();
    for (side, result) in both.into_iter().enumerate() {
        for class in &result.classes {
            for m in &class.methods {
                let simple = m.name.split_once('(').map_or(m.name.as_str(), |(name, _)| name);
                if !options.selects(&class.class, simple) {
                    continue;
                }
                let method = format!("{}{}", m.name, options.version(m.version));
                let key = (stable(&class.class).into_owned(), loader(&class.loader), method);
                let row = rows.entry(key).or_default();
                add(&mut row.figures[side], figures(m));
                for line in &m.missed_lines {
                    row.missed.entry(*line).or_default()[side] += 1;
                }
            }
        }
    }
    let mut collector = Collector::new(COVERAGE, options);
    for ((class, loader, method), row) in rows {
        let lines = missed_on_one_side(&row);
        collector.item(row.figures, lines, || DiffSubject {
            thread: None,
            path: vec![class, method],
            loader,
        });
    }
    collector.end(DocumentKind::Coverage)
}

fn figures(m: &MethodCoverage) -> Figures<9> {
    let [b, l, r] = [&m.figures.bytecodes, &m.figures.lines, &m.figures.branches].map(|ratio| {
        let executed = ratio.executed.total();
        [executed, ratio.present, ratio.unknown]
    });
    [b[0], b[1], b[2], l[0], l[1], l[2], r[0], r[1], r[2]]
}

/// Lines that are missed more often on one side. None if a side lacks the method.
fn missed_on_one_side(row: &Covered) -> Lines {
    let mut lines = Lines::default();
    if row.figures.iter().all(Option::is_some) {
        for (line, [before, after]) in &row.missed {
            match before.cmp(after) {
                std::cmp::Ordering::Less => lines.0.push(*line),
                std::cmp::Ordering::Greater => lines.1.push(*line),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    lines
}
