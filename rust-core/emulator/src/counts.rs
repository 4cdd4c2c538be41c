// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counters of a core.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use crate::unit::Sent;

/// Numbers of events on a core.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CoreCounts {
    /// Blocks inside the range.
    pub blocks: u64,
    /// Transitions between blocks that no outcome explains.
    pub anomalies: u64,
    /// Blocks cut short by a restart of QEMU inside the block or by a fault.
    pub cuts: u64,
    /// Faults inside the range.
    pub faults: u64,
    /// Asynchronous signals inside the range.
    pub interrupts: u64,
    /// Signals before the first instruction after entering the range.
    pub at_entry: u64,
    /// Threads that were preempted.
    pub preemptions: u64,
    /// How often the host did not run the guest's code of a thread that had a core.
    pub held_up: u64,
    /// Blocks that executed with bytes that differed from memory.
    pub stale: u64,
}

impl CoreCounts {
    /// Adds `other`.
    pub fn add(&mut self, other: &CoreCounts) {
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

/// Counters of one core that other threads may read at any time.
#[derive(Debug, Default)]
pub struct Board {
    /// [`CoreCounts::blocks`]; it lags by at most one chunk of trace.
    pub blocks: AtomicU64,
    /// [`CoreCounts::anomalies`], with the same lag.
    pub anomalies: AtomicU64,
    /// Counters of the closed sections of the stream.
    pub past: Mutex<Past>,
}

/// Counters of closed sections.
#[derive(Debug, Default)]
pub struct Past {
    /// Events.
    pub counts: CoreCounts,
    /// Packets.
    pub sent: Sent,
    /// Descriptions of anomalies.
    pub anomalies: Vec<String>,
}
