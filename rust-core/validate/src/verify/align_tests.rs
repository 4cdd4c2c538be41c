// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::io::Cursor;

use jportal_flow::Provenance;

use super::*;
use crate::verify::log::tests::log_bytes;

fn aligner(log: &[u32]) -> Aligner {
    Aligner::new(Some(ProbeLog::open(Box::new(Cursor::new(log_bytes(1, 0, log)))).unwrap()))
}

/// In a flow: the next hit follows an unresolved stretch.
const LOOSE: u32 = u32::MAX;
/// In a flow: a frame that an earlier gap dropped is found again.
const FOUND: u32 = u32::MAX - 1;
/// Added to an id: the flow neither claims nor denies the hit.
const PERHAPS: u32 = 1 << 30;

const HOLE: Option<(Tier, Cause)> = Some((Tier::C2, Cause::EmptyDiamond));

fn hit(id: u32, event: u64, loose: Option<(Tier, Cause)>) -> Hit {
    Hit {
        id,
        event,
        provenance: Provenance::Decoded,
        tier: Tier::C1,
        behind: Behind::default(),
        loose,
        holed: false,
    }
}

/// A flow: ids, 0 for a gap, [`LOOSE`], [`FOUND`], and ids plus [`PERHAPS`].
fn hand(a: &mut Aligner, flow: &[u32]) {
    let mut loose = false;
    for (event, &id) in (0..).zip(flow) {
        match id {
            0 => a.gap(),
            LOOSE => loose = true,
            FOUND => a.hole(),
            id if id >= PERHAPS => a.perhaps(hit(id - PERHAPS, event, None)),
            id => a.hit(hit(id, event, HOLE.filter(|_| std::mem::take(&mut loose)))),
        }
    }
}

fn align_as(flow: &[u32], log: &[u32], cut_off: bool) -> AlignmentFigures {
    let mut a = aligner(log);
    hand(&mut a, flow);
    a.finish(cut_off)
}

fn align(flow: &[u32], log: &[u32]) -> AlignmentFigures {
    let out = align_as(flow, log, false);
    let matched = out.matched.total();
    assert_eq!(out.log, log.len() as u64, "every log entry is counted");
    assert_eq!(out.log, matched + out.missing + out.lost + out.unresolved, "{out:?}");
    assert_eq!(out.flow, matched + out.extra, "{out:?}");
    // The counts by tier and by cause add up to the sums.
    let (c1, c2) = (out.tiers.c1, out.tiers.c2);
    assert_eq!((c1.exact, c1.extra, c2.unresolved), (matched, out.extra, out.unresolved), "{out:?}");
    assert_eq!(out.hidden.values().sum::<u64>(), out.unresolved);
    assert_eq!(out.tiers.interpreter.missing + c1.missing, out.missing);
    assert_eq!(out.groups.values().map(|g| g.places).sum::<u64>(), out.mismatches);
    out
}

fn noise(n: usize, values: u32) -> Vec<u32> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 33) as u32 % values + 1
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn equal_sequences_match_wholly() {
    let ids = noise(300_000, 50);
    let out = align(&ids, &ids);
    assert_eq!((out.matched.decoded, out.mismatches), (300_000, 0));
    assert_eq!(align(&[], &[]).first, None);
}

#[test]
fn one_wrong_hit_is_one_mismatch_with_its_place() {
    let log = noise(10_000, 1000);
    for at in [0, 1, 5000, 9_998, 9_999] {
        let mut flow = log.clone();
        flow[at] = 5555;
        let out = align(&flow, &log);
        assert_eq!(
            (out.matched.decoded, out.missing, out.extra, out.mismatches),
            (9_999, 1, 1, 1),
            "at {at}"
        );
        let expected = Disagreement {
            log_index: at as u64,
            event: Some(at as u64),
            expected: Some(log[at]),
            found: Some(5555),
            agreed: (at as u64).checked_sub(1),
        };
        assert_eq!(out.first, Some(expected), "at {at}");
    }
}

#[test]
fn missing_and_extra_hits_are_distinguished() {
    let log = noise(10_000, 1000);
    let mut flow = log.clone();
    flow.drain(4000..4003);
    assert_eq!(align(&flow, &log).missing, 3);
    let mut flow = log.clone();
    flow.splice(4000..4000, [2001, 2002]);
    let out = align(&flow, &log);
    assert_eq!((out.extra, out.missing, out.matched.decoded), (2, 0, 10_000));
    let out = align(&log[..9000], &log);
    assert_eq!((out.missing, out.mismatches), (1000, 1));
    assert_eq!(out.first.unwrap().found, None);
    let out = align(&log, &log[..9000]);
    assert_eq!((out.extra, out.mismatches), (1000, 1));
}

