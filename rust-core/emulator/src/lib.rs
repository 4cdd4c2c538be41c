// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! An Intel PT unit in software: a plugin for QEMU's user mode.
//!
//! Purpose: record programs on machines without Intel PT as if they had it. The plugin sees the
//! blocks that QEMU executes. For each *virtual core* it emits the packets that a PT unit would
//! emit for them with user-only tracing and one IP filter range. It writes them into rings with
//! the layout and the records of Linux perf ([`jportal_perf_abi`]). Guest threads are placed on
//! the virtual cores with time slices and context switches, so a recording is divided by
//! switches as one from hardware is.
//!
//! Constraints: QEMU 7.2 (Debian 12), plugin API version 1, x86-64 guests on an x86-64 host; no
//! per-instruction callbacks; a guest thread never waits for another guest thread without
//! bound. Non-goals: traps and page faults that a guest under QEMU does not have (they can be
//! injected), kernel tracing, TSX, PTWRITE, power events.
//!
//! | module        | purpose                                                                 |
//! |---------------|-------------------------------------------------------------------------|
//! | [`config`]    | plugin arguments                                                        |
//! | [`block`]     | translated blocks                                                       |
//! | [`resolve`]   | determines how a block ended                                            |
//! | [`signals`]   | finds the instruction that a signal interrupted                         |
//! | [`mod@unit`]  | the PT unit of a core                                                   |
//! | [`core`]      | a core: unit, rings, running thread                                     |
//! | [`injection`] | injects events that QEMU's guests do not have                           |
//! | [`seat`]      | exclusive access to a core                                              |
//! | [`scheduler`] | assigns threads to cores                                                |
//! | [`outlet`]    | writes bytes and records into the rings                                 |
//! | [`plugin`]    | handles QEMU's callbacks                                                |
//! | [`host`]      | the host thread: the VM's commands, queued trace, end of the process    |
//! | [`truth`]     | the record of executed blocks, for tests                                |

pub mod block;
pub mod clock;
pub mod config;
pub mod core;
pub mod counts;
pub mod error;
pub mod guest;
pub mod host;
pub mod injection;
pub mod log;
pub mod outlet;
pub mod plugin;
pub mod random;
pub mod range;
pub mod resolve;
pub mod scheduler;
pub mod seat;
mod setup;
pub mod signals;
pub mod truth;
pub mod unit;

#[cfg(not(test))]
mod ffi;
