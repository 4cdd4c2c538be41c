//! Going on behind a gap's last instruction as what was captured went on in the same context.

use super::contexts::Contexts;
use super::follow::{Gap, Settings};
use super::frames::Frames;
use super::{Captured, FillWork, Tier, Tiers};
use jportal_bytecode::{Icfg, Node, Transfer};

/// Where a trail may end: in front of what follows the gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Join {
    /// Length of the fill.
    pub(super) len: usize,
    /// How far its time is from that of the gap, in parts of that; 0 where time is unknown.
    pub(super) misfit: f64,
    /// Instructions behind the gap that the copied place agrees with.
    pub(super) after: usize,
}

/// What all trails of a recovery have in common.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) icfg: &'a Icfg,
    pub(super) captured: &'a Captured,
    pub(super) contexts: &'a Contexts,
    pub(super) settings: &'a Settings,
    /// Time per instruction over all that was captured.
    pub(super) pace: Option<f64>,
}

/// One attempt.
#[derive(Clone)]
pub(super) struct Trail<'a> {
    ground: Ground<'a>,
    gap: &'a Gap<'a>,
    frames: Frames<'a>,
    /// What is compared in front of the gap, then the fill.
    nodes: Vec<Node>,
    /// Where the fill begins in `nodes`.
    given: usize,
    /// The last transfers of control of `nodes`.
    transfers: Vec<Node>,
    /// Time since the gap began.
    elapsed: f64,
    pub(super) hops: usize,
    /// How often frames were compared at a possible end.
    checks: usize,
    pub(super) best: Option<Join>,
}

/// Why copying ended.
enum End {
    /// Enough was read.
    Done,
    /// The place cannot be followed beyond here.
    Stuck(Option<u32>),
}

/// Frames are checked over so many instructions behind the gap.
const REPLAY: usize = 1024;
/// Possible ends at which they are compared.
const CHECKS: usize = 1024;
/// Instructions in a row without a choice.
const FORCED: usize = 1 << 16;
/// Agreement behind the gap is counted up to here.
const AFTER: usize = 256;
/// The time is looked up every so many instructions.
const TICK: usize = 64;

