// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whole runs: guest programs under `qemu-x86_64` with the plugin, decoded by libipt and compared
//! with the executed instructions.

mod common;

use std::time::Duration;

use common::check::{Matched, check};
use common::{GuestRun, Setup, run_guest};
use jportal_perf_abi::emulated::Counter;

/// Runs a scenario and checks that there is no anomaly and that exactly the executed
/// instructions are decoded.
fn checked(scenario: &str, n: u64, setup: &Setup) -> (GuestRun, Matched) {
    let run = run_guest(scenario, n, setup);
    assert!(run.output.status.success(), "{:?}\n{}", run.output, run.log);
    assert_eq!(run.counter(Counter::Anomalies), 0, "{}", run.log);
    let bytes: u64 = run.cores.iter().map(|c| c.aux.len() as u64).sum();
    assert_eq!(run.counter(Counter::TraceBytes), bytes);
    let matched = check(&run, 3);
    let shown = Matched { counts: Default::default(), ..matched.clone() };
    println!("{scenario} {}: {shown:?}", setup.arguments);
    assert!(matched.instructions > 0);
    (run, matched)
}

/// Checks a run without loss, also against the counts that the guest prints.
fn exact(scenario: &str, n: u64, arguments: &str) -> (GuestRun, Matched) {
    let (run, matched) = checked(scenario, n, &Setup::new(arguments));
    assert_eq!(run.counter(Counter::LostBytes), 0);
    assert_eq!(matched.lost, 0);
    for (address, executed) in run.expected() {
        let decoded = matched.counts.get(&address).copied().unwrap_or(0);
        assert_eq!(decoded, executed, "executions of {address:#x}");
    }
    (run, matched)
}

/// Sum of the counts that the guest prints.
fn executed(run: &GuestRun) -> u64 {
    run.expected().iter().map(|e| e.1).sum()
}

/// How often the same instructions were decoded.
fn decoded(run: &GuestRun, matched: &Matched) -> u64 {
    run.expected().iter().map(|(a, _)| matched.counts.get(a).copied().unwrap_or(0)).sum()
}

/// The emulator's message if it could not determine where a signal interrupted its thread.
const MISSED_FRAME: &str = "a signal handler returned, and QEMU reported no access to its stack";

#[test]
fn control_flow() {
    let (run, matched) = exact("flow", 3000, "cores=1,quantum=0");
    assert_eq!(run.expected().len(), 5);
    assert!(matched.cold_starts > 3);
}

#[test]
fn system_calls_inside_the_range() {
    exact("syscalls", 500, "cores=2");
}

#[test]
fn signals_and_faults() {
    let (run, matched) = exact("signals", 100, "cores=2,quantum=20000");
    assert!(matched.switches > 2);
    let handlers: Vec<_> = run.log.lines().filter(|l| l.starts_with("signal handler")).collect();
    assert!(handlers.iter().all(|l| l.contains("complete: true")), "{handlers:?}");
}

/// The first stack access of such a handler is its return. In some runs QEMU 7.2 does not
/// report that load, although the plugin asked for it. Then every interruption of a block is an
/// anomaly, and the log contains the reason.
#[test]
fn a_handler_without_a_push() {
    let run = run_guest("leaf", 100, &Setup::new("cores=2,quantum=20000"));
    assert!(run.output.status.success(), "{:?}\n{}", run.output, run.log);
    assert!(run.log.contains("reads: true"), "{}", run.log);
    let missed = run.log.contains(MISSED_FRAME);
    assert_eq!(run.counter(Counter::Anomalies) > 0, missed, "{}", run.log);
    println!("frames missed: {missed}");
    if !missed {
        check(&run, 3);
    }
}

#[test]
fn threads_over_three_cores() {
    let (_, matched) = exact("threads", 3000, "cores=3,quantum=1000,slice=100");
    assert!(matched.tids.iter().all(|t| t.len() > 3), "{:?}", matched.tids);
}

#[test]
fn more_threads_than_cores() {
    let (_, matched) = exact("threads", 3000, "cores=1,quantum=0,slice=50");
    assert!(matched.tids[0].len() > 3 && matched.switches > 18, "{matched:?}");
}

