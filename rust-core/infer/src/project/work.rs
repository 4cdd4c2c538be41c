// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The cost of a projection and its limits.

/// The limits of a projection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProjectionLimits {
    /// Transitions of any automaton.
    pub transitions: u64,
    /// The maximum number of states of the automaton at one symbol.
    pub width: usize,
    /// The maximum number of states with stacks at one symbol; beyond it the stacks are
    /// dropped.
    pub stacked: usize,
    /// The maximum size of the [`Dfa`](super::Dfa): its states, counted by their members. Also
    /// the maximum number of predecessors of a stretch that is still ambiguous, in addition to
    /// four for each symbol.
    pub cached: usize,
    /// The maximum number of places to which a return to an unknown frame may lead. If there
    /// are more, and only one place before the return, the search ends: what follows is a
    /// [segment of its own](crate::segment::Ends::returned), which later symbols may narrow
    /// down. No path is lost by that.
    pub returns: usize,
}

impl Default for ProjectionLimits {
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

/// The cost of a projection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Nodes examined as the place of a symbol from which a search begins.
    pub candidates: u64,
    /// Candidates whose abstraction was accepted (Algorithm 2, line 5).
    pub abstract_accepted: u64,
    /// Candidates that were tested on the concrete automaton.
    pub concrete_tested: u64,
    /// Candidates that were accepted.
    pub accepted: u64,
    /// Transitions of the abstract automaton that were computed.
    pub abstract_transitions: u64,
    /// Transitions of the concrete automaton.
    pub transitions: u64,
    /// How often stacks were dropped because there were too many.
    pub forgotten: u64,
    /// How often the cache of the abstract automaton was emptied.
    pub flushes: u64,
}

impl Work {
    /// The nodes examined and the transitions computed, which take about the same time each.
    pub const fn total(&self) -> u64 {
        self.candidates + self.transitions + self.abstract_transitions
    }
    /// Whether the limit on transitions is reached.
    pub(crate) fn exhausted(&self, limits: &ProjectionLimits) -> bool {
        self.transitions + self.abstract_transitions >= limits.transitions
    }
}
