// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Joins the trace of a perf.data file and the metadata of a capture into one capture.

use crate::error::Error;
use crate::layout::config;
use crate::packets;
use crate::read::{DataReader, DataRecord, Event, TraceInfo, TracePiece, Trailer, TrailerLayout};
use jportal_capture::header::{packet_flags, return_pops, sources};
use jportal_capture::{
    CaptureReader, CaptureWriter, Counter, EndReason, Header, MAX_CORE, PtConfig, TimeConversion,
};
use jportal_perf_abi::bindings as abi;
use jportal_perf_abi::record::{HEADER_BYTES, SAMPLE_ID_BYTES, SAMPLE_TYPE};
use jportal_pt_packet::{LastIp, Packet};
use jportal_units::{Address, AddressRange, Core, StreamOffset};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::path::Path;

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Cores with trace.
    pub cores: u64,
    /// Bytes of trace.
    pub trace_bytes: u64,
    /// Records of the sideband.
    pub records: u64,
    /// Records left out because they belong to no core or have no time. (perf synthesises some
    /// for the state before the recording.)
    pub left_out: u64,
}

/// Bytes of trace copied at a time.
const PORTION: u64 = 1 << 20;
/// Bytes of records collected before they are written.
const GATHERED: usize = 1 << 18;
/// The most bytes that perf appends to trace to fill its last eight bytes.
const PADDING: usize = 7;
/// The number of packets with an address that are examined on each core, to check that the
/// trace is that of the code cache.
const LOOKED_AT: usize = 10_000;
/// The number of processes that an error names.
const NAMED: usize = 5;

/// Writes `output`: the metadata of `metadata`, the trace and the records of `data`.
///
/// # Errors
/// When `data` is no perf.data file with a decodable trace of Intel PT, or not of the
/// metadata's process; when something cannot be read or written.
pub fn import(
    data: impl Read + Seek,
    metadata: &CaptureReader,
    output: &Path,
    progress: &mut crate::Progress<'_>,
) -> Result<Imported, Error> {
    let canonical = |p: &Path| std::fs::canonicalize(p).ok();
    if canonical(output).is_some_and(|o| Some(o) == canonical(metadata.path())) {
        return Err(Error::SameFile { path: output.to_owned() });
    }
    let mut reader = DataReader::open(data)?;
    let info = reader.trace_info()?;
    let events = &reader.events;
    let event = *events
        .iter()
        .find(|e| u64::from(e.kind) == info.pmu_type)
        .ok_or(Error::NoEvent { pmu_type: info.pmu_type })?;
    event.check()?;
    let ids = TrailerLayout::of(events)?;
    let writer = CaptureWriter::create(output)?;
    let done = join(&mut reader, (info, event, ids), metadata, writer, progress);
    let done = done.and_then(|done| check_range(output).map(|()| done));
    if done.is_err() {
        // An incomplete capture is of no use. If it cannot be removed, the error of the import
        // suffices.
        let _ = std::fs::remove_file(output);
    }
    done
}

/// Writes the whole output.
fn join<R: Read + Seek>(
    reader: &mut DataReader<R>,
    (info, event, ids): (TraceInfo, Event, TrailerLayout),
    metadata: &CaptureReader,
    mut writer: CaptureWriter,
    progress: &mut crate::Progress<'_>,
) -> Result<Imported, Error> {
    writer.header(&header(metadata.header(), &info, &event, 0))?;
    for piece in metadata.metadata_pieces() {
        writer.metadata(&metadata.read(piece)?)?;
    }
    let mut importer = Importer {
        writer,
        info,
        pid: metadata.header().pid,
        cores: BTreeMap::new(),
        pids: BTreeSet::new(),
        done: Imported::default(),
    };
    importer.all(reader, &ids, progress)?;
    importer.finish(metadata, &event)
}

