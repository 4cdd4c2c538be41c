//! Whole runs: guest programs under `qemu-x86_64` with the plugin, decoded by libipt and compared
//! with the executed instructions.

mod common;


use common::check::{Matched, check};
use common::{Run, Setup, run_guest};
use jportal_perf_abi::emulated::Counter;

/// Runs, checks, and compares with the counts that the guest states about itself.
fn exact(scenario: &str, n: u64, arguments: &str) -> (Run, Matched) {
    let run = run_guest(scenario, n, &Setup::new(arguments));
    assert!(run.output.status.success(), "{:?}\n{}", run.output, run.log);
    assert_eq!(run.counter(Counter::Anomalies), 0, "{}", run.log);
    assert_eq!(run.counter(Counter::LostBytes), 0);
    let bytes: u64 = run.cores.iter().map(|c| c.aux.len() as u64).sum();
    assert_eq!(run.counter(Counter::TraceBytes), bytes);
    let matched = check(&run, 3);
    assert!(matched.instructions > 0);
    for (address, executed) in run.expected() {
        let decoded = matched.counts.get(&address).copied().unwrap_or(0);
        assert_eq!(decoded + lost_at(&matched), executed, "executions of {address:#x}");
    }
    println!("{scenario} {arguments}: {:?}", Matched { counts: Default::default(), ..matched.clone() });
    (run, matched)
}

/// Where packets are lost on purpose the guest's counts cannot be compared.
fn lost_at(matched: &Matched) -> u64 {
    assert_eq!(matched.lost, 0);
    0
}

#[test]
fn control_flow() {
    exact("flow", 3000, "cores=1,quantum=0");
}

#[test]
fn system_calls_inside_the_range() {
    exact("syscalls", 500, "cores=2");
}

#[test]
fn signals_and_faults() {
    let (_, matched) = exact("signals", 100, "cores=2,quantum=20000");
    assert!(matched.switches > 2);
}

#[test]
fn threads_over_three_cores() {
    let (_, matched) = exact("threads", 20_000, "cores=3,quantum=3000,slice=100");
    assert!(matched.tids.iter().all(|t| t.len() > 3), "{:?}", matched.tids);
}

#[test]
fn more_threads_than_cores() {
    let (_, matched) = exact("threads", 5000, "cores=1,quantum=0,slice=50");
    assert!(matched.tids[0].len() > 3 && matched.switches > 18, "{matched:?}");
}

#[test]
fn code_that_changes() {
    exact("patching", 2000, "cores=2,quantum=500");
}
