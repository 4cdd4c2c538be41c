// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call traces as files: a table of sites, and one trace per thread.
//!
//! `docs/call-trace-format.md` describes the bytes.

mod compare;
mod reader;
mod sites;
mod text;
mod writer;

pub use compare::{CommonSites, ComparedTraces, TraceParting, compare_traces};
pub use reader::{CallTrace, ReadError};
pub use sites::{SiteRow, SiteTable, write_sites};
pub use text::decode;
pub use writer::TraceWriter;

/// The first four bytes of a trace.
const MAGIC: [u8; 4] = *b"JPCT";
/// The version of the format.
const VERSION: u32 = 1;
/// The tokens are in zlib streams.
const DEFLATED: u32 = 1;
/// There may be times between the tokens.
const TIMES: u32 = 2;
/// Bytes of tokens in one zlib stream, at most.
const CHUNK: usize = 1 << 20;

#[cfg(test)]
mod tests;
