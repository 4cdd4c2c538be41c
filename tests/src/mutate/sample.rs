// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small synthetic capture for machines without the VM. Two threads take turns on two cores and
//! execute compiled code with inlining, path markers and a loop, called through a stub. One
//! stretch of core 1 is truncated, and each core has a loss note.

use std::path::Path;

use jportal_capture::codec::Appended;
use jportal_capture::header::{packet_flags, sources};
use jportal_capture::schema::{
    BlobDefined, BytecodeNames, ClassDefined, CodePatched, ExceptionEntry, HandlerEntry, ImplicitEntry,
    InlineContext, InterpreterCodelet, InterpreterEntries, InvokeTarget, LineEntry, MarkedEdge, MarkedOffset,
    MethodDefined, MethodStub, NMethodInstalled, NMethodMarkers, NO_CONTEXT, NO_SCOPE, NamedAddress,
    PathMarker, PcDescriptor, PoolConstant, Record, Scope, Stamped, ThreadStarted, blob_kinds, compilers,
    edge_outcomes, patch_reasons,
};
use jportal_capture::{
    CaptureWriter, Counter, EndReason, FilterRange, Header, LossNote, LossReason, PtConfig, encode_frame,
};
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::{Body, Record as Event, SampleId};
use jportal_pt_packet::Encoder;
use jportal_units::{Core, StreamOffset, Tsc};

use crate::Result;

const CACHE: u64 = 0x7000_0000;
const CACHE_BYTES: u64 = 1 << 20;
/// Where the compiled code begins.
const CODE: u64 = CACHE + 0x1000;
/// The address in the stub to which the compiled code returns.
const BEHIND: u64 = CACHE + 0x208;
const STUB: u64 = CACHE + 0x200;
const CALLER: u64 = 0x100;
const CALLEE: u64 = 0x200;
const PID: u32 = 100;

/// `test %eax,%eax`, `je +2`, two `nop`, `dec %ecx`, `jne` to the start, `ret`.
const MACHINE_CODE: &[u8] = &[0x85, 0xc0, 0x74, 2, 0x90, 0x90, 0xff, 0xc9, 0x75, 0xf6, 0xc3];

fn metadata() -> Vec<(u64, Record)> {
    let method = |method, name: &str, code: &[u8]| {
        Record::MethodDefined(MethodDefined {
            method,
            klass: 0x50,
            access_flags: 9,
            max_stack: 2,
            max_locals: 2,
            name: name.into(),
            signature: "()V".into(),
            code: code.into(),
            exceptions: vec![ExceptionEntry {
                start_bci: 0,
                end_bci: 1,
                handler_bci: 0,
                catch_type: "E".into(),
            }],
            lines: vec![LineEntry { bci: 0, line: 1 }],
            invokes: vec![InvokeTarget {
                bci: 1,
                class_name: "T".into(),
                name: "callee".into(),
                signature: "()V".into(),
            }],
            constants: Some(vec![PoolConstant {
                index: 1,
                tag: 9,
                class_name: "T".into(),
                name: "field".into(),
                signature: "I".into(),
            }]),
            ..Default::default()
        })
    };
    let entry = |name: &str, address| NamedAddress { name: name.into(), address };
    let thread = |tid, name: &str| {
        Record::ThreadStarted(ThreadStarted { tid, flags: 1, java_tid: tid.into(), name: name.into() })
    };
    let blob = |start, kind, name: &str, code: &[u8]| {
        let entries = vec![entry("entry", start)];
        Record::BlobDefined(BlobDefined { start, kind, name: name.into(), code: code.into(), entries })
    };
    vec![
        (10, thread(PID, "main")),
        (11, thread(PID + 1, "other")),
        (20, blob(STUB, blob_kinds::STUB_ROUTINE, "StubRoutines::call_stub", &[0xff, 0xd0, 0x90, 0xc3])),
        (21, blob(CACHE + 0x300, blob_kinds::METHOD_STUBS, "method stubs", &[0xcc; 16])),
        (22, blob(CACHE + 0x400, blob_kinds::RUNTIME_STUB, "resolve_static_call", &[0xc3])),
        (
            23,
            Record::InterpreterCodelet(InterpreterCodelet {
                start: CACHE + 0x500,
                bytecode: 0,
                description: "nop".into(),
                code: [0xff, 0xe0][..].into(),
            }),
        ),
        (24, Record::BytecodeNames(BytecodeNames { names: vec![entry("nop", 1 << 8)] })),
        (
            25,
            Record::InterpreterEntries(InterpreterEntries {
                entries: vec![entry("call_stub", STUB), entry("call_stub_return", STUB + 2)],
            }),
        ),
        (
            30,
            Record::ClassDefined(ClassDefined {
                klass: 0x50,
                name: "T".into(),
                loader_name: "app".into(),
                ..Default::default()
            }),
        ),
        // `nop`, `invokestatic`, `goto 0`, `return`; `nop`, `ifeq 0`, `return`.
        (31, method(CALLER, "caller", &[0, 184, 0, 1, 167, 255, 252, 177])),
        (32, method(CALLEE, "callee", &[0, 153, 255, 255, 177])),
        (33, Record::MethodStub(MethodStub { method: CALLER, address: CACHE + 0x300, target: CODE })),
        (
            40,
            Record::NMethodInstalled(NMethodInstalled {
                start: CODE,
                method: CALLER,
                nmethod: 0x900,
                compile_id: 1,
                compiler: compilers::C2,
                level: 4,
                osr_bci: -1,
                frame_words: 4,
                stub: MACHINE_CODE.len() as u32,
                exception_handler: u32::MAX,
                deopt_handler: u32::MAX,
                deopt_mh_handler: u32::MAX,
                unwind_handler: u32::MAX,
                code: MACHINE_CODE.into(),
                scopes: vec![
                    Scope { parent: NO_SCOPE, method: CALLER, bci: 1 },
                    Scope { parent: 0, method: CALLEE, bci: 0 },
                ],
                pc_descs: vec![PcDescriptor { pc_offset: 6, scope: 1, flags: 0 }],
                handlers: vec![HandlerEntry { pc_offset: 6, ..Default::default() }],
                implicit: vec![ImplicitEntry { pc_offset: 4, continuation: 0 }],
                ..Default::default()
            }),
        ),
        (
            41,
            Record::NMethodMarkers(NMethodMarkers {
                start: CODE,
                nmethod: 0x900,
                compile_id: 1,
                contexts: vec![
                    InlineContext { parent: NO_CONTEXT, call_bci: 0, method: CALLER },
                    InlineContext { parent: 0, call_bci: 1, method: CALLEE },
                ],
                markers: vec![
                    PathMarker { context: 0, bci: 0 },
                    PathMarker { context: 1, bci: 0 },
                    PathMarker { context: 0, bci: 4 },
                ],
                offsets: vec![
                    MarkedOffset { offset: 0, first: 0, count: 2 },
                    MarkedOffset { offset: 6, first: 2, count: 1 },
                ],
                edges: vec![
                    MarkedEdge { from: 2, to: 6, outcome: edge_outcomes::TAKEN, first: 1, count: 1 },
                    MarkedEdge { from: 2, to: 4, outcome: edge_outcomes::NOT_TAKEN, first: 0, count: 0 },
                ],
                ..Default::default()
            }),
        ),
        (
            45,
            Record::CodePatched(CodePatched {
                address: CODE + 4,
                reason: patch_reasons::OTHER,
                code: [0x90, 0x90][..].into(),
                tid: PID,
                since: Appended(43),
            }),
        ),
    ]
}

