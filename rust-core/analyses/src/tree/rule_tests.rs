// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Each rule from events to the tree, on flows by hand.

use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable, testing::calls};
use jportal_flow::{Cause, Entry, Event, EventKind, Exit, Orphan, Tier};
use jportal_units::{Bci, MethodId};

use super::testing::{lines, table, tree_of};
use super::{CallTree, Hide, Kind, Layout, Limits, Natives, Options, TreeAnalysis, Upcalls};
use crate::hidden::Inlined;
use crate::testing::*;

/// m0 `f` is [`BRANCHY`]. m1 `g`: 0 `nop`; 1 `invokestatic` f; 4 `nop`; 5 `goto` 0. m2 is native.
/// m3 `java.L.l`: 0 `invokestatic` Math.abs; 3 `return`. m4 is a lambda. m5 `h` is `nop`; `return`.
pub(super) fn methods() -> Arc<MethodTable> {
    let invokes = |site| Box::new([site]);
    table(vec![
        method("a/B", "f", BRANCHY),
        Method {
            invokes: invokes(calls(1, "a/B", "f")),
            ..method("a/B", "g", &[0, 184, 0, 1, 0, 167, 255, 251])
        },
        Method { access_flags: 0x100, ..method("a/B", "n", &[]) },
        Method {
            invokes: invokes(calls(0, "java/lang/Math", "abs")),
            ..method("java/L", "l", &[184, 0, 1, 177])
        },
        method("a/B$$Lambda$14+0x0000000800c01208", "run", &[0, 177]),
        method("a/B", "h", &[0, 177]),
        method("java/lang/Math", "abs", &[177]),
    ])
}

pub(super) fn show(events: &[Event]) -> CallTree {
    tree_of(&methods(), events, Options::default())
}

pub(super) fn with(options: Options, events: &[Event]) -> Vec<String> {
    lines(&tree_of(&methods(), events, options))
}

fn enter_tier(m: u32, tier: Tier) -> Event {
    Event::decoded(EventKind::Enter { method: MethodId(m), tier, entry: Entry::Call })
}

pub(super) fn up(m: u32) -> Event {
    enter_as(m, Entry::Upcall)
}

fn unresolved(m: u32, from: u16, to: Option<u16>, callers: u16) -> Event {
    let cause = if callers > 0 { Cause::EmptyLoop } else { Cause::ConditionalMove };
    let (from, to) = (Some(Bci(from)), to.map(Bci));
    Event::decoded(EventKind::Unresolved { method: MethodId(m), from, to, cause, callers })
}

fn catch(m: u32, bci: u16) -> Event {
    Event::decoded(EventKind::Catch { method: MethodId(m), bci: Bci(bci) })
}

/// `g` calls `f` and waits.
pub(super) fn called() -> Vec<Event> {
    vec![up(1), bytecode(1, 0), bytecode(1, 1), enter(0), bytecode(0, 0)]
}

pub(super) fn and(rest: &[Event]) -> Vec<Event> {
    [called(), rest.to_vec()].concat()
}

#[test]
fn an_activation_continues_after_osr_and_deoptimisation() {
    for entry in [Entry::Osr, Entry::Deoptimisation] {
        let tree = show(&and(&[leave_as(0, Exit::Replaced), enter_as(0, entry), bytecode(0, 1), leave(0)]));
        assert_eq!((lines(&tree), tree.exact), (vec!["a.B.g 1/2".into(), " a.B.f 1/2".into()], true));
    }
    // Both inlined frames are replaced: the upper one first, and it comes back last.
    let replaced = [leave_as(0, Exit::Replaced), leave_as(1, Exit::Replaced)];
    let back = [1, 0].map(|m| enter_as(m, Entry::Deoptimisation));
    let tree = show(&and(&[&replaced[..], &back, &[bytecode(0, 1), leave(0), bytecode(1, 4)]].concat()));
    assert_eq!((lines(&tree), tree.exact), (vec!["a.B.g 1/3".into(), " a.B.f 1/2".into()], true));
    // Frames that do not come back are found.
    let tree = show(&and(&[leave_as(0, Exit::Replaced), enter_as(5, Entry::Osr), bytecode(5, 0)]));
    assert_eq!(lines(&tree)[1..], [" a.B.f ≥ 1/1", " a.B.h ≥ 0/1"]);
    assert_eq!((tree.nodes[3].found, tree.inexact.found, tree.exact), (1, 1, false));
}

