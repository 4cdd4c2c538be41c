// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The automaton against the direction of execution: from a known position to the start of a
//! segment.

use super::nfa::{Nfa, follows};
use super::places::Places;
use super::work::{ProjectionLimits, Work};
use crate::segment::{Outcome, Segment, Symbol};
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};

/// Finds predecessors.
#[derive(Clone, Copy, Debug)]
pub struct Backwards<'a> {
    nfa: Nfa<'a>,
    places: &'a Places,
}

impl<'a> Backwards<'a> {
    /// For the graph of `nfa`, whose instructions `places` lists.
    pub const fn new(nfa: Nfa<'a>, places: &'a Places) -> Self {
        Self { nfa, places }
    }
    const fn icfg(&self) -> &'a Icfg {
        self.nfa.icfg()
    }
    /// Passes every node that `symbol` may be, if `to` follows it, to `each`; a node may be
    /// passed several times. Returns the number of nodes examined.
    ///
    /// For an exception that left its method, all nodes with the opcode are passed, whether
    /// they may have thrown it or not.
    pub fn predecessors(&self, to: Node, symbol: Symbol, each: &mut dyn FnMut(Node)) -> u64 {
        match (symbol.outcome, symbol.opcode.transfer()) {
            (Outcome::Unwound, _) if self.icfg().rows_into(to).next().is_none() => 1,
            (Outcome::Unwound, _) => hand(self.places.of(symbol.opcode), each),
            (Outcome::Thrown, _) => self.throwers(to, symbol.opcode, each),
            (Outcome::Returned, Transfer::Invoke) => {
                let site = self.icfg().site_before(to).filter(|s| self.icfg().opcode(*s) == symbol.opcode);
                site.into_iter().for_each(each);
                1
            }
            (_, Transfer::Invoke) => self.sites(to, symbol.opcode, each),
            (_, Transfer::Return) => self.returns(to, symbol.opcode, each),
            _ => self.within(to, symbol, each),
        }
    }
    fn throwers(&self, handler: Node, opcode: Opcode, each: &mut dyn FnMut(Node)) -> u64 {
        let g = self.icfg();
        let mut looked = 1;
        for row in g.rows_into(handler) {
            let covered = self.places.between(opcode, row.start, row.end);
            looked += covered.len() as u64;
            covered.iter().filter(|n| g.handlers(**n).any(|h| h == handler)).for_each(|n| each(*n));
        }
        looked
    }
    fn sites(&self, to: Node, opcode: Opcode, each: &mut dyn FnMut(Node)) -> u64 {
        let g = self.icfg();
        let mut looked = 1;
        let mut offer = |site: Node| {
            if g.opcode(site) == opcode {
                each(site);
            }
        };
        if to.0 > 0 && g.passes(Node(to.0 - 1)) && g.edges(Node(to.0 - 1)).any(|(_, n)| n == to) {
            offer(Node(to.0 - 1));
        }
        if g.is_entry(to) {
            for behind in g.after_calls_of(g.method(to)) {
                looked += behind.len() as u64;
                behind.iter().for_each(|b| offer(Node(b.0 - 1)));
            }
        }
        looked
    }
    fn returns(&self, to: Node, opcode: Opcode, each: &mut dyn FnMut(Node)) -> u64 {
        let g = self.icfg();
        let Some(site) = g.site_before(to) else { return 1 };
        let outside: &[Node] = if g.is_outside(site) { g.outside_entries() } else { &[] };
        let mut looked = 1;
        for entry in g.callees(site).iter().chain(outside) {
            looked += 1;
            for node in self.places.returns_of(g, g.method(*entry), opcode) {
                looked += 1;
                each(node);
            }
        }
        looked
    }
    fn within(&self, to: Node, symbol: Symbol, each: &mut dyn FnMut(Node)) -> u64 {
        let g = self.icfg();
        let leads = |n: &Node| {
            g.opcode(*n) == symbol.opcode && g.edges(*n).any(|(k, t)| t == to && follows(k, symbol.outcome))
        };
        let in_front = to.0.checked_sub(1).map(Node);
        let mut looked = 1;
        for n in in_front.into_iter().chain(g.jumps_to(to)) {
            looked += 1;
            if leads(&n) {
                each(n);
            }
        }
        looked
    }
    /// The nodes that the symbols of `segment` up to `index` may be, if symbol `index` is one
    /// of `nodes`: back to symbol 0, or to where a limit is reached.
    pub fn reach(
        &self,
        segment: &Segment,
        index: usize,
        nodes: Vec<Node>,
        limits: &ProjectionLimits,
        work: &mut Work,
    ) -> Reach {
        let (mut states, mut before) = (nodes, Vec::new());
        states.sort_unstable();
        let mut reach = Reach { first: index, last: index, nodes: states.clone(), ends: vec![states.len()] };
        for at in (0..index).rev() {
            before.clear();
            let symbol = segment.symbols()[at];
            for to in &states {
                work.transitions += self.predecessors(*to, symbol, &mut |n| before.push(n));
                if work.exhausted(limits) || before.len() > limits.width {
                    return reach;
                }
            }
            before.sort_unstable();
            before.dedup();
            before.retain(|n| segment.admits(self.icfg(), at, *n));
            std::mem::swap(&mut states, &mut before);
            reach.push(&states);
        }
        reach
    }
}

/// The nodes that some symbols of a segment may be, by the knowledge about later symbols.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The first and the last symbol with such knowledge.
    first: usize,
    last: usize,
    /// The nodes of each symbol, ascending; the symbols from the last one backwards.
    nodes: Vec<Node>,
    /// The end of each symbol's nodes.
    ends: Vec<usize>,
}

impl Reach {
    /// Adds the nodes of the symbol before the first one.
    fn push(&mut self, nodes: &[Node]) {
        self.first -= 1;
        self.nodes.extend(nodes);
        self.ends.push(self.nodes.len());
    }
    /// The first symbol with known nodes.
    pub const fn first(&self) -> usize {
        self.first
    }
    /// The last symbol with known nodes.
    pub const fn last(&self) -> usize {
        self.last
    }
    /// The nodes that symbol `index` may be, ascending; `None` if nothing is known.
    pub fn at(&self, index: usize) -> Option<&[Node]> {
        let at = self.last.checked_sub(index).filter(|_| index >= self.first)?;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.nodes[from..self.ends[at]])
    }
    /// Whether symbol `index` may be `node`.
    pub fn admits(&self, index: usize, node: Node) -> bool {
        self.at(index).is_none_or(|nodes| nodes.binary_search(&node).is_ok())
    }
}

fn hand(nodes: &[Node], each: &mut dyn FnMut(Node)) -> u64 {
    nodes.iter().for_each(|n| each(*n));
    nodes.len() as u64
}
