// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call graphs for programs that draw and analyse graphs.
//!
//! Nodes are methods, edges are all calls from one method to another. A count that is a lower bound
//! says so in both formats.

mod dot;
mod graphml;

pub use dot::write_dot;
pub use graphml::write_graphml;

#[cfg(test)]
mod tests;
