// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A program that records as the VM does, with a PT unit whose output is known. The tests run
//! it as a process of its own, natively and under QEMU, and kill it.
//!
//! * `fake_vm record CAPTURE CORES BYTES THREADS RECORDS` records, stops and exits;
//! * `fake_vm endless CAPTURE` commits records until it is killed and prints how many are
//!   committed;
//! * `fake_vm crash CAPTURE RECORDS` commits, calls the emergency mark and aborts;
//! * `fake_vm die CAPTURE RECORDS WAY` commits and dies without notifying the recorder: by
//!   `exit`, `abort` or `segv`;
//! * `fake_vm starve CAPTURE` takes all memory of its process from the recorder,
//!   commits, stops, and prints the reason for the end;
//! * `fake_vm survive CAPTURE RECORDS` commits whether or not the records are accepted, and
//!   prints how many were and the reason for the end.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{FakeUnit, KIND, commit_from_threads, unit_config};
use jportal_perf_abi::emulated::{ENVIRONMENT, Mode};
use jportal_recorder::{Recorder, RecordingConfig, Source, StopReason};
use std::path::{Path, PathBuf};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |n: usize| words[n].parse::<u64>().unwrap();
    match words[0] {
        "record" => record(Path::new(words[1]), number(2), number(3), number(4), number(5)),
        "endless" => endless(Path::new(words[1])),
        "crash" => crash(Path::new(words[1]), number(2)),
        "die" => die(Path::new(words[1]), number(2), words[3]),
        "starve" => starve(Path::new(words[1])),
        "survive" => survive(Path::new(words[1]), number(2)),
        other => panic!("unknown mode {other}"),
    }
}

fn start(capture: &Path, source: Source) -> Recorder {
    let config =
        RecordingConfig { path: capture.into(), source, ring_bytes: 64 << 10, ..RecordingConfig::default() };
    Recorder::start(config).unwrap_or_else(|e| panic!("{e}"))
}

fn record(capture: &Path, cores: u64, bytes: u64, threads: u64, records: u64) {
    let shared = PathBuf::from(format!("{}.unit", capture.display()));
    let unit = FakeUnit::start(&shared, unit_config(cores as u32, Mode::Stall), bytes);
    // SAFETY: the unit's threads do not read the environment, and there are no others.
    unsafe { std::env::set_var(ENVIRONMENT, &shared) };
    let recorder = start(capture, Source::Emulated);
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    commit_from_threads(&recorder, threads, records);
    recorder.stop(StopReason::Exit);
    unit.join();
    std::fs::remove_file(&shared).unwrap();
    print!("{}", recorder.status());
    assert_eq!(recorder.failure(), None);
}

fn endless(capture: &Path) {
    let recorder = start(capture, Source::None);
    for n in 0u64.. {
        assert!(recorder.write(KIND, &n.to_le_bytes()));
        if n % 64 == 0 {
            // Every record up to n is committed when this line can be read.
            println!("{n}");
        }
    }
}

fn crash(capture: &Path, records: u64) {
    let recorder = start(capture, Source::None);
    for n in 0..records {
        assert!(recorder.write(KIND, &n.to_le_bytes()));
    }
    recorder.emergency();
    assert!(!recorder.write(KIND, &[0; 8]), "nothing is taken after the mark");
    std::process::abort();
}

fn die(capture: &Path, records: u64, way: &str) {
    let recorder = start(capture, Source::None);
    for n in 0..records {
        assert!(recorder.write(KIND, &n.to_le_bytes()));
    }
    match way {
        // SAFETY: nothing is used after this call. It ends the recorder's threads wherever they
        // are, which is the purpose of this mode.
        "exit" => unsafe { libc::_exit(3) },
        "abort" => std::process::abort(),
        // SAFETY: the process sends the signal to itself. The standard library's handler is
        // removed first, because it ignores a SIGSEGV that no instruction caused.
        "segv" => unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::raise(libc::SIGSEGV);
        },
        other => panic!("unknown way {other}"),
    }
}

fn survive(capture: &Path, records: u64) {
    let recorder = start(capture, Source::None);
    let taken = (0..records).take_while(|n| recorder.write(KIND, &n.to_le_bytes())).count();
    recorder.stop(StopReason::Exit);
    println!("{taken} {}", recorder.failure().unwrap_or_default());
}

fn starve(capture: &Path) {
    // SAFETY: there are no other threads yet. One arena serves all threads, so that the memory is
    // theirs, too.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let recorder = start(capture, Source::None);
    println!("started");
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a valid value; the memory is never used or freed.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        for size in [1 << 20, 1 << 16, 1 << 12, 256, 16] {
            while !std::hint::black_box(libc::malloc(size)).is_null() {}
        }
    }
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    let taken = (0..200_000u64).take_while(|n| recorder.write(KIND, &n.to_le_bytes())).count();
    std::thread::sleep(std::time::Duration::from_millis(300));
    recorder.stop(StopReason::Exit);
    println!("{taken} {}", recorder.failure().unwrap_or_default());
}
