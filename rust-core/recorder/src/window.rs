// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The flight recorder: of each core, the last bytes of a ring that is overwritten, and who they belong to.
//!
//! The unit writes its ring in a circle. An AUX record says at each stop where in the ring the unit stands, so two records that
//! follow each other tell how much was written between them, but for whole turns of the ring. [`Keeper`] keeps the records of
//! the last turn; [`Keeper::window`] joins them with the bytes when the unit stands still. What begins at a PSB has a
//! time, and that decides whether bytes are older or newer than a record, so a turn that nobody saw is found.

use crate::error::Error;
use jportal_perf_abi::record::{Body, Record, RecordReader, SampleId, aux_flags};
use jportal_perf_abi::ring::Consumer;
use jportal_pt_packet::{Packet, PacketDecoder, find_psbs, nearest_tsc};
use std::collections::VecDeque;

/// A window of fewer PSB distances than this may have no PSB at all.
const LEAST_PSBS: u64 = 4;
/// Clocks of records and of packets agree so far: ticks of the TSC.
const CLOCK_SLACK: u64 = 1 << 18;
/// PSB+ is no longer than this.
const PSB_PLUS: usize = 256;

/// A window in which no PSB may be cannot be decoded.
pub(crate) fn check_window(bytes: u64, psb_period: u8) -> Result<(), Error> {
    let least = LEAST_PSBS << (u32::from(psb_period) + 11);
    if bytes >= least {
        return Ok(());
    }
    let rule = "it must be four times the distance of PSB packets and must fit into the AUX buffer";
    Err(Error::Configuration { field: "JPortalSnapshot", value: format!("{bytes} bytes"), rule })
}

/// The records of one stop of the unit: its AUX record last.
#[derive(Debug)]
struct Stay {
    records: Vec<Record>,
    /// Position behind the bytes of the stay.
    to: u64,
}

impl Stay {
    /// When the thread came, or the first thing known of it.
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
    /// Bytes of the ring, a power of two, and how many of them a window has.
    ring: u64,
    keep: u64,
    stays: VecDeque<Stay>,
    /// Records behind the last AUX record.
    open: Vec<Record>,
    /// Position at the last stop: the place in the ring, and so many turns that it never is too small.
    head: u64,
    /// Position at which the first stay begins.
    from: u64,
    /// Records that were let go since tracing began.
    forgotten: u64,
    /// When tracing began: bytes of an earlier time are those of another recording.
    since: u64,
}

/// What a dump has of one core.
#[derive(Debug, Default)]
pub(crate) struct CoreWindow {
    pub(crate) core: u32,
    /// From a PSB on; empty when there is none.
    pub(crate) trace: Vec<u8>,
    /// The records of those bytes; positions count from the first one.
    pub(crate) sideband: Vec<u8>,
    /// Something was traced before the window: since when what ran is known.
    pub(crate) known_since: Option<u64>,
}

/// A PSB of the window: where, and when.
type Psb = (u64, u64);

impl Keeper {
    /// Keeps the last `keep` bytes of the AUX ring of `core`, whose unit stands still.
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
    pub(crate) fn take(&mut self, records: &[u8]) {
        for record in RecordReader::new(records).flatten() {
            match record.body {
                Body::Aux { offset, .. } => self.end_stay(offset, record),
                Body::Switch { .. } | Body::Lost { .. } | Body::StaleBlock { .. } => self.open.push(record),
                // Of threads the metadata tells.
                _ => {}
            }
        }
    }

    fn end_stay(&mut self, place: u64, aux: Record) {
        let to = self.head + self.ahead(place);
        if to == self.head {
            // Nothing of it can be in a window; what is told besides goes with the next one.
            self.open.retain(|r| matches!(r.body, Body::Lost { .. } | Body::StaleBlock { .. }));
            return;
        }
        let mut records = std::mem::take(&mut self.open);
        records.push(aux);
        self.head = to;
        self.stays.push_back(Stay { records, to });
        while self.stays.front().is_some_and(|first| self.head - first.to >= self.keep) {
            if let Some(first) = self.stays.pop_front() {
                self.forgotten += first.records.len() as u64;
                self.from = first.to;
            }
        }
    }

