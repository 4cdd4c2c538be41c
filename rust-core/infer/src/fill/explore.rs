// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The likeliest path through the ICFG that connects both ends of a gap and has its length.
//! Used where no captured place joins.
//!
//! Paths are explored best first: by how likely they are in the execution's own
//! [frequencies](super::Frequencies), and by how much of the gap's length is still to be
//! filled. Each path has its frames, which limit how it may continue. The number of runs
//! visited is bounded, so only gaps of some dozen branches are filled in this way. The paper's
//! random path fills all gaps, and is right by chance.

use super::ancestors::is_straight;
use super::follow::{Gap, Settings};
use super::frames::Frames;
use super::trail::{Ground, forced_agreement};
use super::{FillWork, Tier, Tiers};
use hashbrown::HashSet;
use jportal_bytecode::Node;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A point where a path through the ICFG may end: just before what follows the gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Join {
    /// Length of the fill.
    pub(super) len: usize,
    /// Difference between its length and the expected one, as a part of the expected scale; 0
    /// if no length is expected.
    pub(super) misfit: f64,
    /// Number of instructions after the gap that agree with how the path continues.
    pub(super) after: usize,
}

/// A run of a path: straight code from `first` to a transfer of control.
struct Visit<'a> {
    first: Option<Node>,
    end: Node,
    /// Number of instructions from the beginning of the gap up to and including `end`.
    steps: usize,
    /// −ln of the path's probability.
    cost: f64,
    parent: usize,
    frames: Rc<Frames<'a>>,
}

/// A path that connects both ends.
struct Goal {
    /// The visit before the last run.
    parent: usize,
    /// The first instruction of the last run, which the length of `join` cuts.
    first: Option<Node>,
    join: Join,
    weight: f64,
}

/// Number of ends of the right length that are enough to choose from.
const ENOUGH: usize = 16;
/// The largest misfit with which a length is the right one.
const RIGHT: f64 = 0.05;

/// Number of instructions after the gap over which frames are checked.
const REPLAY: usize = 1024;

/// Searches for a path through a small gap.
pub(super) struct Explorer<'a> {
    ground: Ground<'a>,
    gap: &'a Gap<'a>,
    post: &'a [Node],
    visits: Vec<Visit<'a>>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    known: HashSet<(Node, usize, usize)>,
    goals: Vec<Goal>,
    /// How many of the goals are of the right length.
    right: usize,
}