impl<'a> Trail<'a> {
    pub(super) fn new(ground: Ground<'a>, gap: &'a Gap<'a>) -> Self {
        let all = ground.captured.segment(gap.hole.before);
        let nodes = all[all.len().saturating_sub(ground.settings.context)..].to_vec();
        let is_transfer = |n: &Node| ground.icfg.tier(*n) <= Tier::Control;
        let transfers = nodes.iter().copied().filter(is_transfer).collect();
        let frames = Frames::new(ground.icfg, gap.before);
        let given = nodes.len();
        Self { ground, gap, frames, nodes, given, transfers, elapsed: 0.0, hops: 0, checks: 0, best: None }
    }
    pub(super) fn fill(&self) -> &[Node] {
        &self.nodes[self.given..]
    }
    fn post(&self) -> &'a [Node] {
        self.ground.captured.segment(self.gap.hole.after)
    }
    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        if self.ground.icfg.tier(node) <= Tier::Control {
            self.transfers.push(node);
            if self.transfers.len() > 64 * Contexts::longest() {
                self.transfers.drain(..self.transfers.len() - Contexts::longest());
            }
        }
    }
    /// Goes on as long as there is one way only, exceptions aside.
    pub(super) fn forced_on(&mut self) {
        for _ in 0..FORCED {
            let Some((last, next)) = self.nodes.last().and_then(|last| Some((*last, self.forced(*last)?)))
            else {
                return;
            };
            let after = forced_agreement(&self.ground, self.post(), next);
            self.consider(next, after, self.elapsed);
            if self.is_done() || !self.frames.follow(last, next) {
                return;
            }
            self.elapsed += self.ground.pace.unwrap_or(0.0);
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
    /// Copies from `place` on, then from other places in the context reached, until the gap's time is over.
    pub(super) fn run(&mut self, place: u32, work: &mut FillWork) {
        let mut next = Some(place);
        while let Some(place) = next {
            let End::Stuck(at) = self.copy(place, work) else { return };
            self.forced_on();
            self.hops += 1;
            let more = self.hops <= self.ground.settings.hops && !self.is_done();
            next = more.then(|| self.places(at).first().map(|p| p.0)).flatten();
        }
    }
    fn copy(&mut self, place: u32, work: &mut FillWork) -> End {
        let captured = self.ground.captured;
        let from = place as usize;
        let end = captured.range(captured.segment_at(from)).end;
        let base = self.elapsed;
        for position in from..end {
            let next = captured.nodes()[position];
            work.read += 1;
            if (position - from).is_multiple_of(TICK) {
                self.elapsed = base + self.ground.time_between(from, position);
                if self.is_done() {
                    return End::Done;
                }
            }
            if self.post().first() == Some(&next) {
                let same = self.post().iter().zip(&captured.nodes()[position..end]).take(AFTER);
                let after = same.take_while(|(a, b)| a == b).count();
                self.consider(next, after, base + self.ground.time_between(from, position));
                if self.is_done() {
                    return End::Done;
                }
            }
            let Some(last) = self.nodes.last().copied() else { return End::Done };
            if !self.frames.follow_seen(last, next) {
                self.elapsed = base + self.ground.time_between(from, position);
                return End::Stuck(Some(position as u32));
            }
            self.push(next);
        }
        self.elapsed = base + self.ground.time_between(from, end);
        End::Stuck(None)
    }
    /// Whether a better end can no longer come.
    fn is_done(&self) -> bool {
        let settings = self.ground.settings;
        let over = match self.gap.hole.time {
            Some(d) => self.elapsed > d as f64 + settings.misfit * self.ground.scale(d),
            None => self.best.is_some() || self.fill().len() >= settings.untimed,
        };
        over || self.fill().len() >= settings.longest
    }
    /// Notes that the gap may end here, in front of `next`, at `time`.
    fn consider(&mut self, next: Node, after: usize, time: f64) {
        let settings = self.ground.settings;
        let misfit = self.gap.hole.time.map_or(0.0, |d| (time - d as f64).abs() / self.ground.scale(d));
        let better = |best: Join| misfit < 0.9 * best.misfit || misfit <= best.misfit && after > best.after;
        if after < settings.join.min(self.post().len()).max(1)
            || misfit > settings.misfit
            || !self.best.is_none_or(better)
            || self.checks == CHECKS
        {
            return;
        }
        self.checks += 1;
        if !self.frames_connect(next) {
            return;
        }
        self.best = Some(Join { len: self.fill().len(), misfit, after });
    }
    fn frames_connect(&self, next: Node) -> bool {
        let mut frames = self.frames.clone();
        let Some(last) = self.nodes.last() else { return false };
        frames.follow(*last, next) && connects(&self.ground, self.gap, frames)
    }
    /// Places in the same context that these frames allow, with the length of the common suffix; the longest first.
    pub(super) fn places(&self, avoid: Option<u32>) -> Vec<(u32, usize)> {
        let captured = self.ground.captured;
        let Some(last) = self.nodes.last() else { return Vec::new() };
        let possible = |p: &u32| {
            let segment = captured.range(captured.segment_at((*p as usize).saturating_sub(1)));
            Some(*p) != avoid
                && segment.contains(&(*p as usize))
                && self.frames.allow(*last, captured.nodes()[*p as usize])
        };
        let places = self.ground.contexts.places(&self.transfers).into_iter().filter(possible);
        let mut all: Vec<_> = places.map(|p| (p, self.common(p as usize))).filter(|p| p.1 > 0).collect();
        all.sort_by_key(|p| std::cmp::Reverse(p.1));
        all
    }
    fn common(&self, position: usize) -> usize {
        let captured = self.ground.captured;
        let prefix = &captured.nodes()[captured.range(captured.segment_at(position)).start..position];
        let pairs = self.nodes.iter().rev().zip(prefix.iter().rev()).take(self.ground.settings.context);
        pairs.take_while(|(a, b)| a == b).count()
    }
    /// Gives the fill up to the best end.
    pub(super) fn finish(self) -> Option<(Vec<Node>, Join)> {
        let join = self.best?;
        Some((self.fill()[..join.len].to_vec(), join))
    }
}

impl Ground<'_> {
    /// The time between two positions of one segment.
    fn time_between(&self, from: usize, to: usize) -> f64 {
        let last = to.max(from + 1) - 1;
        let segment = self.captured.range(self.captured.segment_at(from));
        if self.captured.marks_in(&segment).nth(1).is_none() {
            return self.pace.unwrap_or(0.0) * (to - from) as f64;
        }
        match (self.captured.time_at(from), self.captured.time_at(last)) {
            (Some(a), Some(b)) if last > from => {
                b.saturating_sub(a) as f64 * (to - from) as f64 / (last - from) as f64
            }
            _ => self.pace.unwrap_or(0.0) * (to - from) as f64,
        }
    }
    /// What a difference from `d` is measured with: a gap shorter than some instructions is not told from one of none.
    pub(super) fn scale(&self, d: u64) -> f64 {
        (d as f64).max(16.0 * self.pace.unwrap_or(0.0)).max(1.0)
    }
}

/// How much of `post`, which follows a gap, lies on the straight line from `node` on; the end of the line counts for all that
/// must agree, since nobody knows how it went on behind it.
pub(super) fn forced_agreement(ground: &Ground<'_>, post: &[Node], node: Node) -> usize {
    let g = ground.icfg;
    let (mut at, mut after) = (node, 0);
    for next in post.iter().take(AFTER) {
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

/// Whether `frames` may be those behind the gap, as far as they are known or can be seen there.
pub(super) fn connects(ground: &Ground<'_>, gap: &Gap<'_>, mut frames: Frames<'_>) -> bool {
    let post = ground.captured.segment(gap.hole.after);
    frames.agree(&Frames::new(ground.icfg, gap.after))
        && post.windows(2).take(REPLAY).all(|pair| frames.follow_seen(pair[0], pair[1]))
}
