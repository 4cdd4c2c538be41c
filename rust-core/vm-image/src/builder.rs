// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Builds the image from records.

use crate::code::{CodeBody, CodeVersion, nmethod};
use crate::flaw::{self, Methods};
use crate::interpreter::Interpreter;
use crate::markers::markers;
use crate::methods::{Defined, MethodIndex};
use crate::threads::Threads;
use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_capture::schema::{self, Record, Stamped, blob_kinds, patch_reasons};
use jportal_units::{Address, AddressRange, CodeId, MethodId, MethodPtr, Tid, Tsc};

/// The stubs whose calls of the VM each make a `Resolution` record
/// (`SharedRuntime::generate_stubs`, `Runtime1::generate_patching`).
const RESOLVERS: &[&str] = &[
    "wrong_method_stub",
    "ic_miss_stub",
    "resolve_opt_virtual_call",
    "resolve_virtual_call",
    "resolve_static_call",
    "access_field_patching Runtime1 stub",
    "load_klass_patching Runtime1 stub",
    "load_mirror_patching Runtime1 stub",
    "load_appendix_patching Runtime1 stub",
];

/// The stub through which the VM calls Java code (`StubGenerator::generate_call_stub`).
const CALL_STUB: &str = "StubRoutines::call_stub";

/// Receives the bytes of code from the records, in commit order.
pub trait CodeSink {
    /// The code `bytes` of blob `id` are at `start` from the time `tsc`.
    fn install(&mut self, tsc: Tsc, start: Address, bytes: &[u8], id: CodeId);
    /// Blob `id`, which was just installed, is a compiled method, a native wrapper or a vtable
    /// stub. Only code of the cache calls it, and it returns and jumps only to such code.
    fn leaves_by_calls(&mut self, _id: CodeId) {}
    /// Blob `id`, which was just installed, calls the VM to have calls and patch stubs resolved.
    /// Each of these calls is followed by a [`CodeSink::resolution`].
    fn resolves_calls(&mut self, _id: CodeId) {}
    /// The VM calls Java code through blob `id`, which was just installed.
    fn makes_upcalls(&mut self, _id: CodeId) {}
    /// Blob `id`, which was just installed, is a native wrapper: its calls through a register
    /// lead to code outside the cache.
    fn calls_out(&mut self, _id: CodeId) {}
    /// The VM resolved, for `thread`, a call, or a patch stub with a call, that returns to
    /// `returns`.
    fn resolution(&mut self, _tsc: Tsc, _thread: Tid, _returns: Address) {}
    /// `bytes` were written at `start` between `since` (`None` if unknown) and `tsc`; the blob
    /// stays the same. `writer` is the thread that wrote them, if known; `reason` is one of
    /// `patch_reasons`.
    fn patch(
        &mut self,
        tsc: Tsc,
        since: Option<Tsc>,
        start: Address,
        bytes: &[u8],
        writer: Option<Tid>,
        reason: u8,
    );
    /// There is no code at `start..start+size` from the time `tsc`.
    fn free(&mut self, tsc: Tsc, start: Address, size: u64);
}

/// A record that contradicts earlier records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// A method whose class was never described.
    UnknownClass(MethodPtr),
    /// A method with a bytecode that refers to an entry of the constant pool that no record
    /// describes.
    UnknownConstant(MethodPtr),
    /// The end or new name of a thread that never started.
    UnknownThread(u32),
    /// A record of a kind that this version does not know.
    UnknownRecord(u16),
    /// Path markers of an nmethod that was not just installed.
    StrayMarkers(Address),
    /// A method stub whose jump cannot reach its target.
    StubOutOfReach(Address),
    /// An nmethod with debug info or path markers that no compiler can have made
    /// ([`crate::NMethod::flaw`]).
    Flawed(Address),
}