impl<'a> Explorer<'a> {
    pub(super) fn new(ground: Ground<'a>, gap: &'a Gap<'a>) -> Self {
        let post = ground.captured.segment(gap.hole.after);
        let (visits, queue) = (Vec::new(), BinaryHeap::new());
        Self { ground, gap, post, visits, queue, known: HashSet::new(), goals: Vec::new(), right: 0 }
    }
    /// The best path found, where it ends, and its share of the weight of all paths.
    pub(super) fn explore(mut self, work: &mut FillWork) -> Option<(Vec<Node>, Join, f32)> {
        let last = *self.ground.captured.segment(self.gap.hole.before).last()?;
        let mut frames = Frames::new(self.ground.icfg, self.gap.before);
        if !self.gap.entered.is_none_or(|entry| frames.follow_seen(last, entry)) {
            return None;
        }
        let (entered, first) = (self.gap.entered, self.gap.entered.unwrap_or(last));
        self.run(usize::MAX, entered, first, 0, 0.0, Rc::new(frames));
        while let Some(Reverse((_, at))) = self.queue.pop() {
            work.visited += 1;
            if self.visits.len() > self.settings().visits || self.right >= ENOUGH {
                break;
            }
            self.branch(at);
        }
        let all: f64 = self.goals.iter().map(|g| g.weight).sum();
        let best = self.goals.iter().max_by(|a, b| a.weight.total_cmp(&b.weight))?;
        // Paths that were not found may weigh as much as those that were, the best one aside.
        // The share is 0.9 at most.
        let share = best.weight / (all + (all - best.weight)).max(best.weight / 0.9);
        Some((self.path(best), best.join, share as f32))
    }
    fn settings(&self) -> &'a Settings {
        self.ground.settings
    }
    fn branch(&mut self, at: usize) {
        let (end, steps, cost) = (self.visits[at].end, self.visits[at].steps, self.visits[at].cost);
        let frames = Rc::clone(&self.visits[at].frames);
        let mut ways = self.ground.learned.frequencies.after(self.ground.icfg, end);
        if let Some(site) = frames.site().filter(|_| self.is_return(end)) {
            ways = self.ground.icfg.edges(site).map(|(_, to)| (to, 1.0)).collect();
        }
        for (to, probability) in ways {
            let g = self.ground.icfg;
            let mut next = Rc::clone(&frames);
            // A step within a method leaves the frames as they are; calls, returns and
            // exceptions change them.
            let within = g.tier(end) == Tier::Control && g.edges(end).any(|(_, n)| n == to);
            if !within && !Rc::make_mut(&mut next).follow(end, to) {
                continue;
            }
            self.run(at, Some(to), to, steps, cost - probability.ln(), next);
        }
    }
    fn is_return(&self, node: Node) -> bool {
        self.ground.icfg.opcode(node).transfer() == jportal_bytecode::Transfer::Return
    }
    /// Follows straight code from `node` and notes where the path may end. If there is a
    /// `first`, `node` is instruction `steps` of the fill; otherwise it is the last one before
    /// the gap.
    fn run(
        &mut self,
        parent: usize,
        first: Option<Node>,
        node: Node,
        mut steps: usize,
        cost: f64,
        frames: Rc<Frames<'a>>,
    ) {
        let g = self.ground.icfg;
        let (mut end, mut executed) = (node, first.is_none());
        loop {
            if !executed {
                self.consider(parent, first, end, steps, cost, &frames);
                steps += 1;
            }
            if g.tier(end) <= Tier::Control {
                break;
            }
            let Some((_, next)) = g.edges(end).next() else { return };
            (end, executed) = (next, false);
        }
        if self.is_late(steps) || !self.known.insert((end, steps, frames.depth())) {
            return;
        }
        let left = self.gap.expected.map_or(0.0, |expected| expected.instructions);
        let hope = (left - steps as f64).max(0.0) * self.ground.learned.frequencies.surprise();
        self.queue.push(Reverse((((cost + hope) * 1e6) as u64, self.visits.len())));
        self.visits.push(Visit { first, end, steps, cost, parent, frames });
    }
    fn is_late(&self, steps: usize) -> bool {
        match self.gap.expected {
            Some(expected) => {
                steps as f64 > expected.instructions + self.settings().misfit * expected.scale()
            }
            None => steps > self.settings().visits,
        }
    }
    /// Notes that the gap may end just before `next`, after `len` instructions.
    fn consider(
        &mut self,
        parent: usize,
        first: Option<Node>,
        next: Node,
        len: usize,
        cost: f64,
        frames: &Frames<'a>,
    ) {
        let settings = self.settings();
        let after = forced_agreement(&self.ground, self.post.iter(), next);
        let misfit = self.gap.expected.map_or(0.0, |e| e.misfit(len));
        let enough = after >= settings.join.min(self.post.len()).max(1);
        if enough && misfit <= settings.misfit && connects(&self.ground, self.gap, frames.clone()) {
            let weight = (-cost - 4.0 * misfit).exp();
            self.right += usize::from(misfit <= RIGHT);
            self.goals.push(Goal { parent, first, join: Join { len, misfit, after }, weight });
        }
    }
    fn path(&self, goal: &Goal) -> Vec<Node> {
        let mut firsts = Vec::from_iter(goal.first);
        let mut at = goal.parent;
        while let Some(visit) = self.visits.get(at) {
            firsts.extend(visit.first);
            at = visit.parent;
        }
        let g = self.ground.icfg;
        let mut nodes = Vec::with_capacity(goal.join.len);
        let straight = |nodes: &mut Vec<Node>, mut node: Node| {
            while g.tier(node) == Tier::Concrete {
                let Some((_, next)) = g.edges(node).next() else { return };
                nodes.push(next);
                node = next;
            }
        };
        let last = self.ground.captured.segment(self.gap.hole.before).last();
        if let Some(last) = last.filter(|_| self.gap.entered.is_none()) {
            straight(&mut nodes, *last);
        }
        for first in firsts.into_iter().rev() {
            nodes.push(first);
            straight(&mut nodes, first);
        }
        nodes.truncate(goal.join.len);
        nodes
    }
}

/// Whether `frames` may be the frames after the gap, where these are known or show there.
fn connects(ground: &Ground<'_>, gap: &Gap<'_>, mut frames: Frames<'_>) -> bool {
    let post = ground.captured.segment(gap.hole.after);
    frames.agree(&Frames::new(ground.icfg, gap.after))
        && post
            .windows(2)
            .take(REPLAY)
            .all(|pair| is_straight(ground.icfg, pair) || frames.follow_seen(pair[0], pair[1]))
}
