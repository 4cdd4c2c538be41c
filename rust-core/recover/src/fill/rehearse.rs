//! How far a run's confidences can be trusted: gaps are cut into what was captured, filled, and compared with the truth.
//!
//! The result is a table from confidence to the share that was right, made monotonous; what it was not tried on stays as it is.
//! An event of a fill counts as right if all events from it to one end of the gap are right, so one that is right in the
//! middle of wrong ones counts as wrong. Events of one gap are right or wrong together, so a confidence is worth as much as the
//! number of gaps that speak for it.

use super::Hole;
use super::captured::{Captured, SegmentId};
use super::follow::{Follower, Gap, Recovered, Settings};
use super::frames::Frames;
use super::learned::Learned;
use super::pace::{Expected, Paces, Span};
use crate::cut::Sites;
use crate::project::paths::Below;
use jportal_bytecode::{Icfg, Node};
use std::ops::Range;

/// Bins of confidence.
const BINS: usize = 50;
/// What is not known weighs as much as six gaps half of whose events are right.
const PRIOR: (f64, f64) = (6.0, 0.5);
/// Instructions left on both sides of a gap that is cut.
const MARGIN: usize = 64;
/// At most this part of what was captured is cut out.
const PART: usize = 10;

/// Events by confidence, and how many of them were right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    events: [u64; BINS],
    right: [u64; BINS],
    /// Gaps with events of the bin.
    speakers: [u64; BINS],
    /// Gaps that were cut.
    pub gaps: u64,
    /// Those that were filled.
    pub filled: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { events: [0; BINS], right: [0; BINS], speakers: [0; BINS], gaps: 0, filled: 0 }
    }
}

fn bin(confidence: f32) -> usize {
    ((confidence * BINS as f32) as usize).min(BINS - 1)
}

impl Tally {
    /// Counts an event.
    pub fn add(&mut self, confidence: f32, right: bool) {
        self.events[bin(confidence)] += 1;
        self.right[bin(confidence)] += u64::from(right);
    }
    /// Compares a fill with the truth.
    fn compare(&mut self, found: &Recovered, truth: &[Node]) {
        let before = self.events;
        let front = found.nodes.iter().zip(truth).take_while(|(a, b)| a == b).count();
        let back = found.nodes.iter().rev().zip(truth.iter().rev()).take_while(|(a, b)| a == b).count();
        for (at, confidence) in found.confidence.iter().enumerate() {
            self.add(*confidence, at < front || at + back >= found.nodes.len());
        }
        for (at, speakers) in self.speakers.iter_mut().enumerate() {
            *speakers += u64::from(self.events[at] > before[at]);
        }
    }
    /// Events with at least this confidence, and those of them that were right.
    pub fn from(&self, confidence: f32) -> (u64, u64) {
        let bins = bin(confidence)..;
        (self.events[bins.clone()].iter().sum(), self.right[bins].iter().sum())
    }
}

/// From the confidence that a recovery gives to the one that the run bears out.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    shares: [f32; BINS],
}

impl Calibration {
    /// What `tally` says. A higher confidence never becomes a lower one than a lower confidence does (pooling of adjacent
    /// violators).
    pub fn of(tally: &Tally) -> Self {
        // Weight, share and number of bins of each pool.
        let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(BINS);
        for (at, (events, right)) in tally.events.iter().zip(tally.right).enumerate() {
            let of_one_gap = *events as f64 / tally.speakers[at].max(1) as f64;
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
        let all = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.1 as f32, pool.2));
        shares.iter_mut().zip(all).for_each(|(share, value)| *share = value);
        Self { shares }
    }
    /// The confidence that stands behind `confidence`.
    pub fn apply(&self, confidence: f32) -> f32 {
        self.shares[bin(confidence)]
    }
}

/// Gaps cut into what was captured.
#[derive(Debug)]
pub struct Rehearsal {
    /// What is left, with what was cut out as hidden segments.
    cut: Captured,
    trials: Vec<Trial>,
}