/// The traced VM as a function of time.
#[derive(Debug, Default)]
pub struct VmImage {
    /// Methods, and the method that a `Method*` meant at each time.
    pub methods: MethodIndex,
    /// The template interpreter.
    pub interpreter: Interpreter,
    /// All threads that the VM reported.
    pub threads: Threads,
    /// The recorder's messages.
    pub notices: Vec<String>,
    /// The first records that contradicted others.
    pub oddities: Vec<Oddity>,
    /// The number of all such records.
    pub oddity_count: u64,
    /// Changes of state of nmethods that were never described.
    pub stray_states: u64,
    codes: Vec<CodeVersion>,
    /// Method entry stubs: by address, definitions in commit order.
    stubs: HashMap<u64, Vec<(Tsc, MethodId)>>,
}

impl VmImage {
    /// The code version of `id`.
    pub fn code(&self, id: CodeId) -> Option<&CodeVersion> {
        self.codes.get(id.0 as usize)
    }
    /// All code versions in order of installation.
    pub fn codes(&self) -> &[CodeVersion] {
        &self.codes
    }
    /// The method table.
    pub fn table(&self) -> &MethodTable {
        self.methods.table()
    }
    /// The method whose entry stub a thread entered at `at`, at the time `tsc` or shortly after
    /// it: a coarse clock is late. So if the last method there had ended by then, it is the next
    /// one. The VM lets a stub rest for two seconds before another method gets it
    /// (`jportalMethodStubs.hpp`), so a clock that is late by less decides rightly.
    pub fn stub_at(&self, at: Address, tsc: Tsc) -> Option<MethodId> {
        let defs = self.stubs.get(&at.0)?;
        let next = defs.partition_point(|d| d.0 <= tsc).max(1);
        let last = defs.get(next - 1)?.1;
        let ended = self.methods.had_ended(last, tsc);
        Some(defs.get(next).filter(|_| ended).map_or(last, |d| d.1))
    }
    /// All method entry stubs: address and definitions in commit order.
    pub fn stubs(&self) -> impl Iterator<Item = (Address, &[(Tsc, MethodId)])> {
        self.stubs.iter().map(|(&a, d)| (Address(a), &**d))
    }
    fn odd_unless(&mut self, fine: bool, o: Oddity) {
        if !fine {
            self.odd(o);
        }
    }
    fn odd(&mut self, o: Oddity) {
        const KEPT: usize = 100;
        self.oddity_count += 1;
        if self.oddities.len() < KEPT {
            self.oddities.push(o);
        }
    }
}

/// Builds a [`VmImage`] from records in commit order.
#[derive(Debug, Default)]
pub struct Builder {
    image: VmImage,
    /// Entry stubs of methods that are linked but not described at this point, by `Method*`. What
    /// is left at the end belongs to classes that were being linked when the recording or the dump
    /// ended. None of their methods can have run; if one did, the flow enters a stub that
    /// [`VmImage::stub_at`] does not know.
    unnamed_stubs: HashMap<u64, Vec<(Tsc, u64)>>,
    /// The last code installed at an address.
    at: HashMap<u64, CodeId>,
    /// The last nmethod of each `nmethod*`.
    nmethods: HashMap<u64, CodeId>,
}

/// HotSpot's `jmp rel32`.
const JMP_REL32: u8 = 0xe9;

