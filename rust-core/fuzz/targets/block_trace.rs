// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a trace of `jportal export block-trace`.
#![no_main]

use jportal::export::block_trace::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(reader) = Reader::new(data) else { return };
    let _ = reader.header().clone();
    let _ = reader.map(|record| record.is_ok()).count();
});
