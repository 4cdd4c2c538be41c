// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The traced VM as a function of time.
//!
//! Pass every metadata record in commit order to [`Builder::record`]. The resulting [`VmImage`]
//! says which method a `Method*` meant at a time, which template, stub or nmethod owns an
//! address, and which threads ran. The bytes of code are passed on to a [`CodeSink`] (the code
//! image of the machine flow); this crate keeps only their meaning.
//!
//! Constraints: records are untrusted; a record that contradicts an earlier one becomes a counted
//! [`Oddity`], never a panic. Memory is bounded by the metadata, not by the trace.
#![forbid(unsafe_code)]

mod builder;
pub mod code;
mod flaw;
pub mod interpreter;
pub mod markers;
mod methods;
mod pool;
mod threads;

pub use builder::{Builder, CodeSink, Oddity, VmImage};
pub use code::{CodeBody, CodeVersion, NMethod, PcPosition, Scope};
pub use flaw::{Flaw, MAX_DEPTH, MAX_MARKERS};
pub use interpreter::{Interpreter, Landmark, Template};
pub use markers::{Marker, Outcome, PathMarkers};
pub use methods::MethodIndex;
pub use threads::{ThreadSpan, Threads};
