// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the stacks that the JVM's own interfaces gave with the stack of the flow.
//!
//! The stacks agent (`tests/stacks-agent`) takes stacks while a program is recorded. It takes
//! them in `Probe.hit`, a native method that the oracle agent inserts calls of. The n-th call of it
//! in a thread is the n-th entry of that method in the thread's flow. So the moment is found by
//! counting, and no clock is compared.
//!
//! It also takes stacks at any moment, in a signal handler and from another thread. The flow knows
//! where a thread paused, so the pause is found by the time, and by the interrupted instruction.
//!
//! [`jfr`] judges the stacks that JFR took in the same run, and [`grade`] compares the profile of
//! any profiler with the exact one.

mod anytime;
#[cfg(test)]
mod anytime_tests;
mod compare;
pub mod grade;
pub mod jfr;
mod judge;
mod log;
mod moments;
mod report;
#[cfg(test)]
mod stacks_tests;
mod true_stack;
mod walk;
#[cfg(test)]
mod walk_tests;

pub use anytime::{AnytimeCounts, AnytimeJudge};
pub use compare::{Detail, StackVerdict};
pub use judge::{JudgedThread, StacksAnalysis, StacksOptions};
pub use log::{LoggedMethods, StackApi, StackLog, StackLogError};
pub use moments::MomentFinder;
pub use report::{
    ShownFrame, StackApiRow, StackFrameRow, StackGroupRow, StackTierRow, StackUnjudgedRow, StacksReport,
    WrongStack,
};
