// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What users ask of a flow: coverage, hot methods, calls, text output, totals.
//!
//! Every report is an [`Analysis`](jportal_flow::Analysis). Memory is bounded by the number of
//! methods and call sites, never by the length of a flow. All reports distinguish how an event is
//! known: *decoded*, *projected* (placed) or *recovered* (filled), see
//! [`Tally`](jportal_flow::Tally). The crate opens no files. Where it writes, the caller passes the
//! stream.
//!
//! [`Execution`] measures which share of the threads' execution a flow covers. [`Unrolled`] splits
//! runs for analyses that take no runs.
#![forbid(unsafe_code)]

pub mod block_trace;
pub mod blocks;
mod buckets;
pub mod call_trace;
pub mod calls;
pub mod coverage;
pub mod diff;
pub mod execution;
mod hidden;
pub mod hot;
pub mod jit;
mod known;
pub mod latency;
pub mod metrics;
pub mod names;
pub mod natives;
pub mod original;
pub mod paths;
pub mod polymorphism;
pub mod print;
pub mod select;
pub mod sites;
pub mod threads;
pub mod timeline;
pub mod tree;
mod unrolled;

#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod testing;

pub use execution::Execution;
pub use hidden::{Bounds, Inexact, Inlined, Missing, Most};
pub use threads::{ThreadTotals, Threads};
pub use unrolled::Unrolled;