#[test]
fn deoptimisation_before_at_and_after_a_bytecode() {
    let options = Options { counting: super::Counting::Both, ..Options::default() };
    let deoptimised = [leave_as(0, Exit::Replaced), enter_as(0, Entry::Deoptimisation)];
    let figures = |before: &[u16], after: &[u16]| {
        let bytecodes = |bcis: &[u16]| bcis.iter().map(|b| bytecode(0, *b)).collect::<Vec<_>>();
        let events = [vec![up(0)], bytecodes(before), deoptimised.to_vec(), bytecodes(after), vec![leave(0)]];
        let tree = tree_of(&methods(), &events.concat(), options);
        (tree.nodes[1].bytecodes.total(), tree.nodes[1].default.unwrap(), tree.nodes[1].invocations.total())
    };
    // The way of f: 0 1 | 8 | 9. The bytecode that traps is 1, then 8, the first one of a block.
    assert_eq!(figures(&[0], &[1, 8, 9]), (4, 4, 1));
    assert_eq!(figures(&[0, 1], &[8, 9]), (4, 4, 1));
    assert_eq!(figures(&[0, 1], &[1, 8, 9]), (5, 5, 1), "the flow has it twice");
    assert_eq!(figures(&[0, 1, 8], &[8, 9]), (5, 5, 1), "not a second block");
    assert_eq!(figures(&[0, 1, 8], &[9]), (4, 4, 1));
}

#[test]
fn unwinding_and_unstarted_invocations() {
    let tree = show(&and(&[
        leave_as(0, Exit::Unwind),
        catch(1, 4),
        bytecode(1, 4),
        bytecode(1, 5),
        bytecode(1, 0),
        bytecode(1, 1),
        enter(0),
        // A constructor of the error, called by the VM.
        up(5),
        bytecode(5, 0),
        leave(5),
        leave_as(0, Exit::Unwind),
    ]));
    assert_eq!(lines(&tree), ["a.B.g 1/6", " a.B.f 1/1", "  a.B.h 1/1"]);
    let f = &tree.nodes[2];
    assert_eq!((f.unstarted, f.invocations.total(), tree.exact), (1, 1, true));
    assert!(tree.text(&Layout::default()).contains("1 + 1 unstarted"));
    let natives = [up(1), bytecode(1, 1), enter_tier(2, Tier::Native), leave_as(2, Exit::Unwind)];
    assert_eq!(show(&natives).nodes[2].unstarted, 0, "a native method has no bytecodes");
    let hidden = [up(1), bytecode(1, 1), enter(0), unresolved(0, 0, None, 0), leave_as(0, Exit::Unwind)];
    assert_eq!(show(&hidden).nodes[2].unstarted, 0, "it may have begun");
}

#[test]
fn exceptions_after_bytecodes_that_throw_none_are_counted() {
    let cuts = |events: &[Event]| {
        let mut tree = TreeAnalysis::new(methods(), Arc::default(), Options::default());
        feed(&mut tree, 1, events);
        tree.cuts()
    };
    assert_eq!(cuts(&and(&[leave_as(0, Exit::Unwind), catch(1, 4), bytecode(1, 4)])), 1, "iload_0");
    assert_eq!(cuts(&[up(1), bytecode(1, 0), bytecode(1, 1), catch(1, 4)]), 0, "an invoke throws");
}

#[test]
fn upcalls_under_the_top_or_the_root() {
    let events = and(&[up(5), bytecode(5, 0), leave(5), bytecode(0, 1)]);
    assert_eq!(with(Options::default(), &events), ["a.B.g 1/2", " a.B.f 1/2", "  a.B.h 1/1"]);
    let kinds: Vec<Kind> = show(&events).nodes.iter().map(|n| n.kind).collect();
    assert_eq!(kinds, [Kind::Root, Kind::Upcall, Kind::Call, Kind::Upcall]);
    let root = Options { upcalls: Upcalls::Root, ..Options::default() };
    assert_eq!(with(root, &events), ["a.B.g 1/2", " a.B.f 1/2", "a.B.h 1/1"]);
}

