// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads a perf.data file, record by record. Nothing in the file is trusted.
//!
//! `linux-perf-data` (0.13.0) does not hold what an import promises. It takes sizes from the file
//! unchecked: an event size of 0 divides by zero, the end of the records overflows, and a feature
//! section or a piece of trace that claims 2^40 bytes is allocated, which ends the process. It
//! reads each piece of trace as a whole and keeps a round of records to sort them, so memory
//! grows with the trace. Its errors have no place, and its records no offset, from which
//! [`DataReader::trace`] reads a piece again. AUX, ITRACE_START and AUXTRACE_INFO, hence the
//! conversion of time, would be parsed here all the same.

use crate::error::Error;
use crate::layout::{self, config, flags, info};
use crate::time::PerfClock;
use jportal_capture::TimeConversion;
use jportal_perf_abi::bindings as abi;
use std::io::{Read, Seek, SeekFrom};

/// A range of bytes in the file.
#[derive(Clone, Copy, Debug)]
struct Section {
    at: u64,
    size: u64,
}

/// One event (`perf_event_attr`), reduced to the fields needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The type of its PMU.
    pub kind: u32,
    /// The configuration as programmed.
    pub config: u64,
    sample_type: u64,
    flags: u64,
}

/// The content of AUXTRACE_INFO.
#[derive(Clone, Debug)]
pub(crate) struct TraceInfo {
    /// Type of the PMU.
    pub pmu_type: u64,
    /// The conversion of the records' time.
    pub clock: PerfClock,
    /// CPUID leaf 15H: EBX and EAX.
    pub ratio: (u32, u32),
    /// Nominal frequency in 100 MHz.
    pub nominal: u8,
}

/// The trailer of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub pid: u32,
    pub tid: u32,
    /// Nanoseconds.
    pub time: u64,
    pub cpu: u32,
}

/// A piece of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TracePiece {
    /// The offset of the record in the file.
    pub at: u64,
    /// Bytes of trace after the record.
    pub size: u64,
    /// Offset in the core's stream.
    pub offset: u64,
    /// The core; `u32::MAX` for a ring that follows one thread across all cores.
    pub cpu: u32,
}

/// A record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DataRecord<'a> {
    /// A record of the kernel, without header and trailer.
    Kernel { kind: u32, misc: u16, body: &'a [u8], trailer: Trailer },
    /// Trace: [`DataReader::trace`] reads it.
    Trace(TracePiece),
}

/// The most events that are read: a greater number means a damaged file.
const MAX_EVENTS: u64 = 1 << 16;
/// The smallest `perf_event_attr` of any kernel (`PERF_ATTR_SIZE_VER0`).
const SMALLEST_ATTR: u64 = 64;

/// An open perf.data file.
pub(crate) struct DataReader<R> {
    input: R,
    len: u64,
    data: Section,
    pub events: Vec<Event>,
    /// The offset of the next record.
    at: u64,
    buffer: Vec<u8>,
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

impl<R: Read + Seek> DataReader<R> {
    /// Reads header and events.
    pub fn open(mut input: R) -> Result<Self, Error> {
        let len = input.seek(SeekFrom::End(0)).map_err(|source| Error::Read { at: 0, source })?;
        let data = Section { at: 0, size: 0 };
        let mut reader = Self { input, len, data, events: Vec::new(), at: 0, buffer: Vec::new() };
        let head = reader.head()?;
        let word = |n: usize| u64_at(&head, 8 * n).unwrap_or(0);
        let (attr_size, attrs) = (word(2), Section { at: word(3), size: word(4) });
        reader.data = Section { at: word(5), size: word(6) };
        reader.check_section(attrs, 24, "the table of events")?;
        reader.check_section(reader.data, 40, "the records")?;
        if reader.data.size == 0 {
            let need = layout::HEADER_BYTES;
            return Err(Error::Truncated { at: 40, what: "the recording", have: 0, need });
        }
        reader.read_events(attr_size, attrs)?;
        reader.at = reader.data.at;
        Ok(reader)
    }

