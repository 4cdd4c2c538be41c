// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The flight recorder: for each core, the last bytes of a ring that is overwritten, and the
//! threads to which they belong.
//!
//! The unit writes its ring in a circle. At each stop of the unit an AUX record states its
//! place in the ring. Two consecutive records therefore determine how much was written between
//! them, except for whole turns of the ring. [`Keeper`] keeps the records of the last turn;
//! [`Keeper::window`] joins them with the bytes when the unit is stopped. The TSC after each
//! PSB decides whether bytes are older or newer than a record, which reveals a turn that no
//! record shows.

use crate::error::Error;
use jportal_perf_abi::record::{Body, Record, RecordReader, SampleId, aux_flags};
use jportal_perf_abi::ring::Consumer;
use jportal_pt_packet::{Packet, PacketDecoder, find_psbs, nearest_tsc};
use std::collections::VecDeque;

/// A window shorter than this many PSB distances may contain no PSB.
const LEAST_PSBS: u64 = 4;
/// How much the clocks of records and of packets may differ, in TSC ticks.
const CLOCK_SLACK: u64 = 1 << 18;
/// Maximum length of PSB+.
const PSB_PLUS: usize = 256;

/// Bytes of the longest record of a window, with its trailer.
const LONGEST_RECORD: usize = 96;

/// Makes room for `more` items. Dumps happen in a VM that may have no memory left.
fn reserve<T>(to: &mut Vec<T>, more: usize) -> Result<(), Error> {
    to.try_reserve(more).map_err(|_| no_memory::<T>(more))
}

fn no_memory<T>(items: usize) -> Error {
    Error::Device(jportal_perf_abi::Error::Memory { bytes: items * size_of::<T>() })
}

/// Refuses a window that may contain no PSB, because it could not be decoded.
pub(crate) fn check_window(bytes: u64, psb_period: u8) -> Result<(), Error> {
    let least = LEAST_PSBS << (u32::from(psb_period) + 11);
    if bytes >= least {
        return Ok(());
    }
    let rule = "it must be four times the distance of PSB packets and must fit into the AUX buffer";
    Err(Error::Configuration { field: "JPortalSnapshot", value: format!("{bytes} bytes"), rule })
}

/// A stay: the records up to one stop of the unit. Its AUX record is the last one.
#[derive(Debug)]
struct Stay {
    records: Vec<Record>,
    /// Position after the bytes of the stay.
    to: u64,
}

impl Stay {
    /// When the thread was switched in, or the time of the first record.
    fn began(&self) -> u64 {
        self.records.first().map_or(0, |r| r.sample.time)
    }
    /// When the unit stopped.
    fn ended(&self) -> u64 {
        self.records.last().map_or(0, |r| r.sample.time)
    }
}

/// What is kept of one core between two dumps.
#[derive(Debug)]
pub(crate) struct Keeper {
    core: u32,
    /// Bytes of the ring, a power of two; `keep` is the length of a window.
    ring: u64,
    keep: u64,
    stays: VecDeque<Stay>,
    /// Records after the last AUX record.
    open: Vec<Record>,
    /// Position at the last stop: the place in the ring plus whole turns. It starts with one
    /// turn, so that subtracting up to a turn does not underflow.
    head: u64,
    /// Position at which the first stay begins.
    from: u64,
    /// Number of records that were dropped since tracing began.
    forgotten: u64,
    /// When tracing began, or what is earlier was forgotten: bytes with an earlier time do not
    /// belong to the window.
    since: u64,
}

/// The part of a dump that concerns one core.
#[derive(Debug, Default)]
pub(crate) struct CoreWindow {
    pub(crate) core: u32,
    /// Begins with a PSB; empty when there is none.
    pub(crate) trace: Vec<u8>,
    /// The records of those bytes; their offsets count from the first byte.
    pub(crate) sideband: Vec<u8>,
    /// Set if something was traced before the window: the time from which the running threads
    /// are known.
    pub(crate) known_since: Option<u64>,
}

/// A PSB of the window: its position and time.
type Psb = (u64, u64);

/// Stays in order, each with the position of its first byte.
type Owners = VecDeque<(u64, Stay)>;

