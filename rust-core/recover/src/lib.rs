// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the hardware lost: projection of segments onto the ICFG and recovery of what lies between them.
//!
//! Data loss cuts the trace of a thread into segments. *Projection* asks where in the program a segment lies whose
//! bytecodes are known but not their positions ([`project`], paper §4). *Recovery* asks what ran in the gap between two
//! segments whose positions are known ([`fill`], paper §5). For each there are the paper's algorithms, as it has them,
//! and one of our own that uses what the paper's tracer does not see.
//!
//! The crate knows no packets, no machine code, no file and no clock but the numbers it is handed. It spends bounded time
//! and memory whatever it is handed: where a [limit](project::Limits) is met it says so. Where nothing fits it says
//! that, too, and where several paths fit, how many.
#![forbid(unsafe_code)]

// The programs of the tests beside the crate are those of the tests in it.
#[cfg(test)]
extern crate self as jportal_recover;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub mod cut;
mod error;
pub mod fill;
pub mod project;
pub mod segment;

pub use error::Error;
pub use segment::{Outcome, Segment, Symbol};
