// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Our own recovery: fills a gap with what followed the same context elsewhere in the
//! execution, for as long as the gap took.
//!
//! The paper takes the complete segment with the longest common suffix and reads it to the
//! first place that joins, which makes one round of every loop. Our own recovery differs:
//! * Places in the same context are looked up on [several scales](super::Contexts) instead of
//!   by a fixed number of anchor instructions. The best of them are followed, forwards from the
//!   front ([`Trail`]) and backwards from the end of the gap ([`Back`]). Where a place cannot
//!   be followed any further, another place in the context reached by then is followed.
//! * Both directions only take steps that the frames of the interrupted thread allow: the
//!   frames before the gap, and those after it that are known or that show when methods return.
//! * Where both directions reach the same instruction with the same frames, they may be joined.
//!   Of these joints, the one is taken whose length is nearest to what there was time for (see
//!   [`Paces`](super::Paces)), so that loops make as many rounds as there was time for.
//! * Where they never meet, for example in two different loops, the likeliest
//!   [passage](Passages) from the one to the other is searched in the ICFG; for small gaps, the
//!   likeliest [path](Explorer) from end to end.
//! * Where there is no passage either, a gap remains between the part from the front and the
//!   part from the end ([`Recovered::broken`]).
//!
//! The confidence in an event comes from the other places in the same context: of those that
//! agree before the gap, how many continued in the same way up to the event; of those that
//! agree after the gap, how many were reached in the same way from the event.
//!
//! Where nothing joins in the time of a small gap, nothing is filled.

use super::ancestors::is_straight;
use super::back::{Back, Tables};
use super::captured::straight;
use super::confidence::Confidence;
use super::explore::{Explorer, Join};
use super::frames::Frames;
use super::learned::Learned;
use super::pace::Expected;
use super::passage::{Exited, Passages};
use super::trail::{AGREEMENT, Ground, Joint, Trail};
use super::{Captured, FillWork, Hole, SegmentId, common};
use crate::cut::FrameSites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};

/// A gap with the frames on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// The gap.
    pub hole: Hole,
    /// The frames below the last instruction before it.
    pub before: Below<'a>,
    /// The entry of the method that the last instruction before the gap called, if none of the
    /// method's instructions were seen there.
    pub entered: Option<Node>,
    /// The frames below the first instruction after it.
    pub after: Below<'a>,
    /// How sure it is that the thread was at these positions before and after the gap, each
    /// between 0 and 1.
    pub sure: (f32, f32),
    /// How many instructions there was time for, if known; see [`Paces`](super::Paces).
    pub expected: Option<Expected>,
}

impl<'a> Gap<'a> {
    /// Its end.
    pub const fn end(&self) -> GapEnd<'a> {
        GapEnd { segment: self.hole.after, frames: self.after, expected: self.expected }
    }
}

/// The end of a gap.
#[derive(Clone, Copy, Debug)]
pub struct GapEnd<'a> {
    /// The segment that follows.
    pub segment: SegmentId,
    /// The frames below its first instruction.
    pub frames: Below<'a>,
    /// How many instructions there was time for in the gap, if known.
    pub expected: Option<Expected>,
}

/// Looks for what leads to the ends of gaps. The result does not depend on what precedes a gap,
/// so any thread can do this.
#[derive(Clone, Copy)]
pub struct WaysBack<'f>(Ground<'f>);

impl std::fmt::Debug for WaysBack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaysBack").finish_non_exhaustive()
    }
}

impl<'f> WaysBack<'f> {
    /// The instructions that lead to `end`. `None` if no fill of the gap can be right.
    pub fn to(&self, end: &GapEnd<'_>) -> Option<WayBack<'f>> {
        let Ground { captured, settings, .. } = self.0;
        // If the shortest fill that fits is too long, no fill is possible, and nothing needs to
        // be read.
        let shortest = end.expected.map_or(0.0, |e| e.instructions - settings.misfit * e.scale());
        if captured.segment(end.segment).is_empty() || shortest > settings.longest as f64 {
            return None;
        }
        let (mut back, mut work) = (Back::new(self.0, end), FillWork::default());
        let (forced, led) = back.run(&mut work);
        Some(WayBack { back, forced, led, work })
    }
}

/// The instructions that lead to the end of a gap.
pub struct WayBack<'f> {
    back: Back<'f>,
    /// Number of instructions at its end that are without a choice.
    forced: usize,
    /// The places that agree from those instructions on; the first one was followed.
    led: Vec<u32>,
    work: FillWork,
}

