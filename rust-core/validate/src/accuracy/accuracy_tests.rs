// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::testing::{bytecode, feed, feed_as, gap, methods, thread};
use jportal_flow::Tally;
use jportal_flow::{Event, EventKind, Gap, GapReason, Orphan, Provenance};
use jportal_units::{Core, StreamOffset, Tsc};
use std::io::Cursor;

fn storage() -> std::io::Result<Box<dyn Storage>> {
    Ok(Box::new(Cursor::new(Vec::new())))
}

type Flow<'a> = (u32, &'a [Event]);

fn spooled(mut flows: Flows, threads: &[Flow<'_>]) -> Flows {
    for (tid, events) in threads {
        feed(&mut flows, *tid, events);
    }
    flows
}

fn compared(truth: &[Flow<'_>], tested: &[Flow<'_>]) -> Result<Accuracy, Error> {
    let methods = methods();
    let truth = spooled(Flows::of_truth(&methods, storage).unwrap(), truth);
    let tested = spooled(Flows::of_capture(&methods, storage).unwrap(), tested);
    let bytes = |total, one| TraceBytes { total, threads: [((7, 0), one)].into() };
    compare((truth, &bytes(1000, 500)), (tested, &bytes(800, 300)), &methods, &mut |_, _| {})
}

fn one(truth: &[Event], tested: &[Event]) -> Accuracy {
    compared(&[(7, truth)], &[(7, tested)]).unwrap()
}

fn with(provenance: Provenance, e: Event) -> Event {
    Event { provenance, ..e }
}
fn recovered(confidence: f32, e: Event) -> Event {
    with(Provenance::Recovered { confidence }, e)
}
fn time(tsc: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(tsc)))
}
/// Trace lost between two times.
fn loss(since: u64, until: u64) -> Event {
    Event::decoded(EventKind::Gap(Box::new(Gap {
        reason: GapReason::Truncated,
        core: Core(0),
        offset: StreamOffset(0),
        address: None,
        since: Some(Tsc(since)),
        until: Some(Tsc(until)),
        bytes: None,
        stack_lost: true,
    })))
}

/// A gap without lost trace.
fn contradiction(since: u64, until: u64) -> Event {
    let mut gap = loss(since, until);
    if let EventKind::Gap(g) = &mut gap.kind {
        g.reason = GapReason::Reconstruct(jportal_flow::FlowFault::NoSuchFrame, "top frame".into());
    }
    gap
}

/// Each bytecode of m0 and m1 has its own number: 0 to 9 and 10 to 19.
fn run(numbers: impl IntoIterator<Item = u32>) -> Vec<Event> {
    numbers.into_iter().map(|n| bytecode(n / 10, (n % 10) as u16)).collect()
}

#[test]
fn equal_flows_are_right() {
    let flow = run(0..20);
    let a = one(&flow, &flow);
    assert_eq!((a.total.truth, a.total.right), (20, Tally { decoded: 20, ..Tally::default() }));
    assert_eq!((a.shares.da, a.shares.pd, a.shares.overall), (Some(1.0), Some(1.0), Some(1.0)));
    assert_eq!((a.shares.ra, a.shares.pmd_flow, a.wrong_stretches), (None, Some(0.0), 0));
    assert!(a.decoded_is_right());
    assert_eq!(a.shares.pmd, Some(0.2), "of 1000 bytes in all 800 are left");
    assert_eq!(a.threads[0].shares.pmd, Some(0.4), "of the thread's 500, 300");
}

