// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A capture opened for decoding.

use crate::blind::{Life, Unseen, unseen};
use crate::described::{decodable, described_until};
use crate::driver::{DecodeOptions, Progress, decode};
use crate::error::Error;
use crate::stretches::{Blind, CoreSideband, StaleBlock, Stretch, Visit, digest};
use crate::summary::DecodeSummary;
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions};
use jportal_bytecode::MethodTable;
use jportal_capture::schema::patch_reasons;
use jportal_capture::{CaptureReader, EndReason, LossReason};
use jportal_flow::FlowConsumer;
use jportal_machine_flow::{CodeHistory, Patch};
use jportal_units::{Address, AddressRange, Bci, CodeId, Core, MethodId, StreamOffset, Tid, Tsc};
use jportal_vm_image::{Builder, CodeSink, CodeVersion, NMethod, ThreadSpan, Threads, VmImage};

/// A stretch of a core's trace, with its relation to the other stretches of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub stretch: Stretch,
    /// When the thread's previous stretch, on any core, was closed; 0 if there is none.
    pub left: Tsc,
    /// The thread continues on the same core after it.
    pub continues: bool,
}

impl Turn {
    /// Nothing in the stretch happened before this time. `free`: when the core's previous stretch
    /// was closed.
    pub(crate) fn since(&self, free: Tsc) -> Tsc {
        free.max(self.left).max(self.stretch.switched_in.unwrap_or_default())
    }
}

/// The main code of an nmethod of C1 or C2, without handlers and stubs, as it was installed.
pub(crate) struct MainCode<'a> {
    pub version: &'a CodeVersion,
    pub nmethod: &'a NMethod,
    pub bytes: &'a [u8],
}

/// The main code of all nmethods of C1 and C2.
pub(crate) fn main_code<'a>(
    image: &'a VmImage,
    history: &'a CodeHistory,
) -> impl Iterator<Item = MainCode<'a>> {
    installed(history).filter_map(|(id, bytes)| {
        let version = image.code(id)?;
        let nmethod = version.nmethod().filter(|n| !n.is_native_wrapper())?;
        let bytes = bytes.get(..nmethod.stub as usize).unwrap_or(bytes);
        Some(MainCode { version, nmethod, bytes })
    })
}

/// The bytes of every version of code as it was installed.
pub(crate) fn installed(history: &CodeHistory) -> impl Iterator<Item = (CodeId, &[u8])> {
    let changes = (0..history.len()).filter_map(|i| history.code_change(i as u32));
    changes.filter_map(|c| Some((c.installed?, c.bytes)))
}

/// A capture with the VM's image and the code history built from its metadata.
#[derive(Debug)]
pub struct Recording {
    reader: CaptureReader,
    image: VmImage,
    history: CodeHistory,
    cache: AddressRange,
    sidebands: Vec<(Core, CoreSideband)>,
    /// Where the recording was cut off, each core's silence begins.
    silences: Vec<Blind>,
    /// By core, the offset from which on metadata may be missing that the trace needs.
    undescribed: HashMap<u32, StreamOffset>,
    damaged_records: u64,
    refused_code: u64,
}

/// The version of the capture format in which patch stubs have `Resolution` records.
const ALL_RESOLUTIONS: (u16, u16) = (2, 0);

/// Feeds the code history. Counts the changes of code outside the code cache.
struct History {
    code: CodeHistory,
    refused: u64,
    /// The capture has a record of every visit to the VM that stubs make for calls and patch
    /// stubs.
    all_resolutions: bool,
}

