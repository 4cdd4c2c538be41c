// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Buckets of small flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::testing::{feed_as, thread};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, ThreadInfo};
use jportal_units::{Bci, MethodId, Tsc};

use super::*;
use crate::blocks::State;
use crate::blocks::interpreter::{foo, run, thr};
use crate::coverage::CoverageAnalysis;
use crate::run_tests::{RandomFlow, in_runs};
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods};

fn split_by(name: &'static str, methods: &MethodTable, events: &[Event]) -> Split {
    let mut split = SplitAnalysis::new(Arc::new(methods.clone()), Arc::default(), move |m| &*m.name == name);
    feed(&mut split, 1, events);
    split.report(|_| true)
}

fn names(split: &Split) -> Vec<(&str, u64)> {
    split.buckets.iter().map(|b| (&*b.name, b.bytecodes.total())).collect()
}

/// The sum over the buckets, and whether a bucket covers it, by line of a class.
fn sums(split: &Split) -> BTreeMap<(String, u16), u64> {
    let mut all = BTreeMap::new();
    for row in split.rows() {
        *all.entry((row.class.to_owned(), row.line)).or_default() += row.bytecodes;
    }
    all
}

#[test]
fn outermost_activations_are_buckets() {
    let program = thr();
    let (events, _) = run(&program);
    for events in [in_runs(&program, &events), events] {
        let split = split_by("call", &program, &events);
        // A call that throws: 6 of call, 8 of boom, 6 of the handler with the return; else 12 + 9.
        let thrown = 6 + 8 + 6;
        let calm = 6 + 5 + 1 + 9;
        let expected: Vec<u64> = (0..9).map(|i| if i % 3 == 0 { thrown } else { calm }).collect();
        let names = names(&split);
        assert_eq!(names[0].0, "Thr.call(I)V#1");
        assert_eq!(names.iter().take(9).map(|n| n.1).collect::<Vec<_>>(), expected);
        assert_eq!(names[9..], [("(none)", 72)]);
        assert_eq!(names.iter().map(|n| n.1).sum::<u64>(), 258);
        assert!(split.exact && split.buckets.iter().all(|b| b.complete && b.missed_is_certain));
    }
}

#[test]
fn nested_activations_belong_to_the_outermost() {
    let program = foo();
    let split = split_by("f", &program, &run(&program).0);
    assert_eq!(names(&split), [("Foo.f()V#1", 106 + 445 + 65), ("(none)", 8)]);
    let recursive = [enter(0), bytecode(0, 0), enter(0), bytecode(0, 0), leave(0), bytecode(0, 1), leave(0)];
    assert_eq!(names(&split_by("f", &methods(), &recursive)), [("a.B.f(I)I#1", 3)]);
}

#[test]
fn buckets_add_up_to_the_whole() {
    let methods = crate::run_tests::methods();
    for seed in 0..100 {
        let mut flow = RandomFlow::random(seed);
        (0..6).for_each(|_| flow.caller());
        let lined = with_lines(&methods);
        let mut whole = CoverageAnalysis::new(Arc::new(lined.clone()), Arc::default());
        feed(&mut whole, 1, &flow.events);
        let whole = whole.counts().rows(|_| true).into_iter().flat_map(|c| c.rows);
        let mut expected: BTreeMap<(String, u16), u64> = BTreeMap::new();
        for (parts, facts) in whole.flat_map(|row| row.variants) {
            for (line, of) in facts.lines(&parts).into_iter().filter(|(_, of)| of.times.total() > 0) {
                *expected.entry(("a.B".into(), line)).or_default() += of.executions.total();
            }
        }
        let split = split_by("f", &lined, &flow.events);
        let seen: BTreeMap<_, _> = sums(&split).into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(seen, expected, "seed {seed}");
        let first = &split.buckets[0];
        assert!(first.cells.windows(2).all(|c| c[0].line < c[1].line));
    }
}

fn with_lines(methods: &MethodTable) -> MethodTable {
    let mut lined = MethodTable::default();
    for m in methods.iter() {
        let first = 100 * (1 + m.id.0 as u16);
        let row = |bci: u16| jportal_bytecode::LineRow { bci: Bci(bci), line: first + bci };
        lined.push(Method { lines: [row(0), row(4), row(8)].into(), ..m.clone() });
    }
    lined
}

#[test]
fn osr_and_deoptimisation_continue_a_bucket() {
    let events = [
        enter(0),
        bytecode(0, 0),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Osr),
        bytecode(0, 1),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        bytecode(0, 8),
        leave_as(0, Exit::Unwind),
        enter(0),
        bytecode(0, 0),
        leave(0),
    ];
    let split = split_by("f", &methods(), &events);
    assert_eq!(names(&split), [("a.B.f(I)I#1", 3), ("a.B.f(I)I#2", 1)]);
    assert!(split.exact);
}

