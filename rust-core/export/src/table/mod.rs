// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Parquet tables of flows: methods, threads, calls, blocks and events. `docs/data-sets.md`
//! describes the columns and how to query them.
//!
//! The caller opens each file. [`Partition::path`] is a name in the style of Hive, with which the
//! files of many captures form one data set.

mod analysis;
mod counts;
mod events;
mod options;
mod rows;
mod sheet;
#[cfg(test)]
mod tests;

pub use analysis::{TableAnalysis, TableThread};
pub use options::{Output, Partition, Slices, Table, TableOptions, ThreadKey};
