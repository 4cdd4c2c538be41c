// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Numbers of blocks, steps of small flows, and open ends.

use std::sync::Arc;

use jportal_bytecode::testing::{calls, row};
use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit};
use jportal_units::{Bci, MethodId, Tsc};

use super::*;
use crate::Inlined;
use crate::testing::{BRANCHY, bytecode, enter, enter_as, gap, leave, leave_as, method, methods, recovered};

const M: MethodId = MethodId(0);

/// The steps of a flow of [`methods`], without native methods.
fn steps(events: &[Event]) -> Vec<String> {
    let steps = Steps::new(methods(), |m| &*m.class_name == "a/B", false, Exclude::default());
    let (mut thread, mut all) = (StepsThread::default(), Vec::new());
    let mut out = |step: Step<'_>, _| {
        all.push(match step {
            Step::Block { method, block } => format!("{method}:{block}"),
            Step::Start { method } => format!("start {method}"),
            Step::End { method } => format!("end {method}"),
            Step::Gap(_) => "gap".to_owned(),
            other => format!("{other:?}"),
        });
    };
    events.iter().for_each(|e| steps.event(&mut thread, e, &mut out));
    steps.end(&mut thread, &mut out);
    all
}

#[test]
fn blocks_are_numbered_by_bci() {
    let n = BlockNumbers::of(&method("a/B", "f", BRANCHY)).unwrap();
    assert_eq!((n.len(), n.is_empty()), (4, false));
    assert_eq!(
        [0, 1, 3].map(|b| n.extent(b)),
        [(0, 4), (4, 8), (9, 10)].map(|(a, b)| Some((Bci(a), Bci(b))))
    );
    assert_eq!(n.extent(4), None);
    assert_eq!(
        [0, 1, 5, 8, 9].map(|b| n.at(Bci(b))),
        [(0, true), (0, false), (1, false), (2, true), (3, true)].map(Some)
    );
    assert_eq!((n.at(Bci(10)), n.at(Bci(u16::MAX))), (None, None));
    assert_eq!(n.begun((Bci(0), Bci(4))), Some(0..2));
    assert_eq!(n.begun((Bci(5), Bci(9))), Some(2..4));
    assert!(n.begun((Bci(1), Bci(1))).unwrap().is_empty() && n.begun((Bci(9), Bci(1))).unwrap().is_empty());
    assert_eq!(n.begun((Bci(9), Bci(10))), None);
    assert_eq!(
        (n.instructions(Bci(0), Bci(10)), n.instructions(Bci(1), Bci(8)), n.instructions(Bci(8), Bci(1))),
        (6, 3, 0)
    );
    let none = BlockNumbers::of(&method("a/B", "n", &[])).unwrap();
    assert!(none.is_empty() && none.at(Bci(0)).is_none() && none.extent(0).is_none());
}

#[test]
fn malformed_code_has_no_blocks() {
    let bad = |m: Method| BlockNumbers::of(&m).is_err();
    assert!(bad(method("a/B", "f", &[202])));
    assert!(bad(method("a/B", "f", &[153, 0, 1, 177])), "a branch into an instruction");
    assert!(bad(Method {
        exceptions: Box::new([row(0, 1, 1, None)]),
        ..method("a/B", "f", &[17, 0, 0, 177])
    }));
    let mut t = MethodTable::default();
    t.push(method("a/B", "f", &[202]));
    let numbers = Numbers::new(&t);
    assert!(numbers.get(&t, M).is_none() && numbers.get(&t, MethodId(1)).is_none());
}

#[test]
fn only_methods_in_scope_have_steps() {
    let abs = 2;
    let events = [
        enter(0),
        bytecode(0, 0),
        enter(abs),
        bytecode(abs, 0),
        gap(false),
        bytecode(abs, 8),
        leave(abs),
        bytecode(0, 5),
        leave(0),
    ];
    let at = "At { method: MethodId(m0), bci: Bci(5) }";
    assert_eq!(steps(&events), ["start m0", "m0:0", "gap", at, "end m0"]);
}

