// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests of the records of a cut stream.

use super::*;
use jportal_perf_abi::SampleId;

fn record(tid: u32, time: u64, body: Body) -> Record {
    Record { body, sample: SampleId { tid, time, ..SampleId::default() } }
}
const fn aux(offset: u64, size: u64, flags: u64) -> Body {
    Body::Aux { offset, size, flags }
}
const IN: Body = Body::Switch { out: false, preempted: false };
const OUT: Body = Body::Switch { out: true, preempted: false };
const TRUNCATED: u64 = aux_flags::TRUNCATED;

fn lost(from: u64, to: u64) -> Lost {
    Lost { from, to, since: 0, until: Some(0) }
}

fn truncated(records: Vec<Record>, lost: &[Lost]) -> Vec<Record> {
    let arrivals = Arrivals { points: vec![(30, 130), (60, 160), (200, 300)], ..Arrivals::default() };
    let cuts = lost.iter().map(|l| Cut { from: l.from, to: l.to, insert: Vec::new() }).collect();
    let trace = CoreTrace { core: Core(0), bytes: vec![0; 200], records };
    truncate(&trace, lost, &arrivals, &Map::new(cuts))
}

#[test]
fn the_unit_stops_before_the_thread_leaves_and_its_record_says_when() {
    let stays = vec![
        record(1, 100, IN),
        record(1, 180, OUT),
        record(1, 180, aux(0, 100, 0)),
        record(2, 190, IN),
        record(2, 300, OUT),
        record(2, 300, aux(100, 100, 0)),
    ];
    // One loss inside of a stay, and one from the first stay into the second.
    let got = truncated(stays.clone(), &[lost(20, 40), lost(80, 150)]);
    let want = [
        record(1, 100, IN),
        record(1, 130, aux(0, 20, TRUNCATED)),
        record(1, 180, aux(20, 40, TRUNCATED)),
        record(1, 180, OUT),
        record(2, 190, IN),
        record(2, 300, OUT),
        record(2, 300, aux(60, 50, 0)),
    ];
    assert_eq!(got, want);
    // Thread 1 twice, and thread 2, which came while the unit was off.
    assert_eq!(super::stays(&got), 3);
    // From the very end of a stay to the end of the trace: the second thread has switches but
    // no bytes.
    let got = truncated(stays, &[lost(100, 200)]);
    let want = [
        record(1, 100, IN),
        record(1, 180, OUT),
        record(1, 180, aux(0, 100, TRUNCATED)),
        record(2, 190, IN),
        record(2, 300, OUT),
    ];
    assert_eq!(got, want);
}

#[test]
fn a_stay_without_trace_before_is_not_the_one_that_ends() {
    let stays = vec![
        record(2, 90, IN),
        record(2, 95, OUT),
        record(1, 100, IN),
        record(1, 180, OUT),
        record(1, 180, aux(0, 100, 0)),
        record(3, 190, IN),
        record(3, 200, OUT),
        record(1, 200, IN),
        record(1, 250, aux(100, 80, 0)),
    ];
    let got = truncated(stays.clone(), &[lost(20, 90), lost(120, 170)]);
    let mut want = stays;
    want[4] = record(1, 180, aux(20, 10, 0));
    want.insert(3, record(1, 130, aux(0, 20, TRUNCATED)));
    want[9] = record(1, 250, aux(30, 20, TRUNCATED));
    want.push(record(1, 250, aux(50, 10, 0)));
    assert_eq!(got, want);
}

#[test]
fn blocks_with_old_bytes_move_or_go_with_their_trace() {
    let stale = |offset| Body::StaleBlock { offset, address: 7, bytes: vec![1] };
    let all = [10, 20, 39, 40, 90].map(|o| record(1, 100, stale(o))).to_vec();
    let kept = truncated(all, &[lost(20, 40)]);
    assert_eq!(kept, [10, 20, 70].map(|o| record(1, 100, stale(o))));
}

#[test]
fn a_ring_that_fits() {
    assert_eq!(fitting_ring(4 << 20, 1 << 40), 4 << 20);
    assert_eq!(fitting_ring(4 << 20, 20 << 20), 256 << 10);
    assert_eq!(fitting_ring(4 << 20, 0), 16 << 10);
}

#[test]
fn bytes_of_a_gap_are_those_of_the_threads_that_wrote_them() {
    let records =
        vec![record(1, 5, aux(0, 100, 0)), record(2, 6, aux(100, 50, 0)), record(1, 7, aux(150, 50, 0))];
    let trace = CoreTrace { core: Core(0), bytes: vec![0; 200], records };
    let gap = |from, to| GapTruth {
        reason: Reason::Truncated,
        from: StreamOffset(from),
        to: StreamOffset(to),
        place: StreamOffset(0),
        since: Tsc(0),
        until: None,
        threads: Vec::new(),
    };
    let mut gaps = [gap(10, 20), gap(90, 160), gap(199, 200)];
    name_threads(&trace, &mut gaps);
    let threads: Vec<_> = gaps.iter().map(|g| g.threads.clone()).collect();
    let t = |tid, bytes| (Tid(tid), bytes);
    assert_eq!(threads, [vec![t(1, 10)], vec![t(1, 10), t(2, 50), t(1, 10)], vec![t(1, 1)]]);
}
