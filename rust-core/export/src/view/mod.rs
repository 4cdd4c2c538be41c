// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The picture: one page of HTML that shows a capture, without any other file and without network.
//!
//! [`View`] is the input. The command fills it from the results of analyses; what it does not
//! fill, the page calls unknown. [`write_view`] writes the page:
//!
//! | tab | from |
//! |---|---|
//! | Overview | [`View::threads`], [`View::overview`] |
//! | Flame graph | [`View::trees`] |
//! | Methods | [`View::methods`] |
//! | Source and bytecode | [`ViewMethod::listing`], [`View::sources`] |
//! | Coverage | [`View::coverage`] |
//! | Latency | [`View::latency`] |
//! | JIT timeline | [`View::jit`] |
//!
//! The data stands in the page as JSON (module `page`), in columns of numbers with one table of
//! strings. The page never interprets a string of the data as HTML, and its content security policy
//! forbids every request.
//!
//! The size of the page is bounded ([`LIMIT`]). What does not fit is left out in a fixed order:
//! listings and sources of the methods that executed the fewest bytecodes, then nodes of the trees
//! with the smallest weight (module `fold`). The page says what was left out.

mod encode;
mod fold;
mod listing;
mod model;
mod overview;
mod page;
mod sources;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod write;

pub use listing::{BranchWay, Listing, ListingRow, Times};
pub use model::{
    ActivationTime, Jit, JitEvent, JitKind, Latency, LatencyRow, SourceFile, View, ViewMeta, ViewMethod,
    ViewTree,
};
pub use overview::{Bucket, Overview, OverviewAnalysis, OverviewThread};
pub use write::{LIMIT, write_view, write_view_within};
