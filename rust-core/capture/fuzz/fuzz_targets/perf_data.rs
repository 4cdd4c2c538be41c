// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Imports any bytes as a perf.data file: the import never panics, and its result is a valid
//! capture.
#![no_main]

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::OnceLock;

use jportal_capture::{CaptureReader, CaptureWriter, EndReason, Header};
use libfuzzer_sys::fuzz_target;

/// A metadata capture without a record, of process 40 with a code cache at 4 MiB.
fn metadata(folder: &tempfile::TempDir) -> CaptureReader {
    let path = folder.path().join("m.jportal");
    let header =
        Header { pid: 40, code_cache_low: 0x40_0000, code_cache_high: 0x40_1000, ..Header::default() };
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.header(&header).unwrap();
    writer.finish(EndReason::Exit, "", Vec::new()).unwrap();
    CaptureReader::open(&path).unwrap()
}

fuzz_target!(|data: &[u8]| {
    static MADE: OnceLock<(tempfile::TempDir, CaptureReader, PathBuf)> = OnceLock::new();
    let (_, metadata, output) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (reader, output) = (metadata(&folder), folder.path().join("o.jportal"));
        (folder, reader, output)
    });
    if jportal_perf_data::import(Cursor::new(data), metadata, output, &mut |_, _| ()).is_ok() {
        let reader = CaptureReader::open(output).unwrap();
        assert!(reader.check().is_empty());
    }
});
