// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a Java program executed, bytecode by bytecode, from a capture of JPortal.
//!
//! A [`Capture`] is the file that `java -XX:+JPortal` wrote. A [`Query`] selects a part of its
//! flow and says how gaps are treated. [`Query::run`] decodes the trace and hands the flow of every
//! thread to an [`Analysis`]: one of [`analyses`] or [`validate`], or one of your own. Several run
//! in one pass as a tuple.
//!
//! # An analysis in 20 lines
//!
//! Which exception handlers ran, and how often:
//!
//! ```no_run
#![doc = include_str!("../examples/handlers.rs")]
//! ```
//!
//! # Words
//!
//! The *flow* of a thread is a sequence of [`Event`]s: frames that begin and end, bytecodes,
//! handlers entered. Bytecodes that are consecutive in the code come as one
//! [`EventKind::Run`]. An event that follows from the trace alone is *decoded*. Where trace was
//! lost there is a [`Gap`]. Events after a gap may be *placed* ([`Query::place`]); gaps may be
//! *filled* ([`Query::fill`]). [`Provenance`] says which of these an event is. Where compiled code
//! took one of several paths, there is an [`EventKind::Unresolved`] with its cause.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod capture;
mod compilations;
mod error;
mod query;
mod window;

pub use capture::{Capture, Warning, open_file};
pub use error::Error;
pub use query::{Answer, Fill, Place, Query};
pub use window::Bound;

pub use jportal_analyses as analyses;
pub use jportal_bytecode as bytecode;
pub use jportal_capture as file;
pub use jportal_export as export;
pub use jportal_flow as flow;
pub use jportal_infer as infer;
pub use jportal_reconstruct as reconstruct;
pub use jportal_units as units;
pub use jportal_validate as validate;

pub use jportal_analyses::Execution;
pub use jportal_bytecode::{Method, MethodTable};
pub use jportal_flow::{
    Analysis, Cause, Enough, Entry, Event, EventKind, Exclude, Exit, FlowFault, Gap, GapReason, MachineFault,
    Provenance, Stack, Tally, ThreadInfo, Tier,
};
pub use jportal_reconstruct::{DecodeSummary, MachineDecoder, Positions};
pub use jportal_units::{Bci, MethodId, Tid, Tsc};
