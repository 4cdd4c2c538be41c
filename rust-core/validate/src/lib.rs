// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What proves JPortal right, or wrong.
//!
//! | module | compares the flow with |
//! |---|---|
//! | [`check`] | the rules of the JVM; shares no logic with the reconstruction |
//! | [`verify`] | the probes that really ran, from the oracle agent's log of the same run |
//! | [`against`] | another recording of the same deterministic program |
//! | [`accuracy`] | a loss-free recording of the same run |
//! | [`jacoco`] | JaCoCo's probes and counters |
//! | [`debug_info`] | the debug info of compiled code, which the flow judges |
//! | [`stacks`] | the stacks that the JVM's interfaces gave, which the flow judges |
//!
//! Everything here is an [`Analysis`](jportal_flow::Analysis). The crate opens no files. Where it
//! reads, the caller passes the stream.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod against;
pub mod check;
pub mod circumstance;
pub mod debug_info;
pub mod jacoco;
pub mod stacks;
pub mod verify;

#[cfg(test)]
mod testing;
