// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `report jit` beside HotSpot's own log of its compilers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use jportal_tests::fault::{self, Fault};
use jportal_tests::place;
use jportal_tests::process;
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};

/// Compile id and whether it is one for on-stack replacement.
type LogId = (u64, bool);

/// Compilation, innermost method and bci, reason.
type Trap = (LogId, String, i64, String);

/// What the lines of a log say.
#[derive(Debug, Default, PartialEq)]
struct LogLines {
    /// With their levels.
    nmethods: BTreeMap<LogId, u64>,
    not_entrant: BTreeSet<LogId>,
    traps: BTreeMap<Trap, u64>,
}

/// The value of an attribute in a line.
fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let rest = line.split_once(&format!(" {name}='"))?.1;
    rest.split('\'').next()
}

fn id(line: &str) -> LogId {
    let number = attribute(line, "compile_id").and_then(|id| id.parse().ok());
    (
        number.unwrap_or_else(|| panic!("no compile id: {line}")),
        attribute(line, "compile_kind") == Some("osr"),
    )
}

/// `class.name(descriptor)` of `class name descriptor`.
fn method(line: &str) -> String {
    let text = attribute(line, "method").unwrap_or_else(|| panic!("no method: {line}"));
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let parts: Vec<&str> = text.splitn(3, ' ').collect();
    format!("{}.{}{}", parts[0].replace("/0x", "+0x"), parts[1], parts[2])
}

/// Reads the log line by line, without the library that the command uses.
fn lines(log: &str) -> LogLines {
    let mut all = LogLines::default();
    let mut trap = None;
    for line in log.lines() {
        if line.starts_with("<nmethod ") {
            all.nmethods.insert(id(line), attribute(line, "level").unwrap().parse().unwrap());
        } else if line.starts_with("<make_not_entrant ") {
            all.not_entrant.insert(id(line));
        } else if line.starts_with("<uncommon_trap thread=") {
            trap = Some((id(line), attribute(line, "reason").unwrap().to_owned()));
        } else if line.starts_with("<jvms ")
            && let Some((id, reason)) = trap.take()
        {
            let reason = reason.split("_or_").next().unwrap().to_owned();
            let bci = attribute(line, "bci").unwrap().parse().unwrap();
            *all.traps.entry((id, method(line), bci, reason)).or_default() += 1;
        }
    }
    all
}

/// The same by the report.
fn reported(report: &Value) -> LogLines {
    let mut all = LogLines::default();
    let number = |v: &Value| v.as_u64().unwrap_or_else(|| panic!("a number: {v}"));
    for n in report["nmethods"].as_array().unwrap() {
        let id = (number(&n["compile_id"]), !n["osr_bci"].is_null());
        all.nmethods.insert(id, number(&n["level"]));
        if !n["not_entrant_ms"].is_null() {
            all.not_entrant.insert(id);
        }
    }
    for d in report["deoptimisations"].as_array().unwrap() {
        if d["kind"] != "uncommon-trap" {
            continue;
        }
        let id = (number(&d["compile_id"]), d["osr"] == true);
        let reason = d["reason"].as_str().unwrap_or("unknown").to_owned();
        let bci = d["bci"].as_i64().unwrap_or(-1);
        *all.traps.entry((id, d["method"].as_str().unwrap().to_owned(), bci, reason)).or_default() +=
            number(&d["times"]);
    }
    all
}

