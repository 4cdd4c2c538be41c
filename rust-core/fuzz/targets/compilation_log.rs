// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Any bytes as a log of -XX:+LogCompilation.
#![no_main]

use jportal::analyses::jit::CompilationLog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let log = CompilationLog::read(data);
    let _ = (log.is_empty(), log.broken());
});
