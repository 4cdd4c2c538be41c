// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Algorithm 2 of the paper: abstraction-guided control flow reconstruction.

use super::anfa::{Anfa, Dfa, abstraction};
use super::enumerate::try_starts;
use super::nfa::Nfa;
use super::work::ProjectionLimits;
use super::{Extent, Project, Projected};
use crate::Segment;
use jportal_bytecode::Icfg;

/// Tests every node as the start, on the abstraction first (Algorithm 2).
///
/// Line 6 of the printed algorithm applies `DFA(A)` to the concrete segment. Here the concrete
/// automaton is not made deterministic; all its states are followed at once. That gives the
/// same acceptance without a table of the whole program.
#[derive(Debug)]
pub struct Guided<'a> {
    nfa: Nfa<'a>,
    dfa: Dfa<'a>,
    extent: Extent,
}

impl<'a> Guided<'a> {
    /// Places segments in `icfg`.
    pub fn new(icfg: &'a Icfg, extent: Extent) -> Self {
        let nfa = Nfa::new(icfg);
        Self { nfa, dfa: Dfa::new(Anfa::new(nfa)), extent }
    }
    /// The part of the abstract automaton that segments have needed.
    pub const fn dfa(&self) -> &Dfa<'a> {
        &self.dfa
    }
}

impl Project for Guided<'_> {
    fn project(&mut self, segment: &Segment, limits: &ProjectionLimits) -> Projected {
        let abstracted = abstraction(segment);
        let (nfa, dfa) = (self.nfa, &mut self.dfa);
        try_starts(&nfa, segment, self.extent, limits, |start, work| {
            if !dfa.accepts(start, &abstracted, limits, work)? {
                return Some(0);
            }
            work.abstract_accepted += 1;
            work.concrete_tested += 1;
            nfa.accepts(start, segment, limits, work)
        })
    }
}