impl WayBack<'_> {
    /// Number of its instructions.
    #[expect(clippy::len_without_is_empty, reason = "one without instructions leads there as well")]
    pub const fn len(&self) -> usize {
        self.back.len()
    }
}

impl std::fmt::Debug for WayBack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WayBack").field("len", &self.back.len()).finish_non_exhaustive()
    }
}

/// Bounds of the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Number of instructions after the gap that a fill must run into; all of them if fewer
    /// were captured.
    pub join: usize,
    /// Number of places followed for a small gap, one of up to [`Self::visits`] instructions.
    /// For other gaps it is one: each place costs as much as the gap is long, and the second
    /// one has hardly ever joined where the first did not.
    pub tries: usize,
    /// How often the search may switch to another place.
    pub hops: usize,
    /// Largest number of instructions of a fill.
    pub longest: usize,
    /// The same where it is unknown how many instructions there was time for: nothing else ends
    /// a search that does not join.
    pub untimed: usize,
    /// Largest difference between the length of a fill and the expected one, as a part of the
    /// expected scale.
    pub misfit: f64,
    /// Number of instructions before or after a place that are compared.
    pub context: usize,
    /// Number of runs visited for a path through the ICFG where no place joins. With 0, the
    /// search follows only what was seen at places in the same context.
    pub visits: usize,
}

impl Settings {
    /// Whether a gap with this expected length is small. A gap of unknown length is.
    pub(super) fn is_small(&self, expected: Option<Expected>) -> bool {
        expected.is_none_or(|e| e.instructions <= self.visits as f64)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            join: 4,
            tries: 2,
            hops: 2048,
            longest: 1 << 24,
            untimed: 1 << 12,
            misfit: 0.5,
            context: 4096,
            visits: 4096,
        }
    }
}

/// A fill, and the evidence for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovered {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// How sure each of them is, between 0 and 1.
    pub confidence: Confidence,
    /// Difference between its length and the expected one, as a part of the expected scale;
    /// `None` if no length is expected.
    pub misfit: Option<f64>,
    /// Number of instructions before the gap that agree with the place followed first; 0 for a
    /// path through the ICFG.
    pub before: usize,
    /// Number of instructions on which the part from the front and the part from the end agree
    /// where they are joined. For a path through the ICFG, the number of instructions after the
    /// gap that agree with how it continues.
    pub after: usize,
    /// How often the search switched to another place.
    pub hops: usize,
    /// Index of the first instruction of the part from the end, if the two parts never met.
    /// Nothing is known to lead to it from the instruction before.
    pub broken: Option<usize>,
    /// The index of an instruction, and the frames below it, if the search found them. The
    /// index after the last instruction is that of the first one after the gap. See
    /// [`Follower::frames_after`].
    pub frames: Option<(usize, FrameSites)>,
}

impl Recovered {
    /// A path that no captured place supports.
    fn explored(gap: &Gap<'_>, (nodes, join, share): (Vec<Node>, Join, f32)) -> Self {
        let confidence = Confidence::uniform(nodes.len(), share);
        let misfit = gap.expected.map(|_| join.misfit);
        Self { nodes, confidence, misfit, before: 0, after: join.after, hops: 0, broken: None, frames: None }
    }
}

/// Recovers the gaps of one execution.
#[derive(Debug)]
pub struct Follower<'a> {
    icfg: &'a Icfg,
    captured: &'a Captured,
    learned: &'a Learned,
    exited: Exited<'a>,
    settings: Settings,
    tables: Tables,
}

