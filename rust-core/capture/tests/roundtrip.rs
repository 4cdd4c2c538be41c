// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reading returns what was written, in whole or in part; failures are typed errors.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jportal_capture::chunk::{Head, Kind};
use jportal_capture::{
    CaptureReader, CaptureWriter, DamageKind, EndReason, Error, Header, LossReason, Sealer,
};
use jportal_units::{Core, StreamOffset, Tsc};

#[test]
fn everything_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    common::write(&path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let r = CaptureReader::open(&path).unwrap();
    assert!(r.completeness().is_whole());
    assert_eq!(r.header().java_command, "Main later".into());
    assert_eq!(r.header().pt, common::header().pt);
    assert_eq!(r.cores(), [Core(0), Core(1)]);
    assert_eq!(common::read_all(&r), (common::records(), 0));
    for core in r.cores() {
        let bytes: Vec<u8> = r.pt(core).iter().flat_map(|p| r.read(p).unwrap()).collect();
        assert_eq!(bytes, common::pt(core.get()));
        assert_eq!(r.pt_bytes(core), 700);
    }
    assert_eq!(r.pt(Core(1))[1].offset, 4396, "the loss shows as a jump");
    let twice = [common::sideband(1), common::sideband(1)].concat();
    assert_eq!(r.sideband_bytes(Core(1)).map(Result::unwrap).collect::<Vec<_>>().concat(), twice);
    assert_eq!(r.losses()[0].reason, LossReason::AuxFull);
    let end = r.completeness().end.as_ref().unwrap();
    assert_eq!((end.reason, end.pt_bytes), (EndReason::Exit, 1400));
    assert_eq!(end.metadata_bytes, common::stream().len() as u64);
}

#[test]
fn up_to_when_cores_were_drained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let mut w = CaptureWriter::create(&path).unwrap();
    w.header(&Header::default()).unwrap();
    w.drained(Core(0), Core(7), Tsc(5)).unwrap();
    w.drained(Core(8), Core(65_535), Tsc(9)).unwrap();
    w.drained(Core(0), Core(7), Tsc(u64::MAX - 1)).unwrap();
    assert!(matches!(w.drained(Core(8), Core(65_536), Tsc(9)), Err(Error::CoreNumber { core: 65_536 })));
    drop(w);

    let r = CaptureReader::open(&path).unwrap();
    let all: Vec<_> = r.drained().collect();
    assert_eq!(all, [(0..=7, Tsc(u64::MAX - 1)), (8..=65_535, Tsc(9))]);
    assert!(
        r.completeness().damaged.is_empty() && r.completeness().unknown_chunks == 0 && r.cores().is_empty()
    );
}

#[test]
fn a_large_piece_is_split_and_a_large_record_survives() {
    use jportal_capture::{Record, Stamped, encode_frame, schema::CodePatched};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let code = common::noise(5, 9 << 20);
    let record = Record::CodePatched(CodePatched {
        address: 1,
        reason: 0,
        code: code[..].into(),
        tid: 7,
        ..Default::default()
    });
    let big = Stamped { tsc: 5, record };
    let mut stream = common::stream();
    encode_frame(&big, &mut stream);
    stream.extend(common::stream());
    let records = vec![common::perf_record(11, 40_000, 1); 300].concat();

    let mut w = CaptureWriter::create(&path).unwrap();
    w.header(&Header::default()).unwrap();
    w.metadata(&stream).unwrap();
    w.pt(Core(3), StreamOffset(77), &code).unwrap();
    w.sideband(Core(3), &records).unwrap();
    w.finish(EndReason::Exit, "", Vec::new()).unwrap();

    let r = CaptureReader::open(&path).unwrap();
    let (read, errors) = common::read_all(&r);
    assert_eq!(errors, 0);
    assert_eq!(read[common::records().len()], big);
    assert_eq!(read.len(), 2 * common::records().len() + 1);
    assert_eq!(r.cores(), [Core(3)]);
    assert!(r.pt(Core(3)).len() > 1);
    assert!(r.sideband(Core(3)).iter().all(|p| p.len % 40_000 == 0), "cut between records only");
}

