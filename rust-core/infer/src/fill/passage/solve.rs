// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Computes the ways out of methods.

use super::{AllExits, Cost, Edge, Exits, LARGEST, Passages, STEP, Tier, Tiers};
use jportal_bytecode::{Node, Transfer};
use jportal_units::MethodId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Largest number of methods that are solved at once.
const SOLVED: usize = 1 << 16;
const NONE: u32 = u32::MAX;

/// Computes the ways out of methods, of the methods that these may call, and so on.
///
/// The cost of a way through a call is the cost of the way through the callee plus the cost of
/// the rest. The cheapest ways are found first, for all methods together (Knuth, "A
/// generalization of Dijkstra's algorithm", 1977). Recursion needs no special care: the
/// cheapest way through a method never contains the method itself.
pub(super) struct Solve<'p, 'a> {
    passages: &'p Passages<'a>,
    /// The methods, each with its first node and the index of that node in the vectors below.
    methods: Vec<(MethodId, u32, usize)>,
    /// For each method of the graph, its index in `methods`, or [`NONE`]. Lent by
    /// [`Exited`](super::Exited), and given back with [`NONE`] for all.
    index: Vec<u32>,
    /// For each node, the cost of the cheapest way known and its first step.
    ways: Vec<(f64, Option<Edge>)>,
    settled: Vec<bool>,
    /// Steps that wait for a node, which is their target or the entry of their callee.
    /// `waiting` has the index of the last one for each node. `steps` has the source of each,
    /// the step, and the index of the one before.
    waiting: Vec<u32>,
    steps: Vec<(Node, Edge, u32)>,
    queue: BinaryHeap<Reverse<(Cost, u32)>>,
}

