// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A capture that is cut off anywhere gives a clean partial result or a clear error, never a
//! panic.

use jportal_tests::fault;
use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

fn record(test: &str) -> Option<RecordedRun> {
    let place = place::installed(test)?;
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    Some(RecordedRun::make(&place, &program, &plan).expect("the program can be recorded"))
}

/// Cuts a copy at each of `places`, from the last to the first, and runs `info` on it.
fn cut_at(recording: &RecordedRun, mut places: Vec<u64>) {
    let copy = recording.file("cut.jportal");
    std::fs::copy(recording.capture(), &copy).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&copy).unwrap();
    places.sort_unstable();
    places.dedup();
    let (mut partial, mut refused) = (0, 0);
    for &place in places.iter().rev() {
        file.set_len(place).unwrap();
        let info = recording.jportal(&["info", "--json"], &copy, &[]).unwrap();
        assert!(!info.crashed(), "cut at {place}: {}", info.stderr);
        match info.status.code() {
            Some(0 | 1) => {
                info.json().unwrap_or_else(|e| panic!("cut at {place}: {e}"));
                partial += 1;
            }
            Some(2) => {
                assert!(info.stderr.contains("error"), "cut at {place}: no reason given: {:?}", info.stderr);
                refused += 1;
            }
            other => panic!("cut at {place}: exit {other:?}: {}", info.stderr),
        }
    }
    println!("{} cuts: {partial} partial results, {refused} refused", places.len());
    assert!(partial > 0 && refused > 0);
}

/// The same places in every run on the same capture.
fn random_places(recording: &RecordedRun, count: usize) -> Vec<u64> {
    let length = std::fs::metadata(recording.capture()).unwrap().len();
    let mut random = fastrand::Rng::with_seed(1);
    // Half of the places are near the start, where headers and the first metadata are.
    (0..count).map(|i| random.u64(..[length, length.min(100_000)][i % 2])).collect()
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn cut_at_some_chunk_boundaries_and_some_random_places() {
    let Some(recording) = record("cut_at_some_chunk_boundaries_and_some_random_places") else { return };
    let boundaries = fault::chunk_boundaries(&recording.capture()).unwrap();
    let step = boundaries.len() / 40 + 1;
    let mut places: Vec<u64> = boundaries.iter().copied().step_by(step).collect();
    places.extend(&boundaries[..8.min(boundaries.len())]);
    places.extend(random_places(&recording, 60));
    cut_at(&recording, places);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn cut_at_every_chunk_boundary_and_a_thousand_random_places() {
    let Some(recording) = record("cut_at_every_chunk_boundary_and_a_thousand_random_places") else { return };
    let mut places = fault::chunk_boundaries(&recording.capture()).unwrap();
    places.extend(random_places(&recording, 1000));
    cut_at(&recording, places);
}

/// What was cut off is a gap, wherever the cut is. The trace may extend beyond the metadata that
/// it needs.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_cut_after_trace_contradicts_nothing() {
    let Some(place) = place::installed("a_cut_after_trace_contradicts_nothing") else { return };
    let program = programs::by_name("branches").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let places = fault::ends_of_trace(&recording.capture()).unwrap();
    let copy = recording.file("cut.jportal");
    std::fs::copy(recording.capture(), &copy).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&copy).unwrap();
    let (mut decoded, mut undecoded) = (0, 0);
    for &place in places.iter().rev().step_by(places.len() / 40 + 1) {
        file.set_len(place).unwrap();
        let info = recording.info(&copy, &["--check"]).unwrap();
        let errors = (info.native_errors().unwrap(), info.reconstruct_errors().unwrap());
        assert_eq!(errors, (0, 0), "cut at {place}");
        if info.bytecodes().unwrap() == 0 {
            undecoded += 1;
            continue;
        }
        assert_eq!(info.checked().unwrap().by_rule.len(), 0, "cut at {place}");
        decoded += 1;
    }
    println!("{} cuts: {decoded} with bytecodes, {undecoded} without", decoded + undecoded);
    assert!(decoded > 10, "{decoded} of {} cuts have bytecodes", places.len());
}

/// A cut recording still gives a flow: the probes before the cut match.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn what_was_recorded_before_the_cut_is_right() {
    let test = "what_was_recorded_before_the_cut_is_right";
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name("hot-loops").expect("a program of that name");
    let recording = RecordedRun::make(&place, &program, &Plan::new(EngineMode::Interpreter)).unwrap();
    let whole = recording.verify(&recording.capture(), &[]).unwrap();
    whole.require_exact(&recording.oracle().unwrap()).unwrap();
    let copy = recording.file("cut.jportal");
    std::fs::copy(recording.capture(), &copy).unwrap();
    let length = std::fs::metadata(&copy).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&copy).unwrap().set_len(length / 100 * 80).unwrap();
    let cut = recording.verify(&copy, &[]).unwrap();
    assert_eq!(cut.code, 1, "a cut capture is not equal to the log");
    let (matched, all) = (cut.matched().unwrap(), whole.matched().unwrap());
    assert!(matched > 0 && matched < all, "{matched} of {all}");
}
