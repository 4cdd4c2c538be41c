// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Planted faults: a capture is copied with one thing wrong. A check that stays green on the copy
//! checks nothing.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jportal_capture::codec::Str;
use jportal_capture::schema::{
    CodePatched, InterpreterCodelet, MethodStub, NMethodInstalled, NMethodMarkers, NO_SCOPE, Record, Stamped,
    blob_kinds, compilers,
};
use jportal_capture::{CaptureReader, CaptureWriter, EndReason, frames};
use jportal_pt_packet::{Packet, PacketDecoder, Tnt, find_psb};
use jportal_units::{Core, StreamOffset};

use crate::Result;

/// Metadata is handed to the writer in pieces of about this many bytes.
const METADATA_PIECE: usize = 1 << 20;

/// What is to go wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The n-th `CodePatched` record of this reason (`schema::patch_reasons`) is missing.
    DropPatch {
        /// Which.
        n: usize,
        /// Of the reason.
        reason: u8,
    },
    /// The n-th TNT packet has its oldest branch turned round.
    FlipTnt {
        /// Which.
        n: usize,
    },
    /// The interpreter's template for a bytecode is reported some bytes further on.
    ShiftTemplate {
        /// HotSpot's description of the codelet, `iload` for example.
        codelet: String,
        /// By how many bytes.
        by: u64,
    },
    /// The n-th method entry stub is credited to the method of the one before.
    SwapStub {
        /// Which; at least 1.
        n: usize,
    },
    /// In the compiled code of the test programs, the path markers of the n-th marked offset that has another one behind
    /// it stand just behind that one: in the wrong order, in the next machine block, or in another arm of a branch.
    MoveMarker {
        /// Which.
        n: usize,
    },
    /// In the compiled code of the test programs, the debug info of the n-th position that has another one behind it
    /// is that of the position behind.
    ShiftScope {
        /// Which.
        n: usize,
    },
    /// The n-th position of the test programs at which C2 deoptimises several frames at once lacks the caller of the
    /// innermost one.
    DropFrame {
        /// Which.
        n: usize,
    },
    /// Classes of the test programs, their static methods and all threads have names with line feeds and what a terminal obeys.
    StrangeNames,
    /// Classes of the test programs have names as long as a class file may have them.
    LongNames,
    /// Methods of the test programs are of a class that was never described.
    NoClass,
    /// The times of all metadata are twice what they were.
    DoubleTimes,
    /// Where the VM calls Java code, and where these calls return, is missing: what an older VM left that was killed before
    /// it had said so.
    DropCallStub,
}

/// In front of a name: a line that is not ours, a colour, and letters in the other direction.
const STRANGE: &str = "A\nthread \"fake\" (tid 1, java 1)\x1b[31m\u{2067}";
/// A `CONSTANT_Utf8` has at most 65,535 bytes, and HotSpot's symbols as many.
const LONGEST: usize = 65_520;

/// The classes whose compiled code [`Fault::MoveMarker`] and the two behind it change.
const PROGRAMS: &str = "programs/";

/// Copies `source` to `target` with `fault`; returns what was changed, in words.
///
/// # Errors
/// When the capture cannot be copied, or has nothing the fault could be planted in.
pub fn plant(source: &Path, target: &Path, fault: &Fault) -> Result<String> {
    let reader = CaptureReader::open(source)?;
    let mut planter = Planter::new(fault);
    let mut writer = CaptureWriter::create(target)?;
    writer.header(reader.header())?;
    copy_metadata(&reader, &mut writer, &mut planter)?;
    for core in reader.cores() {
        copy_core(&reader, &mut writer, core, &mut planter)?;
    }
    for note in reader.losses() {
        writer.loss(note)?;
    }
    writer.finish(EndReason::Exit, "", Vec::new())?;
    planter.done.ok_or_else(|| format!("the capture has nothing for {fault:?}; seen {}", planter.seen).into())
}