impl CodeSink for History {
    fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], id: CodeId) {
        if self.code.install(tsc, start, bytes, id).is_err() {
            self.refused += 1;
        }
    }
    fn leaves_by_calls(&mut self, id: CodeId) {
        self.code.mark_leaves_by_calls(id);
    }
    fn resolves_calls(&mut self, id: CodeId) {
        self.code.mark_resolves_calls(id);
    }
    fn makes_upcalls(&mut self, id: CodeId) {
        self.code.mark_upcalls(id);
    }
    fn calls_out(&mut self, id: CodeId) {
        self.code.mark_calls_out(id);
    }
    fn resolution(&mut self, tsc: Tsc, thread: Tid, returns: Address) {
        if self.all_resolutions {
            self.code.resolution(tsc, thread, returns);
        }
    }
    fn patch(
        &mut self,
        tsc: Tsc,
        since: Option<Tsc>,
        start: Address,
        bytes: &[u8],
        writer: Option<Tid>,
        reason: u8,
    ) {
        let what = match reason {
            patch_reasons::CALL => Patch::Call,
            patch_reasons::C1_PATCH => Patch::PatchStub,
            _ => Patch::Other,
        };
        if self.code.patch(tsc, since, start, bytes, writer, what).is_err() {
            self.refused += 1;
        }
    }
    fn free(&mut self, tsc: Tsc, start: Address, size: u64) {
        if self.code.free(tsc, start, size).is_err() {
            self.refused += 1;
        }
    }
}

/// For each core, or for cores that were drained together, the time from which on it is silent
/// because the recording was cut off. Empty if the recording ended properly.
fn silences(reader: &CaptureReader, sidebands: &[(Core, CoreSideband)]) -> Vec<Blind> {
    let end = reader.completeness().end.as_ref().map(|end| end.reason);
    let given_up = reader.losses().iter().any(|l| l.reason == LossReason::Stopped);
    if matches!(end, Some(EndReason::Exit | EndReason::Stopped)) && !given_up {
        return Vec::new();
    }
    let unused = (Core(0), CoreSideband::default());
    let together = reader.drained().map(|(cores, until)| {
        let (core, side) = sidebands.iter().find(|(core, _)| cores.contains(&core.0)).unwrap_or(&unused);
        side.silence(*core, Some(until))
    });
    let alone =
        sidebands.iter().filter(|(core, _)| !reader.drained().any(|(cores, _)| cores.contains(&core.0)));
    together.chain(alone.map(|(core, side)| side.silence(*core, None))).collect()
}

/// The pieces of a core's sideband in order; `None` is a piece that is damaged or missing.
fn sideband(reader: &CaptureReader, core: Core) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for piece in reader.sideband(core) {
        if piece.offset > end {
            pieces.push(None);
        }
        end = piece.end();
        pieces.push(match reader.read(piece) {
            Ok(bytes) => Some(bytes),
            Err(e @ jportal_capture::Error::Read { .. }) => return Err(e.into()),
            Err(_) => None,
        });
    }
    Ok(pieces)
}

