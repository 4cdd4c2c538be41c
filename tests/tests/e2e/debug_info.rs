// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal validate debug-info` on a real VM, and on copies of a capture in which debug info is
//! wrong.

use std::collections::BTreeSet;
use std::path::Path;

use jportal_tests::fault::{self, Fault};
use jportal_tests::place;
use jportal_tests::process;
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use serde_json::Value;

/// A kind of fault by the place, and the verdicts with which it may be found.
type PlantedKind = (fn(usize) -> Fault, &'static [&'static str]);

/// A place in compiled code and the verdict on it.
type Wrong = (u64, u64, String);

fn validated(recording: &RecordedRun, capture: &Path) -> Value {
    let arguments = ["--json", "--findings", "100000"];
    let finished = recording.jportal(&["validate", "debug-info"], capture, &arguments).unwrap();
    let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
    let clean = report["found"] == 0;
    assert_eq!(finished.status.code(), Some(i32::from(!clean)), "{}", finished.stderr);
    report
}

fn wrong(report: &Value) -> BTreeSet<Wrong> {
    let place = |f: &Value| {
        let number = |name: &str| f[name].as_u64().unwrap();
        (number("compile_id"), number("offset"), f["verdict"].as_str().unwrap().to_owned())
    };
    report["findings"].as_array().unwrap().iter().map(place).collect()
}

/// The number after `before` in `text`.
fn number_after(text: &str, before: &str) -> u64 {
    let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no {before} in {text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after {before} in {text}"))
}

/// Plants faults of a kind, spread over its places, until `wanted` were found. Panics if a copy
/// has a finding that is neither the fault's nor the untouched capture's.
fn found(
    recording: &RecordedRun,
    clean: &BTreeSet<Wrong>,
    kind: fn(usize) -> Fault,
    wanted: usize,
) -> Vec<String> {
    const TRIES: usize = 400;
    let places = fault::count_places(&recording.capture(), kind).unwrap();
    let mut verdicts = Vec::new();
    let copy = recording.file("faulty.jportal");
    for i in 0..TRIES.min(places) {
        if verdicts.len() == wanted {
            break;
        }
        let change =
            fault::plant(&recording.capture(), &copy, &kind(places * i / TRIES.min(places))).unwrap();
        let (id, offset) = (number_after(&change, "compile id "), number_after(&change, "+"));
        let report = validated(recording, &copy);
        let new: Vec<Wrong> = wrong(&report).difference(clean).cloned().collect();
        println!("{change}: {new:?}");
        for (at, there, verdict) in new {
            assert_eq!((at, there), (id, offset), "{change}: {verdict} elsewhere");
            verdicts.push(verdict);
        }
    }
    std::fs::remove_file(&copy).unwrap();
    verdicts
}

/// Each kind of fault is found at its place, with its verdict.
#[test]
#[ignore = "slow: validates a copy of the capture for each of some hundred places"]
fn wrong_debug_info_is_found() {
    let Some(place) = place::installed("wrong_debug_info_is_found") else { return };
    let classes = tempfile::tempdir().expect("a folder");
    let source = place.root.join("tests/tests/e2e/java/Traps.java");
    let mut javac = std::process::Command::new(place.java.with_file_name("javac"));
    let made = process::run(javac.arg("-g").arg("-d").arg(classes.path()).arg(source), LIMIT);
    assert!(made.expect("javac runs").status.success(), "Traps.java does not compile");
    // Faults at places that never ran are not found. Few of a kind ran in one of the modes.
    let mut finds = [0; 4];
    for tiered in ["-XX:+TieredCompilation", "-XX:-TieredCompilation"] {
        let flags = ["-Xbatch", "-XX:CompileThresholdScaling=0.05", tiered];
        let flags = flags.map(str::to_owned).to_vec();
        let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
        let arguments = ["-cp".to_owned(), classes.path().display().to_string(), "programs.Traps".to_owned()];
        let recording = RecordedRun::command(&place, &arguments, &plan).expect("the program can be recorded");
        let report = validated(&recording, &recording.capture());
        println!("{tiered}: {}", report["verdicts"]);
        let counted = |verdict: &str| report["verdicts"][verdict]["places"].as_u64().unwrap_or(0);
        assert!(counted("right") > 10, "{}", report["verdicts"]);
        assert!(report["samples"]["C2"]["right"].as_u64().unwrap() > 1000, "{}", report["samples"]);
        let clean = wrong(&report);
        let all = |kind, wanted| found(&recording, &clean, kind, wanted);
        let kinds: [PlantedKind; 4] = [
            (|n| Fault::DropPosition { n }, &["missing"]),
            (|n| Fault::FlipReexecute { n }, &["wrong-reexecute"]),
            (|n| Fault::ShiftScope { n }, &["wrong-bci", "wrong-block", "wrong-chain", "wrong-method"]),
            (|n| Fault::DropFrame { n }, &["wrong-chain"]),
        ];
        for (found, (kind, expected)) in finds.iter_mut().zip(kinds) {
            let verdicts = all(kind, 2);
            assert!(verdicts.iter().all(|v| expected.contains(&&v[..])), "{verdicts:?}, not {expected:?}");
            *found += verdicts.len();
        }
    }
    assert!(finds.iter().all(|n| *n > 0), "{finds:?}");
}
