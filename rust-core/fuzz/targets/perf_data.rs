// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Imports any bytes as a perf.data file: the import never panics, and its result is a valid
//! capture.
#![no_main]

use std::io::Cursor;
use std::sync::OnceLock;

use jportal::file::{CaptureReader, CaptureWriter, EndReason, Header};
use jportal_fuzz_targets::folder;
use libfuzzer_sys::fuzz_target;

/// A metadata capture without a record, of the process of the sample capture.
fn metadata() -> CaptureReader {
    let path = folder().join("m.jportal");
    let header =
        Header { pid: 100, code_cache_low: 0x7000_0000, code_cache_high: 0x7010_0000, ..Header::default() };
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.header(&header).unwrap();
    writer.finish(EndReason::Exit, "", Vec::new()).unwrap();
    CaptureReader::open(&path).unwrap()
}

fuzz_target!(|data: &[u8]| {
    static METADATA: OnceLock<CaptureReader> = OnceLock::new();
    let output = folder().join("o.jportal");
    let metadata = METADATA.get_or_init(metadata);
    if jportal_perf_data::import(Cursor::new(data), metadata, &output, &mut |_, _| ()).is_ok() {
        let reader = CaptureReader::open(&output).unwrap();
        assert!(reader.check().is_empty());
    }
});