#[test]
fn a_bucket_that_is_not_whole_says_so() {
    let complete = |events: &[Event]| {
        let split = split_by("f", &methods(), events);
        assert!(split.buckets.iter().any(|b| !b.missed_is_certain));
        let rows = split.buckets.iter().map(|b| (b.name.clone(), b.bytecodes.total(), b.complete, b.exact));
        rows.map(|(name, n, complete, exact)| (name.replace("a.B.", ""), n, complete, exact))
            .collect::<Vec<_>>()
    };
    let f = |n, complete, exact| ("f(I)I#1".to_owned(), n, complete, exact);
    let none = |n| ("(none)".to_owned(), n, true, true);
    assert_eq!(complete(&[enter(0), bytecode(0, 0)]), [f(1, false, true)], "the recording ended");
    let found = [enter_as(0, Entry::Found), bytecode(0, 1), leave(0), bytecode(1, 0)];
    assert_eq!(complete(&found)[0], f(1, false, false));
    assert_eq!(
        complete(&[bytecode(0, 1), leave(0), enter(1), bytecode(1, 0)]),
        [f(1, false, false), none(1)]
    );
    let given_up = [enter(0), bytecode(0, 0), leave_as(0, Exit::Lost), gap(true), enter(1), bytecode(1, 0)];
    assert_eq!(complete(&given_up), [f(1, false, false), none(1)]);
    let lost = [enter(1), enter(0), bytecode(0, 0), gap(true), bytecode(1, 0)];
    assert_eq!(complete(&lost)[0], f(1, false, false));
    let kept = [enter(0), bytecode(0, 0), gap(false), bytecode(0, 1), leave(0)];
    assert_eq!(complete(&kept), [f(2, true, false)]);
}

#[test]
fn unknown_lines_are_in_the_bucket_that_may_have_executed_them() {
    let cause = Cause::ConditionalExpression;
    let (from, to) = (Some(Bci(1)), Some(Bci(9)));
    let stretch = Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 });
    let first = [enter(0), bytecode(0, 0), bytecode(0, 1), stretch, bytecode(0, 9), leave(0)];
    let second = [enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 4), leave(0)];
    let split = split_by("f", &methods(), &[&first[..], &second].concat());
    let covers = |line| -> Vec<_> {
        // The methods of the tests are in A.java.
        split
            .which_covers("a/A.java", line)
            .iter()
            .map(|c| (&c.bucket[c.bucket.len() - 2..], c.state))
            .collect()
    };
    assert_eq!(covers(10), [("#1", State::Executed), ("#2", State::Executed)]);
    assert_eq!(covers(11), [("#1", State::Unknown), ("#2", State::Executed)]);
    assert_eq!(covers(12), [("#1", State::Executed)]);
    assert_eq!(split.buckets.iter().map(|b| b.exact).collect::<Vec<_>>(), [false, true]);
    assert!(split.text().contains("2–3"), "{}", split.text());
}

#[test]
fn which_buckets_cover_a_line() {
    let program = thr();
    let split = split_by("call", &program, &run(&program).0);
    let names = |file: &str, line| -> Vec<String> {
        split.which_covers(file, line).iter().map(|c| c.bucket.to_owned()).collect()
    };
    assert_eq!(names("Thr.java", 5), ["(none)"]);
    assert_eq!(names("/home/x/src/Thr.java", 4).len(), 9);
    assert!(names("hr.java", 4).is_empty() && names("Thr.java", 99).is_empty());
    let row = split.rows().find(|r| r.bucket == "Thr.call(I)V#2" && r.line == 3).unwrap();
    assert_eq!((row.times, row.bytecodes, row.tid), (1, 9, Some(1)));
}

fn at(tid: u32, started: u64) -> ThreadInfo {
    ThreadInfo { started: Tsc(started), ..thread(tid) }
}

#[test]
fn threads_in_any_order_give_the_same_buckets() {
    let flow = [enter(0), bytecode(0, 0), leave(0), enter(1), bytecode(1, 0), leave(1)];
    let report = |order: [u32; 3]| {
        let begins = |m: &Method| &*m.name == "f";
        let mut split = SplitAnalysis::new(methods(), Arc::default(), begins);
        for tid in order {
            let events = if tid == 3 { &flow[3..] } else { &flow[..] };
            feed_as(&mut split, &at(tid, 10 - u64::from(tid)), events);
        }
        split.report(|_| true)
    };
    let split = report([1, 2, 3]);
    assert_eq!(split, report([3, 2, 1]));
    assert_eq!(
        names(&split),
        [("a.B.f(I)I#1", 1), ("a.B.f(I)I#2", 1), ("(none)", 2), ("(other threads)", 1)]
    );
    assert_eq!(split.buckets[0].thread.as_ref().unwrap().tid, 2, "the thread that started first");
}

#[test]
fn after_the_limit_activations_share_a_bucket() {
    let once = [enter(0), bytecode(0, 0), bytecode(0, 1), leave(0)];
    let begins = |m: &Method| &*m.name == "f";
    let mut split = SplitAnalysis::new(methods(), Arc::default(), begins).limit(2);
    feed(&mut split, 1, &vec![once; 5].concat());
    let split = split.report(|_| true);
    assert_eq!(names(&split), [("a.B.f(I)I#1", 2), ("a.B.f(I)I#2", 2), ("(further)", 6)]);
    assert_eq!(split.buckets[2].activations, 3);
    assert!(split.text().contains("3 activations"), "{}", split.text());
    assert_eq!(split.buckets[2].cells[0].times.total(), 3);
    assert_eq!(State::of(&split.buckets[2].cells[0].times, false), State::Executed);
}
