// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds which thread ran when on a core: sideband records → stretches of the PT stream.
//!
//! Every byte of a core's AUX stream lies in the range of one `PERF_RECORD_AUX`, whose
//! `sample_id` names the thread it was recorded for. The kernel stops the PT unit and writes
//! the record when the thread leaves the core, and at the watermark while it runs
//! (kernel/events/ring_buffer.c, `perf_aux_output_end`).

use crate::order::misfits;
use jportal_flow::Departure;
use jportal_perf_abi::record::{Body, RecordReader, SampleId, aux_flags};
use jportal_units::{Address, Core, StreamOffset, Tid, Tsc};
use std::ops::Range;

/// A contiguous piece of one core's PT stream that belongs to one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The core.
    pub core: Core,
    /// The thread.
    pub tid: Tid,
    /// First byte.
    pub from: StreamOffset,
    /// The byte after the last.
    pub to: StreamOffset,
    /// When the range was closed: the thread was still on the core.
    pub closed: Tsc,
    /// When the thread was switched to the core, if this is its first range since.
    pub switched_in: Option<Tsc>,
    /// Trace was lost at the end of the range.
    pub truncated: bool,
    /// The time at which the thread came to the core while trace was being lost there. If the
    /// range is empty, all trace of the thread until it left is lost.
    pub came: Option<Tsc>,
    /// Records were lost before it.
    pub blind: Option<Blind>,
}

/// Records of a core were lost (`PERF_RECORD_LOST`), or are missing from the capture. It is not
/// known which threads ran in the meantime, nor whether trace was lost. Any thread may have run
/// that is not known to have been elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blind {
    /// The core.
    pub core: Core,
    /// First byte of the core's PT stream whose owner is not known.
    pub offset: StreamOffset,
    /// When the previous range was closed: a missing range may begin then.
    pub since: Tsc,
    /// When the next record was written.
    pub until: Tsc,
}

/// A block that ran with other bytes than its time suggests, as an emulated unit reports
/// ([`jportal_perf_abi::record::STALE_BLOCK`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleBlock {
    /// The block is the first one after this offset.
    pub offset: StreamOffset,
    /// First instruction.
    pub address: Address,
    /// The bytes that were executed.
    pub bytes: Vec<u8>,
}

/// A thread's stay on a core, whether it left trace or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// The thread.
    pub tid: Tid,
    /// When it came. If that was not seen: the end of the core's previous visit, or 0.
    pub came: Tsc,
    /// When it left. If that was not seen: when the next thread came, or the last known time of
    /// the core.
    pub left: Tsc,
    /// Whether a record says when it came.
    pub arrived: bool,
    /// Why it left. `None`: no record says that it left.
    pub departure: Option<Departure>,
}

/// What the sideband of one core says.
#[derive(Clone, Debug, Default)]
pub struct CoreSideband {
    /// In stream order.
    pub stretches: Vec<Stretch>,
    /// In stream order.
    pub stale: Vec<StaleBlock>,
    /// The places where records are missing, in order.
    pub blind: Vec<Blind>,
    /// The threads that were on the core, in order of time.
    pub visits: Vec<Visit>,
    /// `PERF_RECORD_LOST`: records for which the data ring had no room.
    pub lost_records: u64,
    /// Records that cannot be read or must be damaged, and missing pieces.
    pub damaged: u64,
    /// Records whose time was out of order.
    pub disordered: u64,
    /// Trace was lost after the last range, and no trace after the loss has been seen.
    off: bool,
    /// The thread that was switched to the core last, and when, while it has no range there
    /// since.
    switched_in: Option<(Tid, Tsc)>,
    /// The thread that came to the core after the loss, while it has no trace there.
    stay: Option<Stay>,
    /// The end of the last range.
    covered: StreamOffset,
    /// When that range was closed.
    closed: Tsc,
    /// The loss of records after the last range.
    pending: Option<Blind>,
    /// Damage follows the last record that was taken.
    torn: bool,
    /// The thread that is on the core, since when, and whether a record says so.
    on: Option<(Tid, Tsc, bool)>,
    /// The last known time of the core.
    last: Tsc,
}

/// A thread on a core where trace is being lost.
#[derive(Clone, Copy, Debug)]
struct Stay {
    tid: Tid,
    came: Tsc,
    left: Option<Tsc>,
}

