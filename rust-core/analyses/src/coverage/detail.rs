// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts of the lines and ways of a method.

use std::collections::BTreeMap;

use jportal_bytecode::{Cfg, instructions};
use jportal_flow::Tally;
use jportal_units::Bci;
use serde::{Deserialize, Serialize};

use super::Ratio;
use crate::blocks::{Entries, Facts, OfLine, Parts, State, Throw};
use crate::hidden::may_throw;

/// Counts of a method and of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Whether one of its bytecodes was executed.
    pub state: State,
    /// How often it was entered.
    pub entries: Entries,
    /// Its lines, ascending.
    pub lines: Vec<LineCoverage>,
    /// Its branch outcomes, by bci and target.
    pub branches: Vec<WayCoverage>,
    /// The ways that exceptions took, by bci and target. If exceptions count as branches, also
    /// those that they might have taken.
    pub exceptions: Vec<WayCoverage>,
}

/// A source line of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCoverage {
    /// The line.
    pub line: u16,
    /// Whether one of its bytecodes was executed.
    pub state: State,
    /// Executions: the greatest count of its bytecodes. A lower bound if `perhaps_more`.
    pub times: Tally,
    /// How often it was entered from another line, or from the beginning of the method.
    pub entered: Tally,
    /// Whether more executions are possible in an unresolved stretch, or in a frame that existed
    /// where trace was lost.
    pub perhaps_more: bool,
    /// Its bytecodes.
    pub bytecodes: Ratio,
    /// The outcomes of its branches.
    pub branches: Ratio,
}

impl LineCoverage {
    pub(super) fn new(line: u16) -> Self {
        let (times, entered) = Default::default();
        let (bytecodes, branches) = Default::default();
        Self { line, state: State::Missed, times, entered, perhaps_more: false, bytecodes, branches }
    }
    /// Adds what is known of the line in one code of the method.
    pub(super) fn add(&mut self, of: &OfLine) {
        self.state = self.state.or(of.state());
        self.times.merge(&of.times);
        self.entered.merge(&of.entered);
        self.perhaps_more |= of.perhaps_more;
        self.bytecodes.merge(&of.bytecodes);
    }
}

/// A way from one bytecode of a method to another, or out of the method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayCoverage {
    /// Which code of the method, from 1, if methods of the same name have different code.
    pub code: u32,
    /// The branch, or the bytecode that threw. `None` if it is unknown.
    pub from: Option<u16>,
    /// The target. `None`: out of the method.
    pub to: Option<u16>,
    /// The source line of `from`, if known.
    pub line: Option<u16>,
    /// Whether it was taken.
    pub state: State,
    /// How often it was taken. A lower bound if `perhaps_more`.
    pub times: Tally,
    /// Whether it may have been taken more often, see [`LineCoverage::perhaps_more`].
    pub perhaps_more: bool,
}

fn way(
    (code, parts): (u32, &Parts<'_>),
    (from, to): (Option<Bci>, Option<Bci>),
    (times, perhaps_more): (Tally, bool),
) -> WayCoverage {
    WayCoverage {
        code,
        from: from.map(Bci::get),
        to: to.map(Bci::get),
        line: from.and_then(|bci| parts.method.line_at(bci)),
        state: State::of(&times, perhaps_more),
        times,
        perhaps_more,
    }
}

/// The outcomes of the conditionals and switches.
pub(super) fn branch_ways<'a>(
    code: u32,
    parts: &'a Parts<'a>,
    facts: &'a Facts,
) -> impl Iterator<Item = WayCoverage> + 'a {
    let branches = parts.shape.branches.iter();
    let ways = branches.flat_map(|b| (b.slot..).zip(&b.successors).map(|(slot, to)| (b.bci, slot, *to)));
    ways.map(move |(from, slot, to)| way((code, parts), (Some(from), Some(to)), facts.way(slot)))
}

/// The ways that exceptions took; with `all`, also those that they might have taken.
pub(super) fn exception_ways(code: u32, parts: &Parts<'_>, facts: &Facts, all: bool) -> Vec<WayCoverage> {
    let mut ways: BTreeMap<Throw, Tally> = facts.throws.clone();
    if all {
        for way in possible(parts) {
            ways.entry(way).or_default();
        }
    }
    let one = |(throw, times): (Throw, Tally)| {
        let number = throw.from.and_then(|bci| parts.number(bci));
        way((code, parts), (throw.from, throw.to), (times, facts.may_throw_more(number)))
    };
    ways.into_iter().map(one).collect()
}

/// The ways that exceptions may take by the code. None if the code cannot be parsed.
fn possible(parts: &Parts<'_>) -> Vec<Throw> {
    let Ok(cfg) = Cfg::of(parts.method) else { return Vec::new() };
    let mut all = Vec::new();
    for (at, i) in (0..).zip(instructions(&parts.method.code).map_while(Result::ok)) {
        if !may_throw(i.opcode) {
            continue;
        }
        let from = Some(i.bci);
        let handlers = cfg.handlers(at).filter_map(|h| cfg.starts().get(h as usize));
        all.extend(handlers.map(|to| Throw { from, to: Some(*to) }));
        let caught = cfg.rows().iter().any(|r| r.catches_all && (r.start..r.end).contains(&at));
        if !caught {
            all.push(Throw { from, to: None });
        }
    }
    all
}