#[test]
fn native_methods_are_shown_or_transparent() {
    let events = [
        up(1),
        bytecode(1, 1),
        enter_tier(2, Tier::Native),
        up(5),
        bytecode(5, 0),
        leave(5),
        leave(2),
        bytecode(1, 4),
    ];
    assert_eq!(with(Options::default(), &events), ["a.B.g 1/2", " a.B.n 1/0", "  a.B.h 1/1"]);
    let none = Options { natives: Natives::None, ..Options::default() };
    assert_eq!(with(none, &events), ["a.B.g 1/2", " a.B.h 1/1"]);
    let jp = Options { natives: Natives::None, upcalls: Upcalls::Root, ..Options::default() };
    assert_eq!(with(jp, &events), ["a.B.g 1/2", "a.B.h 1/1"]);
}

#[test]
fn frames_outside_of_the_scope() {
    // g calls the library, which calls h twice: from Java, and through a lambda.
    let library = |rest: &[Event]| {
        [&[up(1), bytecode(1, 1), enter(3), bytecode(3, 0)][..], rest, &[leave(3), bytecode(1, 4)]].concat()
    };
    let h = [enter(5), bytecode(5, 0), leave(5)];
    let lambda = [&[enter(4), bytecode(4, 0)][..], &h, &[leave(4)]].concat();
    let events = library(&[&h[..], &lambda].concat());
    let hide = |hide| Options { hide, ..Options::default() };
    assert_eq!(with(hide(Hide::Splice), &events), ["a.B.g 1/2", " a.B.h 2/2"]);
    let folded = ["a.B.g 1/2", " library 2/2", "  a.B.h 2/2"];
    assert_eq!(with(hide(Hide::Fold), &events), folded);
    let all = [
        "a.B.g 1/2",
        " java.L.l 1/1",
        "  a.B$$Lambda$14+0x0000000800c01208.run 1/1",
        "   a.B.h 1/1",
        "  a.B.h 1/1",
    ];
    assert_eq!(with(hide(Hide::Show), &events), all);
    let sites = Options { sites: true, ..hide(Hide::Splice) };
    let tree = tree_of(&methods(), &events, sites);
    assert_eq!(tree.nodes[2].site.map(|s| s.bci), Some(1), "where the nearest frame is");
    // Silent calls of the library from the library are not part of the application.
    let silent = library(&[bytecode(3, 3)]);
    let tree = tree_of(&methods(), &silent, hide(Hide::Splice));
    assert_eq!((lines(&tree), tree.exact), (vec!["a.B.g 1/2".into()], true));
    let tree = show(&silent);
    assert_eq!(lines(&tree)[2], "  intrinsic) java.lang.Math.abs ≥ 1/0");
    assert_eq!((tree.inexact.silent_calls, tree.exact, tree.nodes[3].kind), (1, false, Kind::Silent));
    assert_eq!(&*tree.nodes[3].method, "(intrinsic) java.lang.Math.abs()V");
}

#[test]
fn silent_calls_in_runs_are_leaves_by_name() {
    let two = [up(1), bytecode(1, 0), bytecode(1, 1), bytecode(1, 4), bytecode(1, 5)];
    let again = [bytecode(1, 0), bytecode(1, 1), bytecode(1, 4)];
    let events = [&two[..], &again].concat();
    assert_eq!(with(Options::default(), &events), ["a.B.g 1/7", " intrinsic) a.B.f ≥ 2/0"]);
    let splice = Options { hide: Hide::Splice, ..Options::default() };
    let tree = tree_of(&methods(), &events, splice);
    assert_eq!(tree.inexact.silent_calls, 2, "the callee belongs to the application");
    let text = show(&events).text(&Layout { min: 0.0, ..Layout::default() });
    assert!(
        text.contains("not exact, 7 bytecodes") && text.contains("2 calls were made without a frame"),
        "{text}"
    );
}

#[test]
fn a_silent_call_of_an_array_is_one_of_the_library() {
    // `clone` of an array is a method of Object, of which the capture may describe another one.
    let caller = |class, name| {
        let invokes = Box::new([calls(0, class, name)]);
        Method { invokes, ..method("a/B", "f", &[182, 0, 1, 177]) }
    };
    let events = [up(0), bytecode(0, 0), bytecode(0, 3), leave(0)];
    let splice = Options { hide: Hide::Splice, ..Options::default() };
    for (class, name, silent) in
        [("[J", "clone", 0), ("[La/B;", "clone", 0), ("[[I", "getClass", 0), ("a/Unknown", "clone", 1)]
    {
        let methods = table(vec![caller(class, name), method("java/lang/Object", "clone", &[177])]);
        let tree = tree_of(&methods, &events, splice);
        assert_eq!((tree.inexact.silent_calls, tree.exact), (silent, silent == 0), "{class}.{name}");
        let all = tree_of(&methods, &events, Options::default());
        assert_eq!(all.inexact.silent_calls, 1, "the call is shown if all methods are: {class}.{name}");
    }
}

