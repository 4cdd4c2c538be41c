// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a capture whose trace is removed in parts: no panic, and what is written can be
//! read.
#![no_main]

use jportal::file::CaptureReader;
use jportal_degrade::overflow::Overflow;
use jportal_degrade::{Amount, LossSettings, LostRecords, Plan};
use jportal_fuzz_targets::{file, folder, repaired};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = file("a.jportal", &repaired(data));
    let Ok(reader) = CaptureReader::open(&path) else { return };
    let settings = LossSettings {
        aux: None,
        drain: Some(Amount::Share(0.3)),
        timer_ms: 1.0,
        overflow: Some(Overflow { every: 100, swallow: 20 }),
        sideband: Some(LostRecords { every: 10, records: 2 }),
        seed: 1,
    };
    let Ok(plan) = Plan::make(&reader, settings, &mut |_, _| ()) else { return };
    let output = folder().join("degraded.jportal");
    if plan.write(&output, &mut |_, _| ()).is_ok() {
        CaptureReader::open(&output).unwrap();
    }
});
