// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Trees of buckets.

use std::collections::BTreeMap;
use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::testing::{feed_as, thread};
use jportal_flow::{Entry, Event, Exit, ThreadInfo};
use jportal_units::Tsc;

use super::examples::foo;
use super::testing::{executed, lines};
use super::{CallTree, Kind, Layout, Natives, Options, TreeAnalysis, Upcalls};
use crate::coverage::split::SplitAnalysis;
use crate::run_tests::{RandomFlow, in_runs};
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods};

fn analysis(name: &'static str, methods: &MethodTable, options: Options) -> TreeAnalysis {
    let analysis = TreeAnalysis::new(Arc::new(methods.clone()), Arc::default(), options);
    analysis.split(move |m| &*m.name == name)
}

/// The trees of one thread. Those of the same events in runs are equal.
fn split_by(name: &'static str, methods: &MethodTable, events: &[Event]) -> CallTree {
    let tree = |events: &[Event]| {
        let mut split = analysis(name, methods, Options::default());
        feed(&mut split, 1, events);
        split.tree().unwrap()
    };
    let single = tree(events);
    assert_eq!(tree(&in_runs(methods, events)), single);
    assert_eq!(single.threads_of_nodes().map(|of| of.len()), Ok(single.nodes.len()));
    single
}

/// Of each bucket: name, bytecodes, whether it is complete and exact.
fn buckets(tree: &CallTree) -> Vec<(&str, u64, bool, bool)> {
    let of = |t: &super::ThreadTree| {
        let complete = t.bucket.as_ref().unwrap().complete;
        (tree.nodes[t.root as usize].total, complete, t.exact)
    };
    tree.threads.iter().map(|t| (&*t.name, of(t).0, of(t).1, of(t).2)).collect()
}

#[test]
fn each_bucket_has_a_tree() {
    let program = foo();
    let (events, _) = executed(&program, 0);
    let tree = split_by("g", &program, &events);
    let of_g: Vec<(String, u64)> = (1..=10).map(|i| (format!("Foo.g(I)V#{i}"), 8 * i + 6)).collect();
    let mut expected: Vec<_> = of_g.iter().map(|(name, n)| (&**name, *n, true, true)).collect();
    expected.push(("(none)", 625 - 500, true, true));
    assert_eq!(buckets(&tree), expected);
    let lines = lines(&tree);
    assert_eq!(lines[..4], ["Foo.g 1/13", " Foo.h 1/1", "Foo.g 1/20", " Foo.h 2/2"]);
    let outside =
        ["Foo.main 1/5", " Foo.<init> 1/3", "  java.lang.Object.<init> 1/1", " Foo.f 1/106", "  Foo.h 10/10"];
    assert_eq!(lines[20..], outside);
    assert!(tree.settings.split && tree.exact);
    let text = tree.text(&Layout::default());
    let head: Vec<&str> = text.lines().filter(|l| l.starts_with("Foo.g(I)V#2")).collect();
    let [head] = head[..] else { panic!("{text}") };
    assert!(head.starts_with("Foo.g(I)V#2, thread \"t1\" (tid 1)  "), "{head}");
    assert!(head.ends_with("  exact, 22 bytecodes, 3 invocations"), "{head}");
}

/// The invocations and bytecodes by method.
fn sums(tree: &CallTree) -> BTreeMap<&str, (u64, u64)> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for node in tree.nodes.iter().filter(|n| n.parent.is_some() && n.kind != Kind::Unknown) {
        let sum = sums.entry(&node.method).or_default();
        *sum = (sum.0 + node.invocations.total(), sum.1 + node.bytecodes.total());
    }
    sums
}

