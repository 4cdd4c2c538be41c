// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A loss-free capture as it would have been had trace been lost: the truth of every gap is known.
//!
//! Two kinds of lost trace, in the order in which it meets them:
//!
//! * [`overflow`]: the unit's internal buffer is overrun. Packets are missing, an OVF stands in
//!   their place, with or without a FUP behind it (SDM vol. 3, "Overflow (OVF) Packet").
//! * [`ring`]: a core's AUX buffer is full. Tracing stops at the end of a region and stays off until the
//!   drain has made room; the stream goes on with a PSB (`facts/perf-abi.md`, section 3). [`shape`] has it so in places
//!   that are the worst for a decoder instead.
//!
//! [`capture`] reads a capture, asks the model what is lost and writes what is left. Lost bytes take no room
//! in the stream, as `aux_head` does not move while a unit is off: what is left is contiguous, and the records of the
//! sideband say where it was cut. Last, [`sideband`]: records themselves are missing, for the data ring was full. Metadata lose
//! nothing.
//!
//! Constraints: the same seed gives the same bytes; input is not trusted; one core's trace is in memory
//! at a time. Non-goals: captures that have lost something already, and sources whose records carry another clock than
//! the TSC.
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

pub use capture::{Amount, CoreTruth, Degraded, GapTruth, Plan, Reason, Settings, ThreadTruth};
pub use error::Error;
pub use shape::Shape;
pub use sideband::{LostRecords, SidebandTruth};
