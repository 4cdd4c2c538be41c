// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests the tool that plants faults: it must change what it says, and nothing else.

use std::path::Path;

use jportal_capture::schema::{
    BlobDefined, ClassDefined, CodePatched, InterpreterCodelet, MarkedOffset, MethodDefined, MethodStub,
    NMethodInstalled, NMethodMarkers, NO_SCOPE, PcDescriptor, Record, Scope, Stamped, blob_kinds, compilers,
    patch_reasons, pc_flags,
};
use jportal_capture::{CaptureReader, CaptureWriter, EndReason, Header, frames};
use jportal_pt_packet::{Encoder, Packet, PacketDecoder, Tnt};
use jportal_tests::fault::{self, Fault};
use jportal_units::{Core, StreamOffset};

fn records() -> Vec<Record> {
    let patch = |address, reason| {
        Record::CodePatched(CodePatched {
            address,
            reason,
            code: [1, 2][..].into(),
            tid: 1,
            ..Default::default()
        })
    };
    let stub = |method| Record::MethodStub(MethodStub { method, address: method + 1, target: 9 });
    let codelet = |start, name: &str| {
        Record::InterpreterCodelet(InterpreterCodelet {
            start,
            bytecode: 21,
            description: name.into(),
            code: [0x90][..].into(),
        })
    };
    vec![
        codelet(0x100, "nop"),
        codelet(0x200, "iload"),
        stub(100),
        stub(200),
        patch(0x1000, patch_reasons::CALL),
        patch(0x2000, patch_reasons::VERIFIED_ENTRY),
        patch(0x3000, patch_reasons::CALL),
    ]
}

/// Compiled code of a test program that calls the uncommon trap at offset 5 with three frames,
/// and compiled code of another class.
fn compiled() -> Vec<Record> {
    const START: u64 = 0x5000;
    const TRAP: u64 = 0x9000;
    let class = |klass, name: &str| {
        Record::ClassDefined(ClassDefined { klass, name: name.into(), ..ClassDefined::default() })
    };
    let method =
        |method, klass| Record::MethodDefined(MethodDefined { method, klass, ..MethodDefined::default() });
    let call = |start: u64| {
        let way = u32::try_from(TRAP - (start + 5)).unwrap().to_le_bytes();
        [&[0xe8][..], &way, &[0x90, 0x90, 0x90]].concat()
    };
    let scope = |parent, bci| Scope { parent, method: 50, bci };
    let at = |pc_offset, scope| PcDescriptor { pc_offset, scope, flags: 0 };
    let nmethod = |compile_id, start, method| {
        Record::NMethodInstalled(NMethodInstalled {
            start,
            method,
            compile_id,
            compiler: compilers::C2,
            code: call(start)[..].into(),
            scopes: vec![scope(NO_SCOPE, 1), scope(0, 2), scope(1, 3)],
            pc_descs: vec![at(2, 0), at(5, 2), at(7, 1)],
            ..NMethodInstalled::default()
        })
    };
    let marked = |offset, first| MarkedOffset { offset, first, count: 1 };
    let markers = |compile_id| {
        let offsets = vec![marked(0, 0), marked(4, 1), marked(7, 2)];
        Record::NMethodMarkers(NMethodMarkers { compile_id, offsets, ..NMethodMarkers::default() })
    };
    vec![
        Record::BlobDefined(BlobDefined {
            start: TRAP,
            kind: blob_kinds::UNCOMMON_TRAP,
            ..BlobDefined::default()
        }),
        class(5, "programs/A"),
        class(6, "java/lang/Object"),
        method(50, 5),
        method(60, 6),
        nmethod(1, START + 0x100, 60),
        markers(1),
        nmethod(2, START, 50),
        markers(2),
    ]
}

fn packets() -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.psb();
    encoder.psbend();
    encoder.tnt(0b101, 3);
    encoder.tip(0x1234);
    encoder.tnt_long(Tnt { bits: 0b11, len: 40 });
    encoder.tnt(0, 1);
    encoder.take()
}

fn write(path: &Path) {
    write_records(path, records());
}

fn write_records(path: &Path, records: Vec<Record>) {
    let mut writer = CaptureWriter::create(path).unwrap();
    writer.header(&Header::default()).unwrap();
    let mut bytes = Vec::new();
    for (tsc, record) in (1..).zip(records) {
        frames::encode_frame(&Stamped { tsc, record }, &mut bytes);
    }
    writer.metadata(&bytes).unwrap();
    writer.pt(Core(2), StreamOffset(4096), &packets()).unwrap();
    writer.finish(EndReason::Exit, "", Vec::new()).unwrap();
}

