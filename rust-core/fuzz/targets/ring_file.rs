// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A capture that was cut off, and the ring file that a dead VM left beside it: the recovery never
//! panics, and the completed capture can be read.
#![no_main]

use jportal::file::CaptureReader;
use jportal::file::ring_file::{BYTES, Recovery, path_of, recover};
use jportal_fuzz_targets::{file, repaired, two_parts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((capture, ring)) = two_parts(data) else { return };
    let path = file("a.jportal", &repaired(capture));
    let mut ring = ring.to_vec();
    if ring.len() > 200 {
        // Inputs leave out the rest of the first page.
        let bytes = ring.split_off(200);
        ring.resize(BYTES, 0);
        ring.extend(bytes);
    }
    std::fs::write(path_of(&path), ring).unwrap();
    if let Ok(Recovery::Done { .. }) = recover(&path) {
        let reader = CaptureReader::open(&path).unwrap();
        assert!(reader.completeness().end.is_some());
    }
});
