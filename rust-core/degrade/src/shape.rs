// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Loss in the worst places for a decoder, which neither a full buffer nor a slow drain would
//! hit.
//!
//! The unit stops where the shape says and resumes at the next PSB, as it does after a full
//! buffer ([`crate::ring`]). The exception is the first loss of [`Shape::Ends`], which is a PSB
//! alone.

use crate::random::Random;
use crate::ring::{Arrivals, Lost};
use crate::trace::CoreTrace;
use jportal_perf_abi::Body;

/// Bytes of a PSB packet.
const PSB: u64 = 16;
/// Most bytes that a thread loses when it leaves; at least 1.
const BEFORE_SWITCH: u64 = 256;
/// Bytes after a PSB in which nothing can be decoded: PSB+ itself. If no more than that is left
/// between two losses, they become one.
const PSB_PLUS: u64 = 64;

/// Where the unit stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Wherever this number of bytes after a PSB have been written, give or take a quarter.
    Every(u64),
    /// Wherever a thread leaves a core.
    Switches,
    /// The first PSB of each core, so that the trace up to the second one cannot be decoded;
    /// and everything from the last PSB on.
    Ends,
}

/// The stretches that `shape` loses of `trace`, ascending. `arrivals` must be those of the same
/// trace.
pub fn lost(trace: &CoreTrace, arrivals: &Arrivals, shape: Shape, seed: u64) -> Vec<Lost> {
    let mut random = Random::new(seed, 3, trace.core.0);
    match shape {
        Shape::Every(bytes) => every(arrivals, bytes, &mut random),
        Shape::Switches => switches(trace, arrivals, &mut random),
        Shape::Ends => ends(arrivals),
    }
}

fn every(arrivals: &Arrivals, bytes: u64, random: &mut Random) -> Vec<Lost> {
    let mut all = Vec::new();
    let mut at = arrivals.syncs.first().map_or(0, |s| s.0);
    loop {
        let from = at + (bytes as f64 * random.jitter()).max(1.0) as u64;
        if from >= arrivals.len {
            return all;
        }
        let lost = up_to_sync(arrivals, from, from + 1);
        at = lost.to;
        all.push(lost);
    }
}

fn switches(trace: &CoreTrace, arrivals: &Arrivals, random: &mut Random) -> Vec<Lost> {
    let mut all: Vec<Lost> = Vec::new();
    for (begin, end) in stays(trace) {
        let here = all.last().map_or(begin, |l| begin.max(l.to));
        // The whole stay is lost already, or it has no trace.
        if here >= end {
            continue;
        }
        let mut from = end - 1 - random.below((end - here).min(BEFORE_SWITCH));
        if let Some(before) = all.pop_if(|l| from < l.to + PSB_PLUS) {
            from = before.from;
        }
        all.push(up_to_sync(arrivals, from, end));
    }
    all
}

/// For each stay of a thread that ended with a switch away: first byte and first byte after,
/// ascending.
fn stays(trace: &CoreTrace) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let (mut begin, mut leaves) = (0, false);
    for record in &trace.records {
        match record.body {
            Body::Switch { out, .. } => leaves = out,
            Body::Aux { offset, size, .. } if leaves => {
                all.push((begin, offset + size));
                (begin, leaves) = (offset + size, false);
            }
            _ => {}
        }
    }
    all
}

fn ends(arrivals: &Arrivals) -> Vec<Lost> {
    let [first, .., last] = arrivals.syncs[..] else {
        // A single PSB is both the first and the last.
        return vec![up_to_sync(arrivals, 0, arrivals.len)];
    };
    let behind = arrivals.syncs[1];
    let head = Lost { from: 0, to: first.0 + PSB, since: arrivals.time(0), until: Some(behind.1) };
    vec![head, up_to_sync(arrivals, last.0, arrivals.len)]
}

