// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};
use jportal_perf_abi::record::RecordReader;
use jportal_perf_abi::ring::CoreConsumer;

use super::*;

const AUX: u64 = 8192;

struct OutletRig {
    _dir: tempfile::TempDir,
    outlet: Outlet,
    consumer: CoreConsumer,
}

fn rig(mode: OnFull) -> OutletRig {
    let dir = tempfile::tempdir().unwrap();
    let config = UnitConfig { cores: 1, aux_bytes: AUX, data_bytes: 4096, ..UnitConfig::default() };
    let unit = EmulatedUnit::create(&dir.path().join("rings"), config).unwrap();
    OutletRig {
        _dir: dir,
        outlet: Outlet::new(unit.producer(0, 7).unwrap(), mode, None),
        consumer: unit.consumer(0).unwrap(),
    }
}

impl OutletRig {
    fn drain_aux(&mut self) -> Vec<u8> {
        let mut to = Vec::new();
        self.consumer.aux.drain(&mut to, usize::MAX).unwrap();
        to
    }
    fn drain_records(&mut self) -> Vec<(Body, u32)> {
        let mut to = Vec::new();
        self.consumer.data.drain(&mut to, usize::MAX).unwrap();
        RecordReader::new(&to).map(|r| r.unwrap()).map(|r| (r.body, r.sample.tid)).collect()
    }
}

fn numbered(from: usize, n: usize) -> Vec<u8> {
    (from..from + n).map(|i| (i % 251) as u8).collect()
}

fn aux(offset: u64, size: u64, flags: u64) -> Body {
    Body::Aux { offset, size, flags }
}

#[test]
fn bytes_become_visible_with_their_record() {
    let mut r = rig(OnFull::Stall);
    r.outlet.switch_in(0, 7, 11, 1, true);
    assert_eq!(r.outlet.write(0, &numbered(0, 100), 11, 2), Flow::Taken);
    assert!(r.drain_aux().is_empty(), "not before the AUX record");
    r.outlet.switch_out(0, 11, 3, true);
    assert_eq!(r.drain_aux(), numbered(0, 100));
    let switch = |out, preempted| Body::Switch { out, preempted };
    assert_eq!(
        r.drain_records(),
        [
            (Body::ItraceStart { pid: 7, tid: 11 }, 11),
            (switch(false, false), 11),
            (switch(true, true), 11),
            (aux(0, 100, 0), 11)
        ]
    );
    r.outlet.switch_out(0, 11, 4, false);
    assert_eq!(r.drain_records(), [(switch(true, false), 11)], "no AUX record for no bytes");
}

#[test]
fn a_quarter_of_the_ring_is_recorded_at_once() {
    let mut r = rig(OnFull::Stall);
    for i in 0..5 {
        let _ = r.outlet.write(0, &numbered(500 * i, 500), 11, 2);
    }
    assert_eq!(r.drain_records(), [(aux(0, 2500, 0), 11)]);
    assert_eq!(r.drain_aux().len(), 2500);
}

#[test]
fn stall_loses_nothing_and_keeps_order() {
    let mut r = rig(OnFull::Stall);
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for i in 0..100 {
        let bytes = numbered(i * 700, 700);
        expected.extend_from_slice(&bytes);
        assert_eq!(r.outlet.write(0, &bytes, 11, i as u64), Flow::Taken);
        if i % 10 == 9 {
            r.outlet.switch_out(0, 11, 0, false);
            r.outlet.switch_in(0, 7, 11, 0, false);
        }
    }
    assert!(r.outlet.queued() > 60_000 && !r.outlet.is_drained());
    let mut records = Vec::new();
    for _ in 0..1000 {
        records.extend(r.drain_records());
        seen.extend(r.drain_aux());
        r.outlet.advance();
    }
    assert_eq!(seen, expected);
    assert!(r.outlet.is_drained());
    assert_eq!(r.outlet.queued(), 0);
    let mut at = 0;
    for (body, _) in &records {
        if let Body::Aux { offset, size, flags } = *body {
            assert_eq!((offset, flags), (at, 0));
            at += size;
        }
    }
    assert_eq!(at, expected.len() as u64, "the records cover every byte once");
    assert_eq!(records.iter().filter(|(b, _)| matches!(b, Body::Switch { .. })).count(), 20);
}

#[test]
fn drop_stops_at_the_last_free_region_and_says_so() {
    let mut r = rig(OnFull::Drop);
    let mut stopped = 0;
    for i in 0..40 {
        if r.outlet.write(0, &numbered(i * 300, 300), 11, 0) == Flow::Stopped {
            stopped += 1;
        }
    }
    // One byte of the ring stays free, so the last of its four regions cannot be filled.
    assert_eq!(r.outlet.position(), AUX / 4 * 3);
    assert!(r.outlet.is_off() && stopped > 1);
    let records = r.drain_records();
    // Records are cut where 300-byte writes crossed a quarter.
    let want = [aux(0, 2100, 0), aux(2100, 2100, 0), aux(4200, 6144 - 4200, aux_flags::TRUNCATED)];
    assert_eq!(records.iter().map(|r| r.0.clone()).collect::<Vec<_>>(), want);
    assert_eq!(r.outlet.totals().losses, 1);
    assert_eq!(r.outlet.totals().bytes + r.outlet.totals().lost_bytes, 40 * 300);

    assert!(!r.outlet.resume(0), "nothing was drained");
    assert_eq!(r.drain_aux(), numbered(0, 6144));
    assert!(r.outlet.resume(0));
    assert_eq!(r.outlet.write(0, &numbered(0, 10), 12, 0), Flow::Taken);
    r.outlet.end_aux(12, 0);
    assert_eq!(r.drain_records(), [(aux(6144, 10, 0), 12)]);
}