/// Whether the record says where calls of Java code by the VM return.
fn names_call_stub(record: &Record) -> bool {
    let Record::InterpreterEntries(r) = record else { return false };
    r.entries.iter().any(|entry| entry.name.to_string() == "call_stub_return")
}

/// Whether the VM has said where its calls of Java code return before any thread of Java's began: the first
/// of these are made by the first Java code.
///
/// # Errors
/// When the capture is unreadable, or says neither.
pub fn names_call_stub_first(source: &Path) -> Result<bool> {
    let reader = CaptureReader::open(source)?;
    for stamped in reader.metadata() {
        match stamped?.record {
            Record::ThreadStarted(thread) if thread.java_tid != 0 => return Ok(false),
            record if names_call_stub(&record) => return Ok(true),
            _ => {}
        }
    }
    Err("the capture names neither the call stub nor a thread of Java's".into())
}

/// Places in a capture for the faults of `fault`'s kind that change compiled code.
///
/// # Errors
/// When the capture is unreadable.
pub fn count_places(source: &Path, fault: fn(usize) -> Fault) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut planter = Planter::new(&fault(usize::MAX - 1));
    for stamped in reader.metadata() {
        planter.record(&mut stamped?);
    }
    Ok(planter.seen)
}

/// TNT packets of a capture, that is, places for [`Fault::FlipTnt`].
///
/// # Errors
/// When the capture is unreadable.
pub fn count_tnt(source: &Path) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut count = 0;
    for core in reader.cores() {
        for piece in reader.pt(core) {
            count += tnt_packets(&reader.read(piece)?).len();
        }
    }
    Ok(count)
}

/// `CodePatched` records of a reason.
///
/// # Errors
/// When the capture is unreadable.
pub fn count_patches(source: &Path, reason: u8) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut count = 0;
    for stamped in reader.metadata() {
        count += usize::from(matches!(stamped?.record, Record::CodePatched(p) if p.reason == reason));
    }
    Ok(count)
}

/// Method entry stubs of a capture.
///
/// # Errors
/// When the capture is unreadable.
pub fn count_stubs(source: &Path) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut count = 0;
    for stamped in reader.metadata() {
        count += usize::from(matches!(stamped?.record, Record::MethodStub(_)));
    }
    Ok(count)
}

struct Planter {
    fault: Fault,
    seen: usize,
    last_stub: u64,
    programs: Programs,
    done: Option<String>,
}

/// What of the VM belongs to the test programs, as far as records have come.
#[derive(Default)]
struct Programs {
    classes: HashSet<u64>,
    methods: HashMap<u64, String>,
    /// By compile id.
    compiled: HashSet<u32>,
    uncommon_traps: HashSet<u64>,
}

impl Programs {
    fn see(&mut self, record: &Record) {
        match record {
            Record::ClassDefined(c) if c.name.to_string().starts_with(PROGRAMS) => {
                self.classes.insert(c.klass);
            }
            Record::MethodDefined(m) if self.classes.contains(&m.klass) => {
                self.methods.insert(m.method, m.name.to_string());
            }
            Record::NMethodInstalled(n) if self.methods.contains_key(&n.method) => {
                self.compiled.insert(n.compile_id);
            }
            Record::BlobDefined(b) if b.kind == blob_kinds::UNCOMMON_TRAP => {
                self.uncommon_traps.insert(b.start);
            }
            _ => {}
        }
    }
    fn own(&self, n: &NMethodInstalled) -> bool {
        n.compiler != compilers::NATIVE_WRAPPER && self.methods.contains_key(&n.method)
    }
    fn name(&self, method: u64) -> &str {
        self.methods.get(&method).map_or("another class's method", String::as_str)
    }
    /// Whether the call that returns to this offset is one of the uncommon trap.
    fn is_trap(&self, n: &NMethodInstalled, offset: u32) -> bool {
        const CALL: u8 = 0xe8;
        let Some(at) = (offset as usize).checked_sub(5) else { return false };
        let Some(&[opcode, a, b, c, d]) = n.code.0.get(at..at + 5) else { return false };
        let target =
            (n.start + u64::from(offset)).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
        opcode == CALL && self.uncommon_traps.contains(&target)
    }
}