impl Rehearsal {
    /// Cuts at most `count` gaps of the given lengths in turn, in instructions, into `captured`.
    pub fn new(captured: &Captured, lengths: &[usize], count: usize) -> Self {
        let cuts = choose(captured, lengths, count);
        let cut = captured.hiding(&cuts);
        let trial = |lost: Range<usize>| {
            let SegmentId(hidden) = cut.segment_at(lost.start);
            let time = captured.time_at(lost.start).zip(captured.time_at(lost.end));
            let time = time.map(|(a, b)| b.saturating_sub(a));
            let hole = Hole { before: SegmentId(hidden - 1), after: SegmentId(hidden + 1), time };
            Trial { hole, segment: captured.segment_at(lost.start), lost }
        };
        let trials = cuts.into_iter().map(trial).collect();
        Self { cut, trials }
    }
    /// What is left: what is learned of it serves the rehearsal and what was captured.
    pub const fn cut(&self) -> &Captured {
        &self.cut
    }
    /// Recovers the gaps and compares. `first` knows the frames below the first instruction of each segment of `captured`, `learned` is
    /// what was learned of [`cut`](Self::cut).
    pub fn run<'f>(
        &self,
        icfg: &Icfg,
        captured: &Captured,
        first: &dyn Fn(SegmentId) -> Below<'f>,
        learned: &Learned,
        settings: Settings,
    ) -> Tally {
        let mut tally = Tally::default();
        let frames = |t: &Trial| t.frames(icfg, captured, first(t.segment));
        let frames: Vec<_> = self.trials.iter().map(frames).collect();
        let gaps = self.trials.iter().zip(&frames).map(|(t, (before, after))| Gap {
            hole: t.hole,
            before: before.below(),
            entered: None,
            after: after.below(),
            sure: (1.0, 1.0),
            expected: t.expected(captured),
        });
        let follower = Follower::new(icfg, &self.cut, learned, settings);
        for (trial, gap) in self.trials.iter().zip(gaps) {
            tally.gaps += 1;
            if let (Some(found), _) = follower.recover_gap(&gap) {
                tally.filled += 1;
                tally.compare(&found, &captured.nodes()[trial.lost.clone()]);
            }
        }
        tally
    }
}

/// A gap that was cut.
#[derive(Debug)]
struct Trial {
    hole: Hole,
    lost: Range<usize>,
    /// Where it was cut, among the segments of what was captured.
    segment: SegmentId,
}

impl Trial {
    /// How many instructions there was time for, told from what is left of the segment.
    fn expected(&self, captured: &Captured) -> Option<Expected> {
        let mut paces = Paces::default();
        let segment = captured.range(self.segment);
        for (at, time) in captured.marks_in(&(segment.start..self.lost.start)) {
            paces.mark(u64::from(*at), *time);
        }
        paces.gap();
        for (at, time) in captured.marks_in(&(self.lost.end..segment.end)) {
            paces.mark(u64::from(*at) - self.lost.len() as u64, *time);
        }
        paces.expected(Span { at: self.lost.start as u64, since: None, until: None })
    }
    /// The frames on both sides.
    fn frames(&self, icfg: &Icfg, captured: &Captured, first: Below<'_>) -> (Sites, Sites) {
        let mut frames = Frames::new(icfg, first);
        let mut follow = |from: usize, to: usize| {
            for pair in captured.nodes()[from..=to].windows(2) {
                frames.follow_seen(pair[0], pair[1]);
            }
            frames.known()
        };
        let last = self.lost.start - 1;
        (follow(captured.range(self.segment).start, last), follow(last, self.lost.end))
    }
}

