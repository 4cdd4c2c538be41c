// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A flow at the level of basic blocks: beginnings and ends of methods, and blocks.
//!
//! [`Numbers`] numbers the blocks of each method. [`Steps`] turns the events of a thread into
//! [`Step`]s. What the flow does not know is a step of its own, so that a consumer cannot miss
//! it. [`Watch`] collects how much may be missing, and [`Accounts`] says of which methods.

mod numbers;
mod open;
mod step;
mod steps;
#[cfg(test)]
mod tests;

pub use crate::known::Known;
pub use numbers::{BlockNumbers, Numbers, leaders};
pub use open::{Accounts, Open, Watch};
pub use step::{Left, Step};
pub use steps::{Steps, StepsThread};