#[test]
fn trees_of_buckets_add_up_to_the_whole_and_are_those_of_the_coverage() {
    let methods = crate::run_tests::methods();
    for (seed, name) in (0..100).flat_map(|seed| ["f", "g"].map(|name| (seed, name))) {
        let mut flow = RandomFlow::random(seed);
        (0..6).for_each(|_| flow.caller());
        let mut whole = TreeAnalysis::new(Arc::clone(&methods), Arc::default(), Options::default());
        feed(&mut whole, 1, &flow.events);
        let split = split_by(name, &methods, &flow.events);
        let whole = whole.tree().unwrap();
        assert_eq!(sums(&split), sums(&whole), "seed {seed}");
        assert_eq!(split.inexact, whole.inexact, "seed {seed}");
        let mut coverage = SplitAnalysis::new(Arc::clone(&methods), Arc::default(), |m| &*m.name == name);
        feed(&mut coverage, 1, &flow.events);
        let coverage = coverage.report(|_| true);
        let of_tree = buckets(&split);
        for (bucket, bytecodes, complete, _) in &of_tree {
            let of_coverage = coverage.buckets.iter().find(|b| b.name == *bucket);
            let of_coverage = of_coverage.map(|b| (b.bytecodes.total(), b.complete));
            assert_eq!(of_coverage, Some((*bytecodes, *complete)), "seed {seed}: {bucket}");
        }
        assert_eq!(of_tree.len(), coverage.buckets.len(), "seed {seed}");
    }
}

#[test]
fn recursion_osr_and_deoptimisation_continue_a_bucket() {
    let recursive = [enter(0), bytecode(0, 0), enter(0), bytecode(0, 0), leave(0), bytecode(0, 1), leave(0)];
    let continued = [
        enter(0),
        bytecode(0, 0),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Osr),
        bytecode(0, 1),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        bytecode(0, 8),
        leave_as(0, Exit::Unwind),
    ];
    let tree = split_by("f", &methods(), &[&recursive[..], &continued].concat());
    assert_eq!(buckets(&tree), [("a.B.f(I)I#1", 3, true, true), ("a.B.f(I)I#2", 3, true, true)]);
    assert_eq!(lines(&tree), ["a.B.f 1/2", " a.B.f 1/1", "a.B.f 1/3"]);
}

#[test]
fn what_is_not_whole_says_so() {
    let of = |events: &[Event]| {
        let tree = split_by("f", &methods(), events);
        let all = buckets(&tree)
            .into_iter()
            .map(|(name, n, complete, exact)| (name.replace("a.B.", ""), n, complete, exact));
        all.collect::<Vec<_>>()
    };
    let f = |n, complete, exact| ("f(I)I#1".to_owned(), n, complete, exact);
    let none = |n, exact| ("(none)".to_owned(), n, true, exact);
    assert_eq!(of(&[enter(0), bytecode(0, 0)]), [f(1, false, false)], "the recording ended");
    let lost = [enter(1), bytecode(1, 0), enter(0), bytecode(0, 0), gap(true), bytecode(1, 0)];
    assert_eq!(of(&lost), [f(1, false, false), none(2, false)]);
    let main = enter_as(1, Entry::Upcall);
    let kept = [main, bytecode(1, 0), enter(0), gap(false), bytecode(0, 1), leave(0), leave(1)];
    assert_eq!(of(&kept), [f(1, true, false), none(1, true)]);
    let before = [gap(true), enter_as(0, Entry::Upcall), bytecode(0, 0), leave(0)];
    assert_eq!(of(&before), [f(1, true, true), none(0, false)], "the gap is none of the bucket");
    let found = [bytecode(0, 1), leave(0), enter_as(1, Entry::Upcall), bytecode(1, 0), leave(1)];
    assert_eq!(of(&found), [f(1, false, false), none(1, true)]);
    let tree = split_by("f", &methods(), &found);
    assert!(tree.text(&Layout::default()).contains("  not complete, "), "{}", tree.text(&Layout::default()));
}

fn at(tid: u32, started: u64) -> ThreadInfo {
    ThreadInfo { started: Tsc(started), ..thread(tid) }
}

