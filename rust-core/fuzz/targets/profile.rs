// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as the profile of another tool: pprof, collapsed stacks, printed samples of JFR.
#![no_main]

use jportal::export::profile::PprofStacks;
use jportal::validate::stacks::grade::StackProfile;
use jportal::validate::stacks::jfr::JfrSamples;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The bytes of a profile are compressed, which no fuzzer sees through.
    for read in [PprofStacks::read(data), PprofStacks::decode(data)] {
        if let Ok(stacks) = read {
            let _ = StackProfile::of_stacks("pprof", stacks.stacks());
        }
    }
    let _ = StackProfile::read_collapsed(data);
    if let Ok(samples) = JfrSamples::read(data) {
        let _ = StackProfile::of_jfr(&samples);
    }
});