/// Digests the sideband of `core`. `pieces` are its pieces in order; `None` is a piece that
/// cannot be read or is missing. The recorded trace of the core begins at `begin`: anything
/// before belongs to another recording of the same unit.
pub fn digest(core: Core, begin: StreamOffset, pieces: &[Option<Vec<u8>>]) -> CoreSideband {
    let mut side = CoreSideband { covered: begin, ..CoreSideband::default() };
    let misfits = misfits(pieces);
    let mut number = 0;
    for piece in pieces {
        let Some(piece) = piece else {
            side.damage();
            continue;
        };
        for record in RecordReader::new(piece) {
            let Ok(record) = record else {
                side.damage();
                continue;
            };
            let mut sample = record.sample;
            if let Some(time) = misfits.times.get(&number) {
                (sample.time, side.disordered) = (time.0, side.disordered + 1);
            }
            if misfits.ranges.contains(&number) {
                side.damage();
            } else {
                side.take_after_damage(core, &record.body, sample);
            }
            number += 1;
        }
    }
    side.end_stay(core);
    side.end_visit(side.last, None);
    if side.torn {
        side.missing(core, Tsc(u64::MAX));
    }
    side.pending = None;
    side.stretches.sort_by_key(|s| s.from);
    side.stale.sort_by_key(|s| s.offset);
    side
}

impl CoreSideband {
    /// This place holds no usable record: records may be missing.
    fn damage(&mut self) {
        self.damaged += 1;
        self.torn = true;
    }
    /// Takes the next usable record.
    fn take_after_damage(&mut self, core: Core, body: &Body, sample: SampleId) {
        if std::mem::take(&mut self.torn) {
            self.end_stay(core);
            self.end_visit(self.last, None);
            self.missing(core, Tsc(sample.time));
        }
        self.take(core, body, sample);
    }
    fn take(&mut self, core: Core, body: &Body, sample: SampleId) {
        let (tid, time) = (Tid(sample.tid), Tsc(sample.time));
        self.visit(body, tid, time);
        match *body {
            // LOST_SAMPLES counts samples, of which these events have none.
            Body::Lost { lost, .. } if lost > 0 => {
                self.lost_records = self.lost_records.saturating_add(lost);
                self.end_stay(core);
                self.end_visit(self.last, None);
                self.missing(core, time);
            }
            Body::Aux { offset, .. } if offset > self.covered.0 && self.pending.is_none() => {
                // The record that names the owner of the bytes in between is not in the
                // capture. It may have been anywhere after the last range.
                self.missing(core, time);
                self.take(core, body, sample);
            }
            Body::Aux { offset, size, flags } if size > 0 || flags & aux_flags::TRUNCATED != 0 => {
                let truncated = flags & aux_flags::TRUNCATED != 0;
                let came = self.stay.take_if(|s| s.tid == tid).map(|s| s.came);
                self.end_stay(core);
                self.off = truncated;
                self.closed = self.closed.max(time);
                self.covered = self.covered.max(StreamOffset(offset.saturating_add(size)));
                let blind = self.pending.take();
                let switched_in = self.switched_in.take_if(|s| s.0 == tid).map(|s| s.1);
                self.stretches.push(Stretch {
                    core,
                    tid,
                    from: StreamOffset(offset),
                    to: StreamOffset(offset.saturating_add(size)),
                    closed: time,
                    switched_in,
                    truncated,
                    came,
                    blind,
                });
            }
            Body::Switch { out: false, .. } => {
                self.end_stay(core);
                self.switched_in = Some((tid, time));
                self.stay = self.off.then_some(Stay { tid, came: time, left: None });
            }
            Body::Switch { out: true, .. } => {
                if let Some(stay) = self.stay.as_mut().filter(|s| s.tid == tid) {
                    stay.left = Some(time);
                }
            }
            Body::StaleBlock { offset, address, ref bytes } => self.stale.push(StaleBlock {
                offset: StreamOffset(offset),
                address: Address(address),
                bytes: bytes.clone(),
            }),
            _ => {}
        }
    }

