// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Placing: finds where a segment lies in the ICFG (paper §4, *projection*).
//!
//! | method | how it finds the starting nodes |
//! |---|---|
//! | [`Enumerate`] | Algorithm 1: tries every node |
//! | [`Guided`] | Algorithm 2: tries every node on the abstraction first |
//! | [`Indexed`] | JPortal's own: looks up a part, resolves it backwards, pairs calls with returns |
//!
//! All use the same nondeterministic automaton ([`nfa`]) and pass the starts to the same search
//! for paths ([`paths`]). The paper's two algorithms differ in work, not in results.
//! [`Indexed`] excludes paths that return to a place from which they were not called.

mod anfa;
pub mod backwards;
mod enumerate;
mod guided;
mod indexed;
pub mod nfa;
pub mod paths;
mod places;
mod stacks;
mod work;

pub use anfa::{Anfa, Dfa, abstraction};
pub use enumerate::Enumerate;
pub use guided::Guided;
pub use indexed::Indexed;
pub use places::{Places, Window};
pub use work::{ProjectionLimits, Work};

use crate::Segment;
use jportal_bytecode::Node;
use std::ops::Range;

/// The number of starts that a projection looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The first one that is accepted, as the paper's algorithms return it.
    First,
    /// All starts, so that the number of paths is that of all paths that fit.
    All,
}

/// The path of a segment, or one of the paths that fit it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projection {
    /// A node for each symbol.
    pub nodes: Vec<Node>,
    /// The number of paths that fit; paths with different starts are different. The number
    /// saturates.
    pub paths: u64,
    /// The symbols at which paths that fit have different nodes, ascending and disjoint. At all
    /// other symbols the position is certain, whatever the number of paths.
    pub ambiguous: Vec<Range<u32>>,
}

impl Projection {
    /// Whether all paths that fit have the same node at symbol `index`.
    pub fn is_certain(&self, index: usize) -> bool {
        let at = self.ambiguous.partition_point(|r| r.end as usize <= index);
        self.ambiguous.get(at).is_none_or(|r| r.start as usize > index)
    }
}

/// The result of a projection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Some paths fit.
    Paths(Projection),
    /// No path fits.
    Nowhere {
        /// The longest prefix that some path fits, in symbols; a new segment may begin after it
        /// (§4, *Challenges*).
        matched: usize,
    },
    /// A limit was reached first.
    GivenUp {
        /// The paths of the first symbols: up to the last symbol at which all paths are in one
        /// place or, if there is none, in few places.
        front: Option<Projection>,
        /// The symbol after these. Without `front`: a symbol from which more is known, never 0.
        resume: usize,
    },
}

/// A result and its cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projected {
    /// The result.
    pub fit: Fit,
    /// The cost.
    pub work: Work,
}

/// A method of placing segments.
pub trait Project {
    /// Looks for the paths of `segment`.
    fn project(&mut self, segment: &Segment, limits: &ProjectionLimits) -> Projected;
}
