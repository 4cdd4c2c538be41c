// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Provenance, time, limits and threads, on flows by hand.

use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::{Analysis, Entry, Event, EventKind, Exclude, Exit};
use jportal_units::{Bci, MethodId, Tsc};

use super::rule_tests::{and, called, methods, show, up, with};
use super::testing::{lines, tree_of};
use super::{CallTree, Layout, Options, TreeAnalysis, Weight};
use crate::testing::*;

#[test]
fn provenances_are_kept_apart_and_left_out() {
    let events = and(&[
        recovered(bytecode(0, 1)),
        projected(bytecode(0, 8)),
        recovered(leave(0)),
        recovered(enter(5)),
        recovered(bytecode(5, 0)),
    ]);
    let tree = show(&events);
    let f = &tree.nodes[2];
    assert_eq!((f.bytecodes.decoded, f.bytecodes.recovered, f.bytecodes.projected), (1, 1, 1));
    assert_eq!((f.exact, tree.nodes[1].exact, tree.exact, tree.inexact.recovered), (false, true, false, 4));
    let mut analysis = TreeAnalysis::new(methods(), Arc::default(), Options::default())
        .excluding(Exclude { recovered: true, ..Exclude::default() });
    feed(&mut analysis, 1, &events);
    let tree = analysis.tree().unwrap();
    assert_eq!(lines(&tree), ["a.B.g 1/2", " a.B.f ≥ 1/2"], "h was recovered");
    assert_eq!(tree.inexact.excluded, 4);
}

#[test]
fn time_is_shared_by_the_frames_on_top() {
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let events = [
        time(100),
        up(1),
        bytecode(1, 0),
        bytecode(1, 1),
        enter(0),
        time(140),
        bytecode(0, 0),
        time(150),
        gap(false),
        time(900),
        bytecode(0, 1),
        time(905),
    ];
    let ticks = |tree: &CallTree| tree.nodes.iter().map(|n| n.ticks).collect::<Vec<_>>();
    // 40 ticks for three shares of g and one of f. `gap` begins at 5, before all this.
    assert_eq!(ticks(&show(&events)), [0, 30, 10 + 10 + 5]);
    let clock = |_: &jportal_flow::ThreadInfo, t: Tsc| t.get() / 10;
    let mut analysis =
        TreeAnalysis::new(methods(), Arc::default(), Options::default()).timed_by(Arc::new(clock));
    feed(&mut analysis, 1, &events);
    let tree = analysis.tree().unwrap();
    assert_eq!(ticks(&tree), [0, 3, 1 + 1]);
    let text = tree.text(&Layout { weight: Weight::Time, ..Layout::default() });
    assert!(text.contains("≥ 5 ticks") && text.contains("total ticks"), "{text}");
}

#[test]
fn too_many_nodes_are_refused_with_the_path_that_grew() {
    let options = Options { max_nodes: 20, ..Options::default() };
    let mut analysis = TreeAnalysis::new(methods(), Arc::default(), options);
    let mut thread = analysis.begin(&thread(9));
    let down = vec![[enter(5), bytecode(5, 0)]; 30].concat();
    assert!(analysis.events(&mut thread, &[&[up(5)][..], &down].concat()).is_break());
    analysis.merge(thread);
    let error = analysis.tree().unwrap_err();
    assert_eq!((error.limit, error.thread.as_str()), (20, "9 \"t9\""));
    assert_eq!(
        error.path,
        format!("{0}… 12 more … > {1}", "a.B.h(I)I > ".repeat(4), ["a.B.h(I)I"; 4].join(" > "))
    );
    assert!(error.to_string().contains("--fold-recursion"));
    let folded = Options { fold_recursion: true, ..options };
    assert_eq!(with(folded, &[&[up(5)][..], &down].concat()), ["a.B.h 31/30"]);
}

#[test]
fn deeper_frames_count_for_the_deepest_one() {
    let mut analysis = TreeAnalysis::new(methods(), Arc::default(), Options::default());
    analysis.rules.deepest = 2;
    let events = and(&[
        enter(5),
        bytecode(5, 0),
        leave_as(5, Exit::Replaced),
        enter_as(5, Entry::Osr),
        bytecode(5, 1),
        leave(5),
        bytecode(0, 1),
        leave(0),
        bytecode(1, 4),
    ]);
    feed(&mut analysis, 1, &events);
    let tree = analysis.tree().unwrap();
    assert_eq!(lines(&tree), ["a.B.g 1/3", " a.B.f ≥ 2/4"]);
}

#[test]
fn threads_are_apart_or_merged_in_any_order() {
    let (one, two) = (called(), vec![up(1), bytecode(1, 0), up(5), bytecode(5, 0)]);
    let tree = |merged, order: [u32; 2]| {
        let options = Options { merged, ..Options::default() };
        let mut analysis = TreeAnalysis::new(methods(), Arc::default(), options);
        order.iter().for_each(|n| feed(&mut analysis, *n, if *n == 1 { &one } else { &two }));
        feed(&mut analysis, 8, &[]);
        analysis.tree().unwrap()
    };
    let apart = tree(false, [1, 2]);
    assert_eq!(lines(&apart), ["a.B.g 1/2", " a.B.f 1/1", "a.B.g 1/1", " a.B.h 1/1"]);
    let roots: Vec<_> = apart.threads.iter().map(|t| (t.tid, t.root, t.exact)).collect();
    assert_eq!(roots, [(Some(1), 0, true), (Some(2), 3, true)], "a thread without Java has no tree");
    let merged = tree(true, [1, 2]);
    assert_eq!(lines(&merged), ["a.B.g 2/3", " a.B.f 1/1", " a.B.h 1/1"]);
    assert_eq!((merged.threads.len(), merged.threads[0].tid), (1, None));
    assert_eq!((tree(false, [2, 1]), tree(true, [2, 1])), (apart, merged));
}

#[test]
fn a_name_cannot_forge_a_line() {
    let mut t = MethodTable::default();
    t.push(method("a/B", "f\nfake", &[0, 177]));
    let tree = tree_of(&Arc::new(t), &[up(0), bytecode(0, 0)], Options::default());
    let text = tree.text(&Layout::default());
    assert!(text.contains("f\\nfake") && text.lines().count() == 3, "{text}");
}

#[test]
fn blocks_whose_beginning_was_not_counted_count_from_where_they_are_entered() {
    // 0 iload_0; 1 ifeq 8 | 4 iconst_1; 5 goto 9 | 8 iconst_0 | 9 ireturn
    let options = Options { counting: super::Counting::Both, ..Options::default() };
    let figures = |tree: &CallTree| tree.delta.map(|d| (d.default, d.precise));
    let (from, to) = (Some(Bci(1)), Some(Bci(5)));
    let cause = jportal_flow::Cause::ConditionalMove;
    let lost = Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 });
    let events = [up(0), bytecode(0, 0), bytecode(0, 1), lost, bytecode(0, 5), bytecode(0, 9)];
    assert_eq!(figures(&tree_of(&methods(), &events, options)), Some((4, 4)));
    let mut analysis = TreeAnalysis::new(methods(), Arc::default(), options)
        .excluding(Exclude { recovered: true, ..Exclude::default() });
    let events = [up(0), recovered(bytecode(0, 0)), bytecode(0, 1), bytecode(0, 8), bytecode(0, 9)];
    feed(&mut analysis, 1, &events);
    assert_eq!(figures(&analysis.tree().unwrap()), Some((3, 3)));
}
