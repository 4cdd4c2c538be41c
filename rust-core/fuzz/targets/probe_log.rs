// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as the log of the oracle agent.
#![no_main]

use jportal::validate::verify::ProbeLog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut log) = ProbeLog::open(Box::new(std::io::Cursor::new(data.to_vec()))) else { return };
    let mut ids = Vec::new();
    while !log.is_done() {
        log.read(7, &mut ids).unwrap();
    }
    assert!(ids.len() <= data.len() / 4 && ids.iter().all(|id| *id != 0));
});
