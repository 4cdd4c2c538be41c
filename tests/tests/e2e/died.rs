// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The captures of VMs that die while they record.

use jportal_tests::died::{Way, die, moments};
use jportal_tests::fault::{Fault, names_call_stub_first, plant};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::{place, programs};

/// The long form: `cargo run -p jportal-tests --bin jportal-died`.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn what_a_dying_vm_leaves_is_whole_and_the_beginning_of_what_ran() {
    let test = "what_a_dying_vm_leaves_is_whole_and_the_beginning_of_what_ran";
    let Some(place) = place::installed(test) else { return };
    // Each of the eight moments of this seed is late enough for the trace that is expected.
    for (way, after) in Way::ALL.into_iter().cycle().zip(moments(35)).take(8) {
        let left = die(&place, way, after).unwrap_or_else(|e| panic!("{e}"));
        assert!(left.trace > 1 << 20, "{}: {left:?}", way.name());
    }
}

/// A VM may be killed when the first Java code has run. By then, it must have recorded where its
/// calls of Java code return. A capture without that record has no flow, and the decoder reports
/// this.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn the_call_stub_is_named_before_java_code_runs() {
    let test = "the_call_stub_is_named_before_java_code_runs";
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name("class-init").expect("a program of that name");
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    let recording = RecordedRun::make(&place, &program, &plan).unwrap();
    assert!(names_call_stub_first(&recording.capture()).unwrap());

    let without = recording.file("without.jportal");
    plant(&recording.capture(), &without, &Fault::DropCallStub).unwrap();
    let info = recording.info(&without, &["--check"]).unwrap();
    assert_eq!(info.number("/bytecodes").unwrap(), 0.0);
    assert_eq!(info.number("/check/findings").unwrap(), 0.0);
    assert_eq!((info.native_errors().unwrap(), info.reconstruct_errors().unwrap()), (0, 0));
    // Each thread that ran Java code has one gap, which says that nothing is known of the thread.
    // There are no other gaps.
    let of_java = info.number("/gaps_by_reason/reconstruct").unwrap();
    assert!(of_java >= 1.0 && of_java == info.number("/gaps").unwrap(), "{}", info.0["gaps_by_reason"]);
}
