// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Recovery: what ran in the gap between two segments (paper §5).
//!
//! | method | how it finds a fill |
//! |---|---|
//! | [`Basic`] | Algorithm 3: of all places with the same anchor instructions the one with the longest common suffix |
//! | [`Tiered`] | Algorithm 4: the same, compared on call structure and control structure first; the best N are tried |
//! | [`Follower`] | our own: follows places in the same context from both ends, for as long as the gap took, where the frames allow it |
//!
//! The words are the paper's. The *incomplete segment* (IS) ends where data was lost (⋄). Its last instructions are the
//! *anchor instructions*. A *complete segment* (CS) is any place in what was captured where the same instructions are followed
//! by others; what follows there is read until it joins what follows the gap.
//!
//! Definition 5.1 counts the anchor instructions to the common suffix, the text around Figure 6 does not. Here they count,
//! or else a place that agrees in nothing but them could never be chosen: Algorithm 3 asks for more than 0.

mod ancestors;
mod back;
mod basic;
mod candidates;
mod captured;
mod common;
mod confidence;
mod contexts;
mod explore;
mod follow;
mod frames;
mod frequencies;
mod join;
mod learned;
mod lengths;
mod pace;
mod passage;
mod rehearse;
mod samples;
mod starts;
mod suffix;
mod tiered;
mod trail;
mod walk;

pub use basic::Basic;
pub use candidates::Candidates;
pub use captured::{Captured, SegmentId, Tier, Tiers, straight};
pub use confidence::Confidence;
pub use contexts::Contexts;
pub use follow::{End, Follower, Gap, Recovered, Settings, WayBack, WaysBack};
pub use frequencies::Frequencies;
pub use learned::Learned;
pub use lengths::Lengths;
pub use pace::{Expected, Paces, Span};
pub use rehearse::{Calibration, Rehearsal, Tally};
pub use tiered::Tiered;
pub use walk::Walker;

use jportal_bytecode::Node;

/// What the paper leaves to the user, and what bounds the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// `x`: number of anchor instructions.
    pub anchors: usize,
    /// `y`: number of instructions behind ⋄ that a fill must run into. Where fewer were captured, all of them.
    pub join: usize,
    /// `N`: number of complete segments tried, best first. Algorithm 3 has 1.
    pub top: usize,
    /// Whether `d`, the time that the gap took, bounds what is read of a CS.
    pub time: bool,
    /// Whether a path through the ICFG is the last resort.
    pub walk: bool,
    /// Instructions of the IS in front of ⋄ that are compared; the paper compares all.
    pub context: usize,
    /// Complete segments looked at for a gap; the paper looks at all. Beyond that the later ones are left out, and
    /// [`FillWork::left_out`] says how many.
    pub candidates: usize,
    /// Instructions read of a CS; the paper knows no bound but `d`.
    pub longest: usize,
    /// Nodes that the path through the ICFG may visit.
    pub visits: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            anchors: 3,
            join: 4,
            top: 5,
            time: true,
            walk: true,
            context: 1 << 16,
            candidates: 1 << 16,
            longest: 1 << 24,
            visits: 1 << 18,
        }
    }
}

/// ⋄: a gap between two captured segments of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The IS.
    pub before: SegmentId,
    /// What follows the gap.
    pub after: SegmentId,
    /// `d`: how long the gap took, if the time is known on both sides, in units of the marks of [`Captured::push`].
    pub time: Option<u64>,
}

/// Where a fill comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// From a complete segment.
    Captured {
        /// Which.
        segment: SegmentId,
        /// First instruction taken, counted in its segment.
        at: usize,
        /// Length of the common suffix, anchor instructions included.
        matched: usize,
        /// How many complete segments were tried in vain before.
        rank: usize,
    },
    /// A path through the ICFG that connects both ends: possible, but one of many.
    Walk,
}

/// What may have run in a gap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fill {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// Where they come from.
    pub source: Source,
}

/// What a recovery cost; sums of several may be formed with [`FillWork::add`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FillWork {
    /// Complete segments whose anchor instructions match.
    pub candidates: u64,
    /// Those beyond [`Parameters::candidates`].
    pub left_out: u64,
    /// Those compared on the concrete tier. The others were pruned (Theorem 5.5).
    pub compared: u64,
    /// Instructions compared, by tier: call structure, control structure, concrete.
    pub instructions: [u64; 3],
    /// Complete segments that were read.
    pub tried: u64,
    /// Instructions read of them.
    pub read: u64,
    /// Nodes visited by the path through the ICFG.
    pub visited: u64,
}

impl FillWork {
    /// Adds what another one cost.
    pub fn add(&mut self, other: &Self) {
        self.candidates += other.candidates;
        self.left_out += other.left_out;
        self.compared += other.compared;
        self.instructions.iter_mut().zip(other.instructions).for_each(|(a, b)| *a += b);
        self.tried += other.tried;
        self.read += other.read;
        self.visited += other.visited;
    }
}

/// What came of a gap, and what it cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filled {
    /// The fill; `None` where nothing fits: the gap stays a gap.
    pub fill: Option<Fill>,
    /// What it took.
    pub work: FillWork,
}

/// A complete segment with the common suffix that it shares with the IS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranked {
    /// Where the instruction behind the anchor instructions stands in what was captured.
    pub position: u32,
    /// `|IS ∘ CS|`.
    pub matched: usize,
}

/// A way to choose complete segments.
pub trait Choose {
    /// The best of `candidates` for the gap behind `before`, best first; of equal ones the first.
    fn choose(
        &self,
        captured: &Captured,
        before: SegmentId,
        candidates: &[u32],
        parameters: &Parameters,
        work: &mut FillWork,
    ) -> Vec<Ranked>;
}

/// Fills `holes`, one result each.
pub fn recover(
    captured: &Captured,
    holes: &[Hole],
    choose: &dyn Choose,
    walker: Option<&Walker<'_>>,
    parameters: &Parameters,
) -> Vec<Filled> {
    let candidates = Candidates::collect(captured, holes, parameters);
    let fill = |(index, hole): (usize, &Hole)| {
        let mut work = FillWork::default();
        let (positions, left_out) = candidates.of(index);
        (work.candidates, work.left_out) = (positions.len() as u64, left_out);
        let chosen = choose.choose(captured, hole.before, positions, parameters, &mut work);
        let fill = join::first_that_joins(captured, hole, &chosen, parameters, &mut work);
        let walked = || walker.filter(|_| parameters.walk)?.connect(captured, hole, parameters, &mut work);
        let fill = fill.or_else(walked);
        Filled { fill, work }
    };
    holes.iter().enumerate().map(fill).collect()
}
