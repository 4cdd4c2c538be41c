// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Scarce resources: a tiny metadata ring, a full disk, a path that cannot be written, a full
//! trace buffer.

use std::process::Command;

use jportal_tests::place;
use jportal_tests::process;
use jportal_tests::programs::{self, MANY_METHODS, Size};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::skip;

/// The smallest metadata ring and over a megabyte of methods: what the ring does not hold goes to
/// its overflow, and no record is dropped.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn the_smallest_ring_carries_a_megabyte_of_methods() {
    let Some(place) = place::installed("the_smallest_ring_carries_a_megabyte_of_methods") else { return };
    let flags = ["-XX:+UnlockDiagnosticVMOptions", "-XX:JPortalRingSize=64k"].map(str::to_owned).to_vec();
    for mode in [EngineMode::Interpreter, EngineMode::Tiered] {
        let plan = Plan { flags: flags.clone(), ..Plan::new(mode) };
        let recording = RecordedRun::make(&place, &MANY_METHODS, &plan).unwrap();
        assert!(recording.program.status.success(), "{mode:?}: {}", recording.program.stderr);
        let info = recording.info(&recording.capture(), &[]).unwrap();
        assert_eq!(info.native_errors().unwrap(), 0, "{mode:?}");
        let verdict = recording.verify(&recording.capture(), &[]).unwrap();
        let log = recording.oracle().unwrap();
        if mode == EngineMode::Interpreter {
            verdict.require_exact(&log).unwrap();
        }
        assert_eq!(verdict.probes().unwrap(), log.hits());
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_path_that_cannot_be_written_is_refused() {
    let Some(place) = place::installed("a_path_that_cannot_be_written_is_refused") else { return };
    let mut command = Command::new(&place.jportal);
    command.args(["run", "--emulate", "-o", "/nonexistent/folder/a.jportal", "--", "-version"]);
    let finished = process::run(&mut command, LIMIT).unwrap();
    assert!(!finished.status.success() && !finished.crashed(), "{}", finished.stderr);
    assert!(finished.stderr.contains("/nonexistent/folder"), "no reason: {:?}", finished.stderr);
}

/// The disk fills up while the program runs. The program continues undisturbed, and what was
/// written is readable.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    let test = "a_full_disk_stops_the_recording_and_not_the_program";
    let Some(place) = place::installed(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("small");
    std::fs::create_dir(&mounted).unwrap();
    let program = programs::by_name("hot-loops").expect("a program of that name");
    let java = program.command(&place.root, &place.programs, Size::Small);
    // The mount namespace, and with it the file system, ends with the process.
    let script = r#"set -e
mount -t tmpfs -o size=12m none "$1"; shift
small=$1; jportal=$2; shift 2
echo MOUNTED >&2
set +e
"$jportal" run --emulate -o "$small/a.jportal" -- -Xint "$@"; status=$?
echo "STATUS $status" >&2
"$jportal" info --json "$small/a.jportal" > "$small/../info.json" 2> "$small/../info.err"; echo "INFO $?" >&2
df --output=pcent "$small" | tail -1 >&2
"#;
    let mut command = Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(&mounted)
        .arg(&mounted)
        .arg(&place.jportal)
        .args(&java);
    let finished = process::run(&mut command, LIMIT).unwrap();
    if !finished.stderr.contains("MOUNTED") {
        return skip::skip(test, &format!("no mount namespace here: {}", finished.stderr.trim()));
    }
    let plain = process::run(Command::new(&place.java).args(&java), LIMIT).unwrap();
    assert_eq!(finished.text(), plain.text(), "{}", finished.stderr);
    assert!(finished.stderr.contains("STATUS 0"), "{}", finished.stderr);
    let said = finished.stderr.to_lowercase();
    assert!(
        said.contains("no space") || said.contains("disk"),
        "the reason is not told: {}",
        finished.stderr
    );
    let code = if finished.stderr.contains("INFO 0") { 0 } else { 1 };
    assert!(finished.stderr.contains(&format!("INFO {code}")), "{}", finished.stderr);
    let info: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("info.json")).unwrap()).unwrap();
    assert!(info["pt_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{info}");
}

/// `--on-full drop` loses trace as the kernel does. The loss is reported, and the rest is right.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn lost_trace_is_said_and_the_rest_is_right() {
    let test = "lost_trace_is_said_and_the_rest_is_right";
    let Some(place) = place::installed(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (capture, oracle) = (folder.path().join("a.jportal"), folder.path().join("oracle"));
    let program = programs::by_name("hot-loops").expect("a program of that name");
    let mut command = Command::new(&place.jportal);
    command.args(["run", "--emulate", "--on-full", "drop", "--cores", "2", "--aux", "16k", "-o"]);
    command.arg(&capture).args(["--", "-Xint"]);
    command.arg(format!("-javaagent:{}=out={}", place.oracle.display(), oracle.display()));
    command.args(program.command(&place.root, &place.programs, Size::Small));
    let finished = process::run(&mut command, LIMIT).unwrap();
    assert!(finished.status.success(), "{}", finished.stderr);
    let info = Command::new(&place.jportal).args(["info", "--json"]).arg(&capture).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let (gaps, completeness) = (info["gaps"].as_u64().unwrap(), info["completeness"].as_f64().unwrap());
    println!("{gaps} gaps, completeness {completeness}");
    assert!(gaps > 0 && (0.0..=1.0).contains(&completeness), "{info}");
    assert_eq!(info["errors"]["native_flow"].as_u64(), Some(0), "{info}");
    let mut verify = Command::new(&place.jportal);
    verify.args(["verify", "--json", "--allow-gaps"]).arg(&capture).arg("--oracle").arg(&oracle);
    let verified = process::run(&mut verify, LIMIT).unwrap();
    assert_eq!(verified.status.code(), Some(0), "{} {}", verified.text(), verified.stderr);
    assert!(verified.json().unwrap()["matched"].as_u64().is_some_and(|n| n > 0), "{}", verified.text());
}
