// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A call tree for the page: fewer nodes if there are too many, with the same sums.
//!
//! The weight of a node is the number of bytecodes and calls of its subtree. The heaviest nodes are
//! kept. Since no node is heavier than its parent, the parent of a kept node is kept. The
//! subtrees of a node that are not kept become one node, `(N more)`, that holds the sums of their
//! figures.

use std::cmp::Reverse;

use jportal_analyses::tree::{CallTree, Context, Kind, Limits, Tiers};
use jportal_flow::Tally;

/// A node of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folded<'a> {
    /// Index of the parent among the kept nodes. `None` for a root.
    pub(super) parent: Option<u32>,
    /// Number of steps from the root.
    pub(super) depth: u32,
    /// The node, or the first one of those that were folded.
    pub(super) node: &'a Context,
    /// The number of nodes that were folded into this one; 0 for a node of the tree.
    pub(super) folded: u64,
    /// The sums of the nodes' own figures.
    pub(super) own: Own,
}

/// The figures of a node without those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) calls: Tally,
    pub(super) unstarted: u64,
    pub(super) found: u64,
    pub(super) bytecodes: Tally,
    pub(super) tiers: Tiers,
    pub(super) default: u64,
    pub(super) ticks: u64,
    pub(super) inexact: bool,
    pub(super) unresolved: Option<Limits>,
}

impl Own {
    fn add(&mut self, c: &Context) {
        self.calls.merge(&c.invocations);
        self.unstarted += c.unstarted;
        self.found += c.found;
        self.bytecodes.merge(&c.bytecodes);
        self.tiers.interpreter += c.tiers.interpreter;
        self.tiers.c1 += c.tiers.c1;
        self.tiers.c2 += c.tiers.c2;
        self.default += c.default.unwrap_or_default();
        self.ticks += c.ticks;
        self.inexact |= !c.exact;
        if let Some(more) = c.unresolved {
            let sum = self.unresolved.get_or_insert_with(|| Limits { max: Some(0), ..Limits::default() });
            sum.stretches += more.stretches;
            sum.min = sum.min.saturating_add(more.min);
            sum.max = sum.max.zip(more.max).and_then(|(a, b)| a.checked_add(b));
        }
    }
    fn of(c: &Context) -> Self {
        let mut own = Self::default();
        own.add(c);
        own
    }
}

/// The tree with at most `keep` of its nodes, and one for each node whose children were folded.
/// Roots are always kept. In preorder.
pub(super) fn fold(tree: &CallTree, keep: usize) -> Vec<Folded<'_>> {
    let nodes = &tree.nodes;
    let kept = if nodes.len() > keep { heaviest(nodes, keep) } else { vec![true; nodes.len()] };
    // For each node that is not kept, the lowest kept node above it.
    let mut above: Vec<u32> = vec![0; nodes.len()];
    let mut more: Vec<Option<Box<(u64, u32, Own)>>> = vec![None; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        let Some(parent) = node.parent.map(|p| p as usize).filter(|p| *p < i) else { continue };
        above[i] = if kept[parent] { parent as u32 } else { above[parent] };
        if !kept[i] {
            let sum = more[above[i] as usize].get_or_insert_with(|| Box::new((0, i as u32, Own::default())));
            sum.0 += 1;
            sum.2.add(node);
        }
    }
    let mut out: Vec<Folded<'_>> = Vec::with_capacity(nodes.len().min(2 * keep));
    let mut place = vec![0u32; nodes.len()];
    for (i, node) in nodes.iter().enumerate().filter(|(i, _)| kept[*i]) {
        let parent = node.parent.filter(|p| (*p as usize) < i).map(|p| place[p as usize]);
        let depth = parent.map_or(0, |p| out[p as usize].depth + 1);
        place[i] = out.len() as u32;
        out.push(Folded { parent, depth, node, folded: 0, own: Own::of(node) });
        if let Some(sum) = more[i].take() {
            let (folded, first, own) = *sum;
            let (parent, node) = (Some(place[i]), &nodes[first as usize]);
            out.push(Folded { parent, depth: depth + 1, node, folded, own });
        }
    }
    out
}

/// Which nodes are kept: the `keep` heaviest, and the roots.
fn heaviest(nodes: &[Context], keep: usize) -> Vec<bool> {
    let mut weights: Vec<u64> =
        nodes.iter().map(|n| n.bytecodes.total().saturating_add(n.invocations.total())).collect();
    for i in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[i].parent.map(|p| p as usize).filter(|p| *p < i) {
            weights[parent] = weights[parent].saturating_add(weights[i]);
        }
    }
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    // A parent has a smaller number than its children, so that of equal weights it comes first.
    order.sort_unstable_by_key(|i| (Reverse(weights[*i as usize]), *i));
    let mut kept: Vec<bool> = nodes.iter().map(|n| n.parent.is_none()).collect();
    for i in order.iter().take(keep) {
        kept[*i as usize] = true;
    }
    kept
}

/// The letter of a kind in the page.
pub(super) const fn letter(kind: Kind) -> char {
    match kind {
        Kind::Root => 'r',
        Kind::Call => 'c',
        Kind::Upcall => 'u',
        Kind::Unknown => 'k',
        Kind::Orphans => 'o',
        Kind::Silent => 's',
        Kind::Library => 'l',
    }
}
