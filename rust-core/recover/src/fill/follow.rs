//! Our own recovery: a gap is filled as the run itself went on in the same context, for as long as the gap took.
//!
//! The paper takes the complete segment with the longest common suffix and reads it to the first place that joins, which makes
//! one round of every loop. Here
//! * places in the same context are looked up on [several scales](Contexts) instead of by a fixed number of anchor
//!   instructions, and the best of them are all followed;
//! * of the places where what follows may join, that one is taken whose time comes nearest to the gap's, so that loops make
//!   the rounds there was time for;
//! * a place is followed only while the frames of the interrupted thread allow it: where a return leads elsewhere than it
//!   did there, or the segment ends, another place in the context reached by then is followed on;
//! * what joins must have the frames that are known behind the gap, or that show there when methods return.
//!
//! How sure an event is, is asked of the other places in the same context: of those in front of the gap, how many went
//! on in the same way up to the event, of those like what follows the gap, how many had come from there.
//!
//! Where no place joins within the time, the likeliest path through the ICFG is looked for that does; where there is none either,
//! nothing is filled.

use super::candidates::Candidates;
use super::contexts::Contexts;
use super::explore::Explorer;
use super::frequencies::Frequencies;
use super::trail::{Ground, Join, Trail};
use super::{Captured, FillWork, Hole};
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};

/// A gap with the frames on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// The gap.
    pub hole: Hole,
    /// The frames below the last instruction in front of it.
    pub before: Below<'a>,
    /// Those below the first instruction behind it.
    pub after: Below<'a>,
}

/// Bounds and weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Instructions behind the gap that a fill must run into. Where fewer were captured, all of them.
    pub join: usize,
    /// Places followed for a gap.
    pub tries: usize,
    /// How often another place may be followed on.
    pub hops: usize,
    /// Instructions of a fill.
    pub longest: usize,
    /// The same where nobody knows how long the gap took: there nothing else ends a search that does not join.
    pub untimed: usize,
    /// By how much of the gap's time a fill may miss it.
    pub misfit: f64,
    /// Instructions in front of a place that are compared.
    pub context: usize,
    /// Runs visited for a path through the ICFG where no place joins; 0: none.
    pub visits: usize,
    /// Places like what follows the gap that are asked for an event's confidence.
    pub witnesses: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            join: 4,
            tries: 4,
            hops: 64,
            longest: 1 << 24,
            untimed: 1 << 12,
            misfit: 0.5,
            context: 4096,
            visits: 4096,
            witnesses: 16,
        }
    }
}

/// A fill with what speaks for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovered {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// How sure each of them is, between 0 and 1.
    pub confidence: Vec<f32>,
    /// How far the fill's time is from the gap's, in parts of that; `None` where that is unknown.
    pub misfit: Option<f64>,
    /// Instructions in front of the gap that the place followed first agrees with; 0 for a path through the ICFG.
    pub before: usize,
    /// Instructions behind the gap that the place followed last agrees with.
    pub after: usize,
    /// How often another place was followed on.
    pub hops: usize,
}

impl Recovered {
    /// A path that no place in what was captured speaks for.
    fn explored(gap: &Gap<'_>, (nodes, join, share): (Vec<Node>, Join, f32)) -> Self {
        let confidence = vec![share; nodes.len()];
        let misfit = gap.hole.time.map(|_| join.misfit);
        Self { nodes, confidence, misfit, before: 0, after: join.after, hops: 0 }
    }
}

/// Places like what follows each of some gaps; see [`Follower::witnesses`].
#[derive(Debug)]
pub struct Witnesses {
    all: Candidates,
    join: usize,
}

/// Recovers gaps of one run.
#[derive(Debug)]
pub struct Follower<'a> {
    icfg: &'a Icfg,
    captured: &'a Captured,
    contexts: Contexts,
    frequencies: Frequencies,
    settings: Settings,
    pace: Option<f64>,
}

