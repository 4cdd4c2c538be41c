// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Somebody deletes or truncates the capture while it is written.

use std::fs::{File, OpenOptions};
use std::path::Path;

use jportal_capture::{CaptureReader, CaptureWriter, EndReason, Error, Header};
use jportal_units::{Core, StreamOffset};

/// A writer with a header and one piece of trace.
fn begun(path: &Path) -> CaptureWriter {
    let mut writer = CaptureWriter::create(path).unwrap();
    writer.header(&Header::default()).unwrap();
    writer.pt(Core(0), StreamOffset(0), &[7; 1000]).unwrap();
    writer.look().unwrap();
    writer
}

fn cut(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_deleted_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    let mut writer = begun(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(writer.look(), Err(Error::Deleted)));
    assert!(matches!(writer.pt(Core(0), StreamOffset(1000), &[7]), Err(Error::Deleted)));
    assert!(matches!(writer.finish(EndReason::Exit, "", Vec::new()), Err(Error::Deleted)));
}

#[test]
fn a_truncated_file_is_reported_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    let mut writer = begun(&path);
    let all = writer.written().file;
    cut(&path, 100);
    let e = writer.pt(Core(0), StreamOffset(1000), &[7]).unwrap_err();
    assert!(matches!(e, Error::Shortened { len: 100, written } if written == all), "{e}");
    writer.retry();
    assert!(matches!(writer.finish(EndReason::Exit, "", Vec::new()), Err(Error::Shortened { .. })));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 100);
}

/// The file may be truncated between the look and the write, which makes it as long as it should
/// be.
#[test]
fn a_file_that_was_truncated_and_is_long_again_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jportal");
    for len in [0, 20, 60] {
        let writer = begun(&path);
        let all = writer.written().file;
        cut(&path, len);
        cut(&path, all + 50);
        let e = writer.look().unwrap_err();
        assert!(matches!(e, Error::Shortened { written, .. } if written == all), "{len}: {e}");
    }
}

#[test]
fn a_renamed_file_is_written_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a.jportal"), dir.path().join("b.jportal"));
    let mut writer = begun(&path);
    std::fs::rename(&path, &other).unwrap();
    File::create(&path).unwrap();
    writer.pt(Core(0), StreamOffset(1000), &[7]).unwrap();
    writer.finish(EndReason::Exit, "", Vec::new()).unwrap();
    assert!(CaptureReader::open(&other).unwrap().check().is_empty());
}
