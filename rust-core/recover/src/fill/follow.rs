// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Our own recovery: a gap is filled as the run itself went on in the same context, for as long as the gap took.
//!
//! The paper takes the complete segment with the longest common suffix and reads it to the first place that joins, which makes
//! one round of every loop. Here
//! * places in the same context are looked up on [several scales](Contexts) instead of by a fixed number of anchor
//!   instructions, and the best of them are followed, from the front ([`Trail`]) and from behind ([`Back`]); where a place cannot be
//!   followed on, another one in the context reached by then is;
//! * both go only where the frames of the interrupted thread allow it: those that it had in front of the gap, and those
//!   known behind it or that show there when methods return;
//! * where both come through the same instruction with the same frames they may be joined; of such joints that one is taken whose
//!   length comes nearest to what there was [time for](super::Paces), so that loops make the rounds there was time for;
//! * where they never meet, in two different loops for example, the likeliest [passage](Passages) from the one to the other is
//!   looked for in the ICFG, and in small gaps the likeliest [path](Explorer) from end to end;
//! * where there is no passage either, a gap stays between what was followed from the one end and from the other
//!   ([`Recovered::broken`]).
//!
//! How sure an event is, is asked of the other places in the same context: of those in front of the gap, how many went
//! on in the same way up to the event, of those like what follows the gap, how many had come from there.
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
use crate::cut::Sites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};

/// A gap with the frames on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// The gap.
    pub hole: Hole,
    /// The frames below the last instruction in front of it.
    pub before: Below<'a>,
    /// The entry of the method that has been called since, of which nothing was executed in front of the gap.
    pub entered: Option<Node>,
    /// Those below the first instruction behind it.
    pub after: Below<'a>,
    /// How sure it is that these are where the thread was in front of it and behind it, between 0 and 1.
    pub sure: (f32, f32),
    /// How many instructions there was time for, if that is known; see [`Paces`](super::Paces).
    pub expected: Option<Expected>,
}

impl<'a> Gap<'a> {
    /// Its end.
    pub const fn end(&self) -> End<'a> {
        End { segment: self.hole.after, frames: self.after, expected: self.expected }
    }
}

/// The end of a gap.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// What follows.
    pub segment: SegmentId,
    /// The frames below its first instruction.
    pub frames: Below<'a>,
    /// How many instructions there was time for in the gap, if that is known.
    pub expected: Option<Expected>,
}

/// Looks for what leads to the ends of gaps, on any thread: what stands in front of a gap does not matter for that.
#[derive(Clone, Copy)]
pub struct WaysBack<'f>(Ground<'f>);

impl std::fmt::Debug for WaysBack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaysBack").finish_non_exhaustive()
    }
}

impl<'f> WaysBack<'f> {
    /// What leads to `end`. `None` where no fill of the gap can be right.
    pub fn to(&self, end: &End<'_>) -> Option<WayBack<'f>> {
        let Ground { captured, settings, .. } = self.0;
        // No fill may be as long as the shortest that fits: nothing need be read to know that.
        let shortest = end.expected.map_or(0.0, |e| e.instructions - settings.misfit * e.scale());
        if captured.segment(end.segment).is_empty() || shortest > settings.longest as f64 {
            return None;
        }
        let (mut back, mut work) = (Back::new(self.0, end), FillWork::default());
        let (forced, led) = back.run(&mut work);
        Some(WayBack { back, forced, led, work })
    }
}

/// What leads to the end of a gap.
pub struct WayBack<'f> {
    back: Back<'f>,
    /// How much of it is without a choice, and the places like what is behind that.
    forced: usize,
    led: Vec<u32>,
    work: FillWork,
}

impl WayBack<'_> {
    /// How many instructions it has.
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

/// Bounds and weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Instructions behind the gap that a fill must run into. Where fewer were captured, all of them.
    pub join: usize,
    /// Places followed for a small gap, one of up to [`Self::visits`] instructions. For others, where each costs as much as the gap is
    /// long and the second one has hardly ever joined where the first did not, one is.
    pub tries: usize,
    /// How often another place may be followed on.
    pub hops: usize,
    /// Instructions of a fill.
    pub longest: usize,
    /// The same where nobody knows how many there was time for: there nothing else ends a search that does not join.
    pub untimed: usize,
    /// By how much of its expected length a fill may miss it.
    pub misfit: f64,
    /// Instructions in front of a place that are compared.
    pub context: usize,
    /// Runs visited for a path through the ICFG where no place joins; 0: only what was seen at places in the same context is
    /// followed.
    pub visits: usize,
}

