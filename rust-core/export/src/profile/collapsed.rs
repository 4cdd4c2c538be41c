// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Collapsed stacks (Brendan Gregg's FlameGraph, `stackcollapse-*.pl`): a line per stack, its
//! frames separated by semicolons, a space, its weight. And the same of two trees, with both
//! weights, as `difffolded.pl` writes it for differential flame graphs.
//!
//! The format has no escapes. In names, white space becomes `_`, a semicolon becomes `:`, and
//! other control characters become what a terminal shows for them. The format has no comments
//! either: the first frame of a thread that is not exact ends with `(inexact)`.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::rc::Rc;

use hashbrown::HashMap;
use jportal_analyses::names::stable_qualified;
use jportal_analyses::tree::CallTree;

use super::ProfileOptions;
use super::stacks::{Stacks, shown, thread_names};
use crate::Error;

/// The first frame if the stacks do not begin with the thread.
const ALL: &str = "all";

/// Writes a tree as collapsed stacks, sorted. Stacks of equal names are added up, and those
/// without weight are left out. Memory: proportional to the nodes.
pub fn write_collapsed(
    tree: &CallTree,
    options: &ProfileOptions<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let names = thread_names(tree);
    let first = |thread: usize| match options.threads {
        true => marked(&names[thread], is_exact(tree, thread)),
        false => marked(ALL, tree.exact),
    };
    let mut merged = Merged::default();
    merged.lay(0, tree, options, (&first, &|method| safe(shown(method, options.descriptors))))?;
    merged.write(out, |[weight, _]| weight.to_string())
}

/// Writes two trees as one list of collapsed stacks with two weights, that of `before` and that of
/// `after`. Threads are matched by name, methods by names without the parts that differ from run
/// to run. Stacks of equal names are added up.
pub fn write_collapsed_diff(
    before: &CallTree,
    after: &CallTree,
    options: &ProfileOptions<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let both = [before, after];
    let inexact: BTreeSet<&str> = both
        .iter()
        .flat_map(|tree| (0..tree.threads.len()).map(move |at| (*tree, at)))
        .filter(|(tree, at)| !is_exact(tree, *at))
        .map(|(tree, at)| tree.threads[at].name.as_str())
        .collect();
    let mut merged = Merged::default();
    for (side, tree) in both.into_iter().enumerate() {
        let first = |thread: usize| {
            let name = tree.threads[thread].name.as_str();
            match options.threads {
                true => marked(name, !inexact.contains(name)),
                false => marked(ALL, before.exact && after.exact),
            }
        };
        let name = |method: &str| safe(shown(&stable_qualified(method), options.descriptors));
        merged.lay(side, tree, options, (&first, &name))?;
    }
    merged.write(out, |[before, after]| format!("{before} {after}"))
}

fn is_exact(tree: &CallTree, thread: usize) -> bool {
    // A tree that is not exact has a thread that is not. If it does not say which, any may be it.
    tree.threads[thread].exact && (tree.exact || tree.threads.iter().any(|t| !t.exact))
}

fn marked(name: &str, exact: bool) -> String {
    let name = safe(name);
    if exact { name } else { format!("{name}_(inexact)") }
}

/// A name without the characters that the format needs.
fn safe(name: &str) -> String {
    if name.is_empty() {
        return "(no_name)".to_owned();
    }
    let name: String = name
        .chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_whitespace() => '_',
            c => c,
        })
        .collect();
    jportal_plain::line(&name).into_owned()
}

/// Trees with the nodes of equal names added up.
#[derive(Default)]
struct Merged {
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
    places: HashMap<(Option<u32>, u32), u32>,
    nodes: Vec<CollapsedNode>,
}

struct CollapsedNode {
    parent: Option<u32>,
    name: u32,
    weights: [u64; 2],
}

/// Gives the first frame of a thread, and the name of a method.
type Naming<'n> = (&'n dyn Fn(usize) -> String, &'n dyn Fn(&str) -> String);

impl Merged {
    /// The number of a name.
    fn name(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (number, name) = (self.names.len() as u32, Rc::<str>::from(name));
        self.numbers.insert(Rc::clone(&name), number);
        self.names.push(name);
        number
    }
    /// The node of that name below a parent.
    fn node(&mut self, parent: Option<u32>, name: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let place = *self.places.entry((parent, name)).or_insert(next);
        if place == next {
            self.nodes.push(CollapsedNode { parent, name, weights: [0; 2] });
        }
        place
    }
    /// Adds a tree to the weights of one side.
    fn lay(
        &mut self,
        side: usize,
        tree: &CallTree,
        options: &ProfileOptions<'_>,
        (first, name): Naming<'_>,
    ) -> Result<(), Error> {
        let stacks = Stacks::new(tree, options)?;
        let names: Vec<u32> = stacks.functions.iter().map(|(method, _)| self.name(&name(method))).collect();
        let mut places: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        for (at, node) in (0..).zip(&tree.nodes) {
            let place = match node.parent {
                None => {
                    let name = self.name(&first(stacks.threads[at as usize] as usize));
                    self.node(None, name)
                }
                Some(parent) if stacks.is_shown(at) => {
                    self.node(Some(places[parent as usize]), names[stacks.function(at) as usize])
                }
                Some(parent) => places[parent as usize],
            };
            places.push(place);
            let weight = &mut self.nodes[place as usize].weights[side];
            *weight = weight.saturating_add(stacks.weight(node)?);
        }
        Ok(())
    }
    /// Writes the stacks in preorder, the children of a node by name.
    fn write(&self, out: &mut dyn Write, weight: impl Fn([u64; 2]) -> String) -> Result<(), Error> {
        let mut out = BufWriter::new(out);
        let name = |at: u32| &*self.names[self.nodes[at as usize].name as usize];
        let parent = |at: u32| self.nodes[at as usize].parent;
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_unstable_by(|a, b| (parent(*a), name(*a)).cmp(&(parent(*b), name(*b))));
        // The children of each node are a range now, and the roots are the first.
        let children = |of: Option<u32>| -> Range<usize> {
            let start = order.partition_point(|at| parent(*at) < of);
            start..start + order[start..].partition_point(|at| parent(*at) == of)
        };
        let mut stack = String::new();
        let mut open = vec![(children(None), 0)];
        while let Some((range, length)) = open.last_mut() {
            stack.truncate(*length);
            let Some(next) = range.next() else {
                open.pop();
                continue;
            };
            let node = order[next];
            if !stack.is_empty() {
                stack.push(';');
            }
            stack.push_str(name(node));
            let weights = self.nodes[node as usize].weights;
            if weights != [0; 2] {
                writeln!(out, "{stack} {}", weight(weights))?;
            }
            open.push((children(Some(node)), stack.len()));
        }
        Ok(out.flush()?)
    }
}