    fn head(&mut self) -> Result<Vec<u8>, Error> {
        let mut head = vec![0; self.len.min(layout::HEADER_BYTES) as usize];
        self.read_at(0, &mut head)?;
        let magic = head.get(..8).unwrap_or(&head);
        if magic == layout::MAGIC_SWAPPED {
            return Err(Error::Endian);
        }
        if magic != layout::MAGIC {
            return Err(Error::Magic { found: magic.to_vec() });
        }
        match u64_at(&head, 8) {
            Some(layout::PIPE_HEADER_BYTES) => {
                return Err(Error::Pipe { size: layout::PIPE_HEADER_BYTES });
            }
            Some(layout::HEADER_BYTES) | None => {}
            Some(value) => {
                return Err(Error::Layout { at: 8, what: "the header's size", value, expected: "104" });
            }
        }
        let (have, need) = (head.len() as u64, layout::HEADER_BYTES);
        if have < need {
            return Err(Error::Truncated { at: 0, what: "the header", have, need });
        }
        Ok(head)
    }

    fn check_section(&self, section: Section, at: u64, what: &'static str) -> Result<(), Error> {
        match section.at.checked_add(section.size) {
            Some(end) if end <= self.len => Ok(()),
            _ if section.at >= self.len => {
                Err(Error::Layout { at, what, value: section.at, expected: "a place in the file" })
            }
            _ => {
                let (have, need) = (self.len - section.at, section.size);
                Err(Error::Truncated { at: section.at, what, have, need })
            }
        }
    }

    fn read_events(&mut self, attr_size: u64, attrs: Section) -> Result<(), Error> {
        let entry = attr_size;
        if !(SMALLEST_ATTR + 16..=1 << 12).contains(&entry) {
            let expected = "80 to 4096";
            return Err(Error::Layout { at: 16, what: "the size of an event", value: entry, expected });
        }
        let count = attrs.size / entry;
        if count == 0 || count > MAX_EVENTS || !attrs.size.is_multiple_of(entry) {
            let expected = "that of 1 to 65536 events";
            return Err(Error::Layout { at: 32, what: "the size of the table", value: attrs.size, expected });
        }
        let mut bytes = vec![0; entry as usize];
        for n in 0..count {
            self.read_at(attrs.at + n * entry, &mut bytes)?;
            let word = |at| u64_at(&bytes, at).unwrap_or(0);
            let kind = u32_at(&bytes, 0).unwrap_or(0);
            self.events.push(Event { kind, config: word(8), sample_type: word(24), flags: word(40) });
        }
        Ok(())
    }

    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.input.seek(SeekFrom::Start(at)).and_then(|_| self.input.read_exact(bytes));
        read.map_err(|source| Error::Read { at, source })
    }

    /// Bytes of records.
    pub fn data_bytes(&self) -> u64 {
        self.data.size
    }

    /// Bytes of records read so far.
    pub fn done(&self) -> u64 {
        self.at.saturating_sub(self.data.at)
    }

    /// Starts again with the first record.
    pub fn rewind(&mut self) {
        self.at = self.data.at;
    }

    /// Reads the next record into the buffer and returns its offset, type and `misc`; `None` at
    /// the end.
    fn step(&mut self) -> Result<Option<(u64, u32, u16)>, Error> {
        let (at, end) = (self.at, self.data.at + self.data.size);
        if at >= end {
            return Ok(None);
        }
        let mut head = [0; 8];
        let have = end - at;
        if have < 8 {
            return Err(Error::Truncated { at, what: "a record's header", have, need: 8 });
        }
        self.read_at(at, &mut head)?;
        let kind = u32_at(&head, 0).unwrap_or(0);
        let [_, _, _, _, m0, m1, s0, s1] = head;
        let size = u64::from(u16::from_le_bytes([s0, s1]));
        if size < 8 || !size.is_multiple_of(8) {
            let expected = "a multiple of 8, at least 8";
            return Err(Error::Layout { at: at + 6, what: "a record's size", value: size, expected });
        }
        if size > have {
            return Err(Error::Truncated { at, what: "a record", have, need: size });
        }
        if matches!(kind, layout::COMPRESSED | layout::COMPRESSED2) {
            return Err(Error::Compressed { at });
        }
        let mut body = std::mem::take(&mut self.buffer);
        body.resize(size as usize - 8, 0);
        let read = self.read_at(at + 8, &mut body);
        self.buffer = body;
        read?;
        self.at = at + size;
        Ok(Some((at, kind, u16::from_le_bytes([m0, m1]))))
    }

