// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests on whole captures, which they write themselves: lost bytes, remaining bytes, rejected
//! captures and settings.

use std::path::{Path, PathBuf};

use jportal_capture::header::sources;
use jportal_capture::schema::ThreadStarted;
use jportal_capture::{
    CaptureReader, CaptureWriter, EndReason, Header, LossNote, LossReason, PtConfig, Record as Metadata,
    Stamped, encode_frame,
};
use jportal_degrade::overflow::Overflow;
use jportal_degrade::{Amount, Degraded, Error, LossSettings, Plan, Reason};
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::{Body, Record, RecordReader, SampleId};
use jportal_pt_packet::{Encoder, PSB, Packet, PacketDecoder};
use jportal_units::{Core, StreamOffset};

const CORES: u32 = 2;
const STAYS: u64 = 60;

/// One core's trace. All its addresses are different, so that each stretch of it can be
/// identified.
fn core(number: u32) -> (Vec<u8>, Vec<u8>) {
    let (mut out, mut sideband, mut from) = (Encoder::new(), Vec::new(), 0);
    let mut ip = 0x7000_0000 + (u64::from(number) << 32);
    for stay in 0..STAYS {
        let (begin, end) = (1_000_000 * (stay + 1), 1_000_000 * (stay + 1) + 900_000);
        let tid = 10 + (stay + u64::from(number)) as u32 % 3;
        for part in 0..4 {
            out.psb();
            out.tsc(begin + 200_000 * part);
            if part > 0 {
                out.fup(ip);
            }
            out.psbend();
            if part == 0 {
                out.tip_pge(ip);
            }
            for _ in 0..300 {
                ip += 16;
                out.tip(ip);
                out.tnt(ip >> 4, 3);
            }
        }
        out.tip_pgd(None);
        let size = out.len() as u64 - from;
        let bodies = [
            (begin, Body::Switch { out: false, preempted: false }),
            (end, Body::Switch { out: true, preempted: true }),
            (end, Body::Aux { offset: from, size, flags: 0 }),
        ];
        for (time, body) in bodies {
            let sample = SampleId { pid: 9, tid, time, cpu: number, id: 0 };
            Record { body, sample }.encode(&mut sideband);
        }
        from += size;
    }
    (out.take(), sideband)
}

fn header() -> Header {
    let pt = PtConfig { source: sources::EMULATED, cores: CORES, aux_bytes: 4 << 20, ..PtConfig::default() };
    Header { pid: 9, start_tsc: 900_000, tsc_khz: 1_000_000, pt, ..Header::default() }
}

fn write(path: &Path, header: &Header, change: impl FnOnce(&mut CaptureWriter)) {
    let mut w = CaptureWriter::create(path).unwrap();
    w.header(header).unwrap();
    let mut bytes = Vec::new();
    let started = ThreadStarted { tid: 10, name: "main".into(), ..ThreadStarted::default() };
    encode_frame(&Stamped { tsc: 5, record: Metadata::ThreadStarted(started) }, &mut bytes);
    // Pieces may cut records anywhere.
    bytes.chunks(7).for_each(|piece| w.metadata(piece).unwrap());
    for number in 0..CORES {
        let (trace, sideband) = core(number);
        w.sideband(Core(number), &sideband).unwrap();
        let mut at = 0;
        for piece in trace.chunks(10_007) {
            w.pt(Core(number), StreamOffset(at), piece).unwrap();
            at += piece.len() as u64;
        }
    }
    change(&mut w);
    w.finish(EndReason::Exit, "done", Vec::new()).unwrap();
}

struct DegradeFolder {
    dir: tempfile::TempDir,
}

impl DegradeFolder {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        write(&place.file("a"), &header(), |_| {});
        place
    }
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn degrade(&self, from: &str, to: &str, settings: LossSettings) -> Result<Degraded, Error> {
        let reader = CaptureReader::open(&self.file(from)).unwrap();
        Plan::make(&reader, settings, &mut |_, _| {})?.write(&self.file(to), &mut |_, _| {})
    }
}

fn drained(amount: Amount) -> LossSettings {
    LossSettings {
        aux: Some(8192),
        drain: Some(amount),
        timer_ms: 10.0,
        overflow: None,
        sideband: None,
        seed: 1,
    }
}