/// The metadata's header with the configuration of the trace's unit.
fn header(of: &Header, info: &TraceInfo, event: &Event, cores: u32) -> Header {
    let mut packets = packet_flags::TSC;
    for (bits, flag) in [(config::MTC, packet_flags::MTC), (config::CYC, packet_flags::CYC)] {
        packets |= if event.has(bits) { flag } else { 0 };
    }
    if !event.has(config::NO_RETURN_COMPRESSION) {
        packets |= packet_flags::RETURN_COMPRESSION;
    }
    // If the trace was exported from this capture, its header names the unit that recorded it.
    // A capture of metadata only names none.
    let emulated = of.pt.source == sources::EMULATED;
    let pt = PtConfig {
        source: if emulated { sources::EMULATED } else { sources::PERF },
        cores,
        packets,
        return_pop: if emulated { of.pt.return_pop } else { return_pops::ALWAYS },
        mtc_period: event.field(config::MTC_PERIOD),
        cyc_threshold: event.field(config::CYC_THRESHOLD),
        psb_period: event.field(config::PSB_PERIOD),
        tsc_ctc_numerator: info.ratio.0,
        tsc_ctc_denominator: info.ratio.1,
        nominal_ratio: info.nominal,
        perf_config: event.config,
        sample_type: SAMPLE_TYPE,
        aux_bytes: of.pt.aux_bytes,
        filter: of.pt.filter.clone(),
        detail: "imported from a perf.data file".into(),
    };
    // The times of records are converted, so perf's time is the TSC.
    let time = TimeConversion { valid: 1, shift: 0, mult: 1, zero: 0 };
    Header { pt, time, ..of.clone() }
}

/// The streams of one core.
#[derive(Default)]
struct CoreState {
    /// End of the trace written so far.
    end: u64,
    /// Number of zeros that follow it, which may be perf's padding.
    zeros: u64,
    /// End of the last range that an AUX record names.
    named: u64,
    records: Vec<u8>,
}

struct Importer {
    writer: CaptureWriter,
    info: TraceInfo,
    pid: u32,
    cores: BTreeMap<u32, CoreState>,
    pids: BTreeSet<u32>,
    done: Imported,
}

impl Importer {
    fn all<R: Read + Seek>(
        &mut self,
        reader: &mut DataReader<R>,
        ids: &TrailerLayout,
        progress: &mut crate::Progress<'_>,
    ) -> Result<(), Error> {
        let all = reader.data_bytes();
        loop {
            let piece = match reader.next(ids)? {
                None => return Ok(()),
                Some(DataRecord::Trace(piece)) => piece,
                Some(DataRecord::Kernel { kind, misc, body, trailer }) => {
                    self.record(kind, misc, body, trailer)?;
                    continue;
                }
            };
            self.trace(reader, &piece)?;
            progress(reader.done(), all);
        }
    }

    fn record(&mut self, kind: u32, misc: u16, body: &[u8], trailer: Trailer) -> Result<(), Error> {
        // Records that perf synthesises for the state before the recording have neither time
        // nor core.
        if trailer.time == 0 || trailer.time == u64::MAX || trailer.cpu > MAX_CORE {
            self.done.left_out += 1;
            return Ok(());
        }
        if self.pids.len() < NAMED || trailer.pid == self.pid {
            self.pids.insert(trailer.pid);
        }
        let size = (HEADER_BYTES + body.len() + SAMPLE_ID_BYTES) as u64;
        let Ok(size) = u16::try_from(size) else {
            self.done.left_out += 1;
            return Ok(());
        };
        let clock = &self.info.clock;
        let state = self.cores.entry(trailer.cpu).or_default();
        if kind == abi::PERF_RECORD_AUX
            && let [Some(offset), Some(size)] = [0, 8].map(|at| body.get(at..).and_then(<[u8]>::first_chunk))
        {
            state.named =
                state.named.max(u64::from_le_bytes(*offset).saturating_add(u64::from_le_bytes(*size)));
        }
        let to = &mut state.records;
        to.extend(kind.to_le_bytes());
        to.extend(misc.to_le_bytes());
        to.extend(size.to_le_bytes());
        let start = to.len();
        to.extend(body);
        if matches!(kind, abi::PERF_RECORD_FORK | abi::PERF_RECORD_EXIT)
            && let Some(time) = to.get_mut(start + 16..start + 24).and_then(|t| t.first_chunk_mut())
        {
            *time = clock.tsc(u64::from_le_bytes(*time)).0.to_le_bytes();
        }
        to.extend(trailer.pid.to_le_bytes());
        to.extend(trailer.tid.to_le_bytes());
        to.extend(clock.tsc(trailer.time).0.to_le_bytes());
        to.extend(u64::from(trailer.cpu).to_le_bytes());
        to.extend(0u64.to_le_bytes());
        self.done.records += 1;
        if to.len() >= GATHERED {
            self.writer.sideband(Core(trailer.cpu), to)?;
            to.clear();
        }
        Ok(())
    }

