// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Planted faults: copies a capture with one thing wrong. A check that accepts the copy checks
//! nothing.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jportal_capture::codec::Str;
use jportal_capture::schema::{
    CodePatched, InterpreterCodelet, MethodStub, NMethodInstalled, NMethodMarkers, NO_SCOPE, PoolText,
    Record, Stamped, blob_kinds, compilers, pc_flags,
};
use jportal_capture::{CaptureReader, CaptureWriter, EndReason, frames};
use jportal_pt_packet::{Packet, PacketDecoder, Tnt, find_psb};
use jportal_units::{Core, StreamOffset};

use crate::Result;

/// Metadata is passed to the writer in pieces of about this many bytes.
const METADATA_PIECE: usize = 1 << 20;

/// The fault to plant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The n-th `CodePatched` record of this reason (`schema::patch_reasons`) is missing.
    DropPatch {
        /// The index of the record, from 0.
        n: usize,
        /// The reason.
        reason: u8,
    },
    /// The n-th TNT packet has its oldest outcome inverted.
    FlipTnt {
        /// The index of the packet, from 0.
        n: usize,
    },
    /// The start of the interpreter's template for a bytecode is reported some bytes too high.
    ShiftTemplate {
        /// HotSpot's description of the codelet, `iload` for example.
        codelet: String,
        /// The number of bytes.
        by: u64,
    },
    /// The n-th method entry stub is attributed to the method of the stub before it.
    SwapStub {
        /// The index of the stub; at least 1.
        n: usize,
    },
    /// In the compiled code of the test programs, the path markers of the n-th marked offset that
    /// has a successor with room after it are moved to one byte after the successor. They are then
    /// in the wrong order, in the next machine block, or in another arm of a branch.
    MoveMarker {
        /// The index of the offset, from 0.
        n: usize,
    },
    /// In the compiled code of the test programs, the n-th position of the debug info that has a
    /// successor with another scope gets the scope of the successor.
    ShiftScope {
        /// The index of the position, from 0.
        n: usize,
    },
    /// At the n-th position of the test programs at which C2 deoptimises several frames at once,
    /// the caller of the innermost frame is missing.
    DropFrame {
        /// The index of the position, from 0.
        n: usize,
    },
    /// In the compiled code of the test programs, the debug info of the n-th direct call is
    /// missing.
    DropPosition {
        /// The index of the call, from 0.
        n: usize,
    },
    /// In the compiled code of the test programs, the debug info of the n-th direct call has the
    /// other reexecute bit.
    FlipReexecute {
        /// The index of the call, from 0.
        n: usize,
    },
    /// The names of the test programs' classes, of their static methods and of all threads
    /// contain line feeds and terminal control sequences.
    StrangeNames,
    /// Classes of the test programs have names of the greatest length that a class file allows.
    LongNames,
    /// The class of the test programs' methods was never described.
    NoClass,
    /// The times of all metadata are doubled.
    DoubleTimes,
    /// The record of the VM's call stub and its return address is missing. An older VM that was
    /// killed before it wrote the record leaves such a capture.
    DropCallStub,
    /// The n-th record of compiled code of the test programs is missing.
    DropNMethod {
        /// The index of the record, from 0.
        n: usize,
    },
    /// The n-th record of a change of state of compiled code is missing.
    DropState {
        /// The index of the record, from 0.
        n: usize,
    },
}

/// A prefix for names: a line that imitates a line of the output, a colour, and a switch to
/// right-to-left text.
const STRANGE: &str = "A\nthread \"fake\" (tid 1, java 1)\x1b[31m\u{2067}";
/// A `CONSTANT_Utf8` has at most 65,535 bytes, and so has a symbol of HotSpot.
const LONGEST: usize = 65_520;

/// The classes whose compiled code [`Fault::MoveMarker`], [`Fault::ShiftScope`],
/// [`Fault::DropFrame`], [`Fault::DropPosition`] and [`Fault::FlipReexecute`] change.
const PROGRAMS: &str = "programs/";
/// Tags of constants that invokes refer to (JVMS table 4.4-A): `Methodref`, `InterfaceMethodref`.
const INVOKED: [u8; 2] = [10, 11];