/// 40 bytecodes, a time each; 10 are lost, 4 of them are filled, 3 of these are right.
#[test]
fn the_figures_by_hand() {
    let timed = |from: u64, all: Vec<Event>| -> Vec<Event> {
        all.into_iter().enumerate().flat_map(|(i, e)| [time(1000 + from + i as u64), e]).collect()
    };
    let numbers: Vec<u32> = (0..20).chain((0..20).rev()).collect();
    let truth = timed(0, run(numbers.iter().copied()));
    let mut tested = timed(0, run(numbers[..15].iter().copied()));
    tested.push(loss(1015, 1025));
    // Truth: 15, 16, 17, 18, 19, 19, 18, 17, 16, 15.
    let guesses = [(0.9, 16), (0.9, 17), (0.5, 3), (0.5, 16)];
    tested.extend(guesses.map(|(c, n)| recovered(c, run([n]).remove(0))));
    // Two bytecodes after the gap were captured but could not be decoded.
    tested.extend(timed(27, run(numbers[27..].iter().copied())));
    let a = one(&truth, &tested);
    let t = &a.total;
    assert_eq!((t.truth, t.lost, t.flow.decoded, t.flow.recovered), (40, 10, 28, 4));
    assert_eq!((t.right.decoded, t.right.recovered, t.wrong.recovered, t.recovered_of_lost), (28, 3, 1, 3));
    assert_eq!((t.missing_lost, t.missing_captured), (7, 2));
    let s = &a.shares;
    assert_eq!((s.pmd_flow, s.pr, s.ra), (Some(10.0 / 40.0), Some(3.0 / 40.0), Some(3.0 / 10.0)));
    assert_eq!((s.pdc_flow, s.pd, s.da), (Some(30.0 / 40.0), Some(28.0 / 40.0), Some(28.0 / 30.0)));
    assert_eq!((s.overall, s.recovered_right), (Some(31.0 / 40.0), Some(0.75)));
    let bins: Vec<(u64, u64)> = a.reliability.iter().map(|b| (b.bytecodes, b.right)).collect();
    assert_eq!(bins, [(2, 1), (2, 2)], "at 0.5 and at 0.9");
    assert!(
        a.decoded_is_right() && a.text().contains("missing: 7 lost, 2 captured but not decoded"),
        "{}",
        a.text()
    );
}

#[test]
fn what_is_recovered_of_captured_trace_is_in_no_ra() {
    let mut truth = vec![time(100)];
    truth.extend(run(0..10));
    truth.push(time(110));
    truth.extend(run(10..20));
    let mut tested = vec![time(100)];
    tested.extend(run(0..5));
    tested.push(loss(105, 110));
    // Lost: 5 to 9. Captured and not decoded: 10 to 14, all of which are filled.
    tested.extend(run(8..15).into_iter().map(|e| recovered(0.7, e)));
    tested.extend(run(15..20));
    let t = one(&truth, &tested).total;
    assert_eq!((t.lost, t.right.recovered, t.recovered_of_lost), (5, 7, 2));
    assert_eq!((t.missing_lost, t.missing_captured), (3, 0));
}

#[test]
fn orphans_after_a_loss_were_captured() {
    // No time says which of 5 to 9 were lost, but two of them were captured as orphans.
    let mut tested = run(0..5);
    tested.push(loss(105, 110));
    tested.extend(
        [0, 1].map(|opcode| Event::decoded(EventKind::Orphan(Orphan::Bytecode { opcode, taken: None }))),
    );
    tested.extend(run(10..20));
    let t = one(&run(0..20), &tested).total;
    assert_eq!((t.lost, t.missing_lost, t.missing_captured, t.orphans), (3, 3, 2, 2));
}

#[test]
fn what_ran_in_a_gap_that_was_filled_was_lost() {
    // Times within the fill are not times of the gap. A fill that is given up ends in a gap of
    // its own.
    let mut truth = vec![time(100)];
    truth.extend(run(0..10));
    truth.push(time(110));
    truth.extend(run(10..20));
    for guessed in [&[5, 9][..], &[]] {
        let mut tested = vec![time(100)];
        tested.extend(run(0..5));
        tested.extend(run(guessed.iter().copied()).into_iter().map(|e| recovered(0.7, e)));
        tested.push(time(109));
        tested.push(recovered(0.7, contradiction(109, 109)));
        tested.extend(run(15..20));
        let t = one(&truth, &tested).total;
        let found = guessed.len() as u64;
        assert_eq!(
            (t.lost, t.recovered_of_lost, t.missing_lost, t.missing_captured),
            (10, found, 10 - found, 0)
        );
        assert_eq!(t.other_gaps, 0);
    }
}

#[test]
fn what_is_missing_in_a_loop_is_missing_at_the_gap() {
    let truth: Vec<Event> = run((0..3).chain((3..9).cycle().take(60)).chain(9..12));
    // Two rounds, a loss of seven rounds, one round and the end.
    let mut tested = truth[..15].to_vec();
    tested.push(loss(105, 110));
    tested.extend(truth[57..].iter().cloned());
    let t = one(&truth, &tested).total;
    assert_eq!((t.lost, t.missing_lost, t.missing_captured), (42, 42, 0));
}

