// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use jportal_bytecode::{MethodTable, testing};
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit, Tally, Tier};
use jportal_units::{Bci, MethodId};

use super::{NativeRow, Natives, NativesAnalysis};
use crate::paths::examples::{LIBRARY, NAT};
use crate::paths::machine::{HeapMachine, table};
use crate::run_tests::in_runs;
use crate::select::is_application;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, method, recovered};

fn report(methods: &Arc<MethodTable>, events: &[Event]) -> Natives {
    let of = |events: &[Event]| {
        let mut analysis = NativesAnalysis::new(Arc::clone(methods), Arc::default());
        feed(&mut analysis, 1, events);
        analysis.report(usize::MAX, is_application)
    };
    let report = of(events);
    assert_eq!(report, of(&in_runs(methods, events)));
    report
}

fn of<'a>(report: &'a Natives, method: &str) -> &'a NativeRow {
    report.rows.iter().find(|m| m.method.contains(method)).unwrap()
}

fn nat(silent: &[&str]) -> Natives {
    let methods = Arc::new(table(&[NAT, LIBRARY]));
    let mut machine = HeapMachine::new(&methods, &[]);
    machine.silent = silent.to_vec();
    report(&methods, &machine.run("Nat"))
}

#[test]
fn e5_nat() {
    let r = nat(&[]);
    assert_eq!((r.calls.total(), r.not_called.total(), r.by_absence, r.silent.total()), (5, 3, 8, 0));
    assert!(r.exact);
    let (free, hash) = (of(&r, "freeMemory"), of(&r, "hashCode"));
    assert_eq!((free.calls.total(), free.by_absence, free.native), (5, 5, Some(true)));
    assert_eq!((hash.calls.total(), hash.not_called.total(), hash.by_absence), (0, 3, 3));
    let [caller] = &free.callers[..] else { panic!("{free:?}") };
    assert_eq!(
        (&*caller.caller, caller.bci, caller.line),
        ("Nat.main([Ljava/lang/String;)V", Some(15), Some(6))
    );
    assert_eq!(caller.calls.decoded, 5);
    assert_eq!(r.rows.len(), 2, "{:?}", r.rows);
    // `abs` is an intrinsic.
    let r = nat(&["abs"]);
    assert_eq!((r.calls.total(), r.not_called.total(), r.by_absence, r.silent.total()), (5, 3, 12, 4));
    let abs = of(&r, "abs");
    assert_eq!((abs.calls.total(), abs.silent.total(), abs.by_absence, abs.native), (0, 4, 4, Some(false)));
    let text = r.text();
    assert!(
        text.contains(
            "5        0           5               0         0            0  java.lang.Runtime.freeMemory()J\n"
        ),
        "{text}"
    );
    assert!(text.contains("total 5 native calls; the rule of absence finds 12\n"), "{text}");
    assert!(
        text.contains("5  Nat.main([Ljava/lang/String;)V @15 line 6  java.lang.Runtime.freeMemory()J\n"),
        "{text}"
    );
}

/// m0: 0 invokestatic m1; 3 invokestatic m2; 6 return. m1: native. m2: 0 return.
fn methods() -> Arc<MethodTable> {
    let mut t = MethodTable::default();
    let m = method("a/B", "f", &[184, 0, 1, 184, 0, 2, 177]);
    let invokes = [testing::calls(0, "a/B", "n"), testing::calls(3, "a/B", "g")].into();
    t.push(jportal_bytecode::Method { invokes, ..m });
    t.push(jportal_bytecode::Method {
        access_flags: 0x108,
        signature: "()V".into(),
        ..method("a/B", "n", &[])
    });
    t.push(jportal_bytecode::Method { signature: "()V".into(), ..method("a/B", "g", &[177]) });
    Arc::new(t)
}

fn native(entry: Entry) -> Event {
    Event::decoded(EventKind::Enter { method: MethodId(1), tier: Tier::Native, entry })
}

#[test]
fn upcalls_and_calls_by_the_vm() {
    let flow = [
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        native(Entry::Call),
        enter_as(2, Entry::Upcall),
        bytecode(2, 0),
        leave(2),
        enter_as(2, Entry::Upcall),
        leave_as(2, Exit::Unwind),
        leave(1),
        // A class is initialised before the call.
        bytecode(0, 3),
        enter_as(2, Entry::Upcall),
        bytecode(2, 0),
        leave(2),
        enter(2),
        bytecode(2, 0),
        leave(2),
        bytecode(0, 6),
        leave(0),
        native(Entry::Upcall),
        leave(1),
    ];
    let r = report(&methods(), &flow);
    let (n, g) = (of(&r, "a.B.n()V"), of(&r, "a.B.g()V"));
    assert_eq!((n.calls.total(), n.upcalls.total(), n.by_absence), (2, 2, 1));
    let callers: Vec<_> = n.callers.iter().map(|c| (&*c.caller, c.bci, c.calls.total())).collect();
    assert_eq!(callers, [("a.B.f(I)I", Some(0), 1), ("(VM)", None, 1)]);
    assert_eq!((g.unstarted.total(), g.by_absence, r.exact), (1, 1, true));
}

#[test]
fn what_is_not_known_is_no_call() {
    let start = [enter(0), bytecode(0, 0)];
    let (from, to, cause) = (Some(Bci(0)), Some(Bci(3)), Cause::EmptyLoop);
    let stretch = EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 };
    let r = report(&methods(), &[&start[..], &[Event::decoded(stretch), bytecode(0, 3)]].concat());
    let n = of(&r, "a.B.n()V");
    assert_eq!((n.calls.total(), n.unknown.total(), n.by_absence, n.exact, r.exact), (0, 1, 0, false, false));
    assert!(r.text().contains("≥ 0"), "{}", r.text());
    let r = report(&methods(), &[&start[..], &[gap(true), native(Entry::Call), leave(1)]].concat());
    let n = of(&r, "a.B.n()V");
    assert_eq!((n.callers[0].caller.as_str(), n.calls.total(), n.unknown.total()), ("(unknown)", 1, 1));
    assert!(!r.exact && r.text().contains("1 gap"), "{}", r.text());
}

#[test]
fn provenance_and_exclusion() {
    let flow = [enter(0), bytecode(0, 0), recovered(native(Entry::Call)), leave(1), bytecode(0, 3)];
    let mut a = NativesAnalysis::new(methods(), Arc::default());
    feed(&mut a, 1, &flow);
    let calls = a.report(9, |_| true).calls;
    assert_eq!(calls, Tally { recovered: 1, ..Tally::default() });
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let mut a = NativesAnalysis::new(methods(), Arc::default()).excluding(exclude);
    feed(&mut a, 1, &flow);
    let r = a.report(9, |_| true);
    assert_eq!((r.calls.total(), r.silent.total(), r.exact), (0, 0, false));
    assert_eq!(a.report(0, |m| &*m.name == "other").methods, 0, "the caller is not wanted");
}