/// Copies `source` to `target` with `fault`; returns a description of the change.
///
/// # Errors
/// If the capture cannot be copied, or has no place for the fault.
pub fn plant(source: &Path, target: &Path, fault: &Fault) -> Result<String> {
    let reader = CaptureReader::open(source)?;
    let mut planter = Planter::new(fault);
    if *fault == Fault::StrangeNames {
        // The constant pool of a class comes before the methods that other classes call by it.
        for stamped in reader.metadata() {
            planter.programs.see(&stamped?.record);
        }
    }
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

/// Whether the record gives the address at which the VM's calls of Java code return.
fn names_call_stub(record: &Record) -> bool {
    let Record::InterpreterEntries(r) = record else { return false };
    r.entries.iter().any(|entry| entry.name.to_string() == "call_stub_return")
}

/// Whether the VM reported the return address of its calls of Java code before it reported the
/// first Java thread. Java code starts the first Java threads, so the address was then reported
/// before Java code ran.
///
/// # Errors
/// If the capture is unreadable or contains neither record.
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

/// Counts the places in a capture's metadata for faults of `fault`'s kind.
///
/// # Errors
/// If the capture is unreadable.
pub fn count_places(source: &Path, fault: fn(usize) -> Fault) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut planter = Planter::new(&fault(usize::MAX - 1));
    for stamped in reader.metadata() {
        planter.record(&mut stamped?);
    }
    Ok(planter.seen)
}

/// Counts the TNT packets of a capture: the places for [`Fault::FlipTnt`].
///
/// # Errors
/// If the capture is unreadable.
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

/// Counts the `CodePatched` records of a reason.
///
/// # Errors
/// If the capture is unreadable.
pub fn count_patches(source: &Path, reason: u8) -> Result<usize> {
    let reader = CaptureReader::open(source)?;
    let mut count = 0;
    for stamped in reader.metadata() {
        count += usize::from(matches!(stamped?.record, Record::CodePatched(p) if p.reason == reason));
    }
    Ok(count)
}

/// Counts the method entry stubs of a capture.
///
/// # Errors
/// If the capture is unreadable.
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

/// The test programs' classes, methods and nmethods, and the uncommon trap blobs, according to
/// the records seen.
#[derive(Default)]
struct Programs {
    classes: HashSet<u64>,
    methods: HashMap<u64, String>,
    /// Names of static methods, without initializers.
    statics: HashSet<String>,
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
                let name = m.name.to_string();
                if m.access_flags & 8 != 0 && !name.starts_with('<') {
                    self.statics.insert(name.clone());
                }
                self.methods.insert(m.method, name);
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
    /// Whether the call that returns to this offset calls an uncommon trap blob.
    fn is_trap(&self, n: &NMethodInstalled, offset: u32) -> bool {
        call_target(n, offset).is_some_and(|target| self.uncommon_traps.contains(&target))
    }
}

/// The target of the direct call that returns to this offset.
fn call_target(n: &NMethodInstalled, offset: u32) -> Option<u64> {
    const CALL: u8 = 0xe8;
    let at = (offset as usize).checked_sub(5)?;
    let &[CALL, a, b, c, d] = n.code.0.get(at..at + 5)? else { return None };
    Some((n.start + u64::from(offset)).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()))
}

impl Planter {
    fn new(fault: &Fault) -> Self {
        Self { fault: fault.clone(), seen: 0, last_stub: 0, programs: Programs::default(), done: None }
    }

    /// Counts a place; returns whether it is the one to change.
    fn hit(&mut self, n: usize) -> bool {
        self.seen += 1;
        self.seen == n + 1
    }

