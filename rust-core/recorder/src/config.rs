// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use crate::Error;
use crate::log::Log;
use std::path::PathBuf;
use std::time::Duration;

/// Where PT comes from (`-XX:JPortalSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Intel PT. An emulated unit that the environment names must be selected.
    #[default]
    Auto,
    /// Intel PT through `perf_event_open`.
    Perf,
    /// The emulated unit that the environment names.
    Emulated,
    /// No PT: metadata only.
    None,
    /// No PT, but the thread switches of each core: the part of `perf` that every machine has.
    Sideband,
}

impl TryFrom<i32> for Source {
    type Error = Error;
    fn try_from(number: i32) -> Result<Self, Error> {
        Ok(match number {
            0 => Self::Auto,
            1 => Self::Perf,
            2 => Self::Emulated,
            3 => Self::None,
            4 => Self::Sideband,
            _ => {
                return Err(Error::Configuration {
                    field: "source",
                    value: number.to_string(),
                    rule: "known are 0 auto, 1 perf, 2 emulated, 3 none, 4 sideband",
                });
            }
        })
    }
}

/// Default size of the export ring. The paper has 2 MB, all of which would stay in memory. What
/// does not fit goes to the overflow, so a small ring costs a short program neither time nor
/// records.
pub(crate) const DEFAULT_RING: u64 = 512 << 10;
/// Smallest and largest size of the ring.
const RING_LIMITS: std::ops::RangeInclusive<u64> = (64 << 10)..=jportal_capture::ring_file::LARGEST;

/// When the flight recorder leaves metadata out of its capture that no dump needs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trimming {
    /// Smallest length of the capture, in bytes, at which it is trimmed. A capture that was trimmed
    /// must also have doubled since.
    pub above: u64,
    /// After a trimming, a dump reaches back at most to this time before it.
    pub reach: Duration,
    /// What ended up to this time before the reach stays described, because threads may notice late
    /// that code has changed.
    pub margin: Duration,
    /// How long it waits after an attempt that came to nothing.
    pub retry: Duration,
}

impl Default for Trimming {
    fn default() -> Self {
        let five = Duration::from_secs(5);
        Self { above: 16 << 20, reach: Duration::from_secs(30), margin: five, retry: five }
    }
}

/// How long a thread of the VM waits for the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageLimits {
    /// For ring and capture, at the start of the recording.
    pub start: Duration,
    /// For a dump.
    pub dump: Duration,
    /// For one write, at the end of the recording.
    pub write: Duration,
    /// For the whole end of the recording.
    pub end: Duration,
}

impl Default for StorageLimits {
    fn default() -> Self {
        let twenty = Duration::from_secs(20);
        Self { start: twenty, dump: twenty, write: Duration::from_secs(5), end: Duration::from_secs(60) }
    }
}

/// What to record, and into which file.
#[derive(Clone, Default)]
pub struct RecordingConfig {
    /// Path of the capture.
    pub path: PathBuf,
    /// Where PT comes from.
    pub source: Source,
    /// Bytes of the export ring, 0 for the default; rounded up to a power of two. Its overflow can
    /// hold more ([`crate::CAPACITY`]).
    pub ring_bytes: u64,
    /// The private folder for the ring's file; `None`: that of the user in `/dev/shm`.
    pub ring_folder: Option<PathBuf>,
    /// AUX bytes per core, 0 for the device's default, which is what the limit on locked memory
    /// allows. Ignored by the emulated unit, which has its own size.
    pub buffer_bytes: u64,
    /// Flight recorder: the number of last bytes of each core to keep for dumps. 0: record
    /// everything.
    pub snapshot_bytes: u64,
    /// Flight recorder: when metadata is trimmed.
    pub trimming: Trimming,
    /// How long a thread of the VM waits for the file system.
    pub limits: StorageLimits,
    /// The VM is already running: all of its threads are traced, not only the calling thread
    /// and those that it creates. The emulated unit always traces all threads.
    pub attach: bool,
    /// For the capture's header: version of the VM.
    pub vm_version: String,
    /// For the capture's header: non-default flags.
    pub vm_flags: String,
    /// For the capture's header: the Java command.
    pub java_command: String,
    /// Where log lines go.
    pub log: Log,
}

impl RecordingConfig {
    /// The ring's size after rounding.
    pub(crate) fn ring_size(&self) -> Result<u64, Error> {
        let bytes = if self.ring_bytes == 0 { DEFAULT_RING } else { self.ring_bytes };
        if bytes > *RING_LIMITS.end() {
            return Err(Error::Configuration {
                field: "JPortalRingSize",
                value: bytes.to_string(),
                rule: "at most 1G",
            });
        }
        Ok(bytes.max(*RING_LIMITS.start()).next_power_of_two())
    }
}