impl Recording {
    /// Reads all metadata of `reader`.
    ///
    /// # Errors
    /// When there is PT, but the header lacks the code-cache bounds or garbles them.
    pub fn open(reader: CaptureReader) -> Result<Self, Error> {
        let cache = code_cache(&reader)?;
        let code = CodeHistory::new(cache).map_err(Error::Image)?;
        let all_resolutions = reader.version() >= ALL_RESOLUTIONS;
        let mut history = History { code, refused: 0, all_resolutions };
        let mut vm = Builder::default();
        let (mut damaged_records, mut latest) = (0, Tsc(0));
        for record in reader.metadata() {
            match record {
                Ok(r) => {
                    latest = latest.max(Tsc(r.tsc));
                    vm.record(r, &mut history);
                }
                Err(_) => damaged_records += 1,
            }
        }
        let image = vm.finish();
        let described = described_until(&reader, latest);
        let (mut sidebands, mut undescribed) = (Vec::new(), HashMap::new());
        for core in reader.cores() {
            let mut held: Vec<_> = reader.pt(core).iter().map(|p| p.offset..p.end()).collect();
            let begin = held.first().map_or(StreamOffset(0), |p| StreamOffset(p.start));
            let mut side = digest(core, begin, &sideband(&reader, core)?);
            if let Some(until) = described {
                let end = decodable(&reader, core, &side.stretches, until)?;
                if let Some(end) = end {
                    held.retain(|p| p.start < end.0);
                    held.iter_mut().for_each(|p| p.end = p.end.min(end.0));
                    undescribed.insert(core.0, end);
                }
            }
            side.confront(core, &held);
            sidebands.push((core, side));
        }
        let silences = silences(&reader, &sidebands);
        Ok(Self {
            reader,
            image,
            history: history.code,
            cache,
            silences,
            sidebands,
            undescribed,
            damaged_records,
            refused_code: history.refused,
        })
    }
    /// Decodes the whole capture; each thread's flow goes to a sink of `consumer`.
    ///
    /// # Errors
    /// When the capture cannot be read. Stretches that cannot be decoded are gaps in the flow.
    pub fn decode(
        &self,
        options: &DecodeOptions,
        consumer: &mut dyn FlowConsumer,
        progress: &mut Progress<'_>,
    ) -> Result<DecodeSummary, Error> {
        decode(self, options, consumer, progress)
    }
    /// For each of the blocks of `code`, given by their first offset and the one after their
    /// last instruction, the offsets of its instructions, as the code was when it was installed.
    pub fn instructions(&self, code: CodeId, blocks: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let Some(version) = self.image.code(code) else { return vec![Vec::new(); blocks.len()] };
        let (len, time) = (usize::try_from(version.range.len()).unwrap_or(0), version.installed);
        let bytes = self.history.versions(version.range.start, len, time, time).pop();
        let bytes = bytes.map_or(Vec::new(), |v| v.bytes);
        let offsets = |&(from, to): &(u32, u32)| {
            let block = bytes.get(from as usize..to as usize).unwrap_or_default();
            let mut decoder = Decoder::with_ip(64, block, from.into(), DecoderOptions::NONE);
            let mut offsets = Vec::new();
            while decoder.can_decode() {
                offsets.push(decoder.ip() as u32);
                let _ = decoder.decode();
            }
            offsets
        };
        blocks.iter().map(offsets).collect()
    }
    /// The methods of the VM.
    pub fn methods(&self) -> &MethodTable {
        self.image.table()
    }
    /// The image of the VM.
    pub fn image(&self) -> &VmImage {
        &self.image
    }
    /// The calls that compilers inlined (caller, bci of the call, callee), and whether the list
    /// is complete: every compilation has recorded what it inlined.
    pub fn inlined_calls(&self) -> (Vec<(MethodId, Bci, MethodId)>, bool) {
        let compiled =
            || self.image.codes().iter().filter_map(|c| c.nmethod()).filter(|n| !n.is_native_wrapper());
        let mut calls: Vec<_> = compiled().flat_map(|n| n.inlined_calls()).collect();
        calls.sort_unstable();
        calls.dedup();
        (calls, compiled().all(|n| n.markers.is_some()))
    }
    /// The bytes of the code cache over time.
    pub fn history(&self) -> &CodeHistory {
        &self.history
    }
    /// The capture.
    pub fn reader(&self) -> &CaptureReader {
        &self.reader
    }
    /// The code cache: the traced range.
    pub fn code_cache(&self) -> AddressRange {
        self.cache
    }
    /// Cores with PT.
    pub fn cores(&self) -> impl Iterator<Item = Core> + '_ {
        self.sidebands.iter().map(|s| s.0)
    }
    /// The stretches of `core` in stream order.
    pub fn stretches(&self, core: Core) -> &[Stretch] {
        self.sidebands.iter().find(|s| s.0 == core).map_or(&[], |s| &s.1.stretches)
    }
    /// The blocks of `core` that the unit says ran with older bytes, in stream order.
    pub fn stale_blocks(&self, core: Core) -> &[StaleBlock] {
        self.sidebands.iter().find(|s| s.0 == core).map_or(&[], |s| &s.1.stale)
    }
    /// Which thread was on which core and when. Each visit comes with the start of its thread;
    /// thread id and start identify the thread. A visit that began before the recording is cut
    /// at the recording's start. A visit during which two threads used the OS thread in turn is
    /// divided.
    pub fn visits(&self) -> impl Iterator<Item = (Core, Tsc, Visit)> + '_ {
        let start = Tsc(self.reader.header().start_tsc);
        let all = self.sidebands.iter().flat_map(|(core, side)| side.visits.iter().map(|v| (*core, *v)));
        all.flat_map(move |(core, v)| {
            let threads = &self.image.threads;
            let (came, arrived) = (v.came.max(start), v.arrived && v.came >= start);
            divided(threads, Visit { came, arrived, ..v }).map(move |(s, v)| (core, s, v))
        })
    }
    /// The stretches of all cores in the order in which they were closed. Those of one core
    /// stay in stream order whatever their times say.
    pub(crate) fn stretches_in_order(&self) -> Vec<Stretch> {
        let mut all: Vec<(Tsc, Stretch)> = Vec::new();
        for (_, side) in &self.sidebands {
            let mut latest = Tsc(0);
            for s in &side.stretches {
                latest = latest.max(s.closed);
                all.push((latest, *s));
            }
        }
        all.sort_by_key(|(t, s)| (*t, s.core, s.from));
        all.into_iter().map(|(_, s)| s).collect()
    }
    /// By core, its stretches in stream order, each with what its thread did before and does
    /// after it.
    pub(crate) fn turns(&self) -> HashMap<u32, Vec<Turn>> {
        let order = self.stretches_in_order();
        let unseen = self.unseen(&order);
        turns(&order, &unseen)
    }
    /// The threads that may have run where records are missing. `order`:
    /// [`Self::stretches_in_order`].
    pub(crate) fn unseen(&self, order: &[Stretch]) -> Vec<Unseen> {
        let blind: Vec<_> = self.sidebands.iter().flat_map(|s| s.1.blind.iter().copied()).collect();
        let life = |s: &ThreadSpan| Life {
            tid: s.tid,
            started: s.started,
            exited: s.exited.unwrap_or(Tsc(u64::MAX)),
        };
        let lives: Vec<Life> = self.image.threads.iter().map(life).collect();
        unseen(order, (&blind, &self.silences), &lives)
    }
    /// Bytes of PT in the capture.
    pub fn pt_bytes(&self) -> u64 {
        self.reader.cores().into_iter().map(|c| self.reader.pt_bytes(c)).sum()
    }
    /// Sideband records that the data rings lost.
    pub fn lost_records(&self) -> u64 {
        self.sidebands.iter().map(|s| s.1.lost_records).sum()
    }
    /// Places in the sideband where records are missing or damaged.
    pub fn damaged_sideband(&self) -> u64 {
        self.sidebands.iter().map(|s| s.1.damaged).sum()
    }
    /// Records of the sideband whose time was out of order.
    pub fn disordered_sideband(&self) -> u64 {
        self.sidebands.iter().map(|s| s.1.disordered).sum()
    }
    /// The end of the decodable trace of `core`: after it, metadata may be missing that the
    /// trace needs.
    pub(crate) fn end_of(&self, core: Core) -> StreamOffset {
        self.undescribed.get(&core.0).copied().unwrap_or(StreamOffset(u64::MAX))
    }
    /// Bytes of PT that are not decoded because the capture was cut off and metadata may be
    /// missing that they need.
    pub fn undescribed_bytes(&self) -> u64 {
        let behind = |(&core, end): (&u32, &StreamOffset)| {
            let pieces = self.reader.pt(Core(core)).iter();
            pieces.map(|p| p.end().saturating_sub(end.0.max(p.offset))).sum::<u64>()
        };
        self.undescribed.iter().map(behind).sum()
    }
    /// Metadata records that could not be read.
    pub const fn damaged_records(&self) -> u64 {
        self.damaged_records
    }
    /// Code events outside the code cache.
    pub const fn refused_code(&self) -> u64 {
        self.refused_code
    }
}

