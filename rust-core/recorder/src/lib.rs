// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The recorder: the part of JPortal that runs inside the traced VM.
//!
//! It is linked into `libjvm.so` as a static library. HotSpot calls it through the bridge in
//! [`bridge`] only; everything else is ordinary Rust that tests drive as [`Recorder`].
//!
//! ```text
//!   VM threads ──write──► export ring (file-backed) ──consumer thread──┐
//!                                                                      ├──► CaptureWriter
//!   PT device: per core data ring and AUX ring ────drain threads───────┘
//! ```
//!
//! Constraints: the recorder never harms the VM. No panic and no exception leaves the bridge. A
//! failure (disk, device, a bug here) ends the *recording* with a reason in the log and, if it
//! can be written, in the capture; from then on every producer returns at once. The recorder's
//! threads take no VM lock and no signal. A thread of the VM waits for no disk: metadata that the
//! disk does not take in time waits in memory, and when [`CAPACITY`] is reached, the
//! recording ends. Metadata is never dropped while recording.
//!
//! Non-goals: decoding; the meaning of metadata records, but for what a flight recorder may leave
//! out, which the crate `jportal-capture` decides.

pub mod bridge;
pub mod code_memory;
mod config;
mod consumer;
pub mod device;
mod drain;
mod dump;
mod dump_requests;
mod error;
#[cfg(test)]
#[allow(dead_code)] // these tests use a part of it
#[path = "../tests/common/fake_kernel.rs"]
mod fake_kernel;
mod header;
mod log;
mod pages;
mod recorder;
mod reserve;
mod ring;
mod session;
mod sys;
mod trimmer;
mod turn;
mod window;

pub use config::{RecordingConfig, Source, StorageLimits, Trimming};
pub use dump::SlowCall;
pub use error::Error;
pub use log::{Level, Log};
pub use recorder::{Recorder, StopReason};
pub use ring::{CAPACITY, Overrun, Ring};
#[doc(hidden)] // for the benchmark of the writer
pub use turn::{Cargo, Turns};
