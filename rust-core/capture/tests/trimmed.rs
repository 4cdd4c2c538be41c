// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A trimmed copy takes the place of a capture while it is being written.

mod common;

use std::path::{Path, PathBuf};

use allocator_api2::alloc::Global;
use jportal_capture::schema::{ThreadExited, ThreadStarted};
use jportal_capture::{
    CaptureReader, CaptureWriter, EndReason, Error, Header, Record, Stamped, encode_frame,
};
use jportal_units::Tsc;

const UID: fn() -> u32 = || std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());

/// A thread for each of the times `from..to`, and the end of each but every tenth, in pieces that
/// end at record boundaries.
fn threads(from: u32, to: u32) -> Vec<Vec<u8>> {
    let piece = |tid: u32| {
        let started =
            Record::ThreadStarted(ThreadStarted { tid, name: "t".into(), ..ThreadStarted::default() });
        let exited = Record::ThreadExited(ThreadExited { tid, ..ThreadExited::default() });
        let mut bytes = Vec::new();
        for record in std::iter::once(started).chain((!tid.is_multiple_of(10)).then_some(exited)) {
            encode_frame(&Stamped { tsc: u64::from(tid), record }, &mut bytes);
        }
        bytes
    };
    (from..to).map(piece).collect()
}

fn started(reader: &CaptureReader) -> Vec<u64> {
    let all = reader.metadata().map(|r| r.unwrap());
    all.filter(|r| matches!(r.record, Record::ThreadStarted(_))).map(|r| r.tsc).collect()
}

fn expected(horizon: u64, to: u64) -> Vec<u64> {
    (1..to).filter(|t| t % 10 == 0 || *t >= horizon).collect()
}

struct Place {
    _folder: tempfile::TempDir,
    capture: PathBuf,
    copy: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (capture, copy) = (folder.path().join("a.jportal"), folder.path().join("a.jportal.trim"));
        Self { _folder: folder, capture, copy }
    }

    /// A capture of the threads up to 999.
    fn begin(&self) -> CaptureWriter {
        let mut writer = CaptureWriter::create(&self.capture).unwrap();
        writer.header(&common::header()).unwrap();
        for piece in threads(1, 1000) {
            writer.metadata(&piece).unwrap();
        }
        writer
    }
}

fn trim(
    writer: &CaptureWriter,
    copy: &Path,
    horizon: u64,
) -> Result<jportal_capture::TrimmedCopy<Global>, Error> {
    writer.copy()?.trimmed_to(copy, UID(), Tsc(horizon), &|| true, Global)
}

#[test]
fn a_trimmed_copy_continues_the_capture() {
    let place = Place::new();
    let mut writer = place.begin();
    let before = writer.written();
    let mut copy = trim(&writer, &place.copy, 900).unwrap();
    // The original continues meanwhile, with an index chunk and a new header.
    for piece in threads(1000, 6000) {
        writer.metadata(&piece).unwrap();
    }
    writer.header(&Header { java_command: "later".into(), ..common::header() }).unwrap();
    writer.described(Tsc(5000)).unwrap();
    assert!(copy.catch_up(&writer.copy().unwrap()).unwrap() > 100_000);
    assert_eq!(copy.catch_up(&writer.copy().unwrap()).unwrap(), 0);
    let (position, identity) = (writer.written().metadata, copy.identity().unwrap());
    assert_ne!(writer.identity().unwrap(), identity);
    let mut writer = copy.take_place(&place.capture).unwrap();
    assert!(!place.copy.exists() && writer.identity() == Some(identity));
    assert_eq!(writer.written().metadata, position, "positions are those of the ring");
    for piece in threads(6000, 7000) {
        writer.metadata(&piece).unwrap();
    }
    let end = writer.written().metadata;
    // A dump copies it; the next trimming starts from the trimmed one.
    let dump = place.capture.with_file_name("b.dump1");
    let (dumped, _) = writer.copy().unwrap().to(&dump, UID(), |_| {}).unwrap();
    dumped.finish(EndReason::Stopped, "", vec![]).unwrap();
    let again = trim(&writer, &place.copy, 6500).unwrap();
    let writer = again.take_place(&place.capture).unwrap();
    assert_eq!(writer.written().metadata, end);
    writer.finish(EndReason::Exit, "", vec![]).unwrap();
    for (path, horizon) in [(&dump, 900), (&place.capture, 6500)] {
        let reader = CaptureReader::open(path).unwrap();
        assert!(reader.completeness().is_whole() && reader.is_indexed(), "{:?}", reader.completeness());
        assert_eq!(reader.check().len(), 0);
        assert_eq!(started(&reader), expected(horizon, 7000));
        assert_eq!(reader.header().java_command.text(), "later");
        let from = reader.header().metadata_from.0;
        assert!(from > before.metadata / 2 && from + reader.metadata_bytes() == end, "{from}");
    }
}

#[test]
fn a_trimmed_capture_is_continued_after_the_death_of_its_process() {
    let place = Place::new();
    let writer = place.begin();
    let end = writer.written().metadata;
    drop(trim(&writer, &place.copy, 900).unwrap().take_place(&place.capture).unwrap());
    let mut writer = CaptureWriter::reopen(&place.capture).unwrap();
    assert_eq!(writer.written().metadata, end);
    writer.header(&common::header()).unwrap();
    for piece in threads(1000, 1100) {
        writer.metadata(&piece).unwrap();
    }
    writer.finish(EndReason::Recovered, "", vec![]).unwrap();
    let reader = CaptureReader::open(&place.capture).unwrap();
    assert_eq!(started(&reader), expected(900, 1100));
    // Even if nothing is left of the metadata.
    let mut empty = CaptureWriter::create(&place.capture).unwrap();
    empty.header(&common::header()).unwrap();
    for piece in threads(1, 10) {
        empty.metadata(&piece).unwrap();
    }
    let end = empty.written().metadata;
    drop(trim(&empty, &place.copy, 900).unwrap().take_place(&place.capture).unwrap());
    let writer = CaptureWriter::reopen(&place.capture).unwrap();
    assert_eq!((writer.written().metadata, writer.is_between_records()), (end, true));
}

#[test]
fn a_copy_that_cannot_be_made_leaves_no_file() {
    let place = Place::new();
    let mut writer = place.begin();
    let files = || std::fs::read_dir(place.capture.parent().unwrap()).unwrap().count();
    drop(trim(&writer, &place.copy, 900).unwrap());
    assert_eq!(files(), 1);
    let unwanted = writer.copy().unwrap().trimmed_to(&place.copy, UID(), Tsc(900), &|| false, Global);
    assert!(matches!(unwanted, Err(Error::Closed)));
    let copy = trim(&writer, &place.copy, 900).unwrap();
    assert!(copy.take_place(&place.capture.join("no folder")).is_err());
    assert_eq!(files(), 1);
    // Something of another kind has the name.
    std::fs::write(&place.copy, "mine").unwrap();
    assert!(matches!(trim(&writer, &place.copy, 900), Err(Error::Foreign { .. })));
    assert_eq!(std::fs::read(&place.copy).unwrap(), b"mine");
    std::fs::remove_file(&place.copy).unwrap();
    // The metadata ends inside a record.
    writer.metadata(&threads(2000, 2001)[0][..10]).unwrap();
    assert!(matches!(trim(&writer, &place.copy, 900), Err(Error::MetadataTorn { .. })));
    assert_eq!(files(), 1);
}
