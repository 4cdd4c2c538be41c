// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A checker of flows that shares no logic with the reconstruction.
//!
//! [`Checker`] receives the flows of all threads and checks for each event whether a Java
//! virtual machine could have produced it. Every step must be an edge of the method's control
//! flow graph or of the call graph. Calls and returns must nest. Exceptions must lead to the
//! handlers that the exception table allows. Blocks must be entered at their start. The
//! [`Rule`]s list these conditions, and a [`Finding`] names the event that breaks one. The
//! checker knows the bytecodes (`bytecode` decodes them, the graphs are built here) and the
//! event types of `flow`. It knows nothing of packets, machine code or the VM's image.
//!
//! Constraints: memory is bounded by the number of methods, call sites and frames on a stack,
//! never by the length of a flow. Where the flow itself reports that it does not know, less can
//! be checked. Each such place is counted by cause ([`Reset`]) and never skipped silently.
//! Non-goals: whether the flow is the one that happened ([`verify`](crate::verify) checks that).
//! The checker does not find a path that is possible but wrong.

mod callee;
mod code;
mod finding;
mod frames;
mod report;
mod rule;
mod stack;
mod steps;
#[cfg(test)]
mod testing;
mod throwing;
mod walk;
#[cfg(test)]
mod walk_tests;

pub use finding::{Finding, Position};
pub use report::{CheckOptions, Checker, Report};
pub use rule::{Reset, Rule};
