// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Turns a loss-free capture into a degraded one.

use crate::error::Error;
use crate::map::{Cut, Map};
use crate::overflow::{Overflow, Overrun, overruns};
use crate::ring::{self, Arrivals, Drain, Lost};
use crate::shape::{self, Shape};
use crate::sideband::{self, LostRecords, SidebandTruth};
use crate::trace::{CoreTrace, Owned};
use jportal_capture::header::{packet_flags, sources};
use jportal_capture::{CaptureReader, CaptureWriter, Counter, EndReason, Header, LossNote, LossReason};
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::{Body, Record};
use jportal_units::{Core, StreamOffset, Tid, Tsc};
use std::collections::BTreeMap;
use std::path::Path;

/// The oldest format whose records of a whole recording contain everything that those of the
/// present format do.
pub(crate) const OLDEST: (u16, u16) = (2, 1);

/// How much trace the drain loses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// The drain writes this number of bytes per second of the TSC's time, for each core.
    Bandwidth(f64),
    /// This share of the trace, from 0 to 1: the bandwidth that comes nearest is searched for.
    Share(f64),
    /// No drain: the shape says where the unit stops.
    Places(Shape),
}

/// The losses to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSettings {
    /// Bytes of the AUX buffer of a core; `None`: the size in the recording, or a smaller one
    /// if the trace is too short for it ([`fitting_ring`]).
    pub aux: Option<u64>,
    /// Loss by a slow drain, or in the places of a shape instead.
    pub drain: Option<Amount>,
    /// Milliseconds after which the drain checks the buffer without being woken.
    pub timer_ms: f64,
    /// Loss by overflows of the unit.
    pub overflow: Option<Overflow>,
    /// Loss of records of the sideband.
    pub sideband: Option<LostRecords>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// The cause of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The AUX buffer was full.
    Truncated,
    /// The core's first PSB is missing: the trace after it up to `until` cannot be decoded.
    Start,
    /// The unit's internal buffer was overrun.
    Overflow {
        /// A FUP says where the flow resumes.
        fup: bool,
    },
}

/// The truth about one gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapTruth {
    /// The cause.
    pub reason: Reason,
    /// First lost byte in the loss-free stream.
    pub from: StreamOffset,
    /// First byte after the lost ones in the loss-free stream.
    pub to: StreamOffset,
    /// Where the gap lies in the degraded stream: the offset of the first byte after it.
    pub place: StreamOffset,
    /// When the first lost byte was written, as exactly as the trace says.
    pub since: Tsc,
    /// When trace resumes; `None` if it does not.
    pub until: Option<Tsc>,
    /// The threads whose bytes were lost, and how many, in order of time.
    pub threads: Vec<(Tid, u64)>,
}

impl GapTruth {
    /// Bytes lost.
    pub fn bytes(&self) -> u64 {
        self.to.0 - self.from.0
    }
}

/// The losses of one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreTruth {
    /// The core.
    pub core: Core,
    /// Bytes in the loss-free stream.
    pub bytes: u64,
    /// Bytes in the degraded stream.
    pub kept: u64,
    /// Bytes inserted in the place of lost ones: OVF and the packets that follow it.
    pub inserted: u64,
    /// Passes of the drain.
    pub passes: u64,
    /// Stays of threads on the core that full buffers affect: the thread that runs when the
    /// unit stops, and those that arrive while it is off. Each has a gap in its flow there.
    pub stays: u64,
    /// The gaps, ascending.
    pub gaps: Vec<GapTruth>,
    /// Missing records, ascending.
    pub sideband: Vec<SidebandTruth>,
}

impl CoreTruth {
    /// Bytes lost.
    pub fn lost(&self) -> u64 {
        self.gaps.iter().map(GapTruth::bytes).sum()
    }
}

/// The losses of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTruth {
    /// Bytes in the loss-free capture.
    pub bytes: u64,
    /// Bytes lost.
    pub lost: u64,
    /// Gaps that contain bytes of the thread.
    pub gaps: u64,
}

