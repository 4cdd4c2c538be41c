// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The price of a projection and its bounds.

/// What a projection may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Transitions of any automaton.
    pub transitions: u64,
    /// States that the automaton may be in at one symbol.
    pub width: usize,
    /// States with stacks at one symbol; beyond that the stacks are forgotten.
    pub stacked: usize,
    /// States of the [`Dfa`](super::Dfa) kept, counted by their members, and predecessors kept of a stretch that is still
    /// ambiguous, beside four for each symbol.
    pub cached: usize,
    /// Where a return to a frame of which nothing is known may lead to more places than these, and one place is all there is in front
    /// of it, the search ends: what follows is a [segment of its own](crate::segment::Ends::returned), of which something further on
    /// may tell more. No path is lost so.
    pub returns: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transitions: 200_000_000,
            width: 1 << 20,
            stacked: 1 << 12,
            cached: 4 << 20,
            returns: usize::MAX,
        }
    }
}

/// What a projection cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Starting nodes examined: those with the first symbol's opcode.
    pub candidates: u64,
    /// Those whose abstraction was accepted (Algorithm 2, line 5).
    pub abstract_accepted: u64,
    /// Those tested on the concrete automaton.
    pub concrete_tested: u64,
    /// Those accepted.
    pub accepted: u64,
    /// Transitions of the abstract automaton that were worked out.
    pub abstract_transitions: u64,
    /// Transitions of the concrete automaton.
    pub transitions: u64,
    /// How often stacks were forgotten because they were too many.
    pub forgotten: u64,
    /// How often the cache of the abstract automaton was emptied.
    pub flushes: u64,
}

impl Work {
    /// Whether another transition would be one too many.
    pub(crate) fn exhausted(&self, limits: &Limits) -> bool {
        self.transitions + self.abstract_transitions >= limits.transitions
    }
}
