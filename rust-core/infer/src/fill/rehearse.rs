// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How far the confidences of an execution can be trusted: cuts gaps into the captured data,
//! fills them, and compares the fills with the truth.
//!
//! The cut gaps take as long as the execution's own gaps, whatever ran in that time. Where the
//! expected length of a gap is far from its actual length, this shows in the cut gaps, too, and
//! [`Lengths`] knows how often before they are filled.
//!
//! The result is a table from confidence to the share that was right, made monotonic. A
//! confidence that no cut gap has stays as it is. An event of a fill is right if the next
//! transfer of control has a counterpart of its own in what ran, in order. That is nearly the
//! measure of `jportal accuracy`, which looks at each event. A longest common subsequence gives
//! the counterparts. Long fills are compared part by part, which may find fewer.
//!
//! Events of one gap are right or wrong together, so a confidence is worth as much as the
//! number of gaps that support it. If one gap has most of the events, that is hardly more than
//! one (Kish, "Survey Sampling", 1965, §8.2: the effective number is (Σn)²/Σn²).

use super::Hole;
use super::captured::{Captured, SegmentId, Tier, Tiers, straight};
use super::follow::{Follower, Gap, Recovered, Settings};
use super::frames::Frames;
use super::learned::Learned;
use super::lengths::Lengths;
use super::pace::{Expected, Paces, Span};
use crate::cut::FrameSites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};
use jportal_lcs::{Bound, both_ends, divided};
use std::cmp::Reverse;
use std::iter::repeat_n;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{available_parallelism, scope};

/// Number of bins of confidence.
const BINS: usize = 50;
/// The weight of the prior in gaps, and its share of right events: it counts as much as two
/// gaps half of whose events are right (the rule of succession). It applies to each bin
/// separately, because pooled bins share gaps: where most gaps have few events and a few gaps
/// have many, these many are wrong together.
const PRIOR: (f64, f64) = (2.0, 0.5);
/// Transfers of a fill and of the truth that one longest common subsequence compares: some 2
/// ms.
const COMPARED: Bound = Bound { cells: 1 << 26, side: 1 << 20 };
/// Pairs of transfers below which the subsequence is not divided: 2 MiB of rows.
const CELLS: usize = 1 << 24;
/// Number of instructions left on both sides of a cut gap.
const MARGIN: usize = 64;
/// Number of segments that are searched for one that lasted long enough.
const SEGMENTS: usize = 64;
/// At most one part in this many of the captured data is cut out.
const PART: usize = 10;

/// Events by confidence, and how many of them were right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    events: [u64; BINS],
    right: [u64; BINS],
    /// For each bin, the sum over all gaps of the square of their number of events in it.
    squares: [u64; BINS],
    /// Number of gaps that were cut.
    pub gaps: u64,
    /// Number of gaps that were filled.
    pub filled: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { events: [0; BINS], right: [0; BINS], squares: [0; BINS], gaps: 0, filled: 0 }
    }
}

fn bin(confidence: f32) -> usize {
    ((confidence * BINS as f32) as usize).min(BINS - 1)
}

impl Tally {
    /// Counts events with the same confidence.
    pub fn add(&mut self, confidence: f32, right: bool, events: u64) {
        self.events[bin(confidence)] += events;
        self.right[bin(confidence)] += if right { events } else { 0 };
    }
    /// Compares a fill with the truth. A stretch of straight code is right if the transfer of
    /// control that ends it is.
    fn compare(&mut self, tiers: &(impl Tiers + ?Sized), found: &Recovered, truth: &[Node]) {
        let before = self.events;
        let ends = |nodes: &[Node]| -> Vec<usize> {
            let mut ends = Vec::new();
            let mut at = 0;
            while at < nodes.len() {
                at += straight(tiers, &nodes[at..]);
                if at == nodes.len() || tiers.tier(nodes[at - 1]) <= Tier::Control {
                    ends.push(at - 1);
                }
            }
            ends
        };
        let own = ends(&found.nodes);
        let transfers: Vec<u32> = own.iter().map(|at| found.nodes[*at].0).collect();
        let truth: Vec<u32> = ends(truth).into_iter().map(|at| truth[at].0).collect();
        let wrong = without_counterpart(&transfers, &truth);
        let mut from = 0;
        for (end, wrong) in own.into_iter().zip(wrong) {
            let right = !wrong;
            while let Some((confidence, to)) = found.confidence.at(from).filter(|_| from <= end) {
                let to = to.min(end + 1);
                self.add(confidence, right, (to - from) as u64);
                from = to;
            }
        }
        for (at, squares) in self.squares.iter_mut().enumerate() {
            *squares += (self.events[at] - before[at]).pow(2);
        }
    }
    /// Adds the tally of other gaps.
    fn join(&mut self, other: &Self) {
        let sums = [&mut self.events, &mut self.right, &mut self.squares];
        for (sums, others) in sums.into_iter().zip([other.events, other.right, other.squares]) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        self.gaps += other.gaps;
        self.filled += other.filled;
    }
    /// The number of events with at least this confidence, and how many of them were right.
    pub fn from(&self, confidence: f32) -> (u64, u64) {
        let bins = bin(confidence)..;
        (self.events[bins.clone()].iter().sum(), self.right[bins].iter().sum())
    }
}

