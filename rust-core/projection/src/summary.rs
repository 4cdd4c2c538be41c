// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What projection found.

use serde::Serialize;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Stretches of orphan bytecodes.
    pub stretches: u64,
    /// Orphan bytecodes.
    pub orphans: u64,
    /// Those of them that have one place only.
    pub certain: u64,
    /// Those that have one of several places.
    pub ambiguous: u64,
    /// Those of stretches that fit nowhere.
    pub nowhere: u64,
    /// Those of stretches at which a limit was met.
    pub given_up: u64,
    /// Transitions of automata that were looked at.
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