#[test]
fn both_flows_continue_where_a_fill_long_before_is_given_up() {
    let truth: Vec<Event> = run((0..3).chain((3..9).cycle().take(360)).chain(9..12));
    // The fill ends before the third round. Two more rounds follow, and the two after them were
    // not decoded.
    let mut tested = truth[..15].to_vec();
    tested.push(recovered(0.7, contradiction(105, 105)));
    tested.extend(truth[15..27].iter().cloned());
    tested.push(contradiction(106, 107));
    tested.extend(truth[39..].iter().cloned());
    let t = one(&truth, &tested).total;
    assert_eq!((t.lost, t.missing_lost, t.missing_captured, t.wrong.decoded), (0, 0, 12, 0));
}

#[test]
fn a_wrong_decoded_bytecode_is_found() {
    let mut tested = run(0..20);
    tested[7] = bytecode(2, 7);
    let a = one(&run(0..20), &tested);
    assert_eq!((a.total.right.decoded, a.total.wrong.decoded, a.total.missing_captured), (19, 1, 1));
    assert!(!a.decoded_is_right());
    let w = &a.worst[0];
    assert_eq!(
        (a.wrong_stretches, w.at, w.truth_at, w.bytecodes, w.instead, w.at_gap),
        (1, 7, 7, 1, 1, false)
    );
    assert!(w.found[0].starts_with("java.lang.Math.abs") && w.found[0].ends_with("@7"), "{w:?}");
    assert!(a.text().contains("1 instead of 1"), "{}", a.text());
}

#[test]
fn the_longest_wrong_stretches_are_shown() {
    // Twelve stretches of 1, 2, 3, 4, 1, 2, … wrong bytecodes, each after three right ones.
    let (mut truth, mut tested) = (Vec::new(), Vec::new());
    for k in 0..12 {
        let own = run(0..3);
        truth.extend(own.iter().cloned().chain(run(10..11 + k % 4)));
        tested.extend(own.into_iter().chain((0..=k % 4).map(|_| bytecode(2, 7))));
    }
    let a = one(&truth, &tested);
    let lengths: Vec<(u64, u64)> = a.worst.iter().map(|w| (w.bytecodes, w.at)).collect();
    assert_eq!(a.wrong_stretches, 12);
    assert_eq!(
        lengths,
        [(4, 18), (4, 40), (4, 62), (3, 12), (3, 34), (3, 56), (2, 7), (2, 29), (2, 51), (1, 3)]
    );
}

#[test]
fn the_order_counts_and_each_counterpart_once() {
    let mut tested = run(0..5);
    tested.push(gap(true));
    // Only a subsequence of 5, 6, 7 can be right: 5 or 6, and one 7 after it.
    tested.extend(run([7, 6, 5, 7, 7]).into_iter().map(|e| recovered(0.2, e)));
    tested.extend(run(8..20));
    let t = one(&run(0..20), &tested).total;
    assert_eq!((t.right.recovered, t.wrong.recovered, t.right.decoded), (2, 3, 17), "5 and 7, or 6 and 7");
    assert_eq!(t.missing_lost + t.missing_captured, 1);
}

#[test]
fn recovered_bytecodes_are_looked_for_between_their_neighbours() {
    // The filled bytecodes exist in the truth, but elsewhere.
    let mut tested = run(0..5);
    tested.extend(run(12..15).into_iter().map(|e| recovered(0.2, e)));
    tested.extend(run(8..20));
    let t = one(&run(0..20), &tested).total;
    assert_eq!((t.right.recovered, t.wrong.recovered, t.lost), (0, 3, 3));
}

#[test]
fn projected_bytecodes_are_captured_ones() {
    let mut tested = run(0..10);
    tested.extend(run(10..20).into_iter().map(|e| with(Provenance::Projected { paths: 2 }, e)));
    tested[12] = with(Provenance::Projected { paths: 2 }, bytecode(2, 0));
    tested[14].provenance = Provenance::Projected { paths: 1 };
    tested[16] = with(Provenance::Projected { paths: 1 }, bytecode(2, 1));
    let a = one(&run(0..20), &tested);
    assert_eq!(a.total.right, Tally { decoded: 10, projected: 8, recovered: 0 });
    assert_eq!((a.total.wrong.projected, a.shares.da), (2, Some(18.0 / 20.0)));
    assert_eq!(a.total.certain, Judged { right: 1, wrong: 1 });
    assert!(a.decoded_is_right());
}

