// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use crate::place::stretch::{OrphanStretch, Taken};
use crate::place::testing::*;
use crate::place::{Method, PlacementSettings};
use jportal_bytecode::Opcode;
use jportal_flow::{Entry, Event, EventKind, Exit, Tier};
use jportal_units::{Bci, MethodId, Tsc};

const SETTINGS: PlacementSettings = PlacementSettings::new(Method::Indexed);

/// The result for a flow, which does not depend on the size of the batches.
fn run(events: &[Event]) -> Vec<String> {
    let whole = projected(events, SETTINGS, usize::MAX).0;
    for batch in [1, 3] {
        assert_eq!(projected(events, SETTINGS, batch).0, whole);
    }
    words(&whole)
}

fn join(parts: &[&[Event]]) -> Vec<Event> {
    parts.concat()
}

/// Fits both `outer` from 5 on and `other`.
fn either() -> Vec<Event> {
    let branch = orphan(Opcode::IFEQ, Some(false));
    join(&[&orphans(&[Opcode::ILOAD_1]), &[branch], &orphans(&[Opcode::ICONST_2, Opcode::IRETURN])])
}

#[test]
fn a_flow_without_orphans_passes() {
    let flow =
        [enter(OUTER, Tier::C1, Entry::Upcall), at(OUTER, 0), gap(), enter(INNER, Tier::C1, Entry::Found)];
    let (all, summary) = projected(&flow, SETTINGS, 1);
    assert_eq!((&all[..], summary.stretches), (&flow[..], 0));
}

#[test]
fn a_callee_that_is_named_tells_the_place() {
    let flow = join(&[&[gap()], &orphans(&[Opcode::INVOKESTATIC]), &call_of_inner()]);
    let branch = [orphan(Opcode::IFEQ, Some(true))];
    let rest =
        join(&[&orphans(&[Opcode::ISTORE_1, Opcode::ILOAD_1]), &branch, &orphans(&[Opcode::ICONST_3])]);
    let expected = ["gap", ">f0~1", "0@1~1", ">c1", "1@0", "1@1", "<r1", "0@4~1", "0@5~1", "0@6~1", "0@11~1"];
    let until_gap = [&expected[..], &["<l0~1", "gap"]].concat();
    assert_eq!(run(&join(&[&flow, &rest, &[gap()]])), until_gap);
    let until_end = [&expected[..], &["<l0~1"]].concat();
    assert_eq!(run(&join(&[&flow, &rest])), until_end);
}

#[test]
fn what_fits_twice_says_so() {
    let (all, summary) = projected(&either(), SETTINGS, 1);
    let words = words(&all);
    assert!(words[1..5].iter().all(|w| w.ends_with("~2")), "{words:?}");
    assert_eq!((summary.certain, summary.ambiguous, summary.orphans), (0, 4, 4));
}

#[test]
fn the_call_after_which_it_begins_tells_the_place() {
    let flow = join(&[&call_of_inner(), &orphans(&[Opcode::ISTORE_1]), &either()]);
    assert_eq!(run(&flow)[4..7], [">f0~1", "0@4~1", "0@5~1"]);
    // `inner` is called only before an istore_1.
    let other = join(&[&call_of_inner(), &either()]);
    assert_eq!(run(&other)[4..], ["iload_1", ">f0~2", "0@6~2", "0@9~2", "0@10~2", "<r0~2"]);
}

#[test]
fn the_call_that_it_returns_from_tells_the_place() {
    let found = enter(CALLER, Tier::C1, Entry::Found);
    let flow = join(&[&either(), &[found, at(CALLER, 3)]]);
    assert_eq!(run(&flow), [">f0~1", "0@5~1", "0@6~1", "0@9~1", "0@10~1", "<r0~1", ">f3", "3@3"]);
}

#[test]
fn nothing_is_held_back_at_the_end() {
    let flow = join(&[&either(), &[enter(CALLER, Tier::C1, Entry::Found)]]);
    assert_eq!(run(&flow)[5..], ["<r0~2", ">f3"]);
    let gone = join(&[&flow, &[gap(), enter(INNER, Tier::C1, Entry::Found)]]);
    assert_eq!(run(&gone)[5..], ["<r0~2", ">f3", "gap", ">f1"]);
}

#[test]
fn compiled_code_may_have_passed_a_goto() {
    // The code of `choosing` continues at 9 after either of its calls.
    let found = enter(CHOOSING, Tier::C1, Entry::Found);
    let flow = join(&[&either(), &[found, at(CHOOSING, 9)]]);
    let words = run(&flow);
    assert!(words[1].ends_with("~2"), "{words:?}");
}