#[test]
fn a_start_waits_for_the_first_bytecode() {
    assert_eq!(steps(&[enter(0)]), ["start m0"], "the recording ends here");
    let unstarted = "Left { method: MethodId(m0), how: Unstarted }";
    assert_eq!(steps(&[enter(0), leave_as(0, Exit::Unwind)]), [unstarted]);
    let time = Event::decoded(EventKind::Time(Tsc(5)));
    let unwound = steps(&[enter(0), time.clone(), leave_as(0, Exit::Unwind)]);
    assert_eq!(unwound, ["Time(Tsc(5))", unstarted], "time does not start a method");
    assert_eq!(steps(&[enter(0), time, bytecode(0, 0)]), ["start m0", "Time(Tsc(5))", "m0:0"]);
    assert_eq!(steps(&[enter(0), gap(true)]), ["start m0", "gap"]);
    assert_eq!(steps(&[enter(0), enter(1), bytecode(1, 0)]), ["start m0", "start m1", "m1:0"]);
    let unwind = "Left { method: MethodId(m0), how: Unwind }";
    assert_eq!(steps(&[enter(0), bytecode(0, 1), leave_as(0, Exit::Unwind)]), ["start m0", unwind]);
}

#[test]
fn how_steps_are_known_is_said_at_each_change() {
    let events = [enter(0), recovered(bytecode(0, 0)), recovered(bytecode(0, 8)), bytecode(0, 9), gap(false)];
    assert_eq!(
        steps(&events),
        ["start m0", "Known(Recovered)", "m0:0", "m0:2", "Known(Decoded)", "m0:3", "gap"]
    );
    assert_eq!(
        steps(&[enter_as(0, Entry::Found), bytecode(0, 1)])[1..],
        ["At { method: MethodId(m0), bci: Bci(1) }"]
    );
}

#[test]
fn what_a_flow_leaves_open() {
    let t = methods();
    let shapes = Shapes::new(&t);
    let watched = |events: &[Event]| {
        let mut watch = Watch::default();
        events.iter().for_each(|e| watch.event((&t, &shapes), e, Exclude::default()));
        watch.end()
    };
    let stretch = EventKind::Unresolved {
        method: M,
        from: Some(Bci(1)),
        to: Some(Bci(9)),
        cause: Cause::ConditionalMove,
        callers: 0,
    };
    let stretch = Event::decoded(stretch);
    let mut open = watched(&[enter(0), bytecode(0, 0), bytecode(0, 1), stretch, bytecode(0, 9)]);
    let inlined = Inlined::default();
    let mut accounts = Accounts::new(&t, &inlined);
    // `8` or `4, 5`.
    let missing = accounts.methods(&open)[&M].bytecodes;
    assert_eq!((missing.min, missing.max.0), (1, Some(2)));
    assert!(!open.is_lossy() && accounts.calls(&open).is_empty());
    open.merge(watched(&[gap(true)]));
    assert!(open.is_lossy());
    assert_eq!((open.inexact().gaps, open.inexact().stretches()), (1, 1));
    assert!(accounts.methods(&Open::default()).is_empty());
}

#[test]
fn a_silent_call_is_open() {
    // 0 invokestatic java/lang/Math.abs()V; 3 return.
    let caller = Method {
        invokes: Box::new([calls(0, "java/lang/Math", "abs")]),
        ..method("a/B", "f", &[184, 0, 0, 177])
    };
    let abs = Method { signature: "()V".into(), intrinsic: 1, ..method("java/lang/Math", "abs", &[177]) };
    let mut t = MethodTable::default();
    t.push(caller);
    t.push(abs);
    let (shapes, inlined) = (Shapes::new(&t), Arc::new(Inlined::default()));
    let mut watch = Watch::default();
    for e in [enter(0), bytecode(0, 0), bytecode(0, 3)] {
        watch.event((&t, &shapes), &e, Exclude::default());
    }
    assert_eq!(watch.stack().top().map(|f| f.method), Some(M));
    let open = watch.end();
    let calls = Accounts::new(&t, &inlined).calls(&open);
    assert_eq!(calls[&(M, Bci(0), MethodId(1))].silent_calls, 1);
}