#[cfg(test)]
impl Recording {
    /// A recording with other code than its metadata say.
    pub(crate) fn with_code(self, history: CodeHistory) -> Self {
        Self { history, ..self }
    }
}

/// See [`Recording::turns`]. `order` and `unseen` are those of the recording.
pub(crate) fn turns(order: &[Stretch], unseen: &[Unseen]) -> HashMap<u32, Vec<Turn>> {
    let mut turns: HashMap<u32, Vec<Turn>> = HashMap::new();
    // By thread, its last stretch and the index of that stretch among the core's turns.
    let mut last: HashMap<u32, (Stretch, usize)> = HashMap::new();
    let mut unseen = unseen.iter().peekable();
    for (number, &s) in order.iter().enumerate() {
        // Between two stretches on this core, the thread may have been elsewhere.
        let elsewhere = unseen.next_if(|u| u.before == Some(number)).is_some();
        let of_core = turns.entry(s.core.0).or_default();
        let before = last.insert(s.tid.0, (s, of_core.len()));
        if let Some((b, at)) = before.filter(|(b, _)| b.core == s.core) {
            let follows = s.from == b.to && !b.truncated && b.from != b.to;
            of_core[at].continues = follows && s.came.is_none() && s.blind.is_none() && !elsewhere;
        }
        let left = before.map_or(Tsc(0), |(b, _)| b.closed);
        of_core.push(Turn { stretch: s, left, continues: false });
    }
    turns
}

