// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decoding is streaming: a trace ten times as long must not need much more memory, and neither
//! must threads that have ended.

use jportal_tests::place;
use jportal_tests::process;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn ten_times_the_trace_needs_less_than_half_more_memory() {
    let Some(place) = place::installed("ten_times_the_trace_needs_less_than_half_more_memory") else {
        return;
    };
    let program = programs::by_name("arithmetic").expect("a program of that name");
    let base = program.command(&place.root, &place.programs, programs::Size::Small);
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    let measure = |size: &str| {
        let mut command = base.clone();
        *command.last_mut().expect("the size is the last argument") = size.into();
        let recording = RecordedRun::command(&place, &command, &plan).unwrap();
        let bytes = recording.info(&recording.capture(), &[]).unwrap().number("/pt_bytes").unwrap();
        // How much one core's decoder is ahead of another's depends on the machine's load, so
        // take the best of three.
        let decode = |_| {
            let decoded =
                recording.jportal(&["report", "hot-methods", "--json"], &recording.capture(), &[]).unwrap();
            assert!(decoded.status.success(), "{}", decoded.stderr);
            decoded.peak_kib
        };
        let peak = (0..3).map(decode).min().unwrap();
        let file = process::size(&recording.capture());
        println!("size {size}: {bytes} PT bytes, capture {file} bytes, peak {peak} KiB");
        (bytes, peak)
    };
    let (short, peak_short) = measure("1");
    let (long, peak_long) = measure("400");
    assert!(long > 10.0 * short, "the traces are {short} and {long} bytes");
    assert!(peak_long * 2 < peak_short * 3, "peak memory {peak_short} and {peak_long} KiB");
}

/// A thread that has ended leaves a row in the tables of threads, with its name.
const KIB_OF_ENDED_THREAD: u64 = 20;

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn ended_threads_need_little_memory() {
    let Some(place) = place::installed("ended_threads_need_little_memory") else { return };
    let program = programs::by_name("arithmetic").expect("a program of that name");
    let base = program.command(&place.root, &place.programs, programs::Size::Small);
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = |threads: &str| {
        let mut command = base.clone();
        let main = command.iter().position(|word| word.starts_with("programs.")).expect("a main class");
        command.truncate(main);
        command.extend(["programs.Waves".into(), threads.into()]);
        RecordedRun::command(&place, &command, &plan).unwrap()
    };
    let (few, many) = (recording("100"), recording("1500"));
    for report in [&["info", "--json"][..], &["report", "hot-methods", "--json"]] {
        for jobs in ["1", "2"] {
            let peak = |recording: &RecordedRun| {
                let decode = |_| {
                    let decoded = recording.jportal(report, &recording.capture(), &["--jobs", jobs]).unwrap();
                    assert!(decoded.status.success(), "{}", decoded.stderr);
                    decoded.peak_kib
                };
                (0..2).map(decode).min().unwrap()
            };
            let (short, long) = (peak(&few), peak(&many));
            println!("{report:?}, {jobs} jobs: {short} KiB for 100 threads, {long} KiB for 1,500");
            assert!(long < short + 1400 * KIB_OF_ENDED_THREAD, "{report:?}: {short} and {long} KiB");
        }
    }
}