    /// Skips the trace that follows an AUXTRACE record.
    fn piece(&mut self, at: u64) -> Result<TracePiece, Error> {
        let word = |n: usize| u64_at(&self.buffer, 8 * n);
        let (Some(size), Some(offset), Some(cpu)) = (word(0), word(1), u32_at(&self.buffer, 32)) else {
            let (have, need) = (self.buffer.len() as u64 + 8, layout::AUXTRACE_BYTES);
            return Err(Error::Truncated { at, what: "an AUXTRACE record", have, need });
        };
        let have = self.data.at + self.data.size - self.at;
        if size > have {
            return Err(Error::Truncated { at: self.at, what: "trace", have, need: size });
        }
        if offset.checked_add(size).is_none() {
            let expected = "less than 2^64 with its size";
            return Err(Error::Layout { at: at + 16, what: "the trace's offset", value: offset, expected });
        }
        self.at += size;
        Ok(TracePiece { at, size, offset, cpu })
    }

    /// The next record of interest; `None` at the end.
    pub fn next(&mut self, ids: &TrailerLayout) -> Result<Option<DataRecord<'_>>, Error> {
        loop {
            let Some((at, kind, misc)) = self.step()? else { return Ok(None) };
            if kind == layout::AUXTRACE {
                return Ok(Some(DataRecord::Trace(self.piece(at)?)));
            }
            if kind >= layout::FIRST_OF_PERF || kind == abi::PERF_RECORD_SAMPLE {
                continue;
            }
            let Some(body) = self.buffer.len().checked_sub(ids.bytes()) else {
                let (have, need) = (self.buffer.len() as u64, ids.bytes() as u64);
                return Err(Error::Truncated { at, what: "a record's trailer", have, need });
            };
            let (body, trailer) = self.buffer.split_at(body);
            return Ok(Some(DataRecord::Kernel { kind, misc, body, trailer: ids.read(trailer) }));
        }
    }

    /// Reads bytes of a piece of trace.
    pub fn trace(&mut self, piece: &TracePiece, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.read_at(piece.at + layout::AUXTRACE_BYTES + from, bytes)
    }

    /// Searches for AUXTRACE_INFO, then starts again with the first record.
    pub fn trace_info(&mut self) -> Result<TraceInfo, Error> {
        self.rewind();
        while let Some((at, kind, _)) = self.step()? {
            match kind {
                layout::AUXTRACE_INFO => {
                    let found = parse_info(at, &self.buffer);
                    self.rewind();
                    return found;
                }
                layout::AUXTRACE => _ = self.piece(at)?,
                _ => {}
            }
        }
        Err(Error::NoAuxtrace)
    }
}

fn parse_info(at: u64, body: &[u8]) -> Result<TraceInfo, Error> {
    let found = u32_at(body, 0).unwrap_or(0);
    if found != layout::INTEL_PT {
        return Err(Error::OtherUnit { at, found });
    }
    let need = (8 * info::FILTER_BYTES) as u64;
    let word = |n: usize| {
        let have = body.len() as u64;
        u64_at(body, 8 + 8 * n).ok_or(Error::Truncated { at, what: "AUXTRACE_INFO", have, need })
    };
    if word(info::SNAPSHOT)? != 0 {
        let remedy = "the trace is of snapshots, of which no stream can be made; record without `-S`";
        return Err(Error::Event { what: "snapshot mode", remedy });
    }
    if word(info::PER_CPU)? == 0 {
        let remedy = "each thread has a ring of its own; record without `--per-thread`";
        return Err(Error::Event { what: "rings", remedy });
    }
    let (cap, mult, shift) = (word(info::CAP)?, word(info::TIME_MULT)?, word(info::TIME_SHIFT)?);
    let conversion = TimeConversion {
        valid: u8::from(cap != 0),
        shift: u16::try_from(shift).unwrap_or(u16::MAX),
        mult: u32::try_from(mult).unwrap_or(0),
        zero: word(info::TIME_ZERO)?,
    };
    let clock = PerfClock::new(conversion).ok_or(Error::NoTimeConversion { at, cap, mult, shift })?;
    let half = |n| word(n).map(|v| u32::try_from(v).unwrap_or(0));
    Ok(TraceInfo {
        pmu_type: word(info::PMU_TYPE)?,
        clock,
        ratio: (half(info::RATIO_NUMERATOR)?, half(info::RATIO_DENOMINATOR)?),
        nominal: u8::try_from(word(info::NON_TURBO_RATIO)?).unwrap_or(0),
    })
}