impl<'a> Follower<'a> {
    /// Learns `captured`, whose instructions are those of `icfg`.
    pub fn new(icfg: &'a Icfg, captured: &'a Captured, settings: Settings) -> Self {
        let (contexts, pace) = (Contexts::new(captured), captured.pace());
        let frequencies = Frequencies::new(icfg, captured);
        Self { icfg, captured, contexts, frequencies, settings, pace }
    }
    /// The fills of `gaps`; `None` where nothing fits: the gap stays a gap.
    pub fn recover(&self, gaps: &[Gap<'_>]) -> Vec<(Option<Recovered>, FillWork)> {
        let holes: Vec<Hole> = gaps.iter().map(|gap| gap.hole).collect();
        let witnesses = self.witnesses(&holes);
        gaps.iter().enumerate().map(|(index, gap)| self.recover_gap(gap, &witnesses, index)).collect()
    }
    /// What speaks for the fills of `holes`: one pass over all that was captured, to be made before [`Self::recover_gap`].
    pub fn witnesses(&self, holes: &[Hole]) -> Witnesses {
        let join = self.settings.join.max(1);
        let heads = holes.iter().map(|hole| self.captured.segment(hole.after).get(..join));
        Witnesses { all: Candidates::behind(self.captured, heads, join, self.settings.witnesses, true), join }
    }
    /// The fill of one gap, the `index`-th of those that `witnesses` was made for: for a caller who knows its frames
    /// only when the gaps before it are filled.
    pub fn recover_gap(
        &self,
        gap: &Gap<'_>,
        witnesses: &Witnesses,
        index: usize,
    ) -> (Option<Recovered>, FillWork) {
        let places = witnesses.all.of(index).0;
        let places: Vec<usize> = places.iter().map(|p| *p as usize - witnesses.join).collect();
        // Without a pace nothing can be said to take time.
        let time = gap.hole.time.filter(|_| self.pace.is_some());
        self.recover_one(&Gap { hole: Hole { time, ..gap.hole }, ..*gap }, &places)
    }
    fn recover_one(&self, gap: &Gap<'_>, witnesses: &[usize]) -> (Option<Recovered>, FillWork) {
        let mut work = FillWork::default();
        let Self { icfg, captured, contexts, frequencies, settings, pace } = self;
        let ground = Ground { icfg, captured, contexts, settings, pace: *pace };
        let mut start = Trail::new(ground, gap);
        if captured.segment(gap.hole.before).is_empty() || captured.segment(gap.hole.after).is_empty() {
            return (None, work);
        }
        start.forced_on();
        let forced = start.fill().len();
        let places = start.places(None);
        work.candidates = places.len() as u64;
        let context = places.first().map_or(0, |p| p.1);
        let mut best = start.clone().finish().map(|(nodes, join)| Choice {
            nodes,
            join,
            before: context,
            hops: 0,
            place: None,
        });
        for (place, before) in places.iter().take(settings.tries) {
            work.tried += 1;
            let mut trail = start.clone();
            trail.run(*place, &mut work);
            let hops = trail.hops;
            let choice = trail.finish().map(|(nodes, join)| Choice {
                nodes,
                join,
                before: *before,
                hops,
                place: Some(*place),
            });
            best = best.into_iter().chain(choice).reduce(|a, b| if b.score() > a.score() { b } else { a });
        }
        if best.is_none() && settings.visits > 0 {
            let explored = Explorer::new(ground, frequencies, gap).explore(&mut work);
            return (explored.map(|path| Recovered::explored(gap, path)), work);
        }
        let recovered = best.map(|choice| {
            let front: Vec<usize> =
                places.iter().filter(|p| Some(p.0) != choice.place).map(|p| p.0 as usize).collect();
            Recovered {
                confidence: self.confidence(&choice.nodes, forced, &front, witnesses),
                misfit: gap.hole.time.map(|_| choice.join.misfit),
                before: choice.before,
                after: choice.join.after,
                hops: choice.hops,
                nodes: choice.nodes,
            }
        });
        (recovered, work)
    }
    /// Of the places in `front`, how many went on as `nodes` do behind its first `forced` ones, of those in `back` how many
    /// were come to in the same way; for each node the better of both.
    fn confidence(&self, nodes: &[Node], forced: usize, front: &[usize], back: &[usize]) -> Vec<f32> {
        let all = self.captured.nodes();
        let forced = forced.min(nodes.len());
        let segment = |p: usize| self.captured.range(self.captured.segment_at(p));
        let forth = front.iter().map(|p| agreement(nodes[forced..].iter(), all[*p..segment(*p).end].iter()));
        let mut sure = vec![FORCED; forced];
        sure.extend(shares(forth.collect(), nodes.len() - forced));
        let came =
            back.iter().map(|p| agreement(nodes.iter().rev(), all[segment(*p).start..*p].iter().rev()));
        let backwards = shares(came.collect(), nodes.len());
        for (sure, other) in sure.iter_mut().rev().zip(backwards) {
            *sure = sure.max(other);
        }
        sure
    }
}

/// The confidence in an instruction that only an exception could have prevented.
const FORCED: f32 = 0.99;

/// How long two sequences are the same, and whether they differ behind that or one of them ends.
fn agreement<'n>(a: impl Iterator<Item = &'n Node>, b: impl Iterator<Item = &'n Node>) -> (usize, bool) {
    let mut len = 0;
    for (a, b) in a.zip(b) {
        if a != b {
            return (len, true);
        }
        len += 1;
    }
    (len, false)
}

/// For each of `len` places, which part of the witnesses still agrees, of those that have something to say; by Laplace's
/// rule of succession, so that without witnesses it is one half.
fn shares(witnesses: Vec<(usize, bool)>, len: usize) -> Vec<f32> {
    let share = |at: usize| {
        let agree = witnesses.iter().filter(|w| w.0 > at).count();
        let differ = witnesses.iter().filter(|w| w.0 <= at && w.1).count();
        (agree + 1) as f32 / (agree + differ + 2) as f32
    };
    // It changes only where a witness ends.
    let mut ends: Vec<usize> = witnesses.iter().map(|w| w.0.min(len)).chain([len]).collect();
    ends.sort_unstable();
    let mut all = Vec::with_capacity(len);
    for end in ends {
        if end > all.len() {
            let value = share(all.len());
            all.resize(end, value);
        }
    }
    all
}

/// A fill that may be chosen.
struct Choice {
    nodes: Vec<Node>,
    join: Join,
    before: usize,
    hops: usize,
    place: Option<u32>,
}

impl Choice {
    /// Long agreement on both sides speaks for a fill; time that does not fit and changes of place against it.
    fn score(&self) -> f64 {
        (1.0 + self.before as f64).ln() + (1.0 + self.join.after as f64).ln()
            - 4.0 * self.join.misfit
            - 0.5 * self.hops as f64
    }
}
