// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The output does not depend on the number of threads that decode.

use std::collections::BTreeMap;
use std::path::Path;

use jportal_capture::CaptureReader;
use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

const COMMANDS: [&[&str]; 6] = [
    &["info", "--json", "--check"],
    &["report", "hot-methods", "--json", "--top", "1000000"],
    &["report", "calls", "--json", "--top", "1000000"],
    &["report", "coverage", "--json", "--classes", "all"],
    &["print", "--level", "bytecode", "--limit", "50000"],
    &["print", "--gaps", "fill", "--limit", "50000"],
];

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn any_number_of_jobs_gives_the_same_bytes() {
    let test = "any_number_of_jobs_gives_the_same_bytes";
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name("threads").unwrap();
    let plan = Plan { oracle: false, timing: "mtc", ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let whole = recording.capture();
    let lossy = recording.file("lossy.jportal");
    let out = lossy.to_str().unwrap();
    let degraded = recording.jportal(&["degrade"], &whole, &["-o", out, "--loss", "20%"]).unwrap();
    assert!(degraded.status.success(), "{}", degraded.stderr);
    for (first, capture) in [&whole, &lossy].into_iter().enumerate() {
        // Each command meets two of the numbers.
        for (jobs, command) in ["2", "3", "16"].into_iter().cycle().skip(first).zip(COMMANDS) {
            let run = |jobs: &str| {
                let finished = recording.jportal(command, capture, &["--jobs", jobs]).unwrap();
                assert!(finished.status.code().is_some_and(|c| c < 2), "{command:?}: {}", finished.stderr);
                (finished.status.code(), finished.text())
            };
            let alone = run("1");
            assert!(alone.1.len() > 1000, "{command:?}: {}", alone.1);
            assert!(run(jobs) == alone, "{command:?} differs with {jobs} jobs, of {}", capture.display());
        }
        heads_are_those_of_all_lines(&recording, capture);
        threads_alone_are_the_same(&recording, capture);
    }
    cold_starts_end_as_the_whole(&recording, &whole);
    figures_of_threads_are_parts_of_the_whole(&recording, &lossy);
}

/// What `print` prints of each thread.
fn sections(recording: &RecordedRun, capture: &Path, words: &[&str]) -> Vec<String> {
    let text = recording.jportal(&["print", "--level", "call"], capture, words).unwrap().text();
    let text = text.split("\nexecution ").next().unwrap_or_default();
    format!("\n{text}").split("\nthread ").skip(1).map(str::to_owned).collect()
}

/// `--thread` leaves out the trace of other threads. The flow must be the one that the thread has
/// when all are decoded.
fn threads_alone_are_the_same(recording: &RecordedRun, capture: &Path) {
    let mut whole = sections(recording, capture, &[]);
    let of = |section: &str| -> String {
        let head = section.lines().next().unwrap_or_default();
        head.split("(tid ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned()
    };
    let mut tids: Vec<(usize, String)> = whole.iter().map(|s| (s.len(), of(s))).collect();
    tids.sort();
    whole.iter_mut().for_each(|section| section.truncate(section.trim_end().len()));
    let mut sizes = 0;
    for (n, (size, tid)) in tids.iter().rev().take(4).enumerate() {
        let jobs = ["1", "3"][n % 2];
        let alone = sections(recording, capture, &["--thread", tid, "--jobs", jobs]);
        let expected: Vec<_> = whole.iter().filter(|s| of(s) == *tid).collect();
        let alone: Vec<_> = alone.iter().map(|s| s.trim_end()).collect();
        assert!(alone == expected, "thread {tid} is another one alone, of {}", capture.display());
        sizes += size;
    }
    assert!(sizes > 100_000, "{sizes} bytes are too few to show anything");
}

/// Each loss and each byte of trace is counted for the thread that it belongs to.
fn figures_of_threads_are_parts_of_the_whole(recording: &RecordedRun, capture: &Path) {
    let info = |words: &[&str]| -> serde_json::Value {
        let text = recording.jportal(&["info", "--json"], capture, words).unwrap().text();
        serde_json::from_str(&text).unwrap()
    };
    let figures = |info: &serde_json::Value| {
        let number = |name: &str| info[name].as_u64().unwrap();
        let asked = number("pt_bytes") - number("not_asked_bytes") - number("unattributed_bytes");
        let errors = info["errors"]["native_flow"].as_u64().unwrap();
        [asked, number("truncations"), number("overflows"), errors, number("bytecodes")]
    };
    let whole = info(&[]);
    assert_eq!(whole["not_asked_bytes"], 0);
    let mut tids: Vec<u64> =
        whole["threads"].as_array().unwrap().iter().map(|t| t["tid"].as_u64().unwrap()).collect();
    tids.sort();
    tids.dedup();
    let parts = tids.iter().map(|tid| figures(&info(&["--thread", &tid.to_string()])));
    let sum = parts.reduce(|a, b| std::array::from_fn(|i| a[i] + b[i])).unwrap();
    assert_eq!(sum, figures(&whole));
    assert!(sum[0] > 100_000 && sum[1] > 10 && tids.len() > 4, "{sum:?} of {tids:?}");
}

/// Opcode, method and bci of a bytecode. Of an orphan only the opcode is known.
type Bytecode = (String, Option<(String, u64)>);

fn bytecode(event: &serde_json::Value) -> Option<Bytecode> {
    let opcode = event["opcode"].as_str()?.to_owned();
    match event["event"].as_str()? {
        "bytecode" => Some((opcode, Some((event["method"].to_string(), event["bci"].as_u64().unwrap())))),
        "orphan" => Some((opcode, None)),
        _ => None,
    }
}

/// The number of bytecodes of a cold start, all of which must be bytecodes of the whole, in order.
/// Only at a gap may others be missing. An orphan stands for one bytecode.
fn cold_is_part(cold: &[serde_json::Value], whole: &[Bytecode]) -> Result<usize, String> {
    let same =
        |(cold, whole): (&Bytecode, &Bytecode)| cold.0 == whole.0 && (cold.1.is_none() || cold.1 == whole.1);
    let runs = cold.split(|event| event["event"] == "gap");
    let runs: Vec<Vec<_>> = runs.map(|run| run.iter().filter_map(bytecode).collect()).collect();
    let (mut at, mut sum) = (0, 0);
    for (n, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
        let rest = &whole[at..];
        let is_here = |from: usize| run.iter().zip(&rest[from..]).all(same);
        let last = rest.len().checked_sub(run.len());
        let found = last.and_then(|last| match n + 1 == runs.len() {
            true => is_here(last).then_some(last),
            false => (0..=last).find(|from| is_here(*from)),
        });
        let found = found.ok_or_else(|| {
            format!("run {n} ({} bytecodes from {:?}) is not in the whole", run.len(), run[0])
        })?;
        (at, sum) = (at + found + run.len(), sum + run.len());
    }
    Ok(sum)
}

/// `--cold` leaves out the trace before `--from`, so frames are not known at first.
fn cold_starts_end_as_the_whole(recording: &RecordedRun, capture: &Path) {
    let reader = CaptureReader::open(capture).unwrap();
    let last = reader.metadata().flatten().map(|stamped| stamped.tsc).max().unwrap();
    let start = reader.header().start_tsc;
    let late = start + (last - start) / 8 * 7;
    let from = format!("tsc:{late}");
    let print = |words: &[&str]| {
        let words = [&["--format", "jsonl", "--gaps", "keep", "--from", &from], words].concat();
        recording.jportal(&["print", "--level", "bytecode"], capture, &words).unwrap().text()
    };
    let by_thread = |text: &str| {
        let mut all: BTreeMap<u64, Vec<serde_json::Value>> = BTreeMap::new();
        for line in text.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(tid) = event["tid"].as_u64().filter(|_| event["event"] != "thread") {
                all.entry(tid).or_default().push(event);
            }
        }
        all
    };
    let text = print(&["--cold", "--jobs", "1"]);
    assert!(text == print(&["--cold", "--jobs", "3"]), "a cold start depends on the number of jobs");
    let (cold, warm) = (by_thread(&text), by_thread(&print(&[])));
    let is_left_out = |event: &serde_json::Value| event["event"] == "gap" && event["reason"] == "left-out";
    let begin_in_a_gap = cold.values().filter(|events| events.first().is_some_and(is_left_out)).count();
    assert!(begin_in_a_gap >= 2, "{begin_in_a_gap} threads began before the part");
    assert!(!warm.values().flatten().any(is_left_out));
    let (mut compared, mut all) = (0, 0);
    for (tid, events) in &warm {
        let warm: Vec<_> = events.iter().filter_map(bytecode).collect();
        let cold = cold.get(tid).map_or(&[][..], |events| events);
        compared += cold_is_part(cold, &warm)
            .unwrap_or_else(|wrong| panic!("thread {tid}, of {}: {wrong}", capture.display()));
        all += warm.len();
    }
    assert!(all > 10_000 && compared > all / 4 * 3, "{compared} of {all} bytecodes");
    let refused = recording.jportal(&["print", "--cold", "--from", "event:5"], capture, &[]).unwrap();
    assert!(!refused.status.success() && refused.stderr.contains("a cold start"), "{}", refused.stderr);
}

/// `print --limit` leaves out trace. What it prints of each thread must be the beginning of what
/// is printed without a limit that matters.
fn heads_are_those_of_all_lines(recording: &RecordedRun, capture: &Path) {
    let whole = sections(recording, capture, &["--jobs", "3"]);
    let part = sections(recording, capture, &["--jobs", "3", "--limit", "30"]);
    assert_eq!(whole.len(), part.len());
    let mut limited = 0;
    for (whole, part) in whole.iter().zip(&part) {
        let head = part.split("\n... limit of 30 lines").next().unwrap_or_default().trim_end();
        assert!(whole.starts_with(head), "{head}\nis not the beginning of\n{:.4000}", whole);
        limited += usize::from(part.contains("... limit of 30 lines"));
    }
    assert!(limited >= 3, "{limited} threads have more lines than the limit");
}
