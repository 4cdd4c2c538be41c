// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Orphan bytecodes of a flow get their place in the program.
//!
//! Behind a gap the interpreter goes on in frames of which nothing is known: the flow tells the bytecodes without method
//! and position ([`Orphan`](jportal_flow::Orphan)), and between them the calls out of such a frame, whose callees are known. A
//! [`Projector`] stands between the decoder and another consumer, collects such [stretches](stretch), asks [`jportal_recover`] where they
//! fit (paper §4) and hands the flow on with frames and positions in place of the orphans, marked as
//! [`Provenance::Projected`](jportal_flow::Provenance). What fits nowhere, or costs too much to place, stays an orphan.
//!
//! A flow without orphans passes unchanged, and the ICFG is not built for it. Memory: the ICFG, and the events of one stretch a
//! thread, which are at most [`Settings::buffered`].
#![forbid(unsafe_code)]

mod emit;
mod place;
mod projector;
pub mod stretch;
mod summary;

pub use place::{Method, Settings};
pub use projector::Projector;
pub use summary::Summary;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