/// The result of degrading a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Degraded {
    /// Bytes of the AUX buffer.
    pub aux: u64,
    /// Bytes per second that the drain writes, if it has a limit.
    pub bandwidth: Option<f64>,
    /// By core.
    pub cores: Vec<CoreTruth>,
    /// By OS thread.
    pub threads: BTreeMap<u32, ThreadTruth>,
}

impl Degraded {
    /// Bytes of the loss-free capture.
    pub fn bytes(&self) -> u64 {
        self.cores.iter().map(|c| c.bytes).sum()
    }
    /// Bytes lost.
    pub fn lost(&self) -> u64 {
        self.cores.iter().map(CoreTruth::lost).sum()
    }
    /// Share of the trace that was lost.
    pub fn share(&self) -> f64 {
        share(self.lost(), self.bytes())
    }
}

/// `part` of `all`; 0 if `all` is 0.
pub fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Called from time to time with the number of bytes read and the number of bytes to be read in
/// all.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// The planned losses of one core.
struct CorePlan {
    core: Core,
    settings: LossSettings,
    overruns: Vec<Overrun>,
    /// Arrivals of the trace after the overruns.
    arrivals: Arrivals,
    run: ring::Run,
}

/// The planned losses of a capture.
pub struct Plan<'a> {
    reader: &'a CaptureReader,
    settings: LossSettings,
    aux: u64,
    /// Bytes per second.
    bandwidth: Option<f64>,
    cores: Vec<CorePlan>,
}

impl<'a> Plan<'a> {
    /// Reads all trace and decides what is lost.
    ///
    /// # Errors
    /// If there is no trace, if the capture has lost something already, or if a setting is not
    /// possible.
    pub fn make(
        reader: &'a CaptureReader,
        settings: LossSettings,
        progress: &mut Progress<'_>,
    ) -> Result<Self, Error> {
        check(reader, &settings)?;
        let cores = reader.cores();
        let total = total(reader);
        let mut done = 0;
        let mut plans = Vec::new();
        for core in cores {
            plans.push(CorePlan::make(reader, core, settings)?);
            done += reader.pt_bytes(core);
            progress(done, 2 * total);
        }
        let longest = plans.iter().map(|p| p.arrivals.len).max().unwrap_or(0);
        let aux = settings.aux.unwrap_or_else(|| fitting_ring(reader.header().pt.aux_bytes, longest));
        let mut plan = Self { reader, settings, aux, bandwidth: None, cores: plans };
        match settings.drain {
            Some(Amount::Bandwidth(bandwidth)) => plan.drain(bandwidth),
            Some(Amount::Share(share)) => plan.find(share),
            Some(Amount::Places(_)) | None => {}
        }
        Ok(plan)
    }

    fn ticks_per_second(&self) -> f64 {
        self.reader.header().tsc_khz as f64 * 1000.0
    }

    /// Lets every core's drain write `bandwidth` bytes per second.
    fn drain(&mut self, bandwidth: f64) {
        self.bandwidth = Some(bandwidth);
        let ticks = self.ticks_per_second();
        let timer = (self.settings.timer_ms / 1000.0 * ticks) as u64;
        let drain = Drain { speed: bandwidth / ticks, timer };
        for plan in &mut self.cores {
            plan.run = ring::run(&plan.arrivals, self.aux, drain, self.settings.seed, plan.core.0);
        }
    }

    /// The share of the trace that the drains lose.
    fn drained_share(&self) -> f64 {
        let bytes = |f: fn(&CorePlan) -> u64| self.cores.iter().map(f).sum::<u64>();
        share(bytes(|p| p.run.bytes()), bytes(|p| p.arrivals.len))
    }