    /// Records before the one at time `until` are missing. Trace may have been lost as well,
    /// and that loss may still continue when the next thread comes to the core.
    fn missing(&mut self, core: Core, until: Tsc) {
        let blind = Blind { core, offset: self.covered, since: self.closed, until };
        self.pending = Some(blind);
        self.blind.push(blind);
        (self.switched_in, self.off) = (None, true);
    }
    /// The recording was cut off, and the records of the core are complete up to `until`
    /// (`None`: the capture does not say). What the core did later is not known.
    pub fn silence(&self, core: Core, until: Option<Tsc>) -> Blind {
        Blind { core, offset: self.covered, since: until.unwrap_or(self.last), until: Tsc(u64::MAX) }
    }
    /// Compares the ranges with the trace that is present, `held`, whose pieces are in stream
    /// order. Trace after the last range has no known owner: the records of its threads are
    /// missing. If the trace ends inside a range or has no byte of it, the thread has lost the
    /// rest of the range: a VM that was killed leaves records whose trace was not written.
    pub fn confront(&mut self, core: Core, held: &[Range<u64>]) {
        if held.last().is_some_and(|last| last.end > self.covered.0) {
            let (offset, since) = (self.covered, self.closed);
            self.blind.push(Blind { core, offset, since, until: Tsc(u64::MAX) });
        }
        let mut kept: Vec<Stretch> = Vec::with_capacity(self.stretches.len());
        for mut s in self.stretches.drain(..) {
            let reached =
                held.partition_point(|piece| piece.start < s.to.0).checked_sub(1).map_or(0, |i| held[i].end);
            if s.from == s.to || reached >= s.to.0 {
                kept.push(s);
                continue;
            }
            s.truncated = true;
            s.to = s.from.max(StreamOffset(reached));
            if s.from == s.to {
                match kept.last_mut() {
                    // The thread stayed, and its loss continues.
                    Some(before) if before.tid == s.tid && before.truncated && s.switched_in.is_none() => {
                        before.closed = s.closed;
                        continue;
                    }
                    before => s.came = s.came.or(s.switched_in).or(before.map(|b| b.closed)),
                }
            }
            kept.push(s);
        }
        self.stretches = kept;
    }

    /// Updates which thread is on the core. A range of a thread that was not seen coming says
    /// so, too: switch records may be lost, and there is none for a thread that never leaves.
    fn visit(&mut self, body: &Body, tid: Tid, time: Tsc) {
        match body {
            // The kernel writes the AUX record after the switch.
            Body::Aux { .. } if self.on.is_none() && self.visits.last().is_some_and(|v| v.tid == tid) => {
                return;
            }
            Body::Aux { .. } | Body::Switch { .. } => {}
            _ => return,
        }
        if self.on.is_none_or(|on| on.0 != tid) {
            let (came, arrived) = match body {
                Body::Switch { out: false, .. } => (time, true),
                _ => (self.last, false),
            };
            self.end_visit(came, None);
            self.on = Some((tid, came, arrived));
        }
        self.last = self.last.max(time);
        if let Body::Switch { out: true, preempted } = body {
            let why = if *preempted { Departure::Preempted } else { Departure::Waited };
            self.end_visit(time, Some(why));
        }
    }

    fn end_visit(&mut self, left: Tsc, departure: Option<Departure>) {
        if let Some((tid, came, arrived)) = self.on.take().filter(|on| on.1 < left) {
            self.visits.push(Visit { tid, came, left, arrived, departure });
        }
    }