fn trace(reader: &CaptureReader, core: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in reader.pt(Core(core)) {
        assert_eq!(piece.offset, all.len() as u64, "what is left is contiguous");
        all.extend(reader.read(piece).unwrap());
    }
    all
}

fn records(reader: &CaptureReader, core: u32) -> Vec<Record> {
    let all: Vec<Vec<u8>> = reader.sideband_bytes(Core(core)).map(Result::unwrap).collect();
    all.iter().flat_map(|piece| RecordReader::new(piece).map(Result::unwrap).collect::<Vec<_>>()).collect()
}

#[test]
fn the_share_asked_for_is_lost_and_the_rest_is_there() {
    let place = DegradeFolder::new();
    for wanted in [0.1, 0.25, 0.5] {
        let d = place.degrade("a", "b", drained(Amount::Share(wanted))).unwrap();
        assert!((d.share() - wanted).abs() < 0.03, "{} for {wanted}", d.share());
        let reader = CaptureReader::open(&place.file("b")).unwrap();
        assert!(reader.completeness().is_whole() && reader.check().is_empty());
        assert_eq!(reader.metadata().map(Result::unwrap).count(), 1);
        for truth in &d.cores {
            let (old, new) = (core(truth.core.0).0, trace(&reader, truth.core.0));
            assert_eq!(truth.bytes, old.len() as u64);
            assert_eq!(truth.kept + truth.lost(), truth.bytes);
            let (mut left, mut at) = (Vec::new(), 0);
            for gap in &truth.gaps {
                left.extend_from_slice(&old[at..gap.from.0 as usize]);
                at = gap.to.0 as usize;
                assert_eq!(gap.place.0, left.len() as u64);
                assert_eq!(gap.threads.iter().map(|t| t.1).sum::<u64>(), gap.bytes());
                assert!(gap.until.is_none() || old[at..].starts_with(&PSB), "decoding can go on");
            }
            left.extend_from_slice(&old[at..]);
            assert_eq!(left, new);
        }
        let lost: u64 = d.threads.values().map(|t| t.lost).sum();
        assert_eq!(lost, d.lost());
    }
}