    /// Changes a record; returns false if it is to be dropped.
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
            (Record::NMethodInstalled(nmethod), Fault::DropPosition { n }) => {
                if let Some(at) = self.call(nmethod, n, "lacks its debug info") {
                    nmethod.pc_descs.remove(at);
                }
            }
            (Record::NMethodInstalled(nmethod), Fault::FlipReexecute { n }) => {
                if let Some(at) = self.call(nmethod, n, "has the other reexecute bit") {
                    nmethod.pc_descs[at].flags ^= pc_flags::REEXECUTE;
                }
            }
            (Record::NMethodInstalled(nmethod), Fault::DropNMethod { n })
                if self.programs.own(nmethod) && self.hit(n) =>
            {
                self.done = Some(format!("compilation {} is not recorded", nmethod.compile_id));
                return false;
            }
            (Record::NMethodStateChanged(change), Fault::DropState { n }) if self.hit(n) => {
                self.done = Some(format!("{:#x} stays in its state", change.nmethod));
                return false;
            }
            (record, Fault::DropCallStub) if names_call_stub(record) => {
                self.done = Some("the call stub is not named".to_owned());
                return false;
            }
            _ => {}
        }
        true
    }

    /// Plants the faults that concern names and times.
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
        let mut changed = None;
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
            // Its methods still find their constants.
            (Record::ClassConstants(pool), Fault::NoClass) if self.programs.classes.contains(&pool.klass) => {
                pool.klass = 0;
            }
            (Record::MethodDefined(m), Fault::StrangeNames) => {
                let (own, is_static) = (self.programs.classes.contains(&m.klass), m.access_flags & 8 != 0);
                if own && is_static && self.programs.statics.contains(m.name.text().as_ref()) {
                    m.name = strange(&m.name).as_str().into();
                }
            }
            (Record::ClassConstants(pool), Fault::StrangeNames | Fault::LongNames) => {
                let texts: HashMap<u16, Str> = pool.texts.iter().map(|t| (t.index, t.text.clone())).collect();
                let mut put = |text: String| {
                    let index = u16::MAX - pool.texts.len() as u16;
                    pool.texts.push(PoolText { index, text: text.as_str().into() });
                    index
                };
                for entry in &mut pool.references {
                    let Some(of) = texts.get(&entry.class_name) else { continue };
                    let name = texts.get(&entry.name).map(|name| name.text());
                    let is_static = name.is_some_and(|name| self.programs.statics.contains(name.as_ref()));
                    if is_static && of.text().starts_with(PROGRAMS) && INVOKED.contains(&entry.tag) {
                        entry.name = put(strange(&texts[&entry.name]));
                    }
                    if of.text().starts_with(PROGRAMS) {
                        entry.class_name = put(class(of));
                    }
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

    /// Counts the direct calls of an nmethod. Returns the position of the one to change.
    fn call(&mut self, nmethod: &NMethodInstalled, n: usize, what: &str) -> Option<usize> {
        if !self.programs.own(nmethod) {
            return None;
        }
        let mut found = None;
        for (i, p) in nmethod.pc_descs.iter().enumerate() {
            if call_target(nmethod, p.pc_offset).is_some() && self.hit(n) {
                let (id, offset) = (nmethod.compile_id, p.pc_offset);
                self.done = Some(format!("the call of compile id {id} that returns to +{offset} {what}"));
                found = Some(i);
            }
        }
        found
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
                // A short TNT packet holds its outcomes from bit 1 upward, a long one from its
                // third byte. The oldest outcome is the highest.
                let bit = usize::from(tnt.len) - 1 + if long { 16 } else { 1 };
                bytes[at + bit / 8] ^= 1 << (bit % 8);
                self.done = Some(format!("a branch of core {core:?} turned round"));
            }
        }
    }
}

/// Offset and contents of every TNT packet from the first PSB, and whether it is a long one.
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

/// The offset and kind of each chunk of `capture`, and the offset at which the last one ends.
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

/// The offsets at which a chunk begins, and the file's length: the places where a cut leaves
/// whole chunks.
///
/// # Errors
/// If the file is unreadable or not a sequence of chunks (`FORMAT.md` of the capture crate).
pub fn chunk_boundaries(capture: &Path) -> Result<Vec<u64>> {
    let (chunks, end) = chunks(capture)?;
    Ok([0].into_iter().chain(chunks.iter().map(|c| c.0)).chain([end]).collect())
}

/// The offset at which each trace chunk of `capture` ends.
///
/// # Errors
/// As [`chunk_boundaries`].
pub fn ends_of_trace(capture: &Path) -> Result<Vec<u64>> {
    const PT: u16 = 3;
    let (chunks, end) = chunks(capture)?;
    let behind = chunks.iter().skip(1).map(|c| c.0).chain([end]);
    Ok(chunks.iter().zip(behind).filter(|(c, _)| c.1 == PT).map(|(_, behind)| behind).collect())
}