impl Keeper {
    /// Keeps the last `keep` bytes of the AUX ring of `core`, whose unit is stopped.
    pub(crate) fn new(core: u32, aux: &Consumer, keep: u64, since: u64) -> Self {
        let ring = aux.size();
        let head = ring + aux.place();
        Self {
            core,
            ring,
            keep: keep.min(ring),
            stays: VecDeque::new(),
            open: Vec::new(),
            head,
            from: head,
            forgotten: 0,
            since,
        }
    }

    /// Takes records that the unit wrote.
    ///
    /// # Errors
    /// Without memory for them.
    pub(crate) fn take(&mut self, records: &[u8]) -> Result<(), Error> {
        for record in RecordReader::new(records).flatten() {
            reserve(&mut self.open, 1)?;
            self.stays.try_reserve(1).map_err(|_| no_memory::<Stay>(self.stays.len()))?;
            match record.body {
                Body::Aux { offset, .. } => self.end_stay(offset, record),
                Body::Switch { .. } | Body::Lost { .. } | Body::StaleBlock { .. } => self.open.push(record),
                // The metadata describes the threads.
                _ => {}
            }
        }
        Ok(())
    }

    /// Forgets what was traced before `time`: the metadata does not describe it any more.
    pub(crate) fn forget_before(&mut self, time: u64) {
        if time <= self.since {
            return;
        }
        self.since = time;
        while self.stays.front().is_some_and(|first| first.ended() < time) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.stays.pop_front() {
            self.forgotten += first.records.len() as u64;
            self.from = first.to;
        }
    }

    fn end_stay(&mut self, place: u64, aux: Record) {
        let to = self.head + self.ahead(place);
        if to == self.head {
            // Without bytes the stay cannot be in a window. Its losses and stale blocks are
            // kept for the next stay.
            self.open.retain(|r| matches!(r.body, Body::Lost { .. } | Body::StaleBlock { .. }));
            return;
        }
        // `take` has made room for one more.
        let mut records = std::mem::take(&mut self.open);
        records.push(aux);
        self.head = to;
        self.stays.push_back(Stay { records, to });
        while self.stays.front().is_some_and(|first| self.head - first.to >= self.keep) {
            self.forget_first();
        }
    }

    /// The distance from the last stop forward to `place`.
    fn ahead(&self, place: u64) -> u64 {
        place.wrapping_sub(self.head) & (self.ring - 1)
    }

    /// The window up to the present. The unit must be stopped, and every record taken. None of
    /// its content will be in the next window. `now`: the time from which tracing counts as
    /// new.
    ///
    /// # Errors
    /// Without memory for the window. It is then lost.
    pub(crate) fn window(&mut self, aux: &Consumer, now: u64) -> Result<CoreWindow, Error> {
        // The distance is 0 unless a record was lost.
        self.head += self.ahead(aux.place());
        let mut trace = Vec::new();
        let window = aux.last(self.keep, &mut trace).map_err(Error::Device).and_then(|()| {
            let begin = self.head - trace.len() as u64;
            let psbs = self.psbs(&trace, begin, now)?;
            let (from, stays) = self.owners(psbs)?;
            self.cut(trace, begin, from, stays)
        });
        *self = Self { since: now, ..Self::new(self.core, aux, self.keep, now) };
        window
    }

    /// The PSBs of this recording, in order. Going back in the ring, their times must fall and
    /// not precede `since`; the first PSB that violates this and all before it belong to older
    /// content.
    fn psbs(&self, trace: &[u8], begin: u64, now: u64) -> Result<Vec<Psb>, Error> {
        let mut psbs: Vec<Psb> = Vec::new();
        reserve(&mut psbs, find_psbs(trace).count())?;
        psbs.extend(find_psbs(trace).filter_map(|at| Some((begin + at as u64, time_of(&trace[at..], now)?))));
        let mut later = u64::MAX;
        let old = psbs.iter().rposition(|&(_, time)| {
            let fits = time >= self.since && time <= later;
            later = time;
            !fits
        });
        psbs.drain(..old.map_or(0, |at| at + 1));
        Ok(psbs)
    }

