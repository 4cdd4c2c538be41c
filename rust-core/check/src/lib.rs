// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A checker of flows that shares no logic with the reconstruction.
//!
//! [`Checker`] receives the flows of all threads and asks of each event whether a Java virtual
//! machine could have done that: every step must be an edge of the method's control flow graph or
//! of the call graph, calls and returns must nest, exceptions must lead where the exception table
//! says, blocks must be entered at their start. The [`Rule`]s say what is asked, a [`Finding`]
//! says which event breaks one. It knows the bytecodes (decoded by `bytecode`, graphs are worked
//! out here) and the vocabulary of `flow`, nothing of packets, machine code or the VM's image.
//!
//! Constraints: memory is bounded by the number of methods, call sites and frames on a stack,
//! never by the length of a flow. What cannot be checked, because the flow itself says that it
//! does not know, is counted by cause ([`Reset`]) and never passed over in silence.
//! Non-goals: whether the flow is the one that happened (that is `verify`); a path that is
//! possible and wrong is not found here.
#![forbid(unsafe_code)]

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
pub use report::{Checker, Options, Report};
pub use rule::{Reset, Rule};
