// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The stacks that JFR took in the recorded run, judged by the flow.
//!
//! [`JfrSamples`] reads what `jfr print --json` prints of `jdk.ExecutionSample` and
//! `jdk.NativeMethodSample`. [`JfrAnalysis`] follows the flows and searches each thread for the
//! stacks.

mod judge;
#[cfg(test)]
mod judge_tests;
mod read;
#[cfg(test)]
mod read_tests;
mod report;
mod search;
#[cfg(test)]
pub(super) mod testing;
mod time;

pub use judge::{JfrAnalysis, JfrOptions, JfrThread};
pub use read::{JFR_EVENTS, JfrError, JfrSamples};
pub use report::{
    JfrDistances, JfrFrameRow, JfrGroupRow, JfrReport, JfrRow, JfrUnjudgedRow, JfrVerdict, JfrWhere,
    WrongSample,
};
pub use time::WallClock;