impl Planter {
    fn new(fault: &Fault) -> Self {
        Self { fault: fault.clone(), seen: 0, last_stub: 0, programs: Programs::default(), done: None }
    }

    /// Whether this is the one to change; counts.
    fn hit(&mut self, n: usize) -> bool {
        self.seen += 1;
        self.seen == n + 1
    }

    /// Changes a record; false drops it.
    fn record(&mut self, stamped: &mut Stamped) -> bool {
        self.programs.see(&stamped.record);
        self.rename(stamped);
        match (&mut stamped.record, self.fault.clone()) {
            (Record::CodePatched(patch), Fault::DropPatch { n, reason }) if patch.reason == reason => {
                return !self.drops(patch, n);
            }
            (Record::InterpreterCodelet(codelet), Fault::ShiftTemplate { codelet: wanted, by }) => {
                self.shift(codelet, &wanted, by);
            }
            (Record::MethodStub(stub), Fault::SwapStub { n }) => self.swap(stub, n),
            (Record::NMethodMarkers(markers), Fault::MoveMarker { n }) => self.move_marker(markers, n),
            (Record::NMethodInstalled(nmethod), Fault::ShiftScope { n }) => self.shift_scope(nmethod, n),
            (Record::NMethodInstalled(nmethod), Fault::DropFrame { n }) => self.drop_frame(nmethod, n),
            (record, Fault::DropCallStub) if names_call_stub(record) => {
                self.done = Some("the call stub is not named".to_owned());
                return false;
            }
            _ => {}
        }
        true
    }

    /// The faults that concern names and times.
    fn rename(&mut self, stamped: &mut Stamped) {
        let fault = self.fault.clone();
        let class = |name: &Str| {
            let name = name.text();
            match (&fault, name.strip_prefix(PROGRAMS)) {
                (Fault::StrangeNames, Some(rest)) => format!("{PROGRAMS}{STRANGE}{rest}"),
                (Fault::LongNames, Some(rest)) => {
                    format!("{PROGRAMS}{}{rest}", "x".repeat(LONGEST - name.len()))
                }
                _ => name.into_owned(),
            }
        };
        let (mut changed, static_call) = (None, 184);
        let strange = |name: &Str| format!("{STRANGE}{}", name.text());
        match (&mut stamped.record, &fault) {
            (_, Fault::DoubleTimes) => {
                stamped.tsc = stamped.tsc.saturating_mul(2);
                changed = Some("all times doubled".to_owned());
            }
            (Record::ClassDefined(c), Fault::StrangeNames | Fault::LongNames) => {
                c.name = class(&c.name).as_str().into();
                changed = Some("classes renamed".to_owned());
            }
            (Record::ThreadStarted(t), Fault::StrangeNames) => t.name = strange(&t.name).as_str().into(),
            (Record::MethodDefined(m), Fault::NoClass) if self.programs.classes.contains(&m.klass) => {
                m.klass = 0;
                changed = Some("methods without a class".to_owned());
            }
            (Record::MethodDefined(m), Fault::StrangeNames | Fault::LongNames) => {
                let (own, is_static) = (self.programs.classes.contains(&m.klass), m.access_flags & 8 != 0);
                let plain = |name: &Str| name.text().starts_with('<') || fault != Fault::StrangeNames;
                if own && is_static && !plain(&m.name) {
                    m.name = strange(&m.name).as_str().into();
                }
                for i in &mut m.invokes {
                    let called = m.code.0.get(usize::from(i.bci)) == Some(&static_call);
                    if called && i.class_name.text().starts_with(PROGRAMS) && !plain(&i.name) {
                        i.name = strange(&i.name).as_str().into();
                    }
                    i.class_name = class(&i.class_name).as_str().into();
                }
            }
            _ => {}
        }
        self.done = changed.or(self.done.take());
    }