/// The parts of a visit, one for each thread that used the OS thread, with the start of that
/// thread.
fn divided(threads: &Threads, visit: Visit) -> impl Iterator<Item = (Tsc, Visit)> + '_ {
    let mut rest = Some(visit);
    std::iter::from_fn(move || {
        let v = rest.take()?;
        let started_by = |tsc| threads.at(v.tid, tsc).map_or(Tsc(0), |s| s.started);
        let started = started_by(v.came);
        let (mut next, mut by) = (None, v.left);
        // Finds the first thread that followed.
        while started_by(by) > v.came.max(started) {
            next = Some(started_by(by));
            by = Tsc(started_by(by).0 - 1);
        }
        let Some(next) = next else { return Some((started, v)) };
        rest = Some(Visit { came: next, arrived: false, ..v });
        Some((started, Visit { left: next, departure: None, ..v }))
    })
}

fn code_cache(reader: &CaptureReader) -> Result<AddressRange, Error> {
    let (low, high) = (Address(reader.header().code_cache_low), Address(reader.header().code_cache_high));
    if low.0 == 0 && high.0 == 0 {
        let pt_bytes = reader.cores().into_iter().map(|c| reader.pt_bytes(c)).sum();
        if pt_bytes > 0 {
            return Err(Error::NoCodeCache { pt_bytes });
        }
        return Ok(AddressRange::default());
    }
    let range = AddressRange { start: low, end: high };
    if range.is_empty() || range.len() >= u64::from(u32::MAX) {
        return Err(Error::BadCodeCache { low, high });
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NoCode;
    use jportal_capture::schema::{Record, Stamped, ThreadExited, ThreadStarted};
    use jportal_flow::Departure;

    #[test]
    fn a_visit_is_divided_among_those_that_had_the_os_thread() {
        let mut vm = Builder::default();
        let mut put = |tsc, record| vm.record(Stamped { tsc, record }, &mut NoCode);
        for (from, to) in [(100, 200), (250, 260), (300, 400)] {
            put(from, Record::ThreadStarted(ThreadStarted { tid: 7, ..Default::default() }));
            put(to, Record::ThreadExited(ThreadExited { tid: 7, ..Default::default() }));
        }
        let image = vm.finish();
        let parts = |tid, came, left| -> Vec<(u64, u64, u64)> {
            let (tid, came, left, departure) = (Tid(tid), Tsc(came), Tsc(left), Some(Departure::Waited));
            let visit = Visit { tid, came, left, arrived: true, departure };
            divided(&image.threads, visit).map(|(s, v)| (s.0, v.came.0, v.left.0)).collect()
        };
        assert_eq!(parts(7, 50, 350), [(100, 50, 250), (250, 250, 300), (300, 300, 350)]);
        assert_eq!(parts(7, 260, 299), [(250, 260, 299)]);
        assert_eq!(parts(8, 10, 20), [(0, 10, 20)]);
        let (left, departure) = (Tsc(350), Some(Departure::Waited));
        let visit = Visit { tid: Tid(7), came: Tsc(50), left, arrived: true, departure };
        let seen: Vec<_> =
            divided(&image.threads, visit).map(|(_, v)| (v.arrived, v.departure.is_some())).collect();
        assert_eq!(seen, [(true, false), (false, false), (false, true)]);
    }
}
