// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Fills the gaps of flows.
//!
//! [`Completion`] sits between the decoder and the consumer of its flows. During the decode it
//! writes the events of each thread to a temporary file and keeps the instructions to learn
//! from. After the decode it fills the gaps in order with the methods of [`fill`](crate::fill).
//! It passes each thread's flow to the consumer: the same events, but each filled gap is
//! replaced by the events of its fill.
//!
//! # Contents of a fill
//! A fill has the events that a decoded flow would have: bytecodes, frames entered and left,
//! exceptions caught. Each has [`Provenance::Recovered`](jportal_flow::Provenance::Recovered)
//! and a confidence between 0 and 1. Its frames nest with those on both sides: the frames that
//! the decoder gave up as lost before the gap continue, and the fill leads to the frames that
//! the decoder found after the gap. A fill whose frames cannot do that is rejected. After a
//! fill, more frames are known than the decoder knew. If these frames turn out to be wrong
//! later, the flow continues without them, after a gap
//! ([`GapReason::Reconstruct`](jportal_flow::GapReason::Reconstruct)) that is itself
//! `Recovered`.
//!
//! The tier of a frame that a fill enters is the one that executed the method last: in this
//! thread before the gap or, if the thread did not execute it, anywhere in the run; else the
//! interpreter. If the frame has another tier after the gap, it is replaced at the end of the
//! gap, as by on-stack replacement or deoptimisation.
//!
//! Compiled code may pass an invoke without a callee (intrinsics); the interpreter does not. A
//! fill may copy such code into an interpreted frame whose method was never compiled. The
//! invoke then gets the most likely path through a callee, or a native method that the graph
//! names there.
//!
//! # Which gaps are filled
//! Gaps of all reasons. A gap with
//! [`GapReason::Reconstruct`](jportal_flow::GapReason::Reconstruct) is filled like the
//! others: no trace was lost, but the position was unknown until the next frame was found. The
//! fill contains the orphans, which are bytecodes in frames of which nothing is known: it must
//! begin and end with the orphans around the gap and contain those between two gaps. A fill
//! that does not is rejected. If a frame is found after the gap and returns before any of its
//! bytecodes is known, the fill ends with the end of that frame. Fewer orphans make better
//! fills, so flows should arrive with their orphans placed. Nothing is filled across an
//! [`EventKind::Unresolved`](jportal_flow::EventKind::Unresolved) stretch, nor at the beginning
//! and the end of a thread. All that is not filled is passed on unchanged, so a flow without
//! gaps does not change at all.
//!
//! # Cost
//! Each instruction to learn from takes 4 bytes, and 3/8 byte for its tiers. With
//! [`FillMethod::Tiered`] it takes 4 more for each of the two tiers it belongs to (calls; control
//! transfers): about 7 in real programs. The tables of [`FillMethod::Follow`] take at most 150 MB,
//! and its knowledge about the graph's methods about 10 bytes per instruction of them.
//! [`CompletionSettings::longest_captured`] bounds the instructions; [`Summary::not_learned`] is
//! the number beyond the bound. An event takes about two bytes in a temporary file. A fill takes
//! about 50 bytes per event while it replaces its gap, and 4 bytes per instruction while it
//! waits for that; up to three fills wait.
//!
//! The module opens no file itself: the caller supplies the storage for the events.

mod codec;
mod completion;
mod filler;
mod holes;
mod replayer;
mod spool;
mod stack;
mod summary;

pub use completion::{Clock, Completion, CompletionSettings, Open};
pub use filler::FillMethod;
pub use spool::Storage;
pub use summary::{Figures, Seconds, Summary, ThreadFigures, Work};