#[test]
fn a_gap_without_lost_trace_is_not_lost() {
    let mut tested = run(0..5);
    tested.push(contradiction(5, 8));
    tested.extend(run(8..20));
    let t = one(&run(0..20), &tested).total;
    assert_eq!((t.lost, t.missing_captured, t.other_gaps, t.right.decoded), (0, 3, 1, 17));
}

#[test]
fn orphans_are_counted_and_stay_missing() {
    let mut tested = run(0..5);
    let orphan = Orphan::Bytecode { opcode: 0, taken: None };
    tested.extend([orphan, Orphan::Throw, orphan].map(|o| Event::decoded(EventKind::Orphan(o))));
    tested.extend(run(8..20));
    let a = one(&run(0..20), &tested);
    let t = &a.total;
    assert_eq!((t.orphans, t.missing_captured, t.right.decoded), (2, 3, 17));
    assert!(a.text().contains("3 captured but not decoded (2 of known opcode,"), "{}", a.text());
}

#[test]
fn bytecodes_of_methods_that_were_never_described_are_equal_to_nothing() {
    let unknown = [bytecode(77, 3), bytecode(0, 200)];
    let t = one(&unknown, &unknown).total;
    assert_eq!((t.right.total(), t.wrong.decoded, t.truth), (0, 2, 2));
}

#[test]
fn threads_are_compared_each_with_its_own() {
    let (a, b) = (run(0..10), run(10..20));
    let all = compared(&[(7, &a), (8, &b)], &[(8, &b)]).unwrap();
    assert_eq!((all.threads[0].figures.lost, all.threads[0].figures.missing_lost), (10, 10));
    assert_eq!((all.threads[1].figures.right.decoded, all.total.truth, all.total.lost), (10, 20, 10));
    let other = compared(&[(7, &a)], &[(7, &a), (8, &b)]);
    assert!(matches!(other, Err(Error::OtherThread { tid: 8, .. })), "{other:?}");
    // A thread without bytecodes is ignored.
    assert!(compared(&[(7, &a)], &[(7, &a), (8, &[time(5)])]).is_ok());
}

/// The truth has both threads of an OS thread as one; the capture, whose gap lies between them,
/// has two.
#[test]
fn a_thread_that_follows_another_on_its_os_thread_may_be_one_with_it() {
    let numbered = |from: u64, all: Vec<Event>| -> Vec<Event> {
        all.into_iter().enumerate().flat_map(|(i, e)| [time(1000 + from + i as u64), e]).collect()
    };
    let methods = methods();
    let truth = numbered(0, run(0..20));
    let (mut first, second) = (numbered(0, run(0..8)), numbered(12, run(12..20)));
    first.push(loss(1008, 1012));
    let mut tested = Flows::of_capture(&methods, storage).unwrap();
    for (started, events) in [(0, &first), (1005, &second)] {
        let thread = jportal_flow::ThreadInfo { started: Tsc(started), ..thread(7) };
        feed_as(&mut tested, &thread, events);
    }
    let truth = spooled(Flows::of_truth(&methods, storage).unwrap(), &[(7, &truth)]);
    let bytes = TraceBytes { total: 100, threads: [((7, 0), 30), ((7, 1005), 40)].into() };
    let a = compare((truth, &bytes), (tested, &bytes), &methods, &mut |_, _| {}).unwrap();
    assert_eq!((a.threads.len(), a.total.right.decoded, a.total.wrong.decoded), (1, 16, 0));
    assert_eq!(
        (a.total.missing_lost, a.total.missing_captured, a.threads[0].figures.capture_bytes),
        (4, 0, 70)
    );
}

#[test]
fn a_truth_that_has_lost_something_is_refused() {
    let mut truth = run(0..5);
    truth.push(loss(5, 8));
    let refused = compared(&[(7, &truth)], &[(7, &truth)]);
    assert!(matches!(refused, Err(Error::TruthIsLossy { tid: 7, at: 5 })), "{refused:?}");
}
