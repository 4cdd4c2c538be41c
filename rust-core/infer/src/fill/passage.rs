// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The passage from a trail to the way back where the two do not meet: it leaves the frames
//! that only the trail has and enters those that only the way back has.
//!
//! If a thread is in one loop before a gap and in another loop after it, each direction is
//! followed round and round its own loop. This module searches what lies between: the likeliest
//! way out of each frame, up to a frame that the way back reaches, too, and from there the
//! likeliest way to it. Ways are searched within a method; a call on the way takes the
//! likeliest way through its callee. Ways that were seen are preferred.

mod common;
mod solve;
mod walk;

use super::back::{Back, Spot};
use super::frames::Frames;
use super::frequencies::Frequencies;
use super::{Tier, Tiers};
use common::Downwards;
use hashbrown::HashMap;
use jportal_bytecode::{EdgeKind, Icfg, Node, Transfer};
use jportal_units::MethodId;
use solve::Solve;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use walk::Walk;

/// Largest depth of nested calls that a way goes through.
const DEPTH: usize = 64;
/// Largest number of instructions of a method that is searched.
const LARGEST: usize = 1 << 13;
/// The cost of each instruction on a way, in addition to its surprise.
const STEP: f64 = 0.05;
/// Number of callees per call site that are considered although they were never seen there.
const CALLEES: usize = 4;
/// The cost of a callee that was never seen at the call site.
const UNSEEN: f64 = 8.0;
/// The cost of passing a call without bytecodes of a callee, where that was never seen but the
/// graph allows it.
const UNKNOWN: f64 = 40.0;

/// A step within a frame: to an instruction of the same method, perhaps through a callee.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: Node,
    callee: Option<Node>,
    cost: f64,
}

/// For each instruction of a method, the cost of the likeliest way from there to the end of the
/// frame, and the first step of that way.
#[derive(Debug)]
pub(super) struct Exits {
    first: u32,
    ways: Vec<(f64, Option<Edge>)>,
}

impl Exits {
    fn of(&self, node: Node) -> (f64, Option<Edge>) {
        let at = node.0.checked_sub(self.first).map(|at| at as usize);
        at.and_then(|at| self.ways.get(at)).copied().unwrap_or((f64::INFINITY, None))
    }
}

/// A call site from which a method is called.
#[derive(Clone, Copy, Debug)]
struct Caller {
    site: Node,
    /// The instruction to which the method returns.
    behind: Node,
    /// The cost of this caller.
    cost: f64,
}

type Callers = Arc<[Caller]>;

/// The ways out of methods, by method.
pub(super) type AllExits = HashMap<MethodId, Arc<Exits>>;

/// What is known about methods so far.
#[derive(Debug)]
pub(super) struct Exited<'a> {
    /// The ways out of methods that were executed, and of those that they may call.
    executed: &'a AllExits,
    /// The ways out of other methods that were asked for.
    others: RefCell<AllExits>,
    callers: RefCell<HashMap<MethodId, Callers>>,
    /// For some methods, the methods that lead down to them.
    down: RefCell<HashMap<MethodId, Arc<Downwards>>>,
    /// Memory of [`Solve`] for each method of the graph, without content between its uses. It
    /// is kept, because creating it for the few methods that are solved at once would cost more
    /// than solving them.
    index: RefCell<Vec<u32>>,
}

impl<'a> Exited<'a> {
    pub(super) fn new(executed: &'a AllExits) -> Self {
        let (others, callers) = (RefCell::default(), RefCell::default());
        Self { executed, others, callers, down: RefCell::default(), index: RefCell::default() }
    }
    /// The ways out of `method`, if it was executed or may be called by one that was.
    fn of_executed(&self, method: MethodId) -> Option<&Exits> {
        self.executed.get(&method).map(|exits| &**exits)
    }
    /// The result of `look` for the ways out of `method`. `None` if they were not computed
    /// before.
    fn look<T>(&self, method: MethodId, look: impl FnOnce(&Arc<Exits>) -> T) -> Option<T> {
        match self.executed.get(&method) {
            Some(exits) => Some(look(exits)),
            None => self.others.borrow().get(&method).map(look),
        }
    }
}

