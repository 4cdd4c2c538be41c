// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which thread ran when on a core: sideband records → stretches of the PT stream.
//!
//! Every byte of a core's AUX stream lies in the range of one `PERF_RECORD_AUX`, whose
//! `sample_id` names the thread it was recorded for: the kernel stops the PT unit and
//! writes the record when the thread leaves the core, and at the watermark while it runs
//! (kernel/events/ring_buffer.c, `perf_aux_output_end`).

use crate::order::misfits;
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
    /// First byte behind.
    pub to: StreamOffset,
    /// When the range was closed: the thread still was on the core.
    pub closed: Tsc,
    /// When the thread was switched to the core, if this is its first range since.
    pub switched_in: Option<Tsc>,
    /// Trace was lost at the end of the range.
    pub truncated: bool,
    /// The thread came to the core at this time, when trace was being lost there. An empty range: all that it did
    /// before it left is lost.
    pub came: Option<Tsc>,
    /// Records were lost in front of it.
    pub blind: Option<Blind>,
}

/// Records of a core were lost (`PERF_RECORD_LOST`), or are not there: who ran meanwhile, and whether trace was lost, is not
/// known, and may have been any thread that is not known to have been elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blind {
    /// The core.
    pub core: Core,
    /// First byte of its PT stream of which the owner is not known.
    pub offset: StreamOffset,
    /// When the last range before was closed: one that is missing may begin there.
    pub since: Tsc,
    /// When the first record behind was written.
    pub until: Tsc,
}

/// A block that an emulated unit says ran with other bytes than its time suggests
/// ([`jportal_perf_abi::record::STALE_BLOCK`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleBlock {
    /// It is the first one behind.
    pub offset: StreamOffset,
    /// First instruction.
    pub address: Address,
    /// The bytes that ran.
    pub bytes: Vec<u8>,
}

/// A thread on a core, whether it left trace or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// The thread.
    pub tid: Tid,
    /// When it came; where that was not seen, the end of the core's visit before, or 0.
    pub came: Tsc,
    /// When it left; where that was not seen, when the next thread came, or the last time known of the core.
    pub left: Tsc,
}

/// The sideband of one core, digested.
#[derive(Clone, Debug, Default)]
pub struct CoreSideband {
    /// In stream order.
    pub stretches: Vec<Stretch>,
    /// In stream order.
    pub stale: Vec<StaleBlock>,
    /// Where records are missing, in order.
    pub blind: Vec<Blind>,
    /// Who was on the core, in order of time.
    pub visits: Vec<Visit>,
    /// `PERF_RECORD_LOST`: records the data ring had no room for.
    pub lost_records: u64,
    /// Records that cannot be read or cannot be what was written, and pieces that are not there.
    pub damaged: u64,
    /// Records whose time was out of order.
    pub disordered: u64,
    /// Trace has been lost behind the last range, and there is none yet behind the loss.
    off: bool,
    /// Who was switched to the core last, and has no range there since.
    switched_in: Option<(Tid, Tsc)>,
    /// Who came to the core since, and has no trace there yet.
    stay: Option<Stay>,
    /// Behind the last range.
    covered: StreamOffset,
    /// When that was closed.
    closed: Tsc,
    /// Records are missing behind the last range.
    pending: Option<Blind>,
    /// Something damaged stands behind the last record that was taken.
    torn: bool,
    /// Who is on the core, and since when.
    on: Option<(Tid, Tsc)>,
    /// The last time known of the core.
    last: Tsc,
}

/// A thread on a core where trace is being lost.
#[derive(Clone, Copy, Debug)]
struct Stay {
    tid: Tid,
    came: Tsc,
    left: Option<Tsc>,
}

/// Digests the sideband of `core`, given as its pieces in order; `None` is one that cannot be read or is missing. The trace
/// recorded of it begins at `begin`: what is before belongs to another recording of the same unit.
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
                side.take_behind_damage(core, &record.body, sample);
            }
            number += 1;
        }
    }
    side.end_stay(core);
    side.end_visit(side.last);
    if side.torn {
        side.missing(core, Tsc(u64::MAX));
    }
    side.pending = None;
    side.stretches.sort_by_key(|s| s.from);
    side.stale.sort_by_key(|s| s.offset);
    side
}