#[test]
fn drop_does_not_stop_while_the_drain_keeps_up() {
    let mut r = rig(OnFull::Drop);
    let mut seen = 0;
    for i in 0..400 {
        assert_eq!(r.outlet.write(0, &numbered(i * 300, 300), 11, 0), Flow::Taken);
        seen += r.drain_aux().len();
        r.drain_records();
    }
    assert_eq!(r.outlet.totals().losses, 0);
    r.outlet.end_aux(11, 0);
    assert_eq!(seen + r.drain_aux().len(), 120_000);
}

#[test]
fn drop_counts_records_without_room() {
    let mut r = rig(OnFull::Drop);
    for i in 0..200 {
        r.outlet.switch_in(0, 7, 11, i, false);
    }
    assert!(r.outlet.totals().lost_records > 0);
    r.drain_records();
    r.outlet.switch_in(0, 7, 12, 0, false);
    let first = &r.drain_records()[0].0;
    assert_eq!(*first, Body::Lost { id: 1, lost: r.outlet.totals().lost_records });
}

#[test]
fn sections_come_in_order_whichever_is_written_first() {
    let mut r = rig(OnFull::Stall);
    r.outlet.switch_in(0, 7, 11, 1, false);
    let _ = r.outlet.write(0, b"one", 11, 1);
    let second = r.outlet.open_section();
    r.outlet.switch_in(second, 7, 12, 3, false);
    let _ = r.outlet.write(second, b"three", 12, 4);
    r.outlet.stale(second, 2, 0x1000, b"old", 12, 4);
    let third = r.outlet.open_section();
    r.outlet.switch_in(third, 7, 13, 6, false);
    let _ = r.outlet.write(third, b"five", 13, 7);
    r.outlet.switch_out(second, 12, 5, true);
    r.outlet.close_section(second);
    assert!(r.drain_aux().is_empty() && !r.outlet.is_drained());
    assert_eq!(r.outlet.queued(), 9);
    let _ = r.outlet.write(0, b"two", 11, 2);
    r.outlet.switch_out(0, 11, 2, true);
    r.outlet.close_section(0);
    r.outlet.switch_out(third, 13, 8, false);
    assert_eq!(r.drain_aux(), b"onetwothreefive");
    assert!(r.outlet.is_drained());
    assert_eq!(r.outlet.queued(), 0);
    let switch = |out, preempted| Body::Switch { out, preempted };
    assert_eq!(
        r.drain_records(),
        [
            (switch(false, false), 11),
            (switch(true, true), 11),
            (aux(0, 6, 0), 11),
            (switch(false, false), 12),
            (Body::StaleBlock { offset: 8, address: 0x1000, bytes: b"old".to_vec() }, 12),
            (switch(true, true), 12),
            (aux(6, 5, 0), 12),
            (switch(false, false), 13),
            (switch(true, false), 13),
            (aux(11, 4, 0), 13)
        ]
    );
}

#[test]
fn a_slow_drain_makes_room_with_time() {
    let mut r = rig(OnFull::Drop);
    // One byte per ten ticks; the real drain takes all bytes at once.
    r.outlet = r.outlet.with_drain(0.1);
    let write = |r: &mut OutletRig, tsc| {
        let flow = r.outlet.write(0, &numbered(0, 2048), 11, tsc);
        r.drain_aux();
        flow
    };
    let first: Vec<Flow> = (0..4).map(|_| write(&mut r, 0)).collect();
    assert_eq!(first, [Flow::Taken; 4], "the whole ring, for what is held is known to the byte");
    assert_eq!(write(&mut r, 0), Flow::Stopped);
    assert!(!r.outlet.resume(20_000), "2,000 bytes are less than a region");
    assert!(r.outlet.resume(20_480));
    assert_eq!([1, 2].map(|_| write(&mut r, 20_480)), [Flow::Taken, Flow::Stopped]);
    // The drain could not take bytes that did not exist yet.
    assert!(r.outlet.resume(10_000_000));
    assert_eq!([1, 2, 3, 4, 5].map(|_| write(&mut r, 10_000_000))[3..], [Flow::Taken, Flow::Stopped]);
}

#[test]
fn a_ring_that_is_overwritten_is_never_full() {
    for mode in [OnFull::Stall, OnFull::Drop] {
        let mut r = rig(mode);
        r.outlet.set_overwrite(true);
        r.outlet.switch_in(0, 7, 11, 1, true);
        let mut all = Vec::new();
        for i in 0..50 {
            let bytes = numbered(i * 700, 700);
            all.extend_from_slice(&bytes);
            assert_eq!(r.outlet.write(0, &bytes, 11, 2), Flow::Taken);
        }
        r.outlet.switch_out(0, 11, 3, false);
        assert!(r.outlet.is_drained() && !r.outlet.is_off());
        let place = 50 * 700 % AUX;
        assert_eq!(r.drain_records().last(), Some(&(aux(place, AUX, aux_flags::OVERWRITE), 11)));
        let mut last = Vec::new();
        r.consumer.aux.last(AUX, &mut last).unwrap();
        assert_eq!((r.consumer.aux.place(), &last[..]), (place, &all[all.len() - AUX as usize..]));
        last.clear();
        r.consumer.aux.last(300, &mut last).unwrap();
        assert_eq!(last, all[all.len() - 300..]);
        let totals = r.outlet.totals();
        assert_eq!((totals.bytes, totals.lost_bytes, totals.losses), (35_000, 0, 0));
        // Each stop is recorded, with or without bytes.
        r.outlet.switch_in(0, 7, 12, 4, false);
        r.outlet.switch_out(0, 12, 5, false);
        assert_eq!(r.drain_records().last(), Some(&(aux(place, AUX, aux_flags::OVERWRITE), 12)));
    }
}
