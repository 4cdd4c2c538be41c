// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A reader that takes the chunks from the index finds what a walk over all heads finds. An index
//! that is damaged, wrong or incomplete changes nothing but the time.

mod common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use jportal_capture::chunk::{HEAD, Head, Kind, LIST_CRC, LIST_ENTRY, LISTED, PREAMBLE, index_chunk};
use jportal_capture::codec::Appended;
use jportal_capture::{
    CaptureReader, CaptureWriter, DamageKind, EndReason, Error, Header, LossNote, LossReason,
};
use jportal_units::{Core, StreamOffset, Tsc};
use proptest::collection::vec;
use proptest::prelude::*;

/// Writes a chunk of some kind; what is in it depends on `n`.
fn put(w: &mut CaptureWriter, kind: u8, n: u64) {
    let core = Core((n % 5) as u32);
    let note = LossNote {
        core: core.get(),
        offset: n,
        reason: LossReason::Stopped,
        tsc: n,
        bytes: n,
        text: "lost".into(),
    };
    match kind {
        0 => w.header(&Header { pid: n as u32, ..common::header() }),
        1 => w.metadata(&common::stream()[..]),
        2 => w.sideband(core, &common::sideband(core.get())),
        3 => w.loss(&note),
        4 => w.drained(Core(0), core, Tsc(n)),
        5 => w.described(Tsc(n)),
        // Some are lost.
        _ => w.pt(core, StreamOffset(n * 100), &common::noise(n, (n % 90) as usize + 1)),
    }
    .unwrap();
}

/// A writer with a header and `count` further chunks.
fn begun(path: &Path, count: u64) -> CaptureWriter {
    let mut w = CaptureWriter::create(path).unwrap();
    w.header(&common::header()).unwrap();
    (1..=count).for_each(|n| put(&mut w, (n * n % 23) as u8, n));
    w
}

fn finish(w: CaptureWriter) {
    w.finish(EndReason::Exit, "done", Vec::new()).unwrap();
}

/// Checks that both ways of reading find the same; returns the reader with the index, if the file
/// has one that is used.
fn same(path: &Path) -> Option<CaptureReader> {
    let (one, other) = (CaptureReader::open(path).unwrap(), CaptureReader::open_without_index(path).unwrap());
    assert_eq!(common::contents(&one), common::contents(&other));
    assert_eq!(one.completeness(), other.completeness());
    assert!(!other.is_indexed());
    one.is_indexed().then_some(one)
}

/// All chunks: place, head and payload.
fn chunks(bytes: &[u8]) -> Vec<(usize, Head, &[u8])> {
    let (mut at, mut all) = (PREAMBLE, Vec::new());
    while at < bytes.len() {
        let head = Head::from_bytes(bytes[at..].first_chunk().unwrap()).unwrap();
        all.push((at, head, &bytes[at + HEAD..][..head.len as usize]));
        at += HEAD + head.len as usize;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn the_index_yields_what_the_heads_yield(kinds in vec(0u8..12, 0..200), more in 0..3 * LISTED as u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut w = begun(&path, 0);
        for (kind, n) in kinds.iter().zip(1..) {
            put(&mut w, *kind, n);
        }
        (0..more).for_each(|n| w.drained(Core(0), Core(1), Tsc(n)).unwrap());
        finish(w);
        let reader = same(&path).expect("an index");
        prop_assert!(reader.completeness().is_whole() && reader.check().is_empty());
        let bytes = fs::read(&path).unwrap();
        let lists = chunks(&bytes).iter().filter(|c| c.1.kind == Kind::Index).count();
        prop_assert_eq!(lists, (kinds.len() + more as usize) / LISTED + 1);
        prop_assert_eq!(reader.completeness().end.as_ref().unwrap().chunks as usize, chunks(&bytes).len() - 1);
    }
}

#[test]
fn the_index_has_24_bytes_for_each_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let count = 2 * LISTED as u64 + 5;
    finish(begun(&path, count));
    same(&path).expect("an index");
    let bytes = fs::read(&path).unwrap();
    let all = chunks(&bytes);
    let lists: Vec<_> = all.iter().filter(|c| c.1.kind == Kind::Index).collect();
    let lens: Vec<_> = lists.iter().map(|c| (c.2.len() - LIST_CRC) / LIST_ENTRY).collect();
    assert_eq!(lens, [LISTED, LISTED, 6], "with the first header");
    let before: Vec<_> = lists.iter().map(|c| c.1.aux as usize).collect();
    assert_eq!(before, [0, lists[0].2.len(), lists[1].2.len()]);
    assert_eq!(all[all.len() - 1].1.aux as usize, lists[2].2.len());
    assert_eq!(lists[0].1.offset as usize, lists[0].0 - PREAMBLE);
}

