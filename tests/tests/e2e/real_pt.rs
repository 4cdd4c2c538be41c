// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Programs recorded with the machine's own Intel PT, with the same checks as for the emulated
//! unit. On machines without Intel PT, the tests are counted as skipped. The rings are larger
//! than the free budget of locked memory: run the tests as root, or raise `ulimit -l`.

use std::path::Path;

use jportal_capture::{CaptureReader, LossReason};
use jportal_tests::place::{self, Installation};
use jportal_tests::programs::{self, Program};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::skip;

use crate::live::{LiveProgram, exact_parts};
use crate::programs::check;

/// The built tools; `None` after counting the test as skipped.
fn real_unit(test: &str) -> Option<Installation> {
    if !Path::new("/sys/bus/event_source/devices/intel_pt").exists() {
        skip::skip(test, "no Intel PT on this machine (/sys/bus/event_source/devices/intel_pt)");
        return None;
    }
    place::installed(test)
}

fn plan(mode: EngineMode, buffer: &str) -> Plan {
    let flags = vec![format!("-XX:JPortalBufferSize={buffer}")];
    Plan { emulate: false, flags, ..Plan::new(mode) }
}

fn program(name: &str) -> Program {
    programs::by_name(name).expect("a program of that name")
}

/// The buffer is large enough that the small programs lose nothing. Every probe must match, the
/// checker must find nothing, and libipt must agree.
fn judge(test: &str, names: &[&str]) {
    let Some(place) = real_unit(test) else { return };
    for name in names {
        for mode in [EngineMode::Interpreter, EngineMode::Tiered] {
            let judged = check(&place, &program(name), &plan(mode, "64m"), &format!("Intel PT, {mode:?}"));
            judged.unwrap_or_else(|e| panic!("{name}, {mode:?}: {e}"));
        }
    }
}

#[test]
#[cfg_attr(not(intel_pt), ignore = "cannot run: no Intel PT on this machine")]
fn real_pt_programs_of_one_thread_are_exact() {
    judge(
        "real_pt_programs_of_one_thread_are_exact",
        &["arithmetic", "calls", "exceptions", "hot-loops", "switches"],
    );
}

#[test]
#[cfg_attr(not(intel_pt), ignore = "cannot run: no Intel PT on this machine")]
fn real_pt_programs_of_many_threads_are_exact() {
    judge("real_pt_programs_of_many_threads_are_exact", &["threads", "monitors"]);
}

/// A ring that is far too small: losses are reported, tracing resumes after them, and the rest
/// decodes.
#[test]
#[cfg_attr(not(intel_pt), ignore = "cannot run: no Intel PT on this machine")]
fn real_pt_continues_after_losses() {
    let Some(place) = real_unit("real_pt_continues_after_losses") else { return };
    let plan = Plan { oracle: false, ..plan(EngineMode::Interpreter, "64k") };
    let recording = RecordedRun::make(&place, &program("hot-loops"), &plan).unwrap();
    assert!(recording.program.status.success(), "{}", recording.program.stderr);
    let reader = CaptureReader::open(&recording.capture()).unwrap();
    let losses: Vec<_> = reader.losses().iter().filter(|n| n.reason == LossReason::AuxFull).collect();
    assert!(losses.len() > 1, "64 KiB for each core were enough");
    for core in reader.cores() {
        let of_core: Vec<_> = losses.iter().filter(|n| n.core == core.get()).collect();
        let end = reader.pt(core).last().map_or(0, |p| p.offset + u64::from(p.len));
        if let [.., before_last, _] = of_core[..] {
            assert!(end > before_last.offset, "core {core}: nothing was traced behind a loss");
        }
    }
    let info = recording.info(&recording.capture(), &["--check"]).unwrap();
    assert_eq!((info.native_errors().unwrap(), info.reconstruct_errors().unwrap()), (0, 0));
    assert!(info.number("/truncations").unwrap() > 0.0 && info.number("/bytecodes").unwrap() > 0.0);
}

/// Code outside of the code cache must not be traced: the only filter is the code cache.
#[test]
#[cfg_attr(not(intel_pt), ignore = "cannot run: no Intel PT on this machine")]
fn real_pt_is_filtered() {
    let Some(place) = real_unit("real_pt_is_filtered") else { return };
    let plan = Plan { oracle: false, ..plan(EngineMode::Interpreter, "64m") };
    let recording = RecordedRun::make(&place, &program("arithmetic"), &plan).unwrap();
    let reader = CaptureReader::open(&recording.capture()).unwrap();
    let header = reader.header();
    assert_eq!(header.pt.filter.len(), 1, "no filter: {}", recording.program.stderr);
    assert_eq!(
        (header.pt.filter[0].low, header.pt.filter[0].high),
        (header.code_cache_low, header.code_cache_high)
    );
    assert_eq!(header.pt.source_name(), "perf");
    assert!(header.pt.perf_config != 0 && header.tsc_khz > 100_000);
}

/// `JPortal.start`, three times, in a VM with running threads: it opens events for each of them,
/// and each recording is exact.
#[test]
#[cfg_attr(not(intel_pt), ignore = "cannot run: no Intel PT on this machine")]
fn real_pt_of_threads_that_run_already_is_exact() {
    let Some(place) = real_unit("real_pt_of_threads_that_run_already_is_exact") else { return };
    exact_parts(&LiveProgram::start_native(place));
}
