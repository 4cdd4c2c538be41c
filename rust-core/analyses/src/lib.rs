// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Consumers of the flow: coverage, hot methods, calls, text output, and the comparison with
//! the probes that actually ran.
//!
//! Every report is a [`FlowConsumer`](jportal_flow::FlowConsumer). The driver passes it the
//! flows of all threads, possibly from several threads of its own. When all flows have ended,
//! the caller asks the report for its result. Memory is bounded by the number of methods and
//! call sites, never by the length of a flow.
//!
//! All reports distinguish how an event is known: *decoded*, *projected* (placed) or
//! *recovered* (filled), see [`Tally`]. The crate opens no files. Where it reads or writes, the
//! caller passes the stream.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod against;
pub mod calls;
pub mod circumstance;
pub mod coverage;
pub mod execution;
mod hidden;
pub mod hot;
pub mod jacoco;
pub mod names;
pub mod print;
mod shape;
mod stack;
mod table;
mod tally;
pub mod threads;
mod unrolled;
pub mod verify;

#[cfg(test)]
mod testing;

pub use execution::Execution;
pub use hidden::{Bounds, Inexact, Inlined, Missing, Most};
pub use tally::{Exclude, Tally};
pub use threads::{ThreadTotals, Threads};
pub use unrolled::Unrolled;
