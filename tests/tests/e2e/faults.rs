//! Each planted fault must turn the check red that is green on the untouched capture.

use std::collections::BTreeMap;
use std::path::Path;

use jportal_capture::schema::patch_reasons;
use jportal_tests::Result;
use jportal_tests::fault::{self, Fault};
use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{Mode, Plan, Recording};

/// Whether `info` and `verify` together find something wrong with `capture`.
fn red(recording: &Recording, capture: &Path) -> Result<bool> {
    let info = recording.info(capture, &[])?;
    let verdict = recording.verify(capture, &[])?;
    Ok(info.native_errors()? + info.reconstruct_errors()? > 0 || verdict.code != 0)
}

fn planted_red(recording: &Recording, fault: &Fault) -> Result<bool> {
    let copy = recording.file("faulty.jportal");
    let change = fault::plant(&recording.capture(), &copy, fault)?;
    let red = red(recording, &copy)?;
    println!("{fault:?}: {change}: {}", if red { "found" } else { "not found" });
    std::fs::remove_file(&copy)?;
    Ok(red)
}

/// The rules that the checker finds broken in a copy with `fault`; `None` when all hold.
fn broken_rules(recording: &Recording, fault: &Fault) -> Result<Option<BTreeMap<String, u64>>> {
    let copy = recording.file("faulty.jportal");
    fault::plant(&recording.capture(), &copy, fault)?;
    let by_rule = recording.info(&copy, &["--check"])?.checked()?.by_rule;
    if !by_rule.is_empty() {
        let said = recording.jportal(&["info", "--check"], &copy, &[])?;
        let text = said.text();
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(by_rule.keys().any(|rule| text.contains(&format!("\n{rule}: thread "))), "{text}");
    }
    std::fs::remove_file(&copy)?;
    println!("{fault:?}: the checker finds {by_rule:?}");
    Ok(Some(by_rule).filter(|rules| !rules.is_empty()))
}

fn record(test: &str, program: &str, mode: Mode) -> Option<Recording> {
    let place = place::installed(test)?;
    let program = programs::by_name(program).expect("a program of that name");
    Some(Recording::make(&place, &program, &Plan::new(mode)).expect("the program can be recorded"))
}

/// A copy by the fault tool with nothing changed but one thing must not be red for the copying's sake.
fn require_green(recording: &Recording) {
    assert!(!red(recording, &recording.capture()).unwrap(), "the untouched capture is already red");
}

#[test]
fn a_turned_branch_is_found() {
    let Some(recording) = record("a_turned_branch_is_found", "branches", Mode::Interpreter) else { return };
    require_green(&recording);
    let packets = fault::count_tnt(&recording.capture()).unwrap();
    let tries = 8;
    let found = (0..tries)
        .map(|i| planted_red(&recording, &Fault::FlipTnt { n: packets * (2 * i + 1) / (2 * tries) }).unwrap())
        .filter(|&red| red)
        .count();
    // A branch around a store barrier or a counter joins again at once: turned round, it says nothing wrong about the
    // bytecodes. Most branches of the interpreter are not of that kind.
    assert!(found > tries / 2, "only {found} of {tries} turned branches showed");
}

#[test]
fn a_shifted_template_is_found() {
    let Some(recording) = record("a_shifted_template_is_found", "branches", Mode::Interpreter) else {
        return;
    };
    require_green(&recording);
    // A template begins with entries for other stack states; 64 bytes on, its own entry is no longer inside.
    for codelet in ["iload_1", "invokestatic", "if_icmpge"] {
        assert!(
            planted_red(&recording, &Fault::ShiftTemplate { codelet: codelet.into(), by: 64 }).unwrap(),
            "{codelet}"
        );
    }
}

/// Not every call site that was patched runs again; of the first ones at least one must.
#[test]
fn a_dropped_patch_record_is_found() {
    let Some(recording) = record("a_dropped_patch_record_is_found", "hot-loops", Mode::Tiered) else {
        return;
    };
    let before = recording.info(&recording.capture(), &[]).unwrap();
    assert_eq!(before.native_errors().unwrap(), 0);
    let matched = recording.verify(&recording.capture(), &[]).unwrap().matched().unwrap();
    let patches = fault::count_patches(&recording.capture(), patch_reasons::CALL).unwrap();
    assert!(patches > 0, "no call was patched");
    let found = (0..patches.min(40)).any(|n| {
        let copy = recording.file("faulty.jportal");
        let change =
            fault::plant(&recording.capture(), &copy, &Fault::DropPatch { n, reason: patch_reasons::CALL })
                .unwrap();
        let errors = recording.info(&copy, &[]).unwrap().native_errors().unwrap();
        let now = recording.verify(&copy, &[]).unwrap().matched().unwrap();
        println!("{change}: {errors} native-flow errors, {now} of {matched} probes");
        errors > 0 || now < matched
    });
    assert!(found, "none of {patches} dropped patches showed");
}

#[test]
fn a_method_stub_of_another_method_is_found() {
    let Some(recording) = record("a_method_stub_of_another_method_is_found", "calls", Mode::Interpreter)
    else {
        return;
    };
    require_green(&recording);
    // Stubs are committed class by class: among the last ones are those of the program's own classes.
    let count = fault::count_stubs(&recording.capture()).unwrap();
    assert!(count > 200, "{count} stubs");
    let found = (1..=40).any(|i| planted_red(&recording, &Fault::SwapStub { n: count - 5 * i }).unwrap());
    assert!(found, "no swapped stub showed");
    // The checker knows without the oracle: the callee does not fit the call.
    assert!(
        recording.info(&recording.capture(), &["--check"]).unwrap().checked().unwrap().by_rule.is_empty()
    );
    let found =
        (1..=40).find_map(|i| broken_rules(&recording, &Fault::SwapStub { n: count - 5 * i }).unwrap());
    assert!(found.as_ref().is_some_and(|rules| rules.contains_key("callee")), "{found:?}");
}

/// The oracle's side: one id missing from one log.
#[test]
fn a_missing_probe_is_found() {
    let Some(recording) = record("a_missing_probe_is_found", "threads", Mode::Interpreter) else { return };
    require_green(&recording);
    let log = std::fs::read_dir(recording.oracle_directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "probes"))
        .unwrap();
    let whole = std::fs::read(&log).unwrap();
    let mut bytes = whole.clone();
    bytes.drain(32 + 40..32 + 44);
    std::fs::write(&log, bytes).unwrap();
    assert!(red(&recording, &recording.capture()).unwrap());
    std::fs::remove_file(&log).unwrap();
    assert!(red(&recording, &recording.capture()).unwrap(), "a thread without a log");
}
