// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The trail: continues after the last instruction before a gap as the captured data continued
//! in the same context.

use super::back::{Back, SAME, Same, Spot, Tables, ahead};
use super::contexts::Contexts;
use super::follow::{Gap, Settings};
use super::frames::Frames;
use super::learned::Learned;
use super::pace::Expected;
use super::passage::{Length, Passages};
use super::{Captured, FillWork, Tier, Tiers, common};
use crate::cut::FrameSites;
use jportal_bytecode::{Icfg, Node, Transfer};
use std::cell::LazyCell;
use std::ops::Range;

/// A point where a trail may switch to the way back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Joint {
    /// Number of instructions taken from the trail.
    pub(super) front: usize,
    /// Number of instructions taken from the way back.
    pub(super) back: usize,
    /// Difference between the length of both and the expected one, as a part of the expected
    /// scale; 0 if no length is expected.
    pub(super) misfit: f64,
    /// Number of instructions after the joint on which the place copied by the trail and the
    /// way back agree.
    pub(super) after: usize,
    /// How often both switched to another place.
    pub(super) hops: usize,
    /// The cost. Of two joints, the one with the lower cost is better.
    pub(super) cost: f64,
}

/// What all trails of a recovery share.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) icfg: &'a Icfg,
    pub(super) captured: &'a Captured,
    pub(super) learned: &'a Learned,
    pub(super) settings: &'a Settings,
    pub(super) tables: &'a Tables,
}

/// One attempt to fill a gap.
#[derive(Clone)]
pub(super) struct Trail<'a> {
    ground: Ground<'a>,
    gap: &'a Gap<'a>,
    back: &'a Back<'a>,
    frames: Frames<'a>,
    /// The instructions before the gap that are compared, then the fill.
    nodes: Vec<Node>,
    /// Index in `nodes` where the fill begins.
    given: usize,
    /// The last transfers of control of `nodes`.
    transfers: Vec<Node>,
    hops: usize,
    /// What the trail was in the middle of the gap.
    middle: Option<Middle<'a>>,
    /// A joint with at least this cost is of no use.
    limit: f64,
    /// The reciprocal of the expected scale; 0 if no length is expected.
    by_scale: f64,
    /// For each instruction with spots, by number, the length of the fill when it was last
    /// considered, and the call site below it then. Empty before the first.
    considered: Vec<Option<(usize, Option<Node>)>>,
    /// With the same call site, an instruction is considered again when the fill is longer by
    /// this many instructions.
    again: usize,
    best: Option<Joint>,
    /// The frames at the best joint or after a passage.
    at_best: FrameSites,
    /// The spot there, and the number of instructions before it.
    best_spot: Option<(usize, Spot)>,
}

/// An earlier state of a trail.
#[derive(Clone)]
struct Middle<'a> {
    len: usize,
    frames: Frames<'a>,
    hops: usize,
}

/// Why copying ended.
enum CopyEnd {
    /// Enough was read.
    Done,
    /// The place cannot be followed beyond this position, or beyond the end of its segment.
    Stuck(Option<u32>),
}

