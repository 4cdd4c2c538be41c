// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Handles data loss: places segments in the ICFG and fills the gaps between them.
//!
//! Data loss cuts the trace of a thread into segments. For a segment whose bytecodes are known
//! but not their positions, *projection* finds where in the program it lies ([`project`], paper
//! §4). For a gap between two segments whose positions are known, *recovery* infers what ran in
//! it ([`fill`], paper §5). Both modules have the paper's algorithms unchanged, and one of our
//! own that uses information that the paper's tracer does not see. [`place`] and [`replay`] apply
//! them to flows: they sit between the decoder and a consumer.
//!
//! The crate does not know packets, machine code, files or clocks; times are plain numbers from
//! the caller. Its time and memory are bounded for any input. It reports where it met a
//! [limit](project::ProjectionLimits), where nothing fits, and, where several paths fit, how
//! many.

#![forbid(unsafe_code)]

// The unit tests share the example programs in `tests/support` with the integration tests,
// which name this crate `jportal_infer`.
#[cfg(test)]
extern crate self as jportal_infer;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub mod cut;
mod error;
pub mod fill;
pub mod place;
pub mod project;
pub mod replay;
pub mod segment;

pub use error::Error;
pub use segment::{Outcome, Segment, Symbol};