/// Where gaps are cut: spread evenly, not too near to the ends of segments.
fn choose(captured: &Captured, lengths: &[usize], count: usize) -> Vec<Range<usize>> {
    let all = captured.nodes().len();
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let mut hidden = 0;
    for (index, length) in (0..count).zip(lengths.iter().cycle()) {
        let even = (all as u128 * (2 * index as u128 + 1) / (2 * count as u128)) as usize;
        let segment = captured.range(captured.segment_at(even));
        let Some(latest) = segment.end.checked_sub(MARGIN.saturating_add(*length)) else { continue };
        let earliest = cuts.last().map_or(0, |last| last.end).max(segment.start) + MARGIN;
        if earliest <= latest && *length > 0 && hidden + length <= all / PART {
            let start = even.clamp(earliest, latest);
            let lost = start..start + length;
            hidden += length;
            cuts.push(lost);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{at, calling, graph, method};

    #[test]
    fn a_calibration_is_monotonous_and_keeps_what_was_not_tried() {
        let mut tally = Tally::default();
        for i in 0..1000 {
            tally.add(0.95, i % 2 == 0);
            tally.add(0.51, i % 10 < 8);
        }
        // Many gaps say so.
        tally.speakers = [100; BINS];
        let calibration = Calibration::of(&tally);
        let values: Vec<f32> = (0..100).map(|i| calibration.apply(i as f32 / 100.0)).collect();
        assert!(values.is_sorted());
        // Half of what claimed 0.95 was right, and 0.8 of what claimed less.
        assert!((calibration.apply(0.95) - 0.65).abs() < 0.03, "{}", calibration.apply(0.95));
        assert!((calibration.apply(0.2) - 0.21).abs() < 0.01);
        assert_eq!(tally.from(0.9), (1000, 500));
    }

    #[test]
    fn events_of_one_gap_are_worth_one_gap() {
        let claimed = |gaps: u64| {
            let mut tally = Tally::default();
            (0..1000).for_each(|_| tally.add(0.95, true));
            tally.speakers = [gaps; BINS];
            Calibration::of(&tally).apply(0.95)
        };
        assert!(
            (claimed(1) - 4.0 / 7.0).abs() < 1e-3 && (claimed(10) - 13.0 / 16.0).abs() < 1e-3,
            "{} {}",
            claimed(1),
            claimed(10)
        );
    }

    #[test]
    fn frames_on_both_sides_of_a_gap_that_is_cut() {
        let f = calling(method("f", &[184, 0, 1, 4, 172]), &["h"]);
        let g = graph(vec![f, method("h", &[26, 27, 177])]);
        let mut captured = Captured::default();
        let nodes = [at(&g, 0, &[0]), at(&g, 1, &[0, 1, 2]), at(&g, 0, &[3, 4])].concat();
        let segment = captured.push(&g, &nodes, &[]).unwrap();
        let hole = Hole { before: segment, after: segment, time: None };
        let (before, after) = Trial { hole, lost: 2..4, segment }.frames(&g, &captured, Below::Frames(&[]));
        assert_eq!(before, Sites { sites: at(&g, 0, &[0]), whole: true });
        assert_eq!(after, Sites { sites: vec![], whole: true });
    }

    #[test]
    fn gaps_of_a_loop_are_rehearsed() {
        // 0 iload_0; 1 ifeq 9; 4 iload_1, nop; 6 goto 0; 9 return
        let g = graph(vec![method("f", &[26, 153, 0, 8, 27, 0, 167, 0xff, 0xfa, 177])]);
        let mut captured = Captured::default();
        let nodes: Vec<Node> = at(&g, 0, &[0, 1, 4, 5, 6]).into_iter().cycle().skip(2).take(20_000).collect();
        let marks: Vec<(usize, u64)> = (0..20_000).step_by(100).map(|i| (i, 10 * i as u64)).collect();
        captured.push(&g, &nodes, &marks).unwrap();
        let first = |_| Below::Frames(&[][..]);
        let rehearsed = |captured: &Captured, lengths: &[usize], count| {
            let rehearsal = Rehearsal::new(captured, lengths, count);
            let learned = Learned::new(&g, rehearsal.cut());
            rehearsal.run(&g, captured, &first, &learned, Settings::default())
        };
        let tally = rehearsed(&captured, &[21, 53], 20);
        assert_eq!((tally.gaps, tally.filled), (20, 20));
        let (events, right) = tally.from(0.0);
        assert_eq!((events, right), (740, 740));
        // No more than a tenth is cut out.
        let tally = rehearsed(&captured, &[500], 100);
        assert_eq!(tally.gaps, 4);
        assert_eq!(rehearsed(&Captured::default(), &[5], 10), Tally::default());
    }
}
