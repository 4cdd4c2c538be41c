// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small capture with every kind of chunk, identical on every run.
#![allow(dead_code)]

use std::path::Path;

use jportal_capture::header::{packet_flags, sources};
use jportal_capture::schema::{CodePatched, MethodFreed, MethodStub, ThreadStarted};
use jportal_capture::{
    CaptureReader, CaptureWriter, Counter, EndReason, FilterRange, Header, LossNote, LossReason, PtConfig,
    Record, Stamped, TimeConversion, encode_frame,
};
use jportal_units::{Core, StreamOffset};

/// Deterministic bytes (xorshift). The golden files hold them, so the sequence must not change.
pub fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.push((x >> 32) as u8);
    }
    out
}

/// The header of the small capture.
pub fn header() -> Header {
    Header {
        pid: 4711,
        start_tsc: 1_000_000,
        start_unix_ns: 1_700_000_000_000_000_000,
        tsc_khz: 2_400_000,
        vm_version: "OpenJDK 64-Bit Server VM (17.0.19+10)".into(),
        vm_flags: "-XX:+JPortal -Xint".into(),
        java_command: "Main a b".into(),
        os: "Linux 6.1.0".into(),
        cpu_vendor: "GenuineIntel".into(),
        cpu_family: 6,
        cpu_model: 0x55,
        cpu_stepping: 7,
        time: TimeConversion { valid: 1, shift: 31, mult: 894_784_853, zero: 12 },
        code_cache_low: 0x7000_0000,
        code_cache_high: 0x7f00_0000,
        pt: PtConfig {
            source: sources::EMULATED,
            cores: 2,
            packets: packet_flags::TSC | packet_flags::MTC,
            mtc_period: 9,
            psb_period: 1,
            tsc_ctc_numerator: 200,
            tsc_ctc_denominator: 2,
            nominal_ratio: 24,
            perf_config: 0x2601,
            sample_type: 0x10087,
            aux_bytes: 1 << 20,
            filter: vec![FilterRange { low: 0x7000_0000, high: 0x7f00_0000 }],
            detail: "seed=1".into(),
            ..PtConfig::default()
        },
        ..Header::default()
    }
}

/// The metadata records of the small capture.
pub fn records() -> Vec<Stamped> {
    let mut all = vec![Stamped {
        tsc: 1,
        record: Record::ThreadStarted(ThreadStarted {
            tid: 4712,
            flags: 5,
            java_tid: 1,
            name: "main".into(),
        }),
    }];
    for i in 0..20u64 {
        let record = match i % 3 {
            0 => Record::MethodStub(MethodStub { method: i, address: 0x7000_0000 + i, target: 0x7000_1000 }),
            1 => Record::MethodFreed(MethodFreed { method: i }),
            _ => Record::CodePatched(CodePatched {
                address: i,
                reason: 1,
                code: noise(i, 40)[..].into(),
                tid: i as u32,
                ..CodePatched::default()
            }),
        };
        all.push(Stamped { tsc: 10 * i, record });
    }
    all
}

/// [`records`] as a metadata stream.
pub fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for r in records() {
        encode_frame(&r, &mut bytes);
    }
    bytes
}

/// A perf record of `size` bytes (a multiple of 8, at least 8).
pub fn perf_record(kind: u32, size: u16, fill: u8) -> Vec<u8> {
    let mut b = kind.to_le_bytes().to_vec();
    b.extend_from_slice(&[0, 0]);
    b.extend_from_slice(&size.to_le_bytes());
    b.resize(usize::from(size), fill);
    b
}

/// One piece of sideband of a core.
pub fn sideband(core: u32) -> Vec<u8> {
    [perf_record(14, 40, core as u8), perf_record(11, 64, 9), perf_record(12, 48, 3)].concat()
}

/// The PT bytes of a core.
pub fn pt(core: u32) -> Vec<u8> {
    noise(u64::from(core) + 100, 700)
}

/// Writes everything but the end chunk, the metadata in pieces that cut records.
pub fn write_body(w: &mut CaptureWriter) {
    w.header(&header()).unwrap();
    for (i, part) in stream().chunks(61).enumerate() {
        w.metadata(part).unwrap();
        if i == 4 {
            for core in 0..2 {
                w.sideband(Core(core), &sideband(core)).unwrap();
                w.pt(Core(core), StreamOffset(0), &pt(core)[..300]).unwrap();
            }
        }
    }
    let note = LossNote {
        core: 1,
        offset: 300,
        reason: LossReason::AuxFull,
        tsc: 99,
        bytes: 4096,
        text: "buffer full".into(),
    };
    w.loss(&note).unwrap();
    w.pt(Core(0), StreamOffset(300), &pt(0)[300..]).unwrap();
    w.pt(Core(1), StreamOffset(4396), &pt(1)[300..]).unwrap();
    w.sideband(Core(1), &sideband(1)).unwrap();
    w.header(&Header { java_command: "Main later".into(), ..header() }).unwrap();
}

/// Writes the whole small capture to `path`.
pub fn write(path: &Path) {
    let mut w = CaptureWriter::create(path).unwrap();
    write_body(&mut w);
    w.finish(EndReason::Exit, "done", vec![Counter { name: "waits".into(), value: 3 }]).unwrap();
}

/// What a capture holds and where, apart from its end chunk.
pub fn contents(r: &CaptureReader) -> String {
    let streams: Vec<_> = r.cores().into_iter().map(|core| (core, r.pt(core), r.sideband(core))).collect();
    let marks: Vec<_> = r.drained().collect();
    let (header, losses, metadata) = (r.header(), r.losses(), r.metadata_pieces());
    format!("{header:?}\n{losses:?}\n{metadata:?}\n{streams:?}\n{marks:?} {:?}", r.described())
}

/// Reads everything that a reader offers; returns the records and the number of errors.
pub fn read_all(r: &CaptureReader) -> (Vec<Stamped>, usize) {
    let mut errors = r.check().len();
    let mut records = Vec::new();
    for item in r.metadata() {
        match item {
            Ok(s) => records.push(s),
            Err(_) => errors += 1,
        }
    }
    for core in r.cores() {
        errors += r.sideband_bytes(core).filter(Result::is_err).count();
    }
    (records, errors)
}
