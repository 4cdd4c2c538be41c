// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs guest programs under QEMU with the plugin and checks what it recorded.
#![allow(dead_code)] // each test file uses its own part

pub mod check;
pub mod truth;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jportal_perf_abi::emulated::{Counter, EmulatedUnit};
use jportal_perf_abi::record::RecordReader;
use jportal_perf_abi::ring::CoreConsumer;
use jportal_perf_abi::{Body, Record};

/// What one core's rings contained.
#[derive(Debug, Default)]
pub struct CoreTrace {
    /// The AUX stream.
    pub aux: Vec<u8>,
    /// The records of the data ring.
    pub records: Vec<Record>,
}

/// A finished run.
#[derive(Debug)]
pub struct GuestRun {
    /// Directory of the run's files.
    pub directory: tempfile::TempDir,
    /// One trace per virtual core.
    pub cores: Vec<CoreTrace>,
    /// Exit status and output of the guest.
    pub output: Output,
    /// The shared file of the unit.
    pub unit: EmulatedUnit,
    /// The emulator's log.
    pub log: String,
    /// Duration of the run.
    pub elapsed: Duration,
}

impl GuestRun {
    /// A counter of the unit.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.unit.counter(counter)
    }

    /// Directory of the record of executed blocks.
    pub fn truth_directory(&self) -> PathBuf {
        self.directory.path().join("truth")
    }

    /// The `executed ADDRESS N` lines that the guest printed.
    pub fn expected(&self) -> Vec<(u64, u64)> {
        let text = String::from_utf8_lossy(&self.output.stdout);
        let lines = text.lines().filter_map(|l| l.strip_prefix("executed 0x"));
        lines
            .map(|l| {
                let (address, n) = l.split_once(' ').unwrap();
                (u64::from_str_radix(address, 16).unwrap(), n.parse().unwrap())
            })
            .collect()
    }
}

/// Settings of a run.
pub struct Setup {
    /// Further arguments of the plugin.
    pub arguments: String,
    /// Pause between two rounds of draining. A long pause makes rings full.
    pub drain_pause: Duration,
    /// Whether to keep the record of executed blocks.
    pub truth: bool,
    /// Maximum duration of the run.
    pub patience: Duration,
}

impl Setup {
    /// Settings with these arguments of the plugin and the record of executed blocks.
    pub fn new(arguments: &str) -> Setup {
        Setup {
            arguments: arguments.into(),
            drain_pause: Duration::from_micros(200),
            truth: true,
            patience: Duration::from_secs(240),
        }
    }
}

/// Path of the plugin that `cargo test` built beside this test.
pub fn plugin() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let directory = exe.parent().unwrap();
    let candidates = [directory.join("libjportal_emulator.so"), directory.join("../libjportal_emulator.so")];
    let newest =
        candidates.iter().filter(|p| p.exists()).max_by_key(|p| p.metadata().unwrap().modified().unwrap());
    newest.expect("libjportal_emulator.so beside the test").clone()
}

/// Compiles the guest once per test process.
pub fn guest() -> &'static Path {
    static GUEST: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = GUEST.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("guest");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/main.c");
        let status = Command::new("cc")
            .args(["-O1", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .status()
            .expect("a C compiler named cc");
        assert!(status.success());
        (directory, program)
    });
    path
}

/// Runs `scenario n` of the guest program.
pub fn run_guest(scenario: &str, n: u64, setup: &Setup) -> GuestRun {
    let number = n.to_string();
    run(&[guest().to_str().unwrap(), scenario, &number], setup)
}

/// Runs a program under QEMU and drains its rings meanwhile.
pub fn run(program: &[&str], setup: &Setup) -> GuestRun {
    let directory = tempfile::tempdir().unwrap();
    let rings = directory.path().join("rings");
    let log = directory.path().join("log");
    let mut arguments = format!("{},shm={},log={}", plugin().display(), rings.display(), log.display());
    if setup.truth {
        arguments += &format!(",truth={}", directory.path().join("truth").display());
    }
    if !setup.arguments.is_empty() {
        arguments += &format!(",{}", setup.arguments);
    }
    let start = Instant::now();
    let child = Command::new("qemu-x86_64")
        .arg("-plugin")
        .arg(&arguments)
        .args(program)
        .env("JPORTAL_EMULATED_PT", &rings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qemu-x86_64 (Debian package qemu-user)");
    let (unit, cores, output) = drain(child, &rings, setup);
    let elapsed = start.elapsed();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    GuestRun { directory, cores, output, unit, log, elapsed }
}

fn drain(mut child: Child, rings: &Path, setup: &Setup) -> (EmulatedUnit, Vec<CoreTrace>, Output) {
    let start = Instant::now();
    let unit = loop {
        match EmulatedUnit::open(rings) {
            Ok(unit) => break unit,
            Err(e) => {
                if child.try_wait().unwrap().is_some() {
                    panic!("{e}; {:?}", child.wait_with_output());
                }
                assert!(start.elapsed() < setup.patience, "{e}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let count = unit.config().cores;
    let mut consumers: Vec<_> = (0..count).map(|c| unit.consumer(c).unwrap()).collect();
    let mut bytes: Vec<_> = (0..count).map(|_| (Vec::new(), Vec::new())).collect();
    loop {
        let ended = child.try_wait().unwrap().is_some();
        for (consumer, to) in consumers.iter_mut().zip(&mut bytes) {
            take(consumer, &mut to.0, &mut to.1);
        }
        if ended {
            break;
        }
        if start.elapsed() > setup.patience {
            child.kill().unwrap();
            panic!("no end after {:?}; {:?}", setup.patience, child.wait_with_output());
        }
        std::thread::sleep(setup.drain_pause);
    }
    let output = child.wait_with_output().unwrap();
    let cores = bytes
        .into_iter()
        .map(|(records, aux)| {
            let records = RecordReader::new(&records).map(|r| r.unwrap()).collect();
            CoreTrace { aux, records }
        })
        .collect();
    (unit, cores, output)
}

fn take(consumer: &mut CoreConsumer, records: &mut Vec<u8>, aux: &mut Vec<u8>) {
    let available = consumer.aux.available().unwrap();
    consumer.data.drain(records, usize::MAX).unwrap();
    consumer.aux.drain(aux, available as usize).unwrap();
}

/// Whether a switch record reports a thread that leaves the core; `None` for other records.
pub fn switch(record: &Record) -> Option<bool> {
    match record.body {
        Body::Switch { out, .. } => Some(out),
        _ => None,
    }
}