#[test]
fn scattered_faults_leave_the_rest_matched() {
    let log = noise(100_000, 300);
    let flow: Vec<u32> = log.iter().enumerate().filter(|(i, _)| i % 37 != 5).map(|(_, &id)| id).collect();
    let out = align(&flow, &log);
    let kept = flow.len() as u64;
    assert!(out.matched.decoded * 100 >= kept * 99, "{out:?}");
    assert!(out.mismatches >= 2600, "{out:?}");
}

#[test]
fn what_a_gap_swallowed_is_lost_and_no_mismatch() {
    let log = noise(200_000, 1000);
    let mut flow = log[..50_000].to_vec();
    flow.push(0);
    flow.extend(&log[80_000..]);
    let out = align(&flow, &log);
    assert_eq!((out.lost, out.mismatches, out.gaps, out.matched.decoded), (30_000, 0, 1, 170_000));
    // At the end, and at the start.
    let mut flow = log[..199_000].to_vec();
    flow.push(0);
    assert_eq!((align(&flow, &log).lost, align(&flow, &log).mismatches), (1000, 0));
    let mut flow = vec![0];
    flow.extend(&log[7..]);
    assert_eq!((align(&flow, &log).lost, align(&flow, &log).mismatches), (7, 0));
}

fn align_part(flow: &[u32], log: &[u32]) -> AlignmentFigures {
    let source = ProbeLog::open(Box::new(Cursor::new(log_bytes(1, 0, log)))).unwrap();
    let mut a = Aligner::of_part(Some(source));
    hand(&mut a, flow);
    a.finish(true)
}

/// Rounds of a program that repeats itself; the number of the round shows only after 2000
/// probes.
fn rounds() -> Vec<u32> {
    (0..8).flat_map(|round| (0..2000).map(|i| 1 + i % 50).chain([100 + round])).collect()
}

#[test]
fn a_part_begins_where_all_of_it_agrees_whatever_unresolved_stretches_hide() {
    let log = rounds();
    // Rounds 3 to 5; each hundredth probe is hidden.
    let part = 3 * 2001 + 30..6 * 2001 - 30;
    let hidden = |i: &usize| (i - part.start) % 100 == 70;
    let flow: Vec<u32> = part.clone().map(|i| if hidden(&i) { LOOSE } else { log[i] }).collect();
    let n = part.clone().filter(hidden).count() as u64;
    let out = align_part(&flow, &log);
    assert_eq!((out.mismatches, out.unresolved, out.lost), (0, n, 0), "{out:?}");
    assert_eq!(out.outside, (log.len() - part.len()) as u64);
    // A probe that is missing without a hidden stretch counts as missing.
    let mut holed = flow.clone();
    holed.remove(3000);
    let out = align_part(&holed, &log);
    assert!(out.mismatches > 0 && out.missing > 0, "{out:?}");
}

#[test]
fn frames_that_are_older_than_the_recording_do_not_hide_where_it_begins() {
    let log = rounds();
    let part = 3 * 2001 + 30..6 * 2001 - 30;
    // Three such frames; the first probes of the second one are missing.
    let found = [40, 60, 90].map(|n| part.start + n);
    let gone = found[1]..found[1] + 3;
    let flow = |frame: u32| {
        let of = |i: usize| {
            let told = Some(log[i]).filter(|_| !gone.contains(&i));
            found.contains(&i).then_some(frame).into_iter().chain(told)
        };
        part.clone().flat_map(of).collect::<Vec<u32>>()
    };
    let out = align_part(&flow(FOUND), &log);
    assert_eq!((out.mismatches, out.lost, out.gaps), (0, 3, 0), "{out:?}");
    assert_eq!(out.outside, (log.len() - part.len()) as u64);
    // Of two possible beginnings, the one with fewer missing entries is chosen.
    let mut twice = log.clone();
    twice.splice(part.start..part.start, log[part.start..found[0]].to_vec());
    let out = align_part(&flow(FOUND), &twice);
    assert_eq!((out.mismatches, out.lost), (0, 3), "{out:?}");
    // After a gap, anything may be missing.
    let out = align_part(&flow(0), &log);
    assert_eq!((out.mismatches, out.gaps), (0, 3), "{out:?}");
}

