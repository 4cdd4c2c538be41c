// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What can go wrong.

use crate::capture::OLDEST;
use jportal_units::{Core, StreamOffset};
use std::path::PathBuf;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has no trace.
    #[error("the capture holds no PT: there is nothing to lose")]
    NoTrace,
    /// Records of this source have another clock.
    #[error("the trace comes from {source_name}: only that of an emulated unit can be degraded")]
    Source {
        /// Name of the source.
        source_name: &'static str,
    },
    /// Something was lost or damaged before.
    #[error("the capture is not whole: {what}")]
    NotWhole {
        /// What is missing.
        what: String,
    },
    /// The output has the present format, which promises what records of an older one do not hold.
    #[error(
        "the capture has format {}.{}: record it anew with the present VM, format {}.{} or later",
        found.0, found.1, OLDEST.0, OLDEST.1
    )]
    OldFormat {
        /// Its version.
        found: (u16, u16),
    },
    /// The output is the input.
    #[error("{}: output and input are the same file", path.display())]
    SameFile {
        /// The output.
        path: PathBuf,
    },
    /// The trace has lost something already.
    #[error("{core} lost trace when it was recorded: {what} at {offset}")]
    Lossy {
        /// Where.
        core: Core,
        /// Place in its stream.
        offset: StreamOffset,
        /// How it shows.
        what: &'static str,
    },
    /// Records and trace do not fit.
    #[error("the records of {core} do not cover its trace: {found} where {expected} was expected")]
    Cover {
        /// Where.
        core: Core,
        /// Offset that comes next.
        expected: StreamOffset,
        /// Offset that was found.
        found: StreamOffset,
    },
    /// Bytes between records that are no records.
    #[error("{core}: {source}")]
    Record {
        /// Where.
        core: Core,
        /// What is wrong.
        source: jportal_perf_abi::Error,
    },
    /// Bytes that are no packets.
    #[error("{core}: {source}")]
    Packet {
        /// Where.
        core: Core,
        /// What is wrong.
        source: jportal_pt_packet::Error,
    },
    /// Time cannot be counted.
    #[error("the capture does not say how fast the TSC runs")]
    NoFrequency,
    /// A ring of this size cannot be.
    #[error("an AUX buffer of {size} bytes: expected a power of two of at least 8192")]
    RingSize {
        /// As asked for.
        size: u64,
    },
    /// A share or bandwidth out of range.
    #[error("{what} of {value}: expected {expected}")]
    Amount {
        /// Of what.
        what: &'static str,
        /// As asked for.
        value: f64,
        /// What can be.
        expected: &'static str,
    },
    /// Overflow would need to know what silicon does with its return stack.
    #[error("returns are compressed: what a return means behind an overflow that was made up is not known")]
    CompressedReturns,
    /// The capture cannot be read or written.
    #[error(transparent)]
    Capture(#[from] jportal_capture::Error),
}
