// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The last resort: a path through the ICFG.

use super::{Captured, Fill, FillSource, FillWork, Hole, Parameters};
use crate::project::nfa::Nfa;
use hashbrown::HashSet;
use jportal_bytecode::{Icfg, Node};
use std::cell::RefCell;

/// Connects both ends of a gap through the ICFG.
///
/// The paper takes a random path. This walker takes a shortest one, so that the result is the
/// same every time. Calls and returns are not paired, and no exception is thrown. Call sites
/// share the methods that they may call, and methods share the sites that they return to; each
/// of these sets is looked at once, so that a walk costs no more than the nodes that it may
/// visit.
#[derive(Clone, Debug)]
pub struct Walker<'a> {
    nfa: Nfa<'a>,
    seen: RefCell<VisitedNodes>,
}

/// The nodes that a walk has visited.
#[derive(Clone, Debug, Default)]
struct VisitedNodes {
    /// By node, the node from which the walk reached it: 4 bytes for each node of the graph,
    /// kept for the next walk.
    from: Vec<u32>,
    all: Vec<Node>,
}

/// No node.
const NONE: u32 = u32::MAX;

impl VisitedNodes {
    fn begin(&mut self, nodes: usize) {
        self.from.resize(nodes, NONE);
        for node in self.all.drain(..) {
            self.from[node.0 as usize] = NONE;
        }
    }
    fn holds(&self, node: Node) -> bool {
        self.from[node.0 as usize] != NONE
    }
    fn take(&mut self, node: Node, from: Node) {
        self.from[node.0 as usize] = from.0;
        self.all.push(node);
    }
    /// The nodes between `from` and `to`, in order.
    fn back(&self, from: Node, to: Node) -> Vec<Node> {
        let before =
            |node: Node| Some(Node(self.from[node.0 as usize])).filter(|n| *n != from && n.0 != NONE);
        let mut path: Vec<Node> = std::iter::successors(before(to), |node| before(*node)).collect();
        path.reverse();
        path
    }
}

impl<'a> Walker<'a> {
    /// A walker through `icfg`.
    pub fn new(icfg: &'a Icfg) -> Self {
        Self { nfa: Nfa::new(icfg), seen: RefCell::default() }
    }
    /// A path from the last instruction before the gap to the first one after it, without these
    /// two.
    pub fn connect(
        &self,
        captured: &Captured,
        hole: &Hole,
        parameters: &Parameters,
        work: &mut FillWork,
    ) -> Option<Fill> {
        let from = *captured.segment(hole.before).last()?;
        let to = *captured.segment(hole.after).first()?;
        let nodes = self.path(from, to, parameters.visits, work)?;
        Some(Fill { nodes, source: FillSource::Walk })
    }
    fn path(&self, from: Node, to: Node, visits: usize, work: &mut FillWork) -> Option<Vec<Node>> {
        let seen = &mut *self.seen.borrow_mut();
        seen.begin(self.nfa.icfg().len());
        let mut sets = HashSet::new();
        // The nodes are visited in the order in which they were found: `all` is a queue that
        // only grows.
        let mut next = 0;
        let mut node = from;
        while seen.all.len() < visits {
            work.visited += self.nfa.new_successors(node, &mut sets, &mut |n| {
                if seen.all.len() < visits && !seen.holds(n) {
                    seen.take(n, node);
                }
            });
            if seen.holds(to) {
                return Some(seen.back(from, to));
            }
            node = *seen.all.get(next)?;
            next += 1;
        }
        None
    }
}
