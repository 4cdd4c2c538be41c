// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Records programs under the emulated unit and judges them by the oracle, by libipt, by planted
//! faults and by misuse.
//!
//! `cargo test` runs every program at its small size. `scripts/verify-all` also runs the real
//! programs at full size, and slower tests (marked `ignore`).

mod abuse;
mod baselines;
mod code_memory;
mod configurations;
mod counted;
mod debug_info;
mod degrade;
mod died;
mod equality;
mod examples;
mod faults;
mod flight;
mod gate;
mod identity;
mod idioms;
mod instrumented;
mod jacoco;
mod jit;
mod jobs;
mod live;
mod load;
mod markers;
mod memory;
mod mutate;
mod natives;
mod pages;
mod passthrough;
mod perf;
mod profilers;
mod programs;
mod random;
mod real_pt;
mod reports;
mod sideband;
mod stacks;
mod tools;
mod truncation;
mod uninstrumented;
mod worst_loss;