    /// The PSB at which the window begins, and the stays that wrote the bytes after it: in
    /// order, each with the position of its first byte.
    fn owners(&mut self, psbs: Vec<Psb>) -> Result<(Option<Psb>, Owners), Error> {
        let mut owners = VecDeque::new();
        let Some(&first) = psbs.first() else { return Ok((None, owners)) };
        owners.try_reserve(self.stays.len()).map_err(|_| no_memory::<(u64, Stay)>(self.stays.len()))?;
        let mut start = first;
        while let Some(stay) = self.stays.pop_back() {
            let before = self.stays.back().map_or(self.from, |s| s.to);
            if stay.to <= first.0 {
                break;
            }
            // A stay that wrote more than a turn owns all of the window before its end. The
            // sign of it is that even the oldest PSB is newer than the beginning of the stay.
            let whole = before > first.0 && first.1 > stay.began();
            let from = if whole { first.0 } else { before };
            let late =
                psbs.iter().any(|p| (from..stay.to).contains(&p.0) && p.1 > stay.ended() + CLOCK_SLACK);
            if late {
                // No record names the thread that wrote these bytes: begin at the next PSB
                // after them.
                match psbs.iter().find(|p| p.0 >= stay.to) {
                    Some(&psb) => start = psb,
                    None => return Ok((None, VecDeque::new())),
                }
                break;
            }
            owners.push_front((from, stay));
            if from <= first.0 {
                break;
            }
        }
        Ok((Some(start), owners))
    }

    fn cut(
        &self,
        mut trace: Vec<u8>,
        begin: u64,
        start: Option<Psb>,
        owners: Owners,
    ) -> Result<CoreWindow, Error> {
        let last = self.stays.back().map_or(self.since, Stay::ended);
        let (from, known) = start.unwrap_or((self.head, last));
        let mut window = CoreWindow { core: self.core, ..CoreWindow::default() };
        let records = 1 + owners.iter().map(|(_, stay)| stay.records.len()).sum::<usize>();
        reserve(&mut window.sideband, records * LONGEST_RECORD)?;
        // The window begins exactly where tracing began, and no record was dropped: nothing is
        // missing.
        let whole = self.forgotten == 0 && from == self.from;
        let nothing = start.is_none() && self.head == self.from && self.forgotten == 0;
        if !whole && !nothing {
            window.known_since = Some(known);
            let cpu = self.core;
            let sample = owners.front().and_then(|o| o.1.records.last()).map(|r| r.sample);
            let sample = SampleId { tid: 0, time: known, cpu, ..sample.unwrap_or_default() };
            let body = Body::Lost { id: sample.id, lost: self.forgotten.max(1) };
            Record { body, sample }.encode(&mut window.sideband);
        }
        trace.drain(..(from - begin) as usize);
        window.trace = trace;
        for (first, stay) in owners {
            self.tell(&mut window, from, first.max(from), known, stay);
        }
        if window.trace.is_empty() && window.known_since.is_none() {
            window.sideband.clear();
        }
        Ok(window)
    }

    /// Writes the records of a stay, whose bytes in the window begin at `first`, as if nothing
    /// had been overwritten.
    fn tell(&self, window: &mut CoreWindow, from: u64, first: u64, known: u64, stay: Stay) {
        for mut record in stay.records {
            match &mut record.body {
                Body::Aux { offset, size, flags } => {
                    *flags &= !aux_flags::OVERWRITE;
                    (*offset, *size) = (first - from, stay.to - first);
                }
                Body::StaleBlock { offset, .. } => {
                    let back = stay.to.wrapping_sub(*offset) & (self.ring - 1);
                    if stay.to - back < first {
                        continue;
                    }
                    *offset = stay.to - back - from;
                }
                // The thread that runs at the beginning of the window is shown as switched in
                // at that time.
                Body::Switch { out: false, .. } if window.known_since.is_some() => {
                    record.sample.time = record.sample.time.max(known);
                }
                _ if window.known_since.is_some() && record.sample.time < known => continue,
                _ => {}
            }
            record.encode(&mut window.sideband);
        }
    }
}

/// The time in the PSB+ at the beginning of `bytes`.
fn time_of(bytes: &[u8], near: u64) -> Option<u64> {
    let mut packets = PacketDecoder::new(&bytes[..bytes.len().min(PSB_PLUS)]);
    while let Ok(Some((_, packet))) = packets.next_packet() {
        match packet {
            Packet::Tsc(low) => return Some(nearest_tsc(low, near)),
            Packet::PsbEnd => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
