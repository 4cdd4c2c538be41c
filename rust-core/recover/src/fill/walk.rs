//! The last resort: a path through the ICFG.

use super::{Captured, Fill, FillWork, Hole, Parameters, Source};
use crate::project::nfa::Nfa;
use crate::segment::Outcome;
use jportal_bytecode::{Icfg, Node};
use std::collections::HashMap;

/// Connects both ends of a gap through the ICFG.
///
/// The paper takes a random path. Of all paths this takes a shortest one, which at least is the same every time; calls
/// and returns are not paired, exceptions not thrown.
#[derive(Clone, Copy, Debug)]
pub struct Walker<'a> {
    nfa: Nfa<'a>,
}

impl<'a> Walker<'a> {
    /// Walks through `icfg`.
    pub const fn new(icfg: &'a Icfg) -> Self {
        Self { nfa: Nfa::new(icfg) }
    }
    /// A path from the last instruction in front of the gap to the first one behind it, these two left out.
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
        Some(Fill { nodes, source: Source::Walk })
    }
    fn path(&self, from: Node, to: Node, visits: usize, work: &mut FillWork) -> Option<Vec<Node>> {
        let mut before: HashMap<Node, Node> = HashMap::new();
        let mut layer = vec![from];
        while !layer.is_empty() && before.len() < visits {
            let mut next = Vec::new();
            for node in layer {
                work.visited += self.nfa.successors(node, Outcome::Open, None, &mut |n, _| {
                    if before.len() < visits && !before.contains_key(&n) {
                        before.insert(n, node);
                        next.push(n);
                    }
                });
                if before.contains_key(&to) {
                    return Some(back(&before, from, to));
                }
            }
            layer = next;
        }
        None
    }
}

/// The nodes between `from` and `to`.
fn back(before: &HashMap<Node, Node>, from: Node, to: Node) -> Vec<Node> {
    let mut path = Vec::new();
    let mut at = to;
    while let Some(node) = before.get(&at).copied().filter(|n| *n != from) {
        path.push(node);
        at = node;
    }
    path.reverse();
    path
}
