// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Turns a loss-free capture into the capture that lost trace would have left: the truth of
//! every gap is known.
//!
//! Two kinds of lost trace, in the order in which they affect the trace:
//!
//! * [`overflow`]: the unit's internal buffer overflows. Packets are missing, and an OVF is in
//!   their place, with or without a FUP after it (SDM vol. 3, "Overflow (OVF) Packet").
//! * [`ring`]: a core's AUX buffer is full. Tracing stops at the end of a region and stays off
//!   until the drain has made room; the stream resumes with a PSB (`arch/x86/events/intel/pt.c`).
//!   [`shape`] instead stops the unit in the worst places for a decoder.
//!
//! [`capture`] reads a capture, asks the model what is lost and writes the rest. Lost bytes
//! take no room in the stream, as `aux_head` does not move while a unit is off: the remaining
//! stream is contiguous, and the records of the sideband mark where it was cut. Finally,
//! [`sideband`] removes records themselves, as a full data ring does. Metadata lose nothing.
//!
//! Constraints: the same seed gives the same bytes; input is not trusted; one core's trace is
//! in memory at a time. Non-goals: captures that have lost something already, and sources whose
//! records have another clock than the TSC.
#![forbid(unsafe_code)]

pub mod capture;
mod error;
pub mod map;
pub mod overflow;
mod random;
pub mod ring;
pub mod shape;
pub mod sideband;
pub mod trace;

pub use capture::{Amount, CoreTruth, Degraded, GapTruth, LossSettings, Plan, Reason, ThreadTruth};
pub use error::Error;
pub use shape::Shape;
pub use sideband::{LostRecords, SidebandTruth};
