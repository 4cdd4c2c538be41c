// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Algorithm 1 of the paper: enumerate and test.

use super::nfa::Nfa;
use super::paths::{Below, search};
use super::work::{ProjectionLimits, Work};
use super::{Extent, Fit, Project, Projected};
use crate::Segment;
use jportal_bytecode::{Icfg, Node};

/// Tests every node as the start (Algorithm 1).
#[derive(Debug)]
pub struct Enumerate<'a> {
    nfa: Nfa<'a>,
    extent: Extent,
}

impl<'a> Enumerate<'a> {
    /// Places segments in `icfg`.
    pub const fn new(icfg: &'a Icfg, extent: Extent) -> Self {
        Self { nfa: Nfa::new(icfg), extent }
    }
}

impl Project for Enumerate<'_> {
    fn project(&mut self, segment: &Segment, limits: &ProjectionLimits) -> Projected {
        let nfa = self.nfa;
        try_starts(&nfa, segment, self.extent, limits, |start, work| {
            work.concrete_tested += 1;
            nfa.accepts(start, segment, limits, work)
        })
    }
}

/// Calls `test` for every node that matches the first symbol, for the number of symbols that
/// match from there on. Searches the paths from those nodes where all symbols match.
pub(super) fn try_starts(
    nfa: &Nfa<'_>,
    segment: &Segment,
    extent: Extent,
    limits: &ProjectionLimits,
    mut test: impl FnMut(Node, &mut Work) -> Option<usize>,
) -> Projected {
    let mut work = Work::default();
    let mut accepted = Vec::new();
    let mut longest = 0;
    let given_up = |work| Projected { fit: Fit::GivenUp { front: None, resume: 1 }, work };
    if segment.is_empty() {
        return Projected { fit: Fit::Nowhere { matched: 0 }, work };
    }
    for start in nfa.icfg().nodes().filter(|n| nfa.matches(*n, segment, 0)) {
        work.candidates += 1;
        let Some(matched) = test(start, &mut work) else { return given_up(work) };
        longest = longest.max(matched);
        if matched == segment.len() {
            work.accepted += 1;
            accepted.push(start);
            if extent == Extent::First {
                break;
            }
        }
    }
    if accepted.is_empty() {
        return Projected { fit: Fit::Nowhere { matched: longest }, work };
    }
    let fit = search(nfa, segment, (&accepted, None), Below::Unpaired, limits, &mut work);
    Projected { fit, work }
}