/// Compilations, levels, states and traps are those of the log of the same run. A record that is
/// missing in a capture is noticed.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn decisions_are_those_of_hotspots_log() {
    let Some(place) = place::installed("decisions_are_those_of_hotspots_log") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let source = place.root.join("tests/tests/e2e/java/Compiled.java");
    let mut javac = std::process::Command::new(place.java.with_file_name("javac"));
    let made = process::run(javac.arg("-g").arg("-d").arg(folder.path()).arg(source), LIMIT);
    assert!(made.expect("javac runs").status.success(), "Compiled.java does not compile");
    let log = folder.path().join("log.xml");
    let mut flags =
        ["-Xbatch", "-XX:+UnlockDiagnosticVMOptions", "-XX:+LogCompilation"].map(str::to_owned).to_vec();
    flags.push(format!("-XX:LogFile={}", log.display()));
    let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let arguments = ["-cp".to_owned(), folder.path().display().to_string(), "programs.Compiled".to_owned()];
    let recording = RecordedRun::command(&place, &arguments, &plan).expect("the program can be recorded");
    assert!(recording.program.text().contains("compiled "), "{}", recording.program.text());
    let capture = recording.capture();
    let report = |capture: &std::path::Path, more: &[&str]| -> Value {
        let arguments = [&["report", "jit", "--top", "1000000", "--json"], more].concat();
        let finished = recording.jportal(&arguments, capture, &[]).unwrap();
        assert!(finished.status.success(), "{}", finished.stderr);
        finished.json().unwrap()
    };

    let by_log = lines(&std::fs::read_to_string(&log).expect("the VM wrote a log"));
    let all = report(&capture, &[]);
    let by_us = reported(&all);
    assert_eq!(by_us, by_log);
    assert!(by_log.nmethods.keys().any(|id| id.1), "no OSR: {by_log:?}");
    assert!(by_log.traps.keys().any(|t| t.3 == "unstable_if"), "no branch flipped: {by_log:?}");
    assert!(by_log.not_entrant.len() > 3, "{by_log:?}");

    // What really ran at the polymorphic site, worked out by hand.
    let sites = all["sites"].as_array().unwrap();
    let site = sites.iter().find(|s| {
        s["caller"].as_str().unwrap().starts_with("programs.Compiled.area(")
            && s["opcode"] == "invokeinterface"
    });
    let site = site.expect("the site of area()");
    let calls = |class: &str| {
        let name = format!("programs.Compiled${class}.area(I)I");
        let target = site["targets"].as_array().unwrap().iter().find(|t| t["method"] == name.as_str());
        let tally = &target.unwrap_or_else(|| panic!("{class}: {site}"))["calls"];
        tally.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((calls("Square"), calls("Line"), calls("Cube")), (8000 + 4000, 2000, 2000));

    // The command's own comparison agrees, and finds a record that is missing.
    let with = ["--log-compilation", log.to_str().unwrap()];
    let join = &report(&capture, &with)["log"];
    let differences = |join: &Value| {
        let number = |of: &str| join[of].as_u64().unwrap();
        (
            number("all_log_only"),
            number("all_recording_only"),
            join["not_entrant_differs"].as_array().unwrap().len(),
        )
    };
    assert_eq!(
        (differences(join), &join["all_traps_differ"], &join["broken"]),
        ((0, 0, 0), &0.into(), &Value::Null)
    );
    // The debug info of the same code is right where control came.
    let judged = recording.jportal(&["validate", "debug-info"], &capture, &["--json"]).unwrap();
    let judged = judged.json().unwrap_or_else(|e| panic!("{e}: {}", judged.stderr));
    assert_eq!(judged["found"], 0, "{}", judged["findings"]);
    assert!(judged["verdicts"]["right"]["places"].as_u64().unwrap() > 20, "{}", judged["verdicts"]);

    let (no_nmethod, no_state) = (recording.file("no-nmethod.jportal"), recording.file("no-state.jportal"));
    fault::plant(&capture, &no_nmethod, &Fault::DropNMethod { n: 0 }).unwrap();
    assert_eq!(differences(&report(&no_nmethod, &with)["log"]).0, 1);
    assert_ne!(reported(&report(&no_nmethod, &[])).nmethods, by_log.nmethods);
    fault::plant(&capture, &no_state, &Fault::DropState { n: 0 }).unwrap();
    assert_eq!(differences(&report(&no_state, &with)["log"]).2, 1);
    assert_ne!(reported(&report(&no_state, &[])).not_entrant, by_log.not_entrant);
}