/// The trace and sideband of a core: `stays` stretches, in which the two threads alternate.
fn core(number: u32, stays: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut out, mut sideband, mut from) = (Encoder::new(), Vec::new(), 0);
    for stay in 0..stays {
        let begin = 1000 + 1000 * stay;
        let tid = PID + (stay as u32 + number) % 2;
        out.psb();
        out.tsc(begin + 10);
        out.psbend();
        for round in 0..20 {
            out.tip_pge(CODE);
            // Two iterations of the loop.
            out.tnt(0b0100 | (round % 2), 4);
            out.tip_pgd(Some(BEHIND));
        }
        let size = out.len() as u64 - from;
        let truncated = number == 1 && stay == stays / 2;
        let flags = if truncated { aux_flags::TRUNCATED } else { 0 };
        for (time, body) in [
            (begin, Body::Switch { out: false, preempted: false }),
            (begin + 900, Body::Switch { out: true, preempted: true }),
            (begin + 900, Body::Aux { offset: from, size, flags }),
        ] {
            let sample = SampleId { pid: PID, tid, time, cpu: number, id: 1 };
            Event { body, sample }.encode(&mut sideband);
        }
        from += size;
    }
    (out.take(), sideband)
}

/// Writes the capture to `path`.
///
/// # Errors
/// If it cannot be written.
pub fn write_sample(path: &Path) -> Result<()> {
    let mut writer = CaptureWriter::create(path)?;
    let pt = PtConfig {
        source: sources::EMULATED,
        cores: 2,
        packets: packet_flags::TSC,
        psb_period: 1,
        aux_bytes: 1 << 20,
        filter: vec![FilterRange { low: CACHE, high: CACHE + CACHE_BYTES }],
        detail: "made by hand".into(),
        ..Default::default()
    };
    let header = Header {
        pid: PID,
        start_tsc: 5,
        tsc_khz: 1_000_000,
        vm_version: "no VM".into(),
        code_cache_low: CACHE,
        code_cache_high: CACHE + CACHE_BYTES,
        pt,
        ..Header::default()
    };
    writer.header(&header)?;
    let records = metadata();
    for piece in records.chunks(records.len() / 3 + 1) {
        let mut bytes = Vec::new();
        for (tsc, record) in piece {
            encode_frame(&Stamped { tsc: *tsc, record: record.clone() }, &mut bytes);
        }
        writer.metadata(&bytes)?;
    }
    for number in 0..2 {
        let (trace, sideband) = core(number, 12);
        writer.sideband(Core(number), &sideband)?;
        let mut at = 0;
        for piece in trace.chunks(trace.len() / 3 + 1) {
            writer.pt(Core(number), StreamOffset(at), piece)?;
            at += piece.len() as u64;
        }
        writer.loss(&LossNote {
            core: number,
            offset: at / 2,
            reason: LossReason::AuxFull,
            tsc: 7000,
            bytes: u64::MAX,
            text: "AUX buffer full".into(),
        })?;
    }
    writer.drained(Core(0), Core(1), Tsc(20_000))?;
    writer.finish(EndReason::Exit, "", vec![Counter { name: "records".into(), value: 14 }])?;
    Ok(())
}
