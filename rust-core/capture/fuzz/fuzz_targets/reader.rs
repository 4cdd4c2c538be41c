// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a capture file: opening it and reading everything in it never panics.
#![no_main]

use std::io::Write;

use jportal_capture::{CaptureReader, CaptureWriter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(data).unwrap();
    let Ok(reader) = CaptureReader::open(file.path()) else { return };
    let _ = reader.check();
    let _ = reader.metadata().count();
    for core in reader.cores() {
        let _ = reader.sideband_bytes(core).count();
    }
    let _ = CaptureWriter::reopen(file.path());
});
