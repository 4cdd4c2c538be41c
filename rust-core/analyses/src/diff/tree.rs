// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares call trees node by node.
//!
//! Both trees are laid into one: a node's key is its method, its loader and, if the trees have
//! call sites, the bci of the call. Nodes of a tree that have the same key and parent become one
//! node, with the sum of their figures. A key does not say whether the VM or Java code made the
//! call.

use std::rc::Rc;

use hashbrown::HashMap;

use super::collect::{Collector, DiffSubject, Lines, Pair, add};
use super::{Diff, DiffError, DiffOptions, DocumentKind, Side, loader};
use crate::tree::{CallTree, Context, Kind, Settings};

const FIGURES: [&str; 4] = ["invocations", "bytecodes", "unstarted", "found"];

/// The parent, method, loader and call site of a node. The names are numbers of texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ChildKey {
    parent: Option<u32>,
    method: u32,
    loader: u32,
    bci: Option<u16>,
}

/// Both trees in one.
#[derive(Default)]
struct Both {
    texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
    places: HashMap<ChildKey, u32>,
    nodes: Vec<(ChildKey, Pair<4>)>,
}

/// Lays the trees into one and compares its nodes.
pub(super) fn compare(trees: [&CallTree; 2], options: &DiffOptions) -> Result<Diff, DiffError> {
    check_settings(trees.map(|t| &t.settings), options)?;
    let mut both = Both::default();
    for (index, (side, tree)) in [Side::Before, Side::After].into_iter().zip(trees).enumerate() {
        both.lay(index, tree, options).map_err(|error| DiffError::Damaged { side, error })?;
    }
    Ok(both.diff(options))
}

/// An error if the trees were built in ways that cannot be compared.
fn check_settings(both: [&Settings; 2], options: &DiffOptions) -> Result<(), DiffError> {
    // All ways of counting blocks but `default` count bytecodes that began.
    let precise = |s: &Settings| if s.blocks == "default" { "default" } else { "precise" }.to_owned();
    type Value<'a> = (&'static str, &'a dyn Fn(&Settings) -> String);
    let values: [Value<'_>; 8] = [
        ("merged", &|s| (s.merged || options.merge_threads).to_string()),
        ("blocks", &precise),
        ("upcalls", &|s| s.upcalls.clone()),
        ("natives", &|s| s.natives.clone()),
        ("sites", &|s| s.sites.to_string()),
        ("hide", &|s| s.hide.clone()),
        ("folded_recursion", &|s| s.folded_recursion.to_string()),
        ("split", &|s| s.split.to_string()),
    ];
    for (setting, value) in values {
        let [before, after] = both.map(value);
        if before != after {
            return Err(DiffError::Settings { setting, before, after });
        }
    }
    Ok(())
}

impl Both {
    /// The number of a text.
    fn text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let (number, text) = (self.texts.len() as u32, Rc::<str>::from(text));
        self.numbers.insert(Rc::clone(&text), number);
        self.texts.push(text);
        number
    }
    /// The node of a key. Parents have smaller numbers.
    fn node(&mut self, key: ChildKey) -> u32 {
        let next = self.nodes.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.nodes.push((key, Pair::default()));
        }
        place
    }
    /// The root of the threads of a name.
    fn root(&mut self, name: &str) -> u32 {
        let (method, loader) = (self.text(name), self.text(""));
        self.node(ChildKey { parent: None, method, loader, bci: None })
    }
    /// Adds one tree as a side.
    fn lay(
        &mut self,
        side: usize,
        tree: &CallTree,
        options: &DiffOptions,
    ) -> Result<(), crate::tree::BadTree> {
        let threads = tree.threads_of_nodes()?;
        // The name of a method occurs in many nodes.
        let mut names: HashMap<(&str, &str), (u32, u32, bool)> = HashMap::new();
        let mut places: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        for (node, thread) in tree.nodes.iter().zip(threads) {
            let Some(parent) = node.parent else {
                let name = if options.merge_threads { "" } else { &tree.threads[thread as usize].name };
                let root = self.root(name);
                if options.classes.is_empty() {
                    add(&mut self.nodes[root as usize].1[side], figures(node));
                }
                places.push(root);
                continue;
            };
            let parent = places[parent as usize];
            let known = names.get(&(&*node.method, &*node.loader)).copied();
            let (method, loader, selected) = known.unwrap_or_else(|| {
                let selected = options.classes.is_empty() || options.selects_qualified(&node.method);
                let numbers =
                    (self.text(&options.name(&node.method, None)), self.text(&loader(&node.loader)));
                names.insert((&node.method, &node.loader), (numbers.0, numbers.1, selected));
                (numbers.0, numbers.1, selected)
            });
            // Frames of which the callers are not known must not look like calls from the root.
            if !selected && node.kind != Kind::Unknown {
                places.push(parent);
                continue;
            }
            let bci = node.site.map(|s| s.bci).filter(|_| tree.settings.sites);
            let place = self.node(ChildKey { parent: Some(parent), method, loader, bci });
            if selected {
                add(&mut self.nodes[place as usize].1[side], figures(node));
            }
            places.push(place);
        }
        Ok(())
    }
    fn diff(self, options: &DiffOptions) -> Diff {
        let mut collector = Collector::new(FIGURES, options);
        for at in self.in_order() {
            let place = || self.place(at, options);
            collector.item(self.nodes[at as usize].1, Lines::default(), place);
        }
        collector.end(DocumentKind::CallTree)
    }
    /// The nodes in preorder: threads and children by name, loader and call site.
    fn in_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        let rank = |at: &u32| {
            let key = self.nodes[*at as usize].0;
            (key.parent, &self.texts[key.method as usize], &self.texts[key.loader as usize], key.bci)
        };
        order.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
        // The children of each node are a range of `order` now, the roots the first.
        let parent = |at: &u32| self.nodes[*at as usize].0.parent;
        let children = |of: Option<u32>| {
            let start = order.partition_point(|at| parent(at) < of);
            start..start + order[start..].partition_point(|at| parent(at) == of)
        };
        let mut open: Vec<std::ops::Range<usize>> = vec![children(None)];
        let mut all = Vec::with_capacity(order.len());
        while let Some(range) = open.last_mut() {
            let Some(next) = range.next() else {
                open.pop();
                continue;
            };
            all.push(order[next]);
            open.push(children(Some(order[next])));
        }
        all
    }
    /// The thread and the frames down to a node. A call site is shown after its caller.
    fn place(&self, at: u32, options: &DiffOptions) -> DiffSubject {
        let text = |number: u32| self.texts[number as usize].to_string();
        let mut path: Vec<String> = Vec::new();
        let (mut at, mut bci, mut thread) = (Some(at), None, None);
        let mut last_loader = None;
        while let Some(node) = at {
            let key = self.nodes[node as usize].0;
            last_loader.get_or_insert(key.loader);
            match key.parent {
                None => thread = Some(text(key.method)).filter(|_| !options.merge_threads),
                Some(_) => {
                    let site = bci.map_or_else(String::new, |bci: u16| format!(" @{bci}"));
                    path.push(text(key.method) + &site);
                }
            }
            (at, bci) = (key.parent, key.bci);
        }
        path.reverse();
        DiffSubject { thread, path, loader: last_loader.map_or_else(String::new, text) }
    }
}

fn figures(node: &Context) -> [u64; 4] {
    [node.invocations.total(), node.bytecodes.total(), node.unstarted, node.found]
}