impl<'a> Follower<'a> {
    /// `learned` was learned from `captured`, or from the same data with other stretches
    /// hidden. The instructions are those of `icfg`.
    pub fn new(icfg: &'a Icfg, captured: &'a Captured, learned: &'a Learned, settings: Settings) -> Self {
        let (exited, tables) = (Exited::new(&learned.exits), Tables::default());
        Self { icfg, captured, learned, exited, settings, tables }
    }
    /// The graph.
    pub const fn icfg(&self) -> &'a Icfg {
        self.icfg
    }
    /// Another follower of the same data, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.icfg, self.captured, self.learned, self.settings)
    }
    /// The fills of `gaps`; `None` where nothing fits.
    pub fn recover(&self, gaps: &[Gap<'_>]) -> Vec<(Option<Recovered>, FillWork)> {
        gaps.iter().map(|gap| self.recover_gap(gap)).collect()
    }
    /// The frames below the first instruction after a gap, where its fill determines them.
    pub fn frames_after(&self, gap: &Gap<'_>, fill: &Recovered) -> FrameSites {
        let Recovered { nodes, broken, frames, .. } = fill;
        let first = self.captured.segment(gap.hole.after).first();
        let follow = |frames: &mut Frames<'a>, from: Option<&Node>, to: Option<&Node>| {
            let Some(to) = to.or(first) else { return };
            let goes = |from: &Node| is_straight(self.icfg, &[*from, *to]) || frames.follow_seen(*from, *to);
            if !from.is_some_and(goes) {
                *frames = Frames::new(self.icfg, Below::Unknown);
            }
        };
        // A fill says nothing of these frames up to where it is broken.
        let (mut at, mut below) = match (frames, broken) {
            (Some((at, sites)), _) => (*at, Frames::new(self.icfg, sites.below())),
            (None, Some(broken)) => (*broken, Frames::new(self.icfg, Below::Unknown)),
            (None, None) => {
                let mut before = Frames::new(self.icfg, gap.before);
                follow(&mut before, self.captured.segment(gap.hole.before).last(), nodes.first());
                (0, before)
            }
        };
        while at < nodes.len() {
            // Straight code leaves them as they are.
            at += straight(self.icfg, &nodes[at..]);
            follow(&mut below, nodes.get(at - 1), nodes.get(at));
        }
        below.known()
    }
    /// What runs in the likeliest callee of the invoke at `site` until it returns. `None` if no
    /// way through a callee is known.
    pub fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        self.passages().callee_of(site)
    }
    fn passages(&self) -> Passages<'_> {
        Passages { icfg: self.icfg, frequencies: &self.learned.frequencies, known: &self.exited }
    }
    /// Looks for what leads to the ends of gaps, for [`Self::recover_to`].
    pub fn ways_back(&self) -> WaysBack<'_> {
        let Self { icfg, captured, learned, settings, tables, .. } = self;
        WaysBack(Ground { icfg, captured, learned, settings, tables })
    }
    /// The fill of one gap.
    pub fn recover_gap(&self, gap: &Gap<'_>) -> (Option<Recovered>, FillWork) {
        self.recover_to(gap, self.ways_back().to(&gap.end()).as_ref())
    }
    /// The fill of one gap, given the way back from its end.
    pub fn recover_to(&self, gap: &Gap<'_>, way: Option<&WayBack<'_>>) -> (Option<Recovered>, FillWork) {
        let WaysBack(ground) = self.ways_back();
        let Ground { captured, settings, .. } = ground;
        let Some(WayBack { back, forced: forced_back, led, work }) = way else {
            return (None, FillWork::default());
        };
        let (forced_back, mut work) = (*forced_back, *work);
        if captured.segment(gap.hole.before).is_empty() {
            return (None, work);
        }
        let mut start = Trail::new(ground, gap, back);
        if !start.enter() {
            return (None, work);
        }
        start.forced_on();
        let forced = start.fill().len();
        let places = start.places(None);
        work.candidates = (places.len() + led.len()) as u64;
        let small = settings.is_small(gap.expected);
        let tries = if small { settings.tries } else { settings.tries.min(1) };
        let (mut broken, mut unjoined) = (None, None);
        let mut best = start.finish().map(|found| Choice {
            found,
            before: 0,
            place: None,
            frames: start.frames_at_best(),
        });
        for (place, before) in places.iter().take(tries) {
            work.tried += 1;
            let limit = best.as_ref().map_or(f64::INFINITY, |best| best.cost() + Choice::credit(*before));
            let mut trail = start.clone().cheaper_than(limit);
            trail.run(Some(*place), &mut work);
            let choice = trail.finish().map(|found| Choice {
                found,
                before: *before,
                place: Some(*place),
                frames: trail.frames_at_best(),
            });
            if choice.is_none() && unjoined.is_none() {
                unjoined = Some((trail, Some(*place), *before));
            }
            best = best.into_iter().chain(choice).reduce(|a, b| if b.cost() < a.cost() { b } else { a });
        }
        let without = best.is_none() && settings.visits > 0;
        if without
            && small
            && let Some(path) = Explorer::new(ground, gap).explore(&mut work)
        {
            return (Some(Recovered::explored(gap, path)), work);
        }
        if without && let Some(expected) = gap.expected {
            let (mut trail, place, before) = unjoined.unwrap_or_else(|| {
                start.run(None, &mut work);
                (start, None, 0)
            });
            trail.back_to_middle();
            let mut found = trail.pass(self.passages());
            let frames = found.as_ref().and_then(|_| trail.frames_at_best());
            // If there is no passage from the one to the other, a gap remains between them. A
            // small gap is not filled.
            if found.is_none() && !small {
                found = trail.halves(expected);
                broken = found.as_ref().map(|halves| halves.1.front);
            }
            best = found.map(|found| Choice { found, before, place, frames });
        }
        let Some(Choice { found: (nodes, joint), before, place, frames }) = best else {
            return (None, work);
        };
        let others = |p: &&(u32, usize)| Some(p.0) != place;
        let front: Vec<usize> = places.iter().filter(others).map(|p| p.0 as usize).collect();
        let behind: Vec<usize> = led.iter().skip(1).map(|p| *p as usize + forced_back).collect();
        let forced = (forced.min(joint.front), forced_back.min(joint.back));
        let recovered = Recovered {
            confidence: self.confidence(&nodes, gap, forced, &front, &behind),
            misfit: gap.expected.map(|_| joint.misfit),
            before,
            after: joint.after,
            hops: joint.hops,
            broken,
            frames,
            nodes,
        };
        (Some(recovered), work)
    }
    /// The confidence in each of `nodes`, the better one of two numbers.
    ///
    /// The first is the share of the places in `front` that continued as `nodes` do; the first
    /// `forced.0` instructions are without a choice. The second is the share of the places in
    /// `back` that were reached in the same way; the last `forced.1` instructions are without a
    /// choice. Each number is multiplied by how sure the position at its end of `gap` is, and
    /// by how sure it is that the gap is long enough.
    fn confidence(
        &self,
        nodes: &[Node],
        gap: &Gap<'_>,
        forced: (usize, usize),
        front: &[usize],
        back: &[usize],
    ) -> Confidence {
        let all = self.captured.nodes();
        let segment = |p: usize| self.captured.range(self.captured.segment_at(p));
        // For how many instructions two sequences agree, and whether they differ after that;
        // otherwise one of them ends.
        let agreement = |same: usize, a: &[Node], b: &[Node]| (same, same < a.len().min(b.len()));
        let went = front.iter().map(|p| {
            let (own, other) = (&nodes[forced.0..], &all[*p..segment(*p).end]);
            agreement(common::prefix(own, other), own, other)
        });
        let mut forth = Confidence::uniform(forced.0, FORCED);
        for (stretch, share) in shares(went.collect(), nodes.len() - forced.0).stretches() {
            forth.extend_to(forced.0 + stretch.end, share);
        }
        let start = |p: usize| segment(p.saturating_sub(1)).start;
        let came = back.iter().map(|p| {
            let other = &all[start(*p)..*p];
            agreement(common::suffix(nodes, other), nodes, other)
        });
        let mut backwards = Confidence::uniform(forced.1, FORCED);
        for (stretch, share) in shares(came.collect(), nodes.len()).stretches() {
            backwards.extend_to(stretch.end, share);
        }
        let long = self.learned.lengths.reaching(nodes.len(), gap.expected);
        let forth = forth.zip(&long, |sure, long| gap.sure.0 * sure * long);
        let backwards = backwards.zip(&long, |sure, long| gap.sure.1 * sure * long);
        forth.zip(&backwards.reversed(), f32::max)
    }
}

