// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What cores count.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use crate::unit::Sent;

/// What a core has counted.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Blocks inside the range.
    pub blocks: u64,
    /// Transitions that nothing explained.
    pub anomalies: u64,
    /// QEMU's restarts inside a block, and faults: blocks cut short.
    pub cuts: u64,
    /// Faults inside the range.
    pub faults: u64,
    /// Asynchronous signals inside the range.
    pub interrupts: u64,
    /// Signals before the first instruction after entering the range.
    pub at_entry: u64,
    /// Threads that were preempted.
    pub preemptions: u64,
    /// Times at which the host did not run the guest's code of a thread that had a core.
    pub held_up: u64,
    /// Blocks that ran as they had been before their thread waited for a core.
    pub stale: u64,
}

impl Counts {
    /// Adds `other`.
    pub fn add(&mut self, other: &Counts) {
        self.blocks += other.blocks;
        self.anomalies += other.anomalies;
        self.cuts += other.cuts;
        self.faults += other.faults;
        self.interrupts += other.interrupts;
        self.at_entry += other.at_entry;
        self.preemptions += other.preemptions;
        self.held_up += other.held_up;
        self.stale += other.stale;
    }
}

/// Counters of one core that others may read at any time.
#[derive(Debug, Default)]
pub struct Board {
    /// [`Counts::blocks`]; behind by at most a chunk of trace.
    pub blocks: AtomicU64,
    /// [`Counts::anomalies`]; likewise.
    pub anomalies: AtomicU64,
    /// What the units of the closed sections of the stream counted.
    pub past: Mutex<Past>,
}

/// Counters of closed sections.
#[derive(Debug, Default)]
pub struct Past {
    /// Events.
    pub counts: Counts,
    /// Packets.
    pub sent: Sent,
    /// Descriptions of anomalies.
    pub anomalies: Vec<String>,
}
