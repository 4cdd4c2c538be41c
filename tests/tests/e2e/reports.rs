// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reports on flows with unknown parts, and on captures with malicious names.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use jportal_tests::fault::{self, Fault};
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};

/// Compiles `java/NAME.java` and records it.
fn record(place: &Installation, name: &str, plan: &Plan) -> RecordedRun {
    let classes = tempfile::tempdir().expect("a folder");
    let source = place.root.join(format!("tests/tests/e2e/java/{name}.java"));
    let mut javac = std::process::Command::new(place.java.with_file_name("javac"));
    let made = process::run(javac.arg("-g").arg("-d").arg(classes.path()).arg(source), LIMIT);
    assert!(made.expect("javac runs").status.success(), "{name}.java does not compile");
    let arguments = ["-cp".to_owned(), classes.path().display().to_string(), format!("programs.{name}")];
    RecordedRun::command(place, &arguments, plan).expect("the program can be recorded")
}

fn report(recording: &RecordedRun, capture: &Path, arguments: &[&str]) -> Value {
    let finished = recording.jportal(&[&["report"], arguments, &["--json"]].concat(), capture, &[]).unwrap();
    assert!(finished.status.success(), "{}", finished.stderr);
    finished.json().unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// The number of executed items, over all provenances.
fn seen(tally: &Value) -> u64 {
    tally.as_object().unwrap().values().map(number).sum()
}

/// Checks that the row's bounds on calls or bytecodes (`of`) contain `truth`.
fn within(row: &Value, of: &str, truth: u64) {
    let least = seen(&row[of]);
    let bounds = &row["missing"][of];
    let min = bounds["min"].as_u64().unwrap_or(0);
    let most = match &row["missing"] {
        Value::Null => Some(least),
        _ => bounds["max"].as_u64().map(|max| least + max),
    };
    assert!(least + min <= truth && most.is_none_or(|most| truth <= most), "{truth} {of}: {row}");
    assert_eq!(row["exact"], row["missing"].is_null(), "{row}");
}

/// Bounds must contain the truth. A line that ran is not missed, and one that did not run is, in
/// any tier.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn unknown_is_neither_executed_nor_missed() {
    let Some(place) = place::installed("unknown_is_neither_executed_nor_missed") else { return };
    let batch = ["-Xbatch", "-XX:CompileThresholdScaling=0.05"];
    let engines: [(&str, EngineMode, &[&str]); 4] = [
        ("interpreter", EngineMode::Interpreter, &[]),
        ("C1", EngineMode::Tiered, &["-XX:TieredStopAtLevel=1"]),
        ("C2", EngineMode::Tiered, &["-XX:-TieredCompilation"]),
        ("exact C2", EngineMode::Tiered, &["-XX:-TieredCompilation", "-XX:JPortalPrecision=exact"]),
    ];
    for (engine, mode, flags) in engines {
        let flags = batch.iter().chain(flags).map(ToString::to_string).collect();
        let recording = record(&place, "Unknown", &Plan { oracle: false, flags, ..Plan::new(mode) });
        let output = recording.program.text();
        assert!(output.contains("late 99 nothing 11400 "), "{engine}: {output}");
        let capture = recording.capture();

        let hot = report(&recording, &capture, &["hot-methods", "--top", "100000", "--class", "programs."]);
        let row = |name: &str| {
            let name = format!("programs.Unknown.{name}(");
            let rows = hot["methods"].as_array().unwrap();
            rows.iter().find(|m| m["method"].as_str().unwrap().starts_with(&name)).unwrap().clone()
        };
        for (name, calls) in [("late", 2100), ("larger", 2100), ("nothing", 11_400), ("nested", 1200)] {
            within(&row(name), "calls", calls);
        }
        within(&row("nothing"), "bytecodes", 11_400);
        // The arm with the constant 7 ends in a goto.
        within(&row("late"), "bytecodes", 5 * 2001 + 6 * 99);
        let calls = report(&recording, &capture, &["calls", "--top", "100000", "--class", "programs."]);
        for (callee, truth) in [("nothing", 11_400), ("late", 2100)] {
            let callee = format!("programs.Unknown.{callee}(");
            let edges = calls["calls"].as_array().unwrap().iter();
            let edges = edges.filter(|c| c["callee"].as_str().unwrap().starts_with(&callee));
            let (mut least, mut most) = (0, Some(0));
            for c in edges {
                least += seen(&c["count"]);
                let max =
                    if c["missing"].is_null() { Some(0) } else { c["missing"]["calls"]["max"].as_u64() };
                most = most.zip(max).map(|(a, b)| a + b + seen(&c["count"]));
            }
            assert!(least <= truth && most.is_none_or(|most| truth <= most), "{engine}: {least} to {most:?}");
        }

        let coverage = report(&recording, &capture, &["coverage"]);
        let class = coverage["classes"].as_array().unwrap();
        let class = class.iter().find(|c| c["class"] == "programs.Unknown").unwrap();
        let (mut missed, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for m in class["methods"].as_array().unwrap() {
            let lines = |of: &str| -> Vec<u64> { m[of].as_array().unwrap().iter().map(number).collect() };
            let own = m["name"].as_str().unwrap().starts_with("never(");
            if !own && m["name"] != "<init>()V" {
                missed.extend(lines("missed_lines"));
            }
            unknown.extend(lines("unknown_lines"));
            for of in ["bytecodes", "lines", "branches"] {
                let f = &m[of];
                assert_eq!(seen(&f["executed"]) + number(&f["unknown"]), number(&f["at_most"]), "{f}");
                assert!(number(&f["at_most"]) <= number(&f["present"]), "{f}");
            }
            if own {
                assert_eq!((number(&m["lines"]["at_most"]), lines("missed_lines").len()), (0, 2), "{m}");
            }
            if m["name"].as_str().unwrap().starts_with("late(") {
                let branches = &m["branches"];
                let ways = (seen(&branches["executed"]), number(&branches["at_most"]));
                assert!(ways.0 <= 2 && ways.1 == 2, "{engine}: {m}");
            }
        }
        // `arguments.length > 7` is never true.
        assert_eq!(missed.into_iter().collect::<Vec<_>>(), [57], "{engine}");
        let exact = engine == "interpreter" || engine == "exact C2";
        assert_eq!((unknown.is_empty() || !exact, &coverage["missed_is_certain"]), (true, &true.into()));
        assert!(!exact || class["branches"]["unknown"] == 0, "{engine}: {class}");
        if engine == "C1" {
            assert!(unknown.contains(&9), "the way that ran late: {unknown:?}");
            let text = recording.jportal(&["report", "coverage"], &capture, &[]).unwrap().text();
            assert!(text.contains("–") && text.contains("are unknown, neither executed"), "{text}");
        }
        if engine == "C2" {
            let text = recording.jportal(&["report", "hot-methods"], &capture, &["--class", "programs."]);
            let text = text.unwrap().text();
            let nothing = text.lines().find(|l| l.contains("Unknown.nothing(")).unwrap();
            assert!(nothing.contains('≥'), "{text}");
        }
    }
}

/// The commands that print text.
const TEXTS: [&[&str]; 8] = [
    &["print", "--limit", "3000"],
    &["print", "--level", "bytecode", "--limit", "3000"],
    &["info"],
    &["info", "--check"],
    &["report", "coverage", "--methods"],
    &["report", "coverage", "--classes", "all"],
    &["report", "hot-methods", "--top", "3000"],
    &["report", "calls", "--top", "3000"],
];

/// Names of classes, methods and threads with line feeds and escape sequences, names of the
/// greatest length, and methods without a class. Each command must print as many lines as with
/// the original names, and nothing that a terminal obeys.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn names_forge_no_lines() {
    let Some(place) = place::installed("names_forge_no_lines") else { return };
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).expect("the program can be recorded");
    let capture = recording.capture();
    let lines = |capture: &Path, command: &[&str]| {
        let finished = recording.jportal(command, capture, &[]).unwrap();
        let status = finished.status.code();
        assert!(matches!(status, Some(0 | 1)), "{command:?}: {status:?} {}", finished.stderr);
        let obeyed = |c: char| c != '\n' && (c.is_control() || ('\u{2066}'..='\u{2069}').contains(&c));
        let text = finished.text();
        assert!(!text.contains(obeyed), "{command:?}: {:?}", text.lines().find(|l| l.contains(obeyed)));
        assert!(!text.contains("\nthread \"fake\""), "{command:?}");
        text.lines().count()
    };
    let before: Vec<usize> = TEXTS.iter().map(|command| lines(&capture, command)).collect();
    for fault in [Fault::StrangeNames, Fault::LongNames, Fault::NoClass] {
        let copy = recording.file("strange.jportal");
        println!("{}", fault::plant(&capture, &copy, &fault).unwrap());
        let after: Vec<usize> = TEXTS.iter().map(|command| lines(&copy, command)).collect();
        // Methods without a class count as methods of one class, and `info` counts their records
        // among those that contradict others.
        let (after, expected) = match fault {
            Fault::NoClass => (after[..4].to_vec(), vec![before[0], before[1], before[2] + 1, before[3] + 1]),
            _ => (after, before.clone()),
        };
        assert_eq!(after, expected, "{fault:?}");
        std::fs::remove_file(&copy).unwrap();
    }
}

/// If all times of a capture are doubled, nothing can be decoded. No event is wrong, but the
/// check must fail all the same.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_check_of_nothing_fails() {
    let Some(place) = place::installed("a_check_of_nothing_fails") else { return };
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    let recording = RecordedRun::make(&place, &program, &plan).expect("the program can be recorded");
    let check = |capture: &Path| recording.jportal(&["info", "--check"], capture, &[]).unwrap();
    let good = check(&recording.capture());
    assert_eq!((good.status.code(), good.text().contains("\nfailed ")), (Some(0), false), "{}", good.text());
    let copy = recording.file("late.jportal");
    fault::plant(&recording.capture(), &copy, &Fault::DoubleTimes).unwrap();
    let late = check(&copy);
    let text = late.text();
    assert_eq!(late.status.code(), Some(1), "{text}");
    assert!(text.contains("\nfailed ") && text.contains("of the machine flow"), "{text}");
}
