// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timelines for Perfetto and for the Firefox Profiler.

pub mod firefox;
pub mod perfetto;

use jportal_flow::{Entry, Exit};
use jportal_units::Tsc;

/// Turns times of the TSC into times since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Time 0 of the export.
    pub start: Tsc,
    /// Ticks per millisecond.
    pub tsc_khz: u64,
}

impl Clock {
    /// Nanoseconds since the start; 0 for times before it.
    pub fn ns(self, time: Tsc) -> u64 {
        let ticks = u128::from(time.get().saturating_sub(self.start.get()));
        u64::try_from(ticks * 1_000_000 / u128::from(self.tsc_khz.max(1))).unwrap_or(u64::MAX)
    }
}

/// The process that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id; 0 if unknown.
    pub pid: u32,
    /// A name for people.
    pub name: String,
}

/// How an activation began, if not by a call.
const fn entry_name(entry: Entry) -> Option<&'static str> {
    match entry {
        Entry::Call => None,
        Entry::Upcall => Some("called by the VM or native code"),
        Entry::Osr | Entry::Deoptimisation | Entry::Found => Some("not seen"),
    }
}

/// How an activation ended, if not by a return.
const fn exit_name(exit: Option<Exit>) -> Option<&'static str> {
    match exit {
        Some(Exit::Return) => None,
        Some(Exit::Unwind) => Some("exception"),
        Some(Exit::PopFrame) => Some("removed by a debugger"),
        Some(Exit::EarlyReturn) => Some("returned by a debugger"),
        Some(Exit::Unknown) => Some("return or exception"),
        Some(Exit::Replaced | Exit::Lost) | None => Some("not seen"),
    }
}

#[cfg(test)]
mod testing;