/// For each element of `found`, whether it has no counterpart of its own in `truth`, in order.
fn without_counterpart(found: &[u32], truth: &[u32]) -> Vec<bool> {
    let front = found.iter().zip(truth).take_while(|(a, b)| a == b).count();
    let end = found.iter().rev().zip(truth.iter().rev()).take_while(|(a, b)| a == b).count();
    let shorter = found.len().min(truth.len());
    let (front, end) = both_ends(front as u64, end as u64, shorter as u64);
    let (front, end) = (front as usize, end as usize);
    let mut wrong = vec![false; found.len()];
    let between = &mut wrong[front..found.len() - end];
    between.fill(true);
    let (found, truth) = (&found[front..found.len() - end], &truth[front..truth.len() - end]);
    for (ours, theirs) in COMPARED.shares(found.len() as u64, truth.len() as u64) {
        let ours = ours.start as usize..ours.end as usize;
        let theirs = theirs.start as usize..theirs.end as usize;
        let begin = ours.start;
        divided(&found[ours], &truth[theirs], CELLS).iter().for_each(|(at, _)| between[begin + at] = false);
    }
    wrong
}

/// Maps the confidence that a recovery gives to the share that was right in the rehearsal.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    shares: [f32; BINS],
}

impl Calibration {
    /// The shares in `tally`, adjusted so that a higher confidence never maps to a lower share
    /// (pooling of adjacent violators).
    pub fn of(tally: &Tally) -> Self {
        // Weight, share and number of bins of each pool.
        let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(BINS);
        for (at, (events, right)) in tally.events.iter().zip(tally.right).enumerate() {
            let of_one_gap = tally.squares[at] as f64 / (*events).max(1) as f64;
            let unknown = (PRIOR.0 * of_one_gap).max(1.0);
            let weight = *events as f64 + unknown;
            let prior = if *events == 0 { (at as f64 + 0.5) / BINS as f64 } else { PRIOR.1 };
            let mut pool = (weight, (right as f64 + unknown * prior) / weight, 1);
            while let Some(last) = pools.pop_if(|last| last.1 >= pool.1) {
                let weight = last.0 + pool.0;
                pool = (weight, (last.0 * last.1 + pool.0 * pool.1) / weight, last.2 + pool.2);
            }
            pools.push(pool);
        }
        let mut shares = [0.0; BINS];
        let all = pools.iter().flat_map(|pool| repeat_n(pool.1 as f32, pool.2));
        shares.iter_mut().zip(all).for_each(|(share, value)| *share = value);
        Self { shares }
    }
    /// The share for `confidence`.
    pub fn apply(&self, confidence: f32) -> f32 {
        self.shares[bin(confidence)]
    }
}

/// Gaps that are cut into the captured data.
#[derive(Debug)]
pub struct Rehearsal {
    /// The captured data with the cut parts as hidden segments.
    cut: Captured,
    trials: Vec<Trial>,
}

