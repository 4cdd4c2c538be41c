// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Random programs in Java: single-threaded, deterministic, and certain to end.
//!
//! Every loop has a bound or a counter that limits it, and every recursion a depth, so a program
//! ends whatever its values are. It prints a checksum of all that it computed. It does not
//! observe the VM (no times, identity hashes or stack depths), so its classes execute the same
//! bytecodes in every run, whichever engine executes them. The generator emits code for which the
//! VM's compilers have transformations: conditional moves, range checks folded to one comparison,
//! unrolled, unswitched, vectorised and removed loops, jump tables, inlined and megamorphic
//! calls, implicit exceptions, on-stack replacement, and code that is deoptimised when a rare
//! path is first taken late.
//!
//! [`run`] records such a program interpreted and compiled, and compares the two flows with
//! `jportal verify --against`. The same seed gives the same text; tests name programs by their
//! seed.

mod body;
mod expression;
mod loops;
mod program;
pub(crate) mod rng;
mod statement;

pub mod run;

pub use program::{RandomProgram, generate};