/// Whoever computes the checksums, and by whichever way, the file is the same.
#[test]
fn sealed_pieces_make_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let (stream, trace) = (common::stream().repeat(9000), common::noise(3, 5 << 20));
    let records = vec![common::perf_record(11, 40_000, 1); 150].concat();
    let (core, at) = (Core(3), StreamOffset(77));
    let begun = |name: &str| {
        let mut w = CaptureWriter::create(&dir.path().join(name)).unwrap();
        w.header(&Header::default()).unwrap();
        w
    };
    let mut w = begun("plain");
    w.metadata(&stream).unwrap();
    w.pt(core, at, &trace).unwrap();
    w.sideband(core, &records).unwrap();
    let written = w.finish(EndReason::Exit, "", Vec::new()).unwrap();
    assert_eq!(written.chunks, 1 + 3 + 2 + 2 + 2, "of 8.8 MB, 5 MB and 6 MB, with index and end");
    for (name, sealer) in [("instruction", Sealer::default()), ("table", Sealer::by_table())] {
        let mut w = begun(name);
        w.seal_with(sealer);
        sealer.metadata(&stream).for_each(|piece| w.append(&piece).unwrap());
        sealer.pt(core, at, &trace).for_each(|piece| w.append(&piece).unwrap());
        sealer.sideband(core, &records).unwrap().for_each(|piece| w.append(&piece).unwrap());
        w.finish(EndReason::Exit, "", Vec::new()).unwrap();
        let [one, other] = ["plain", name].map(|name| std::fs::read(dir.path().join(name)).unwrap());
        assert!(one == other, "{name}");
    }
    let cut = Sealer::default().sideband(core, &records[..41_000]).err().unwrap();
    assert!(matches!(cut, Error::SidebandRecord { at: 40_000, .. }), "{cut}");
}

#[test]
fn a_body_of_an_older_version_ends_before_what_was_appended() {
    use jportal_capture::codec::{Appended, Wire};
    use jportal_capture::{Record, schema::CodePatched};
    let patch = CodePatched { address: 1, tid: 7, since: Appended(9), ..Default::default() };
    let mut body = Vec::new();
    patch.encode(&mut body);
    let decode = |body: &[u8]| Record::decode(26, body);
    assert_eq!(decode(&body), Ok(Record::CodePatched(patch.clone())));
    let old = &body[..body.len() - 8];
    assert_eq!(decode(old), Ok(Record::CodePatched(CodePatched { since: Appended(0), ..patch })));
    assert!(decode(&body[..body.len() - 1]).is_err());
}

#[test]
fn an_absent_list_is_not_an_empty_one() {
    use jportal_capture::codec::Wire;
    use jportal_capture::{Record, schema::MethodDefined};
    let decoded = |m: &MethodDefined, cut: usize| {
        let mut body = Vec::new();
        m.encode(&mut body);
        Record::decode(10, &body[..body.len() - cut])
    };
    let old = MethodDefined { method: 1, name: "f".into(), ..Default::default() };
    let new = MethodDefined { constants: Some(Vec::new()), ..old.clone() };
    assert_eq!(decoded(&new, 0), Ok(Record::MethodDefined(new.clone())));
    assert_eq!(decoded(&old, 0), Ok(Record::MethodDefined(old.clone())));
    assert_eq!(decoded(&new, 4), Ok(Record::MethodDefined(old)));
    assert!(decoded(&new, 1).is_err());
}

#[test]
fn the_writer_refuses_what_a_reader_could_not_use() {
    let dir = tempfile::tempdir().unwrap();
    let mut w = CaptureWriter::create(&dir.path().join("a")).unwrap();
    assert!(matches!(w.metadata(&[0; 16]), Err(Error::HeaderFirst)));
    w.header(&Header::default()).unwrap();
    w.metadata(&[15, 0, 0]).unwrap();
    assert!(matches!(w.metadata(&[0; 16]), Err(Error::FrameLength { at: 0, len: 15 })));
    w.pt(Core(0), StreamOffset(10), &[1; 10]).unwrap();
    assert!(matches!(w.pt(Core(0), StreamOffset(19), &[1]), Err(Error::PtOrder { known: 20, .. })));
    assert!(matches!(w.pt(Core(1 << 20), StreamOffset(0), &[1]), Err(Error::CoreNumber { .. })));
    let mut cut = common::sideband(0);
    cut.pop();
    assert!(matches!(
        w.sideband(Core(0), &cut),
        Err(Error::SidebandRecord { at: 104, size: 48, left: 47, .. })
    ));
}