impl Settings {
    /// Whether a gap in which there was time for so many instructions is a small one, as one is of which nobody knows.
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

/// A fill with what speaks for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovered {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// How sure each of them is, between 0 and 1.
    pub confidence: Confidence,
    /// How far its length is from what was expected, in parts of that; `None` where nothing was.
    pub misfit: Option<f64>,
    /// Instructions in front of the gap that the place followed first agrees with; 0 for a path through the ICFG.
    pub before: usize,
    /// Instructions behind the gap that the place followed last agrees with.
    pub after: usize,
    /// How often another place was followed on.
    pub hops: usize,
    /// The first instruction that nothing is known to lead to from those in front of it: up to there both ends were followed, and never
    /// met.
    pub broken: Option<usize>,
    /// The frames below one of the instructions, or below the first one behind the gap, which has the next number; where finding the fill
    /// told. See [`Follower::frames_behind`].
    pub frames: Option<(usize, Sites)>,
}

impl Recovered {
    /// A path that no place in what was captured speaks for.
    fn explored(gap: &Gap<'_>, (nodes, join, share): (Vec<Node>, Join, f32)) -> Self {
        let confidence = Confidence::uniform(nodes.len(), share);
        let misfit = gap.expected.map(|_| join.misfit);
        Self { nodes, confidence, misfit, before: 0, after: join.after, hops: 0, broken: None, frames: None }
    }
}

/// Recovers gaps of one run.
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
    /// With what was `learned` of `captured`, whose instructions are those of `icfg`, or of the same with stretches hidden or not hidden.
    pub fn new(icfg: &'a Icfg, captured: &'a Captured, learned: &'a Learned, settings: Settings) -> Self {
        let (exited, tables) = (Exited::new(&learned.exits), Tables::default());
        Self { icfg, captured, learned, exited, settings, tables }
    }
    /// The graph.
    pub const fn icfg(&self) -> &'a Icfg {
        self.icfg
    }
    /// The same once more, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.icfg, self.captured, self.learned, self.settings)
    }
    /// The fills of `gaps`; `None` where nothing fits: the gap stays a gap.
    pub fn recover(&self, gaps: &[Gap<'_>]) -> Vec<(Option<Recovered>, FillWork)> {
        gaps.iter().map(|gap| self.recover_gap(gap)).collect()
    }
    /// The frames below the first instruction behind a gap, as far as its fill tells.
    pub fn frames_behind(&self, gap: &Gap<'_>, fill: &Recovered) -> Sites {
        let Recovered { nodes, broken, frames, .. } = fill;
        let first = self.captured.segment(gap.hole.after).first();
        let follow = |frames: &mut Frames<'a>, from: Option<&Node>, to: Option<&Node>| {
            let Some(to) = to.or(first) else { return };
            let goes = |from: &Node| is_straight(self.icfg, &[*from, *to]) || frames.follow_seen(*from, *to);
            if !from.is_some_and(goes) {
                *frames = Frames::new(self.icfg, Below::Unknown);
            }
        };
        // Up to where nothing leads on the fill says nothing of them.
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
    /// What runs in the likeliest callee of the invoke at `site` until it returns; `None` where nobody knows a way through one.
    pub fn callee_of(&self, site: Node) -> Option<Vec<Node>> {
        self.passages().callee_of(site)
    }
    fn passages(&self) -> Passages<'_> {
        Passages { icfg: self.icfg, frequencies: &self.learned.frequencies, known: &self.exited }
    }
    /// What leads to the ends of gaps, for [`Self::recover_to`].
    pub fn ways_back(&self) -> WaysBack<'_> {
        let Self { icfg, captured, learned, settings, tables, .. } = self;
        WaysBack(Ground { icfg, captured, learned, settings, tables })
    }
    /// The fill of one gap.
    pub fn recover_gap(&self, gap: &Gap<'_>) -> (Option<Recovered>, FillWork) {
        self.recover_to(gap, self.ways_back().to(&gap.end()).as_ref())
    }
    /// The fill of one gap to whose end a way is known.
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
            // Where nothing leads from the one to the other, a gap stays between them; a small one stays what it is.
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
    /// Of the places in `front`, how many went on as `nodes` do behind its first ones, in which there was no choice, of those in `back`
    /// how many were come to in the same way, each as far as the end it hangs on is known, and as it is sure that the `gap` is long enough;
    /// for each node the better of both.
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
        // How long two sequences are the same, and whether they differ behind that or one of them ends.
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

/// For each of `len` places, which part of the witnesses still agrees, of those that have something to say; by Laplace's
/// rule of succession, so that without witnesses it is one half.
fn shares(witnesses: Vec<(usize, bool)>, len: usize) -> Confidence {
    let share = |at: usize| {
        let agree = witnesses.iter().filter(|w| w.0 > at).count();
        let differ = witnesses.iter().filter(|w| w.0 <= at && w.1).count();
        (agree + 1) as f32 / (agree + differ + 2) as f32
    };
    // It changes only where a witness ends.
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
    /// As [`Recovered`] has them.
    frames: Option<(usize, Sites)>,
}

impl Choice {
    fn cost(&self) -> f64 {
        self.found.1.cost - Self::credit(self.before)
    }
    /// Long agreement in front of the gap speaks for a fill, too.
    fn credit(before: usize) -> f64 {
        AGREEMENT * (before as f64).ln_1p()
    }
}