impl Rehearsal {
    /// Cuts at most `count` gaps into `captured`. Each takes one of `times`, in turn. Only the
    /// time of a real gap is known, so gaps are cut by time: whatever else takes time makes
    /// them shorter, as it does with real gaps.
    pub fn new(captured: &Captured, times: &[u64], count: usize) -> Self {
        let cuts = choose(captured, times, count);
        let cut = captured.hiding(&cuts);
        let trial = |lost: Range<usize>| {
            let SegmentId(hidden) = cut.segment_at(lost.start);
            let time = captured.time_at(lost.start).zip(captured.time_at(lost.end));
            let time = time.map(|(a, b)| b.saturating_sub(a));
            let hole = Hole { before: SegmentId(hidden - 1), after: SegmentId(hidden + 1), time };
            let segment = captured.segment_at(lost.start);
            let expected = expected(captured, segment, &lost);
            Trial { hole, segment, lost, expected }
        };
        let trials = cuts.into_iter().map(trial).collect();
        Self { cut, trials }
    }
    /// The captured data without the cut parts. What is learned from it serves the rehearsal,
    /// and the recovery of `captured`, too.
    pub const fn cut(&self) -> &Captured {
        &self.cut
    }
    /// The actual lengths of the cut gaps, relative to what is expected from their times.
    pub fn lengths(&self) -> Lengths {
        let part = |trial: &Trial| Some(trial.lost.len() as f64 / trial.expected?.scale());
        let parts = self.trials.iter().filter_map(part);
        Lengths::new(parts.collect())
    }
    /// Recovers the gaps and compares them with the truth, on all processors. `first` gives the
    /// frames below the first instruction of each segment of `captured`. `learned` is what was
    /// learned from [`cut`](Self::cut).
    pub fn run<'f>(
        &self,
        icfg: &Icfg,
        captured: &Captured,
        first: &dyn Fn(SegmentId) -> Below<'f>,
        learned: &Learned,
        settings: Settings,
    ) -> Tally {
        let mut trials: Vec<_> = self.trials.iter().map(|t| (t, first(t.segment))).collect();
        // Longest first, and every n-th one per thread, so that all threads have about as much
        // to do.
        trials.sort_by_key(|(trial, _)| Reverse(trial.lost.len()));
        let threads = available_parallelism().map_or(1, NonZero::get).min(trials.len());
        // Which trials a thread runs must not depend on timing: what a follower knows about
        // methods depends on the trials before.
        let some = |number: usize| {
            let follower = Follower::new(icfg, &self.cut, learned, settings);
            let mut tally = Tally::default();
            for (trial, first) in trials.iter().skip(number).step_by(threads) {
                let (before, after) = trial.frames(icfg, captured, *first);
                let gap = Gap {
                    hole: trial.hole,
                    before: before.below(),
                    entered: None,
                    after: after.below(),
                    sure: (1.0, 1.0),
                    expected: trial.expected,
                };
                tally.gaps += 1;
                if let (Some(found), _) = follower.recover_gap(&gap) {
                    tally.filled += 1;
                    tally.compare(icfg, &found, &captured.nodes()[trial.lost.clone()]);
                }
            }
            tally
        };
        let mut tally = Tally::default();
        scope(|scope| {
            let some = &some;
            let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || some(number))).collect();
            for one in all {
                tally.join(&one.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
        tally
    }
}

/// A gap that was cut.
#[derive(Debug)]
struct Trial {
    hole: Hole,
    lost: Range<usize>,
    /// The segment of the captured data that it was cut from.
    segment: SegmentId,
    /// How many instructions there was time for.
    expected: Option<Expected>,
}

impl Trial {
    /// The frames below the last instruction before the gap, and below the first one after it.
    fn frames(&self, icfg: &Icfg, captured: &Captured, first: Below<'_>) -> (FrameSites, FrameSites) {
        let mut frames = Frames::new(icfg, first);
        let nodes = captured.nodes();
        let mut follow = |mut at: usize, to: usize| {
            while at < to {
                // Straight code leaves them as they are.
                at += captured.straight(at..to).0;
                frames.follow_seen(nodes[at - 1], nodes[at]);
            }
            frames.known()
        };
        let last = self.lost.start - 1;
        (follow(captured.range(self.segment).start, last), follow(last, self.lost.end))
    }
}

/// How many instructions there was time for in the part `lost` of `segment`, estimated from the
/// rest of the segment.
fn expected(captured: &Captured, segment: SegmentId, lost: &Range<usize>) -> Option<Expected> {
    let mut paces = Paces::default();
    let segment = captured.range(segment);
    for (at, time) in captured.marks_in(&(segment.start..lost.start)) {
        paces.mark(u64::from(*at), *time);
    }
    paces.gap();
    for (at, time) in captured.marks_in(&(lost.end..segment.end)) {
        paces.mark(u64::from(*at) - lost.len() as u64, *time);
    }
    // If a mark lies at the gap, its side is unknown, so the times are given explicitly.
    let (since, until) = (captured.time_at(lost.start), captured.time_at(lost.end));
    paces.expected(Span { at: lost.start as u64, since, until })
}

/// Chooses where gaps are cut: evenly spread, in the segment there or in one of the next, not
/// too near to its ends. Each gap takes one of `times`, in turn.
fn choose(captured: &Captured, times: &[u64], count: usize) -> Vec<Range<usize>> {
    let all = captured.nodes().len();
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut hidden = 0;
    for (index, time) in (0..count).zip(times.iter().cycle()) {
        let even = (all as u128 * (2 * index as u128 + 1) / (2 * count as u128)) as usize;
        let begin = cuts.last().map_or(0, |last| last.end);
        let segments =
            captured.segment_at(even.max(begin).min(all.saturating_sub(1))).0..captured.len() as u32;
        let lost = segments.take(SEGMENTS).find_map(|segment| {
            let segment = captured.range(SegmentId(segment));
            let (earliest, latest) = (begin.max(segment.start) + MARGIN, segment.end.saturating_sub(MARGIN));
            lasting(captured, even.max(earliest)..latest, *time)
                .or_else(|| lasting_up_to(captured, earliest..latest, *time))
        });
        let Some(lost) = lost else { continue };
        if hidden + lost.len() <= all / PART {
            hidden += lost.len();
            cuts.push(lost);
        }
    }
    cuts
}

/// What ran within `time` from the first of `positions` on, which lie in one segment. `None` if
/// they do not last that long.
fn lasting(captured: &Captured, positions: Range<usize>, time: u64) -> Option<Range<usize>> {
    let Range { start, end } = positions;
    let begun = captured.time_at(start).filter(|_| start < end)?;
    let since = |at: usize| captured.time_at(at).map_or(0, |now| now.saturating_sub(begun));
    let to = first(start..end, |at| since(at) >= time)?;
    Some(start..to.max(start + 1))
}

/// The same up to the end of `positions`.
fn lasting_up_to(captured: &Captured, positions: Range<usize>, time: u64) -> Option<Range<usize>> {
    let Range { start, end } = positions;
    let ended = captured.time_at(end).filter(|_| start < end)?;
    let until = |at: usize| captured.time_at(at).map_or(0, |now| ended.saturating_sub(now));
    let short = first(start..end, |at| until(at) < time).unwrap_or(end);
    (short > start).then(|| short - 1..end)
}

/// The first of `positions` for which `is` holds. It must hold for all later ones, too.
fn first(positions: Range<usize>, is: impl Fn(usize) -> bool) -> Option<usize> {
    let Range { mut start, end } = positions;
    let mut len = end.saturating_sub(start);
    while len > 0 {
        let half = len / 2;
        if is(start + half) {
            len = half;
        } else {
            start += half + 1;
            len -= half + 1;
        }
    }
    (start < end).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::Confidence;
    use crate::support::{at, calling, graph, method};

    #[test]
    fn a_calibration_is_monotonous_and_keeps_what_was_not_tried() {
        let mut tally = Tally::default();
        for i in 0..1000 {
            tally.add(0.95, i % 2 == 0, 1);
            tally.add(0.51, i % 10 < 8, 1);
        }
        // The effective number of gaps is 100.
        tally.squares = tally.events.map(|events| events * events / 100);
        let calibration = Calibration::of(&tally);
        let values: Vec<f32> = (0..100).map(|i| calibration.apply(i as f32 / 100.0)).collect();
        assert!(values.is_sorted());
        // Half of the events with 0.95 were right, and 0.8 of those with the lower confidence.
        assert!((calibration.apply(0.95) - 0.65).abs() < 0.03, "{}", calibration.apply(0.95));
        assert!((calibration.apply(0.2) - 0.21).abs() < 0.01);
        assert_eq!(tally.from(0.9), (1000, 500));
    }

    #[test]
    fn events_of_one_gap_are_worth_one_gap() {
        // The calibrated confidence for gaps with these numbers of events, all of them right.
        let claimed = |gaps: &[u64]| {
            let mut tally = Tally::default();
            tally.add(0.95, true, gaps.iter().sum());
            tally.squares[bin(0.95)] = gaps.iter().map(|events| events * events).sum();
            Calibration::of(&tally).apply(0.95)
        };
        let near = |claim: f32, wanted: f32| (claim - wanted).abs() < 1e-3;
        let (one, ten) = (claimed(&[1000]), claimed(&[100; 10]));
        assert!(near(one, 2.0 / 3.0) && near(ten, 11.0 / 12.0), "{one} {ten}");
        // Nine gaps with hardly any events add hardly anything to the one with most of them.
        let large = claimed(&[1_000_000, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert!(near(large, one), "{large}");
    }

    #[test]
    fn gaps_are_cut_by_their_time() {
        let g = graph(vec![method("f", &[26; 200])]);
        let mut captured = Captured::default();
        let nodes: Vec<Node> = (0..2000).map(|i| Node(i % 200)).collect();
        // One instruction per tick, with a standstill of 500 ticks at the 1000th.
        let mark = |i: usize| (i, i as u64 + if i >= 1000 { 500 } else { 0 });
        let mut marks: Vec<_> = (0..2000).step_by(100).chain([999]).map(mark).collect();
        marks.sort_unstable();
        captured.push(&g, &nodes, &marks).unwrap();
        // A segment that is too short, and another one.
        captured.push(&g, &nodes[..MARGIN], &[(0, 0), (MARGIN - 1, 1 << 20)]).unwrap();
        captured.push(&g, &nodes[..1000], &[(0, 0), (999, 999)]).unwrap();
        let lasting = |from, time| lasting(&captured, from..1990, time);
        assert_eq!(lasting(100, 50), Some(100..150));
        assert_eq!(lasting(980, 200), Some(980..1000));
        assert_eq!(lasting(980, 600), Some(980..1080));
        assert_eq!(lasting(1900, 91), None);
        assert_eq!(lasting_up_to(&captured, 100..1990, 90), Some(1900..1990));
        assert_eq!(lasting_up_to(&captured, 990..1020, 100), Some(999..1020));
        assert_eq!(lasting_up_to(&captured, 990..1020, 1000), None);
        let cut = |time, count| choose(&captured, &[time], count);
        assert_eq!(cut(80, 1).first(), Some(&(1532..1612)));
        // At most a tenth is cut out.
        assert_eq!((cut(250, 2).first(), cut(250, 2).len()), (Some(&(766..1000)), 1));
        // If a segment is too short, the next one is used; if the rest of a segment is, the gap
        // ends at its end.
        let mut captured = Captured::default();
        captured.push(&g, &nodes[..MARGIN], &[(0, 0), (MARGIN - 1, 1 << 20)]).unwrap();
        captured.push(&g, &nodes[..1000], &[(0, 0), (999, 999)]).unwrap();
        let cut = |time, count| choose(&captured, &[time], count).first().cloned();
        assert_eq!(cut(100, 20), Some(128..228));
        assert_eq!(cut(100, 1), Some(532..632));
        assert_eq!(cut(500, 1), None);
    }

    #[test]
    fn what_is_far_from_both_ends_is_less_sure_where_gaps_are_shorter_than_expected() {
        let (g, captured) = a_loop();
        let rehearsal = Rehearsal::new(&captured, &[5000], 1);
        let trial = &rehearsal.trials[0];
        let sure = |lengths: Vec<f64>| {
            let learned = Learned::new(&g, rehearsal.cut()).with_lengths(Lengths::new(lengths));
            let gap = Gap {
                hole: trial.hole,
                before: Below::Frames(&[]),
                entered: None,
                after: Below::Frames(&[]),
                sure: (1.0, 1.0),
                expected: trial.expected,
            };
            let (found, _) =
                Follower::new(&g, rehearsal.cut(), &learned, Settings::default()).recover_gap(&gap);
            let sure: Vec<f32> = found.unwrap().confidence.iter().collect();
            assert_eq!(sure.len(), 500);
            (sure[50], sure[250], sure[450])
        };
        let (front, middle, end) = sure(Vec::new());
        // All but one of eight gaps have a fifth of the expected length.
        let lengths = [0.2; 7].into_iter().chain([1.0]).collect();
        let reaching = sure(lengths);
        assert_eq!((reaching.1, reaching.2), (middle * 0.2, end * 0.9));
        // With the shorter lengths, the front end gives the higher confidence here; without
        // them, the other end does.
        assert!(reaching.0 > front * 0.8 && reaching.0 < front, "{reaching:?}");
    }

    #[test]
    fn an_event_is_right_if_it_has_a_counterpart() {
        let nodes = |all: &[u32]| all.iter().copied().map(Node).collect::<Vec<_>>();
        let found = |all: &[u32]| Recovered {
            nodes: nodes(all),
            confidence: Confidence::uniform(all.len(), 0.5),
            misfit: None,
            before: 0,
            after: 0,
            hops: 0,
            broken: None,
            frames: None,
        };
        let right = |all: &[u32], truth: &[u32]| {
            let mut tally = Tally::default();
            tally.compare(&Tens, &found(all), &nodes(truth));
            assert_eq!(tally.squares[bin(0.5)], (all.len() as u64).pow(2));
            tally.from(0.0)
        };
        // Only multiples of ten are no transfers.
        struct Tens;
        impl Tiers for Tens {
            fn tier(&self, node: Node) -> Tier {
                if node.0.is_multiple_of(10) { Tier::Concrete } else { Tier::Control }
            }
        }
        // A wrong event does not make the next ones wrong. The order counts, and how often an
        // instruction ran.
        assert_eq!(right(&[1, 2, 9, 3, 4], &[1, 2, 3, 4]), (5, 4));
        assert_eq!(right(&[1, 2, 3], &[7, 2, 8, 3, 9]), (3, 2));
        assert_eq!(right(&[1, 2], &[2, 1]), (2, 1));
        assert_eq!(right(&[1, 2, 1, 2, 1, 2], &[1, 2, 1, 2]), (6, 4));
        assert_eq!(right(&[1, 2], &[]), (2, 0));
        // The surplus rounds of a loop are in the middle.
        let sides = without_counterpart(&[1, 2].repeat(4), &[1, 2].repeat(2));
        assert_eq!(sides, [false, false, true, true, true, true, false, false]);
        let one_side = without_counterpart(&[5, 1, 5, 1], &[5, 1]);
        assert_eq!(one_side, [false, true, true, false]);
        assert_eq!(without_counterpart(&[1, 2, 1], &[1, 2, 1, 2, 1]), [false; 3]);
        // Straight stretches count whatever they begin with; the last one ends with the fill.
        assert_eq!(right(&[10, 20, 3, 30, 4, 40], &[20, 3, 30, 30, 5, 40]), (6, 4));
    }

    #[test]
    fn frames_on_both_sides_of_a_gap_that_is_cut() {
        let f = calling(method("f", &[184, 0, 1, 4, 172]), &["h"]);
        let g = graph(vec![f, method("h", &[26, 27, 177])]);
        let mut captured = Captured::default();
        let nodes = [at(&g, 0, &[0]), at(&g, 1, &[0, 1, 2]), at(&g, 0, &[3, 4])].concat();
        let segment = captured.push(&g, &nodes, &[]).unwrap();
        let hole = Hole { before: segment, after: segment, time: None };
        let (before, after) =
            Trial { hole, lost: 2..4, segment, expected: None }.frames(&g, &captured, Below::Frames(&[]));
        assert_eq!(before, FrameSites { sites: at(&g, 0, &[0]), whole: true });
        assert_eq!(after, FrameSites { sites: vec![], whole: true });
    }

    fn a_loop() -> (Icfg, Captured) {
        // 0 iload_0; 1 ifeq 9; 4 iload_1, nop; 6 goto 0; 9 return
        let g = graph(vec![method("f", &[26, 153, 0, 8, 27, 0, 167, 0xff, 0xfa, 177])]);
        let mut captured = Captured::default();
        let nodes: Vec<Node> = at(&g, 0, &[0, 1, 4, 5, 6]).into_iter().cycle().skip(2).take(20_000).collect();
        let marks: Vec<(usize, u64)> = (0..20_000).step_by(100).map(|i| (i, 10 * i as u64)).collect();
        captured.push(&g, &nodes, &marks).unwrap();
        (g, captured)
    }

    #[test]
    fn gaps_of_a_loop_are_rehearsed() {
        let (g, captured) = a_loop();
        let first = |_| Below::Frames(&[][..]);
        let rehearsed = |captured: &Captured, times: &[u64], count| {
            let rehearsal = Rehearsal::new(captured, times, count);
            let learned = Learned::new(&g, rehearsal.cut());
            rehearsal.run(&g, captured, &first, &learned, Settings::default())
        };
        let tally = rehearsed(&captured, &[210, 530], 20);
        assert_eq!((tally.gaps, tally.filled), (20, 20));
        let (events, right) = tally.from(0.0);
        assert_eq!((events, right), (740, 740));
        // At most a tenth is cut out.
        let tally = rehearsed(&captured, &[5000], 100);
        assert_eq!(tally.gaps, 4);
        assert_eq!(rehearsed(&Captured::default(), &[50], 10), Tally::default());
    }
}
