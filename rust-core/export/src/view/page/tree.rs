// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A call tree in columns.

use jportal_analyses::tree::CallTree;
use serde::Serialize;

use super::why;
use crate::view::encode::{Column, Deltas, Sparse, Strings};
use crate::view::fold::{Folded, letter};
use crate::view::model::ViewTree;

/// Adds the names of all nodes to the strings.
pub(in crate::view) fn names(tree: &CallTree, strings: &mut Strings) {
    for node in &tree.nodes {
        strings.name(&node.method, &node.loader);
    }
}

/// A tree: the nodes in preorder, one row in each column.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::view) struct Tree {
    title: String,
    exact: bool,
    why: Vec<String>,
    /// How the tree was built.
    settings: Vec<(&'static str, String)>,
    /// The trees' names, thread ids, and whether they are exact, in order of their roots.
    roots: Vec<(String, Option<u32>, bool)>,
    /// The letters of the nodes' kinds; `m` for folded nodes.
    kinds: String,
    /// Depths, as differences: a child follows its parent.
    depth: Deltas,
    name: Column,
    calls: Column,
    interpreter: Column,
    c1: Column,
    c2: Column,
    ticks: Column,
    /// Bytecodes of no tier.
    other: Sparse,
    inferred: Sparse,
    unstarted: Sparse,
    found: Sparse,
    /// 1: the node's own figures are lower bounds.
    inexact: Sparse,
    /// Unresolved stretches.
    stretches: Sparse,
    /// Fewest and 1 + most bytecodes that they hide; absent: no limit.
    hidden: [Sparse; 2],
    /// Bytecodes by whole blocks, if both ways of counting were requested.
    blocks: Sparse,
    /// 1 + bci of the call site, and its line.
    sites: [Sparse; 2],
    /// Nodes that a node stands for.
    folded: Sparse,
}

impl Tree {
    pub(in crate::view) fn of(view: &ViewTree, nodes: &[Folded<'_>], strings: &mut Strings) -> Self {
        let tree = &view.tree;
        let mut out = Self {
            title: view.title.clone(),
            exact: tree.exact,
            why: why(&tree.inexact),
            settings: settings(tree),
            roots: roots(tree),
            ..Self::default()
        };
        nodes.iter().enumerate().for_each(|(row, node)| out.push(row, node, strings));
        if out.ticks.0.iter().all(|t| *t == 0) {
            out.ticks.0.clear();
        }
        out
    }
    fn push(&mut self, row: usize, f: &Folded<'_>, strings: &mut Strings) {
        let (own, node) = (&f.own, f.node);
        self.kinds.push(if f.folded > 0 { 'm' } else { letter(node.kind) });
        self.depth.0.push(f.depth.into());
        self.name.0.push(if f.folded > 0 { 0 } else { strings.name(&node.method, &node.loader) });
        self.calls.0.push(own.calls.total());
        self.interpreter.0.push(own.tiers.interpreter);
        self.c1.0.push(own.tiers.c1);
        self.c2.0.push(own.tiers.c2);
        self.ticks.0.push(own.ticks);
        let tiers = own.tiers.interpreter + own.tiers.c1 + own.tiers.c2;
        self.other.put(row, own.bytecodes.total().saturating_sub(tiers));
        self.inferred.put(row, own.bytecodes.projected + own.bytecodes.recovered);
        self.unstarted.put(row, own.unstarted);
        self.found.put(row, own.found);
        self.inexact.put(row, own.inexact.into());
        if let Some(limits) = own.unresolved {
            self.stretches.put(row, limits.stretches);
            self.hidden[0].put(row, limits.min);
            self.hidden[1].put(row, limits.max.map_or(0, |n| n.saturating_add(1)));
        }
        self.blocks.put(row, own.default);
        if let Some(site) = node.site.filter(|_| f.folded == 0) {
            self.sites[0].put(row, u64::from(site.bci) + 1);
            self.sites[1].put(row, site.line.unwrap_or(0).into());
        }
        self.folded.put(row, f.folded);
    }
}

fn settings(tree: &CallTree) -> Vec<(&'static str, String)> {
    let s = &tree.settings;
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let mut all = vec![
        ("upcalls", s.upcalls.clone()),
        ("native methods", s.natives.clone()),
        ("call sites", yes(s.sites)),
        ("frames outside of the scope", s.hide.clone()),
        ("folded recursion", yes(s.folded_recursion)),
        ("blocks", s.blocks.clone()),
    ];
    if let Some(delta) = tree.delta {
        all.push(("error of counting whole blocks", format!("{:+.4}%", delta.error() * 100.0)));
    }
    all
}

/// The entries whose roots are nodes, by root.
fn roots(tree: &CallTree) -> Vec<(String, Option<u32>, bool)> {
    let mut threads: Vec<_> = tree.threads.iter().collect();
    threads.sort_by_key(|t| t.root);
    threads.iter().map(|t| (t.name.clone(), t.tid, t.exact)).collect()
}
