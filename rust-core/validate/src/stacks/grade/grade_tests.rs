// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use jportal_analyses::tree::{CallTree, Options, TreeAnalysis};
use jportal_flow::testing::thread;
use jportal_flow::{Analysis, Entry, Event, EventKind};
use jportal_units::Tsc;

use super::{GradeLimits, GradeReport, ProfileError, StackProfile};
use crate::stacks::jfr::JfrSamples;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, methods};

fn time(tsc: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(tsc)))
}

/// `f` calls `g`, which calls `abs` and then itself; `h` is called by the VM. Of 10 bytecodes `f`
/// executes 2, `g` 5, `abs` 2, `h` 1.
fn flow() -> Vec<Event> {
    let of_g = [0, 1, 4].map(|bci| bytecode(1, bci));
    [
        &[time(0), enter_as(0, Entry::Upcall), bytecode(0, 0), enter(1)][..],
        &of_g,
        &[
            enter(2),
            bytecode(2, 0),
            bytecode(2, 1),
            leave(2),
            enter(1),
            bytecode(1, 0),
            bytecode(1, 1),
            leave(1),
        ],
        &[leave(1), bytecode(0, 1), leave(0), enter_as(3, Entry::Upcall), bytecode(3, 0), leave(3)],
    ]
    .concat()
}

fn tree(flow: &[Event], timed: bool) -> CallTree {
    let options = Options { merged: true, ..Options::default() };
    let mut analysis = TreeAnalysis::new(methods(), Arc::default(), options);
    if timed {
        analysis = analysis.timed_by(Arc::new(|_, tsc: Tsc| tsc.get()));
    }
    feed(&mut analysis, 7, flow);
    analysis.tree().unwrap()
}

fn collapsed(text: &str) -> StackProfile {
    StackProfile::read_collapsed(text.as_bytes()).unwrap()
}

fn graded(text: &str) -> GradeReport {
    GradeReport::new(&collapsed(text), &tree(&flow(), false), &methods(), GradeLimits { calls: 9 })
}

#[test]
fn the_exact_profile_is_its_own_overlap() {
    let report =
        graded("a/B.f 2\na/B.f;a/B.g 3\na/B.f;a/B.g;java/lang/Math.abs 2\na/B.f;a/B.g;a/B.g 2\na/C.h 1\n");
    assert_eq!((report.graded, report.stacks.whole, report.impossible), (10, 10, 0), "{}", report.text());
    assert!(report.exact && report.is_within(0.0) && report.calls.is_empty() && report.unknown.is_empty());
    assert_eq!(report.stacks.mean_prefix.to_bits(), 1.0_f64.to_bits());
    let all: Vec<_> = report.likeness.iter().map(|r| (r.of, r.measure, r.common, r.top)).collect();
    assert_eq!(all, [("self", "bytecodes", 4, 4), ("total", "bytecodes", 4, 4)]);
    assert!(report.likeness.iter().all(|r| (r.overlap - 1.0).abs() < 1e-9), "{:?}", report.likeness);
    let first = &report.methods[0];
    assert_eq!((&*first.method, first.weight, first.time), ("a.B.g", 5, None));
    assert!((first.profile.unwrap().share - 0.5).abs() < 1e-9 && first.profile.unwrap().rank == Some(1));
}

#[test]
fn overlap_is_the_sum_of_the_smaller_shares() {
    // StackProfile: f 1/2, abs 1/2. Truth: f 2/10, g 5/10, abs 2/10, h 1/10.
    let report = graded("a.B.f 1\na.B.f;a.B.g;java.lang.Math.abs 1\n");
    assert!((report.likeness[0].overlap - 0.4).abs() < 1e-9, "{:?}", report.likeness);
    // Total of the profile: f 2, g 1, abs 1 of 4. Truth: f 9, g 7, abs 2, h 1 of 19.
    let expected = 9.0 / 19.0 + 0.25 + 2.0 / 19.0;
    assert!((report.likeness[1].overlap - expected).abs() < 1e-9, "{:?}", report.likeness);
    let ranks: Vec<_> = report.methods.iter().map(|m| (&*m.method, m.bytecodes.unwrap().rank)).collect();
    let expected =
        [("a.B.f", Some(2)), ("java.lang.Math.abs", Some(3)), ("a.B.g", Some(1)), ("a.C.h", Some(4))];
    assert_eq!(ranks, expected, "the profile's own first");
}

#[test]
fn time_on_a_core_is_a_second_truth() {
    let mut timed = flow();
    timed.insert(7, time(30));
    timed.insert(10, time(40));
    let tree = tree(&timed, true);
    let report = GradeReport::new(&collapsed("a.B.f 1\n"), &tree, &methods(), GradeLimits { calls: 9 });
    let measures: Vec<_> = report.likeness.iter().map(|r| (r.of, r.measure)).collect();
    let expected = [("self", "bytecodes"), ("self", "time"), ("total", "bytecodes"), ("total", "time")];
    assert_eq!(measures, expected, "{}", report.text());
    let own: u64 = tree.nodes.iter().map(|n| n.ticks).sum();
    assert_eq!(own, 40);
    assert!(report.methods.iter().all(|m| m.time.is_some()));
}

