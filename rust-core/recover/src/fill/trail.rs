// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Going on behind a gap's last instruction as what was captured went on in the same context.

use super::back::{Back, SAME, Same, Spot, Tables, ahead};
use super::contexts::Contexts;
use super::follow::{Gap, Settings};
use super::frames::Frames;
use super::learned::Learned;
use super::pace::Expected;
use super::passage::{Length, Passages};
use super::{Captured, FillWork, Tier, Tiers, common};
use crate::cut::Sites;
use jportal_bytecode::{Icfg, Node, Transfer};
use std::cell::LazyCell;
use std::ops::Range;

/// Where a trail may go over into the way back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Joint {
    /// Instructions taken from the trail.
    pub(super) front: usize,
    /// Those taken from the way back.
    pub(super) back: usize,
    /// How far the length of both is from what was expected, in parts of that; 0 where nothing was.
    pub(super) misfit: f64,
    /// Instructions behind it that the place copied by the trail agrees with.
    pub(super) after: usize,
    /// How often both have gone over to other places.
    pub(super) hops: usize,
    /// What speaks against it.
    pub(super) cost: f64,
}

/// What all trails of a recovery have in common.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) icfg: &'a Icfg,
    pub(super) captured: &'a Captured,
    pub(super) learned: &'a Learned,
    pub(super) settings: &'a Settings,
    pub(super) tables: &'a Tables,
}

/// One attempt.
#[derive(Clone)]
pub(super) struct Trail<'a> {
    ground: Ground<'a>,
    gap: &'a Gap<'a>,
    back: &'a Back<'a>,
    frames: Frames<'a>,
    /// What is compared in front of the gap, then the fill.
    nodes: Vec<Node>,
    /// Where the fill begins in `nodes`.
    given: usize,
    /// The last transfers of control of `nodes`.
    transfers: Vec<Node>,
    hops: usize,
    /// Where it was in the middle of the gap.
    middle: Option<Middle<'a>>,
    /// A joint that costs as much is of no use.
    limit: f64,
    /// One by the scale of what is expected; 0 where nothing is.
    by_scale: f64,
    /// Of each instruction with spots, by number, how long the fill was where it was considered last, and the call site below. Empty
    /// before the first.
    considered: Vec<Option<(usize, Option<Node>)>>,
    /// With the same call site it is considered again when the fill has become so much longer.
    again: usize,
    best: Option<Joint>,
    /// The frames at the best joint or behind a passage, and the spot there with the number of instructions in front.
    at_best: Sites,
    best_spot: Option<(usize, Spot)>,
}

/// What a trail was.
#[derive(Clone)]
struct Middle<'a> {
    len: usize,
    frames: Frames<'a>,
    hops: usize,
}

/// Why copying ended.
enum End {
    /// Enough was read.
    Done,
    /// The place cannot be followed beyond here.
    Stuck(Option<u32>),
}

/// Instructions in a row without a choice.
const FORCED: usize = 1 << 16;
/// Agreement behind the gap or a joint is counted up to here.
const AFTER: usize = 64;
/// What speaks against a joint: that it misses the gap's length, by parts of that;
const MISFIT: f64 = 4.0;
/// each place that was gone over to;
const HOP: f64 = 0.02;
/// that one of both ways makes up more of it than the other.
const UNBALANCED: f64 = 0.25;
/// What speaks for it: how far both go the same way, on a logarithmic scale.
pub(super) const AGREEMENT: f64 = 0.25;
/// `AGREEMENT` of [`AFTER`] instructions, rounded up.
const MOST_AGREEMENT: f64 = 1.05;
/// `AGREEMENT` of fewer than [`AHEAD`](super::back::AHEAD) instructions, rounded up.
const SOME_AGREEMENT: f64 = 0.53;
/// What costs may differ by and be the same.
const ROUNDING: f64 = 1e-6;
/// How long it is already is asked every so many instructions.
const TICK: usize = 64;

