// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::testing::{self, PATCH};
use crate::{DATA_FILE, Error, export, import};
use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;

fn nothing(_: u64, _: u64) {}

/// A valid file.
fn good(folder: &Path) -> Vec<u8> {
    let reader = testing::capture(&folder.join("a.jportal"), [PATCH; 2], true);
    export(&Recording::open(reader).unwrap(), &folder.join("x"), &mut nothing).unwrap();
    std::fs::read(folder.join("x").join(DATA_FILE)).unwrap()
}

/// Imports a file.
fn read(folder: &Path, bytes: &[u8]) -> Result<crate::Imported, Error> {
    let metadata = testing::capture(&folder.join("m.jportal"), [PATCH; 2], false);
    import(Cursor::new(bytes), &metadata, &folder.join("o.jportal"), &mut nothing)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at).unwrap()
}

/// The offset of the first record of `kind`.
fn find(bytes: &[u8], kind: u32) -> usize {
    let (mut at, end) = (word(bytes, 40) as usize, (word(bytes, 40) + word(bytes, 48)) as usize);
    while at < end {
        let found = u32_at(bytes, at).unwrap();
        if found == kind {
            return at;
        }
        let trace = if found == layout::AUXTRACE { word(bytes, at + 8) as usize } else { 0 };
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]])) + trace;
    }
    panic!("no record of type {kind}");
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The error for the valid file with one change.
fn changed(change: impl Fn(&mut Vec<u8>)) -> Error {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = good(folder.path());
    change(&mut bytes);
    read(folder.path(), &bytes).unwrap_err()
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(changed(|b| b[..8].copy_from_slice(b"2ELIFREP")), Error::Endian));
    assert!(matches!(changed(|b| b[0] = b'x'), Error::Magic { .. }));
    assert!(matches!(changed(|b| b.clear()), Error::Magic { .. }));
    assert!(matches!(changed(|b| put(b, 8, 16)), Error::Pipe { size: 16 }));
    assert!(matches!(changed(|b| put(b, 8, 99)), Error::Layout { at: 8, .. }));
}

#[test]
fn what_is_cut_off_is_refused() {
    assert!(matches!(changed(|b| b.truncate(50)), Error::Truncated { at: 0, .. }));
    assert!(matches!(changed(|b| put(b, 48, 0)), Error::Truncated { what: "the recording", .. }));
    let cut = |b: &mut Vec<u8>| {
        let end = find(b, layout::AUXTRACE) + 60;
        b.truncate(end);
    };
    assert!(matches!(changed(cut), Error::Truncated { what: "the records", .. }));
    let cut = |b: &mut Vec<u8>| {
        let size = find(b, layout::AUXTRACE) as u64 + 60 - word(b, 40);
        put(b, 48, size);
    };
    assert!(matches!(changed(cut), Error::Truncated { what: "trace", .. }));
}

#[test]
fn records_that_cannot_be_are_refused() {
    for (size, what) in [(0u16, "layout"), (12, "layout"), (60000, "truncated")] {
        let change = |b: &mut Vec<u8>| {
            let at = find(b, abi::PERF_RECORD_SWITCH);
            b[at + 6..at + 8].copy_from_slice(&size.to_le_bytes());
        };
        let error = changed(change);
        let fits = match what {
            "layout" => matches!(error, Error::Layout { what: "a record's size", .. }),
            _ => matches!(error, Error::Truncated { .. }),
        };
        assert!(fits, "{size}: {error}");
    }
}

#[test]
fn compressed_records_are_refused() {
    let change = |b: &mut Vec<u8>| {
        let at = find(b, abi::PERF_RECORD_SWITCH);
        b[at..at + 4].copy_from_slice(&layout::COMPRESSED.to_le_bytes());
    };
    let error = changed(change);
    assert!(
        matches!(error, Error::Compressed { .. }) && error.to_string().contains("without `-z`"),
        "{error}"
    );
}

#[test]
fn what_is_no_trace_of_intel_pt_is_refused() {
    let unknown = 99u32;
    let change = |b: &mut Vec<u8>| {
        let at = find(b, layout::AUXTRACE_INFO);
        b[at..at + 4].copy_from_slice(&unknown.to_le_bytes());
    };
    assert!(matches!(changed(change), Error::NoAuxtrace));
    let change = |b: &mut Vec<u8>| {
        let at = find(b, layout::AUXTRACE_INFO);
        b[at + 8] = 4;
    };
    assert!(matches!(changed(change), Error::OtherUnit { found: 4, .. }));
    let change = |b: &mut Vec<u8>| {
        let at = find(b, layout::AUXTRACE_INFO);
        put(b, at + 16, 77);
    };
    assert!(matches!(changed(change), Error::NoEvent { pmu_type: 77 }));
}

