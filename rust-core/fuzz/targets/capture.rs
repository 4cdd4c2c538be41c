// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a capture file: opening it and reading everything in it never panics.
#![no_main]

use jportal::file::{CaptureReader, CaptureWriter};
use jportal_fuzz_targets::{file, repaired};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = file("a.jportal", &repaired(data));
    let Ok(reader) = CaptureReader::open(&path) else { return };
    let _ = reader.check();
    let _ = reader.metadata().count();
    for core in reader.cores() {
        let _ = reader.sideband_bytes(core).count();
        for piece in reader.pt(core) {
            let _ = reader.read(piece);
        }
    }
    let _ = CaptureWriter::reopen(&path);
});