#[test]
fn a_part_of_the_run_is_found_in_the_log_and_must_be_whole() {
    let log = noise(200_000, 5000);
    let part = |flow: &[u32]| align_part(flow, &log);
    let out = part(&log[70_000..130_000]);
    assert_eq!((out.matched.total(), out.outside, out.log), (60_000, 140_000, 200_000));
    assert_eq!((out.mismatches, out.lost, out.gaps), (0, 0, 0));
    // Probes outside of the part are not missing; each probe inside of it must be there.
    let mut holed = log[70_000..130_000].to_vec();
    holed.remove(50_000);
    let out = part(&holed);
    assert_eq!((out.missing, out.mismatches, out.outside), (1, 1, 140_000));
    let mut false_end = log[70_000..130_000].to_vec();
    false_end.extend([9_999; 3]);
    assert_eq!(part(&false_end).extra, 3);
}

#[test]
fn a_gap_inside_a_loop_is_recognised_where_the_loop_ends() {
    let body = [1, 2, 3, 4];
    let mut log = vec![9, 8, 7];
    (0..1000).for_each(|_| log.extend(body));
    log.extend([20, 21, 22, 23]);
    let mut flow = vec![9, 8, 7];
    (0..200).for_each(|_| flow.extend(body));
    flow.push(0);
    (0..500).for_each(|_| flow.extend(body));
    flow.extend([20, 21, 22, 23]);
    let out = align(&flow, &log);
    assert_eq!((out.lost, out.mismatches), (1200, 0), "{out:?}");
    // The same loss without a gap is a mismatch.
    flow.retain(|&id| id != 0);
    let out = align(&flow, &log);
    assert_eq!((out.missing, out.mismatches), (1200, 1), "{out:?}");
}

#[test]
fn a_gap_does_not_excuse_what_happens_elsewhere() {
    let log = noise(10_000, 1000);
    let mut flow = log[..5000].to_vec();
    flow.push(0);
    flow.extend(&log[5000..7000]);
    flow.extend(&log[7003..]);
    let out = align(&flow, &log);
    assert_eq!((out.lost, out.missing, out.mismatches), (0, 3, 1), "{out:?}");
}

#[test]
fn garbage_ends_and_is_counted() {
    let log = noise(50_000, 1000);
    let mut flow = log[..20_000].to_vec();
    flow.extend(noise(3_000, 7).iter().map(|id| id + 5000));
    flow.extend(&log[20_000..]);
    let out = align(&flow, &log);
    assert!(out.extra >= 3_000 && out.matched.decoded >= 49_000, "{out:?}");
}

#[test]
fn a_thread_that_was_cut_off_may_differ_by_one() {
    let log = noise(1000, 1000);
    let out = align_as(&log[..999], &log, true);
    assert_eq!((out.mismatches, out.log, out.flow), (0, 999, 999));
    let out = align_as(&log, &log[..999], true);
    assert_eq!((out.mismatches, out.log, out.flow), (0, 999, 999));
    assert_eq!(align_as(&log[..998], &log, true).mismatches, 1);
    assert_eq!(align_as(&log[..999], &log, false).mismatches, 1);
}

/// `jportal_tests::died` takes three entries from a log because two may not show.
#[test]
fn a_hit_in_doubt_and_the_probe_being_executed_are_both_tolerated_at_the_end() {
    let log = noise(1000, 1000);
    let mut flow = log.clone();
    flow[999] += PERHAPS;
    let mismatches = |entries| align_as(&flow, &log[..entries], true).mismatches;
    assert_eq!([1000, 999, 998, 997].map(mismatches), [0, 0, 0, 1]);
}

#[test]
fn without_a_log_every_hit_is_extra() {
    let mut a = Aligner::new(None);
    a.hit(hit(4, 0, None));
    let out = a.finish(false);
    assert_eq!((out.extra, out.mismatches), (1, 1));
}

#[test]
fn unresolved_stretches_are_counted_apart() {
    let log = noise(60_000, 1000);
    let mut flow = Vec::new();
    for part in log.chunks(6) {
        flow.extend(&part[..3]);
        flow.push(LOOSE);
        flow.extend(&part[5..]);
    }
    let out = align(&flow, &log);
    // A few agree with a wrong entry by chance, which shows a little later.
    assert!(out.unresolved > 19_500 && out.mismatches < 60 && out.matched.decoded > 39_800, "{out:?}");
    // The same flow without the unresolved stretches.
    flow.retain(|&id| id != LOOSE);
    let out = align(&flow, &log);
    assert!(out.unresolved == 0 && out.mismatches > 9_900 && out.matched.decoded > 39_800, "{out:?}");
}

