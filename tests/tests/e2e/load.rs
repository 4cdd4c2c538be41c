//! Crowds of threads on a busy machine, at rest and stopped and continued at random.

use jportal_tests::load::{Neighbours, Trial};
use jportal_tests::place;

/// The long form: `cargo run --release -p jportal-tests --bin jportal-load`.
#[test]
fn many_threads_on_a_busy_machine_are_exact() {
    let test = "many_threads_on_a_busy_machine_are_exact";
    let Some(place) = place::installed(test) else { return };
    let _neighbours = Neighbours::start(4).unwrap();
    // Their combinations differ in everything; the second has 64 threads, the oracle, and stops.
    for number in [0, 3] {
        let trial = Trial::numbered(number, 30);
        let held = trial.run(&place).unwrap_or_else(|e| panic!("{e}"));
        assert!(held.bytecodes > 1_000_000, "{trial}: {held:?}");
        assert_eq!(
            (held.probes > 0, held.stopped > 0),
            (trial.oracle, trial.stops.is_some()),
            "{trial}: {held:?}"
        );
    }
}
