// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Random programs: compares what compiled code and the interpreter executed.

use jportal_tests::against::Precision;
use jportal_tests::fault::{self, Fault};
use jportal_tests::fuzz::run::{Engine, FuzzTally, Mode, Rig};
use jportal_tests::place;

/// The number of programs in the short and in the long run, and the first seed, unless the
/// environment sets them.
const COUNT: u64 = 6;
const LONG_COUNT: u64 = 200;
const SEED: u64 = 1;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// The built tools, and a folder for files.
fn rig(test: &str) -> Option<(Rig, tempfile::TempDir)> {
    let place = place::installed(test)?;
    let failures = place.root.join("build/fuzz");
    std::fs::create_dir_all(&failures).unwrap();
    let work = tempfile::tempdir_in(&failures).unwrap();
    let rig = Rig {
        jportal: place.jportal,
        jdk: place.root.join("build/jdk"),
        work: work.path().to_owned(),
        failures,
    };
    Some((rig, work))
}

/// Runs each program in two modes, one of each precision. `JPORTAL_FUZZ_COUNT` and
/// `JPORTAL_FUZZ_SEED` override the defaults.
fn check_programs(test: &str, count: u64) {
    let Some((rig, _work)) = rig(test) else { return };
    let (seed, count) = (number("JPORTAL_FUZZ_SEED", SEED), number("JPORTAL_FUZZ_COUNT", count));
    rig.compile(seed..seed + count).unwrap();
    let mut tally = FuzzTally::default();
    for seed in seed..seed + count {
        let reference = rig.reference(seed).unwrap();
        for mode in Mode::in_turn(seed) {
            let outcome = rig.check(&reference, mode).unwrap();
            println!("Fuzz{seed} {mode}: {outcome}");
            tally.add(&outcome);
        }
        reference.remove().unwrap();
    }
    assert_eq!(tally.failed, 0, "of {} runs; their files are in {}", tally.runs, rig.failures.display());
    // A comparison of interpreted code with itself would prove little.
    assert!(
        tally.sum.compiled() * 2 > tally.sum.matched,
        "compiled code executed too little: {:?}",
        tally.sum
    );
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn random_programs() {
    check_programs("random_programs", COUNT);
}

#[test]
#[ignore = "an hour; scripts/verify-all runs it"]
fn many_random_programs() {
    check_programs("many_random_programs", LONG_COUNT);
}

/// The comparison must detect one inverted branch in the trace of compiled code.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_turned_branch_of_a_random_program_is_found() {
    let Some((rig, work)) = rig("a_turned_branch_of_a_random_program_is_found") else { return };
    rig.compile(std::iter::once(SEED)).unwrap();
    let reference = rig.reference(SEED).unwrap();
    let mode = Mode { engine: Engine::C1, precision: Precision::Exact };
    let capture = rig.capture(&reference, mode).unwrap();
    let untouched = rig.compare(&reference, &capture, mode.precision).unwrap();
    assert!(untouched.failure.is_none(), "{untouched}");
    let packets = fault::count_tnt(&capture).unwrap();
    let tries = 8;
    let found = (0..tries)
        .filter(|i| {
            let copy = work.path().join("faulty.jportal");
            // The second half of the run executes mostly compiled code.
            let fault = Fault::FlipTnt { n: packets / 2 + packets * (2 * i + 1) / (4 * tries) };
            fault::plant(&capture, &copy, &fault).unwrap();
            let outcome = rig.compare(&reference, &copy, mode.precision).unwrap();
            println!("{fault:?}: {outcome}");
            outcome.failure.is_some()
        })
        .count();
    assert!(found > tries / 2, "only {found} of {tries} turned branches showed");
}

/// The comparison must detect that two different programs are not equal.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn another_program_is_not_taken_for_the_same() {
    let Some((rig, _work)) = rig("another_program_is_not_taken_for_the_same") else { return };
    rig.compile(SEED..SEED + 2).unwrap();
    let (one, other) = (rig.reference(SEED).unwrap(), rig.reference(SEED + 1).unwrap());
    let outcome = rig.compare(&one, other.capture(), Precision::Default).unwrap();
    assert!(outcome.failure.is_some(), "{outcome}");
}
