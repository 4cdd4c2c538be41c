// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Checks path markers against the bytecode, without a trace: no marker may be where no run can
//! reach it.

use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use jportal_tests::programs::{self, Size};
use jportal_tests::recording::LIMIT;
use jportal_tests::{Result, place, process};
use std::path::Path;
use std::process::Command;

/// Flags that make C2 compile much code in little time.
const C2_EARLY: &[&str] = &["-Xbatch", "-XX:-TieredCompilation", "-XX:CompileThresholdScaling=0.05"];

/// Flags that make C2 process nodes in an order that depends on a seed, so that folds meet graphs
/// that they rarely meet otherwise.
const ANY_ORDER: &[&str] = &["-XX:+UnlockDiagnosticVMOptions", "-XX:+StressIGVN", "-XX:+StressCCP"];

/// The implausible steps of a capture as text, and the number of nmethods with markers.
fn implausible(capture: &Path) -> Result<(Vec<String>, usize)> {
    let reader = CaptureReader::open(capture)?;
    let recording = Recording::open(reader)?;
    let image = recording.image();
    let code = |id| image.code(id).and_then(|v| v.nmethod());
    let name = |id| code(id).and_then(|n| n.method).and_then(|m| image.table().get(m));
    let steps = recording.implausible_steps();
    let steps = steps.iter().map(|s| {
        let method = name(s.code).map_or_else(|| "?".to_owned(), |m| m.qualified_name());
        format!("{method}: {s:?}")
    });
    let marked = image.codes().iter().filter(|v| v.nmethod().is_some_and(|n| n.markers.is_some()));
    Ok((steps.collect(), marked.count()))
}

/// Runs the program without a PT trace, and checks the markers of its code.
fn check(test: &str, name: &str, flags: &[&str]) {
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name(name).expect("a program of that name");
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("markers.jportal");
    let mut command = Command::new(&place.java);
    command.args(["-XX:+JPortal", "-XX:JPortalSource=none"]);
    command.arg(format!("-XX:JPortalFile={}", capture.display())).args(flags);
    command.args(program.command(&place.root, &place.programs, Size::Small));
    let run = process::run(&mut command, LIMIT).unwrap();
    assert!(run.status.success(), "{name}: {} {}", run.status, run.stderr);
    let (steps, marked) = implausible(&capture).unwrap();
    assert!(steps.is_empty(), "{name} {flags:?}: {} steps\n{}", steps.len(), steps.join("\n"));
    assert!(marked > 100, "{name} {flags:?}: only {marked} pieces of code have markers");
}

/// A test without users was folded a second time, by an earlier test with the same condition.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_test_that_is_passed_no_more_says_nothing() {
    check("a_test_that_is_passed_no_more_says_nothing", "lookups", C2_EARLY);
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn no_marker_is_implausible_whatever_the_order_of_folds() {
    for (program, seed) in [("library", 1), ("dynamic", 2), ("javac", 3)] {
        let seed = format!("-XX:StressSeed={seed}");
        let flags = [C2_EARLY, ANY_ORDER, &[&seed]].concat();
        check("no_marker_is_implausible_whatever_the_order_of_folds", program, &flags);
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn no_marker_of_c1_is_implausible() {
    let flags = ["-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.05"];
    check("no_marker_of_c1_is_implausible", "javac", &flags);
}
