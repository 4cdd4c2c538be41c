// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Places the orphan bytecodes of a flow in the program.
//!
//! After a gap the interpreter continues in frames of which nothing is known. The flow reports
//! their bytecodes without method and position ([`Orphan`](jportal_flow::Orphan)) and, between
//! them, the calls out of such a frame, whose callees are known. A [`Projector`] sits between
//! the decoder and another consumer. It collects such [stretches](stretch), asks
//! [`project`](crate::project) where they fit (paper §4), and passes the flow on with frames and
//! positions in place of the orphans, marked as
//! [`Provenance::Projected`](jportal_flow::Provenance). Bytecodes that fit nowhere, or cost too
//! much to place, stay orphans.
//!
//! A flow without orphans passes unchanged, and the ICFG is not built for it. Memory: the ICFG,
//! and for each thread the events of one stretch, at most [`PlacementSettings::buffered`].

mod emit;
mod known;
mod placement;
mod projector;
pub mod stretch;
mod summary;

pub use placement::{Method, PlacementSettings};
pub use projector::Projector;
pub use summary::Summary;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
