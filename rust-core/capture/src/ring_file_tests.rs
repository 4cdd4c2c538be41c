// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::frames::encode_frame;
use crate::header::Header;
use crate::reader::CaptureReader;
use crate::schema::{MethodFreed, Record, Stamped};

/// A metadata stream of `n` frames of 24 bytes.
fn stream(n: u64) -> Vec<u8> {
    let mut b = Vec::new();
    for i in 0..n {
        encode_frame(&Stamped { tsc: i, record: Record::MethodFreed(MethodFreed { method: i }) }, &mut b);
    }
    b
}

struct Case {
    _dir: tempfile::TempDir,
    capture: PathBuf,
}

impl Case {
    /// A capture that holds the first `written` bytes of `stream` and has no end chunk.
    fn new(stream: &[u8], written: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let capture = dir.path().join("a.jportal");
        let mut w = CaptureWriter::create(&capture).unwrap();
        w.header(&Header::default()).unwrap();
        w.metadata(&stream[..written]).unwrap();
        drop(w);
        Self { _dir: dir, capture }
    }

    fn ring(&self, stream: &[u8], size: usize, tail: u64, boundary: u64, head: u64, state: u32) {
        let mut file = vec![0; BYTES + size];
        file[..8].copy_from_slice(&MAGIC);
        file[8..12].copy_from_slice(&1u32.to_le_bytes());
        file[STATE..STATE + 4].copy_from_slice(&state.to_le_bytes());
        for (at, value) in [(SIZE, size as u64), (HEAD, head), (BOUNDARY, boundary), (TAIL, tail)] {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for p in (head as usize).saturating_sub(size)..head as usize {
            file[BYTES + p % size] = stream[p];
        }
        std::fs::write(path_of(&self.capture), file).unwrap();
    }

    /// A ring of 128 bytes, whose overflow of 512 bytes begins at `from`.
    fn overflowing(&self, stream: &[u8], tail: u64, from: u64, head: u64) {
        let mut file = vec![0; BYTES + 128 + 512];
        file[..8].copy_from_slice(&MAGIC);
        file[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let sizes = [(SIZE, 128), (OVERFLOW_SIZE, 512)];
        let positions = [(HEAD, head), (BOUNDARY, head), (TAIL, tail), (OVERFLOW_FROM, from)];
        for (at, value) in sizes.into_iter().chain(positions) {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for p in tail..head {
            let place = if p < from { p % 128 } else { 128 + p % 512 };
            file[BYTES + place as usize] = stream[p as usize];
        }
        std::fs::write(path_of(&self.capture), file).unwrap();
    }

    fn methods(&self) -> Vec<u64> {
        let reader = CaptureReader::open(&self.capture).unwrap();
        assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Recovered);
        reader.metadata().map(|r| r.unwrap().tsc).collect()
    }
}

#[test]
fn committed_records_are_found_again() {
    let s = stream(40);
    // The ring has 512 bytes; `written` is any position between tail and head.
    for written in (600..=960).step_by(7) {
        let case = Case::new(&s, written);
        case.ring(&s, 512, 600, 960, 960, states::OPEN);
        let bytes = 960 - written as u64;
        assert_eq!(recover(&case.capture).unwrap(), Recovery::Done { bytes, crashed: false });
        assert_eq!(case.methods(), (0..40).collect::<Vec<_>>());
        assert!(!path_of(&case.capture).exists());
        assert_eq!(recover(&case.capture).unwrap(), Recovery::NotNeeded);
    }
}

#[test]
fn records_in_the_overflow_are_found_again() {
    let s = stream(40);
    for (tail, from, head) in [(600, 720, 960), (700, 700, 960), (600, 720, 720), (720, 480, 960)] {
        for written in (tail..=head).step_by(11) {
            let case = Case::new(&s, written as usize);
            case.overflowing(&s, tail, from, head);
            let bytes = head - written;
            let records = head / 24;
            assert_eq!(recover(&case.capture).unwrap(), Recovery::Done { bytes, crashed: false });
            assert_eq!(case.methods(), (0..records).collect::<Vec<_>>(), "{tail} {from} {head} {written}");
        }
    }
    // More than the ring or its overflow holds, and one that begins after the head.
    for (tail, from, head) in [(580, 720, 960), (0, 120, 960), (720, 800, 768)] {
        let case = Case::new(&s, tail as usize);
        case.overflowing(&s, tail, from, head);
        assert!(matches!(recover(&case.capture), Err(Error::Ring { .. })), "{tail} {from} {head}");
    }
}

#[test]
fn a_record_in_the_making_is_left_out() {
    let s = stream(40);
    let case = Case::new(&s, 480);
    case.ring(&s, 512, 480, 720, 730, states::CRASHED);
    assert_eq!(recover(&case.capture).unwrap(), Recovery::Done { bytes: 240, crashed: true });
    assert_eq!(case.methods(), (0..30).collect::<Vec<_>>());
}

#[test]
fn a_hole_is_reported_not_papered_over() {
    let s = stream(40);
    let case = Case::new(&s, 240);
    case.ring(&s, 512, 480, 960, 960, states::OPEN);
    assert_eq!(recover(&case.capture).unwrap(), Recovery::Done { bytes: 0, crashed: false });
    assert_eq!(case.methods(), (0..10).collect::<Vec<_>>());
    let reader = CaptureReader::open(&case.capture).unwrap();
    let text = reader.completeness().end.as_ref().unwrap().text.text().into_owned();
    assert!(text.contains("240 bytes of metadata are neither"), "{text}");
}

#[test]
fn a_living_vm_is_left_alone() {
    let s = stream(40);
    let case = Case::new(&s, 480);
    case.ring(&s, 512, 480, 960, 960, states::OPEN);
    let vm = std::fs::OpenOptions::new().read(true).write(true).open(path_of(&case.capture)).unwrap();
    vm.try_lock().unwrap();
    assert_eq!(recover(&case.capture).unwrap(), Recovery::Live);
    drop(vm);
    assert!(matches!(recover(&case.capture).unwrap(), Recovery::Done { bytes: 480, .. }));
}

#[test]
fn damaged_ring_files_are_refused_and_kept() {
    let s = stream(40);
    let case = Case::new(&s, 480);
    case.ring(&s, 512, 480, 960, 960, states::OPEN);
    let ring = path_of(&case.capture);
    let good = std::fs::read(&ring).unwrap();
    for (at, value) in
        [(0, 9), (8, 9), (SIZE, 1), (SIZE + 2, 1), (HEAD + 1, 0), (HEAD + 3, 1), (BOUNDARY + 4, 1)]
    {
        let mut bad = good.clone();
        bad[at] = value;
        std::fs::write(&ring, bad).unwrap();
        assert!(matches!(recover(&case.capture), Err(Error::Ring { .. })), "byte {at}");
    }
    std::fs::write(&ring, &good[..100]).unwrap();
    assert!(matches!(recover(&case.capture), Err(Error::Ring { .. })));
    std::fs::write(&ring, &good).unwrap();
    assert!(matches!(recover(&case.capture).unwrap(), Recovery::Done { bytes: 480, .. }));
}
