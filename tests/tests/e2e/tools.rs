// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Checks that stand in scripts: the peer on the examples, and Parquet tables read with DuckDB.

use std::path::Path;
use std::process::Command;

use jportal_tests::process::{self, Finished};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::{place, programs, skip};

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn peer() {
    let Some(place) = place::installed("peer") else { return };
    let jar = place.root.join("build/peer/jportal-peer.jar");
    if !jar.exists() {
        return skip::skip("peer", &format!("{} is missing; run tests/peer/build.sh", jar.display()));
    }
    let script = place.root.join("tests/peer/check.sh");
    let finished = process::run(&mut Command::new(script), LIMIT).expect("the script starts");
    assert!(finished.status.success(), "{}{}", finished.text(), finished.stderr);
}

fn python(arguments: &[&str]) -> Finished {
    process::run(Command::new("python3").args(arguments), LIMIT).expect("python3 starts")
}

/// Why tables cannot be checked here.
fn missing() -> Option<String> {
    let modules = ["duckdb", "pyarrow"];
    if process::run(Command::new("python3").arg("--version"), LIMIT).is_err() {
        return Some("python3 is not installed".to_owned());
    }
    let lacks = |module: &&&str| !python(&["-c", &format!("import {module}")]).status.success();
    let module = modules.iter().find(lacks)?;
    Some(format!("python3 has no module {module}; pip install {}", modules.join(" ")))
}

/// The exports of one capture: what DuckDB and pyarrow read from tables agrees, and a timeline of
/// some classes says what it leaves out.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn tables_and_timelines() {
    let Some(place) = place::installed("tables_and_timelines") else { return };
    let program = programs::by_name("calls").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).expect("the program can be recorded");
    let export = |format: &str, to: &Path, more: &[&str]| {
        let to = to.to_str().expect("the path is UTF-8");
        let command = ["export", format, "--json", "-o", to];
        let finished = recording.jportal(&command, &recording.capture(), more).expect("the command runs");
        assert!(finished.status.success(), "{format}: {}", finished.stderr);
        finished.json().expect("JSON")
    };

    for format in ["perfetto", "firefox"] {
        let shown = |more: &[&str]| {
            let report = export(format, &recording.file(format), &[&["--min", "0"], more].concat());
            let total = &report["report"]["total"];
            let number = |field: &str| total[field].as_u64().unwrap_or_else(|| panic!("{field}: {report}"));
            (number("slices") + number("short") + number("deep"), number("outside"))
        };
        let ((all, none), (some, outside)) = (shown(&[]), shown(&["--class", "programs"]));
        assert!(none == 0 && some > 0 && outside > 0, "{format}: {all}, {none}, {some}, {outside}");
        assert_eq!(some + outside, all, "{format}");
    }

    if let Some(reason) = missing() {
        return skip::skip("tables_and_timelines: tables", &reason);
    }
    let folder = recording.file("tables");
    export("parquet", &folder, &["--events"]);
    let script = place.root.join("tests/data-sets/check.py");
    let check = |more: &[&str]| {
        let paths = [script.to_str(), folder.to_str()].map(|path| path.expect("the path is UTF-8"));
        python(&[&paths, more].concat())
    };
    let checked = check(&[]);
    let text = checked.text();
    assert!(checked.status.success(), "{text}{}", checked.stderr);
    assert!(text.contains("  DestroyJavaVM  java.lang."), "{text}");
    for table in ["methods", "threads", "calls", "blocks", "events"] {
        assert!(text.contains(&format!("{table}: ")), "{table} was not read: {text}");
    }
    // A wrong number of rows, and a part of the events that is missing, must be seen.
    let wrong = check(&["--expect", "methods=1"]);
    assert_eq!(wrong.status.code(), Some(1), "{}{}", wrong.text(), wrong.stderr);
    let events = std::fs::read_dir(folder.join("events")).expect("the folder of events");
    let one = events.map(|entry| entry.expect("an entry").path()).min().expect("a thread");
    std::fs::remove_dir_all(one).expect("the events of a thread can be removed");
    let partial = check(&[]);
    assert_eq!(partial.status.code(), Some(1), "{}{}", partial.text(), partial.stderr);
}