/// The layout of a record's trailer (`sample_id` for a given `sample_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrailerLayout {
    sample_type: u64,
}

impl TrailerLayout {
    /// The bits of the trailer's fields, in the order of the fields.
    const FIELDS: [u64; 6] = [
        abi::PERF_SAMPLE_TID as u64,
        abi::PERF_SAMPLE_TIME as u64,
        abi::PERF_SAMPLE_ID as u64,
        abi::PERF_SAMPLE_STREAM_ID as u64,
        abi::PERF_SAMPLE_CPU as u64,
        abi::PERF_SAMPLE_IDENTIFIER as u64,
    ];

    /// The layout that all events of the file share.
    pub fn of(events: &[Event]) -> Result<Self, Error> {
        let mask = Self::FIELDS.iter().fold(0, |a, b| a | b);
        let mut all = events.iter().map(|e| (e.sample_type & mask, e.flags & flags::SAMPLE_ID_ALL != 0));
        let Some((sample_type, id_all)) = all.next() else { return Err(Error::NoAuxtrace) };
        let remedy = "record all events with one command of perf, as `perf record -e intel_pt//u` does";
        if all.any(|other| other != (sample_type, id_all)) {
            return Err(Error::Event { what: "records differ in their trailers", remedy });
        }
        let needed = (abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU) as u64;
        if !id_all || sample_type & needed != needed {
            let remedy = "record with perf's defaults: without `--no-timestamp`, and on all cores";
            return Err(Error::Event { what: "records lack thread, time or core", remedy });
        }
        Ok(Self { sample_type })
    }

    /// The length of the trailer in bytes.
    pub fn bytes(&self) -> usize {
        8 * Self::FIELDS.iter().filter(|&&f| self.sample_type & f != 0).count()
    }

    fn read(&self, bytes: &[u8]) -> Trailer {
        let mut at = 0;
        let mut trailer = Trailer::default();
        for field in Self::FIELDS.into_iter().filter(|f| self.sample_type & f != 0) {
            let low = u32_at(bytes, at).unwrap_or(0);
            if field == Self::FIELDS[0] {
                (trailer.pid, trailer.tid) = (low, u32_at(bytes, at + 4).unwrap_or(0));
            } else if field == Self::FIELDS[1] {
                trailer.time = u64_at(bytes, at).unwrap_or(0);
            } else if field == Self::FIELDS[4] {
                trailer.cpu = low;
            }
            at += 8;
        }
        trailer
    }
}

impl Event {
    /// A field of `config`.
    pub fn field(&self, (shift, bits): (u32, u64)) -> u8 {
        (self.config >> shift & bits) as u8
    }

    /// Whether all of `bits` are set.
    pub fn has(&self, bits: u64) -> bool {
        self.config & bits == bits
    }

    /// Refuses an event whose trace cannot be decoded.
    pub fn check(&self) -> Result<(), Error> {
        let missing = |what, remedy| Err(Error::Event { what, remedy });
        if self.has(config::PT) && !self.has(config::BRANCH) {
            return missing("trace has no branches", "record without `branch=0`");
        }
        if !self.has(config::TSC) {
            return missing("trace has no time", "record with `tsc` (perf's default), `-e intel_pt//u`");
        }
        if self.flags & flags::EXCLUDE_KERNEL == 0 {
            return missing("trace has the kernel's branches", "record user space only: `-e intel_pt//u`");
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
