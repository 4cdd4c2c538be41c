// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::ring::{CoreConsumer, CoreProducer};
use jportal_pt_packet::Encoder;

const RING: u64 = 8192;
const PSB_EVERY: u64 = 512;

/// A unit that writes bytes that identify the running thread, with a PSB+ now and then.
struct TaggingUnit {
    _dir: tempfile::TempDir,
    producer: CoreProducer,
    consumer: CoreConsumer,
    keeper: Keeper,
    now: u64,
    last_psb: Option<u64>,
}

fn unit(keep: u64) -> TaggingUnit {
    let dir = tempfile::tempdir().unwrap();
    let config = UnitConfig { cores: 1, aux_bytes: RING, data_bytes: 65536, ..UnitConfig::default() };
    let shared = EmulatedUnit::create(&dir.path().join("rings"), config).unwrap();
    let (producer, consumer) = (shared.producer(0, 7).unwrap(), shared.consumer(0).unwrap());
    let keeper = Keeper::new(0, &consumer.aux, keep, 1000);
    TaggingUnit { _dir: dir, producer, consumer, keeper, now: 1000, last_psb: None }
}

impl TaggingUnit {
    fn psb(&mut self) {
        let mut packets = Encoder::new();
        packets.psb();
        packets.tsc(self.now);
        packets.psbend();
        self.producer.aux.overwrite(packets.bytes());
        self.last_psb = Some(self.producer.aux.position());
    }

    /// Thread `tid` runs and writes at least `n` bytes. The time advances with each step.
    fn stay(&mut self, tid: u32, n: u64) {
        self.now += 10_000_000;
        self.producer.switch_in(tid, self.now).unwrap();
        let to = self.producer.aux.position() + n;
        if self.last_psb.is_none() && n > 0 {
            self.psb();
        }
        while self.producer.aux.position() < to {
            self.now += 1000;
            if self.last_psb.is_none_or(|p| self.producer.aux.position() - p >= PSB_EVERY) {
                self.psb();
            }
            // Filler that is no packet; its first byte contains the thread id.
            self.producer.aux.overwrite(&[tid as u8 | 1, 0x55]);
        }
        self.now += 1000;
        self.leave(tid);
    }

    /// Like [`TaggingUnit::stay`], with a PSB+ as the last packet; the next stay begins at the very
    /// same time.
    fn stay_to_a_psb(&mut self, tid: u32, n: u64) {
        self.producer.switch_in(tid, self.now).unwrap();
        for _ in 0..n / 2 {
            self.producer.aux.overwrite(&[tid as u8 | 1, 0x55]);
        }
        self.now += 1000;
        self.psb();
        self.leave(tid);
    }

    /// Thread `tid` is switched out, and the unit stops.
    fn leave(&mut self, tid: u32) {
        self.producer.switch_out(tid, self.now, false).unwrap();
        let offset = self.producer.aux.publish_place();
        let flags = aux_flags::OVERWRITE;
        self.producer.record(Body::Aux { offset, size: RING, flags }, tid, self.now).unwrap();
        let mut records = Vec::new();
        self.consumer.data.drain(&mut records, usize::MAX).unwrap();
        self.keeper.take(&records).unwrap();
    }

    fn window(&mut self) -> CoreWindow {
        self.now += 1000;
        self.last_psb = None;
        self.keeper.window(&self.consumer.aux, self.now).unwrap()
    }
}

/// The thread and length of each part of the window, from the AUX records, which must cover all
/// bytes in order.
fn owners(window: &CoreWindow) -> Vec<(u32, u64)> {
    let (mut at, mut owners) = (0, Vec::new());
    for record in RecordReader::new(&window.sideband) {
        let record = record.unwrap();
        if let Body::Aux { offset, size, flags } = record.body {
            assert_eq!((offset, flags), (at, 0));
            at += size;
            owners.push((record.sample.tid, size));
        }
    }
    assert_eq!(at, window.trace.len() as u64);
    owners
}

/// Checks that the bytes between PSB+ are those of the thread that the records name.
fn check_bytes(window: &CoreWindow) {
    let mut at = 0;
    for (tid, size) in owners(window) {
        let bytes = &window.trace[at..at + size as usize];
        at += size as usize;
        let own = bytes.windows(2).filter(|w| *w == [tid as u8 | 1, 0x55]).count();
        let all = bytes.iter().filter(|&&b| b == 0x55).count();
        assert!(own + 2 >= all, "thread {tid}: {own} of {all}");
    }
}

fn lost(window: &CoreWindow) -> bool {
    RecordReader::new(&window.sideband).any(|r| matches!(r.unwrap().body, Body::Lost { .. }))
}

#[test]
fn a_ring_that_is_not_full_is_reported_whole() {
    let mut u = unit(RING);
    u.stay(10, 1000);
    u.stay(12, 0);
    u.stay(14, 2000);
    let window = u.window();
    assert!(window.trace.starts_with(&jportal_pt_packet::PSB));
    assert_eq!(owners(&window).iter().map(|o| o.0).collect::<Vec<_>>(), [10, 14]);
    assert!(!lost(&window) && window.known_since.is_none());
    check_bytes(&window);
    // The next window begins where this one ended.
    u.stay(16, 300);
    let next = u.window();
    assert_eq!(owners(&next).iter().map(|o| o.0).collect::<Vec<_>>(), [16]);
    assert!(!lost(&next));
    // A window without new trace is empty.
    let nothing = u.window();
    assert!(nothing.trace.is_empty() && nothing.sideband.is_empty());
}

