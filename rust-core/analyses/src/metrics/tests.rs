// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use jportal_bytecode::{Constant, Method, MethodTable};
use jportal_flow::testing::feed_as;
use jportal_flow::{Entry, Event, EventKind, Exclude, Exit, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::{Figure, Metrics, MetricsAnalysis};
use crate::paths::examples::{FOO, FUN, LIBRARY, POLY, POLY_SUPERS};
use crate::paths::machine::{ClassFileMethod, HeapMachine, table};
use crate::run_tests::in_runs;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, method, recovered, thread};

fn report(methods: &Arc<MethodTable>, threads: &[&[Event]]) -> Metrics {
    let of = |threads: &[Vec<Event>]| {
        let mut analysis = MetricsAnalysis::new(Arc::clone(methods), Arc::default());
        (1..).zip(threads).for_each(|(tid, events)| feed(&mut analysis, tid, events));
        analysis.report()
    };
    let report = of(&threads.iter().map(|t| t.to_vec()).collect::<Vec<_>>());
    assert_eq!(report, of(&threads.iter().map(|t| in_runs(methods, t)).collect::<Vec<_>>()));
    report
}

fn example(class: &str, sources: &[ClassFileMethod<'_>], supers: &[(&str, &str)]) -> Metrics {
    let methods = Arc::new(table(&[sources, LIBRARY]));
    let events = HeapMachine::new(&methods, supers).run(class);
    report(&methods, &[&events])
}

fn count(m: &Metrics, name: &str) -> u64 {
    match m.metrics.get(name) {
        Some(Figure::Count(n)) => *n,
        other => panic!("{name}: {other:?}"),
    }
}
fn is(m: &Metrics, name: &str, expected: f64) -> bool {
    matches!(m.metrics.get(name), Some(Figure::Ratio(r)) if (r - expected).abs() < 1e-9)
}

/// The lines of a text, with one space between words.
fn words(text: &str) -> Vec<String> {
    text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn e1_foo() {
    let m = example("Foo", FOO, &[]);
    assert_eq!((count(&m, "size.appLoad"), count(&m, "size.appRun"), count(&m, "size.appHot")), (32, 32, 16));
    assert!(is(&m, "size.appHot.percentile", 0.5));
    assert_eq!(m.bytecodes.total(), 625);
    assert_eq!(count(&m, "size.run"), 33, "and the return of Object.<init>");
    // The two loops' conditionals: f leaves once of 11, g 10 times of 65.
    assert!(is(&m, "structure.appControlDensity", 2.0 / 32.0));
    assert!(is(&m, "structure.appChangingControlDensity", 2.0 / 32.0));
    // f: one change. g: for i = 1 to 10, i times into the loop and once out: 19 changes.
    assert!(is(&m, "structure.appChangingControlRate", 20.0 / 76.0));
    assert!(is(&m, "memory.appObjectAllocationDensity", 1000.0 / 624.0));
    assert!(is(&m, "data.appArrayDensity", 0.0) && m.exact);
    // main calls f; f calls h and g 10 times each; g calls h 55 times.
    assert!(is(&m, "polymorphism.appInvokeDensity", 76_000.0 / 624.0));
    assert!(m.unavailable.contains_key("concurrency.threadDensity"), "the flow has no times");
    assert_eq!((count(&m, "concurrency.threads"), count(&m, "concurrency.appThreads")), (1, 1));
    let lines = words(&m.text());
    for line in ["size.appHot 16", "pointer.refFieldAccessDensity the capture has no types of fields"] {
        assert!(lines.iter().any(|l| l == line), "{lines:#?}");
    }
}

#[test]
fn e6_poly_and_its_arrays() {
    let m = example("Poly", POLY, POLY_SUPERS);
    assert_eq!(count(&m, "polymorphism.appCallSites"), 4);
    assert_eq!(m.metrics["polymorphism.appTargetArity.bin"], Figure::Bins([2, 2, 0]));
    assert!(is(&m, "polymorphism.appTargetCacheMissRate", 13.0 / 37.0));
    assert!(m.at_least.contains_key("polymorphism.receiverCacheMissRate"));
    // 3 aastore, 36 aaload.
    let n = 488.0;
    assert!(is(&m, "data.appArrayDensity", 39_000.0 / n) && is(&m, "data.appRefArrayDensity", 39_000.0 / n));
    assert!(is(&m, "data.appCharArrayDensity", 0.0));
    // new, three times, and anewarray; System.out.
    assert!(is(&m, "memory.appObjectAllocationDensity", 4000.0 / n));
    assert!(is(&m, "pointer.appFieldAccessDensity", 1000.0 / n));
    let json = serde_json::to_value(&m).unwrap();
    assert_eq!(json["metrics"]["polymorphism.appTargetArity.bin"], serde_json::json!([2, 2, 0]));
    assert!(json["metrics"].get("pointer.refFieldAccessDensity").is_none());
    assert!(json["unavailable"]["pointer.refFieldAccessDensity"].is_string());
}

#[test]
fn changes_of_way_in_each_thread() {
    // Fun.fun(i % 3 == 0, i) for i below 10.
    let m = example("Fun", FUN, &[]);
    // fun@1: 0 3 6 9 differ from the rest, 6 changes. fun@18: b = i + 1 or i - 2.
    // i: 0 1 2 3 4 5 6 7 8 9; b: 1 -1 0 4 2 3 7 5 6 10; odd: 1 1 0 0 0 1 1 1 0 0; 3 changes.
    // main@7: 1. main@13 as fun@1: 6. main@25 as fun@18: 3. 10 + 10 + 11 + 10 + 10 conditionals.
    assert!(is(&m, "structure.appChangingControlRate", 19.0 / 51.0), "{:?}", m.metrics);
    let methods = Arc::new(table(&[FUN, LIBRARY]));
    let events = HeapMachine::new(&methods, &[]).run("Fun");
    let m = report(&methods, &[&events, &events]);
    assert!(is(&m, "structure.appChangingControlRate", 38.0 / 102.0));
    assert_eq!(count(&m, "concurrency.appThreads"), 2);
}

/// m0, synchronized: 0 monitorenter; 1 dadd; 2 baload; 3 return. m1: synchronized and native.
fn locks() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    t.push(Method { access_flags: 0x28, ..method("a/B", "f", &[194, 99, 51, 177]) });
    t.push(Method { access_flags: 0x128, ..method("java/B", "n", &[]) });
    Arc::new(t)
}

#[test]
fn locks_floats_and_bytes() {
    let native = |entry| Event::decoded(EventKind::Enter { method: MethodId(1), tier: Tier::Native, entry });
    let flow = [
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        native(Entry::Call),
        leave(1),
        native(Entry::Call),
        leave_as(1, Exit::Unwind),
        // There is no room for the frame.
        enter(0),
        leave_as(0, Exit::Unwind),
        bytecode(0, 1),
        bytecode(0, 2),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        bytecode(0, 3),
        leave(0),
    ];
    let m = report(&locks(), &[&flow]);
    assert!(is(&m, "concurrency.lockDensity", 4.0 * 250.0), "monitorenter, f, and twice n");
    assert!(is(&m, "concurrency.appLockDensity", 2.0 * 250.0));
    assert!(is(&m, "data.floatDensity", 250.0) && is(&m, "data.byteOrBooleanArrayDensity", 250.0));
    assert!(is(&m, "data.numArrayDensity", 0.0));
    // Nothing of the application ran.
    let m = report(&locks(), &[&[native(Entry::Call), leave(1)]]);
    assert!(
        m.unavailable.contains_key("data.appFloatDensity") && !m.metrics.contains_key("data.floatDensity")
    );
    assert!(m.unavailable.contains_key("structure.changingControlRate"));
    assert_eq!((count(&m, "size.load"), count(&m, "size.hot"), count(&m, "concurrency.threads")), (4, 0, 0));
}

#[test]
fn the_most_threads_alive_at_once() {
    let methods = locks();
    let time = |tsc| Event::decoded(EventKind::Time(Tsc(tsc)));
    let mut a = MetricsAnalysis::new(Arc::clone(&methods), Arc::default());
    for (tid, started, end) in [(1, 10, 50), (2, 0, 30), (3, 31, 60), (4, 51, 52)] {
        let info = ThreadInfo { started: Tsc(started), ..thread(tid) };
        feed_as(&mut a, &info, &[time(20.max(started)), enter(0), bytecode(0, 0), time(end)]);
    }
    // A thread that executes nothing.
    feed_as(&mut a, &ThreadInfo { started: Tsc(1), ..thread(9) }, &[time(99)]);
    let m = a.report();
    assert_eq!((count(&m, "concurrency.threads"), count(&m, "concurrency.threadDensity")), (4, 2));
    assert!(m.at_least.contains_key("concurrency.threadDensity") && m.text().contains("≥ 2"));
}

#[test]
fn what_is_lost_or_left_out_is_said() {
    let some = [enter(0), bytecode(0, 0), recovered(bytecode(0, 1)), bytecode(0, 2)];
    let m = report(&locks(), &[&some, &[gap(true)]]);
    assert_eq!((m.exact, m.inexact.gaps, m.inexact.recovered), (false, 1, 1));
    assert!(m.text().contains("1 gap"), "{}", m.text());
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let mut a = MetricsAnalysis::new(locks(), Arc::default()).excluding(exclude);
    feed(&mut a, 1, &some);
    let m = a.report();
    assert_eq!((m.bytecodes.total(), m.inexact.excluded, count(&m, "size.run")), (2, 1, 2));
    let mut a =
        MetricsAnalysis::new(locks(), Arc::default()).application(|m| m.class_name.starts_with("java"));
    feed(&mut a, 1, &some);
    let m = a.report();
    assert_eq!((count(&m, "size.appLoad"), count(&m, "size.load")), (0, 4));
    // Code that fits no method.
    feed(
        &mut a,
        2,
        &[
            bytecode(7, 0),
            bytecode(0, 77),
            Event::decoded(EventKind::Run {
                method: MethodId(0),
                first: Bci(2),
                last: Bci(60),
                len: 9,
                tier: Tier::C1,
            }),
        ],
    );
    assert_eq!(count(&a.report(), "size.run"), 3);
}

#[test]
fn accesses_of_fields_that_hold_references() {
    let field = |index: u16, descriptor: &str| {
        let (class_name, name, descriptor) = ("x/Y".into(), "f".into(), descriptor.into());
        (index, Constant::Field { class_name, name, descriptor })
    };
    // getstatic #1 (a reference); getfield #2; putfield #1; return
    let code = [178, 0, 1, 180, 0, 2, 181, 0, 1, 177];
    let with = |constants: Option<&[(u16, Constant)]>| {
        let mut t = MethodTable::default();
        t.push(Method { constants: constants.map(Into::into), code: code.into(), ..method("a/A", "f", &[]) });
        t.push(Method { code: code.into(), ..method("java/B", "never", &[]) });
        let events = [enter(0), bytecode(0, 0), bytecode(0, 3), bytecode(0, 6), bytecode(0, 9), leave(0)];
        report(&Arc::new(t), &[&events])
    };
    let (all, app) = ("pointer.refFieldAccessDensity", "pointer.appRefFieldAccessDensity");
    let m = with(Some(&[field(1, "[I"), field(2, "J")]));
    assert!(is(&m, all, 500.0) && is(&m, app, 500.0) && is(&m, "pointer.fieldAccessDensity", 750.0));
    assert!(!m.unavailable.contains_key(all), "a method that did not run does not matter");
    for unknown in [None, Some(&[field(1, "[I")][..])] {
        let m = with(unknown);
        assert!(!m.metrics.contains_key(all) && m.unavailable[app].contains("no types of fields"));
    }
}