    /// The thread on the core left no trace: the unit was off all the time. The kernel writes
    /// the switch before the AUX record, so this is known only when the next thread comes.
    fn end_stay(&mut self, core: Core) {
        let Some(stay) = self.stay.take() else { return };
        let at = self.stretches.last().map_or(StreamOffset(0), |s| s.to);
        self.stretches.push(Stretch {
            core,
            tid: stay.tid,
            from: at,
            to: at,
            closed: stay.left.unwrap_or(stay.came),
            switched_in: Some(stay.came),
            truncated: false,
            came: Some(stay.came),
            blind: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_perf_abi::Record;

    /// Each record: thread, time, body.
    fn digested(records: &[(u32, u64, Body)]) -> Vec<(u32, u64, u64, u64, bool, Option<u64>)> {
        let mut bytes = Vec::new();
        for (tid, time, body) in records {
            let sample = SampleId { tid: *tid, time: *time, ..SampleId::default() };
            Record { body: body.clone(), sample }.encode(&mut bytes);
        }
        let side = digest(Core(0), StreamOffset(0), &[Some(bytes)]);
        let row = |s: &Stretch| (s.tid.0, s.from.0, s.to.0, s.closed.0, s.truncated, s.came.map(|t| t.0));
        side.stretches.iter().map(row).collect()
    }

    const IN: Body = Body::Switch { out: false, preempted: false };
    const OUT: Body = Body::Switch { out: true, preempted: false };
    const fn aux(offset: u64, size: u64, truncated: bool) -> Body {
        Body::Aux { offset, size, flags: if truncated { aux_flags::TRUNCATED } else { 0 } }
    }

    #[test]
    fn who_runs_while_the_unit_is_off_has_an_empty_stretch() {
        let got = digested(&[
            (1, 10, IN),
            (1, 15, aux(0, 100, true)),
            (1, 20, OUT),
            (2, 20, IN),
            (2, 30, OUT),
            (1, 30, IN),
            (1, 40, OUT),
            (1, 40, aux(100, 50, false)),
            (2, 40, IN),
            (2, 50, OUT),
            (2, 50, aux(150, 0, false)),
        ]);
        // Thread 2 left no trace. Thread 1 came while trace was being lost. Afterwards nothing
        // is lost, though thread 2 has no bytes.
        let want = [
            (1, 0, 100, 15, true, None),
            (2, 100, 100, 30, false, Some(20)),
            (1, 100, 150, 40, false, Some(30)),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn who_was_on_the_core() {
        let mut bytes = Vec::new();
        for (tid, time, body) in [
            // Thread 1 was there before the first record.
            (1, 10, aux(0, 100, false)),
            (1, 20, OUT),
            (1, 21, aux(100, 10, false)),
            (2, 30, IN),
            (2, 35, aux(110, 0, true)),
            // The end of thread 2's visit was not seen.
            (3, 50, IN),
            (3, 60, Body::Switch { out: true, preempted: true }),
            (2, 70, IN),
            (2, 80, aux(110, 5, false)),
        ] {
            let sample = SampleId { tid, time, ..SampleId::default() };
            Record { body, sample }.encode(&mut bytes);
        }
        let side = digest(Core(0), StreamOffset(0), &[Some(bytes)]);
        let got: Vec<_> = side.visits.iter().map(|v| (v.tid.0, v.came.0, v.left.0)).collect();
        assert_eq!(got, [(1, 0, 20), (2, 30, 50), (3, 50, 60), (2, 70, 80)]);
        let seen: Vec<_> = side.visits.iter().map(|v| (v.arrived, v.departure)).collect();
        let (waited, preempted) = (Some(Departure::Waited), Some(Departure::Preempted));
        assert_eq!(seen, [(false, waited), (true, None), (true, preempted), (true, None)]);
    }

    #[test]
    fn the_first_range_of_a_stay_says_when_the_thread_came() {
        let mut bytes = Vec::new();
        for (tid, time, body) in [
            (1, 10, IN),
            (1, 15, aux(0, 100, false)),
            (1, 20, aux(100, 50, false)),
            (2, 25, IN),
            (2, 30, aux(150, 10, false)),
        ] {
            let sample = SampleId { tid, time, ..SampleId::default() };
            Record { body, sample }.encode(&mut bytes);
        }
        let side = digest(Core(0), StreamOffset(0), &[Some(bytes)]);
        let came: Vec<_> = side.stretches.iter().map(|s| s.switched_in.map(|t| t.0)).collect();
        assert_eq!(came, [Some(10), None, Some(25)]);
    }

    fn side(records: &[(u32, u64, Body)]) -> CoreSideband {
        let mut bytes = Vec::new();
        for (tid, time, body) in records {
            let sample = SampleId { tid: *tid, time: *time, ..SampleId::default() };
            Record { body: body.clone(), sample }.encode(&mut bytes);
        }
        digest(Core(0), StreamOffset(0), &[Some(bytes)])
    }
    fn blind(offset: u64, since: u64, until: u64) -> Blind {
        Blind { core: Core(0), offset: StreamOffset(offset), since: Tsc(since), until: Tsc(until) }
    }

    /// The second recording of a unit: its offsets continue those of the first.
    #[test]
    fn trace_that_begins_after_the_streams_start_lacks_nothing() {
        let sample = SampleId { tid: 1, time: 20, ..SampleId::default() };
        let bytes = Record { body: aux(500, 100, false), sample }.to_bytes();
        let from = |begin| digest(Core(0), StreamOffset(begin), &[Some(bytes.clone())]);
        assert_eq!(from(500).blind, []);
        assert_eq!(from(500).stretches[0].blind, None);
        assert_eq!(from(400).blind, [blind(400, 0, 20)]);
    }

    #[test]
    fn where_records_are_lost_nobody_is_named() {
        let lost = |n| Body::Lost { id: 1, lost: n };
        let side = side(&[
            (1, 10, IN),
            (1, 15, aux(0, 100, false)),
            // Thread 1 left, and thread 2 came, wrote 50 bytes and left; or another thread did.
            (3, 40, lost(4)),
            (3, 40, IN),
            (3, 50, OUT),
            (3, 50, aux(150, 10, false)),
            // No byte is missing. Even so, a thread may have come, and the unit may have been
            // off.
            (3, 60, lost(1)),
            (3, 60, lost(2)),
            (4, 65, IN),
            (4, 70, aux(160, 10, false)),
        ]);
        let known: Vec<_> =
            side.stretches.iter().map(|s| (s.tid.0, s.from.0, s.came.map(|t| t.0), s.blind)).collect();
        let want = [
            (1, 0, None, None),
            (3, 150, Some(40), Some(blind(100, 15, 40))),
            (4, 160, Some(65), Some(blind(160, 50, 60))),
        ];
        assert_eq!((known, side.lost_records), (want.to_vec(), 7));
        let all = [blind(100, 15, 40), blind(160, 50, 60), blind(160, 50, 60)];
        assert_eq!(side.blind, all);
    }

    #[test]
    fn a_range_that_cannot_be_is_nobodys() {
        let records = [
            (1, 10, IN),
            (1, 15, aux(0, 100, false)),
            (1, 20, aux(u64::MAX, 50, false)),
            (2, 30, aux(150, 10, false)),
            (2, 40, aux(160, 10, false)),
        ];
        let side = side(&records);
        let known: Vec<_> = side.stretches.iter().map(|s| (s.tid.0, s.from.0, s.to.0, s.blind)).collect();
        let want = [(1, 0, 100, None), (2, 150, 160, Some(blind(100, 15, 30))), (2, 160, 170, None)];
        assert_eq!((known, side.damaged), (want.to_vec(), 1));
    }

    #[test]
    fn a_piece_that_cannot_be_read_may_have_held_anything() {
        let record = |tid, time, body| {
            let sample = SampleId { tid, time, ..SampleId::default() };
            Some(Record { body, sample }.to_bytes())
        };
        let pieces = [record(1, 15, aux(0, 100, false)), None, record(2, 30, aux(100, 10, false))];
        let side = digest(Core(0), StreamOffset(0), &pieces);
        assert_eq!(side.stretches[1].blind, Some(blind(100, 15, 30)));
        // At the end it is not known which threads ran later.
        let side = digest(Core(0), StreamOffset(0), &pieces[..2]);
        assert_eq!(side.blind, [blind(100, 15, u64::MAX)]);
    }

    #[test]
    fn trace_that_no_record_names_is_nobodys() {
        let mut side =
            side(&[(1, 10, IN), (1, 15, aux(0, 100, false)), (2, 20, IN), (2, 30, aux(130, 10, false))]);
        assert_eq!(side.stretches[1].blind, Some(blind(100, 15, 30)));
        side.confront(Core(0), &[0..100, 100..140]);
        assert_eq!(side.blind, [blind(100, 15, 30)]);
        side.confront(Core(0), &[0..100, 100..141]);
        assert_eq!(side.blind[1], blind(140, 30, u64::MAX));
    }

    #[test]
    fn who_left_trace_that_is_not_there_has_lost_it() {
        let records = [
            (1, 10, IN),
            (1, 15, aux(0, 100, false)),
            (1, 20, aux(100, 50, false)),
            (1, 25, aux(150, 50, false)),
            (2, 30, IN),
            (2, 40, aux(200, 10, false)),
            (2, 50, aux(210, 10, false)),
            (3, 60, IN),
            (3, 70, aux(220, 0, false)),
            (1, 80, IN),
            (1, 90, aux(220, 80, false)),
        ];
        let found = |held: &[Range<u64>]| -> Vec<_> {
            let mut side = side(&records);
            side.confront(Core(0), held);
            let row = |s: &Stretch| (s.tid.0, s.from.0, s.to.0, s.closed.0, s.truncated, s.came.map(|t| t.0));
            side.stretches.iter().map(row).collect()
        };
        let whole = found(&[0..130, 130..300]);
        assert!(whole.len() == 6 && whole.iter().all(|s| !s.4 && s.5.is_none()), "{whole:?}");
        // Cut inside the second range. There is no trace of the third range, whose thread
        // stayed, nor of the ranges that follow.
        let cut = [
            (1, 0, 100, 15, false, None),
            (1, 100, 130, 25, true, None),
            (2, 200, 200, 50, true, Some(30)),
            (1, 220, 220, 90, true, Some(80)),
        ];
        assert_eq!(found(std::slice::from_ref(&(0..130))), cut);
        // All trace of the second thread is missing.
        let hole = found(&[0..200, 250..300]);
        assert_eq!(hole[3..], [(2, 200, 200, 50, true, Some(30)), (1, 220, 300, 90, false, None)]);
    }

    #[test]
    fn the_unit_may_stay_off_to_the_end() {
        let got = digested(&[(1, 15, aux(0, 100, true)), (1, 20, OUT), (2, 20, IN)]);
        assert_eq!(got, [(1, 0, 100, 15, true, None), (2, 100, 100, 20, false, Some(20))]);
    }
}