/// A capture that is cut has no end, so its heads are read.
#[test]
fn a_cut_capture_is_walked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, LISTED as u64 + 300));
    let bytes = fs::read(&path).unwrap();
    let all = chunks(&bytes);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bounds = all.iter().map(|c| c.0).rev().step_by(151);
    let bytes_of_end = (all[all.len() - 3].0..bytes.len()).rev().step_by(7);
    let mut places: Vec<usize> = bounds.chain(bytes_of_end).collect();
    places.sort_unstable();
    for &place in places.iter().rev().filter(|&&place| place > all[1].0) {
        file.set_len(place as u64).unwrap();
        assert!(same(&path).is_none(), "cut at {place}");
    }
}

#[test]
fn a_damaged_head_costs_nothing_and_is_found_by_a_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, 50));
    let bytes = fs::read(&path).unwrap();
    let whole = CaptureReader::open(&path).unwrap();
    let mut lost = 0;
    for (place, head, _) in
        chunks(&bytes).into_iter().filter(|c| !matches!(c.1.kind, Kind::Index | Kind::End))
    {
        let mut bad = bytes.clone();
        bad[place + 17] ^= 4;
        fs::write(&path, &bad).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        assert!(r.is_indexed() && r.completeness() == whole.completeness());
        assert_eq!(common::contents(&r), common::contents(&whole));
        let [damage] = r.check_heads().unwrap()[..] else { panic!("{:?}", r.check_heads()) };
        assert_eq!((damage.from, damage.kind), (place as u64, DamageKind::Head));
        assert_eq!(damage.to, damage.from + HEAD as u64 + u64::from(head.len));
        let [error @ Error::Damaged(_)] = &r.check()[..] else { panic!("{:?}", r.check()) };
        assert!(error.to_string().contains("no chunk head"), "{error}");
        // Without the index, the chunk is lost.
        let walked = CaptureReader::open_without_index(&path);
        lost += usize::from(walked.is_ok_and(|w| common::contents(&w) != common::contents(&whole)));
    }
    assert!(lost > 20, "{lost}");
}

/// The file with another payload of its first index chunk, and checksums that are right.
fn with_list(bytes: &[u8], payload: &[u8]) -> Vec<u8> {
    let all = chunks(bytes);
    let (place, head, _) = *all.iter().find(|c| c.1.kind == Kind::Index).unwrap();
    let mut bad = bytes.to_vec();
    bad[place..place + HEAD]
        .copy_from_slice(&Head::of(Kind::Index, head.aux, head.offset, payload).to_bytes());
    bad[place + HEAD..][..payload.len()].copy_from_slice(payload);
    bad
}

/// Each bit of an index, with right checksums of the chunk.
#[test]
fn a_wrong_index_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, 40));
    let bytes = fs::read(&path).unwrap();
    let whole = common::contents(&CaptureReader::open_without_index(&path).unwrap());
    let (place, _, payload) = *chunks(&bytes).iter().find(|c| c.1.kind == Kind::Index).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for bit in 0..payload.len() * 8 {
        let mut payload = payload.to_vec();
        payload[bit / 8] ^= 1 << (bit % 8);
        file.write_all_at(&with_list(&bytes, &payload)[place..], place as u64).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        assert!(!r.is_indexed() && common::contents(&r) == whole, "bit {bit}");
        let [damage] = r.completeness().damaged[..] else { panic!("{:?}", r.completeness()) };
        assert_eq!((damage.from, damage.kind), (place as u64, DamageKind::Index), "bit {bit}");
    }
}

/// An index that is sound in itself and lists other heads than those of the file.
#[test]
fn an_index_of_another_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, 40));
    let bytes = fs::read(&path).unwrap();
    let heads: Vec<Head> = chunks(&bytes).iter().map(|c| c.1).take_while(|h| h.kind != Kind::Index).collect();
    let mut used = 0;
    for n in 0..heads.len() {
        let changes: [fn(&mut Head); 5] = [
            |h| h.kind = Kind::Unknown(77),
            |h| h.aux ^= 1,
            |h| h.offset += 1,
            |h| h.payload_crc ^= 1,
            |h| h.len ^= 1,
        ];
        for change in changes {
            let mut heads = heads.clone();
            change(&mut heads[n]);
            fs::write(&path, with_list(&bytes, &index_chunk(&heads, 0).1)).unwrap();
            let Ok(r) = CaptureReader::open(&path) else {
                assert_eq!(n, 0, "the header is not found");
                continue;
            };
            used += usize::from(r.is_indexed());
            assert!(!r.completeness().is_whole() || !r.check().is_empty(), "head {n}: {:?}", heads[n]);
        }
    }
    assert!(used > 40, "{used}");
}

