//! What is asked of everything that was captured.

use super::Captured;
use super::contexts::Contexts;
use super::frequencies::Frequencies;
use jportal_bytecode::Icfg;

/// Places by their context, and how often the run went which way.
#[derive(Debug)]
pub struct Learned {
    /// Places by what stands in front of them.
    pub(super) contexts: Contexts,
    /// Places by what stands behind them.
    pub(super) behind: Contexts,
    pub(super) frequencies: Frequencies,
}

impl Learned {
    /// Learns `captured`, whose instructions are those of `icfg`; on two threads. What is hidden there stands among the places, for
    /// recoveries from which it is not hidden, and is not counted.
    pub fn new(icfg: &Icfg, captured: &Captured) -> Self {
        let (behind, (contexts, frequencies)) = std::thread::scope(|scope| {
            let behind = scope.spawn(|| Contexts::backwards(captured));
            let rest = (Contexts::new(captured), Frequencies::new(icfg, captured));
            // Only a panic ends the other thread, and that is one of this thread as well then.
            (behind.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), rest)
        });
        Self { contexts, behind, frequencies }
    }
}
