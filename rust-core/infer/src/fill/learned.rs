// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is learned from all captured data.

use super::Captured;
use super::contexts::Contexts;
use super::frequencies::Frequencies;
use super::lengths::Lengths;
use super::passage::{AllExits, Exited, Passages};
use jportal_bytecode::Icfg;

/// Places by their context, how often the execution went which way, and what follows from
/// these.
#[derive(Debug)]
pub struct Learned {
    /// Places by what precedes or follows them.
    pub(super) contexts: Contexts,
    pub(super) frequencies: Frequencies,
    /// The likeliest ways out of the methods that were executed.
    pub(super) exits: AllExits,
    /// How far the expected lengths of gaps can be trusted.
    pub(super) lengths: Lengths,
}

impl Learned {
    /// Learns from `captured`, whose instructions are those of `icfg`, on several threads.
    /// Hidden segments are among the places, for recoveries from which they are not hidden;
    /// they do not count as frequencies.
    pub fn new(icfg: &Icfg, captured: &Captured) -> Self {
        std::thread::scope(|scope| {
            let contexts = scope.spawn(|| Contexts::new(captured));
            let frequencies = Frequencies::new(captured);
            let none = AllExits::new();
            let passages = Passages { icfg, frequencies: &frequencies, known: &Exited::new(&none) };
            let exits = passages.exits_of_executed();
            // The join fails only if the other thread panicked; then this thread panics, too.
            let contexts = contexts.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Self { contexts, frequencies, exits, lengths: Lengths::default() }
        })
    }
    /// The same, with what is known about the lengths of gaps.
    #[must_use]
    pub fn with_lengths(self, lengths: Lengths) -> Self {
        Self { lengths, ..self }
    }
}
