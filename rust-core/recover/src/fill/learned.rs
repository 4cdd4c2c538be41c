// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is asked of everything that was captured.

use super::Captured;
use super::contexts::Contexts;
use super::frequencies::Frequencies;
use super::lengths::Lengths;
use super::passage::{AllExits, Exited, Passages};
use jportal_bytecode::Icfg;

/// Places by their context, and how often the run went which way.
#[derive(Debug)]
pub struct Learned {
    /// Places by what stands in front of them, or behind them.
    pub(super) contexts: Contexts,
    pub(super) frequencies: Frequencies,
    /// The likeliest ways out of the methods that were executed.
    pub(super) exits: AllExits,
    /// How far the lengths that are expected of gaps can be trusted.
    pub(super) lengths: Lengths,
}

impl Learned {
    /// Learns `captured`, whose instructions are those of `icfg`; on several threads. What is hidden there stands among the places, for
    /// recoveries from which it is not hidden, and is not counted.
    pub fn new(icfg: &Icfg, captured: &Captured) -> Self {
        std::thread::scope(|scope| {
            let contexts = scope.spawn(|| Contexts::new(captured));
            let frequencies = Frequencies::new(captured);
            let none = AllExits::new();
            let passages = Passages { icfg, frequencies: &frequencies, known: &Exited::new(&none) };
            let exits = passages.exits_of_executed();
            // Only a panic ends the other thread, and that is one of this thread as well then.
            let contexts = contexts.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Self { contexts, frequencies, exits, lengths: Lengths::default() }
        })
    }
    /// The same, with what is known of the lengths of gaps.
    #[must_use]
    pub fn with_lengths(self, lengths: Lengths) -> Self {
        Self { lengths, ..self }
    }
}
