// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! An Intel PT unit in software: a plugin for QEMU's user mode.
//!
//! Purpose: record programs on machines without Intel PT as if they had it. The plugin sees the
//! blocks that QEMU executes and emits the packets that a PT unit would emit for them with user-only
//! tracing and one IP filter range, per *virtual core*, into rings with the layout and the
//! records of Linux perf ([`jportal_perf_abi`]). Guest threads are placed on the virtual cores with
//! time slices and context switches, so a recording has the same joints as one from hardware.
//!
//! Constraints: QEMU 7.2 (Debian 12), plugin API version 1, x86-64 guests on an x86-64 host; no
//! per-instruction callbacks; a guest thread is never made to wait for another one without bound.
//! Non-goals: traps and page faults that a guest under QEMU does not have (they can be injected),
//! kernel tracing, TSX, PTWRITE, power events.
//!
//! | module        | its part                                                                |
//! |---------------|-------------------------------------------------------------------------|
//! | [`config`]    | plugin arguments                                                        |
//! | [`block`]     | translated blocks                                                       |
//! | [`resolve`]   | how a block ended                                                       |
//! | [`signals`]   | what a signal interrupted                                               |
//! | [`unit`]      | the PT unit of a core                                                   |
//! | [`core`]      | a core: unit, rings, running thread                                     |
//! | [`injection`] | events that QEMU's guests do not have                                   |
//! | [`seat`]      | who may touch a core                                                    |
//! | [`scheduler`] | threads on cores                                                        |
//! | [`outlet`]    | bytes and records into the rings                                        |
//! | [`plugin`]    | QEMU's events                                                           |
//! | [`host`]      | the VM's commands, draining, the end                                    |
//! | [`truth`]     | record of executed blocks, for tests                                    |

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
