// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal diff` as a gate for CI, on a real program.

use std::path::PathBuf;

use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use serde_json::Value;

/// Flags that make two runs of H2 the same: hash codes from a counter, and no cache that depends on
/// the free memory.
const H2: [&str; 3] = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-Dh2.objectCache=false"];

/// The call trees of H2 are exact, and the same in two tiered runs and in an interpreted one. One
/// bytecode more is a difference.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn h2_passes_its_own_gate() {
    let Some(place) = place::installed("h2_passes_its_own_gate") else { return };
    let program = programs::by_name("h2").unwrap();
    let tree = |mode: EngineMode| -> (RecordedRun, PathBuf, Value) {
        let plan = Plan {
            oracle: false,
            run: vec!["--reproducible".to_owned()],
            flags: H2.map(str::to_owned).into(),
            ..Plan::new(mode)
        };
        let recording = RecordedRun::make(&place, &program, &plan).unwrap();
        let words = ["--classes", "app", "--thread", "main", "--stable-names", "--json"];
        let report = recording.jportal(&["report", "call-tree"], &recording.capture(), &words).unwrap();
        let (path, text) = (recording.file("tree.json"), report.text());
        std::fs::write(&path, &text).unwrap();
        (recording, path, serde_json::from_str(&text).unwrap())
    };
    let diff = |(recording, before, _): &(RecordedRun, PathBuf, Value), after: &PathBuf| {
        let finished = recording.jportal(&["diff"], before, &[after.to_str().unwrap()]).unwrap();
        (finished.status.code(), format!("{}{}", finished.text(), finished.stderr))
    };
    let first = tree(EngineMode::Tiered);
    assert_eq!(first.2["exact"], true, "{}", first.2["inexact"]);
    let nodes = first.2["nodes"].as_array().unwrap().len();
    assert!(nodes > 5_000, "{nodes} nodes are too few for H2");
    for mode in [EngineMode::Tiered, EngineMode::Interpreter] {
        let again = tree(mode);
        let (status, text) = diff(&first, &again.1);
        assert_eq!(status, Some(0), "{mode:?}: {text}");
    }
    let mut changed = first.2.clone();
    let count = &mut changed["nodes"][nodes / 2]["bytecodes"]["decoded"];
    *count = (count.as_u64().unwrap() + 1).into();
    let planted = first.0.file("planted.json");
    std::fs::write(&planted, changed.to_string()).unwrap();
    let (status, text) = diff(&first, &planted);
    assert!(status == Some(1) && text.contains("1 difference"), "{status:?}: {text}");
}