/// The records and the TNT packets of a capture.
fn content(path: &Path) -> (Vec<Record>, Vec<Tnt>) {
    let reader = CaptureReader::open(path).unwrap();
    assert!(reader.completeness().is_whole());
    let pieces = reader.pt(Core(2));
    assert_eq!((pieces.len(), pieces[0].offset), (1, 4096));
    let bytes = reader.read(&pieces[0]).unwrap();
    let mut decoder = PacketDecoder::new(&bytes);
    let mut tnt = Vec::new();
    while let Some((_, packet)) = decoder.next_packet().unwrap() {
        if let Packet::TntShort(t) | Packet::TntLong(t) = packet {
            tnt.push(t);
        }
    }
    (reader.metadata().map(|s| s.unwrap().record).collect(), tnt)
}

fn planted(fault: &Fault) -> (Vec<Record>, Vec<Tnt>) {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source);
    fault::plant(&source, &target, fault).unwrap();
    content(&target)
}

#[test]
fn each_fault_changes_one_thing() {
    let good = records();
    let tnt = vec![Tnt { bits: 0b101, len: 3 }, Tnt { bits: 0b11, len: 40 }, Tnt { bits: 0, len: 1 }];

    let mut expected = good.clone();
    expected.remove(6);
    assert_eq!(planted(&Fault::DropPatch { n: 1, reason: patch_reasons::CALL }), (expected, tnt.clone()));

    let mut expected = good.clone();
    let Record::InterpreterCodelet(codelet) = &mut expected[1] else { unreachable!() };
    codelet.start += 8;
    assert_eq!(planted(&Fault::ShiftTemplate { codelet: "iload".into(), by: 8 }), (expected, tnt.clone()));

    let mut expected = good.clone();
    let Record::MethodStub(stub) = &mut expected[3] else { unreachable!() };
    stub.method = 100;
    assert_eq!(planted(&Fault::SwapStub { n: 1 }), (expected, tnt.clone()));

    for (n, bits) in [(0, 0b001), (1, 1 << 39 | 0b11), (2, 1)] {
        let mut expected = tnt.clone();
        expected[n].bits = bits;
        assert_eq!(planted(&Fault::FlipTnt { n }), (good.clone(), expected), "packet {n}");
    }
}

#[test]
fn faults_of_compiled_code_change_the_programs_only() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write_records(&source, compiled());
    let planted = |fault: &Fault| {
        fault::plant(&source, &target, fault).unwrap();
        content(&target).0
    };
    let expected = |change: &dyn Fn(&mut NMethodInstalled, &mut NMethodMarkers)| {
        let mut all = compiled();
        let [.., Record::NMethodInstalled(n), Record::NMethodMarkers(m)] = &mut all[..] else {
            unreachable!()
        };
        change(n, m);
        all
    };
    let moved = |i: usize, to| {
        expected(&|_, m| {
            m.offsets[i].offset = to;
            m.offsets.swap(i, i + 1);
        })
    };
    assert_eq!(planted(&Fault::MoveMarker { n: 0 }), moved(0, 5));
    assert_eq!(planted(&Fault::MoveMarker { n: 1 }), moved(1, 8));
    assert_eq!(planted(&Fault::ShiftScope { n: 1 }), expected(&|n, _| n.pc_descs[1].scope = 1));
    assert_eq!(planted(&Fault::DropFrame { n: 0 }), expected(&|n, _| n.scopes[2].parent = 0));
    let (dropped, flipped) = (Fault::DropPosition { n: 0 }, Fault::FlipReexecute { n: 0 });
    let without = expected(&|n, _| {
        n.pc_descs.remove(1);
    });
    assert_eq!(planted(&dropped), without);
    assert_eq!(planted(&flipped), expected(&|n, _| n.pc_descs[1].flags = pc_flags::REEXECUTE));
    let places = |kind| fault::count_places(&source, kind).unwrap();
    assert_eq!(places(|n| Fault::DropPosition { n }), 1, "only one position is that of a call");
    assert_eq!(places(|n| Fault::MoveMarker { n }), 2);
    assert_eq!(places(|n| Fault::ShiftScope { n }), 2);
    assert_eq!(places(|n| Fault::DropFrame { n }), 1, "a trap with one frame is no place");
}

#[test]
fn a_fault_without_a_place_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source);
    assert!(fault::plant(&source, &target, &Fault::FlipTnt { n: 3 }).is_err());
    assert_eq!(fault::count_tnt(&source).unwrap(), 3);
    assert_eq!(fault::count_patches(&source, patch_reasons::CALL).unwrap(), 2);
}

#[test]
fn chunk_boundaries_are_where_the_reader_finds_whole_captures() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("a");
    write(&source);
    let boundaries = fault::chunk_boundaries(&source).unwrap();
    // The start of the file, its header, metadata, PT, index and end chunks, and its end.
    assert_eq!(boundaries.len(), 7);
    assert_eq!(boundaries.last(), Some(&std::fs::metadata(&source).unwrap().len()));
    let file = std::fs::OpenOptions::new().write(true).open(&source).unwrap();
    for cut in [boundaries[5], boundaries[4]] {
        file.set_len(cut).unwrap();
        let reader = CaptureReader::open(&source).unwrap();
        assert!(reader.completeness().torn.is_none() && reader.completeness().end.is_none());
        assert_eq!(reader.metadata().count(), records().len());
    }
}
