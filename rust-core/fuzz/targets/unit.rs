// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as the shared file of an emulated unit: the VM that consumes its rings never panics,
//! and keeps to the limit of each piece.
#![no_main]

use jportal_fuzz_targets::file;
use jportal_perf_abi::emulated::{Counter, EmulatedUnit};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    // Inputs leave out zeros at the end.
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().max(64 << 10), 0);
    let path = file("unit", &bytes);
    let Ok(unit) = EmulatedUnit::open(&path) else { return };
    let _ = (unit.detail(), unit.failure(), unit.owner(), unit.complete_until(), unit.is_finished());
    let _ = Counter::ALL.map(|(counter, _)| unit.counter(counter));
    let generation = unit.enable(0x1000, 0x2000);
    let _ = (unit.command(), unit.acknowledged() == generation);
    for core in 0..unit.config().cores.min(4) {
        let Ok(mut rings) = unit.consumer(core) else { continue };
        let mut to = Vec::new();
        for ring in [&mut rings.data, &mut rings.aux] {
            let _ = ring.last(64, &mut to);
            while let Ok(1..) = ring.drain(&mut to, LIMIT) {
                assert!(to.len() <= LIMIT + 64);
                to.clear();
            }
            let _ = ring.discard();
        }
    }
});
