// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Results of analyses in the formats of other tools, and as a page of HTML.
//!
//! The crate opens no files. The caller passes the streams to write to.
#![forbid(unsafe_code)]

pub mod block_trace;
mod call_trace;
mod coverage;
mod error;
pub mod facts;
mod profile;
pub mod table;
mod timeline;
mod view;

pub use error::Error;
