// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The end of a capture on a disk that is nearly full. A limit on the size of files stands for the
//! disk. It holds for the whole process, so this is the only test here.

mod common;

use jportal_capture::codec::Appended;
use jportal_capture::{CaptureReader, CaptureWriter, EndReason, Error, Header};
use jportal_units::{Core, StreamOffset};

const LIMIT: u64 = 64 << 10;

fn limit_files() {
    let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
    // SAFETY: the limit is a live local, and to ignore a signal installs no handler.
    let done = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    assert_eq!(done, 0);
}

/// The index takes no room from the end, and the last chunks make way for it.
#[test]
fn a_capture_on_a_full_disk_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    // A header of some length, and chunks of PT.
    let begun = |name: usize, trace: &[usize]| {
        let mut w = CaptureWriter::create(&path).unwrap();
        let ring = Appended("r".repeat(name).as_str().into());
        w.header(&Header { ring, ..Header::default() }).unwrap();
        for &n in trace {
            w.pt(Core(0), StreamOffset(w.written().pt), &vec![7; n]).unwrap();
        }
        w
    };
    let finish = |w: CaptureWriter| w.finish_regardless(EndReason::Failed, "full", Vec::new());
    let w = begun(0, &[1]);
    let before = w.written();
    let all = finish(w).unwrap();
    assert_eq!(all.chunks - before.chunks, 2, "index and end");
    // One list of the header and the trace.
    let index = 32 + 4 + 2 * 24;
    let end = all.file - before.file - index;
    let room = LIMIT - before.file + 1;
    limit_files();
    let mut seen = [0; 3];
    for left in 0..index + end + 9 {
        let written = finish(begun(0, &[(room - left) as usize])).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        let complete = r.completeness();
        assert!(complete.torn.is_none() && complete.damaged.is_empty(), "{left}: {complete:?}");
        let fits = [left >= end, left >= index + end];
        assert_eq!(r.is_indexed(), fits[1], "{left} bytes are left");
        let pt = if fits[0] { room - left } else { 0 };
        assert_eq!(r.pt_bytes(Core(0)), pt, "{left} bytes are left");
        let found = complete.end.as_ref().unwrap();
        assert_eq!((found.reason, found.pt_bytes, found.chunks + 1), (EndReason::Failed, pt, written.chunks));
        let (lost, text) = (room - left - pt, found.text.text());
        let said = format!("full; the last {} bytes of the file made way for this end", 32 + lost);
        assert_eq!(text, if lost == 0 { "full" } else { &said });
        assert_eq!(std::fs::metadata(&path).unwrap().len(), written.file);
        seen[usize::from(fits[0]) + usize::from(fits[1])] += 1;
    }
    assert!(seen.iter().all(|&n| n > 5), "{seen:?}");

    // Of small chunks, as few make way as the end needs. Each has a head of 32 bytes.
    for small in 1..80 {
        let chunks = [vec![(room - 20 - 8 * (32 + small as u64)) as usize], vec![small; 8]].concat();
        let written = finish(begun(0, &chunks)).unwrap();
        let r = CaptureReader::open(&path).unwrap();
        let text = r.completeness().end.as_ref().unwrap().text.text().into_owned();
        let needed = end as usize + text.len() - "full".len();
        let kept = 8 - needed.div_ceil(32 + small);
        assert_eq!(r.pt_bytes(Core(0)), (chunks[0] + kept * small) as u64, "{small}: {text}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), written.file);
    }

    // Another reason than a failure is not that of a capture with less than was recorded.
    let w = begun(0, &[room as usize]);
    assert!(matches!(w.finish_regardless(EndReason::Exit, "", Vec::new()), Err(Error::DiskFull { .. })));
    let r = CaptureReader::open(&path).unwrap();
    let found = r.completeness().end.as_ref().unwrap();
    assert_eq!((found.reason, r.pt_bytes(Core(0))), (EndReason::Failed, 0));
    assert!(found.text.text().starts_with("disk full after "), "{found:?}");

    // What was written stays where nothing can make way, and in what can be finished later.
    for (name, trace, regardless) in [(room as usize + 25, &[][..], true), (0, &[room as usize], false)] {
        let w = begun(name, trace);
        let before = w.written();
        let finished = if regardless { finish(w) } else { w.finish(EndReason::Recovered, "", Vec::new()) };
        assert!(matches!(finished, Err(Error::DiskFull { .. })), "{finished:?}");
        let r = CaptureReader::open(&path).unwrap();
        assert!(r.completeness().end.is_none() && r.completeness().torn.is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), before.file);
    }
}
