// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as the table of sites and the trace of `jportal export call-trace`.
#![no_main]

use jportal::export::call_trace::{CallTrace, SiteTable, decode};
use jportal_fuzz_targets::two_parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mut sites, mut trace)) = two_parts(data) else { return };
    let sites = SiteTable::read(&mut sites).unwrap_or_default();
    let Ok(trace) = CallTrace::read(&mut trace) else { return };
    let _ = (trace.tid(), trace.has_times());
    let _ = decode(trace, &sites, &mut std::io::sink());
});
