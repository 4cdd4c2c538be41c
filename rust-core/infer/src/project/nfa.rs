// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The ICFG as a nondeterministic automaton (paper, Definition 4.1).
//!
//! A state says that a node has been matched; every node may be the start and every node the
//! end. The paper labels a transition with the instruction matched next. Where the trace says
//! how the previous instruction ended (the `ifeq 0` and `ifeq 1` of the paper's Figure 4), only
//! the edges of that outcome are transitions.
//!
//! Calls and returns are not paired: a return leads to all callers that the ICFG knows (§4,
//! *Discussions*). A site that may call out of the graph leads to all methods that can be
//! entered from outside, and these return to all such sites. A second callback from the same
//! call is no transition: the code that cuts the trace into segments sees the VM's call stub
//! and cuts there. The paper has no edges for exceptions. Here an exception that is caught
//! leads to the handlers that cover the instruction. An exception that leaves frames leads to
//! the handlers around the call sites of the method and, where these may let it pass, of its
//! callers.

use super::work::{ProjectionLimits, Work};
use crate::segment::{Outcome, Segment, Symbol};
use hashbrown::HashSet;
use jportal_bytecode::{EdgeKind, Icfg, Node, Opcode, Transfer};

/// The effect of a transition on the stack of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// None.
    Within,
    /// Pushes a frame.
    Call,
    /// Pops a frame.
    Return,
    /// Pops one frame or more.
    Unwind,
}

/// The automaton of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Nfa<'a> {
    icfg: &'a Icfg,
}

