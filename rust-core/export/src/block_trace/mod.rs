// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Block traces: per thread, a stream of numbers that stand for beginnings and ends of methods and
//! for executed blocks (JBInsTrace, section 3.2). `docs/block-trace-format.md` describes the files.

mod analysis;
#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod file_tests;
mod format;
mod index;
mod loads;
mod reader;
mod record;
mod report;
mod stream;
#[cfg(test)]
mod tests;

pub use analysis::{BlockTraceAnalysis, BlockTraceOptions, BlockTraceThread, Output};
pub use format::Format;
pub use index::{write_classes, write_methods};
pub use reader::{ReadError, Reader};
pub use record::{BlockTraceRecord, Header, Mark, Receiver};
pub use report::{BlockTrace, ThreadTrace};

pub use jportal_analyses::block_trace::{Known, Left};