#[test]
fn unresolved_stretches_are_bounds() {
    let tree = show(&and(&[bytecode(0, 1), unresolved(0, 1, Some(9), 0), bytecode(0, 9), leave(0)]));
    assert_eq!(lines(&tree), ["a.B.g 1/2", " a.B.f ≥ 1/3"]);
    assert_eq!(tree.nodes[2].unresolved, Some(Limits { stretches: 1, min: 1, max: Some(2) }));
    assert_eq!((tree.exact, tree.inexact.unresolved["conditional-move"]), (false, 1));
    let text = tree.text(&Layout::default());
    assert!(text.contains("not exact, ≥ 5 bytecodes") && text.contains("≥ 3 (1–2 more)"), "{text}");
    // To the end of the frame: the way it ended decides.
    let ended = |exit| {
        let tree = show(&and(&[bytecode(0, 1), unresolved(0, 1, None, 0), leave_as(0, exit)]));
        tree.nodes[2].unresolved.unwrap()
    };
    assert_eq!(ended(Exit::Return), Limits { stretches: 1, min: 2, max: Some(3) });
    assert_eq!(ended(Exit::Unwind), Limits { stretches: 1, min: 0, max: Some(3) });
    let tree = show(&and(&[unresolved(0, 1, None, 0)]));
    assert_eq!(tree.nodes[2].unresolved.unwrap().stretches, 1, "the flow ends in the stretch");
}

#[test]
fn lost_loops_over_callers_make_them_lower_bounds() {
    let below = [up(5), bytecode(5, 0), up(1), bytecode(1, 1), enter(0), bytecode(0, 1)];
    let tree = show(&[&below[..], &[unresolved(0, 1, Some(9), 1), bytecode(0, 9)]].concat());
    assert_eq!(lines(&tree), ["a.B.h 1/1", " a.B.g ≥ 1/1", "  a.B.f ≥ 1/2"]);
    let limits = |n: usize| tree.nodes[n].unresolved.unwrap();
    assert_eq!((limits(2).min, limits(2).max, limits(3).max), (0, None, None));
    assert!(tree.nodes[1].unresolved.is_none() && tree.nodes[1].exact);
}

#[test]
fn callees_that_a_stretch_may_hide_are_lower_bounds() {
    let inlined = Inlined::new(&methods(), [(MethodId(1), Bci(1), MethodId(0))], true);
    let mut analysis = TreeAnalysis::new(methods(), Arc::new(inlined), Options::default());
    let rest = [bytecode(0, 1), leave(0), bytecode(1, 4), up(5), bytecode(5, 0), leave(5)];
    // From 0 to 4 leads over the call of f.
    let hidden = [bytecode(1, 5), bytecode(1, 0), unresolved(1, 0, Some(4), 0), bytecode(1, 4)];
    feed(&mut analysis, 1, &[and(&rest), hidden.to_vec()].concat());
    let tree = analysis.tree().unwrap();
    assert_eq!(lines(&tree), ["a.B.g ≥ 1/6", " a.B.f ≥ 1/2", " a.B.h 1/1"]);
}

