// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::path::PathBuf;

/// What can be wrong with rings, records and the shared file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be created, opened or mapped.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The shared file is not that of an emulated unit.
    #[error("{path} is not an emulated PT unit: magic {found:#018x}, expected {expected:#018x}")]
    Magic {
        /// The file.
        path: PathBuf,
        /// Magic as read.
        found: u64,
        /// Magic of this version.
        expected: u64,
    },
    /// The shared file has another layout.
    #[error(
        "{path} has layout version {found}, this build speaks {expected}: use emulator and VM of one build"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version as read.
        found: u32,
        /// Version of this build.
        expected: u32,
    },
    /// A size in the configuration or in the shared file cannot be.
    #[error("{field} is {value}, must be {rule}")]
    Configuration {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// A core was named that does not exist.
    #[error("core {core} does not exist, there are {cores}")]
    NoSuchCore {
        /// The core asked for.
        core: u32,
        /// How many there are.
        cores: u32,
    },
    /// The producer's position is impossible: something else wrote the control page.
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
    /// A record's header is impossible; nothing behind it can be read.
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
    /// A file of sysfs says something we do not understand.
    #[error("{path} says {text:?}, expected {rule}")]
    Sysfs {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
        /// What it should be.
        rule: &'static str,
    },
}
