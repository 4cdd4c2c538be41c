// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::path::PathBuf;

/// Errors of rings, records and the shared file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no memory.
    #[error("no memory for {bytes} bytes")]
    Memory {
        /// How much was wanted.
        bytes: usize,
    },
    /// A file could not be created, opened or mapped.
    #[error("{action} {path}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The shared file does not belong to an emulated unit.
    #[error("{path} is not an emulated PT unit: magic {found:#018x}, expected {expected:#018x}")]
    Magic {
        /// The file.
        path: PathBuf,
        /// Magic number in the file.
        found: u64,
        /// Expected magic number.
        expected: u64,
    },
    /// The shared file has another layout version.
    #[error(
        "{path} has layout version {found}, this build speaks {expected}: use emulator and VM of one build"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// Version of this build.
        expected: u32,
    },
    /// A size in the configuration or in the shared file is invalid.
    #[error("{field} is {value}, must be {rule}")]
    Configuration {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The rule that the value violates.
        rule: &'static str,
    },
    /// The requested core does not exist.
    #[error("core {core} does not exist, there are {cores}")]
    NoSuchCore {
        /// The requested core.
        core: u32,
        /// Number of cores.
        cores: u32,
    },
    /// The producer's position is impossible, so something other than the producer wrote to the
    /// control page.
    #[error("{ring} ring is corrupt: head {head}, tail {tail}, size {size}")]
    CorruptRing {
        /// `data` or `AUX`.
        ring: &'static str,
        /// Producer's position.
        head: u64,
        /// Consumer's position.
        tail: u64,
        /// Bytes of the ring.
        size: u64,
    },
    /// A record's header is invalid; nothing after it can be read.
    #[error("record at byte {at}: size {size} is impossible ({left} bytes left)")]
    RecordSize {
        /// Offset of the header.
        at: usize,
        /// Size it claims.
        size: usize,
        /// Bytes left from the header on.
        left: usize,
    },
    /// A record is too short for its type; the next one can be read.
    #[error("record at byte {at} of type {kind}: {size} bytes are too few")]
    RecordBody {
        /// Offset of the header.
        at: usize,
        /// `perf_event_type`.
        kind: u32,
        /// Its size, header included.
        size: usize,
    },
    /// A file of sysfs has content that cannot be parsed.
    #[error("{path} says {text:?}, expected {rule}")]
    Sysfs {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
        /// The expected form.
        rule: &'static str,
    },
}
