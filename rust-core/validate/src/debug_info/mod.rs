// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the debug info of compiled code with where control was.
//!
//! Path markers say which bytecode block of which inlined frames compiled code is in. They do
//! not come from `PcDesc`s, so they can judge them. While the trace is decoded, a
//! [`StateCollector`] counts the states that compiled code reaches: calls, polls, instructions
//! that may fault, traps, exceptions, frames that the interpreter continues. Then
//! [`DebugInfoReport`] compares each state with what the VM said of that place.
//!
//! What markers do not say, the judge takes from what control did: a call of `f()V` is that of an
//! invoke of `f()V`. It never takes it from debug info. Where only debug info says
//! where control was, the verdict is [`StateVerdict::NotJudged`].

mod collect;
#[cfg(test)]
mod debug_info_tests;
mod judge;
mod place;
mod reasons;
mod report;
mod samples;

pub use collect::{FirstSeen, Reached, StateCollector};
pub use judge::{StateGroup, StateVerdict};
pub(crate) use place::{FramePosition, Layouts, frames_of_scope};
pub use report::{
    DebugInfoReport, ImpossibleCode, Instructions, ReportLimits, SampleRow, StateCounts, StateFinding,
    StateFrame, StatePlace, StateRow, UnjudgedRow,
};
pub use samples::SampleCounts;
pub(crate) use samples::{marked_up_to, whereabouts};