impl<'p, 'a> Solve<'p, 'a> {
    /// Prepares the methods `wanted` and those that they may call, without those that are known
    /// already.
    pub(super) fn of(passages: &'p Passages<'a>, wanted: impl IntoIterator<Item = MethodId>) -> Self {
        let (ways, settled, waiting) = (Vec::new(), Vec::new(), Vec::new());
        let (methods, mut index) = (Vec::new(), passages.known.index.take());
        index.resize(passages.icfg.method_count(), NONE);
        let (steps, queue) = (Vec::new(), BinaryHeap::new());
        let mut all = Self { passages, methods, index, ways, settled, waiting, steps, queue };
        wanted.into_iter().for_each(|method| all.add(method));
        let mut done = 0;
        while let Some((_, first, base)) = all.methods.get(done).copied() {
            let len = passages.icfg.nodes_of(all.methods[done].0).len();
            (0..len).for_each(|at| all.node(Node(first + at as u32), base + at));
            done += 1;
        }
        all
    }
    /// Adds a method, unless it was added before, is known, or exceeds a limit.
    fn add(&mut self, method: MethodId) {
        let nodes = self.passages.icfg.nodes_of(method);
        if nodes.is_empty()
            || nodes.len() > LARGEST
            || self.methods.len() >= SOLVED
            || self.index[method.0 as usize] != NONE
            || self.passages.known.of_executed(method).is_some()
        {
            return;
        }
        self.index[method.0 as usize] = self.methods.len() as u32;
        self.methods.push((method, nodes.start, self.ways.len()));
        let len = self.ways.len() + nodes.len();
        self.ways.resize(len, (f64::INFINITY, None));
        self.settled.resize(len, false);
        self.waiting.resize(len, NONE);
    }
    /// The index of a node in the vectors.
    fn at(&self, node: Node) -> Option<usize> {
        let index = self.index[self.passages.icfg.method(node).0 as usize];
        let (_, first, base) = self.methods.get(index as usize)?;
        Some(base + (node.0 - first) as usize)
    }
    fn node(&mut self, node: Node, at: usize) {
        if self.passages.icfg.opcode(node).transfer() == Transfer::Return {
            self.ways[at].0 = STEP;
            self.queue.push(Reverse((Cost(STEP), node.0)));
        }
        for mut edge in self.passages.steps(node) {
            if let Some(entry) = edge.callee {
                let method = self.passages.icfg.method(entry);
                self.add(method);
                edge.cost += self.passages.known.of_executed(method).map_or(0.0, |exits| exits.of(entry).0);
            }
            if edge.cost.is_finite() {
                let callee = edge.callee.and_then(|entry| self.at(entry));
                [self.at(edge.to), callee].into_iter().flatten().for_each(|target| {
                    self.steps.push((node, edge, self.waiting[target]));
                    self.waiting[target] = self.steps.len() as u32 - 1;
                });
            }
        }
    }
    /// The cost of `edge` and of what follows it. `None` if that is not settled, or if the
    /// callee is left out.
    fn cost(&self, edge: &Edge) -> Option<f64> {
        let settled = |node: Node| self.at(node).filter(|at| self.settled[*at]).map(|at| self.ways[at].0);
        let callee = match edge.callee {
            None => 0.0,
            Some(entry) if self.at(entry).is_some() => settled(entry)?,
            // The cost of the edge includes that of a known callee.
            Some(entry) => self.passages.known.of_executed(self.passages.icfg.method(entry)).map(|_| 0.0)?,
        };
        Some(edge.cost + callee + settled(edge.to)?)
    }
    pub(super) fn run(mut self) -> AllExits {
        // If an instruction has only one step, its way is known as soon as that of the next
        // instruction is. It does not need to wait in the queue until it is the cheapest of
        // all.
        let mut known = Vec::new();
        while let Some(Reverse((_, node))) = self.queue.pop() {
            known.push(Node(node));
            while let Some(node) = known.pop() {
                let Some(at) = self.at(node).filter(|at| !self.settled[*at]) else { continue };
                self.settled[at] = true;
                let mut next = self.waiting[at];
                while let Some((from, edge, before)) = self.steps.get(next as usize).copied() {
                    next = before;
                    let Some((cost, way)) = self.cost(&edge).zip(self.at(from)) else { continue };
                    if cost < self.ways[way].0 {
                        self.ways[way] = (cost, Some(edge));
                        if self.passages.icfg.tier(from) == Tier::Concrete {
                            known.push(from);
                        } else {
                            self.queue.push(Reverse((Cost(cost), from.0)));
                        }
                    }
                }
            }
        }
        let icfg = self.passages.icfg;
        let all = self.methods.iter().map(|(method, first, base)| {
            let ways = self.ways[*base..*base + icfg.nodes_of(*method).len()].to_vec();
            (*method, Arc::new(Exits { first: *first, ways }))
        });
        let all = all.collect();
        self.methods.iter().for_each(|(method, ..)| self.index[method.0 as usize] = NONE);
        self.passages.known.index.replace(self.index);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::Exited;
    use super::*;
    use crate::fill::{Captured, Frequencies};
    use crate::support::{calling, graph, method};

    #[test]
    fn what_was_asked_before_changes_no_way_out() {
        // Methods 0 and 1 call 2, which returns; nothing was executed.
        let caller = |name| calling(method(name, &[184, 0, 1, 177]), &["h"]);
        let g = graph(vec![caller("e"), caller("f"), method("h", &[177])]);
        let (frequencies, none) = (Frequencies::new(&Captured::default()), AllExits::new());
        let costs = |asked: &[u32]| -> Vec<f64> {
            let passages = Passages { icfg: &g, frequencies: &frequencies, known: &Exited::new(&none) };
            let cost = |method| passages.exits(method).unwrap().of(g.entry(method).unwrap()).0;
            asked.iter().map(|method| cost(MethodId(*method))).collect()
        };
        let [first, second, callee] = [0, 1, 2].map(|method| costs(&[method])[0]);
        assert!(callee < first && first == second && first.is_finite());
        assert_eq!(costs(&[0, 1, 2, 0]), [first, second, callee, first]);
    }
}
