// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Projection: where a segment lies in the ICFG (paper §4).
//!
//! | method | how it finds the starting nodes |
//! |---|---|
//! | [`Enumerate`] | Algorithm 1: tries every node |
//! | [`Guided`] | Algorithm 2: tries every node on the abstraction first |
//!
//! | [`Indexed`] | our own: looks a part of the segment up, resolves it backwards; pairs calls with returns |
//!
//! All go by the same nondeterministic automaton ([`nfa`]) and hand starts to the same search for paths ([`paths`]). The
//! paper's two differ in work and not in what they find; ours leaves out paths that return to where they were not called
//! from.

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
pub use work::{Limits, Work};

use crate::Segment;
use jportal_bytecode::Node;
use std::ops::Range;

/// How many starts a projection looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The first one that is accepted, as the paper's algorithms return it.
    First,
    /// All of them, so that the number of paths is that of all that fit.
    All,
}

/// The path that a segment took, or one of those that it may have taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projection {
    /// A node for each symbol.
    pub nodes: Vec<Node>,
    /// How many paths fit, one that starts elsewhere being another; saturates.
    pub paths: u64,
    /// Symbols where paths that fit have different nodes, ascending and disjoint. Outside of these the position is
    /// certain whatever the number of paths.
    pub ambiguous: Vec<Range<u32>>,
}

impl Projection {
    /// Whether all paths that fit have the same node at symbol `index`.
    pub fn is_certain(&self, index: usize) -> bool {
        let at = self.ambiguous.partition_point(|r| r.end as usize <= index);
        self.ambiguous.get(at).is_none_or(|r| r.start as usize > index)
    }
}

/// What came of a projection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Some paths fit.
    Paths(Projection),
    /// No path fits.
    Nowhere {
        /// The longest prefix that some path fits, in symbols; behind it a new segment may begin (§4, *Challenges*).
        matched: usize,
    },
    /// A limit was met first.
    GivenUp {
        /// The paths of the first symbols, which end in one place, or in few where they never are in one.
        front: Option<Projection>,
        /// The symbol behind these; where there are none, one from which on more is known, not 0.
        resume: usize,
    },
}

/// A result and its price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projected {
    /// What was found.
    pub fit: Fit,
    /// What it took.
    pub work: Work,
}

/// A way to project segments.
pub trait Project {
    /// Looks for the paths of `segment`.
    fn project(&mut self, segment: &Segment, limits: &Limits) -> Projected;
}
