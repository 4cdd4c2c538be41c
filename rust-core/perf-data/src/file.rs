// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes a perf.data file.

use crate::error::Error;
use crate::layout::{self, config, flags, info};
use crate::time::PerfClock;
use jportal_capture::PtConfig;
use jportal_capture::header::packet_flags;
use jportal_perf_abi::Record;
use jportal_perf_abi::record::SAMPLE_TYPE;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Type of the PMU in the files written here: any number that no other PMU uses.
const PMU_TYPE: u32 = 10;
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`.
const DUMMY: (u32, u64) = (1, 9);
/// Id of the PT event.
pub(crate) const PT_ID: u64 = 1;
/// Id of the sideband event.
pub(crate) const DUMMY_ID: u64 = 2;
/// The most bytes of trace in one AUXTRACE record. A longer run of undecodable bytes stays
/// whole. Small in tests, so that there are several records.
const PORTION: usize = if cfg!(test) { 16 } else { 1 << 20 };

/// A file that is being written.
pub(crate) struct DataFile<W> {
    out: W,
    path: PathBuf,
    begin: u64,
    at: u64,
    /// The places of the AUXTRACE records.
    index: Vec<u64>,
}

/// Bits of `perf_event_attr.config` for `pt`, without CYC.
fn pt_config(pt: &PtConfig) -> u64 {
    let when = |flag, bits| if pt.has(flag) { bits } else { 0 };
    let no_compression =
        if pt.has(packet_flags::RETURN_COMPRESSION) { 0 } else { config::NO_RETURN_COMPRESSION };
    let period = (u64::from(pt.mtc_period) & config::MTC_PERIOD.1) << config::MTC_PERIOD.0;
    let psb = (u64::from(pt.psb_period) & config::PSB_PERIOD.1) << config::PSB_PERIOD.0;
    config::PT
        | config::TSC
        | config::BRANCH
        | no_compression
        | when(packet_flags::MTC, config::MTC | period)
        | psb
}

fn attr((kind, config): (u32, u64), flags: u64) -> Vec<u8> {
    let mut b = Vec::with_capacity(layout::ATTR_BYTES as usize);
    b.extend(kind.to_le_bytes());
    b.extend(layout::ATTR_BYTES.to_le_bytes());
    for v in [config, 1, SAMPLE_TYPE, 0, flags] {
        b.extend(v.to_le_bytes());
    }
    b.resize(layout::ATTR_BYTES as usize, 0);
    b
}

impl<W: Write + Seek> DataFile<W> {
    /// Starts a file with an event of the PT unit and one for the sideband.
    pub fn new(out: W, path: &Path, pt: &PtConfig) -> Result<Self, Error> {
        let user = flags::DISABLED
            | flags::INHERIT
            | flags::EXCLUDE_KERNEL
            | flags::EXCLUDE_HV
            | flags::SAMPLE_ID_ALL;
        let side = flags::MMAP | flags::COMM | flags::TASK | flags::MMAP2 | flags::CONTEXT_SWITCH;
        let events = [(attr((PMU_TYPE, pt_config(pt)), user), PT_ID), (attr(DUMMY, user | side), DUMMY_ID)];
        let mut head = vec![0; layout::HEADER_BYTES as usize];
        events.iter().for_each(|(_, id)| head.extend(id.to_le_bytes()));
        for (n, (attr, _)) in events.iter().enumerate() {
            head.extend(attr);
            head.extend((layout::HEADER_BYTES + 8 * n as u64).to_le_bytes());
            head.extend(8u64.to_le_bytes());
        }
        let mut file =
            Self { out, path: path.to_owned(), begin: head.len() as u64, at: 0, index: Vec::new() };
        file.put(&head)?;
        Ok(file)
    }

    /// Bytes of an entry in the table of events.
    const ATTR_AND_IDS: u64 = layout::ATTR_BYTES as u64 + 16;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|source| Error::Write { path: self.path.clone(), source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn head(&mut self, kind: u32, len: usize) -> Result<(), Error> {
        self.put(&kind.to_le_bytes())?;
        self.put(&0u16.to_le_bytes())?;
        self.put(&(len as u16).to_le_bytes())
    }

    /// Writes what a decoder has to know about the unit. `filter` names the traced code.
    pub fn auxtrace_info(&mut self, pt: &PtConfig, clock: &PerfClock, filter: &str) -> Result<(), Error> {
        let c = clock.conversion();
        let mask = |(shift, bits): (u32, u64)| bits << shift;
        let words = [
            PMU_TYPE.into(),
            c.shift.into(),
            c.mult.into(),
            c.zero,
            1,
            config::TSC,
            config::NO_RETURN_COMPRESSION,
            // Switches are reported as PERF_RECORD_SWITCH.
            2,
            0,
            1,
            config::MTC,
            mask(config::MTC_PERIOD),
            pt.tsc_ctc_numerator.into(),
            pt.tsc_ctc_denominator.into(),
            config::CYC,
            pt.nominal_ratio.into(),
            filter.len() as u64,
        ];
        debug_assert_eq!(words.len(), info::FILTER_BYTES + 1);
        let text = (filter.len() + 1).next_multiple_of(8);
        self.head(layout::AUXTRACE_INFO, 8 + 8 + 8 * words.len() + text + 8)?;
        self.put(&u64::from(layout::INTEL_PT).to_le_bytes())?;
        for word in words {
            self.put(&word.to_le_bytes())?;
        }
        self.put(filter.as_bytes())?;
        self.put(&[0; 8][..text - filter.len()])?;
        // cap_event_trace
        self.put(&0u64.to_le_bytes())
    }

    /// Writes a record as the kernel writes it.
    pub fn record(&mut self, record: &Record) -> Result<(), Error> {
        let bytes = record.to_bytes();
        self.put(&bytes)
    }

    /// Ends a round: all records so far are in order with those that follow.
    pub fn finished_round(&mut self) -> Result<(), Error> {
        self.head(layout::FINISHED_ROUND, 8)
    }

    fn auxtrace(&mut self, core: u32, offset: u64, reference: u64, bytes: &[u8]) -> Result<(), Error> {
        let padded = bytes.len().next_multiple_of(8);
        self.index.push(self.at);
        self.head(layout::AUXTRACE, layout::AUXTRACE_BYTES as usize)?;
        for v in [padded as u64, offset, reference] {
            self.put(&v.to_le_bytes())?;
        }
        for v in [core, u32::MAX, core, 0] {
            self.put(&v.to_le_bytes())?;
        }
        self.put(bytes)?;
        self.put(&[0; 8][..padded - bytes.len()])
    }

    /// Writes the index of all trace. Only with this index does `perf script` recognise a file
    /// with a hardware trace.
    fn auxtrace_index(&mut self) -> Result<(), Error> {
        let count = self.index.len() as u64;
        let mut index = Vec::with_capacity(16 * self.index.len() + 24);
        for v in [self.at + 16, 8 + 16 * count, count] {
            index.extend(v.to_le_bytes());
        }
        for place in std::mem::take(&mut self.index) {
            index.extend(place.to_le_bytes());
            index.extend(layout::AUXTRACE_BYTES.to_le_bytes());
        }
        self.put(&index)
    }

    /// Writes the header; returns the length of the file.
    pub fn finish(mut self) -> Result<u64, Error> {
        let data = self.at - self.begin;
        self.auxtrace_index()?;
        let attrs_at = layout::HEADER_BYTES + 2 * 8;
        let sections = [attrs_at, self.begin - attrs_at, self.begin, data, 0, 0];
        let mut head = layout::MAGIC.to_vec();
        for v in [layout::HEADER_BYTES, Self::ATTR_AND_IDS].into_iter().chain(sections).chain([
            layout::FEATURE_AUXTRACE,
            0,
            0,
            0,
        ]) {
            head.extend(v.to_le_bytes());
        }
        let fail = |source| Error::Write { path: self.path.clone(), source };
        self.out.seek(SeekFrom::Start(0)).map_err(fail)?;
        self.out.write_all(&head).map_err(fail)?;
        self.out.flush().map_err(fail)?;
        Ok(self.at)
    }
}

/// Collects a core's trace and writes it to the file.
pub(crate) struct TraceWriter {
    core: u32,
    /// The place of the first byte of `bytes` in the written stream.
    offset: u64,
    bytes: Vec<u8>,
    /// A TSC value near the trace.
    reference: u64,
}

impl TraceWriter {
    /// A writer of the trace of `core` from stream `offset` on; `reference` is a TSC value near it.
    pub fn new(core: u32, offset: u64, reference: u64) -> Self {
        Self { core, offset, bytes: Vec::with_capacity(PORTION), reference }
    }

    /// The place of the next byte.
    pub fn place(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Takes whole packets. perf does not read a packet across two AUXTRACE records.
    pub fn put<W: Write + Seek>(&mut self, file: &mut DataFile<W>, packets: &[u8]) -> Result<(), Error> {
        if self.bytes.len() + packets.len() > PORTION {
            let place = self.place();
            self.jump(file, place)?;
        }
        self.bytes.extend_from_slice(packets);
        Ok(())
    }

    /// Writes the trace so far. The next packet does not follow it: it begins at `to`.
    pub fn jump<W: Write + Seek>(&mut self, file: &mut DataFile<W>, to: u64) -> Result<(), Error> {
        if !self.bytes.is_empty() {
            file.auxtrace(self.core, self.offset, self.reference, &self.bytes)?;
        }
        self.bytes.clear();
        self.offset = to;
        Ok(())
    }
}