#[test]
fn the_records_cover_what_is_left_and_say_where_it_was_cut() {
    let place = DegradeFolder::new();
    let d = place.degrade("a", "b", drained(Amount::Share(0.3))).unwrap();
    let reader = CaptureReader::open(&place.file("b")).unwrap();
    for truth in &d.cores {
        let (mut at, mut cut, mut switches, mut latest) = (0, Vec::new(), 0, 0);
        for r in records(&reader, truth.core.0) {
            assert!(r.sample.time >= latest, "times of records never step back");
            latest = r.sample.time;
            match r.body {
                Body::Aux { offset, size, flags } => {
                    assert!(offset == at && size > 0);
                    at += size;
                    cut.extend((flags & aux_flags::TRUNCATED != 0).then_some(at));
                }
                Body::Switch { .. } => switches += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((at, switches), (truth.kept, 2 * STAYS), "switches are never lost");
        assert_eq!(cut, truth.gaps.iter().map(|g| g.place.0).collect::<Vec<_>>());
        let notes = reader.losses().iter().filter(|n| n.core == truth.core.0);
        assert!(notes.clone().all(|n| n.reason == LossReason::AuxFull));
        assert_eq!(notes.map(|n| n.offset).collect::<Vec<_>>(), cut);
    }
}

#[test]
fn equal_seeds_make_equal_files() {
    let place = DegradeFolder::new();
    let overflow = Some(Overflow { every: 3000, swallow: 100 });
    let with = |seed| LossSettings { seed, overflow, ..drained(Amount::Share(0.2)) };
    for (seed, name) in [(1, "b"), (1, "c"), (2, "d")] {
        place.degrade("a", name, with(seed)).unwrap();
    }
    let read = |name| std::fs::read(place.file(name)).unwrap();
    assert!(read("b") == read("c"), "the same seed gives the same bytes");
    assert!(read("b") != read("d"));
    // Nothing is lost: the trace is unchanged.
    let d = place.degrade("a", "e", drained(Amount::Bandwidth(1e12))).unwrap();
    assert_eq!(d.lost(), 0);
    let (a, e) =
        (CaptureReader::open(&place.file("a")).unwrap(), CaptureReader::open(&place.file("e")).unwrap());
    for number in 0..CORES {
        assert_eq!(trace(&a, number), trace(&e, number));
        assert_eq!(records(&a, number), records(&e, number));
    }
}

#[test]
fn overflows_stand_in_the_trace_where_the_truth_says() {
    let place = DegradeFolder::new();
    let overflow = Some(Overflow { every: 3000, swallow: 100 });
    for drain in [None, Some(Amount::Share(0.3))] {
        let d =
            place.degrade("a", "b", LossSettings { overflow, drain, ..drained(Amount::Share(0.0)) }).unwrap();
        let reader = CaptureReader::open(&place.file("b")).unwrap();
        for truth in &d.cores {
            let bytes = trace(&reader, truth.core.0);
            assert_eq!(truth.kept, bytes.len() as u64);
            let told: Vec<u64> =
                truth.gaps.iter().filter(|g| g.reason != Reason::Truncated).map(|g| g.place.0).collect();
            // Decoded from gap to gap, since the unit stops in the middle of packets.
            let cuts =
                truth.gaps.iter().filter(|g| g.reason == Reason::Truncated).map(|g| g.place.0 as usize);
            let (mut from, mut seen) = (0, Vec::new());
            for to in cuts.chain([bytes.len()]) {
                let mut decoder = PacketDecoder::at(&bytes[from..to], StreamOffset(from as u64));
                while let Ok(Some((offset, packet))) = decoder.next_packet() {
                    seen.extend((packet == Packet::Ovf).then_some(offset.0));
                }
                from = to;
            }
            assert!(told.len() > 5);
            assert_eq!(seen, told);
        }
    }
}

#[test]
fn refusals_say_why() {
    let place = DegradeFolder::new();
    let quarter = drained(Amount::Share(0.25));
    let refused = |from: &str, to: &str, settings, part: &str| {
        let e = place.degrade(from, to, settings).unwrap_err().to_string();
        assert!(e.contains(part), "{e:?} does not say {part:?}");
    };
    refused("a", "a", quarter, "the same file");
    place.degrade("a", "lossy", quarter).unwrap();
    refused("lossy", "x", quarter, "noted a loss on core 0");
    write(&place.file("noted"), &header(), |w| {
        let text = "data ring full".into();
        let reason = LossReason::SidebandFull;
        w.loss(&LossNote { core: 1, offset: 0, reason, tsc: 0, bytes: 1, text }).unwrap();
    });
    refused("noted", "x", quarter, "core 1: data ring full");
    write(&place.file("more"), &header(), |w| {
        w.pt(Core(0), StreamOffset(1 << 40), &[0]).unwrap();
    });
    refused("more", "x", quarter, "do not cover its trace");
    write(&place.file("slow"), &Header { tsc_khz: 0, ..header() }, |_| {});
    refused("slow", "x", quarter, "how fast the TSC runs");
    let perf = PtConfig { source: sources::PERF, ..header().pt };
    write(&place.file("perf"), &Header { pt: perf, ..header() }, |_| {});
    refused("perf", "x", quarter, "comes from perf");
    let mut w = CaptureWriter::create(&place.file("none")).unwrap();
    w.header(&header()).unwrap();
    w.finish(EndReason::Exit, "", Vec::new()).unwrap();
    refused("none", "x", quarter, "holds no PT");
    refused("a", "x", LossSettings { aux: Some(10_000), ..quarter }, "power of two");
    refused("a", "x", drained(Amount::Share(1.5)), "0 to 0.99");
    refused("a", "x", drained(Amount::Bandwidth(0.0)), "a bandwidth of 0");
    let mut bytes = std::fs::read(place.file("a")).unwrap();
    let mut old = bytes.clone();
    old[8..12].copy_from_slice(&[1, 0, 2, 0]);
    std::fs::write(place.file("old"), &old).unwrap();
    refused("old", "x", quarter, "has format 1.2");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(place.file("damaged"), &bytes).unwrap();
    refused("damaged", "x", quarter, "not whole");
    std::fs::write(place.file("torn"), &bytes[..middle]).unwrap();
    refused("torn", "x", quarter, "cut off");
}