    fn drops(&mut self, patch: &CodePatched, n: usize) -> bool {
        let hit = self.hit(n);
        if hit {
            self.done =
                Some(format!("patch of {} bytes at {:#x} dropped", patch.code.0.len(), patch.address));
        }
        hit
    }

    fn shift(&mut self, codelet: &mut InterpreterCodelet, wanted: &str, by: u64) {
        if self.done.is_none() && codelet.description.to_string() == wanted {
            codelet.start += by;
            self.done = Some(format!("template {wanted} moved to {:#x}", codelet.start));
        }
    }

    fn swap(&mut self, stub: &mut MethodStub, n: usize) {
        let previous = std::mem::replace(&mut self.last_stub, stub.method);
        if self.hit(n) {
            self.done = Some(format!("stub {:#x} credited to method {previous:#x}", stub.address));
            stub.method = previous;
        }
    }

    fn move_marker(&mut self, m: &mut NMethodMarkers, n: usize) {
        if !self.programs.compiled.contains(&m.compile_id) {
            return;
        }
        for i in 1..m.offsets.len() {
            let (from, to) = (m.offsets[i - 1].offset, m.offsets[i].offset + 1);
            let room = m.offsets.get(i + 1).is_none_or(|next| to < next.offset);
            if room && self.hit(n) {
                m.offsets[i - 1].offset = to;
                m.offsets.swap(i - 1, i);
                self.done =
                    Some(format!("markers of compile id {} moved from +{from} to +{to}", m.compile_id));
            }
        }
    }

    fn shift_scope(&mut self, nmethod: &mut NMethodInstalled, n: usize) {
        if !self.programs.own(nmethod) {
            return;
        }
        for i in 1..nmethod.pc_descs.len() {
            let (own, next) = (&nmethod.pc_descs[i - 1], &nmethod.pc_descs[i]);
            let (offset, scope) = (own.pc_offset, next.scope);
            if own.scope != NO_SCOPE && scope != NO_SCOPE && scope != own.scope && self.hit(n) {
                nmethod.pc_descs[i - 1].scope = scope;
                let id = nmethod.compile_id;
                self.done = Some(format!(
                    "debug info of compile id {id} at +{offset} is that of the position behind"
                ));
            }
        }
    }

    fn drop_frame(&mut self, nmethod: &mut NMethodInstalled, n: usize) {
        if !self.programs.own(nmethod) {
            return;
        }
        for i in 0..nmethod.pc_descs.len() {
            let (at, offset) = (nmethod.pc_descs[i].scope as usize, nmethod.pc_descs[i].pc_offset);
            let Some(scope) = nmethod.scopes.get(at) else { continue };
            let Some(caller) = nmethod.scopes.get(scope.parent as usize) else { continue };
            let (above, method) = (caller.parent, caller.method);
            if self.programs.is_trap(nmethod, offset) && self.hit(n) {
                nmethod.scopes[at].parent = above;
                let (id, name) = (nmethod.compile_id, self.programs.name(method));
                self.done = Some(format!("compile id {id} at +{offset} lacks the frame of {name}"));
            }
        }
    }

    fn pt(&mut self, core: Core, bytes: &mut [u8]) {
        let Fault::FlipTnt { n } = self.fault else { return };
        for (at, tnt, long) in tnt_packets(bytes) {
            if self.hit(n) {
                // TNT-8 holds its branches above bit 0, TNT-64 from its third byte on; oldest branch highest.
                let bit = usize::from(tnt.len) - 1 + if long { 16 } else { 1 };
                bytes[at + bit / 8] ^= 1 << (bit % 8);
                self.done = Some(format!("a branch of core {core:?} turned round"));
            }
        }
    }
}

