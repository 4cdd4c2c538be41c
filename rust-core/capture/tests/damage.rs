// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Truncation, flipped bits and unknown kinds cost only the chunks that they affect.

mod common;

use std::fs;
use std::path::Path;

use jportal_capture::chunk::{HEAD, Head, Kind, PREAMBLE};
use jportal_capture::{CaptureReader, Error};
use jportal_units::Core;

/// Starts of all chunks, and the end of the file.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut at = PREAMBLE;
    let mut all = vec![];
    while at < bytes.len() {
        all.push(at);
        let head = Head::from_bytes(bytes[at..].first_chunk::<HEAD>().unwrap()).unwrap();
        at += HEAD + head.len as usize;
    }
    all.push(at);
    all
}

/// The capture as a version without index chunks would have written it. A later version would list
/// its chunks in the index, and the chunks that a test adds are not there.
fn without_index(bytes: &[u8]) -> Vec<u8> {
    let mut all = bytes[..PREAMBLE].to_vec();
    for w in boundaries(bytes).windows(2) {
        let head = Head::from_bytes(bytes[w[0]..].first_chunk().unwrap()).unwrap();
        let payload = &bytes[w[0] + HEAD..w[1]];
        match head.kind {
            Kind::Index => continue,
            Kind::End => all.extend_from_slice(&Head::of(Kind::End, 0, 0, payload).to_bytes()),
            _ => all.extend_from_slice(&head.to_bytes()),
        }
        all.extend_from_slice(payload);
    }
    all
}

fn sample(dir: &Path) -> Vec<u8> {
    let path = dir.join("whole");
    common::write(&path);
    fs::read(path).unwrap()
}

/// Checks that a capture cut to `len` bytes gives a prefix of the whole one.
fn check_cut(path: &Path, bytes: &[u8], bounds: &[usize], len: usize) {
    fs::write(path, &bytes[..len]).unwrap();
    let opened = CaptureReader::open(path);
    if len < bounds[1] {
        let e = opened.unwrap_err();
        let expected = matches!(e, Error::NoHeader { .. } | Error::NotACapture { .. });
        assert!(expected, "cut at {len}: {e}");
        return;
    }
    let r = opened.unwrap();
    let whole = *bounds.iter().rev().find(|&&b| b <= len).unwrap();
    let c = r.completeness();
    assert!(c.damaged.is_empty(), "cut at {len}: {c:?}");
    assert_eq!(c.end.is_some(), len == bytes.len(), "cut at {len}");
    assert_eq!(
        c.torn.map(|t| (t.place, t.bytes)),
        (len > whole).then(|| (whole as u64, (len - whole) as u64))
    );
    let (records, errors) = common::read_all(&r);
    assert_eq!(records, common::records()[..records.len()], "cut at {len}");
    // The error is the record that the cut leaves incomplete at the end of the metadata.
    assert!(errors <= 1, "cut at {len}: {errors} errors");
    let pt: Vec<u8> = r.pt(Core(0)).iter().flat_map(|p| r.read(p).unwrap()).collect();
    assert_eq!(pt, common::pt(0)[..pt.len()]);
}

#[test]
fn truncation_at_every_chunk_boundary() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path());
    let bounds = boundaries(&bytes);
    assert!(bounds.len() > 20);
    for &len in [0].iter().chain(&bounds) {
        check_cut(&dir.path().join("cut"), &bytes, &bounds, len);
    }
}

#[test]
fn truncation_at_a_thousand_random_places() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path());
    let bounds = boundaries(&bytes);
    let places = common::noise(42, 2000);
    for two in places.chunks(2) {
        let len = usize::from(u16::from_le_bytes([two[0], two[1]])) % bytes.len();
        check_cut(&dir.path().join("cut"), &bytes, &bounds, len);
    }
}

#[test]
fn a_flipped_bit_in_a_payload_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped");
    let bytes = sample(dir.path());
    let mut seen = 0;
    for w in boundaries(&bytes).windows(2) {
        let head = Head::from_bytes(bytes[w[0]..].first_chunk().unwrap()).unwrap();
        for at in [w[0] + HEAD, w[1] - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            let r = CaptureReader::open(&path).unwrap();
            let place = w[0] as u64;
            if matches!(head.kind, Kind::Metadata | Kind::Pt | Kind::Sideband) {
                let errors = r.check();
                assert_eq!(errors.len(), 1);
                let hit = matches!(errors[0], Error::Checksum { place: p, .. } if p == place);
                assert!(hit, "{:?}", errors[0]);
                let text = errors[0].to_string();
                assert!(text.contains(&format!("at byte {place}")), "{text}");
                seen += 1;
            } else {
                assert_eq!(r.completeness().damaged[0].from, place, "{:?}", head.kind);
            }
        }
    }
    assert!(seen > 40);
}

#[test]
fn a_flipped_bit_anywhere_loses_one_chunk_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped");
    let bytes = sample(dir.path());
    let all = common::records();
    for at in (PREAMBLE..bytes.len()).step_by(3) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        let (records, errors) = common::read_all(&r);
        assert!(errors > 0 || !r.completeness().is_whole(), "bit at {at} went unseen");
        assert!(records.iter().all(|s| all.contains(s)), "bit at {at} made a record up");
        // A metadata piece has 61 bytes and touches at most four records.
        assert!(records.len() + 4 >= all.len(), "bit at {at} cost {} records", all.len() - records.len());
        let pt: u64 = r.cores().iter().map(|&c| r.pt_bytes(c)).sum();
        assert!(pt >= 1400 - 400, "bit at {at} cost {} bytes of PT", 1400 - pt);
    }
}

#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later");
    let bytes = without_index(&sample(dir.path()));
    let bounds = boundaries(&bytes);
    let mut later = Vec::new();
    for w in [0].iter().chain(&bounds).copied().collect::<Vec<_>>().windows(2) {
        later.extend_from_slice(&bytes[w[0]..w[1]]);
        later.extend_from_slice(&Head::of(Kind::Unknown(900), 7, 1, b"what is this").to_bytes());
        later.extend_from_slice(b"what is this");
    }
    fs::write(&path, &later).unwrap();
    let r = CaptureReader::open(&path).unwrap();
    assert_eq!(r.completeness().unknown_chunks, bounds.len() as u64);
    assert!(r.completeness().is_whole());
    assert_eq!(common::read_all(&r), (common::records(), 0));
}