#[test]
fn a_dead_process_capture_gets_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    for count in [0, 100, LISTED as u64 - 1, LISTED as u64, LISTED as u64 + 100] {
        drop(begun(&path, count));
        let mut w = CaptureWriter::reopen(&path).unwrap();
        (1..200).for_each(|n| put(&mut w, 6, count + n));
        finish(w);
        let reader = same(&path).unwrap_or_else(|| panic!("no index after {count} chunks"));
        assert!(reader.completeness().is_whole() && reader.check().is_empty());
    }
    // A capture of a version without index chunks, and one that is damaged.
    let bytes = fs::read(&path).unwrap();
    let all = chunks(&bytes);
    let old = || all.iter().filter(|c| !matches!(c.1.kind, Kind::Index | Kind::End));
    let mut stripped = bytes[..PREAMBLE].to_vec();
    for (_, head, payload) in old() {
        stripped.extend_from_slice(&head.to_bytes());
        stripped.extend_from_slice(payload);
    }
    fs::write(&path, &stripped).unwrap();
    finish(CaptureWriter::reopen(&path).unwrap());
    same(&path).expect("one index chunk for all");
    stripped[all[7].0] ^= 1;
    fs::write(&path, &stripped).unwrap();
    finish(CaptureWriter::reopen(&path).unwrap());
    assert!(same(&path).is_none());
}

/// The end chunk is damaged, so the capture has no end, and a head states a length beyond the file,
/// which the index does not show.
#[test]
fn a_damaged_capture_that_is_continued_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, 50));
    let whole = fs::read(&path).unwrap();
    let all = chunks(&whole);
    for &(place, head, _) in all.iter().filter(|c| c.1.kind == Kind::Pt) {
        let mut bad = whole.clone();
        bad[all.last().unwrap().0 + HEAD] ^= 1;
        let longer = Head { len: whole.len() as u32, ..head };
        bad[place..place + HEAD].copy_from_slice(&longer.to_bytes());
        fs::write(&path, &bad).unwrap();
        assert!(CaptureReader::open(&path).unwrap().completeness().end.is_none());
        finish(CaptureWriter::reopen(&path).unwrap());
        let reader = CaptureReader::open(&path).unwrap();
        assert!(reader.completeness().end.is_some(), "chunk at {place}");
        assert!(reader.check().is_empty(), "{:?}", reader.check());
    }
}

/// A dump is a copy that continues and has a header of another length.
#[test]
fn a_copy_has_an_index_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    for count in [10, LISTED as u64 + 10, 2 * LISTED as u64 + 10] {
        let mut w = CaptureWriter::create(&dir.path().join("a")).unwrap();
        w.header(&Header { ring: Appended("/dev/shm/ring".into()), ..common::header() }).unwrap();
        (1..=count).for_each(|n| put(&mut w, 6, n));
        let mut copied = 0;
        let (mut copy, path) = w.copy().unwrap().to(&dir.path().join("dump1"), uid, |n| copied += n).unwrap();
        assert!(copied > 0);
        for w in [&mut w, &mut copy] {
            (1..=LISTED as u64).for_each(|n| put(w, 6, count + n));
        }
        finish(w);
        finish(copy);
        for path in [dir.path().join("a"), path] {
            let reader = same(&path).unwrap_or_else(|| panic!("no index in {} of {count}", path.display()));
            assert!(reader.completeness().is_whole() && reader.check().is_empty());
        }
    }
}

/// Two captures in one file: the second index does not cover the first capture.
#[test]
fn an_index_of_a_part_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    finish(begun(&path, 30));
    let bytes = fs::read(&path).unwrap();
    for from in [0, PREAMBLE] {
        fs::write(&path, [&bytes[..], &bytes[from..]].concat()).unwrap();
        assert!(same(&path).is_none());
    }
    // A chunk that was cut out is missing in the index.
    let third = &chunks(&bytes)[2..4];
    fs::write(&path, [&bytes[..third[0].0], &bytes[third[1].0..]].concat()).unwrap();
    assert!(same(&path).is_none());
    let r = CaptureReader::open(&path).unwrap();
    let kinds: Vec<_> = r.completeness().damaged.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [DamageKind::Index]);
}
