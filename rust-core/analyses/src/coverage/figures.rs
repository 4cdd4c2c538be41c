// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Executed and present items.

use jportal_flow::Tally;
use jportal_plain::table::percent;
use serde::{Deserialize, Serialize};

use crate::blocks::State;

/// The number of executed items and the number present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    /// Certainly executed, by the best provenance.
    pub executed: Tally,
    /// Present in the class.
    pub present: u64,
    /// Possibly executed, but never seen.
    pub unknown: u64,
    /// Upper bound of the executed items: those that were seen and those that are unknown.
    pub at_most: u64,
}

impl Ratio {
    /// Adds one item with its executions, under the best provenance of them. `perhaps_more`:
    /// whether more executions are possible.
    pub(crate) fn add(&mut self, times: &Tally, perhaps_more: bool) {
        self.present += 1;
        let Tally { decoded, projected, recovered } = &mut self.executed;
        match times {
            Tally { decoded: 1.., .. } => *decoded += 1,
            Tally { projected: 1.., .. } => *projected += 1,
            Tally { recovered: 1.., .. } => *recovered += 1,
            _ => self.unknown += u64::from(perhaps_more),
        }
        self.at_most = self.executed.total() + self.unknown;
    }
    pub(crate) fn merge(&mut self, other: &Self) {
        self.executed.merge(&other.executed);
        self.present += other.present;
        self.unknown += other.unknown;
        self.at_most += other.at_most;
    }
    /// The items that were not executed: present, and neither seen nor unknown.
    pub const fn missed(&self) -> u64 {
        self.present.saturating_sub(self.at_most)
    }
    /// The state of the whole: executed if an item is.
    pub(crate) const fn state(&self) -> State {
        State::of(&self.executed, self.unknown > 0)
    }
    /// The count and the percentage: `8/12` and `66.7%`, or `8–9/12` and `66.7–75.0%`.
    pub(crate) fn cells(&self) -> [String; 2] {
        let Self { present, at_most, .. } = *self;
        let done = self.executed.total();
        if self.unknown == 0 {
            return [format!("{done}/{present}"), percent(done, present)];
        }
        let least = percent(done, present);
        let most = percent(at_most, present);
        [format!("{done}–{at_most}/{present}"), format!("{}–{most}", least.trim_end_matches('%'))]
    }
}

/// Coverage of the parts of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytecode instructions.
    pub bytecodes: Ratio,
    /// Source lines.
    pub lines: Ratio,
    /// Branch outcomes.
    pub branches: Ratio,
}

impl Figures {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.bytecodes.merge(&other.bytecodes);
        self.lines.merge(&other.lines);
        self.branches.merge(&other.branches);
    }
    pub(crate) const fn has_unknown(&self) -> bool {
        self.bytecodes.unknown + self.lines.unknown + self.branches.unknown > 0
    }
}

/// Coverage of methods and classes. A method counts as executed when one of its bytecodes was, a
/// class when one of its methods was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    /// Methods with bytecode.
    pub methods: Ratio,
    /// Classes that have such methods.
    pub classes: Ratio,
}

impl Units {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.methods.merge(&other.methods);
        self.classes.merge(&other.classes);
    }
}