/// The loss if the unit stops at `from` and resumes at the first PSB at or after `least`.
fn up_to_sync(arrivals: &Arrivals, from: u64, least: u64) -> Lost {
    let on = arrivals.sync(least, 0);
    let to = on.map_or(arrivals.len, |s| s.0);
    Lost { from, to, since: arrivals.time(from), until: on.map(|s| s.1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_perf_abi::{Record, SampleId};
    use jportal_units::Core;

    /// A PSB every 64 bytes and one byte per tick; `records` divide the trace.
    fn trace(len: u64, records: &[(u32, Body)]) -> (CoreTrace, Arrivals) {
        let record = |(tid, body): &(u32, Body)| {
            let sample = SampleId { tid: *tid, ..SampleId::default() };
            Record { body: body.clone(), sample }
        };
        let records = records.iter().map(record).collect();
        let arrivals = Arrivals {
            points: (0..=len / 64).map(|i| (64 * i, 1000 + 64 * i)).collect(),
            syncs: (0..len / 64).map(|i| (64 * i, 1000 + 64 * i)).collect(),
            closes: vec![len],
            len,
        };
        (CoreTrace { core: Core(0), bytes: vec![0; len as usize], records }, arrivals)
    }
    const IN: Body = Body::Switch { out: false, preempted: false };
    const OUT: Body = Body::Switch { out: true, preempted: false };
    const fn aux(offset: u64, size: u64) -> Body {
        Body::Aux { offset, size, flags: 0 }
    }

    #[test]
    fn a_gap_follows_each_segment() {
        let (trace, arrivals) = trace(64_000, &[]);
        let all = lost(&trace, &arrivals, Shape::Every(20), 7);
        assert_eq!(all.len(), 1000);
        let mut at = 0;
        for l in &all {
            assert!((15..=25).contains(&(l.from - at)) && l.to == at + 64, "{l:?} behind {at}");
            at = l.to;
        }
        assert_eq!(all.last().unwrap().until, None);
        // Longer than the distance of PSBs; longer than the trace.
        assert!(lost(&trace, &arrivals, Shape::Every(100), 7).windows(2).all(|w| w[1].from - w[0].to >= 75));
        assert_eq!(lost(&trace, &arrivals, Shape::Every(1 << 20), 7), []);
        assert_ne!(lost(&trace, &arrivals, Shape::Every(20), 8), all);
    }

    #[test]
    fn who_leaves_loses_the_last_bytes_and_who_comes_the_first() {
        // The watermark inside of the first stay is not a switch. The third stay is lost
        // together with the end of the second, so nothing is left of it.
        let records = [
            (1, IN),
            (1, aux(0, 500)),
            (1, OUT),
            (1, aux(500, 150)),
            (2, IN),
            (2, OUT),
            (2, aux(650, 60)),
            (3, IN),
            (3, OUT),
            (3, aux(710, 40)),
            (1, IN),
            (1, OUT),
            (1, aux(750, 2298)),
        ];
        let (trace, arrivals) = trace(3048, &records);
        let all = lost(&trace, &arrivals, Shape::Switches, 1);
        let to: Vec<_> = all.iter().map(|l| (l.to, l.until)).collect();
        assert_eq!(to, [(768, Some(1768)), (3048, None)]);
        for (l, end) in all.iter().zip([650, 3048]) {
            assert!(l.from >= end - 256 && l.from < end, "{l:?}");
        }
    }

    #[test]
    fn the_first_psb_and_all_after_the_last() {
        let (trace, arrivals) = trace(1000, &[]);
        let all = lost(&trace, &arrivals, Shape::Ends, 1);
        let head = Lost { from: 0, to: 16, since: 1000, until: Some(1064) };
        let tail = Lost { from: 896, to: 1000, since: 1896, until: None };
        assert_eq!(all, [head, tail]);
        let one = Arrivals { syncs: vec![(0, 1000)], ..arrivals };
        let whole = Lost { from: 0, to: 1000, since: 1000, until: None };
        assert_eq!(lost(&trace, &one, Shape::Ends, 1), [whole]);
    }
}
