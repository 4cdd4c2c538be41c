// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The errors of this crate.

use crate::capture::OLDEST;
use jportal_units::{Core, StreamOffset};
use std::path::PathBuf;

/// Why a capture cannot be degraded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has no trace.
    #[error("the capture holds no PT: there is nothing to lose")]
    NoTrace,
    /// The records of this source have another clock.
    #[error("the trace comes from {source_name}: only that of an emulated unit can be degraded")]
    Source {
        /// Name of the source.
        source_name: &'static str,
    },
    /// The capture lost something, or is damaged.
    #[error("the capture is not whole: {what}")]
    NotWhole {
        /// What is missing.
        what: String,
    },
    /// The output has the present format, which promises more than records of an older format
    /// contain.
    #[error(
        "the capture has format {}.{}: record it anew with the present VM, format {}.{} or later",
        found.0, found.1, OLDEST.0, OLDEST.1
    )]
    OldFormat {
        /// The version of the capture.
        found: (u16, u16),
    },
    /// The output is the input.
    #[error("{}: output and input are the same file", path.display())]
    SameFile {
        /// The output.
        path: PathBuf,
    },
    /// The trace lost something when it was recorded.
    #[error("{core} lost trace when it was recorded: {what} at {offset}")]
    Lossy {
        /// The core.
        core: Core,
        /// Offset in its stream.
        offset: StreamOffset,
        /// What shows the loss.
        what: &'static str,
    },
    /// The records do not cover the trace.
    #[error("the records of {core} do not cover its trace: {found} where {expected} was expected")]
    Cover {
        /// The core.
        core: Core,
        /// Expected offset.
        expected: StreamOffset,
        /// Offset that was found.
        found: StreamOffset,
    },
    /// The sideband contains bytes that are not records.
    #[error("{core}: {source}")]
    Record {
        /// The core.
        core: Core,
        /// The cause.
        source: jportal_perf_abi::Error,
    },
    /// The trace contains bytes that are not packets.
    #[error("{core}: {source}")]
    Packet {
        /// The core.
        core: Core,
        /// The cause.
        source: jportal_pt_packet::Error,
    },
    /// The frequency of the TSC is unknown, so that no time can be calculated.
    #[error("the capture does not say how fast the TSC runs")]
    NoFrequency,
    /// No ring can have this size.
    #[error("an AUX buffer of {size} bytes: expected a power of two of at least 8192")]
    RingSize {
        /// The requested size.
        size: u64,
    },
    /// A share, bandwidth, distance or timer out of range.
    #[error("{what} of {value}: expected {expected}")]
    Amount {
        /// Name of the setting.
        what: &'static str,
        /// The requested value.
        value: f64,
        /// The possible values.
        expected: &'static str,
    },
    /// With compressed returns, an overflow would require knowledge of how hardware treats its
    /// return stack.
    #[error("returns are compressed: the meaning of a return after a simulated overflow is not known")]
    CompressedReturns,
    /// The capture cannot be read or written.
    #[error(transparent)]
    Capture(#[from] jportal_capture::Error),
}
