// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Recovery: infers what ran in the gap between two segments (paper §5).
//!
//! | method | how it finds a fill |
//! |---|---|
//! | [`Basic`] | Algorithm 3: of all places with the same anchor instructions, takes the one with the longest common suffix |
//! | [`Tiered`] | Algorithm 4: the same, but compares call structure and control structure first, and tries the best N |
//! | [`Follower`] | our own: follows places in the same context from both ends, for as long as the gap took, where the frames allow it |
//!
//! The words are the paper's. The *incomplete segment* (IS) ends where data was lost (⋄). Its
//! last instructions are the *anchor instructions*. A *complete segment* (CS) is any place in
//! the captured data where the same instructions are followed by others. What follows there is
//! read until it joins what follows the gap.
//!
//! Definition 5.1 counts the anchor instructions as part of the common suffix, the text around
//! Figure 6 does not. Here they count. Otherwise Algorithm 3, which asks for a suffix longer
//! than 0, could never choose a place that agrees in nothing but the anchor instructions.

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
pub use follow::{Follower, Gap, GapEnd, Recovered, Settings, WayBack, WaysBack};
pub use frequencies::Frequencies;
pub use learned::Learned;
pub use lengths::Lengths;
pub use pace::{Expected, Paces, Span};
pub use rehearse::{Calibration, Rehearsal, Tally};
pub use tiered::Tiered;
pub use walk::Walker;

use jportal_bytecode::Node;

/// What the paper leaves to the user, and the bounds of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// `x`: number of anchor instructions.
    pub anchors: usize,
    /// `y`: number of instructions after ⋄ that a fill must run into; all of them if fewer were
    /// captured.
    pub join: usize,
    /// `N`: number of complete segments tried, best first. Algorithm 3 uses 1.
    pub top: usize,
    /// Whether `d`, the time that the gap took, bounds how much of a CS is read.
    pub time: bool,
    /// Whether a path through the ICFG is used as the last resort.
    pub walk: bool,
    /// Number of instructions of the IS before ⋄ that are compared; the paper compares all.
    pub context: usize,
    /// Number of complete segments considered for a gap; the paper considers all. Later ones
    /// are left out, and [`FillWork::left_out`] counts them.
    pub candidates: usize,
    /// Number of instructions read of a CS; the paper has no bound but `d`.
    pub longest: usize,
    /// Number of nodes that the path through the ICFG may visit.
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
    /// `d`: how long the gap took, in the unit of the marks of [`Captured::push`]; `None` if
    /// the time is not known on both sides.
    pub time: Option<u64>,
}

/// Where a fill comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillSource {
    /// From a complete segment.
    Captured {
        /// The segment.
        segment: SegmentId,
        /// Index in that segment of the first instruction taken.
        at: usize,
        /// Length of the common suffix, anchor instructions included.
        matched: usize,
        /// Number of complete segments tried before without success.
        rank: usize,
    },
    /// A path through the ICFG that connects both ends. It is possible, but one of many.
    Walk,
}

/// What may have run in a gap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fill {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// Where they come from.
    pub source: FillSource,
}

/// The cost of a recovery; [`FillWork::add`] sums several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FillWork {
    /// Complete segments whose anchor instructions match.
    pub candidates: u64,
    /// Complete segments left out because of [`Parameters::candidates`].
    pub left_out: u64,
    /// Complete segments compared on the concrete tier. The others were pruned (Theorem 5.5).
    pub compared: u64,
    /// Instructions compared, by tier: call structure, control structure, concrete.
    pub instructions: [u64; 3],
    /// Complete segments that were read.
    pub tried: u64,
    /// Instructions read of complete segments.
    pub read: u64,
    /// Nodes visited by the path through the ICFG.
    pub visited: u64,
}

impl FillWork {
    /// Adds the cost of another recovery.
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

/// The result for one gap, and its cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filled {
    /// The fill; `None` if nothing fits.
    pub fill: Option<Fill>,
    /// The cost.
    pub work: FillWork,
}

/// A complete segment with the common suffix that it shares with the IS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranked {
    /// Position in the captured data of the instruction after the anchor instructions.
    pub position: u32,
    /// `|IS ∘ CS|`, the length of the common suffix.
    pub matched: usize,
}

/// A way to choose complete segments.
pub trait Choose {
    /// Chooses the best of `candidates` for the gap after `before`, best first; equal ones keep
    /// their order.
    fn choose(
        &self,
        captured: &Captured,
        before: SegmentId,
        candidates: &[u32],
        parameters: &Parameters,
        work: &mut FillWork,
    ) -> Vec<Ranked>;
}

/// Fills `holes`; one result each, in order.
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
