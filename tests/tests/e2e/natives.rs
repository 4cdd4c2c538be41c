// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report natives` against JVMTI: an agent counts the calls of native methods by the
//! events MethodEntry of the same run. Compared are calls by methods of the application. They
//! begin after VMInit, with which the events begin.

use std::collections::BTreeMap;

use serde_json::Value;

use jportal_tests::figures::figure;
use jportal_tests::place;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::scratch::Scratch;
use jportal_tests::{programs, skip};

use crate::counted::{ALL, Counts, Skipped, differences, list, sum, table, text};

/// Calls by native method and calling method. Callers in hidden classes are left out.
fn flow(report: &Value) -> Counts {
    let mut counts = Counts::new();
    for row in list(report, "rows") {
        for caller in list(row, "callers") {
            let (native, by) = (text(row, "method"), text(caller, "caller"));
            if !Skipped::default().leaves_out(by) {
                *counts.entry(format!("{native} by {by}")).or_default() += sum(&caller["calls"]);
            }
        }
    }
    counts.retain(|_, calls| *calls > 0);
    counts
}

fn events(rows: &[BTreeMap<String, String>]) -> Counts {
    let by_application = rows.iter().filter(|row| row["application"] == "1");
    let visible = by_application.filter(|row| !Skipped::default().leaves_out(&row["caller"]));
    let mut counts = Counts::new();
    for row in visible {
        let calls: u64 = row["calls"].parse().unwrap();
        *counts.entry(format!("{} by {}", row["native"], row["caller"])).or_default() += calls;
    }
    counts
}

/// Compares a run of `arguments`; `least` methods and callers must be there.
fn check(
    test: &str,
    arguments: impl Fn(&place::Installation) -> Vec<String>,
    least: usize,
) -> Option<Counts> {
    let place = place::installed(test)?;
    let agent = place.programs.join("libjportal_natives.so");
    if !agent.exists() {
        skip::skip(test, &format!("{} is missing; run tests/programs/build.sh", agent.display()));
        return None;
    }
    let scratch = Scratch::new().unwrap();
    let counted = scratch.path().join("natives.tsv");
    let flags = vec![format!("-agentpath:{}={}", agent.display(), counted.display())];
    let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::command(&place, &arguments(&place), &plan).unwrap();
    assert!(recording.program.status.success(), "{}", recording.program.stderr);
    let scope = ["--classes", "app", "--json", "--top", ALL];
    let report = recording.jportal(&["report", "natives"], &recording.capture(), &scope).unwrap();
    assert!(report.status.success(), "{}", report.stderr);
    let ours = flow(&report.json().unwrap());
    let mut theirs = events(&table(&counted, '\t'));
    let found = differences(&ours, &theirs);
    if !found.is_empty() {
        panic!("{test}: {found:#?}; the capture is in {}", recording.keep().display());
    }
    assert!(ours.len() >= least, "{test}: only {ours:?}");
    figure(&format!("natives\t{test}\tequal {}\tcalls {}", ours.len(), ours.values().sum::<u64>()));
    *theirs.values_mut().next().expect("a native method is called") -= 1;
    assert_eq!(differences(&ours, &theirs).len(), 1, "a missing call is not seen");
    Some(ours)
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn e5() {
    let nat = |place: &place::Installation| {
        let classes = place.programs.join("examples.jar").display().to_string();
        vec!["-cp".to_owned(), classes, "Nat".to_owned()]
    };
    if let Some(calls) = check("E5", nat, 1) {
        let free_memory = "java.lang.Runtime.freeMemory()J by Nat.main([Ljava/lang/String;)V";
        assert_eq!(calls, Counts::from([(free_memory.to_owned(), 5)]));
    }
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn h2() {
    let program = programs::by_name("h2").expect("a program of that name").with_small(&["5"]);
    if let Some(missing) = program.missing() {
        return skip::skip("natives of h2", &missing);
    }
    check("h2", |place| program.command(&place.root, &place.programs, programs::Size::Small), 10);
}