#[test]
fn time_and_calls_of_the_vm_stand_in_between() {
    let upcall = [enter(INNER, Tier::Interpreter, Entry::Upcall), at(INNER, 0), leave(INNER, Exit::Return)];
    let time = [event(EventKind::Time(Tsc(5)))];
    let flow = join(&[
        &orphans(&[Opcode::INVOKESTATIC]),
        &call_of_inner(),
        &orphans(&[Opcode::ISTORE_1]),
        &upcall,
        &time,
        &orphans(&[Opcode::ILOAD_1]),
    ]);
    let words = run(&flow);
    assert_eq!(words[6..], ["0@4~1", ">1", "1@0", "<r1", "Time(Tsc(5))", "0@5~1", "<l0~1"]);
}

#[test]
fn an_exception_is_caught_in_its_frame_or_below() {
    // athrow in `throwing`, in an unknown frame, caught one frame below.
    let flow = join(&[
        &orphans(&[Opcode::LLOAD_0, Opcode::ATHROW]),
        &[throw(), throw()],
        &orphans(&[Opcode::ASTORE_2, Opcode::RETURN]),
    ]);
    let below = [">f6~1", "6@0~1", "6@1~1", "<u6~1", ">f4~1", "catch 4@6~1", "4@6~1", "4@7~1", "<r4~1"]
        .map(String::from);
    assert_eq!(run(&flow), below);
    // The callee is known and throws; the exception is caught at the invoke of the unknown
    // frame.
    let called = [enter(THROWING, Tier::Interpreter, Entry::Found), at(THROWING, 0), at(THROWING, 1)];
    let flow = join(&[
        &orphans(&[Opcode::FLOAD_0, Opcode::INVOKESTATIC]),
        &called,
        &[leave(THROWING, Exit::Unwind), throw()],
        &orphans(&[Opcode::ASTORE_2]),
    ]);
    let own = [">f4~1", "4@0~1", "4@1~1", ">c6", "6@0", "6@1", "<u6", "catch 4@6~1", "4@6~1", "<l4~1"];
    assert_eq!(run(&flow), own);
}

#[test]
fn an_exception_that_compiled_code_catches_leaves_the_frame() {
    let found = enter(CATCHING, Tier::C1, Entry::Found);
    let flow = join(&[&orphans(&[Opcode::LLOAD_0, Opcode::ATHROW]), &[throw(), found, at(CATCHING, 6)]]);
    assert_eq!(run(&flow), [">f6~1", "6@0~1", "6@1~1", "<u6~1", ">f4", "4@6"]);
}

#[test]
fn a_loop_continues_in_compiled_code() {
    let round = orphans(&[Opcode::DLOAD_0, Opcode::DSTORE_1, Opcode::GOTO]);
    let flow = join(&[&round, &[enter(LOOP, Tier::C2, Entry::Found), at(LOOP, 0)]]);
    assert_eq!(run(&flow), [">f5~1", "5@0~1", "5@1~1", "5@2~1", "<x5~1", ">g5", "5@0"]);
}

#[test]
fn what_fits_nowhere_stays_an_orphan() {
    let flow = join(&[&orphans(&[Opcode::NOP, Opcode::NOP]), &either()]);
    let (all, summary) = projected(&flow, SETTINGS, 1);
    assert_eq!(words(&all)[..2], ["nop", "nop"]);
    assert_eq!((summary.nowhere, summary.ambiguous), (2, 4));
    // A frame that was known before is given up.
    let flow = join(&[&orphans(&[Opcode::DLOAD_0, Opcode::DSTORE_1, Opcode::NOP]), &[gap()]]);
    assert_eq!(run(&flow), [">f5~1", "5@0~1", "5@1~1", "<l5~1", "nop", "gap"]);
}

#[test]
fn a_limit_leaves_orphans() {
    let mut settings = SETTINGS;
    (settings.limits.transitions, settings.each) = (0, 0);
    let (all, summary) = projected(&either(), settings, 1);
    // A single bytecode needs no step: one has two places, one has five.
    assert_eq!(all[..2], either()[..2]);
    assert_eq!((summary.given_up, summary.ambiguous, summary.certain), (2, 2, 0));
    // Exactly as many bytecodes are examined as allowed.
    settings.looked_at = (4, 0);
    let (all, summary) = projected(&either(), settings, 1);
    assert_eq!((all, summary.given_up), (either(), 4));
}