/// Limit of instructions in a row without a choice.
const FORCED: usize = 1 << 16;
/// Agreement after the gap or a joint is counted up to this many instructions.
const AFTER: usize = 64;
/// The cost of a joint per unit of misfit.
const MISFIT: f64 = 4.0;
/// The cost of a joint per switch to another place.
const HOP: f64 = 0.02;
/// The cost of a joint per unit of imbalance: the difference between the parts from the trail
/// and from the way back, as a part of the expected scale.
const UNBALANCED: f64 = 0.25;
/// What agreement of both parts takes off the cost, times the logarithm of the number of
/// instructions that agree.
pub(super) const AGREEMENT: f64 = 0.25;
/// What agreement of [`AFTER`] instructions takes off, rounded up.
const MOST_AGREEMENT: f64 = 1.05;
/// What agreement of fewer than [`AHEAD`](super::back::AHEAD) instructions takes off, rounded
/// up.
const SOME_AGREEMENT: f64 = 0.53;
/// Costs that differ by less count as the same.
const ROUNDING: f64 = 1e-6;
/// The length of the fill is checked once per this many instructions.
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
        // The lengths of spots are about as far apart as this, so joints considered earlier are
        // hardly any better.
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
            at_best: FrameSites::default(),
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
    /// Begins with the entry of the method that the last instruction before the gap called, if
    /// that is known. Returns whether the frames allow it.
    pub(super) fn enter(&mut self) -> bool {
        let Some((last, entry)) = self.nodes.last().copied().zip(self.gap.entered) else { return true };
        let allowed = self.frames.follow_seen(last, entry);
        self.consider(entry, None);
        self.push(entry);
        allowed
    }
    /// Continues while only one instruction can follow, exceptions aside.
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
    /// The only instruction that may follow `last`, if there is just one.
    fn forced(&self, last: Node) -> Option<Node> {
        let g = self.ground.icfg;
        let from = match g.opcode(last).transfer() {
            Transfer::None | Transfer::Goto | Transfer::Jsr => last,
            Transfer::Return => self.frames.site()?,
            _ => return None,
        };
        g.edges(from).next().map(|e| e.1)
    }
    /// Limits the trail to joints that cost less than `limit`.
    pub(super) const fn cheaper_than(mut self, limit: f64) -> Self {
        self.limit = limit;
        self
    }
    /// Copies from `place` on, then from other places in the context reached, until the time of
    /// the gap is over.
    pub(super) fn run(&mut self, place: Option<u32>, work: &mut FillWork) {
        let mut next = place;
        while !self.is_done() && self.hops <= self.ground.settings.hops {
            let stuck = match next.map(|place| self.copy(place, work)) {
                Some(CopyEnd::Done) => return,
                Some(CopyEnd::Stuck(at)) => at,
                None if !self.guess() => return,
                None => None,
            };
            self.forced_on();
            self.hops += 1;
            next = self.place(stuck);
        }
    }
    /// Continues with the instruction that most often followed, of those that the frames allow.
    /// Used where no place in the same context can be followed. Returns false if there is none.
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
    fn copy(&mut self, place: u32, work: &mut FillWork) -> CopyEnd {
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
                return CopyEnd::Done;
            }
            let Some(last) = self.nodes.last().copied() else { return CopyEnd::Done };
            let straight = last.0 + 1 == next.0 && self.ground.icfg.tier(last) == Tier::Concrete;
            if !straight && !self.frames.follow_seen(last, next) {
                return CopyEnd::Stuck(Some(position as u32));
            }
            self.go_straight(&captured.nodes()[position..end], len);
            if transfers {
                self.transferred(captured.nodes()[position + len - 1]);
            }
            position += len;
        }
        CopyEnd::Stuck(None)
    }
    /// Appends the first `len` instructions of `copied`, which follow each other in the code.
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
    /// Whether no better joint can follow. Also notes the middle of the gap, when half of its
    /// time is over.
    fn is_done(&mut self) -> bool {
        let settings = self.ground.settings;
        let len = self.fill().len();
        if self.middle.is_none() && self.gap.expected.is_some_and(|e| len as f64 >= e.instructions / 2.0) {
            self.middle = Some(Middle { len, frames: self.frames.clone(), hops: self.hops });
        }
        let over = match self.gap.expected {
            Some(expected) => {
                // In a large gap, joints this late are hardly ever found, and reading on takes
                // time.
                let late = self.best.is_none() && settings.is_small(Some(expected));
                let more = if late { settings.misfit } else { 0.0 };
                len as f64 > expected.instructions + more * expected.scale() || self.costs_too_much(expected)
            }
            None => self.best.is_some() || len >= settings.untimed,
        };
        over || len >= settings.longest
    }
    /// Goes back to the middle of the gap, if the trail has reached it.
    pub(super) fn back_to_middle(&mut self) {
        if let Some(Middle { len, frames, hops }) = self.middle.take() {
            self.nodes.truncate(self.given + len);
            (self.frames, self.hops) = (frames, hops);
        }
    }
    /// Whether no joint from here on costs less than the best one. After the middle of the gap,
    /// the least possible cost rises: the fill misses the length of the gap, or the trail makes
    /// up more of the fill.
    fn costs_too_much(&self, expected: Expected) -> bool {
        let front = self.fill().len() as f64;
        let wanted = expected.instructions - front;
        let over = (-wanted).max(0.0);
        let unbalanced = front - wanted.max(0.0);
        let at_least = HOP * self.hops as f64 + (MISFIT * over + UNBALANCED * unbalanced) * self.by_scale;
        unbalanced >= 0.0 && at_least - MOST_AGREEMENT > self.least() + ROUNDING
    }
    /// Considers joints at `next`, which comes next, with the present frames, and notes the
    /// best one. `next` is the first of the instructions that are `copied`, if any are.
    fn consider(&mut self, next: Node, copied: Option<&[Node]>) {
        let own = LazyCell::new(|| copied.and_then(|nodes| ahead(nodes.iter())));
        let Some(number) = self.back.number(next) else { return };
        if !self.considers(number) {
            return;
        }
        let same = self.back.numbered(number);
        // The cheapest checks come first.
        for spot in same.called_from(self.near(same), self.frames.site()) {
            let (misfit, cost) = self.cost(spot);
            let least = self.least();
            let near = misfit <= self.ground.settings.misfit && cost - MOST_AGREEMENT < least;
            // If they differ soon, agreement cannot make a good joint of it.
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
    /// Whether the instruction with this number was not considered recently. If so, notes that
    /// it is considered here.
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
    /// The cost that a better joint must be below.
    fn least(&self) -> f64 {
        self.best.map_or(self.limit, |best| best.cost.min(self.limit))
    }
    /// The spots of `same` with lengths near enough to that of the gap for a better joint.
    fn near(&self, same: &Same) -> Range<usize> {
        let Some(expected) = self.gap.expected else { return 0..same.spots().len() };
        let (front, scale) = (self.fill().len() as f64, expected.scale());
        let wanted = expected.instructions - front;
        // Any spot costs at least this, plus the cost of its misfit without what balance can
        // save of it.
        let at_least = HOP * self.hops as f64 + UNBALANCED * (front - wanted).abs() * self.by_scale;
        let allowed = self.least() + MOST_AGREEMENT - at_least;
        if allowed < -ROUNDING {
            return 0..0;
        }
        let misfit = self.ground.settings.misfit.min(allowed / (MISFIT - UNBALANCED));
        // One more on either side; the exact check follows.
        let tolerance = misfit * scale + 1.0;
        let most = (wanted + tolerance).floor();
        // The cast turns a lower bound below 0 into 0.
        if most < 0.0 { 0..0 } else { same.with_len(((wanted - tolerance).ceil() as u32, most as u32)) }
    }
    /// The misfit of a joint at `spot`, and its cost without agreement.
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
    /// For how many instructions, `next` included, the trail would agree with the way back from
    /// `spot`.
    fn agreement(&self, spot: &Spot, next: Node, copied: Option<&[Node]>) -> usize {
        match copied {
            Some(nodes) => self.back.common(spot.len as usize, &nodes[..nodes.len().min(AFTER)]),
            None => forced_agreement(&self.ground, self.back.from(spot.len as usize), next),
        }
    }
    /// Places in the same context that the frames allow, each with the length of the common
    /// suffix; the longest first.
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
            // No other suffix is longer.
            if common == self.ground.settings.context {
                break;
            }
        }
        best.0
    }
    /// Places in the same context that the frames allow, in the order of [`Contexts`].
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
    /// Takes a passage from the trail to the way back, where both were followed for half of the
    /// gap each and never met.
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
    /// The parts from both sides where they do not meet, with the expected length together.
    /// `None` if they are empty.
    pub(super) fn halves(&self, expected: Expected) -> Option<(Vec<Node>, Joint)> {
        let mut nodes = self.fill().to_vec();
        let left = (expected.instructions - nodes.len() as f64).max(0.0) as usize;
        let (front, back) = (nodes.len(), left.min(self.back.len()));
        nodes.extend(self.back.way(back));
        let misfit = expected.misfit(nodes.len());
        let joint = Joint { front, back, misfit, after: 0, hops: self.hops, cost: f64::INFINITY };
        (!nodes.is_empty()).then_some((nodes, joint))
    }
    /// The frames below the first instruction after the gap, by way of the best joint or of the
    /// passage. If the way back does not determine them, the frames at the joint. Both with the
    /// number of instructions of the fill before that point.
    pub(super) fn frames_at_best(&self) -> Option<(usize, FrameSites)> {
        let (front, spot) = self.best_spot?;
        let behind = self.back.frames_after(self.at_best.clone(), &spot);
        let known = behind.map(|behind| (front + spot.len as usize, behind));
        Some(known.unwrap_or_else(|| (front, self.at_best.clone())))
    }
    /// The fill with the best joint, and that joint.
    pub(super) fn finish(&self) -> Option<(Vec<Node>, Joint)> {
        let joint = self.best?;
        let mut nodes = self.fill()[..joint.front].to_vec();
        nodes.extend(self.back.way(joint.back));
        Some((nodes, joint))
    }
}

/// For how many instructions `post`, which follows a gap, agrees with the straight code from
/// `node` on. If all of the straight code agrees, that counts as at least the number of
/// instructions that must agree, because what followed its last instruction is unknown.
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