    /// Searches for the bandwidth that loses the share `wanted`. The slower the drain, the more
    /// is lost, so the search halves the interval. Finally it takes the best of all tries,
    /// because the model is not strictly monotone.
    fn find(&mut self, wanted: f64) {
        let (mut low, mut high) = (1f64.ln(), 1e12f64.ln());
        let mut best = (f64::INFINITY, high);
        for _ in 0..48 {
            let middle = (low + high) / 2.0;
            self.drain(middle.exp());
            let got = self.drained_share();
            if (got - wanted).abs() < best.0 {
                best = ((got - wanted).abs(), middle);
            }
            match got > wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        self.drain(best.1.exp());
    }

    /// Writes the remaining trace to `output`.
    ///
    /// # Errors
    /// If `output` is the input, or cannot be written.
    pub fn write(&self, output: &Path, progress: &mut Progress<'_>) -> Result<Degraded, Error> {
        if same_file(self.reader.path(), output) {
            return Err(Error::SameFile { path: output.to_owned() });
        }
        let mut writer = CaptureWriter::create(output)?;
        writer.header(&self.header())?;
        for piece in self.reader.metadata_pieces() {
            writer.metadata(&self.reader.read(piece)?)?;
        }
        let total = total(self.reader);
        let mut degraded = Degraded {
            aux: self.aux,
            bandwidth: self.bandwidth,
            cores: Vec::new(),
            threads: BTreeMap::new(),
        };
        let mut done = total;
        for plan in &self.cores {
            let trace = CoreTrace::read(self.reader, plan.core)?;
            let truth = plan.write(&trace, &mut writer)?;
            count_threads(&trace, &truth, &mut degraded.threads);
            degraded.cores.push(truth);
            done += trace.bytes.len() as u64;
            progress(done, 2 * total);
        }
        self.finish(writer, &degraded)?;
        Ok(degraded)
    }

    fn header(&self) -> Header {
        let mut header = self.reader.header().clone();
        header.pt.aux_bytes = self.aux;
        let detail = format!("{}; degraded: {}", header.pt.detail, self.words());
        header.pt.detail = detail.as_str().into();
        header
    }

    /// The settings as text.
    fn words(&self) -> String {
        let mut all = vec![format!("aux={}", self.aux), format!("seed={}", self.settings.seed)];
        if let Some(bandwidth) = self.bandwidth {
            all.push(format!("bandwidth={bandwidth:.0} timer={}ms", self.settings.timer_ms));
        }
        match self.settings.drain {
            Some(Amount::Places(Shape::Every(bytes))) => all.push(format!("every={bytes}")),
            Some(Amount::Places(Shape::Switches)) => all.push("at switches".into()),
            Some(Amount::Places(Shape::Ends)) => all.push("without ends".into()),
            _ => {}
        }
        if let Some(o) = self.settings.overflow {
            all.push(format!("overflow every {} of {}", o.every, o.swallow));
        }
        if let Some(l) = self.settings.sideband {
            all.push(format!("{} records lost every {}", l.records, l.every));
        }
        all.join(" ")
    }

    fn finish(&self, writer: CaptureWriter, degraded: &Degraded) -> Result<(), Error> {
        let end = self.reader.completeness().end.as_ref();
        let mut counters = end.map(|e| e.counters.clone()).unwrap_or_default();
        let gaps = degraded.cores.iter().map(|c| c.gaps.len() as u64).sum();
        for (name, value) in [("degraded.lost_bytes", degraded.lost()), ("degraded.gaps", gaps)] {
            counters.push(Counter { name: name.into(), value });
        }
        let reason = end.map_or(EndReason::Exit, |e| e.reason);
        let text = end.map(|e| e.text.text().into_owned()).unwrap_or_default();
        writer.finish(reason, &text, counters)?;
        Ok(())
    }
}

fn total(reader: &CaptureReader) -> u64 {
    reader.cores().into_iter().map(|c| reader.pt_bytes(c)).sum()
}

fn check(reader: &CaptureReader, settings: &LossSettings) -> Result<(), Error> {
    let pt = &reader.header().pt;
    if total(reader) == 0 {
        return Err(Error::NoTrace);
    }
    if reader.version() < OLDEST {
        return Err(Error::OldFormat { found: reader.version() });
    }
    if pt.source != sources::EMULATED {
        return Err(Error::Source { source_name: pt.source_name() });
    }
    if let Some(what) = missing(reader) {
        return Err(Error::NotWhole { what });
    }
    if let Some(size) = settings.aux.filter(|s| !s.is_power_of_two() || *s < 8192) {
        return Err(Error::RingSize { size });
    }
    if settings.overflow.is_some() && pt.has(packet_flags::RETURN_COMPRESSION) {
        return Err(Error::CompressedReturns);
    }
    check_drain(reader, settings)
}

fn check_drain(reader: &CaptureReader, settings: &LossSettings) -> Result<(), Error> {
    let amount = |what, value, expected| Err(Error::Amount { what, value, expected });
    match settings.drain {
        Some(Amount::Share(s)) if !(0.0..=0.99).contains(&s) => amount("a share", s, "0 to 0.99"),
        Some(Amount::Bandwidth(b)) if !(b.is_finite() && b >= 1.0) => {
            amount("a bandwidth", b, "at least a byte per second")
        }
        Some(Amount::Places(Shape::Every(0))) => amount("a distance", 0.0, "at least 1 byte"),
        Some(Amount::Places(_)) => Ok(()),
        Some(_) if !(0.001..=1e6).contains(&settings.timer_ms) => {
            amount("a timer", settings.timer_ms, "0.001 to 1000000 ms")
        }
        Some(_) if reader.header().tsc_khz == 0 => Err(Error::NoFrequency),
        _ => Ok(()),
    }
}

/// What the recording lacks, as text; `None` if it is whole.
fn missing(reader: &CaptureReader) -> Option<String> {
    let c = reader.completeness();
    if c.end.is_none() {
        return Some("it was cut off".into());
    }
    if !c.is_whole() {
        return Some("parts of the file are damaged".into());
    }
    if c.unknown_chunks > 0 {
        return Some(format!("{} chunks are of kinds this version does not know", c.unknown_chunks));
    }
    if let Some(note) = reader.losses().first() {
        return Some(format!("the recorder noted a loss on core {}: {}", note.core, note.text));
    }
    reader.check().first().map(ToString::to_string)
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// The size of the recording's ring, or a smaller one that the longest stream fills many times.
pub fn fitting_ring(recorded: u64, longest: u64) -> u64 {
    const LEAST: u64 = 16 << 10;
    let fitting = (longest / 64).checked_ilog2().map_or(0, |n| 1 << n);
    recorded.min(fitting).max(LEAST).next_power_of_two()
}

impl CorePlan {
    fn make(reader: &CaptureReader, core: Core, settings: LossSettings) -> Result<Self, Error> {
        let mut trace = CoreTrace::read(reader, core)?;
        trace.check_packets()?;
        let mut found = Vec::new();
        if let Some(overflow) = settings.overflow {
            found = overruns(&trace, overflow, settings.seed)?;
            trace = trace.cut(&cuts(&found));
        }
        let arrivals = trace.arrivals(reader.header().start_tsc)?;
        let mut run = ring::Run::default();
        if let Some(Amount::Places(shape)) = settings.drain {
            run.lost = shape::lost(&trace, &arrivals, shape, settings.seed);
        }
        Ok(Self { core, settings, overruns: found, arrivals, run })
    }

    /// Writes the core's streams; returns their losses.
    fn write(&self, trace: &CoreTrace, writer: &mut CaptureWriter) -> Result<CoreTruth, Error> {
        let overrun = cuts(&self.overruns);
        let lost = self.run.lost.iter().map(|l| Cut { from: l.from, to: l.to, insert: Vec::new() });
        let lost = Map::new(lost.collect());
        let flowing = trace.cut(&overrun);
        let mut sideband = Vec::new();
        let mut records = truncate(&flowing, &self.run.lost, &self.arrivals, &lost);
        let stays = stays(&records);
        let gone =
            self.settings.sideband.map(|l| sideband::lose(&mut records, l, self.settings.seed, self.core));
        let gone = gone.unwrap_or_default();
        records.iter().for_each(|r| r.encode(&mut sideband));
        writer.sideband(self.core, &sideband)?;
        let mut kept = 0;
        lost.apply(&flowing.bytes, |piece| {
            let at = StreamOffset(kept);
            kept += piece.len() as u64;
            writer.pt(self.core, at, piece)
        })?;
        // The recorder writes a loss note for each TRUNCATED AUX record. A stream that begins
        // late has none.
        for l in self.run.lost.iter().filter(|l| l.from > 0) {
            writer.loss(&note(self.core, l, &lost))?;
        }
        for g in &gone {
            writer.loss(&note_of_records(self.core, g))?;
        }
        let gaps = self.gaps(trace, &overrun, &lost)?;
        let inserted = gaps.iter().filter(|g| matches!(g.reason, Reason::Overflow { .. })).count();
        debug_assert!(inserted <= self.overruns.len());
        let lost: u64 = gaps.iter().map(GapTruth::bytes).sum();
        let bytes = trace.bytes.len() as u64;
        let inserted = (kept + lost).saturating_sub(bytes);
        let passes = self.run.passes;
        Ok(CoreTruth { core: self.core, bytes, kept, inserted, passes, stays, gaps, sideband: gone })
    }

    /// The gaps, in offsets of the loss-free stream.
    fn gaps(&self, trace: &CoreTrace, overrun: &Map, lost: &Map) -> Result<Vec<GapTruth>, Error> {
        let mut gaps: Vec<GapTruth> = Vec::new();
        for l in &self.run.lost {
            gaps.push(GapTruth {
                reason: if l.from == 0 { Reason::Start } else { Reason::Truncated },
                from: StreamOffset(overrun.old_place(l.from)),
                to: StreamOffset(overrun.old_place(l.to)),
                place: StreamOffset(lost.new_place(l.from)),
                since: Tsc(l.since),
                until: l.until.map(Tsc),
                threads: Vec::new(),
            });
        }
        for o in &self.overruns {
            let begin = overrun.new_place(o.cut.from);
            let end = begin + o.cut.insert.len() as u64;
            // An OVF that overlaps with bytes that the full buffer lost is not visible.
            if self.run.lost.iter().any(|l| l.from < end && l.to > begin) {
                continue;
            }
            gaps.push(GapTruth {
                reason: Reason::Overflow { fup: o.fup },
                from: StreamOffset(o.cut.from),
                to: StreamOffset(o.cut.to),
                place: StreamOffset(lost.new_place(begin)),
                since: Tsc(self.arrivals.time(begin)),
                until: Some(Tsc(self.arrivals.time(end))),
                threads: Vec::new(),
            });
        }
        gaps.sort_by_key(|g| g.from);
        name_threads(trace, &mut gaps);
        Ok(gaps)
    }
}

fn cuts(overruns: &[Overrun]) -> Map {
    Map::new(overruns.iter().map(|o| o.cut.clone()).collect())
}

fn note(core: Core, lost: &Lost, map: &Map) -> LossNote {
    LossNote {
        core: core.0,
        offset: map.new_place(lost.from),
        reason: LossReason::AuxFull,
        tsc: lost.since,
        // The recorder cannot know the number of bytes.
        bytes: u64::MAX,
        text: "AUX buffer full".into(),
    }
}

fn note_of_records(core: Core, gone: &SidebandTruth) -> LossNote {
    LossNote {
        core: core.0,
        offset: gone.to.0,
        reason: LossReason::SidebandFull,
        tsc: gone.until.0,
        bytes: u64::MAX,
        text: format!("{} records lost, data ring full", gone.records).as_str().into(),
    }
}

/// Bytes of `owned` in `gap`.
fn overlap(owned: &Owned, gap: &GapTruth) -> u64 {
    owned.to.min(gap.to.0).saturating_sub(owned.from.max(gap.from.0))
}

fn name_threads(trace: &CoreTrace, gaps: &mut [GapTruth]) {
    let mut first = 0;
    for owned in trace.owned() {
        while gaps.get(first).is_some_and(|g| g.to.0 <= owned.from) {
            first += 1;
        }
        for gap in gaps[first..].iter_mut().take_while(|g| g.from.0 < owned.to) {
            let bytes = overlap(&owned, gap);
            match gap.threads.last_mut().filter(|t| t.0.0 == owned.tid) {
                Some(last) => last.1 += bytes,
                None => gap.threads.push((Tid(owned.tid), bytes)),
            }
        }
    }
}

fn count_threads(trace: &CoreTrace, truth: &CoreTruth, threads: &mut BTreeMap<u32, ThreadTruth>) {
    for owned in trace.owned() {
        threads.entry(owned.tid).or_default().bytes += owned.to - owned.from;
    }
    for gap in &truth.gaps {
        for &(tid, bytes) in &gap.threads {
            let thread = threads.entry(tid.0).or_default();
            thread.lost += bytes;
            thread.gaps += 1;
        }
    }
}

/// The records of `trace` after `lost` was removed from it.
///
/// A unit that stops writes its AUX record at that moment, with TRUNCATED, and before the
/// thread leaves the core. The record's time is that of the next offset whose time is known, so
/// that no packet before it is later. A thread that runs while the unit is off has switches but
/// no AUX record.
fn truncate(trace: &CoreTrace, lost: &[Lost], arrivals: &Arrivals, map: &Map) -> Vec<Record> {
    let mut out: Vec<Record> = Vec::with_capacity(trace.records.len());
    // Index in `out` of the first record after the last AUX record.
    let mut behind = 0;
    for record in &trace.records {
        match record.body {
            Body::Aux { offset, size, .. } => {
                let range = (offset, offset + size);
                let pieces = pieces(range, lost);
                // Earlier threads without trace have switches in between but no AUX record, so
                // only the last switch counts.
                let last = out[behind..].iter().rposition(|r| matches!(r.body, Body::Switch { .. }));
                let leaves = last.filter(|i| matches!(out[behind + i].body, Body::Switch { out: true, .. }));
                let mut at = leaves.map_or(out.len(), |i| behind + i);
                let latest = out.get(at).map_or(record.sample.time, |r| r.sample.time);
                for &(from, to, truncated) in &pieces {
                    let flags = if truncated { aux_flags::TRUNCATED } else { 0 };
                    let body = Body::Aux { offset: map.new_place(from), size: to - from, flags };
                    if to == range.1 {
                        out.push(Record { body, sample: record.sample });
                        continue;
                    }
                    let mut sample = record.sample;
                    sample.time = next_known(arrivals, to).min(latest);
                    out.insert(at, Record { body, sample });
                    at += 1;
                }
                behind = out.len();
            }
            Body::StaleBlock { offset, .. } if map.is_cut(offset) => {}
            Body::StaleBlock { offset, address, ref bytes } => {
                let body = Body::StaleBlock { offset: map.new_place(offset), address, bytes: bytes.clone() };
                out.push(Record { body, sample: record.sample });
            }
            _ => out.push(record.clone()),
        }
    }
    out
}

/// Counts the stays of [`CoreTruth::stays`].
fn stays(records: &[Record]) -> u64 {
    let (mut all, mut off) = (0, false);
    for record in records {
        let touched = match record.body {
            Body::Aux { flags, .. } if flags & aux_flags::TRUNCATED != 0 => true,
            Body::Aux { size, .. } if size > 0 => {
                off = false;
                continue;
            }
            Body::Switch { out: false, .. } => off,
            _ => false,
        };
        all += u64::from(touched);
        off |= touched;
    }
    all
}

/// The first known time after `offset`.
fn next_known(arrivals: &Arrivals, offset: u64) -> u64 {
    let at = arrivals.points.partition_point(|p| p.0 <= offset);
    arrivals.points.get(at).map_or(u64::MAX, |p| p.1)
}

/// The parts of `range` that are not lost, and whether the unit stopped at the end of each.
fn pieces(range: (u64, u64), lost: &[Lost]) -> Vec<(u64, u64, bool)> {
    let (mut from, to) = range;
    let mut all = Vec::new();
    let first = lost.partition_point(|l| l.to <= from);
    for l in &lost[first..] {
        if l.from > to {
            break;
        }
        if l.from > from {
            all.push((from, l.from, true));
        }
        from = l.to;
    }
    if from < to {
        all.push((from, to, false));
    }
    all
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