impl CoreSideband {
    /// Something stands here that says nothing: records may be missing.
    fn damage(&mut self) {
        self.damaged += 1;
        self.torn = true;
    }
    /// The next record that says something.
    fn take_behind_damage(&mut self, core: Core, body: &Body, sample: SampleId) {
        if std::mem::take(&mut self.torn) {
            self.end_stay(core);
            self.end_visit(self.last);
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
                self.end_visit(self.last);
                self.missing(core, time);
            }
            Body::Aux { offset, .. } if offset > self.covered.0 && self.pending.is_none() => {
                // What says whose the bytes in between are is not in the capture, and may have stood anywhere since the last range.
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

    /// Records before the one of `until` are missing. Trace may have been lost as well, and who comes to the core may find that
    /// going on.
    fn missing(&mut self, core: Core, until: Tsc) {
        let blind = Blind { core, offset: self.covered, since: self.closed, until };
        self.pending = Some(blind);
        self.blind.push(blind);
        (self.switched_in, self.off) = (None, true);
    }
    /// The recording was cut off, and of the core all is there up to `until`; `None`: nobody said so. What it did later is not known.
    pub fn silence(&self, core: Core, until: Option<Tsc>) -> Blind {
        Blind { core, offset: self.covered, since: until.unwrap_or(self.last), until: Tsc(u64::MAX) }
    }
    /// The trace that is there, its pieces in stream order. Behind the last range it is nobody's: the records of its threads are
    /// missing. Of a range that it ends in, or has no byte of, the thread has lost the rest: a VM that was killed leaves records whose
    /// trace was still to come.
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
                    // It stayed, and its loss goes on.
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

    /// Who is on the core. A range of a thread that did not come says so, too: switches may be lost, and there is none
    /// for a thread that never leaves.
    fn visit(&mut self, body: &Body, tid: Tid, time: Tsc) {
        match body {
            // The kernel writes the range behind the switch.
            Body::Aux { .. } if self.on.is_none() && self.visits.last().is_some_and(|v| v.tid == tid) => {
                return;
            }
            Body::Aux { .. } | Body::Switch { .. } => {}
            _ => return,
        }
        if self.on.is_none_or(|on| on.0 != tid) {
            let came = match body {
                Body::Switch { out: false, .. } => time,
                _ => self.last,
            };
            self.end_visit(came);
            self.on = Some((tid, came));
        }
        self.last = self.last.max(time);
        if matches!(body, Body::Switch { out: true, .. }) {
            self.end_visit(time);
        }
    }

    fn end_visit(&mut self, left: Tsc) {
        if let Some((tid, came)) = self.on.take().filter(|on| on.1 < left) {
            self.visits.push(Visit { tid, came, left });
        }
    }

    /// The thread on the core left no trace: the unit was off all the time. The kernel writes the switch before the
    /// AUX record, so that is known only when the next thread comes.
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

    /// Records: who, when, what.
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
        // Thread 2 left no trace, 1 came while it was lost; afterwards nothing is lost, though 2 has no bytes.
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
            // Was there before the first record.
            (1, 10, aux(0, 100, false)),
            (1, 20, OUT),
            (1, 21, aux(100, 10, false)),
            (2, 30, IN),
            (2, 35, aux(110, 0, true)),
            // Its end was not seen.
            (3, 50, IN),
            (3, 60, OUT),
            (2, 70, IN),
            (2, 80, aux(110, 5, false)),
        ] {
            let sample = SampleId { tid, time, ..SampleId::default() };
            Record { body, sample }.encode(&mut bytes);
        }
        let side = digest(Core(0), StreamOffset(0), &[Some(bytes)]);
        let got: Vec<_> = side.visits.iter().map(|v| (v.tid.0, v.came.0, v.left.0)).collect();
        assert_eq!(got, [(1, 0, 20), (2, 30, 50), (3, 50, 60), (2, 70, 80)]);
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

    /// The second recording of a unit, whose positions go on.
    #[test]
    fn trace_that_begins_behind_the_streams_start_lacks_nothing() {
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
            // 1 left, 2 came and left, and wrote 50 bytes; or somebody else.
            (3, 40, lost(4)),
            (3, 40, IN),
            (3, 50, OUT),
            (3, 50, aux(150, 10, false)),
            // No byte is missing: still somebody may have come, and the unit may have been off.
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
        // At the end it is not known who ran later.
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
        // Cut inside the second range: of the third, whose thread has stayed, nothing is there, and of those behind.
        let cut = [
            (1, 0, 100, 15, false, None),
            (1, 100, 130, 25, true, None),
            (2, 200, 200, 50, true, Some(30)),
            (1, 220, 220, 90, true, Some(80)),
        ];
        assert_eq!(found(std::slice::from_ref(&(0..130))), cut);
        // A hole over all of the second thread's.
        let hole = found(&[0..200, 250..300]);
        assert_eq!(hole[3..], [(2, 200, 200, 50, true, Some(30)), (1, 220, 300, 90, false, None)]);
    }

    #[test]
    fn the_unit_may_stay_off_to_the_end() {
        let got = digested(&[(1, 15, aux(0, 100, true)), (1, 20, OUT), (2, 20, IN)]);
        assert_eq!(got, [(1, 0, 100, 15, true, None), (2, 100, 100, 20, false, Some(20))]);
    }
}
