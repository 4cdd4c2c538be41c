// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A synthetic run for tests: a code cache with a caller and two callees, threads that execute
//! the caller, and a patch of its call.

use jportal_capture::codec::{Bytes, Str};
use jportal_capture::header::{packet_flags, sources};
use jportal_capture::schema::{BlobDefined, CodePatched, ThreadStarted, blob_kinds, patch_reasons};
use jportal_capture::{
    CaptureReader, CaptureWriter, EndReason, FilterRange, Header, Record, Stamped, encode_frame,
};
use jportal_perf_abi::record::{SAMPLE_TYPE, SampleId};
use jportal_perf_abi::{Body, Record as PerfRecord};
use jportal_pt_packet::{CodeSize, Encoder};
use jportal_units::{Core, StreamOffset};
use std::path::Path;

/// First address of the code cache.
pub(crate) const LOW: u64 = 0x40_0000;
/// The first callee, and the callee after the call was patched.
pub(crate) const FIRST: u64 = LOW + 0x100;
pub(crate) const SECOND: u64 = LOW + 0x200;
/// The process and its threads.
pub(crate) const PID: u32 = 40;
pub(crate) const TIDS: [u32; 2] = [41, 42];
/// The times of the run.
pub(crate) const START: u64 = 1_000_000;
pub(crate) const PATCH: u64 = 2_000_000;
/// The address outside the code cache to which the code returns.
pub(crate) const OUTSIDE: u64 = 0x7000_0000;

/// `call rel32` at `at` to `to`.
fn call(at: u64, to: u64) -> Vec<u8> {
    let distance = (to as i64 - (at as i64 + 5)) as i32;
    [&[0xe8][..], &distance.to_le_bytes()].concat()
}

/// The code at `LOW`: `call FIRST; dec eax; jnz LOW; ret`.
fn caller() -> Vec<u8> {
    let mut code = call(LOW, FIRST);
    code.extend([0xff, 0xc8, 0x75, 0xf7, 0xc3]);
    code
}

fn metadata() -> Vec<u8> {
    let blob = |start, name: &str, code: Vec<u8>| {
        let (kind, code) = (blob_kinds::STUB_ROUTINE, Bytes(code.into()));
        Record::BlobDefined(BlobDefined { start, kind, name: Str::from(name), code, entries: Vec::new() })
    };
    let thread = |tid, name: &str| {
        Record::ThreadStarted(ThreadStarted { tid, name: Str::from(name), ..ThreadStarted::default() })
    };
    let patched = call(LOW, SECOND);
    let patch = CodePatched {
        address: LOW,
        reason: patch_reasons::CALL,
        code: Bytes(patched.into()),
        tid: TIDS[1],
        ..CodePatched::default()
    };
    let records = [
        (10, thread(TIDS[0], "main")),
        (11, thread(TIDS[1], "a thread with a long name")),
        (20, blob(LOW, "caller", caller())),
        (21, blob(FIRST, "first", vec![0x90, 0xc3])),
        // `test eax, eax; jnz` to the next instruction; `ret`.
        (22, blob(SECOND, "second", vec![0x85, 0xc0, 0x75, 0, 0xc3])),
        (PATCH, Record::CodePatched(patch)),
    ];
    let mut bytes = Vec::new();
    for (tsc, record) in records {
        encode_frame(&Stamped { tsc, record }, &mut bytes);
    }
    bytes
}

/// The number of loop iterations before and after the patch, in a trace that begins at
/// `begins`.
pub(crate) const fn rounds(begins: u64) -> (u64, u64) {
    if begins < PATCH + 40_000 { (3, 2) } else { (0, 5) }
}

/// The trace of one thread. Only the branch in `SECOND` shows when the patch was made.
pub(crate) fn trace(begins: u64) -> Vec<u8> {
    let mut e = Encoder::new();
    e.psb();
    e.tsc(begins);
    e.psbend();
    e.mode_exec(CodeSize::Bits64);
    e.tip_pge(LOW);
    let (old, new) = rounds(begins);
    for round in 0..old + new {
        if round >= old {
            e.tnt(1, 1);
        }
        // The callee returns; then the loop continues or ends.
        e.tip(LOW + 5);
        e.tnt(u64::from(round + 1 < old + new), 1);
    }
    e.tip_pgd(Some(OUTSIDE));
    e.take()
}

/// Writes a capture in which each thread of `TIDS` has a core of its own, with trace from
/// `begins` on.
pub(crate) fn capture(path: &Path, begins: [u64; 2], with_trace: bool) -> CaptureReader {
    let header = Header {
        pid: PID,
        start_tsc: START,
        tsc_khz: 2_500_000,
        code_cache_low: LOW,
        code_cache_high: LOW + 0x1000,
        pt: jportal_capture::PtConfig {
            source: if with_trace { sources::EMULATED } else { sources::NONE },
            cores: 2,
            packets: packet_flags::TSC,
            sample_type: SAMPLE_TYPE,
            filter: vec![FilterRange { low: LOW, high: LOW + 0x1000 }],
            ..Default::default()
        },
        ..Header::default()
    };
    let mut writer = CaptureWriter::create(path).unwrap();
    writer.header(&header).unwrap();
    writer.metadata(&metadata()).unwrap();
    for (n, (tid, begins)) in (0u32..).zip(TIDS.into_iter().zip(begins)).filter(|_| with_trace) {
        let bytes = trace(begins);
        writer.pt(Core(n), StreamOffset(0), &bytes).unwrap();
        let sample = |time| SampleId { pid: PID, tid, time, cpu: n, id: 1 };
        let switch = |out| Body::Switch { out, preempted: false };
        let mut records = Vec::new();
        let ends = begins + 3_000_000;
        let aux = Body::Aux { offset: 0, size: bytes.len() as u64, flags: 0 };
        for (time, body) in [(begins - 1000, switch(false)), (ends, switch(true)), (ends, aux)] {
            PerfRecord { body, sample: sample(time) }.encode(&mut records);
        }
        writer.sideband(Core(n), &records).unwrap();
    }
    writer.finish(EndReason::Exit, "", Vec::new()).unwrap();
    CaptureReader::open(path).unwrap()
}
