// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a capture that is exported to perf.data, whose trace is imported again.
#![no_main]

use std::fs::File;
use std::io::BufReader;

use jportal::file::CaptureReader;
use jportal::reconstruct::Recording;
use jportal_fuzz_targets::{file, folder, repaired};
use jportal_perf_data::{DATA_FILE, export, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = file("a.jportal", &repaired(data));
    let Ok(Ok(recording)) = CaptureReader::open(&path).map(Recording::open) else { return };
    let to = folder().join("export");
    if export(&recording, &to, &mut |_, _| ()).is_err() {
        return;
    }
    let data = BufReader::new(File::open(to.join(DATA_FILE)).unwrap());
    let _ = import(data, recording.reader(), &folder().join("imported.jportal"), &mut |_, _| ());
});