/// Place, content and size of every TNT packet from the first PSB on.
fn tnt_packets(bytes: &[u8]) -> Vec<(usize, Tnt, bool)> {
    let mut found = Vec::new();
    let Some(start) = find_psb(bytes, 0) else { return found };
    let mut decoder = PacketDecoder::new(&bytes[start..]);
    while let Ok(Some((at, packet))) = decoder.next_packet() {
        let at = start + usize::try_from(at.0).unwrap_or(usize::MAX);
        match packet {
            Packet::TntShort(tnt) => found.push((at, tnt, false)),
            Packet::TntLong(tnt) => found.push((at, tnt, true)),
            _ => {}
        }
    }
    found
}

fn copy_metadata(reader: &CaptureReader, writer: &mut CaptureWriter, planter: &mut Planter) -> Result<()> {
    let mut frames_bytes = Vec::new();
    for stamped in reader.metadata() {
        let mut stamped = stamped?;
        if let Record::Unknown { kind } = stamped.record {
            return Err(format!("a record of unknown kind {kind} cannot be copied").into());
        }
        if planter.record(&mut stamped) {
            frames::encode_frame(&stamped, &mut frames_bytes);
        }
        if frames_bytes.len() > METADATA_PIECE {
            writer.metadata(&frames_bytes)?;
            frames_bytes.clear();
        }
    }
    writer.metadata(&frames_bytes)?;
    Ok(())
}

fn copy_core(
    reader: &CaptureReader,
    writer: &mut CaptureWriter,
    core: Core,
    planter: &mut Planter,
) -> Result<()> {
    for piece in reader.pt(core) {
        let mut bytes = reader.read(piece)?;
        planter.pt(core, &mut bytes);
        writer.pt(core, StreamOffset(piece.offset), &bytes)?;
    }
    for piece in reader.sideband(core) {
        writer.sideband(core, &reader.read(piece)?)?;
    }
    Ok(())
}

/// Where each chunk of `capture` begins, and its kind, and where the last one ends.
fn chunks(capture: &Path) -> Result<(Vec<(u64, u16)>, u64)> {
    use std::os::unix::fs::FileExt;
    const PREAMBLE: u64 = 16;
    const HEAD: u64 = 32;
    let file = std::fs::File::open(capture)?;
    let length = file.metadata()?.len();
    let mut at = PREAMBLE;
    let mut all = Vec::new();
    while at < length {
        let mut head = [0; HEAD as usize];
        file.read_exact_at(&mut head, at)?;
        if &head[..4] != b"JPCH" {
            return Err(format!("no chunk at {at}").into());
        }
        all.push((at, u16::from_le_bytes(head[4..6].try_into()?)));
        at += HEAD + u64::from(u32::from_le_bytes(head[8..12].try_into()?));
    }
    Ok((all, at))
}

/// File offsets at which a chunk begins, and the file's length: every place where a cut leaves whole chunks.
///
/// # Errors
/// When the file is unreadable or no sequence of chunks (`FORMAT.md` of the capture crate).
pub fn chunk_boundaries(capture: &Path) -> Result<Vec<u64>> {
    let (chunks, end) = chunks(capture)?;
    Ok([0].into_iter().chain(chunks.iter().map(|c| c.0)).chain([end]).collect())
}

/// Where each chunk of trace of `capture` ends.
///
/// # Errors
/// As [`chunk_boundaries`].
pub fn ends_of_trace(capture: &Path) -> Result<Vec<u64>> {
    const PT: u16 = 3;
    let (chunks, end) = chunks(capture)?;
    let behind = chunks.iter().skip(1).map(|c| c.0).chain([end]);
    Ok(chunks.iter().zip(behind).filter(|(c, _)| c.1 == PT).map(|(_, behind)| behind).collect())
}
