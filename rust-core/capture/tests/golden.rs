// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The file's bytes and their decoded content stay the same. `JPORTAL_BLESS=1` rewrites the
//! golden files.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use jportal_capture::{CaptureReader, Record};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn compare(name: &str, actual: &[u8]) {
    let path = golden(name);
    if std::env::var_os("JPORTAL_BLESS").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read(&path).unwrap_or_default();
    if expected != actual {
        let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&beside, actual).unwrap();
        panic!("{} differs from {}; JPORTAL_BLESS=1 accepts it", beside.display(), path.display());
    }
}

fn describe(r: &CaptureReader) -> String {
    let mut s = format!("{:#?}\n{:#?}\n{:#?}\n", r.header(), r.completeness(), r.losses());
    for record in r.metadata() {
        writeln!(s, "{:?}", record.unwrap()).unwrap();
    }
    for core in r.cores() {
        for p in r.pt(core).iter().chain(r.sideband(core)) {
            let crc = crc32c::crc32c(&r.read(p).unwrap());
            writeln!(
                s,
                "{core}: {} bytes at {} of the stream, chunk at {}, crc {crc:#010x}",
                p.len, p.offset, p.place
            )
            .unwrap();
        }
    }
    s
}

#[test]
fn the_writer_still_writes_these_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small");
    common::write(&path);
    compare("small.capture", &fs::read(&path).unwrap());
}

#[test]
fn the_reader_still_reads_these_bytes() {
    let text = if std::env::var_os("JPORTAL_BLESS").is_some() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small");
        common::write(&path);
        describe(&CaptureReader::open(&path).unwrap())
    } else {
        describe(&CaptureReader::open(&golden("small.capture")).unwrap())
    };
    compare("small.txt", text.as_bytes());
}

/// A capture of a version without `ClassConstants`.
#[test]
fn captures_of_version_2_5_are_read() {
    let old = CaptureReader::open(&golden("small-2.5.capture")).unwrap();
    assert_eq!(old.version(), (2, 5));
    let new = CaptureReader::open(&golden("small.capture")).unwrap();
    assert_eq!(common::contents(&old), common::contents(&new));
    assert_eq!(common::read_all(&old), (common::records(), 0));
}

/// A capture of a version whose header does not say where the metadata begins.
#[test]
fn captures_of_version_2_4_are_read() {
    let old = CaptureReader::open(&golden("small-2.4.capture")).unwrap();
    assert_eq!((old.version(), old.header().metadata_from.0), ((2, 4), 0));
    let new = CaptureReader::open(&golden("small.capture")).unwrap();
    assert_eq!((old.header(), old.losses()), (new.header(), new.losses()));
    assert_eq!(common::read_all(&old), (common::records(), 0));
}

/// A capture of a version without index chunks holds the same.
#[test]
fn captures_of_version_2_3_are_read() {
    let old = CaptureReader::open(&golden("small-2.3.capture")).unwrap();
    assert_eq!((old.version(), old.is_indexed()), ((2, 3), false));
    let new = CaptureReader::open(&golden("small-2.4.capture")).unwrap();
    assert!(new.is_indexed());
    assert_eq!(common::contents(&old), common::contents(&new));
    assert_eq!(common::read_all(&old), (common::records(), 0));
}

/// A capture of a version without `CodePatched::since` yields the same records, with `since` 0.
#[test]
fn captures_of_version_2_1_are_read() {
    let old = CaptureReader::open(&golden("small-2.1.capture")).unwrap();
    assert_eq!(old.version(), (2, 1));
    let (records, errors) = common::read_all(&old);
    assert_eq!((records, errors), (common::records(), 0));
}

/// A capture of a version without `MethodDefined::constants` and `ClassLoaded`.
#[test]
fn captures_of_version_2_2_are_read() {
    let old = CaptureReader::open(&golden("classes-2.2.capture")).unwrap();
    assert_eq!(old.version(), (2, 2));
    let (records, errors) = common::read_all(&old);
    assert_eq!((records.len(), errors), (3, 0));
    let Record::MethodDefined(method) = &records[2].record else { panic!("{:?}", records[2]) };
    assert_eq!((method.invokes.len(), &method.constants), (1, &None));
}
