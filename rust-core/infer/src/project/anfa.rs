// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The abstract automaton of Definition 4.3 and its deterministic form.
//!
//! Instructions without control transfer become ε. Each of them has one successor, so the
//! ε-closure of a node is the straight line to the next control instruction. The states of the
//! [`Dfa`] are sets of matched control instructions (the paper's Figure 5(b), each state
//! without the nodes on its lines). The whole `Dfa` of a program would not fit in memory: its
//! states are made when a segment first needs them, and dropped together when there are too
//! many.
//!
//! Anchors are positions, which the abstraction ignores.

use super::nfa::Nfa;
use super::work::{ProjectionLimits, Work};
use crate::segment::{Outcome, Segment, Symbol};
use hashbrown::HashMap;
use jportal_bytecode::{Node, Transfer};

/// The abstraction α_s of a segment (Definition 4.2).
pub fn abstraction(segment: &Segment) -> Vec<Symbol> {
    segment.symbols().iter().copied().filter(|s| s.is_control()).collect()
}

/// The abstract automaton (Definition 4.3).
#[derive(Clone, Copy, Debug)]
pub struct Anfa<'a> {
    nfa: Nfa<'a>,
}

impl<'a> Anfa<'a> {
    /// The abstraction of `nfa`.
    pub const fn new(nfa: Nfa<'a>) -> Self {
        Self { nfa }
    }
    /// Finds the nodes that match `symbol` on the straight line from `node` on; `node` itself
    /// is not matched yet. Returns the number of nodes examined.
    pub fn closure(&self, node: Node, symbol: Symbol, found: &mut Vec<Node>) -> u64 {
        let g = self.nfa.icfg();
        let (mut at, mut looked) = (node, 1);
        loop {
            let control = g.opcode(at).transfer() != Transfer::None;
            if g.opcode(at) == symbol.opcode && (control || symbol.throws()) {
                found.push(at);
            }
            if control {
                return looked;
            }
            let Some((_, next)) = g.edges(at).next() else { return looked };
            (at, looked) = (next, looked + 1);
        }
    }
    /// The nodes matched after `symbol`, ascending, from those matched before with `outcome`;
    /// and the number of nodes examined.
    pub fn step(&self, from: &[Node], outcome: Outcome, symbol: Symbol) -> (Vec<Node>, u64) {
        let (mut next, mut looked) = (Vec::new(), 0);
        for node in from {
            let mut reached = Vec::new();
            looked += self.nfa.successors(*node, outcome, None, &mut |n, _| reached.push(n));
            reached.sort_unstable();
            reached.dedup();
            looked += reached.iter().map(|n| self.closure(*n, symbol, &mut next)).sum::<u64>();
        }
        next.sort_unstable();
        next.dedup();
        (next, looked)
    }
}

/// A state of the deterministic automaton: the nodes that may have been matched last, and their
/// outcome.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Subset {
    nodes: Box<[Node]>,
    outcome: Outcome,
}

/// The deterministic automaton, made lazily.
#[derive(Debug)]
pub struct Dfa<'a> {
    anfa: Anfa<'a>,
    subsets: Vec<Subset>,
    numbers: HashMap<Subset, u32>,
    transitions: HashMap<(u32, Symbol), u32>,
    /// The number of members of all subsets.
    members: usize,
}

impl<'a> Dfa<'a> {
    /// The automaton of `anfa`, with no state yet.
    pub fn new(anfa: Anfa<'a>) -> Self {
        let (numbers, transitions) = (HashMap::new(), HashMap::new());
        Self { anfa, subsets: Vec::new(), numbers, transitions, members: 0 }
    }
    /// The current number of states.
    pub fn states(&self) -> usize {
        self.subsets.len()
    }
    /// Whether the abstract segment `symbols` is accepted from `start` on; `None` if a limit is
    /// reached.
    ///
    /// If the segment's first symbol belongs to the abstraction, `start` has matched it.
    pub fn accepts(
        &mut self,
        start: Node,
        symbols: &[Symbol],
        limits: &ProjectionLimits,
        work: &mut Work,
    ) -> Option<bool> {
        let Some((first, rest)) = symbols.split_first() else { return Some(true) };
        let mut nodes = Vec::new();
        work.abstract_transitions += self.anfa.closure(start, *first, &mut nodes);
        let Some(mut state) = self.number(Subset { nodes: nodes.into(), outcome: first.outcome }) else {
            return Some(false);
        };
        for symbol in rest {
            if work.exhausted(limits) {
                return None;
            }
            match self.next(state, *symbol, limits, work) {
                Some(next) => state = next,
                None => return Some(false),
            }
        }
        Some(true)
    }
    /// The state after `symbol`; `None` if there is none.
    fn next(
        &mut self,
        state: u32,
        symbol: Symbol,
        limits: &ProjectionLimits,
        work: &mut Work,
    ) -> Option<u32> {
        if let Some(next) = self.transitions.get(&(state, symbol)) {
            return (*next != NONE).then_some(*next);
        }
        let from = &self.subsets[state as usize];
        let (nodes, looked) = self.anfa.step(&from.nodes, from.outcome, symbol);
        work.abstract_transitions += looked;
        let flushed = self.members + self.transitions.len() + nodes.len() > limits.cached;
        if flushed {
            work.flushes += 1;
            self.clear();
        }
        let next = self.number(Subset { nodes: nodes.into(), outcome: symbol.outcome });
        if !flushed {
            self.transitions.insert((state, symbol), next.unwrap_or(NONE));
        }
        next
    }
    fn number(&mut self, subset: Subset) -> Option<u32> {
        if subset.nodes.is_empty() {
            return None;
        }
        let next = self.subsets.len() as u32;
        let number = *self.numbers.entry(subset.clone()).or_insert(next);
        if number == next {
            self.members += subset.nodes.len() + 1;
            self.subsets.push(subset);
        }
        Some(number)
    }
    fn clear(&mut self) {
        self.subsets.clear();
        self.numbers.clear();
        self.transitions.clear();
        self.members = 0;
    }
}

/// No state.
const NONE: u32 = u32::MAX;