/// Searches for passages.
#[derive(Clone, Copy)]
pub(super) struct Passages<'a> {
    pub(super) icfg: &'a Icfg,
    pub(super) frequencies: &'a Frequencies,
    pub(super) known: &'a Exited<'a>,
}

/// A cost in a queue.
#[derive(Clone, Copy, PartialEq)]
struct Cost(f64);
impl Eq for Cost {}
impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Cost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'a> Passages<'a> {
    /// The steps from `node`, which was executed, that stay in its frame. Their costs include
    /// those of their callees.
    fn edges(&self, node: Node) -> Vec<Edge> {
        let through = |edge: Edge| {
            let callee = edge.callee.map_or(Some(0.0), |entry| self.through(entry));
            callee.map(|cost| Edge { cost: edge.cost + cost, ..edge })
        };
        self.steps(node).into_iter().filter_map(through).collect()
    }
    /// The same without the costs of the callees.
    fn steps(&self, node: Node) -> Vec<Edge> {
        let g = self.icfg;
        match g.opcode(node).transfer() {
            Transfer::Return | Transfer::Throw => Vec::new(),
            Transfer::Invoke => self.calls(node),
            _ if g.tier(node) == Tier::Concrete => {
                g.edges(node).map(|(_, to)| Edge { to, callee: None, cost: STEP }).collect()
            }
            _ => {
                let method = g.method(node);
                let within = |to: Node| g.method(to) == method && g.edges(node).any(|(_, n)| n == to);
                let ways = self.frequencies.after(g, node).into_iter().filter(|(to, _)| within(*to));
                ways.map(|(to, p)| Edge { to, callee: None, cost: STEP - p.ln() }).collect()
            }
        }
    }
    fn calls(&self, site: Node) -> Vec<Edge> {
        let g = self.icfg;
        let Some((_, to)) = g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind) else {
            return Vec::new();
        };
        let seen = self.frequencies.after(g, site);
        let called = seen.iter().filter(|(n, _)| g.may_call(site, *n));
        let called = called.map(|(entry, p)| Edge { to, callee: Some(*entry), cost: STEP - p.ln() });
        let mut all: Vec<Edge> = called.collect();
        let passed = seen.iter().find(|(n, _)| *n == to).map(|(_, p)| -p.ln());
        // The class of a callee of which the graph has nothing was never loaded, so the call
        // was not made.
        let unseen = || (g.passes(site) && !g.calls_unknown(site)).then_some(UNKNOWN);
        if let Some(cost) = passed.or_else(unseen) {
            all.push(Edge { to, callee: None, cost: STEP + cost });
        }
        let others = g.callees(site).iter().filter(|entry| seen.iter().all(|(n, _)| n != *entry));
        all.extend(others.take(CALLEES).map(|entry| Edge { to, callee: Some(*entry), cost: STEP + UNSEEN }));
        all
    }
    /// The likeliest way through a callee of `site`: the instructions of the callee and of the
    /// methods that it calls.
    pub(super) fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        let called = self.calls(site).into_iter().filter_map(|edge| Some((edge.callee?, edge.cost)));
        // What the VM called there, for example to link the call site, is not a callee.
        let called = called.filter(|(entry, _)| self.icfg.names(site, *entry));
        let seen = called.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(entry, _)| entry);
        // Used if only compiled code was seen to pass the call.
        let named =
            || self.icfg.callees(site).iter().copied().take(CALLEES).find(|n| self.through(*n).is_some());
        let entry = seen.or_else(named)?;
        let mut nodes = Vec::new();
        self.way_through(entry, &mut nodes, 0)?;
        Some(nodes)
    }
    fn way_through(&self, entry: Node, nodes: &mut Vec<Node>, depth: usize) -> Option<()> {
        let exits = self.exits(self.icfg.method(entry)).filter(|_| depth < DEPTH)?;
        let mut at = entry;
        nodes.push(at);
        while let (_, Some(edge)) = exits.of(at) {
            if let Some(entry) = edge.callee {
                self.way_through(entry, nodes, depth + 1)?;
            }
            at = edge.to;
            nodes.push(at);
            if nodes.len() >= LARGEST {
                return None;
            }
        }
        (self.icfg.opcode(at).transfer() == Transfer::Return).then_some(())
    }
    /// The cost of the likeliest way through a callee.
    fn through(&self, entry: Node) -> Option<f64> {
        let cost = self.look(self.icfg.method(entry), |exits| exits.of(entry).0)?;
        cost.is_finite().then_some(cost)
    }
    /// The ways out of `method`. `None` if it has no code, or too much.
    fn exits(&self, method: MethodId) -> Option<Arc<Exits>> {
        self.look(method, Arc::clone)
    }
    fn look<T>(&self, method: MethodId, look: impl Fn(&Arc<Exits>) -> T) -> Option<T> {
        self.known.look(method, &look).or_else(|| {
            // The other methods solved on the way are not kept. Otherwise what is known would
            // depend on earlier requests.
            let found = Solve::of(self, [method]).run().remove(&method)?;
            self.known.others.borrow_mut().insert(method, found);
            self.known.look(method, look)
        })
    }
    /// The ways out of all methods that were executed, and of those that they may call.
    pub(super) fn exits_of_executed(&self) -> AllExits {
        Solve::of(self, self.frequencies.methods(self.icfg)).run()
    }
    /// The callers of `method`: those seen, and some that only the graph has.
    fn callers(&self, method: MethodId) -> Callers {
        let mut known = self.known.callers.borrow_mut();
        Arc::clone(known.entry(method).or_insert_with(|| {
            let g = self.icfg;
            let sites = g.entry(method).map(|entry| self.frequencies.callers(g, entry)).unwrap_or_default();
            let behind = |site: Node| g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind).map(|e| e.1);
            let caller =
                |(site, p): (Node, f64)| Some(Caller { site, behind: behind(site)?, cost: STEP - p.ln() });
            sites.into_iter().filter_map(caller).collect()
        }))
    }
    /// The likeliest ways from `from`, which was executed, to other instructions of its frame:
    /// for each of these, the cost and the last step.
    fn reach(&self, from: Node) -> Reached {
        let mut reached = Reached::new();
        let mut queue = BinaryHeap::from([Reverse((Cost(0.0), from))]);
        while let Some(Reverse((Cost(cost), at))) = queue.pop() {
            let is_start = at == from && cost == 0.0;
            if !is_start && reached.get(&at).is_some_and(|r| cost > r.0) || reached.len() > LARGEST {
                continue;
            }
            for edge in self.edges(at) {
                let next = cost + edge.cost;
                if reached.get(&edge.to).is_none_or(|r| next < r.0) {
                    reached.insert(edge.to, (next, at, edge));
                    queue.push(Reverse((Cost(next), edge.to)));
                }
            }
        }
        reached
    }
    /// Leads on from `last`, where the frames are `frames`, to a spot of `back`. Returns the
    /// instructions in between, and the spot.
    pub(super) fn lead(
        self,
        last: Node,
        frames: &mut Frames<'a>,
        back: &Back<'a>,
        length: Length,
    ) -> Option<(Vec<Node>, Spot)> {
        let spots = back.by_method(self.icfg);
        let begin = frames.clone();
        if let Some(found) = Walk::new(self, frames, (back, &spots), length, last).lead() {
            return Some(found);
        }
        *frames = begin;
        Walk::new(self, frames, (back, &spots), length, last).by_common_caller()
    }
}

/// How long the whole fill should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Number of instructions before the passage.
    pub(super) front: usize,
    /// The length wanted.
    pub(super) wanted: f64,
    /// The largest difference from that.
    pub(super) tolerance: f64,
}

/// The spots in frames that still exist after the gap, by method.
pub(super) type Spots<'b> = HashMap<MethodId, Vec<(Node, &'b Spot)>>;

/// By instruction, the cost of the likeliest way there, and its last step with the source of
/// that step.
type Reached = HashMap<Node, (f64, Node, Edge)>;
