// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Results of analyses in the formats of other tools, and as a page of HTML.
//!
//! The crate opens no files. The caller passes the streams to write to. [`profiler`] also reads
//! answers: it replays a flow into a profiler that runs in another process.
#![forbid(unsafe_code)]

pub mod block_trace;
pub mod call_graph;
pub mod call_trace;
pub mod coverage;
mod error;
pub mod facts;
pub mod profile;
pub mod profiler;
pub mod table;
pub mod timeline;
pub mod view;
pub mod witness;

pub use error::Error;
