// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Flows with gaps to flows whose gaps are filled.
//!
//! [`Completion`] stands between the decoder and what reads its flows. While the capture is decoded it writes the events of
//! each thread to a temporary file and keeps the instructions to learn from. When the decode is over it fills the gaps with
//! the methods of `recover`, gap after gap, and hands each thread's flow on: the same events, and in the place of a gap
//! that was filled those of the fill.
//!
//! # What a fill looks like
//! Its events are those that a decoded flow would have: bytecodes, frames entered and left, exceptions caught, each with
//! [`Provenance::Recovered`](jportal_flow::Provenance::Recovered) and a confidence between 0 and 1. Frames nest with those on
//! both sides: what the decoder gave up as lost in front of the gap goes on, and what it found behind the gap is what
//! the fill has led to. A fill whose frames cannot do that is none. It follows that more frames are known behind a fill than the
//! decoder knew; should they turn out wrong later, the flow goes on without them behind a gap
//! ([`GapReason::Reconstruct`](jportal_flow::GapReason::Reconstruct)) that itself is `Recovered`.
//!
//! A frame that a fill enters is executed by whoever executed that method last, in this thread up to there or, if it did not,
//! anywhere in the run; else by the interpreter. If the frame turns out to be executed by another one behind the gap, it is
//! replaced at the gap's end as on-stack replacement or deoptimisation does it.
//!
//! Compiled code may go past an invoke without a callee (intrinsics); the interpreter does not. Where a copy of it is executed by an
//! interpreted frame whose method nobody compiled, the invoke gets the likeliest way through a callee, or a native method that the graph
//! names there.
//!
//! # What is filled
//! Gaps of all reasons but [`GapReason::Ambiguous`](jportal_flow::GapReason::Ambiguous). A gap with
//! [`GapReason::Reconstruct`](jportal_flow::GapReason::Reconstruct) is filled like the others: no trace was lost, but the
//! position was, up to the next frame that is found. Orphans, bytecodes in frames of which nothing is known, are part of the
//! fill: one that does not begin and end with those around the gap, or in which those between two gaps do not come, is none. A frame that is
//! found behind the gap and returns before any of its bytecodes is known ends the fill. The fewer there are the better, so flows should
//! come here with their orphans placed. Nothing is filled where an
//! [`EventKind::Unresolved`](jportal_flow::EventKind::Unresolved) stretch is between the two ends, nor at the beginning and
//! the end of a thread. What is not filled comes out as it went in, so a flow without gaps is not changed at all.
//!
//! # Cost
//! Each instruction that is learned from takes 4 bytes and three eighths of one for its tiers; with [`Method::Tiered`] 4 more for each of
//! the two tiers it belongs to (calls; control transfers): some 7 in real programs. Its tables take 150 MB at most, and what is known of the graph's methods some 10 bytes per instruction of them. [`Settings::longest_captured`] bounds the
//! instructions, [`Summary::not_learned`] says how many more there were. Events take some two bytes each in a temporary
//! file, a fill some 50 bytes per event while it stands in for its gap, and 4 for each of its instructions while it waits for that, as up
//! to three do.
//!
//! The crate opens no file itself: the caller hands it what the events are written to.
#![forbid(unsafe_code)]

mod codec;
mod completion;
mod error;
mod filler;
mod holes;
mod replay;
mod spool;
mod stack;
mod summary;
#[cfg(test)]
#[path = "../../recover/tests/support/mod.rs"]
mod support;

pub use completion::{Clock, Completion, Open, Settings};
pub use error::Error;
pub use filler::Method;
pub use spool::Storage;
pub use summary::{Figures, Seconds, Summary, ThreadFigures, Work};
