// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! perf.data files: exports a capture to a file that `perf script` decodes, and makes a capture
//! from a file that `perf record` wrote.
//!
//! [`export`] writes the trace of each core, the records of its data ring, and the code cache
//! over time. All code is in one file; each mapping shows perf a piece of it from some time on.
//! [`import`] joins the trace of a perf.data file with the metadata of a capture.
//!
//! Constraints: memory does not grow with the length of the trace. A file that is read is not
//! trusted: any fault in it is an error with its place and a remedy. The constants are those of
//! the kernel's ABI headers. Non-goals: recording
//! (`jportal-recorder`), other units than Intel PT.
#![forbid(unsafe_code)]

mod clock;
mod code;
mod elf;
mod error;
mod export;
mod file;
mod import;
mod layout;
mod packets;
mod plan;
mod read;
mod scan;
mod sideband;
#[cfg(test)]
mod testing;
mod time;
mod trace;
mod uses;

pub use error::Error;
pub use export::{CODE_FILE, DATA_FILE, Exported, Progress, export};
pub use import::{Imported, import};
pub use time::PerfClock;