/// The confidence in an instruction that only an exception could have prevented.
const FORCED: f32 = 0.99;

/// For each of `len` instructions, the share of the witnesses that still agree, of those that
/// agree or differ. A witness is the number of instructions on which a place agrees, and
/// whether it differs after that. By Laplace's rule of succession, the share is one half
/// without witnesses.
fn shares(witnesses: Vec<(usize, bool)>, len: usize) -> Confidence {
    let share = |at: usize| {
        let agree = witnesses.iter().filter(|w| w.0 > at).count();
        let differ = witnesses.iter().filter(|w| w.0 <= at && w.1).count();
        (agree + 1) as f32 / (agree + differ + 2) as f32
    };
    // The share changes only where a witness ends.
    let mut ends: Vec<usize> = witnesses.iter().map(|w| w.0.min(len)).chain([len]).collect();
    ends.sort_unstable();
    let mut all = Confidence::default();
    ends.into_iter().for_each(|end| all.extend_to(end, share(all.len())));
    all
}

/// A fill that may be chosen.
struct Choice {
    found: (Vec<Node>, Joint),
    before: usize,
    place: Option<u32>,
    /// See [`Recovered::frames`].
    frames: Option<(usize, FrameSites)>,
}

impl Choice {
    fn cost(&self) -> f64 {
        self.found.1.cost - Self::credit(self.before)
    }
    /// The credit for agreement on many instructions before the gap.
    fn credit(before: usize) -> f64 {
        AGREEMENT * (before as f64).ln_1p()
    }
}