/// The result for a flow that is divided at each return to an unknown frame.
fn divided(events: &[Event]) -> Vec<String> {
    let mut settings = SETTINGS;
    settings.limits.returns = 0;
    words(&projected(events, settings, 1).0)
}

#[test]
fn after_a_return_only_callers_fit() {
    let flow = orphans(&[Opcode::ICONST_5, Opcode::IRETURN, Opcode::ISTORE_1]);
    let expected = [">f1~1", "1@0~1", "1@1~1", "<r1~1", ">f0~2", "0@4~2", "<l0~2"];
    assert_eq!(divided(&flow), expected);
    let flow = join(&[&flow, &orphans(&[Opcode::RETURN])]);
    let expected = [">f1~1", "1@0~1", "1@1~1", "<r1~1", ">f8~1", "8@4~1", "8@5~1", "<r8~1"];
    assert_eq!((divided(&flow), run(&flow)), (expected.map(String::from).to_vec(), run(&flow)));
}

#[test]
fn returns_in_a_row_are_given_up_together() {
    let mut stretch = OrphanStretch::new(None);
    let flow = orphans(&[Opcode::DUP, Opcode::IRETURN, Opcode::IRETURN, Opcode::RETURN, Opcode::DUP]);
    flow.iter().for_each(|event| assert_eq!(stretch.take(event.clone()), Taken::Inside));
    assert_eq!([0, 1, 2, 3, 4].map(|from| stretch.after_returns(from)), [0, 3, 3, 3, 4]);
}

#[test]
fn what_returned_may_have_been_called_by_the_vm() {
    // A class initialiser is called by `new`: the code after an invoke of it continues
    // differently.
    let flow = orphans(&[Opcode::FCONST_0, Opcode::RETURN, Opcode::DUP, Opcode::DUP2]);
    let expected = [">f9~1", "9@0~1", "9@1~1", "<r9~1", ">f11~1", "11@3~1", "11@4~1", "<l11~1"];
    assert_eq!(divided(&flow), expected);
}

/// A call of `inner` from `outer`, and the instruction after it, there and in `twin`.
fn called() -> Vec<Event> {
    join(&[&orphans(&[Opcode::INVOKESTATIC]), &call_of_inner(), &orphans(&[Opcode::ISTORE_1])])
}

#[test]
fn a_thread_has_a_budget() {
    let thrice = join(&[&either(), &[gap()], &either(), &[gap()], &either()]);
    let all = projected(&thrice, SETTINGS, 1).1;
    let settings = PlacementSettings { budget: (all.transitions / 2, 0), ..SETTINGS };
    let some = projected(&thrice, settings, 1).1;
    assert_eq!((all.given_up, all.orphans, some.orphans), (0, 12, 12));
    assert!(some.given_up > 0 && some.ambiguous > 0, "{some:?}");
}

#[test]
fn a_place_to_begin_at_counts_for_the_budget() {
    // Each stretch has one bytecode: places are examined, and no transitions.
    let opcodes = [Opcode::ISTORE_1, Opcode::DUP, Opcode::DUP2];
    let flow: Vec<Event> = opcodes.iter().flat_map(|&o| join(&[&orphans(&[o]), &[gap()]])).collect();
    let all = projected(&flow, SETTINGS, 1).1;
    assert_eq!((all.given_up, all.orphans), (0, 3), "{all:?}");
    let settings = PlacementSettings { budget: (1, 0), ..SETTINGS };
    let some = projected(&flow, settings, 1).1;
    assert_eq!(some.given_up, 2, "{some:?}");
}

#[test]
fn a_stretch_that_repeats_is_searched_once() {
    let round = join(&[&[gap()], &either()]);
    let (first, once) = projected(&round, SETTINGS, usize::MAX);
    let rounds: Vec<Event> = std::iter::repeat_n(&round, 1000).flatten().cloned().collect();
    let (all, often) = projected(&rounds, SETTINGS, usize::MAX);
    assert!(once.transitions > 0);
    assert_eq!((often.transitions, often.ambiguous), (once.transitions, 1000 * once.ambiguous));
    assert!(all.chunks(first.len()).all(|chunk| chunk == first));
}

