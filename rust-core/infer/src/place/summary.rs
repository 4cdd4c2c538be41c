// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The results of placing orphans.

use serde::Serialize;

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Stretches of orphan bytecodes.
    pub stretches: u64,
    /// Orphan bytecodes.
    pub orphans: u64,
    /// Orphan bytecodes that have one place only.
    pub certain: u64,
    /// Orphan bytecodes that have several places.
    pub ambiguous: u64,
    /// Orphan bytecodes that fit nowhere.
    pub nowhere: u64,
    /// Orphan bytecodes that were given up because a limit was reached.
    pub given_up: u64,
    /// Transitions of automata and places to begin at that were examined.
    pub transitions: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: &Self) {
        self.stretches += other.stretches;
        self.orphans += other.orphans;
        self.certain += other.certain;
        self.ambiguous += other.ambiguous;
        self.nowhere += other.nowhere;
        self.given_up += other.given_up;
        self.transitions += other.transitions;
    }
}