    fn trace<R: Read + Seek>(&mut self, reader: &mut DataReader<R>, piece: &TracePiece) -> Result<(), Error> {
        if piece.cpu > MAX_CORE {
            let remedy = "it belongs to no core; record without `--per-thread`";
            return Err(Error::Event { what: "trace", remedy });
        }
        let core = Core(piece.cpu);
        let state = self.cores.entry(piece.cpu).or_default();
        let known = state.end + state.zeros;
        if piece.offset < state.end {
            return Err(Error::Order { at: piece.at, core, offset: piece.offset, known });
        }
        // Zeros before the start of this piece were trace; those after it were padding.
        let zeros = state.zeros.min(piece.offset - state.end);
        self.writer.pt(core, StreamOffset(state.end), &[0; PADDING][..zeros as usize])?;
        (state.end, state.zeros) = (piece.offset, 0);
        let mut at = 0;
        let mut bytes = Vec::new();
        while at < piece.size {
            bytes.resize((piece.size - at).min(PORTION) as usize, 0);
            reader.trace(piece, at, &mut bytes)?;
            at += bytes.len() as u64;
            let tail = bytes.iter().rev().take(PADDING).take_while(|b| **b == 0).count();
            let zeros = if at == piece.size { tail } else { 0 };
            let kept = &bytes[..bytes.len() - zeros];
            self.writer.pt(core, StreamOffset(state.end), kept)?;
            (state.end, state.zeros) = (state.end + kept.len() as u64, zeros as u64);
        }
        Ok(())
    }

    fn finish(mut self, metadata: &CaptureReader, event: &Event) -> Result<Imported, Error> {
        if !self.pids.is_empty() && !self.pids.contains(&self.pid) {
            return Err(Error::OtherProcess { pid: self.pid, found: self.pids.into_iter().collect() });
        }
        for (&core, state) in &self.cores {
            self.writer.sideband(Core(core), &state.records)?;
            // Zeros that no AUX record covers are padding.
            let zeros = &[0; PADDING][..state.zeros.min(state.named.saturating_sub(state.end)) as usize];
            self.writer.pt(Core(core), StreamOffset(state.end), zeros)?;
            self.done.cores += u64::from(state.end > 0);
        }
        self.done.trace_bytes = self.writer.written().pt;
        if self.done.trace_bytes == 0 {
            return Err(Error::NoAuxtrace);
        }
        let cores = self.cores.keys().next_back().map_or(0, |c| c + 1);
        self.writer.header(&header(metadata.header(), &self.info, event, cores))?;
        let end = metadata.completeness().end.as_ref();
        let reason = end.map_or(EndReason::Exit, |e| e.reason);
        let text = end.map(|e| e.text.text().into_owned()).unwrap_or_default();
        let count = |name: &str, value| Counter { name: name.into(), value };
        let counters = vec![
            count("imported.records", self.done.records),
            count("imported.left_out", self.done.left_out),
        ];
        self.writer.finish(reason, &text, counters)?;
        Ok(self.done)
    }
}

/// Refuses trace of code outside the code cache, because the capture does not have the bytes of
/// that code.
fn check_range(path: &Path) -> Result<(), Error> {
    let reader = CaptureReader::open(path)?;
    let header = reader.header();
    let range = AddressRange { start: Address(header.code_cache_low), end: Address(header.code_cache_high) };
    for core in reader.cores() {
        let mut last_ip = LastIp::default();
        let mut looked_at = 0;
        let mut outside = None;
        packets::for_each(&reader, core, &[], |unit| {
            let (Some(packet), true) = (unit.packet, looked_at < LOOKED_AT && outside.is_none()) else {
                return Ok(());
            };
            let (payload, lands) = match packet {
                Packet::Psb | Packet::Ovf => {
                    last_ip.reset();
                    return Ok(());
                }
                Packet::Tip(ip) | Packet::TipPge(ip) => (ip, true),
                Packet::TipPgd(ip) | Packet::Fup(ip) => (ip, false),
                _ => return Ok(()),
            };
            looked_at += 1;
            let ip = last_ip.update(payload);
            outside = ip.filter(|&ip| lands && !range.contains(Address(ip))).map(|ip| (unit.offset, ip));
            Ok(())
        })?;
        if let Some((offset, ip)) = outside {
            let (low, size) = (range.start, range.len());
            return Err(Error::NotFiltered {
                core,
                offset: StreamOffset(offset),
                ip: Address(ip),
                low,
                size,
            });
        }
    }
    Ok(())
}
