// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reconstructs the bytecode flow of every thread from executed machine blocks.
//!
//! [`Recording::open`] reads the metadata of a capture and builds the VM's image over time.
//! [`Recording::decode`] walks the PT streams of all cores and passes each thread's flow to a
//! consumer. The VM's idioms live in files of their own: `dispatch` (templates), `outcome`
//! (branches inside a template), `entry` (entries into a method), `landing` (returns and
//! exceptions), `compiled` (debug-info positions), `deopt` (changes of frame kind). `automaton`
//! keeps what they do with blocks of compiled code.
//!
//! Constraints: memory does not grow with the length of the trace. A contradiction is a
//! [`jportal_flow::Gap`] in the flow with its place and reason, never a panic and never a
//! silent guess. Non-goals: filling gaps (that is `infer`), reports.
#![forbid(unsafe_code)]

mod automaton;
mod batch;
mod blind;
mod code_map;
mod compiled;
mod contradiction;
mod crew;
mod deopt;
mod described;
mod dispatch;
mod driver;
mod entry;
mod error;
mod folds;
mod frame;
mod handlers;
mod implausible;
mod landing;
mod lanes;
mod machine;
#[cfg(test)]
mod machine_tests;
mod marked;
#[cfg(test)]
mod marked_tests;
mod moves;
mod needs;
mod order;
mod orphan;
mod outcome;
mod paths;
mod pauses;
#[cfg(test)]
mod pauses_tests;
mod polls;
mod recording;
mod silent;
mod stack_depths;
mod states;
#[cfg(test)]
mod states_tests;
mod stretches;
mod summary;
mod tags;
#[cfg(test)]
mod testing;
mod throwers;
mod traps;
mod watch;

pub use batch::MachineListener;
pub use contradiction::Contradiction;
pub use driver::{DecodeOptions, MachineDecoder, Positions, Progress};
pub use error::Error;
pub use implausible::ImplausibleStep;
pub use machine::ThreadCounters;
pub use pauses::{LastRun, MachineFrame, Pause, PausedAt, PausedFrame};
pub use recording::Recording;
pub use stack_depths::{DepthRanges, StackDepths};
pub use states::{
    CallTarget, Marked, MarkedBlock, RanBlock, ReachedState, StateKind, StateObserver, StateObservers,
    Unmarked,
};
pub use stretches::{StaleBlock, Stretch, Visit};
pub use summary::{DecodeSummary, MachineTotals, ThreadSummary};
pub use traps::TrapCall;
pub use watch::{MachineBlock, MachineStep, Watch};
