// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Whole JVM runs, decoded by libipt and compared with the executed instructions.
//!
//! The JVM is unmodified. The code cache lies at the same place in every run under QEMU, so the
//! plugin gets it as a fixed range. The longer runs need optimisation:
//! `cargo test --release -p jportal-emulator --test jvm`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use common::check::{Matched, check};
use common::{GuestRun, Setup, run};
use jportal_perf_abi::emulated::Counter;

const CACHE: [&str; 2] = ["-XX:ReservedCodeCacheSize=64m", "-XX:-SegmentedCodeCache"];

/// Path of a JDK tool: in `JPORTAL_TEST_JAVA_HOME` if set, otherwise in the unmodified JDK of
/// `scripts/setup`.
fn java(tool: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/jdk-debian");
    let home = std::env::var_os("JPORTAL_TEST_JAVA_HOME").map_or(built, PathBuf::from);
    let path = home.join("bin").join(tool);
    std::fs::canonicalize(&path).unwrap_or_else(|e| panic!("{}: {e}; run scripts/setup", path.display()))
}

fn classes() -> &'static Path {
    static CLASSES: OnceLock<tempfile::TempDir> = OnceLock::new();
    CLASSES
        .get_or_init(|| {
            let directory = tempfile::tempdir().unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/Work.java");
            let status = Command::new(java("javac"))
                .args(["-encoding", "UTF-8", "-d"])
                .arg(directory.path())
                .arg(source)
                .status();
            assert!(status.expect("javac").success());
            directory
        })
        .path()
}

/// The code cache's bounds under QEMU.
fn code_cache() -> (u64, u64) {
    static BOUNDS: OnceLock<(u64, u64)> = OnceLock::new();
    *BOUNDS.get_or_init(|| {
        let output = Command::new("qemu-x86_64")
            .arg(java("java"))
            .args(CACHE)
            .args(["-XX:+PrintCodeCache", "-version"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let bounds = text.lines().find_map(|l| l.trim().strip_prefix("bounds [")).expect("code cache bounds");
        let numbers: Vec<u64> = bounds
            .trim_end_matches(']')
            .split(", ")
            .map(|n| u64::from_str_radix(n.trim_start_matches("0x"), 16).unwrap())
            .collect();
        (numbers[0], numbers[2])
    })
}

fn jvm(arguments: &str, java_arguments: &[&str]) -> (GuestRun, Matched) {
    let (low, high) = code_cache();
    let mut setup = Setup::new(&format!("lo={low:#x},hi={high:#x},aux=64m,{arguments}"));
    setup.patience = Duration::from_secs(500);
    let program = java("java");
    let mut command = vec![program.to_str().unwrap()];
    command.extend(CACHE);
    command.extend(["-cp", classes().to_str().unwrap()]);
    command.extend(java_arguments);
    let run = run(&command, &setup);
    assert!(run.output.status.success(), "{:?}\n{}", run.output, run.log);
    assert_eq!(run.counter(Counter::Anomalies), 0, "{}", run.log);
    assert_eq!(run.counter(Counter::LostBytes), 0);
    let matched = check(&run, 50);
    println!(
        "{java_arguments:?} {arguments}: {:?} in {:?}",
        Matched { counts: Default::default(), ..matched.clone() },
        run.elapsed
    );
    (run, matched)
}

#[test]
fn interpreter() {
    let (_, m) = jvm("cores=2", &["-Xint", "Work", "fib", if cfg!(debug_assertions) { "5" } else { "22" }]);
    assert!(m.instructions > 1_000_000);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimisation: cargo test --release")]
fn implicit_null_checks() {
    let (run, _) = jvm("cores=2,quantum=30000", &["Work", "npe", "40"]);
    assert!(run.log.contains("faults"), "{}", run.log);
}

#[test]
fn threads_over_three_cores() {
    let (_, m) = jvm(
        "cores=3,quantum=20000,slice=200",
        &["Work", "threads", if cfg!(debug_assertions) { "1" } else { "40" }],
    );
    assert!(m.tids.iter().all(|t| t.len() > 5), "{:?}", m.tids);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimisation: cargo test --release")]
fn return_compression() {
    jvm("cores=2,retcomp=1,pop=compressed", &["Work", "threads", "20"]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimisation: cargo test --release")]
fn injected_interrupts_long_tnt_and_cycles() {
    jvm("cores=2,irqmid=37,tnt=long,timing=cyc", &["Work", "npe", "20"]);
}

/// The H2 database: some 500 million instructions.
#[test]
#[ignore = "takes minutes; needs /usr/share/java/h2.jar (Debian package libh2-java) and build/programs"]
fn h2() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let jars = format!("{}:/usr/share/java/h2.jar", root.join("build/programs/workloads.jar").display());
    let (_, m) = jvm("cores=3,quantum=50000,slice=300", &["-cp", &jars, "H2Load", "1000"]);
    assert!(m.instructions > 100_000_000);
}