    /// How far `place` is ahead of the last stop.
    fn ahead(&self, place: u64) -> u64 {
        place.wrapping_sub(self.head) & (self.ring - 1)
    }

    /// What there is now, while the unit stands still and every record has been taken; nothing of it will be in the
    /// next window. `now`: tracing begins anew.
    pub(crate) fn window(&mut self, aux: &Consumer, now: u64) -> CoreWindow {
        // Zero unless a record was lost.
        self.head += self.ahead(aux.place());
        let mut trace = Vec::new();
        aux.last(self.keep, &mut trace);
        let begin = self.head - trace.len() as u64;
        let psbs = self.psbs(&trace, begin, now);
        let (from, stays) = self.owners(psbs);
        let window = self.cut(trace, begin, from, stays);
        *self = Self { since: now, ..Self::new(self.core, aux, self.keep, now) };
        window
    }

    /// The PSBs of this recording, in order: going back in the ring they are older and older.
    fn psbs(&self, trace: &[u8], begin: u64, now: u64) -> Vec<Psb> {
        let found = find_psbs(trace).filter_map(|at| Some((begin + at as u64, time_of(&trace[at..], now)?)));
        let mut psbs: Vec<Psb> = found.collect();
        let mut later = u64::MAX;
        let old = psbs.iter().rposition(|&(_, time)| {
            let fits = time >= self.since && time <= later;
            later = time;
            !fits
        });
        psbs.drain(..old.map_or(0, |at| at + 1));
        psbs
    }

    /// Where the window begins, and whose what behind it is: the stays in order, each with its first byte.
    fn owners(&mut self, psbs: Vec<Psb>) -> (Option<Psb>, Vec<(u64, Stay)>) {
        let Some(&first) = psbs.first() else { return (None, Vec::new()) };
        let mut owners = VecDeque::new();
        let mut start = first;
        while let Some(stay) = self.stays.pop_back() {
            let before = self.stays.back().map_or(self.from, |s| s.to);
            if stay.to <= first.0 {
                break;
            }
            // A stay of more than a turn has all of the window before its end, and then even the oldest PSB is younger than it.
            let whole = before > first.0 && first.1 > stay.began();
            let from = if whole { first.0 } else { before };
            let late =
                psbs.iter().any(|p| (from..stay.to).contains(&p.0) && p.1 > stay.ended() + CLOCK_SLACK);
            if late {
                // Who wrote that was not told.
                match psbs.iter().find(|p| p.0 >= stay.to) {
                    Some(&psb) => start = psb,
                    None => return (None, Vec::new()),
                }
                break;
            }
            owners.push_front((from, stay));
            if from <= first.0 {
                break;
            }
        }
        (Some(start), owners.into())
    }

    fn cut(
        &self,
        mut trace: Vec<u8>,
        begin: u64,
        start: Option<Psb>,
        owners: Vec<(u64, Stay)>,
    ) -> CoreWindow {
        let last = self.stays.back().map_or(self.since, Stay::ended);
        let (from, known) = start.unwrap_or((self.head, last));
        let mut window = CoreWindow { core: self.core, ..CoreWindow::default() };
        // The first PSB since tracing began, at the very place: nothing is missing.
        let whole = self.forgotten == 0 && from == self.from;
        let nothing = start.is_none() && self.head == self.from && self.forgotten == 0;
        if !whole && !nothing {
            window.known_since = Some(known);
            let cpu = self.core;
            let sample = owners.first().and_then(|o| o.1.records.last()).map(|r| r.sample);
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
        window
    }

    /// Writes the records of a stay, whose bytes in the window begin at `first`, as if nothing had been overwritten.
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
                // Who had the core when the window begins has it since then, as far as the window tells.
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

/// The time that the PSB+ at the beginning of `bytes` states.
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
