// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Executed machine blocks from Intel PT packets and the history of the code cache.
//!
//! Purpose: follow each core's trace through the machine code *as it was at that time* and say,
//! block by block, what was executed ([`Item`]). A direct call leaves no packet, and its target
//! is patched while the program runs. The code is therefore a function of time ([`CodeHistory`]).
//! Where the clocks do not decide which version ran, the packets that follow decide.
//!
//! Constraints: no files, no threads, no `unsafe`; no panic and bounded work on any input. Losses
//! and contradictions are values in the stream ([`MachineGap`]).
//!
//! Non-goals: bytecodes, methods, threads (`jportal-reconstruct`); reading captures.
//!
//! Order of calls, per core:
//! 1. [`CoreDecoder::push`] for the trace, [`CoreDecoder::loss`] where trace was lost,
//! 2. [`CoreDecoder::decode`] up to the end of each stretch that one thread ran,
//! 3. [`CoreDecoder::finish`] at the end.
#![cfg_attr(not(feature = "libipt"), forbid(unsafe_code))]
#![deny(unsafe_code)]

mod block;
mod cache;
mod clock;
mod config;
mod decoder;
mod error;
mod image;
mod item;
mod leaps;
#[cfg(feature = "libipt")]
mod peer;
mod view;

pub use config::{Config, MtcConfig, PopRule, Progress, Slack, Stretch};
pub use decoder::{CoreDecoder, Decided, Decision, Statistics};
pub use error::Error;
pub use image::{CodeChange, CodeHistory, Patch, Version};
pub use item::{Exit, Item, MachineGap, MachineGapReason, Target};
#[cfg(feature = "libipt")]
pub use peer::{Peer, PeerError, PeerPiece};