#[test]
fn stacks_that_did_not_exist_are_counted_by_how_much_of_them_did() {
    let report = graded(
        "a/B.f;a/B.g 10\n\
         a/B.f;java/lang/Math.abs 4\n\
         a/B.f;a/C.h;a/B.g 3\n\
         java/lang/Math.abs 2\n\
         a/B.f;a/B.g;a/B.g;a/B.g 1\n\
         x/Y.z;a/B.f 5\n",
    );
    let s = &report.stacks;
    assert_eq!((s.whole, s.callers, s.outer, s.nothing), (10, 4 + 1, 3, 2 + 5), "{}", report.text());
    assert_eq!((report.graded, report.impossible), (25, 15));
    assert!((report.impossible_rate - 0.6).abs() < 1e-9 && report.is_within(0.6) && !report.is_within(0.59));
    let calls: Vec<_> = report.calls.iter().map(|c| (&*c.caller, &*c.callee, c.weight)).collect();
    let expected = [
        ("x.Y.z", "a.B.f", 5),
        ("a.B.f", "java.lang.Math.abs", 4),
        ("a.B.f", "a.C.h", 3),
        ("a.C.h", "a.B.g", 3),
    ];
    assert_eq!(calls, expected, "a recursive call too deep has no call that never happened");
    assert_eq!((report.impossible_calls, report.with_impossible_call), (4, 12));
    let unknown: Vec<_> = report.unknown.iter().map(|u| (&*u.method, u.captured, u.weight)).collect();
    assert_eq!(unknown, [("x.Y.z", false, 5)]);
    assert!((s.mean_prefix - (10.0 + 4.0 / 2.0 + 3.0 / 3.0 + 3.0 / 4.0) / 25.0).abs() < 1e-9);
    let few = GradeReport::new(
        &collapsed("a/B.f;a/C.h;java/lang/Math.abs 1\n"),
        &tree(&flow(), false),
        &methods(),
        GradeLimits { calls: 1 },
    );
    assert_eq!((few.calls.len(), few.impossible_calls), (1, 2));
}

#[test]
fn frames_of_other_languages_are_left_out() {
    let report = graded(
        "[main tid=7];start_thread;JavaMain;a/B.f_[i];a/B.g_[j];__libc_read;do_syscall_64_[k] 3\n\
         [VM Thread];VMThread::run;libc.so.6 2\n",
    );
    let p = &report.profile;
    assert_eq!((p.weight, p.stacks, p.without_java, p.frames_left_out), (5, 2, 2, 21), "{}", report.text());
    assert_eq!((report.graded, report.stacks.whole), (3, 3));
    let text = report.text();
    assert!(text.contains("2 have no frame of Java") && text.contains("21 frames are no methods"), "{text}");
}

#[test]
fn a_tree_that_is_not_exact_proves_nothing() {
    let flow = [&flow()[..7], &[gap(true), enter(1), bytecode(1, 0), leave(1)]].concat();
    let tree = tree(&flow, false);
    let report = GradeReport::new(&collapsed("a.B.g 1\n"), &tree, &methods(), GradeLimits { calls: 9 });
    assert!(!report.exact && report.text().contains("not exact"), "{}", report.text());
    assert_eq!(report.stacks.nothing, 1, "it hangs on (unknown)");
}

#[test]
fn lines_that_are_no_stacks_are_refused() {
    for (text, line) in [("a;b 1\nx\n", 2), ("a;b x\n", 1), ("\n\n 7\n", 3), ("a -1\n", 1), ("a 1.5\n", 1)] {
        let error = StackProfile::read_collapsed(text.as_bytes()).unwrap_err();
        assert!(matches!(&error, ProfileError::Line { line: n, .. } if *n == line), "{text:?}: {error}");
    }
    for text in ["", "\n \n"] {
        assert!(matches!(StackProfile::read_collapsed(text.as_bytes()), Err(ProfileError::Empty)));
    }
    let odd = StackProfile::read_collapsed(&b"a;\xff\xfe 2\r\n[main tid=1] 3"[..]).unwrap();
    assert_eq!(odd.stacks.iter().map(|s| s.weight).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn samples_of_jfr_are_a_profile() {
    use crate::stacks::jfr::testing::{event, frame, recording};
    let frames =
        [("a/B", "g"), ("a/B", "f")].map(|(class, name)| frame((class, name, "(I)I"), 1, "Interpreted"));
    let of = |truncated, frames| event("jdk.ExecutionSample", "1970-01-01T00:00:01Z", 7, truncated, frames);
    let inner = [frame(("java/lang/Math", "abs", "(I)I"), 1, "Inlined"), frames[0].clone()];
    let events = [of(false, &frames), of(false, &frames), of(true, &inner), of(false, &inner)];
    let samples = JfrSamples::read(recording(&events).as_bytes()).unwrap();
    let profile = StackProfile::of_jfr(&samples).unwrap();
    let report = GradeReport::new(&profile, &tree(&flow(), false), &methods(), GradeLimits { calls: 9 });
    assert_eq!((report.profile.weight, report.profile.stacks), (4, 3));
    assert_eq!((report.stacks.whole, report.stacks.nothing), (3, 1), "a truncated stack begins anywhere");
    assert!(report.calls.is_empty(), "{:?}", report.calls);
    let none = JfrSamples::read(recording(&[]).as_bytes()).unwrap();
    assert!(matches!(StackProfile::of_jfr(&none), Err(ProfileError::Empty)));
}

#[test]
fn flows_of_threads_are_one_tree() {
    let mut analysis =
        TreeAnalysis::new(methods(), Arc::default(), Options { merged: true, ..Options::default() });
    for tid in [7, 8] {
        let mut state = analysis.begin(&thread(tid));
        assert!(analysis.events(&mut state, &flow()).is_continue());
        analysis.merge(state);
    }
    let tree = analysis.tree().unwrap();
    let report = GradeReport::new(&collapsed("a.B.f;a.B.g 2\n"), &tree, &methods(), GradeLimits { calls: 9 });
    assert_eq!((report.stacks.whole, report.methods.len()), (2, 4));
}
