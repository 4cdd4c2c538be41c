// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shared code of the end-to-end tests: the paths of built tools, running programs under
//! `jportal`, a second reader of the oracle's log, and faults planted into captures.
//!
//! The tests see the product from outside: the built JDK, the `jportal` command, files. They need
//! what `scripts/setup` builds. A test that lacks it does not pass silently, but is counted as
//! skipped ([`skip`]).

pub mod against;
pub mod deny;
pub mod died;
pub mod fault;
pub mod figures;
pub mod fuzz;
pub mod house;
pub mod identity;
pub mod load;
pub mod mutate;
pub mod neighbours;
pub mod oracle;
pub mod pages;
pub mod peer;
pub mod peer_sums;
pub mod perf;
pub mod place;
pub mod process;
pub mod programs;
pub mod recording;
pub mod scratch;
pub mod seeds;
pub mod skip;
pub mod tool;

/// A failure of a test's own machinery, as text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// [`std::result::Result`] with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
