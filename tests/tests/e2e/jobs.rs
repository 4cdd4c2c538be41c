// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The output does not depend on the number of threads that decode.

use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};

const COMMANDS: [&[&str]; 6] = [
    &["info", "--json", "--check"],
    &["report", "hot-methods", "--json", "--top", "1000000"],
    &["report", "calls", "--json", "--top", "1000000"],
    &["report", "coverage", "--json", "--classes", "all"],
    &["print", "--level", "bytecode", "--limit", "50000"],
    &["print", "--gaps", "fill", "--limit", "50000"],
];

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn any_number_of_jobs_gives_the_same_bytes() {
    let test = "any_number_of_jobs_gives_the_same_bytes";
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name("threads").unwrap();
    let plan = Plan { oracle: false, timing: "mtc", ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    let whole = recording.capture();
    let lossy = recording.file("lossy.jportal");
    let out = lossy.to_str().unwrap();
    let degraded = recording.jportal(&["degrade"], &whole, &["-o", out, "--loss", "20%"]).unwrap();
    assert!(degraded.status.success(), "{}", degraded.stderr);
    for capture in [&whole, &lossy] {
        for command in COMMANDS {
            let run = |jobs: &str| {
                let finished = recording.jportal(command, capture, &["--jobs", jobs]).unwrap();
                assert!(finished.status.code().is_some_and(|c| c < 2), "{command:?}: {}", finished.stderr);
                (finished.status.code(), finished.text())
            };
            let alone = run("1");
            assert!(alone.1.len() > 1000, "{command:?}: {}", alone.1);
            for jobs in ["2", "3", "16"] {
                assert!(run(jobs) == alone, "{command:?} differs with {jobs} jobs, of {}", capture.display());
            }
        }
    }
}