impl Builder {
    /// Processes the next record; passes the bytes of code to `sink`.
    pub fn record(&mut self, stamped: Stamped, sink: &mut impl CodeSink) {
        let tsc = Tsc(stamped.tsc);
        let image = &mut self.image;
        match stamped.record {
            Record::ThreadStarted(r) => image.threads.started(tsc, &r),
            Record::ThreadExited(r) => {
                let known = image.threads.exited(tsc, &r);
                image.odd_unless(known, Oddity::UnknownThread(r.tid));
            }
            Record::ThreadRenamed(r) => {
                let known = image.threads.renamed(&r);
                image.odd_unless(known, Oddity::UnknownThread(r.tid));
            }
            Record::ClassLoaded(r) => image.methods.load_class(tsc, &r),
            Record::ClassDefined(r) => image.methods.define_class(tsc, &r),
            Record::ClassConstants(r) => image.methods.set_constants(r),
            Record::ClassUnloaded(r) => image.methods.unload_class(tsc, r.klass),
            Record::MethodDefined(r) => {
                let ptr = MethodPtr(r.method);
                let Defined { id, class_is_known, is_complete } = image.methods.define(tsc, r);
                image.odd_unless(class_is_known, Oddity::UnknownClass(ptr));
                image.odd_unless(is_complete, Oddity::UnknownConstant(ptr));
                for (since, address) in self.unnamed_stubs.remove(&ptr.0).unwrap_or_default() {
                    image.stubs.entry(address).or_default().push((since, id));
                }
            }
            Record::MethodStub(r) => self.stub(tsc, r.method, r.address, r.target, sink),
            Record::InterpreterCodelet(r) => {
                image.interpreter.codelet(&r);
                self.install(tsc, r.start, &r.code.0, CodeBody::Codelet, sink);
            }
            Record::InterpreterTable(r) => image.interpreter.table(&r),
            Record::InterpreterEntries(r) => image.interpreter.entries(&r.entries),
            Record::BytecodeNames(r) => image.interpreter.names(&r),
            Record::BlobDefined(r) => {
                let entries = r.entries.iter().map(|e| (e.name.text().into(), e.address)).collect();
                let body = CodeBody::Blob { kind: r.kind, name: r.name.text().into(), entries };
                self.install(tsc, r.start, &r.code.0, body, sink);
            }
            Record::NMethodInstalled(mut r) => {
                let code = std::mem::take(&mut r.code);
                let start = r.start;
                let methods = &image.methods;
                let resolve = |ptr| methods.at(MethodPtr(ptr), tsc);
                let flaw = flaw::of_debug_info(&r, &Methods { table: methods.table(), resolve });
                let mut n = nmethod(r, resolve);
                n.flaw = flaw.map(Box::new);
                let sound = n.flaw.is_none();
                image.odd_unless(sound, Oddity::Flawed(Address(start)));
                self.install(tsc, start, &code.0, CodeBody::NMethod(Box::new(n)), sink);
            }
            Record::NMethodMarkers(r) => self.markers(tsc, r),
            Record::CodePatched(r) => {
                let writer = (r.tid != 0).then_some(Tid(r.tid));
                let since = (r.since.0 != 0).then_some(Tsc(r.since.0));
                sink.patch(tsc, since, Address(r.address), &r.code.0, writer, r.reason);
            }
            Record::Resolution(r) => sink.resolution(tsc, Tid(r.tid), Address(r.return_address)),
            Record::CodeFreed(r) => {
                let freed = self.at.remove(&r.start).and_then(|id| image.codes.get_mut(id.0 as usize));
                freed.into_iter().for_each(|code| code.freed = Some(tsc));
                sink.free(tsc, Address(r.start), r.size);
            }
            Record::Notice(r) => image.notices.push(r.text.text().into_owned()),
            Record::Unknown { kind } => image.odd(Oddity::UnknownRecord(kind)),
            Record::MethodFreed(r) => image.methods.freed(tsc, MethodPtr(r.method)),
            // The effects of a change of state on the code are visible as patches.
            Record::NMethodStateChanged(r) => {
                let changed = self.nmethods.get(&r.nmethod).and_then(|id| image.codes.get_mut(id.0 as usize));
                match changed.map(|code| &mut code.body) {
                    Some(CodeBody::NMethod(n)) => n.states.push((tsc, r.state)),
                    // One that was dead already when the recording began is no nmethod here.
                    _ => image.stray_states += 1,
                }
            }
            _ => {}
        }
    }
    fn install(&mut self, tsc: Tsc, start: u64, code: &[u8], body: CodeBody, sink: &mut impl CodeSink) {
        let id = CodeId(self.image.codes.len() as u32);
        let range = AddressRange::at(Address(start), code.len() as u64);
        sink.install(tsc, Address(start), code, id);
        match &body {
            CodeBody::NMethod(nmethod) => {
                sink.leaves_by_calls(id);
                if nmethod.is_native_wrapper() {
                    sink.calls_out(id);
                }
            }
            // They jump to entries of methods, all of which are in the code cache
            // (`SharedRuntime::generate_i2c2i_adapters`, `MethodHandles`, `VtableStubs`).
            CodeBody::Blob {
                kind: blob_kinds::VTABLE_STUB | blob_kinds::ADAPTER | blob_kinds::METHOD_HANDLES_ADAPTER,
                ..
            } => sink.leaves_by_calls(id),
            CodeBody::Blob { kind: blob_kinds::RUNTIME_STUB, name, .. } if RESOLVERS.contains(&&**name) => {
                sink.resolves_calls(id);
            }
            CodeBody::Blob { kind: blob_kinds::STUB_ROUTINE, name, .. } if &**name == CALL_STUB => {
                sink.makes_upcalls(id);
            }
            _ => {}
        }
        self.at.insert(start, id);
        if let CodeBody::NMethod(n) = &body {
            self.nmethods.insert(n.pointer, id);
        }
        self.image.codes.push(CodeVersion { id, range, installed: tsc, freed: None, body });
    }
    /// The markers follow the nmethod's own record; records of other threads may lie in between.
    fn markers(&mut self, tsc: Tsc, r: schema::NMethodMarkers) {
        const LOOK_BACK: usize = 4096;
        let image = &mut self.image;
        let (start, pointer) = (Address(r.start), r.nmethod);
        let methods = &image.methods;
        let found = image.codes.iter_mut().rev().take(LOOK_BACK).find(|c| c.range.start == start);
        let Some(CodeVersion { range, body: CodeBody::NMethod(n), .. }) = found else {
            return image.odd(Oddity::StrayMarkers(start));
        };
        if n.pointer != pointer || n.markers.is_some() {
            return image.odd(Oddity::StrayMarkers(start));
        }
        let resolve = |ptr| methods.at(MethodPtr(ptr), tsc);
        match flaw::of_markers(&r, range.len(), &Methods { table: methods.table(), resolve }) {
            Some(flaw) => {
                n.flaw = Some(Box::new(flaw));
                image.odd(Oddity::Flawed(start));
            }
            None => n.markers = Some(Box::new(markers(r, resolve))),
        }
    }
    /// A method entry stub is a `jmp rel32`; the bytes are computed from the record.
    fn stub(&mut self, tsc: Tsc, method: u64, address: u64, target: u64, sink: &mut impl CodeSink) {
        // The VM links a class, including its stubs, before it describes the methods.
        match self.image.methods.live(MethodPtr(method)) {
            Some(id) => self.image.stubs.entry(address).or_default().push((tsc, id)),
            None => self.unnamed_stubs.entry(method).or_default().push((tsc, address)),
        }
        let distance = target.wrapping_sub(address.wrapping_add(5)) as i64;
        match i32::try_from(distance) {
            Ok(d) => {
                let mut jump = [JMP_REL32, 0, 0, 0, 0];
                jump[1..].copy_from_slice(&d.to_le_bytes());
                // The record is made before the method can be called.
                sink.patch(tsc, Some(tsc), Address(address), &jump, None, patch_reasons::OTHER);
            }
            Err(_) => self.image.odd(Oddity::StubOutOfReach(Address(address))),
        }
    }
    /// The image of everything recorded so far.
    pub fn finish(mut self) -> VmImage {
        self.image.interpreter.finish();
        self.image.methods.finish(&self.image.threads);
        self.image
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::codec::{Bytes, Str};
    use jportal_capture::schema::{BlobDefined, NMethodInstalled, Resolution, compilers};

    #[derive(Default)]
    struct SinkNotes {
        resolving: Vec<CodeId>,
        upcalling: Vec<CodeId>,
        calling_out: Vec<CodeId>,
        leaving_by_calls: Vec<CodeId>,
        resolutions: Vec<(Tsc, Tid, Address)>,
    }

    impl CodeSink for SinkNotes {
        fn install(&mut self, _: Tsc, _: Address, _: &[u8], _: CodeId) {}
        fn patch(&mut self, _: Tsc, _: Option<Tsc>, _: Address, _: &[u8], _: Option<Tid>, _: u8) {}
        fn free(&mut self, _: Tsc, _: Address, _: u64) {}
        fn resolves_calls(&mut self, id: CodeId) {
            self.resolving.push(id);
        }
        fn makes_upcalls(&mut self, id: CodeId) {
            self.upcalling.push(id);
        }
        fn calls_out(&mut self, id: CodeId) {
            self.calling_out.push(id);
        }
        fn leaves_by_calls(&mut self, id: CodeId) {
            self.leaving_by_calls.push(id);
        }
        fn resolution(&mut self, tsc: Tsc, thread: Tid, returns: Address) {
            self.resolutions.push((tsc, thread, returns));
        }
    }

    #[test]
    fn stubs_that_resolve_calls_or_make_upcalls_are_known_by_kind_and_name() {
        let blobs = [
            (blob_kinds::RUNTIME_STUB, "resolve_static_call"),
            (blob_kinds::RUNTIME_STUB, "wrong_method_abstract_stub"),
            (blob_kinds::BUFFER, "resolve_static_call"),
            (blob_kinds::RUNTIME_STUB, "ic_miss_stub"),
            (blob_kinds::RUNTIME_STUB, "load_klass_patching Runtime1 stub"),
            (blob_kinds::RUNTIME_STUB, "StubRoutines::call_stub"),
            (blob_kinds::STUB_ROUTINE, "StubRoutines::call_stub"),
            (blob_kinds::STUB_ROUTINE, "StubRoutines::forward exception"),
            (blob_kinds::ADAPTER, "I2C/C2I adapters"),
            (blob_kinds::METHOD_HANDLES_ADAPTER, "MethodHandles adapters"),
            (blob_kinds::VTABLE_STUB, "itable stub"),
        ];
        let (mut builder, mut seen) = (Builder::default(), SinkNotes::default());
        let mut put = |tsc, record| builder.record(Stamped { tsc, record }, &mut seen);
        for (n, (kind, name)) in blobs.into_iter().enumerate() {
            let (start, code) = (0x1000 * (n as u64 + 1), Bytes(vec![0x90; 16].into()));
            let blob = BlobDefined { start, kind, name: Str::from(name), code, ..Default::default() };
            put(1, Record::BlobDefined(blob));
        }
        put(7, Record::Resolution(Resolution { tid: 3, return_address: 0x9000 }));
        assert_eq!(seen.resolving, [CodeId(0), CodeId(3), CodeId(4)]);
        assert_eq!(seen.upcalling, [CodeId(6)]);
        assert_eq!(seen.leaving_by_calls, [CodeId(8), CodeId(9), CodeId(10)]);
        assert_eq!(seen.resolutions, [(Tsc(7), Tid(3), Address(0x9000))]);
    }

    #[test]
    fn native_wrappers_call_out() {
        let (mut builder, mut seen) = (Builder::default(), SinkNotes::default());
        // 200 is a compiler of a later version.
        let all = [compilers::C2, compilers::NATIVE_WRAPPER, compilers::JVMCI, 200];
        for (n, compiler) in (1..).zip(all) {
            let code = Bytes(vec![0x90; 16].into());
            let nmethod = NMethodInstalled { start: 0x1000 * n, compiler, code, ..Default::default() };
            let record = Record::NMethodInstalled(nmethod);
            builder.record(Stamped { tsc: 1, record }, &mut seen);
        }
        assert_eq!(seen.calling_out, [CodeId(1)]);
    }

    #[test]
    fn a_class_may_be_in_the_middle_of_its_linking_when_the_recording_ends() {
        let mut builder = Builder::default();
        let mut put = |tsc, record| builder.record(Stamped { tsc, record }, &mut SinkNotes::default());
        let stub =
            |method, address| Record::MethodStub(schema::MethodStub { method, address, target: 0x8000 });
        put(1, stub(7, 0x1000));
        put(2, stub(8, 0x1008));
        let class = schema::ClassDefined { klass: 5, name: Str::from("C"), ..Default::default() };
        put(3, Record::ClassDefined(class));
        put(4, Record::MethodDefined(schema::MethodDefined { method: 7, klass: 5, ..Default::default() }));
        let image = builder.finish();
        assert_eq!((image.oddity_count, &image.oddities[..]), (0, &[][..]));
        assert!(image.stub_at(Address(0x1000), Tsc(1)).is_some());
        assert_eq!(image.stub_at(Address(0x1008), Tsc(9)), None);
    }

    /// A clock that knows the time of PSBs only is late: a thread has entered the next method's
    /// stub, and the clock says that there is none yet.
    #[test]
    fn a_stub_whose_method_has_ended_is_the_next_ones() {
        let mut builder = Builder::default();
        let mut put = |tsc, record| builder.record(Stamped { tsc, record }, &mut SinkNotes::default());
        let stub =
            |method| Record::MethodStub(schema::MethodStub { method, address: 0x1000, target: 0x8000 });
        let class = |klass| {
            Record::ClassDefined(schema::ClassDefined { klass, name: Str::from("C"), ..Default::default() })
        };
        let method = |method, klass| {
            let name = format!("m{method}");
            let name = Str::from(name.as_str());
            Record::MethodDefined(schema::MethodDefined { method, klass, name, ..Default::default() })
        };
        for (tsc, number, end) in [(10, 1, 100), (200, 2, 300), (400, 3, 500)] {
            put(tsc, class(number));
            put(tsc + 1, stub(10 + number));
            put(tsc + 2, method(10 + number, number));
            put(
                end,
                match number {
                    1 => Record::MethodFreed(schema::MethodFreed { method: 11 }),
                    _ => Record::ClassUnloaded(schema::ClassUnloaded { klass: number }),
                },
            );
        }
        let image = builder.finish();
        let at = |tsc| {
            let id = image.stub_at(Address(0x1000), Tsc(tsc)).unwrap();
            image.table().get(id).unwrap().name.to_string()
        };
        let found: Vec<String> = [1, 11, 100, 101, 201, 300, 301, 401, 501].into_iter().map(at).collect();
        assert_eq!(found, ["m11", "m11", "m11", "m12", "m12", "m12", "m13", "m13", "m13"]);
    }

    #[test]
    fn states_belong_to_the_last_nmethod_of_a_pointer() {
        let mut builder = Builder::default();
        let mut put = |tsc, record| builder.record(Stamped { tsc, record }, &mut SinkNotes::default());
        let installed = |compile_id| {
            let code = Bytes(vec![0x90; 16].into());
            let nmethod =
                NMethodInstalled { start: 0x1000, nmethod: 7, compile_id, code, ..Default::default() };
            Record::NMethodInstalled(nmethod)
        };
        let state =
            |nmethod, state| Record::NMethodStateChanged(schema::NMethodStateChanged { nmethod, state });
        put(1, installed(1));
        put(2, state(7, schema::nmethod_states::NOT_ENTRANT));
        put(3, state(7, schema::nmethod_states::ZOMBIE));
        put(4, Record::CodeFreed(schema::CodeFreed { start: 0x1000, size: 16 }));
        put(5, installed(2));
        put(6, state(7, schema::nmethod_states::NOT_ENTRANT));
        put(7, state(8, schema::nmethod_states::NOT_ENTRANT));
        let image = builder.finish();
        let lives: Vec<_> =
            image.codes().iter().map(|c| (c.freed, c.nmethod().map_or(&[][..], |n| &n.states))).collect();
        let first = [(Tsc(2), 1), (Tsc(3), 2)];
        assert_eq!(lives, [(Some(Tsc(4)), &first[..]), (None, &[(Tsc(6), 1)][..])]);
        assert_eq!(image.stray_states, 1);
    }
}
