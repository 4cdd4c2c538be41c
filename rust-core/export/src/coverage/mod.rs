// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage for other tools: LCOV, JaCoCo's report and Cobertura's.
//!
//! None of the three formats has a state between covered and missed. What is *unknown* is left out
//! of them: a line, branch way, method or class that was not seen but may have been executed is
//! neither listed nor counted. A comment at the beginning says how many there are. Counts of
//! executions are what was seen; where more are possible, they are lower bounds, and the comment
//! says so.
//!
//! A bytecode that throws is covered, and so is what ran before it. JaCoCo itself counts
//! instructions only if control passes a later probe.
//!
//! Formats know no versions of redefined classes. Make the coverage with
//! `Naming::merge_versions`, or a method may be listed twice.

mod cobertura;
mod common;
mod jacoco;
mod lcov;

#[cfg(test)]
mod coverage_tests;

pub use cobertura::{CoberturaOptions, write_cobertura};
pub use jacoco::{JacocoOptions, write_jacoco};
pub use lcov::{LcovOptions, write_lcov};
