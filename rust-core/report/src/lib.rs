// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Clients of the flow: coverage, hot methods, calls, text, and the comparison with the
//! probes that really ran.
//!
//! Every report is a [`FlowConsumer`](jportal_flow::FlowConsumer): the driver hands it the
//! flows of all threads, possibly from several threads of its own, and the report is asked
//! for its result when all are through. Memory is bounded by the number of methods and
//! call sites, never by the length of a flow.
//!
//! How an event is known is kept apart everywhere: *decoded*, *projected*, *recovered*
//! (see [`Tally`]). The crate opens no files; where it reads or writes, the caller hands
//! it the stream.
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
