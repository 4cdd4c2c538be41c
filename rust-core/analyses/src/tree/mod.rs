// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call trees: for each calling context, how often it was entered and what it executed.

#[cfg(test)]
pub(crate) mod by_hand;
mod check;
mod report;

pub use check::BadTree;
pub use report::{CallTree, Context, Delta, Kind, Limits, Settings, Site, ThreadTree, Tiers};