impl<'a> Nfa<'a> {
    /// The automaton of `icfg`.
    pub const fn new(icfg: &'a Icfg) -> Self {
        Self { icfg }
    }
    /// The graph.
    pub const fn icfg(&self) -> &'a Icfg {
        self.icfg
    }
    /// Whether `node` may be symbol `index` of `segment`.
    pub fn matches(&self, node: Node, segment: &Segment, index: usize) -> bool {
        self.icfg.opcode(node) == segment.symbols()[index].opcode && segment.admits(self.icfg, index, node)
    }
    /// Passes every successor of `from`, which ended with `outcome`, to `each`; if `want` is
    /// set, only those with that opcode. A successor may be passed several times. Returns the
    /// number of edges examined.
    pub fn successors(
        &self,
        from: Node,
        outcome: Outcome,
        want: Option<Opcode>,
        each: &mut dyn FnMut(Node, Step),
    ) -> u64 {
        let g = self.icfg;
        match (outcome, g.opcode(from).transfer()) {
            (Outcome::Thrown, _) => g.handlers(from).map(|n| self.offer(n, Step::Within, want, each)).sum(),
            (Outcome::Unwound, _) => self.unwind(from, want, each),
            (Outcome::Returned, Transfer::Invoke) => {
                g.edges(from).map(|(_, to)| self.offer(to, Step::Within, want, each)).sum()
            }
            (_, Transfer::Invoke) => self.calls(from, want, each),
            (_, Transfer::Return) => self.returns(from, want, each),
            _ => {
                let edges = g.edges(from).filter(|(kind, _)| follows(*kind, outcome));
                edges.map(|(_, to)| self.offer(to, Step::Within, want, each)).sum()
            }
        }
    }
    /// Passes the successors of `from`, for any outcome, except those in sets that were passed
    /// before: sites share the methods they may call, and methods share the sites they may
    /// return to. `seen` records these sets. Otherwise like [`Self::successors`].
    pub(crate) fn new_successors(
        &self,
        from: Node,
        seen: &mut HashSet<(*const Node, usize)>,
        each: &mut dyn FnMut(Node),
    ) -> u64 {
        let g = self.icfg;
        let mut looked = 1;
        let mut set = |nodes: &[Node]| {
            if seen.insert((nodes.as_ptr(), nodes.len())) {
                nodes.iter().for_each(|n| each(*n));
                looked += nodes.len() as u64;
            }
        };
        match g.opcode(from).transfer() {
            Transfer::Return => g.after_calls_of(g.method(from)).for_each(set),
            Transfer::Invoke => {
                set(g.callees(from));
                if g.is_outside(from) {
                    set(g.outside_entries());
                }
                if g.passes(from) {
                    looked += g.edges(from).map(|(_, to)| each(to)).count() as u64;
                }
            }
            _ => return self.successors(from, Outcome::Open, None, &mut |n, _| each(n)),
        }
        looked
    }
    fn offer(&self, n: Node, step: Step, want: Option<Opcode>, each: &mut dyn FnMut(Node, Step)) -> u64 {
        if want.is_none_or(|w| self.icfg.opcode(n) == w) {
            each(n, step);
        }
        1
    }
    fn calls(&self, site: Node, want: Option<Opcode>, each: &mut dyn FnMut(Node, Step)) -> u64 {
        let g = self.icfg;
        let outside: &[Node] = if g.is_outside(site) { g.outside_entries() } else { &[] };
        let mut looked = 1;
        for entries in [g.callees(site), outside] {
            let part = want.map_or(entries, |w| g.with_opcode(entries, w));
            part.iter().for_each(|n| each(*n, Step::Call));
            looked += part.len() as u64;
        }
        if g.passes(site) {
            looked += g.edges(site).map(|(_, to)| self.offer(to, Step::Within, want, each)).sum::<u64>();
        }
        looked
    }
    fn returns(&self, from: Node, want: Option<Opcode>, each: &mut dyn FnMut(Node, Step)) -> u64 {
        let g = self.icfg;
        let mut looked = 1;
        for behind in g.after_calls_of(g.method(from)) {
            let part = want.map_or(behind, |w| g.with_opcode(behind, w));
            part.iter().for_each(|n| each(*n, Step::Return));
            looked += part.len() as u64;
        }
        looked
    }
    /// Passes the handlers in callers that an exception may reach when it leaves the method of
    /// `from`.
    fn unwind(&self, from: Node, want: Option<Opcode>, each: &mut dyn FnMut(Node, Step)) -> u64 {
        let g = self.icfg;
        let mut left = vec![false; g.method_count()];
        let mut work = vec![g.method(from)];
        left[g.method(from).0 as usize] = true;
        let mut looked = 1;
        // Methods that may be called from outside share the sites that call there.
        let mut seen = HashSet::new();
        while let Some(method) = work.pop() {
            let new = g.after_calls_of(method).filter(|set| seen.insert((set.as_ptr(), set.len())));
            for site in new.flatten().map(|behind| Node(behind.0 - 1)) {
                looked += 1 + g.handlers(site).map(|n| self.offer(n, Step::Unwind, want, each)).sum::<u64>();
                let caller = g.method(site);
                if !g.catches_all(site) && !std::mem::replace(&mut left[caller.0 as usize], true) {
                    work.push(caller);
                }
            }
        }
        looked
    }
    /// The number of symbols of `segment` that some path from `start` on matches; `None` if a
    /// limit is reached.
    pub fn accepts(
        &self,
        start: Node,
        segment: &Segment,
        limits: &ProjectionLimits,
        work: &mut Work,
    ) -> Option<usize> {
        if segment.is_empty() || !self.matches(start, segment, 0) {
            return Some(0);
        }
        let (mut states, mut next) = (vec![start], Vec::new());
        for index in 1..segment.len() {
            self.advance(&states, segment, index, &mut next, (limits, work))?;
            if next.is_empty() {
                return Some(index);
            }
            std::mem::swap(&mut states, &mut next);
        }
        Some(segment.len())
    }
    /// Computes the states at symbol `index` from those at the previous symbol; `None` if a
    /// limit is reached.
    fn advance(
        &self,
        states: &[Node],
        segment: &Segment,
        index: usize,
        next: &mut Vec<Node>,
        (limits, work): (&ProjectionLimits, &mut Work),
    ) -> Option<()> {
        let Symbol { outcome, .. } = segment.symbols()[index - 1];
        let want = segment.symbols()[index].opcode;
        next.clear();
        for state in states {
            work.transitions += self.successors(*state, outcome, Some(want), &mut |n, _| {
                if segment.admits(self.icfg, index, n) {
                    next.push(n);
                }
            });
            // Some states may have come more than once.
            let crowded = next.len() > 2 * limits.width;
            if crowded {
                next.sort_unstable();
                next.dedup();
            }
            if crowded && next.len() > limits.width || work.exhausted(limits) {
                return None;
            }
        }
        next.sort_unstable();
        next.dedup();
        (next.len() <= limits.width).then_some(())
    }
}

/// Whether an edge of `kind` is taken where the instruction ended with `outcome`.
pub(super) fn follows(kind: EdgeKind, outcome: Outcome) -> bool {
    match kind {
        EdgeKind::NotTaken => outcome != Outcome::Taken,
        EdgeKind::Taken => outcome != Outcome::NotTaken,
        _ => true,
    }
}
