// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! perf.data files: a capture as one that `perf script` decodes, and a capture from one that `perf record` wrote.
//!
//! [`export`] writes the trace of each core, the records of its data ring, and the code cache as a function of time: one
//! file of code, of which a mapping shows perf a piece from some time on. [`import`] joins the trace of a perf.data with the
//! metadata of a capture.
//!
//! Constraints: memory does not grow with the length of the trace; a file that is read is not trusted: what is wrong with it
//! is an error with its place and a remedy. The numbers are those of the kernel's ABI headers and of
//! `facts/perf-abi.md`. Non-goals: recording (`jportal-recorder`), other units than Intel PT.
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