impl<'a> Trail<'a> {
    pub(super) fn new(ground: Ground<'a>, gap: &'a Gap<'a>, back: &'a Back<'a>) -> Self {
        let all = ground.captured.segment(gap.hole.before);
        let nodes = all[all.len().saturating_sub(ground.settings.context)..].to_vec();
        let is_transfer = |n: &Node| ground.icfg.tier(*n) <= Tier::Control;
        let transfers = nodes.iter().rev().copied().filter(is_transfer).take(Contexts::longest());
        let mut transfers: Vec<Node> = transfers.collect();
        transfers.reverse();
        let frames = Frames::new(ground.icfg, gap.before);
        let given = nodes.len();
        let by_scale = gap.expected.map_or(0.0, |expected| expected.scale().recip());
        // The lengths of spots are no nearer to each other: what comes of joints before that is hardly any better.
        let again = gap.expected.map_or(0, |expected| (expected.instructions / SAME as f64) as usize);
        Self {
            ground,
            gap,
            back,
            frames,
            nodes,
            given,
            transfers,
            hops: 0,
            middle: None,
            limit: f64::INFINITY,
            by_scale,
            considered: Vec::new(),
            again,
            best: None,
            at_best: Sites::default(),
            best_spot: None,
        }
    }
    pub(super) fn fill(&self) -> &[Node] {
        &self.nodes[self.given..]
    }
    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        if self.ground.icfg.tier(node) <= Tier::Control {
            self.transferred(node);
        }
    }
    fn transferred(&mut self, node: Node) {
        self.transfers.push(node);
        if self.transfers.len() > 64 * Contexts::longest() {
            self.transfers.drain(..self.transfers.len() - Contexts::longest());
        }
    }
    /// Begins with the entry of the method that the gap's last instruction has called, if that is known. Whether these frames allow it.
    pub(super) fn enter(&mut self) -> bool {
        let Some((last, entry)) = self.nodes.last().copied().zip(self.gap.entered) else { return true };
        let allowed = self.frames.follow_seen(last, entry);
        self.consider(entry, None);
        self.push(entry);
        allowed
    }
    /// Goes on as long as there is one way only, exceptions aside.
    pub(super) fn forced_on(&mut self) {
        for _ in 0..FORCED {
            let Some((last, next)) = self.nodes.last().and_then(|last| Some((*last, self.forced(*last)?)))
            else {
                return;
            };
            if self.is_done() || !self.frames.follow(last, next) {
                return;
            }
            self.consider(next, None);
            self.push(next);
        }
    }
    /// The only instruction that may follow `last`.
    fn forced(&self, last: Node) -> Option<Node> {
        let g = self.ground.icfg;
        let from = match g.opcode(last).transfer() {
            Transfer::None | Transfer::Goto | Transfer::Jsr => last,
            Transfer::Return => self.frames.site()?,
            _ => return None,
        };
        g.edges(from).next().map(|e| e.1)
    }
    /// Only joints that cost less than `limit` are of use.
    pub(super) const fn cheaper_than(mut self, limit: f64) -> Self {
        self.limit = limit;
        self
    }
    /// Copies from `place` on, then from other places in the context reached, until the gap's time is over.
    pub(super) fn run(&mut self, place: Option<u32>, work: &mut FillWork) {
        let mut next = place;
        while !self.is_done() && self.hops <= self.ground.settings.hops {
            let stuck = match next.map(|place| self.copy(place, work)) {
                Some(End::Done) => return,
                Some(End::Stuck(at)) => at,
                None if !self.guess() => return,
                None => None,
            };
            self.forced_on();
            self.hops += 1;
            next = self.place(stuck);
        }
    }
    /// Goes on with what followed most often, where no place in the same context can be followed.
    fn guess(&mut self) -> bool {
        let last = self.nodes.last().copied().filter(|_| self.ground.settings.visits > 0);
        let Some(last) = last else { return false };
        let mut ways = self.ground.learned.frequencies.after(self.ground.icfg, last);
        ways.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some((next, _)) = ways.into_iter().find(|(next, _)| self.frames.follow(last, *next)) else {
            return false;
        };
        self.consider(next, None);
        self.push(next);
        true
    }
    fn copy(&mut self, place: u32, work: &mut FillWork) -> End {
        let captured = self.ground.captured;
        let from = place as usize;
        let end = captured.range(captured.segment_at(from)).end;
        let mut position = from;
        while position < end {
            let next = captured.nodes()[position];
            let ticks = (position - from) % TICK;
            let (len, transfers) = captured.straight(position..end.min(position + TICK - ticks));
            work.read += len as u64;
            if ticks == 0 && self.is_done() {
                return End::Done;
            }
            let Some(last) = self.nodes.last().copied() else { return End::Done };
            let straight = last.0 + 1 == next.0 && self.ground.icfg.tier(last) == Tier::Concrete;
            if !straight && !self.frames.follow_seen(last, next) {
                return End::Stuck(Some(position as u32));
            }
            self.go_straight(&captured.nodes()[position..end], len);
            if transfers {
                self.transferred(captured.nodes()[position + len - 1]);
            }
            position += len;
        }
        End::Stuck(None)
    }
    /// Appends the first `len` of the `copied`, which stand one behind the other in the code.
    fn go_straight(&mut self, copied: &[Node], len: usize) {
        let Some(Node(first)) = copied.first().copied() else { return };
        let end = first + len as u32;
        let (mut pushed, mut from) = (first, first);
        while let Some(Node(next)) = self.back.next_spot(from..end) {
            self.nodes.extend((pushed..next).map(Node));
            pushed = next;
            self.consider(Node(next), Some(&copied[(next - first) as usize..]));
            from = next + 1;
        }
        self.nodes.extend((pushed..end).map(Node));
    }
    /// Whether a better joint can no longer come. Notes when half of the gap's time is over.
    fn is_done(&mut self) -> bool {
        let settings = self.ground.settings;
        let len = self.fill().len();
        if self.middle.is_none() && self.gap.expected.is_some_and(|e| len as f64 >= e.instructions / 2.0) {
            self.middle = Some(Middle { len, frames: self.frames.clone(), hops: self.hops });
        }
        let over = match self.gap.expected {
            Some(expected) => {
                // In a large gap what joins so late has hardly ever come, and reading on for it costs.
                let late = self.best.is_none() && settings.is_small(Some(expected));
                let more = if late { settings.misfit } else { 0.0 };
                len as f64 > expected.instructions + more * expected.scale() || self.costs_too_much(expected)
            }
            None => self.best.is_some() || len >= settings.untimed,
        };
        over || len >= settings.longest
    }
    /// Goes back to the middle of the gap, if it has come so far.
    pub(super) fn back_to_middle(&mut self) {
        if let Some(Middle { len, frames, hops }) = self.middle.take() {
            self.nodes.truncate(self.given + len);
            (self.frames, self.hops) = (frames, hops);
        }
    }
    /// Whether no joint from here on costs less than the best. Behind the middle of the gap the least that one may cost rises: the length is
    /// missed, or the trail makes up more of it.
    fn costs_too_much(&self, expected: Expected) -> bool {
        let front = self.fill().len() as f64;
        let wanted = expected.instructions - front;
        let over = (-wanted).max(0.0);
        let unbalanced = front - wanted.max(0.0);
        let at_least = HOP * self.hops as f64 + (MISFIT * over + UNBALANCED * unbalanced) * self.by_scale;
        unbalanced >= 0.0 && at_least - MOST_AGREEMENT > self.least() + ROUNDING
    }
    /// Notes that the way back may go on here with `next`, whose frames are these. It is the first of those that are `copied`.
    fn consider(&mut self, next: Node, copied: Option<&[Node]>) {
        let own = LazyCell::new(|| copied.and_then(|nodes| ahead(nodes.iter())));
        let Some(number) = self.back.number(next) else { return };
        if !self.considers(number) {
            return;
        }
        let same = self.back.numbered(number);
        // What costs least to ask first.
        for spot in same.called_from(self.near(same), self.frames.site()) {
            let (misfit, cost) = self.cost(spot);
            let least = self.least();
            let near = misfit <= self.ground.settings.misfit && cost - MOST_AGREEMENT < least;
            // Where they differ soon, agreement makes no good joint of it.
            let differs = || own.zip(spot.ahead).is_some_and(|(own, other)| own != other);
            if !near || cost - SOME_AGREEMENT >= least && differs() || !self.back.may_be(&self.frames, spot) {
                continue;
            }
            let after = self.agreement(spot, next, copied);
            let cost = cost - AGREEMENT * (after as f64).ln_1p();
            let post = self.ground.captured.range(self.gap.hole.after).len();
            let enough = self.ground.settings.join.min(post + spot.len as usize).max(1);
            if after >= enough && cost < least {
                let (front, back) = (self.fill().len(), spot.len as usize);
                let hops = self.hops + spot.hops as usize;
                self.best = Some(Joint { front, back, misfit, after, hops, cost });
                self.best_spot = Some((front, *spot));
                self.frames.known_in(&mut self.at_best);
            }
        }
    }
    /// Whether the instruction with this number has not been considered lately; now it has been.
    fn considers(&mut self, number: usize) -> bool {
        let (len, site) = (self.fill().len(), self.frames.site());
        if self.considered.is_empty() {
            self.considered = vec![None; self.back.count()];
        }
        let last = &mut self.considered[number];
        let considers = last.is_none_or(|(then, below)| below != site || len >= then + self.again);
        if considers {
            *last = Some((len, site));
        }
        considers
    }
    /// What speaks against the best joint.
    fn least(&self) -> f64 {
        self.best.map_or(self.limit, |best| best.cost.min(self.limit))
    }
    /// Of spots with the same instruction those with which the gap's length is not missed by too much for a better joint.
    fn near(&self, same: &Same) -> Range<usize> {
        let Some(expected) = self.gap.expected else { return 0..same.spots().len() };
        let (front, scale) = (self.fill().len() as f64, expected.scale());
        let wanted = expected.instructions - front;
        // Whatever the spot is, its cost is at least this and as much for its misfit as is not made good by the balance.
        let at_least = HOP * self.hops as f64 + UNBALANCED * (front - wanted).abs() * self.by_scale;
        let allowed = self.least() + MOST_AGREEMENT - at_least;
        if allowed < -ROUNDING {
            return 0..0;
        }
        let misfit = self.ground.settings.misfit.min(allowed / (MISFIT - UNBALANCED));
        // One more on either side: what is near enough is asked exactly afterwards.
        let tolerance = misfit * scale + 1.0;
        let most = (wanted + tolerance).floor();
        // What is below 0 becomes 0.
        if most < 0.0 { 0..0 } else { same.with_len(((wanted - tolerance).ceil() as u32, most as u32)) }
    }
    /// By how much a joint at `spot` misses the gap's length, and what speaks against it.
    fn cost(&self, spot: &Spot) -> (f64, f64) {
        let (front, back) = (self.fill().len(), spot.len as usize);
        let hops = HOP * (self.hops + spot.hops as usize) as f64;
        match self.gap.expected {
            Some(expected) => {
                let misfit = ((front + back) as f64 - expected.instructions).abs() * self.by_scale;
                let unbalanced = front.abs_diff(back) as f64 * self.by_scale;
                (misfit, MISFIT * misfit + hops + UNBALANCED * unbalanced)
            }
            None => (0.0, hops + 1e-3 * (front + back) as f64),
        }
    }
    /// How far the trail would go where `spot` leads, `next` included.
    fn agreement(&self, spot: &Spot, next: Node, copied: Option<&[Node]>) -> usize {
        match copied {
            Some(nodes) => self.back.common(spot.len as usize, &nodes[..nodes.len().min(AFTER)]),
            None => forced_agreement(&self.ground, self.back.from(spot.len as usize), next),
        }
    }
    /// Places in the same context that these frames allow, with the length of the common suffix; the longest first.
    pub(super) fn places(&self, avoid: Option<u32>) -> Vec<(u32, usize)> {
        let mut all: Vec<_> = self.possible(avoid).map(|p| (p, self.common(p))).filter(|p| p.1 > 0).collect();
        all.sort_by_key(|p| std::cmp::Reverse(p.1));
        all
    }
    /// The first of [`Self::places`].
    fn place(&self, avoid: Option<u32>) -> Option<u32> {
        let mut best = (None, 0);
        for place in self.possible(avoid) {
            let common = self.common(place);
            if common > best.1 {
                best = (Some(place), common);
            }
            // No other is longer.
            if common == self.ground.settings.context {
                break;
            }
        }
        best.0
    }
    /// Places in the same context that these frames allow, in the order in which [`Contexts`] has them.
    fn possible(&self, avoid: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let captured = self.ground.captured;
        let last = self.nodes.last().copied();
        let possible = move |p: &u32| {
            let segment = captured.segment_at((*p as usize).saturating_sub(1));
            Some(*p) != avoid
                && !captured.is_hidden(segment)
                && captured.range(segment).contains(&(*p as usize))
                && last.is_some_and(|last| self.frames.allow(last, captured.nodes()[*p as usize]))
        };
        self.ground.learned.contexts.places(&self.transfers).into_iter().filter(possible)
    }
    fn common(&self, place: u32) -> usize {
        let (captured, position) = (self.ground.captured, place as usize);
        let prefix = &captured.nodes()[captured.range(captured.segment_at(position)).start..position];
        let nodes = &self.nodes[self.nodes.len().saturating_sub(self.ground.settings.context)..];
        common::suffix(nodes, prefix)
    }
    /// Leaves the trail for the way back where both were followed for half of the gap each, and never met.
    pub(super) fn pass(&mut self, places: Passages<'a>) -> Option<(Vec<Node>, Joint)> {
        let (expected, last) = (self.gap.expected?, *self.nodes.last()?);
        let tolerance = self.ground.settings.misfit * expected.scale();
        let length = Length { front: self.fill().len(), wanted: expected.instructions, tolerance };
        let (passage, spot) = places.lead(last, &mut self.frames, self.back, length)?;
        let mut nodes = self.fill().to_vec();
        nodes.extend(passage);
        let (front, back) = (nodes.len(), spot.len as usize);
        let passed = nodes.last().copied().unwrap_or(last);
        nodes.extend(self.back.way(back));
        let next = nodes.get(front).copied().or(self.back.first());
        let goes = next.is_some_and(|next| self.frames.follow(passed, next));
        self.best_spot = goes.then_some((front, spot));
        self.frames.known_in(&mut self.at_best);
        let misfit = expected.misfit(nodes.len());
        if misfit > self.ground.settings.misfit {
            return None;
        }
        let hops = self.hops + spot.hops as usize + 1;
        Some((nodes, Joint { front, back, misfit, after: 0, hops, cost: f64::INFINITY }))
    }
    /// What was followed on both sides where they do not meet, as long as was `expected`; `None` if that is nothing.
    pub(super) fn halves(&self, expected: Expected) -> Option<(Vec<Node>, Joint)> {
        let mut nodes = self.fill().to_vec();
        let left = (expected.instructions - nodes.len() as f64).max(0.0) as usize;
        let (front, back) = (nodes.len(), left.min(self.back.len()));
        nodes.extend(self.back.way(back));
        let misfit = expected.misfit(nodes.len());
        let joint = Joint { front, back, misfit, after: 0, hops: self.hops, cost: f64::INFINITY };
        (!nodes.is_empty()).then_some((nodes, joint))
    }
    /// The frames behind the gap by way of the best joint or of the passage, if the way back tells, or else those there; each with the number
    /// of instructions in front.
    pub(super) fn frames_at_best(&self) -> Option<(usize, Sites)> {
        let (front, spot) = self.best_spot?;
        let behind = self.back.frames_behind(self.at_best.clone(), &spot);
        let known = behind.map(|behind| (front + spot.len as usize, behind));
        Some(known.unwrap_or_else(|| (front, self.at_best.clone())))
    }
    /// Gives the best joint, and the fill that leads there and on.
    pub(super) fn finish(&self) -> Option<(Vec<Node>, Joint)> {
        let joint = self.best?;
        let mut nodes = self.fill()[..joint.front].to_vec();
        nodes.extend(self.back.way(joint.back));
        Some((nodes, joint))
    }
}

/// How much of `post`, which follows a gap, lies on the straight line from `node` on; the end of the line counts for all that
/// must agree, since nobody knows how it went on behind it.
pub(super) fn forced_agreement<'n>(
    ground: &Ground<'_>,
    post: impl Iterator<Item = &'n Node>,
    node: Node,
) -> usize {
    let g = ground.icfg;
    let (mut at, mut after) = (node, 0);
    for next in post.take(AFTER) {
        if *next != at {
            break;
        }
        after += 1;
        if g.opcode(at).transfer() != Transfer::None {
            return after.max(ground.settings.join);
        }
        let Some((_, behind)) = g.edges(at).next() else { break };
        at = behind;
    }
    after
}