#[test]
fn trace_may_end_at_the_greatest_offset() {
    let dir = tempfile::tempdir().unwrap();
    let mut w = CaptureWriter::create(&dir.path().join("a")).unwrap();
    w.header(&Header::default()).unwrap();
    // A chunk has at most 4 MB.
    let two_chunks = vec![1; (4 << 20) + 1];
    let last = u64::MAX - two_chunks.len() as u64;
    w.pt(Core(0), StreamOffset(last), &two_chunks).unwrap();
    assert!(matches!(w.pt(Core(0), StreamOffset(u64::MAX), &[1]), Err(Error::PtEnd { len: 1, .. })));
    assert!(matches!(w.pt(Core(1), StreamOffset(last + 1), &two_chunks), Err(Error::PtEnd { .. })));
}

#[test]
fn errors_of_the_system_are_typed() {
    let e = CaptureWriter::create(Path::new("/nonexistent/a")).unwrap_err();
    assert!(matches!(e, Error::Open { .. }), "{e}");
    let e = CaptureWriter::create(Path::new("/dev/full")).unwrap_err();
    assert!(matches!(e, Error::DiskFull { written: 0 }), "{e}");
    let e = CaptureReader::open(Path::new("/dev/null")).unwrap_err();
    assert!(matches!(e, Error::NoFile { .. }), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, b"").unwrap();
    let e = CaptureReader::open(&path).unwrap_err();
    assert!(matches!(e, Error::NotACapture { .. }), "{e}");
    std::fs::write(&path, b"JPORTAL\0\x04\0\0\0\0\0\0\0").unwrap();
    let e = CaptureReader::open(&path).unwrap_err();
    assert!(matches!(e, Error::Version { found_major: 4, .. }), "{e}");
}

#[test]
fn a_dead_process_capture_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let stream = common::stream();
    // Cuts the metadata at every byte, including inside frame headers.
    for cut in 1..stream.len() {
        let mut w = CaptureWriter::create(&path).unwrap();
        w.header(&common::header()).unwrap();
        w.metadata(&stream[..cut]).unwrap();
        w.pt(Core(1), StreamOffset(8), &[1; 8]).unwrap();
        let whole = w.written().file;
        w.pt(Core(1), StreamOffset(16), &[2; 8]).unwrap();
        drop(w);
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole + 33).unwrap();

        let mut w = CaptureWriter::reopen(&path).unwrap();
        assert_eq!(w.written().metadata, cut as u64);
        w.metadata(&stream[cut..]).unwrap();
        w.pt(Core(1), StreamOffset(16), &[3; 8]).unwrap();
        w.finish(EndReason::Recovered, "", Vec::new()).unwrap();

        let r = CaptureReader::open(&path).unwrap();
        assert!(r.completeness().is_whole());
        assert_eq!(common::read_all(&r), (common::records(), 0));
        assert_eq!(r.read(&r.pt(Core(1))[1]).unwrap(), [3; 8]);
        assert!(matches!(CaptureWriter::reopen(&path), Err(Error::Complete { .. })));
    }
}

#[test]
fn up_to_when_metadata_is_there_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("described");
    let described = |marks: &[u64]| {
        let mut w = CaptureWriter::create(&path).unwrap();
        w.header(&common::header()).unwrap();
        marks.iter().for_each(|&tsc| w.described(Tsc(tsc)).unwrap());
        CaptureReader::open(&path).unwrap().described()
    };
    assert_eq!(described(&[]), None);
    assert_eq!(described(&[7, 9, 8]), Some(Tsc(9)));
}

/// A chunk may claim any offset in its stream; arithmetic with it must not wrap.
#[test]
fn a_chunk_that_would_end_after_all_offsets_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("far");
    let mut w = CaptureWriter::create(&path).unwrap();
    w.header(&common::header()).unwrap();
    drop(w);
    let mut bytes = std::fs::read(&path).unwrap();
    for (kind, offset) in
        [(Kind::Pt, u64::MAX), (Kind::Metadata, u64::MAX - 3), (Kind::Sideband, u64::MAX - 7)]
    {
        bytes.extend_from_slice(&Head::of(kind, 0, offset, &[0; 8]).to_bytes());
        bytes.extend_from_slice(&[0; 8]);
    }
    std::fs::write(&path, bytes).unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    let kinds: Vec<_> = reader.completeness().damaged.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [DamageKind::Order; 3]);
    assert_eq!((reader.pt(Core(0)).len(), reader.metadata_pieces().len()), (0, 0));
}
