// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Programs with many threads on a busy machine, with and without being stopped and continued at
//! random.

use jportal_tests::load::{Neighbours, Trial};
use jportal_tests::place;

/// The long form: `scripts/verify-load`.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn many_threads_on_a_busy_machine_are_exact() {
    let test = "many_threads_on_a_busy_machine_are_exact";
    let Some(place) = place::installed(test) else { return };
    let _neighbours = Neighbours::start(4).unwrap();
    let crowd = |threads| Trial { threads, rounds: 12, ..Trial::numbered(0, 1) };
    let still = Trial { timing: "cyc", cores: 8, flags: &["-XX:+UseZGC"], ..crowd(8) };
    let stopped = Trial { oracle: true, stops: Some(3), timing: "mtc", cores: 3, ..crowd(16) };
    for trial in [still, stopped] {
        let held = trial.run(&place).unwrap_or_else(|e| panic!("{e}"));
        assert!(held.bytecodes > 1_000_000, "{trial}: {held:?}");
        assert_eq!(
            (held.probes > 0, held.stopped > 0),
            (trial.oracle, trial.stops.is_some()),
            "{trial}: {held:?}"
        );
    }
}