#[test]
fn an_unresolved_stretch_does_not_excuse_a_wrong_hit() {
    let log = noise(1000, 1000);
    let mut flow = log[..500].to_vec();
    flow.extend([LOOSE, 5555]);
    flow.extend(&log[500..]);
    let out = align(&flow, &log);
    assert_eq!((out.extra, out.mismatches), (1, 1), "{out:?}");
}

/// A program of nested loops with few ids, and a flow that keeps pieces of it.
#[test]
fn a_right_flow_with_many_gaps_never_mismatches() {
    let mut log = Vec::new();
    for i in 0..400u32 {
        log.extend([1, 2]);
        (0..i % 7).for_each(|_| log.extend([3, 4]));
        log.extend([5; 3]);
        (0..i * 13 % 40).for_each(|_| log.push(6));
        log.push(7 + i % 3);
    }
    for seed in 0..50usize {
        let mut flow = Vec::new();
        let (mut at, mut step) = (0, seed);
        while at < log.len() {
            step = (step * 37 + 11) % 97;
            let kept = &log[at..log.len().min(at + step)];
            flow.extend(kept);
            flow.push(0);
            at += kept.len() + step * seed % 53;
        }
        let out = align(&flow, &log);
        assert_eq!((out.mismatches, out.extra, out.missing), (0, 0, 0), "seed {seed}: {out:?}");
    }
}

#[test]
fn a_gap_may_swallow_more_than_any_window() {
    let log = noise(2_000_000, 100_000);
    let mut flow = log[..1000].to_vec();
    flow.push(0);
    flow.extend(&log[1_900_000..]);
    let out = align(&flow, &log);
    assert_eq!((out.lost, out.mismatches), (1_899_000, 0));
}

#[test]
fn a_long_loop_after_a_gap_may_be_moved_twice() {
    let mut log = vec![50];
    (0..30_000).for_each(|_| log.extend([1, 2, 3]));
    log.push(60);
    (0..30_000).for_each(|_| log.extend([1, 2, 3]));
    log.extend([70, 71, 72]);
    let mut flow = vec![50, 0];
    (0..20_000).for_each(|_| flow.extend([1, 2, 3]));
    flow.extend([70, 71, 72]);
    let out = align(&flow, &log);
    assert_eq!((out.lost, out.mismatches), (30_000 * 3 + 1 + 10_000 * 3, 0), "{out:?}");
}

#[test]
fn what_is_in_doubt_counts_where_the_log_has_it() {
    let doubt = |id| PERHAPS + id;
    for (flow, log, matched) in [
        (vec![1, doubt(2), 3], vec![1, 2, 3], 3),
        (vec![1, doubt(2), 3], vec![1, 3], 2),
        // The probe was hit, or it was not and the next hit is of the same probe.
        (vec![1, doubt(2), 2, 3], vec![1, 2, 3], 3),
        (vec![1, doubt(2), 2, 3], vec![1, 2, 2, 3], 4),
        (vec![1, doubt(2), doubt(4), 3], vec![1, 2, 3], 3),
        // At the end of the flow or of a stretch.
        (vec![1, doubt(2)], vec![1, 2], 2),
        (vec![1, doubt(2)], vec![1], 1),
        (vec![1, doubt(2), 0, 3], vec![1, 2, 9, 3], 3),
        (vec![1, doubt(2), 0, 3], vec![1, 9, 3], 2),
        // Between two gaps: the probe was hit after the entries that the first gap hides, or
        // not at all.
        (vec![1, 0, doubt(2), 0, 3], vec![1, 9, 2, 9, 3], 3),
        (vec![1, 0, 4, doubt(2), 0, 3], vec![1, 2, 9, 4, 2, 3], 4),
        (vec![1, 0, 4, doubt(2), 0, 3], vec![1, 9, 4, 3], 3),
    ] {
        let out = align(&flow, &log);
        assert_eq!((out.matched.total(), out.mismatches), (matched, 0), "{flow:?} {log:?}: {out:?}");
    }
    // A hit in doubt excuses no other disagreement.
    assert_eq!(align(&[1, doubt(2), 3], &[1, 4, 3]).mismatches, 1);
}