#[test]
fn of_a_ring_that_was_written_often_the_last_turn_is_reported() {
    for keep in [RING, RING / 2] {
        let mut u = unit(keep);
        for n in 0..200 {
            u.stay(10 + 2 * (n % 5), 70 + 37 * u64::from(n % 30));
        }
        let window = u.window();
        assert!(window.trace.starts_with(&jportal_pt_packet::PSB));
        let len = window.trace.len() as u64;
        assert!(len <= keep && len + PSB_EVERY + 64 >= keep, "{len} of {keep}");
        assert!(lost(&window));
        check_bytes(&window);
        // No record is earlier than the window.
        let known = window.known_since.unwrap();
        assert!(RecordReader::new(&window.sideband).all(|r| r.unwrap().sample.time >= known));
        assert!(u.keeper.stays.len() < 200);
    }
}

#[test]
fn a_stay_of_more_than_a_turn_has_all_of_the_window() {
    for (n, behind) in [(RING + 100, 0), (3 * RING + 4000, 0), (RING + 3000, 900), (5 * RING + 17, 3000)] {
        let mut u = unit(RING);
        for _ in 0..10 {
            u.stay(10, 500);
        }
        u.stay(12, n);
        if behind > 0 {
            u.stay(14, behind);
        }
        let window = u.window();
        let tids: Vec<u32> = owners(&window).iter().map(|o| o.0).collect();
        assert_eq!(tids, if behind > 0 { vec![12, 14] } else { vec![12] }, "{n} and {behind}");
        assert!(window.trace.len() as u64 + PSB_EVERY + 64 >= RING && lost(&window));
        check_bytes(&window);
    }
}

#[test]
fn a_psb_at_the_end_of_a_stay_is_not_of_the_next() {
    let mut u = unit(RING);
    for n in 0..100 {
        u.stay_to_a_psb(10 + 2 * (n % 5), 300);
    }
    let window = u.window();
    assert!(owners(&window).len() > 20, "{:?}", owners(&window));
    check_bytes(&window);
}

#[test]
fn a_turn_to_the_byte_is_not_reported_as_another_threads() {
    let mut u = unit(RING);
    u.stay(10, 3000);
    // Thread 12 writes whole turns, so that the place is as if it had written nothing.
    let at = u.producer.aux.position();
    u.stay(12, RING);
    let more = RING - (u.producer.aux.position() - at) % RING;
    u.producer.aux.overwrite(&vec![0; more as usize]);
    let place = u.producer.aux.publish_place();
    assert_eq!(place, at & (RING - 1));
    let mut u = unit(RING);
    u.stay(10, 3000);
    let at = u.producer.aux.position();
    u.keeper.head = RING + (at & (RING - 1));
    // The whole ring is newer than the only record.
    u.now += 1 << 30;
    for _ in 0..40 {
        u.psb();
        u.producer.aux.overwrite(&[12; 300]);
    }
    let rest = RING - (u.producer.aux.position() - at) % RING;
    u.producer.aux.overwrite(&vec![0; rest as usize]);
    u.producer.aux.publish_place();
    let window = u.window();
    assert!(owners_of(&window).is_empty(), "{:?}", owners_of(&window));
}

fn owners_of(window: &CoreWindow) -> Vec<u32> {
    let records = RecordReader::new(&window.sideband).map(|r| r.unwrap());
    records.filter(|r| matches!(r.body, Body::Aux { .. })).map(|r| r.sample.tid).collect()
}

#[test]
fn stale_blocks_keep_their_place() {
    let mut u = unit(RING);
    for _ in 0..20 {
        u.stay(10, 900);
    }
    u.now += 10_000_000;
    u.producer.switch_in(12, u.now).unwrap();
    u.producer.aux.overwrite(&[13, 0x55, 13, 0x55]);
    let offset = u.producer.aux.position();
    u.producer.record(Body::StaleBlock { offset, address: 0x1000, bytes: vec![0x90] }, 12, u.now).unwrap();
    u.stay(12, 200);
    let window = u.window();
    let stale = RecordReader::new(&window.sideband).map(|r| r.unwrap()).find_map(|r| match r.body {
        Body::StaleBlock { offset, .. } => Some(offset),
        _ => None,
    });
    let at = stale.unwrap();
    assert_eq!(&window.trace[at as usize - 4..at as usize], [13, 0x55, 13, 0x55]);
}

#[test]
fn what_was_forgotten_is_in_no_window() {
    let mut u = unit(RING);
    for n in 0..5 {
        u.stay(10 + 2 * n, 900);
    }
    let horizon = u.now;
    let begun = u.producer.aux.position();
    for n in 5..8 {
        u.stay(10 + 2 * n, 900);
    }
    u.keeper.forget_before(horizon);
    u.keeper.forget_before(horizon - 1);
    assert_eq!(u.keeper.stays.len(), 3 + 1, "and the one that ended at that very time");
    let end = u.producer.aux.position();
    let window = u.window();
    assert_eq!(owners(&window).iter().map(|o| o.0).collect::<Vec<_>>(), [20, 22, 24]);
    assert!(window.trace.len() as u64 + PSB_EVERY + 64 >= end - begun);
    assert!(lost(&window) && window.known_since > Some(horizon));
    check_bytes(&window);
    // All of it.
    u.stay(30, 900);
    u.keeper.forget_before(u.now + 1);
    let window = u.window();
    assert!(window.trace.is_empty() && lost(&window) && window.known_since == Some(u.now - 1000 + 1));
    // The next window begins with the tracing after it.
    u.stay(32, 900);
    assert_eq!(owners(&u.window()).len(), 1);
}
