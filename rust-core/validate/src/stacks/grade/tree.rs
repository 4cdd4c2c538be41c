// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The exact call tree by names of methods.

use hashbrown::{HashMap, HashSet};
use jportal_analyses::tree::{CallTree, Kind};

use super::names::name_of_node;

/// What a profile's share is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cost {
    pub(super) bytecodes: u64,
    pub(super) ticks: u64,
}

impl Cost {
    pub(super) fn add(&mut self, other: Self) {
        self.bytecodes = self.bytecodes.saturating_add(other.bytecodes);
        self.ticks = self.ticks.saturating_add(other.ticks);
    }
}

/// Numbers of names.
#[derive(Debug, Default)]
pub(super) struct NameNumbers {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl NameNumbers {
    pub(super) fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            next
        })
    }
    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

/// A node of the tree of all threads together. Nodes of equal paths are one.
pub(super) type Place = u32;

/// The root: the caller of what is outermost in the threads.
pub(super) const ROOT: Place = 0;

/// The exact call tree of all threads together, by names.
#[derive(Debug)]
pub(super) struct NameTree {
    children: HashMap<(Place, u32), Place>,
    /// The nodes of each name.
    places: HashMap<u32, Vec<Place>>,
    /// Caller and callee of each call that happened.
    calls: HashSet<(u32, u32)>,
    /// By name: of the method itself, and with what it called. A recursive call counts once.
    pub(super) own: Vec<Cost>,
    pub(super) total: Vec<Cost>,
}

impl NameTree {
    pub(super) fn new(tree: &CallTree, names: &mut NameNumbers) -> Self {
        let mut this = Self {
            children: HashMap::new(),
            places: HashMap::new(),
            calls: HashSet::new(),
            own: Vec::new(),
            total: Vec::new(),
        };
        let mut count = ROOT + 1;
        // Of each node of the tree: its place, and its name. Those that stand for no method have
        // a place that no name leads to.
        let mut nodes: Vec<(Place, Option<u32>)> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let parent = node.parent.and_then(|p| nodes.get(p as usize)).copied();
            let name = match node.kind {
                Kind::Root => {
                    nodes.push((ROOT, None));
                    continue;
                }
                Kind::Call | Kind::Upcall | Kind::Silent => name_of_node(&node.method),
                Kind::Unknown | Kind::Orphans | Kind::Library => None,
            };
            let (above, caller) = parent.unwrap_or((ROOT, None));
            let number = name.map(|name| names.number(name));
            let place = match number {
                Some(number) => *this.children.entry((above, number)).or_insert(count),
                None => count,
            };
            if place == count {
                count += 1;
                number.into_iter().for_each(|n| this.places.entry(n).or_default().push(place));
            }
            if let (Some(caller), Some(callee)) = (caller, number) {
                this.calls.insert((caller, callee));
            }
            nodes.push((place, number));
        }
        this.sum(tree, &nodes, names.len());
        this
    }
    fn sum(&mut self, tree: &CallTree, nodes: &[(Place, Option<u32>)], names: usize) {
        self.own = vec![Cost::default(); names];
        self.total = vec![Cost::default(); names];
        let mut below: Vec<Cost> =
            tree.nodes.iter().map(|n| Cost { bytecodes: n.bytecodes.total(), ticks: n.ticks }).collect();
        for (at, (_, name)) in nodes.iter().enumerate() {
            name.iter().for_each(|n| self.own[*n as usize].add(below[at]));
        }
        // Parents have smaller numbers.
        for at in (0..tree.nodes.len()).rev() {
            let cost = below[at];
            if let Some(above) = tree.nodes[at].parent.and_then(|p| below.get_mut(p as usize)) {
                above.add(cost);
            }
        }
        // How often each name is on the path to the present node.
        let mut open: Vec<usize> = Vec::new();
        let mut on_path = vec![0_u32; names];
        for (at, node) in tree.nodes.iter().enumerate() {
            while open.last().copied() != node.parent.map(|p| p as usize) {
                let Some(left) = open.pop() else { break };
                nodes[left].1.into_iter().for_each(|n| on_path[n as usize] -= 1);
            }
            if let Some(n) = nodes[at].1 {
                if on_path[n as usize] == 0 {
                    self.total[n as usize].add(below[at]);
                }
                on_path[n as usize] += 1;
            }
            open.push(at);
        }
    }
    /// Whether a method was called by another one.
    pub(super) fn has_call(&self, caller: u32, callee: u32) -> bool {
        self.calls.contains(&(caller, callee))
    }
    /// Whether a method was executed, or called without a frame.
    pub(super) fn has(&self, name: u32) -> bool {
        self.places.contains_key(&name)
    }
    /// How many frames of a stack, outermost first, a path of the tree has. If the stack is
    /// truncated, the path may begin anywhere.
    pub(super) fn prefix(&self, stack: &[u32], truncated: bool) -> usize {
        let Some((first, rest)) = stack.split_first() else { return 0 };
        let begins = match truncated {
            true => self.places.get(first).map_or(&[][..], Vec::as_slice),
            false => self.children.get(&(ROOT, *first)).map_or(&[][..], std::slice::from_ref),
        };
        let mut longest = 0;
        for &begin in begins {
            let (mut at, mut frames) = (begin, 1);
            for name in rest {
                let Some(&next) = self.children.get(&(at, *name)) else { break };
                (at, frames) = (next, frames + 1);
            }
            longest = longest.max(frames);
            if longest == stack.len() {
                break;
            }
        }
        longest
    }
}
