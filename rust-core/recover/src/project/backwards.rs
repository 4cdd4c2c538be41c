//! The automaton against the direction of execution: from a position that is known to where a segment began.

use super::nfa::{Nfa, follows};
use super::places::Places;
use super::work::{Limits, Work};
use crate::segment::{Outcome, Segment, Symbol};
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_units::MethodId;

/// Finds predecessors.
#[derive(Clone, Copy, Debug)]
pub struct Backwards<'a> {
    nfa: Nfa<'a>,
    places: &'a Places,
}

impl<'a> Backwards<'a> {
    /// Over the graph of `nfa`, whose instructions are listed in `places`.
    pub const fn new(nfa: Nfa<'a>, places: &'a Places) -> Self {
        Self { nfa, places }
    }
    const fn icfg(&self) -> &'a Icfg {
        self.nfa.icfg()
    }
    /// Hands every node that `symbol` may be, where `to` follows it, to `each`; some may come more than once. Returns how
    /// many were looked at.
    ///
    /// Which instruction may have thrown an exception that left its method is not asked: all that have the opcode come.
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
            for behind in g.behind_calls_of(g.method(to)) {
                looked += behind.len() as u64;
                behind.iter().for_each(|b| offer(Node(b.0 - 1)));
            }
        }
        looked
    }
    fn returns(&self, to: Node, opcode: Opcode, each: &mut dyn FnMut(Node)) -> u64 {
        let g = self.icfg();
        let Some(site) = g.site_before(to) else { return 1 };
        let of_method = |m: MethodId| {
            let nodes = g.nodes_of(m);
            self.places.between(opcode, nodes.start, nodes.end)
        };
        let outside: &[Node] = if g.is_outside(site) { g.outside_entries() } else { &[] };
        let entries = g.callees(site).iter().chain(outside);
        1 + entries.map(|e| 1 + hand(of_method(g.method(*e)), each)).sum::<u64>()
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
    /// The nodes that symbol 0 of `segment` may be where symbol `index` is one of `nodes`; `None` when a limit is met.
    pub fn starts(
        &self,
        segment: &Segment,
        index: usize,
        nodes: Vec<Node>,
        limits: &Limits,
        work: &mut Work,
    ) -> Option<Vec<Node>> {
        let (mut states, mut before) = (nodes, Vec::new());
        for at in (0..index).rev() {
            before.clear();
            let symbol = segment.symbols()[at];
            for to in &states {
                work.transitions += self.predecessors(*to, symbol, &mut |n| before.push(n));
                if work.exhausted(limits) || before.len() > limits.width {
                    return None;
                }
            }
            before.sort_unstable();
            before.dedup();
            before.retain(|n| segment.admits(self.icfg(), at, *n));
            std::mem::swap(&mut states, &mut before);
        }
        Some(states)
    }
}

fn hand(nodes: &[Node], each: &mut dyn FnMut(Node)) -> u64 {
    nodes.iter().for_each(|n| each(*n));
    nodes.len() as u64
}