#[test]
fn gaps_with_and_without_the_stack() {
    let rest = [enter(5), bytecode(5, 0), leave(5)];
    let tree = show(&and(&[gap(false), bytecode(0, 1), leave(0), bytecode(1, 4)]));
    assert_eq!(lines(&tree), ["a.B.g 1/3", " a.B.f ≥ 1/2"]);
    assert_eq!((tree.exact, tree.inexact.gaps), (false, 1));
    let tree = show(&and(&[&[gap(true)][..], &rest].concat()));
    assert_eq!(lines(&tree), ["unknown ≥ 0/0", " a.B.h ≥ 1/1", "a.B.g ≥ 1/2", " a.B.f ≥ 1/1"]);
    let found = [gap(true), enter_as(1, Entry::Found), bytecode(1, 1), enter(0), bytecode(0, 0)];
    let tree = show(&and(&found));
    assert_eq!(lines(&tree)[..3], ["unknown ≥ 0/0", " a.B.g ≥ 0/1", "  a.B.f ≥ 1/1"]);
    assert_eq!((tree.nodes[1].kind, tree.nodes[2].found), (Kind::Unknown, 1));
    let text = tree.text(&Layout::default());
    assert!(text.contains("≥ 0 + 1 found") && text.contains("1 gap, 1 frame whose beginning"), "{text}");
    // Root mode: the VM's calls hang on the root in any case.
    let root = Options { upcalls: Upcalls::Root, ..Options::default() };
    assert_eq!(with(root, &and(&[gap(true), up(5), bytecode(5, 0)])).last().unwrap(), "a.B.h ≥ 1/1");
}

#[test]
fn frames_without_an_entry_or_an_end() {
    let tree = show(&[bytecode(0, 1), leave(0), leave(0)]);
    assert_eq!(lines(&tree), ["unknown ≥ 0/0", " a.B.f ≥ 0/1"]);
    assert!(!tree.exact && tree.nodes[2].found == 1);
    // At the end of the recording frames stay where they are.
    let lost = [leave_as(0, Exit::Lost), leave_as(1, Exit::Lost)];
    assert!(show(&and(&lost)).exact);
    let tree = show(&and(&[&lost[..], &[up(5), bytecode(5, 0)]].concat()));
    assert_eq!(lines(&tree), ["a.B.g ≥ 1/2", " a.B.f ≥ 1/1", "a.B.h 1/1"]);
    // Bytecodes of another method than that of the top frame.
    let tree = show(&and(&[bytecode(5, 0), bytecode(0, 1)]));
    assert_eq!(lines(&tree), ["a.B.g 1/2", " a.B.f 1/2", "  a.B.h ≥ 0/1"]);
    assert!(!tree.exact);
}

#[test]
fn orphans_hang_on_the_root() {
    let orphan = |o| Event::decoded(EventKind::Orphan(o));
    let tree = show(&[
        orphan(Orphan::Bytecode { opcode: 0, taken: None }),
        orphan(Orphan::Throw),
        enter(0),
        bytecode(0, 0),
    ]);
    assert_eq!(lines(&tree), ["orphans ≥ 0/1", "unknown ≥ 0/0", " a.B.f ≥ 1/1"]);
    assert_eq!((tree.inexact.orphans, tree.nodes[0].total), (2, 2));
}

#[test]
fn stretches_of_frames_without_a_node_count_if_they_hide_something_shown() {
    // The library's l is inlined nowhere, so nothing of the application is hidden.
    let lost = |callers| unresolved(3, 0, Some(3), callers);
    let library = [up(1), bytecode(1, 1), enter(3), bytecode(3, 0)];
    let splice = Options { hide: Hide::Splice, ..Options::default() };
    let tree =
        |callers| tree_of(&methods(), &[&library[..], &[lost(callers), bytecode(3, 3)]].concat(), splice);
    assert_eq!((lines(&tree(0)), tree(0).exact), (vec!["a.B.g 1/1".into()], true));
    assert!(tree(0).inexact.unresolved.is_empty());
    // The loop contains g.
    let looped = tree(1);
    assert_eq!((lines(&looped), looped.exact), (vec!["a.B.g ≥ 1/1".into()], false));
    assert_eq!((looped.inexact.stretches(), looped.nodes[1].unresolved.unwrap().max), (1, None));
}

#[test]
fn there_is_no_upper_bound_where_anything_may_have_run() {
    let stretch = [bytecode(0, 1), unresolved(0, 1, Some(9), 0), bytecode(0, 9)];
    let tree = show(&and(&[&stretch[..], &[gap(true)]].concat()));
    assert_eq!(tree.nodes[2].unresolved, Some(Limits { stretches: 1, min: 1, max: None }));
    let text = show(&[up(1), bytecode(1, 0), leave_as(1, Exit::Lost), up(5), bytecode(5, 0)])
        .text(&Layout::default());
    assert!(
        text.ends_with("≥: frames ended unseen, or events of the flow contradict each other\n"),
        "{text}"
    );
}
