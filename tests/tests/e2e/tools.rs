// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What other tools make of exports: Parquet tables read with DuckDB, timelines read with
//! Perfetto's classes, coverage with `genhtml`, static facts with `xmllint`. And the peer on the
//! examples.

use std::collections::BTreeMap;
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

/// Whether the tool starts.
fn starts(tool: &str) -> bool {
    process::run(Command::new(tool).arg("--version"), LIMIT).is_ok()
}

/// Why a script that needs these modules cannot run here.
fn missing(modules: &[&str], packages: &str) -> Option<String> {
    if !starts("python3") {
        return Some("python3 is not installed".to_owned());
    }
    let lacks = |module: &&&str| !python(&["-c", &format!("import {module}")]).status.success();
    let module = modules.iter().find(lacks)?;
    Some(format!("python3 has no module {module}; pip install {packages}"))
}

/// Perfetto's own classes read all slices of a timeline.
fn read_by_perfetto(root: &Path, trace: &Path, report: &serde_json::Value) {
    let modules = ["google.protobuf", "perfetto.protos.perfetto.trace.perfetto_trace_pb2"];
    if let Some(reason) = missing(&modules, "perfetto protobuf") {
        return skip::skip("tables_and_timelines: Perfetto", &reason);
    }
    let total = &report["report"]["total"];
    let number = |field: &str| total[field].as_u64().unwrap_or_else(|| panic!("{field}: {report}"));
    let script = root.join("tests/timelines/check.py");
    let [script, trace] = [&script, trace].map(|path| path.to_str().expect("the path is UTF-8"));
    // Gaps are slices, too.
    let slices = number("slices") + number("gaps");
    for (expected, status) in [(slices, 0), (slices + 1, 1)] {
        let checked = python(&[script, trace, "--expect", &format!("slices={expected}")]);
        let said = format!("{}{}", checked.text(), checked.stderr);
        assert_eq!(checked.status.code(), Some(status), "{expected}: {said}");
    }
}

/// Covered ones and all: lines, functions, branches.
type Covered = [(usize, usize); 3];

/// What stands in an LCOV file. Records of equal names count once.
fn lcov(text: &str) -> Covered {
    let mut all: [BTreeMap<(String, String), bool>; 3] = Default::default();
    let mut file = "";
    for record in text.lines() {
        let (kind, rest) = record.split_once(':').unwrap_or((record, ""));
        let (at, name, times) = match kind {
            "SF" => {
                file = rest;
                continue;
            }
            "DA" => (0, rest.split_once(',').map(|(line, _)| line), rest.split(',').nth(1)),
            "FNDA" => (1, rest.split_once(',').map(|(_, name)| name), rest.split(',').next()),
            "BRDA" => (2, rest.rsplit_once(',').map(|(way, _)| way), rest.rsplit(',').next()),
            _ => continue,
        };
        let (name, times) = (name.expect("a name"), times.expect("a count"));
        *all[at].entry((file.to_owned(), name.to_owned())).or_default() |= !["0", "-"].contains(&times);
    }
    all.map(|items| (items.values().filter(|covered| **covered).count(), items.len()))
}

/// The overall rates that `genhtml` prints: `lines......: 85.7% (6 of 7 lines)`.
fn rates(text: &str) -> Covered {
    let rate = |what: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{what}.")));
        let numbers = line.and_then(|line| line.split_once('(')).expect(text).1;
        let number = |at| numbers.split(' ').nth(at).and_then(|n| n.parse().ok()).expect(text);
        (number(0), number(2))
    };
    ["lines", "functions", "branches"].map(rate)
}

/// `genhtml` reads coverage, with the sources.
fn read_by_genhtml(to: &Path, info: &Path) {
    if !starts("genhtml") {
        return skip::skip("tables_and_timelines: genhtml", "genhtml is missing; install lcov");
    }
    let text = std::fs::read_to_string(info).expect("the export");
    let shown = |info: &Path| {
        let mut genhtml = Command::new("genhtml");
        genhtml.args(["--branch-coverage", "--output-directory"]).args([to, info]);
        process::run(&mut genhtml, LIMIT).expect("genhtml starts")
    };
    let finished = shown(info);
    let said = format!("{}{}", finished.text(), finished.stderr);
    assert!(finished.status.success() && !said.contains("WARNING"), "{said}");
    let expected = lcov(&text);
    assert!(expected.iter().all(|(covered, all)| 0 < *covered && covered <= all), "{expected:?}");
    assert_eq!(rates(&finished.text()), expected, "{said}");
    let without = info.with_extension("without");
    let records: Vec<&str> = text.lines().filter(|record| *record != "end_of_record").collect();
    std::fs::write(&without, records.join("\n")).expect("the changed export");
    let finished = shown(&without);
    assert!(!finished.status.success() || rates(&finished.text()) != expected, "a damaged file is seen");
}

/// `xmllint` finds that static facts follow their schema.
fn validated_by_xmllint(folder: &Path) {
    if !starts("xmllint") {
        return skip::skip("tables_and_timelines: xmllint", "xmllint is missing; install libxml2-utils");
    }
    let xml = folder.join("static.xml");
    let validated = || {
        let mut xmllint = Command::new("xmllint");
        xmllint.args(["--noout", "--schema"]).args([&folder.join("static.xsd"), &xml]);
        process::run(&mut xmllint, LIMIT).expect("xmllint starts")
    };
    let finished = validated();
    assert!(finished.status.success(), "{}{}", finished.text(), finished.stderr);
    let text = std::fs::read_to_string(&xml).expect("the export");
    std::fs::write(&xml, text.replacen(" descriptor=", " signature=", 1)).expect("the changed export");
    let finished = validated();
    assert!(!finished.status.success() && finished.stderr.contains("signature"), "{}", finished.stderr);
}

/// The exports of one capture, as other tools read them. A timeline of some classes says what it
/// leaves out. What DuckDB and pyarrow read from tables agrees.
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

    let trace = recording.file("pftrace");
    let report = export("perfetto", &trace, &["--min", "0"]);
    read_by_perfetto(&place.root, &trace, &report);
    let (sources, info) = (place.root.join("tests/programs/src/"), recording.file("info"));
    let prefix = sources.to_str().expect("the path is UTF-8");
    export("lcov", &info, &["--prefix", prefix, "--class", "programs"]);
    read_by_genhtml(&recording.file("html"), &info);
    let facts = recording.file("facts");
    export("static", &facts, &[]);
    validated_by_xmllint(&facts);

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

    if let Some(reason) = missing(&["duckdb", "pyarrow"], "duckdb pyarrow") {
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
