// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the tables contain, and the files that they are split into.

use std::fmt;
use std::io::Write;
use std::num::NonZeroU64;

use jportal_flow::{Exclude, ThreadInfo};
use jportal_units::Tsc;

/// Receives a file.
pub type Output = Box<dyn Write + Send>;

/// What the tables contain.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Whether there is a table of events.
    pub events: bool,
    /// The time that one file of events covers. `None`: the whole flow of a thread.
    pub slices: Option<Slices>,
    /// Whether `calls`, `blocks` and `events` have a column `thread`. Leave it off if the paths of
    /// the files say the thread: programs that read partitions add the column.
    pub thread_column: bool,
    /// Keys and values that each file gets as metadata, for example the name of the capture.
    pub labels: Vec<(String, String)>,
    /// Events that are left out.
    pub exclude: Exclude,
}

/// Parts of the recording's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Where the first part begins.
    pub origin: Tsc,
    /// Ticks of the TSC in each part.
    pub ticks: NonZeroU64,
}

impl Slices {
    pub(super) fn at(self, tsc: Tsc) -> u64 {
        tsc.get().saturating_sub(self.origin.get()) / self.ticks
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The methods of the recording.
    Methods,
    /// The threads.
    Threads,
    /// Calls by site and callee.
    Calls,
    /// Executions of blocks.
    Blocks,
    /// The events of the flow.
    Events,
}

impl Table {
    /// The name, also of its folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Methods => "methods",
            Self::Threads => "threads",
            Self::Calls => "calls",
            Self::Blocks => "blocks",
            Self::Events => "events",
        }
    }
}

/// A thread of a recording. The operating system may give its number to another thread later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey {
    /// TSC of its start, 0 if unknown.
    pub started: u64,
    /// OS thread id.
    pub tid: u32,
}

impl ThreadKey {
    /// The key of a thread.
    pub const fn of(info: &ThreadInfo) -> Self {
        Self { started: info.started.get(), tid: info.tid.get() }
    }
}

impl fmt::Display for ThreadKey {
    /// `<tid>-<start>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.tid, self.started)
    }
}

/// The part of a table that is in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The table.
    pub table: Table,
    /// The thread; `None` for a table that is in one file.
    pub thread: Option<ThreadKey>,
    /// The number of the part of time.
    pub slice: Option<u64>,
}

impl Partition {
    /// The path of the file in the folder of one capture:
    /// `events/thread=4711-0/time=3/part-0.parquet`.
    pub fn path(&self) -> String {
        self.path_after("")
    }
    /// The path of the file in the folder of many captures:
    /// `events/capture=web-1/thread=4711-0/time=3/part-0.parquet`. As in Hive, characters of the
    /// capture's name other than letters, digits, `.`, `-` and `_` are written as `%2F`.
    pub fn path_in_fleet(&self, capture: &str) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let escaped: String = capture
            .bytes()
            .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
            .collect();
        self.path_after(&format!("/capture={escaped}"))
    }
    fn path_after(&self, capture: &str) -> String {
        let thread = self.thread.map_or_else(String::new, |key| format!("/thread={key}"));
        let slice = self.slice.map_or_else(String::new, |n| format!("/time={n}"));
        format!("{}{capture}{thread}{slice}/part-0.parquet", self.table.name())
    }
}
