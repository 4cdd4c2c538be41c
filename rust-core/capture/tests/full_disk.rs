// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The end of a capture on a disk that is nearly full. A limit on the size of files stands for the
//! disk. It holds for the whole process, so this is the only test here.

mod common;

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

/// The index takes no room from the end.
#[test]
fn where_the_end_fits_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let begun = |trace: usize| {
        let mut w = CaptureWriter::create(&path).unwrap();
        w.header(&Header::default()).unwrap();
        w.pt(Core(0), StreamOffset(0), &vec![7; trace]).unwrap();
        w
    };
    let w = begun(1);
    let before = w.written();
    let all = w.finish(EndReason::Failed, "full", Vec::new()).unwrap();
    assert_eq!(all.chunks - before.chunks, 2, "index and end");
    // One list of the header and the trace.
    let index = 32 + 4 + 2 * 24;
    let end = all.file - before.file - index;
    let (room, mut seen) = (LIMIT - before.file + 1, [0; 3]);
    limit_files();
    for left in 0..index + end + 9 {
        let result = begun((room - left) as usize).finish(EndReason::Failed, "full", Vec::new());
        let r = CaptureReader::open(&path).unwrap();
        let complete = r.completeness();
        assert!(complete.torn.is_none() && complete.damaged.is_empty(), "{left}: {complete:?}");
        assert_eq!(r.pt_bytes(Core(0)), room - left);
        let fits = [left >= end, left >= index + end];
        assert_eq!([complete.end.is_some(), r.is_indexed()], fits, "{left} bytes are left");
        match (result, &complete.end) {
            (Ok(written), Some(end)) => assert_eq!(end.chunks + 1, written.chunks),
            (Err(Error::DiskFull { .. }), None) => {}
            (result, end) => panic!("{left} bytes are left: {result:?}, {end:?}"),
        }
        seen[usize::from(fits[0]) + usize::from(fits[1])] += 1;
    }
    assert!(seen.iter().all(|&n| n > 5), "{seen:?}");
}