#[test]
fn a_long_visit_is_handed_on_before_it_ends() {
    let settings = PlacementSettings { buffered: 4, ..SETTINGS };
    let flow = join(&[&orphans(&[Opcode::ICONST_1]), &called()]);
    for batch in [1, 5, 100] {
        let (all, summary) = projected(&flow, settings, batch);
        let expected = [">f0~1", "0@0~1", "0@1~1", ">c1", "1@0", "1@1", "<r1", "0@4~1", "<l0~1"];
        assert_eq!((words(&all), summary.stretches), (expected.map(String::from).to_vec(), 2));
    }
    // A frame with two possible places does not fix the place of the next stretch.
    let (all, _) = projected(&called(), PlacementSettings { buffered: 3, ..SETTINGS }, 1);
    assert_eq!(words(&all)[6..], ["0@4~2", "<l0~2"]);
}

#[test]
fn frames_that_are_left_end_where_the_flow_begins_anew() {
    // `outer` cannot make this call where its frame is, so nothing is held back.
    let call = enter(INNER, Tier::C1, Entry::Call);
    let other = [call, at(INNER, 0), at(INNER, 1), leave(INNER, Exit::Return)];
    let flow = join(&[&orphans(&[Opcode::ICONST_1]), &called(), &other]);
    let found = enter(CALLER, Tier::C1, Entry::Found);
    assert_eq!(run(&join(&[&flow, &[gap(), at(CALLER, 0)]]))[12..], ["<l0~1", "gap", "3@0"]);
    assert_eq!(run(&join(&[&flow, &[found, at(CALLER, 0)]]))[12..], ["<l0~1", ">f3", "3@0"]);
    // The same while a frame above has not ended.
    assert_eq!(
        run(&join(&[&flow[..flow.len() - 1], &[gap(), at(CALLER, 0)]]))[11..],
        ["<l0~1", "gap", "3@0"]
    );
    // The same inside a visit that is held back.
    let visit = &called()[..3];
    assert_eq!(run(&join(&[visit, &[gap()]]))[2..], [">c1", "1@0", "<l0~2", "gap"]);
}

#[test]
fn a_stretch_is_divided_at_the_same_place_with_runs() {
    let settings = PlacementSettings { buffered: 5, ..SETTINGS };
    let found = enter(INNER, Tier::C1, Entry::Found);
    let visit = |inside: &[Event]| {
        join(&[
            &orphans(&[Opcode::INVOKESTATIC]),
            std::slice::from_ref(&found),
            inside,
            &[leave(INNER, Exit::Return)],
            &orphans(&[Opcode::ISTORE_1]),
        ])
    };
    let kind =
        EventKind::Run { method: MethodId(INNER), first: Bci(0), last: Bci(1), len: 2, tier: Tier::C1 };
    let without_body = |events: Vec<Event>| -> Vec<String> {
        let body = |e: &Event| e.kind.executed().is_some_and(|(method, ..)| method == MethodId(INNER));
        words(&events.into_iter().filter(|e| !body(e)).collect::<Vec<_>>())
    };
    let [(one_by_one, counted), (run, of_run)] =
        [visit(&[at(INNER, 0), at(INNER, 1)]), visit(&[event(kind)])].map(|f| projected(&f, settings, 1));
    assert_eq!((without_body(run), of_run), (without_body(one_by_one), counted));
    assert_eq!(counted.stretches, 2);
}

#[test]
fn a_part_does_not_continue_where_the_one_before_ended() {
    let loops = orphans(&[Opcode::DLOAD_0, Opcode::DSTORE_1]);
    let words = run(&join(&[&loops, &[throw()], &either()]));
    assert_eq!(words[..6], [">f5~1", "5@0~1", "5@1~1", "<l5~1", ">f0~2", "0@5~2"]);
    // Nor does it continue in another place of the same method.
    let twice = run(&join(&[&loops, &loops]));
    let once = [">f5~1", "5@0~1", "5@1~1", "<l5~1"];
    assert_eq!(twice, [once, once].concat());
    // A branch that was taken leads only to its target.
    let branch = [orphan(Opcode::IFEQ, Some(true))];
    let other = orphans(&[Opcode::ICONST_2, Opcode::IRETURN]);
    let flow = join(&[&called(), &orphans(&[Opcode::ILOAD_1]), &branch, &other]);
    assert_eq!(run(&flow)[6..], ["0@4~1", "0@5~1", "0@6~1", "<l0~1", ">f0~2", "0@9~2", "0@10~2", "<r0~2"]);
}

#[test]
fn the_methods_of_the_paper_find_the_same() {
    let flow = join(&[&orphans(&[Opcode::ICONST_1]), &called()]);
    for method in [Method::Enumerate, Method::Guided] {
        assert_eq!(
            projected(&flow, PlacementSettings::new(method), 1).0,
            projected(&flow, SETTINGS, 1).0,
            "{method:?}"
        );
    }
}
