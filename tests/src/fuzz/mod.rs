// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Random programs in Java: single-threaded, deterministic, and certain to end.
//!
//! Every loop has a bound or fuel, every recursion a depth, so a program ends whatever its values are; what it prints
//! is a checksum of all it computed. Nothing in it observes the VM (no times, identity hashes, or stack depths), so
//! the bytecodes that its classes execute are the same in every run, whichever engine executes them. What the
//! generator emits is chosen for what the VM's compilers do to it: conditional moves, range checks folded to one
//! comparison, unrolled, unswitched, vectorised and removed loops, jump tables, inlined and megamorphic calls,
//! implicit exceptions, on-stack replacement, and code that is thrown away when a rare path is taken late.
//!
//! [`run`] records such a program interpreted and compiled, and lets `jportal verify --against` compare the two.
//! The same seed gives the same text; tests name programs by their seed.

mod body;
mod expression;
mod loops;
mod program;
pub(crate) mod rng;
mod statement;

pub mod run;

pub use program::{Source, generate};