#[test]
fn threads_in_any_order_give_the_same_trees_of_buckets() {
    let flow = [enter(0), bytecode(0, 0), leave(0), enter_as(1, Entry::Upcall), bytecode(1, 0), leave(1)];
    let tree = |order: [u32; 3], name| {
        let mut split = analysis(name, &methods(), Options::default());
        for tid in order {
            let events = if tid == 3 { &flow[3..] } else { &flow[..] };
            feed_as(&mut split, &at(tid, 10 - u64::from(tid)), events);
        }
        split.tree().unwrap()
    };
    let split = tree([1, 2, 3], "f");
    assert_eq!(split, tree([3, 2, 1], "f"));
    let names: Vec<_> = buckets(&split).iter().map(|b| (b.0, b.1)).collect();
    assert_eq!(names, [("a.B.f(I)I#1", 1), ("a.B.f(I)I#2", 1), ("(none)", 2), ("(other threads)", 1)]);
    assert_eq!(split.threads[0].tid, Some(2), "the thread that started first");
    assert_eq!(split.threads[2].bucket.as_ref().unwrap().thread, None);
    let names: Vec<_> = split.threads.iter().map(|t| t.name.clone()).collect();
    let mut of_rows = Vec::new();
    split
        .rows(|row| {
            of_rows.push(row.thread.to_owned());
            Ok::<_, ()>(())
        })
        .unwrap();
    of_rows.dedup();
    assert_eq!(of_rows[2..], names[2..]);
    assert_eq!(of_rows[0], "a.B.f(I)I#1 (tid 2)");
    let other = tree([1, 2, 3], "no such method");
    assert_eq!(buckets(&other).iter().map(|b| (b.0, b.1)).collect::<Vec<_>>(), [("(other threads)", 5)]);
}

#[test]
fn upcalls_and_hidden_frames_stay_in_their_bucket() {
    let flow = [
        enter(1),
        enter(0),
        bytecode(0, 0),
        enter_as(1, Entry::Upcall),
        bytecode(1, 0),
        leave(1),
        leave(0),
        leave(1),
    ];
    let options = Options { upcalls: Upcalls::Root, natives: Natives::None, ..Options::default() };
    let mut split = analysis("f", &methods(), options);
    feed(&mut split, 1, &flow);
    assert_eq!(buckets(&split.tree().unwrap())[0], ("a.B.f(I)I#1", 2, true, true));
    let options = Options { hide: super::Hide::Splice, ..Options::default() };
    let mut split = analysis("f", &methods(), options).within(|m| &*m.name == "g");
    feed(&mut split, 1, &flow);
    let tree = split.tree().unwrap();
    assert_eq!(buckets(&tree)[0], ("a.B.f(I)I#1", 1, true, true));
    assert_eq!(lines(&tree)[..1], ["a.B.g 1/1"]);
}

#[test]
fn after_the_limit_activations_share_a_tree() {
    let once = [enter(0), bytecode(0, 0), bytecode(0, 1), leave(0)];
    let mut split = analysis("f", &methods(), Options::default());
    split.rules.most_buckets = 2;
    feed(&mut split, 1, &vec![once.clone(); 5].concat());
    let tree = split.tree().unwrap();
    let names: Vec<_> = buckets(&tree).iter().map(|b| (b.0, b.1)).collect();
    assert_eq!(names, [("a.B.f(I)I#1", 2), ("a.B.f(I)I#2", 2), ("(further)", 6)]);
    assert_eq!(tree.threads[2].bucket.as_ref().unwrap().activations, 3);
    assert!(tree.text(&Layout::default()).contains("(further), 3 activations  "));
    let mut full = analysis("f", &methods(), Options { max_nodes: 3, ..Options::default() });
    feed(&mut full, 1, &vec![once; 3].concat());
    assert!(full.tree().unwrap_err().to_string().contains("more than 3 nodes"));
}
