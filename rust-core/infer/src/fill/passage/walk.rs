// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Makes a passage step by step.

use super::super::back::{Back, Same, Spot};
use super::super::frames::Frames;
use super::{Caller, Cost, Edge, Length, Passages, Reached, Spots};
use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{EdgeKind, Node, Transfer};
use jportal_units::MethodId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Largest depth of nested calls on a passage.
const DEEPEST: usize = 1024;
/// Largest number of instructions of a passage.
const LONGEST: usize = 1 << 16;
/// How often a way out of unknown frames is searched.
const CLIMBS: usize = 16;
/// Number of methods that are considered each time.
const CLIMBED: usize = 1 << 12;

/// What a walk heads for within a frame.
pub(super) enum WalkGoal {
    Spot(Node, Spot),
    /// A call site that is known after the gap, and the level of its frame. The innermost frame
    /// after the gap has level 0; the call site calls the frame of the level below its own.
    Site(Node, u32),
}

/// A passage in the making.
pub(super) struct Walk<'a, 'f> {
    pub(super) passages: Passages<'a>,
    pub(super) frames: &'f mut Frames<'a>,
    pub(super) back: &'f Back<'a>,
    spots: &'f Spots<'f>,
    length: Length,
    /// The instruction executed last.
    pub(super) last: Node,
    nodes: Vec<Node>,
    /// Number of callees that the walk is in.
    depth: usize,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(
        passages: Passages<'a>,
        frames: &'f mut Frames<'a>,
        (back, spots): (&'f Back<'a>, &'f Spots<'f>),
        length: Length,
        last: Node,
    ) -> Self {
        Self { passages, frames, back, spots, length, last, nodes: Vec::new(), depth: 0 }
    }
    /// The instructions of the walk.
    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }
    /// Executes `to`. `None` if the frames do not allow it or the passage is too long.
    pub(super) fn go(&mut self, to: Node) -> Option<()> {
        if self.nodes.len() >= LONGEST || !self.frames.follow(self.last, to) {
            return None;
        }
        self.last = to;
        self.nodes.push(to);
        Some(())
    }
    /// Takes a step, through its callee if it has one.
    pub(super) fn step(&mut self, edge: Edge) -> Option<()> {
        if let Some(entry) = edge.callee {
            self.go(entry)?;
            self.leave(entry)?;
        }
        self.go(edge.to)
    }
    /// Goes from `at`, where the walk is, to the end of its frame.
    pub(super) fn leave(&mut self, at: Node) -> Option<()> {
        let exits = self.passages.exits(self.passages.icfg.method(at)).filter(|_| self.depth < DEEPEST)?;
        let mut at = at;
        self.depth += 1;
        while let (_, Some(edge)) = exits.of(at) {
            self.step(edge)?;
            at = edge.to;
        }
        self.depth -= 1;
        (self.passages.icfg.opcode(at).transfer() == Transfer::Return).then_some(())
    }
    /// Goes from `at`, the last instruction executed in the walk's frame, to the instruction
    /// before `to`.
    pub(super) fn go_to(&mut self, reached: &Reached, at: Node, to: Node) -> Option<()> {
        let mut steps = Vec::new();
        let mut target = to;
        while let Some((_, from, edge)) = reached.get(&target).filter(|_| steps.len() <= LONGEST) {
            steps.push(*edge);
            if *from == at {
                break;
            }
            target = *from;
        }
        steps.reverse();
        let (last, others) = steps.split_last()?;
        others.iter().try_for_each(|edge| self.step(*edge))?;
        if let Some(entry) = last.callee {
            self.go(entry)?;
            self.leave(entry)?;
        }
        // `to` comes next, with the frames as they are.
        Some(())
    }
    /// The instructions that lead to a spot, and the spot: of those that can be reached, the
    /// one with which the length is nearest to what is wanted.
    pub(super) fn lead(mut self) -> Option<(Vec<Node>, Spot)> {
        let spot = self.seek()?;
        Some((self.nodes, spot))
    }
    fn seek(&mut self) -> Option<Spot> {
        let g = self.passages.icfg;
        // The last instruction executed in the frame.
        let (mut at, mut tried) = (self.last, 0);
        // Where frames whose callers are unknown return to, outermost first.
        let (mut climb, mut avoid) = (Vec::new(), HashSet::new());
        loop {
            let ended = g.opcode(at).transfer() == Transfer::Return && at == self.last;
            if !ended {
                let reached = self.passages.reach(at);
                if let Some(found) = self.nearest(&reached, at, None) {
                    return self.arrive(&reached, at, found);
                }
                let exits = self.passages.exits(g.method(at))?;
                let next = self.passages.edges(at).into_iter();
                let cost = |edge: &Edge| edge.cost + exits.of(edge.to).0;
                let edge = next.min_by(|a, b| cost(a).total_cmp(&cost(b))).filter(|e| cost(e).is_finite())?;
                self.step(edge)?;
                self.leave(edge.to)?;
            }
            let behind = match self.frames.site() {
                Some(site) => g.edges(site).find(|(kind, _)| *kind == EdgeKind::Behind)?.1,
                None => {
                    if let Some(spot) = self.after_a_call() {
                        return Some(spot);
                    }
                    if climb.is_empty() {
                        tried += 1;
                        climb = self.climb(&mut avoid).filter(|_| tried <= CLIMBS)?;
                    }
                    climb.pop()?
                }
            };
            if let Some(spot) = self.spot_at(behind) {
                return Some(spot);
            }
            if let Some(level) = self.site_at(behind) {
                return self.descend(behind, level);
            }
            self.go(behind)?;
            at = behind;
        }
    }
    /// Used when no more frames are known: a spot after a call of the present method.
    fn after_a_call(&self) -> Option<Spot> {
        let g = self.passages.icfg;
        let entry = g.entry(g.method(self.last)).filter(|_| !self.frames.is_whole())?;
        let behind = |node: &Node| g.site_before(*node).is_some_and(|site| g.may_call(site, entry));
        let mut nodes: Vec<Node> = self.back.nodes_there().filter(behind).collect();
        nodes.sort_unstable();
        let spots = nodes.into_iter().filter_map(|node| self.spot_at(node));
        spots.min_by(|a, b| self.miss(a).total_cmp(&self.miss(b)))
    }
    /// Used when no more frames are known: follows the likeliest callers up to a method with a
    /// target that is not in `avoid`, and adds that method to `avoid`. Returns the places after
    /// the calls, outermost first.
    fn climb(&self, avoid: &mut HashSet<MethodId>) -> Option<Vec<Node>> {
        let g = self.passages.icfg;
        if self.frames.is_whole() {
            return None;
        }
        let known: HashSet<MethodId> = self.back.below(0).0.iter().map(|site| g.method(*site)).collect();
        let start = g.method(self.last);
        // By caller: the cost, the place after the call, and the callee.
        let mut from: HashMap<MethodId, (f64, Node, MethodId)> = HashMap::new();
        let mut queue = BinaryHeap::from([Reverse((Cost(0.0), start))]);
        let mut left = HashSet::new();
        while let Some(Reverse((Cost(cost), method))) = queue.pop() {
            if !left.insert(method) || left.len() > CLIMBED {
                continue;
            }
            let is_goal = self.spots.contains_key(&method) || known.contains(&method);
            if method != start && is_goal && avoid.insert(method) {
                let up = std::iter::successors(from.get(&method), |(_, _, callee)| from.get(callee));
                return Some(up.map(|(_, behind, _)| *behind).collect());
            }
            for &Caller { behind, cost: surprise, .. } in &*self.passages.callers(method) {
                let (caller, cost) = (g.method(behind), cost + surprise);
                let is_better = from.get(&caller).is_none_or(|known| cost < known.0);
                if is_better && !left.contains(&caller) {
                    from.insert(caller, (cost, behind, method));
                    queue.push(Reverse((Cost(cost), caller)));
                }
            }
        }
        None
    }
    /// By how much the fill misses the wanted length with `spot`.
    fn miss(&self, spot: &Spot) -> f64 {
        let len = self.length.front + self.nodes.len() + spot.len as usize;
        (len as f64 - self.length.wanted).abs()
    }
    /// The spot at `node` that fits best, of those whose frames may be the walk's when `node`
    /// comes next.
    pub(super) fn spot_at(&self, node: Node) -> Option<Spot> {
        let mut frames = self.frames.clone();
        if !frames.follow(self.last, node) {
            return None;
        }
        let fits = |spot: &&Spot| self.miss(spot) <= self.length.tolerance && self.back.may_be(&frames, spot);
        let all = self.back.spots(node).map_or(&[][..], Same::spots).iter().filter(fits);
        all.min_by(|a, b| self.miss(a).total_cmp(&self.miss(b))).cloned()
    }
    /// The target in the walk's frame: a spot or, if there is none, the call site of a frame
    /// that is known after the gap. With `only`, a target of that level.
    pub(super) fn nearest(&self, reached: &Reached, at: Node, only: Option<u32>) -> Option<WalkGoal> {
        let method = self.passages.icfg.method(at);
        let fits = |level: u32| {
            let (sites, whole) = self.back.below(level);
            only.is_none_or(|only| only == level) && self.frames.may_have(self.frames.depth(), sites, whole)
        };
        let all = self.spots.get(&method).into_iter().flatten().filter(|(node, spot)| {
            reached.contains_key(node) && self.miss(spot) <= self.length.tolerance && fits(spot.level)
        });
        if let Some((node, spot)) = all.min_by(|a, b| self.miss(a.1).total_cmp(&self.miss(b.1))) {
            return Some(WalkGoal::Spot(*node, **spot));
        }
        let known = self.back.below(0).0;
        let sites = known.iter().rev().zip(1u32..).filter(|(site, level)| {
            self.passages.icfg.method(**site) == method && reached.contains_key(*site) && fits(*level)
        });
        sites.map(|(site, level)| WalkGoal::Site(*site, level)).next()
    }
    /// Goes to a target and, if that is a call site, on into the callee.
    pub(super) fn arrive(&mut self, reached: &Reached, at: Node, target: WalkGoal) -> Option<Spot> {
        let (site, level) = match target {
            WalkGoal::Spot(node, spot) => return self.go_to(reached, at, node).map(|()| spot),
            WalkGoal::Site(site, level) => (site, level),
        };
        self.go_to(reached, at, site)?;
        self.descend(site, level)
    }
    /// The level of the frame that is known after the gap and has `node` as call site, if the
    /// frames below may be the walk's when `node` comes next.
    fn site_at(&self, node: Node) -> Option<u32> {
        let mut frames = self.frames.clone();
        let goes = frames.follow(self.last, node);
        let known = self.back.below(0).0.iter().rev().zip(1u32..).filter(|(site, _)| goes && **site == node);
        let fits = |level: &u32| {
            let (sites, whole) = self.back.below(*level);
            frames.may_have(frames.depth(), sites, whole)
        };
        known.map(|(_, level)| level).find(fits)
    }
    /// Executes the call site `site` of the frame at `level` and continues in its callee.
    fn descend(&mut self, site: Node, level: u32) -> Option<Spot> {
        self.go(site)?;
        let g = self.passages.icfg;
        let known = self.back.below(level - 1).0;
        let frame = if level == 1 { self.back.first()? } else { *known.last()? };
        let entry = g.entry(g.method(frame)).filter(|entry| g.may_call(site, *entry))?;
        if let Some(spot) = self.spot_at(entry) {
            return Some(spot);
        }
        self.go(entry)?;
        let reached = self.passages.reach(entry);
        let target = self.nearest(&reached, entry, Some(level - 1))?;
        self.arrive(&reached, entry, target)
    }
}