#[test]
fn time_that_cannot_be_compared_is_refused() {
    for n in [info::CAP, info::TIME_MULT] {
        let change = |b: &mut Vec<u8>| {
            let at = find(b, layout::AUXTRACE_INFO);
            put(b, at + 16 + 8 * n, 0);
        };
        let error = changed(change);
        assert!(matches!(error, Error::NoTimeConversion { .. }), "{error}");
    }
}

#[test]
fn other_ways_to_record_are_refused() {
    for (n, value, what) in [(info::SNAPSHOT, 1, "snapshot mode"), (info::PER_CPU, 0, "rings")] {
        let change = |b: &mut Vec<u8>| {
            let at = find(b, layout::AUXTRACE_INFO);
            put(b, at + 16 + 8 * n, value);
        };
        let error = changed(change);
        assert!(error.to_string().contains(what), "{error}");
    }
    // Events without time, or with the kernel's branches.
    let first = 120;
    let change = |b: &mut Vec<u8>| (0..2).for_each(|n| put(b, first + 128 * n + 24, 0x10083));
    assert!(changed(change).to_string().contains("lack thread, time or core"));
    let change = |b: &mut Vec<u8>| put(b, first + 24, 0x10083);
    assert!(changed(change).to_string().contains("differ in their trailers"));
    let change = |b: &mut Vec<u8>| {
        let flags = word(b, first + 40) & !flags::EXCLUDE_KERNEL;
        put(b, first + 40, flags);
    };
    assert!(changed(change).to_string().contains("intel_pt//u"));
    let change = |b: &mut Vec<u8>| {
        let config = word(b, first + 8) & !config::TSC;
        put(b, first + 8, config);
    };
    assert!(changed(change).to_string().contains("no time"));
    // A ring of one thread.
    let change = |b: &mut Vec<u8>| {
        let at = find(b, layout::AUXTRACE);
        b[at + 40..at + 44].copy_from_slice(&u32::MAX.to_le_bytes());
    };
    assert!(changed(change).to_string().contains("--per-thread"));
}

#[test]
fn trace_of_another_run_or_of_more_than_the_code_cache_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = good(folder.path());
    let from = word(&bytes, 40) as usize;
    for at in from..bytes.len() - 4 {
        if u32_at(&bytes, at) == Some(testing::PID) && at % 8 == 0 {
            bytes[at] = 77;
        }
    }
    let error = read(folder.path(), &bytes).unwrap_err();
    assert!(!folder.path().join("o.jportal").exists(), "half a capture");
    assert!(matches!(error, Error::OtherProcess { pid: testing::PID, .. }), "{error}");
    // The metadata belongs to another code cache.
    let mut bytes = good(folder.path());
    let at = find(&bytes, layout::AUXTRACE) + 48;
    let pge = bytes[at..].windows(5).position(|w| w[0] & 0x1f == 0x11).unwrap();
    bytes[at + pge + 3] = 0x70;
    let error = read(folder.path(), &bytes).unwrap_err();
    assert!(matches!(error, Error::NotFiltered { .. }) && error.to_string().contains("--filter"), "{error}");
}

#[test]
fn padding_between_pieces_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = good(folder.path());
    let imported = read(folder.path(), &bytes).unwrap();
    let reader = CaptureReader::open(&folder.path().join("o.jportal")).unwrap();
    let recording = Recording::open(reader).unwrap();
    assert_eq!(imported.cores, 2);
    // One AUX record covers all of a core's trace, which is longer at most by the padding at
    // its end.
    for core in recording.cores() {
        let covered = recording.stretches(core)[0].to.0;
        let bytes = recording.reader().pt_bytes(core);
        assert!((covered..covered + 8).contains(&bytes), "{core}: {covered}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn damage_is_an_error_or_a_capture(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = good(folder.path());
        for (at, by) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
        if flips.len() > 3 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if read(folder.path(), &bytes).is_ok() {
            CaptureReader::open(&folder.path().join("o.jportal")).unwrap();
        }
    }
}