#[test]
fn code_that_changes() {
    exact("patching", 2000, "cores=2,quantum=500");
}

#[test]
fn a_forked_child_writes_nothing() {
    exact("fork", 300, "cores=2,quantum=2000");
}

#[test]
fn a_failed_exec_changes_nothing() {
    exact("exec", 300, "cores=2");
}

#[test]
fn stopping_and_starting_inside_the_range() {
    let (_, matched) = checked("toggle", 300, &Setup::new("cores=2,quantum=2000,slice=100"));
    // Tracing is on eleven times, and each time all three threads enter a core.
    assert!(matched.switches >= 33, "{}", matched.switches);
}

#[test]
fn the_process_ends_while_threads_run() {
    checked("exit", 1000, &Setup::new("cores=2,quantum=5000,aux=16m"));
}

#[test]
fn every_packet_option() {
    for arguments in [
        "timing=tsc",
        "timing=cyc",
        "tnt=long",
        "mtcfreq=0",
        "psb=64k",
        "retcomp=1,pop=compressed",
        "irq=37",
        "irqmid=11,retcomp=1,pop=compressed",
        "irq=50,irqmid=13,tnt=long,timing=cyc",
    ] {
        exact("flow", 1500, &format!("cores=2,quantum=3000,{arguments}"));
    }
}

#[test]
fn return_compression_shortens_the_trace() {
    let bytes = |arguments| exact("flow", 1500, arguments).0.counter(Counter::TraceBytes);
    let (plain, compressed) = (bytes("timing=tsc"), bytes("timing=tsc,retcomp=1,pop=compressed"));
    assert!(compressed * 5 < plain * 4, "{compressed} against {plain}");
}

#[test]
fn internal_overflow() {
    for scenario in ["flow", "signals", "threads"] {
        let n = if scenario == "signals" { 60 } else { 2000 };
        let setup = Setup::new("cores=2,quantum=4000,ovf=3000,ovflen=300");
        let (run, matched) = checked(scenario, n, &setup);
        assert!(matched.overflows > 5, "{scenario}");
        // The instructions that "signals" counts are too few for an overflow to hit them with
        // certainty.
        let hit = executed(&run) > decoded(&run, &matched);
        assert!(hit || scenario == "signals", "{scenario}: an overflow loses packets");
    }
}

#[test]
fn stall_keeps_everything_after_a_slow_drain() {
    let mut setup = Setup::new("cores=2,quantum=5000,aux=8k,data=8k,irq=3");
    setup.drain_pause = Duration::from_millis(60);
    let (run, matched) = checked("flow", 6000, &setup);
    assert_eq!((matched.lost, run.counter(Counter::LostBytes)), (0, 0));
    assert!(run.counter(Counter::PeakQueue) > 8192, "{}", run.counter(Counter::PeakQueue));
}

#[test]
fn drop_loses_and_recovers() {
    let mut setup = Setup::new("cores=2,quantum=5000,aux=16k,mode=drop,irq=3");
    setup.drain_pause = Duration::from_millis(15);
    let (run, matched) = checked("threads", 6000, &setup);
    assert!(
        matched.truncations > 3 && matched.lost > 0,
        "{} {}\n{}",
        matched.truncations,
        matched.lost,
        run.log
    );
    assert!(executed(&run) > decoded(&run, &matched));
    assert_eq!(run.counter(Counter::Losses), matched.truncations);
    assert!(run.counter(Counter::LostBytes) > 0);
}

#[test]
fn too_much_waiting_trace_ends_the_run_with_a_reason() {
    let mut setup = Setup::new("cores=1,aux=8k,limit=64k");
    setup.drain_pause = Duration::from_millis(500);
    let run = run_guest("flow", 200_000, &setup);
    assert_eq!(run.output.status.code(), Some(112), "{:?}", run.output);
    let message = run.unit.failure().unwrap();
    assert!(message.contains("limit=65536"), "{message}");
    assert!(String::from_utf8_lossy(&run.output.stderr).contains("limit=65536"));
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let output = std::process::Command::new("qemu-x86_64")
        .args(["-plugin", &format!("{},shm=/nonexistent/x,cores=2", common::plugin().display()), "/bin/true"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent/x"), "{output:?}");
}
