// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Damaged and malicious captures. One thing at a time is changed, and no command may crash,
//! hang, or use more memory than in proportion to the file. `jportal-mutate` makes many more
//! changes.

use jportal_tests::mutate::{Amount, Campaign, Judge, write_sample};
use jportal_tests::place::{self, installed};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::{programs, skip};

/// Each field of each record once, each change with two commands. Needs no VM.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn no_change_of_a_capture_made_by_hand_does_harm() {
    let test = "no_change_of_a_capture_made_by_hand_does_harm";
    let jportal = place::root().join("build/bin/jportal");
    if !jportal.exists() {
        return skip::skip(test, &format!("{} is missing; run scripts/setup", jportal.display()));
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("made.jportal");
    write_sample(&capture).unwrap();
    let outcome = Campaign::small(&jportal, 2).run(&capture, |failure| println!("{failure}")).unwrap();
    assert!(outcome.tried > 500, "{} changes", outcome.tried);
    assert!(outcome.failures.is_empty(), "{:#?}", outcome.failures);
}

/// Some changes of a recorded run, which exercises more of the decoder.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn some_changes_of_a_recorded_capture_do_no_harm() {
    let Some(place) = installed("some_changes_of_a_recorded_capture_do_no_harm") else { return };
    let program = programs::by_name("branches").expect("a program of that name");
    let flags = vec!["-XX:TieredStopAtLevel=1".to_owned()];
    let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let campaign = Campaign { most: 30, ..Campaign::small(&place.jportal, 1) };
    let outcome = campaign.run(&recording.capture(), |failure| println!("{failure}")).unwrap();
    assert!(outcome.failures.is_empty(), "{:#?}", outcome.failures);
}

/// Every value of each field with every command, and a thousand changes of a recorded run.
#[test]
#[ignore = "tens of minutes; scripts/verify-all"]
fn no_change_does_harm() {
    let Some(place) = installed("no_change_does_harm") else { return };
    let amount = Amount { values: 8, records: 2, chunks: 10 };
    let all = Campaign { amount, ..Campaign::small(&place.jportal, Judge::commands()) };
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made.jportal");
    write_sample(&made).unwrap();
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    for (capture, most) in [(made, 0), (recording.capture(), 1000)] {
        let campaign = Campaign { most, ..all.clone() };
        let outcome = campaign.run(&capture, |failure| println!("{failure}")).unwrap();
        println!("{} changes of {}", outcome.tried, capture.display());
        assert!(outcome.failures.is_empty(), "{} failures", outcome.failures.len());
    }
}
