// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests of each rule: a flow that keeps it, and planted faults that break it and no other
//! rule.

use jportal_flow::{Entry, EventKind, Exit, Orphan, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use crate::check::report::CheckOptions;
use crate::check::rule::{Reset, Rule};
use crate::check::stack::MAX_DEPTH;
use crate::check::testing::*;

/// The VM calls `caller`, which calls `leaf` and `branchy` and returns.
fn good() -> FlowBuilder {
    FlowBuilder::default()
        .start(CALLER)
        .at(CALLER, &[0])
        .call(LEAF)
        .at(LEAF, &[0, 1])
        .ret(LEAF)
        .at(CALLER, &[3])
        .call(BRANCHY)
        .at(BRANCHY, &[0, 1, 8, 9])
        .ret(BRANCHY)
        .at(CALLER, &[6])
        .ret(CALLER)
}

/// [`good`] with the event at `index` changed or, if `event` is `None`, dropped.
fn planted(index: usize, event: Option<EventKind>) -> Vec<&'static str> {
    let mut flow = good();
    match event {
        Some(kind) => flow.0[index].kind = kind,
        None => drop(flow.0.remove(index)),
    }
    flow.broken()
}

fn bytecode(m: u32, bci: u16) -> Option<EventKind> {
    Some(EventKind::Bytecode { method: MethodId(m), bci: Bci(bci), tier: Tier::Interpreter })
}

fn entered(m: u32, tier: Tier, entry: Entry) -> Option<EventKind> {
    Some(EventKind::Enter { method: MethodId(m), tier, entry })
}

fn left(m: u32, exit: Exit) -> Option<EventKind> {
    Some(EventKind::Leave { method: MethodId(m), exit })
}

/// An exception of `leaf` interrupts the caller, which catches it.
fn caught() -> FlowBuilder {
    FlowBuilder::default()
        .start(CALLER)
        .at(CALLER, &[0])
        .call(LEAF)
        .leave(LEAF, Exit::Unwind)
        .catch(CALLER, 7)
        .at(CALLER, &[7, 8, 9])
        .ret(CALLER)
}

#[test]
fn a_flow_that_keeps_all_rules() {
    for flow in [good(), caught()] {
        let report = flow.check();
        assert!(report.is_clean() && report.resets.is_empty(), "{}", report.text());
    }
    let report = good().check();
    assert_eq!((report.threads, report.events, report.steps), (1, 15, 9));
    assert_eq!((report.calls, report.exits, report.catches), (2, 3, 0));
}

#[test]
fn an_orphan_has_no_known_frame_below_it() {
    let nop = EventKind::Orphan(Orphan::Bytecode { opcode: 0, taken: None });
    let called = FlowBuilder::default().event(nop.clone()).enter(LEAF, Tier::Interpreter, Entry::Found);
    let called = called.at(LEAF, &[0, 1]).ret(LEAF).event(EventKind::Orphan(Orphan::Throw));
    assert!(called.check().is_clean(), "{}", called.check().text());
    let inside = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).at(LEAF, &[0]).event(nop);
    assert_eq!(inside.broken(), ["wrong-frame"]);
}

#[test]
fn no_event_can_be_missing_or_doubled() {
    for flow in [good(), caught()] {
        for i in 0..flow.0.len() {
            let (mut missing, mut doubled) = (flow.clone(), flow.clone());
            missing.0.remove(i);
            doubled.0.insert(i, flow.0[i].clone());
            for changed in [missing, doubled] {
                let report = changed.check();
                assert!(!report.is_clean(), "event {i}, {:?}", flow.0[i].kind);
                assert!(report.findings <= 3, "one fault, many findings: {}", report.text());
            }
        }
    }
}

#[test]
fn arbitrary_events_are_survived() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let tiers = [Tier::Interpreter, Tier::C1, Tier::C2, Tier::Native];
    let entries = [Entry::Call, Entry::Upcall, Entry::Osr, Entry::Deoptimisation, Entry::Found];
    let exits = [Exit::Return, Exit::Unwind, Exit::Replaced, Exit::Lost];
    let mut flow = FlowBuilder::default();
    for _ in 0..100_000 {
        let (m, tier) = (random(11) as u32, tiers[random(4) as usize]);
        let (bci, other) = (random(12) as u16, random(12) as u16);
        flow = match random(16) {
            0..6 => flow.in_tier(tier, m, &[bci]),
            6..9 => flow.enter(m, tier, entries[random(5) as usize]),
            9..12 => flow.leave(m, exits[random(4) as usize]),
            12 => flow.catch(m, bci),
            13 => flow.unresolved(m, Some(bci).filter(|b| *b > 3), Some(other).filter(|b| *b > 3)),
            14 => flow.event(EventKind::Time(Tsc(random(1000)))),
            _ => flow.gap(bci > 9),
        };
    }
    let report = flow.check();
    assert_eq!((report.events, report.first.len()), (100_000, 20));
    let broken = report.by_rule.len();
    assert!(broken > Rule::ALL.len() - 4, "{broken} rules: {:?}", report.by_rule);
}

#[test]
fn a_moved_block_is_no_edge() {
    // The other arm of the branch, and a block that ends without its successor.
    assert_eq!(planted(10, bytecode(BRANCHY, 9)), ["edge", "edge"]);
    assert_eq!(planted(10, None), ["edge"]);
}

#[test]
fn a_block_entered_in_its_middle() {
    assert_eq!(planted(10, bytecode(BRANCHY, 5)), ["mid-block"]);
    // From the entry: bci 1 is in the first block, and a block begins at bci 4.
    assert_eq!(planted(8, None), ["mid-block"]);
    let flow = FlowBuilder::default().start(BRANCHY).at(BRANCHY, &[4, 5, 9]).ret(BRANCHY);
    assert_eq!(flow.broken(), ["entry"]);
}

#[test]
fn a_bytecode_inside_an_instruction() {
    assert_eq!(planted(9, bytecode(BRANCHY, 2))[0], "instruction");
    let flow = FlowBuilder::default().start(LEAF).at(LEAF, &[7]);
    assert_eq!(flow.broken()[0], "instruction");
}

#[test]
fn a_dropped_return_breaks_the_nesting() {
    assert_eq!(planted(5, None), ["wrong-frame"]);
    assert_eq!(planted(12, None), ["wrong-frame"]);
}

#[test]
fn a_dropped_call_breaks_the_nesting() {
    // `leaf` is not entered: neither its bytecodes nor its return belong to the top frame.
    assert_eq!(planted(2, None)[0], "wrong-frame");
    // The whole callee is missing.
    let mut flow = good();
    flow.0.drain(2..6);
    assert_eq!(flow.broken(), ["call-missing"]);
}

#[test]
fn events_without_a_frame() {
    assert_eq!(FlowBuilder::default().at(LEAF, &[0, 1]).ret(LEAF).broken(), ["no-frame"]);
    assert_eq!(FlowBuilder::default().ret(LEAF).broken(), ["no-frame"]);
}

#[test]
fn a_wrong_callee() {
    assert_eq!(planted(2, entered(THROWER, Tier::Interpreter, Entry::Call))[0], "callee");
    let report = {
        let mut flow = good();
        flow.0[7].kind = entered(LEAF, Tier::Interpreter, Entry::Call).unwrap();
        flow.check()
    };
    assert!(
        report.first[0].what.contains("calls a.A.branchy()V but a.A.leaf()V is entered"),
        "{}",
        report.text()
    );
}

#[test]
fn a_call_from_where_none_is() {
    let flow = FlowBuilder::default().start(LEAF).at(LEAF, &[0]).call(LEAF).at(LEAF, &[0, 1]).ret(LEAF);
    assert_eq!(flow.at(LEAF, &[1]).ret(LEAF).broken(), ["call-site"]);
    let flow = FlowBuilder::default().call(LEAF).at(LEAF, &[0, 1]).ret(LEAF);
    assert_eq!(flow.broken(), ["call-site"]);
    // A call before the caller's first bytecode.
    assert_eq!(planted(1, None)[0], "call-site");
    let flow =
        FlowBuilder::default().start(CALLER).at(CALLER, &[0]).enter(LEAF, Tier::Interpreter, Entry::Found);
    assert_eq!(flow.broken()[0], "call-site");
}

#[test]
fn the_vm_does_not_call_out_of_every_bytecode() {
    let upcall = |bci: u16| {
        let flow = FlowBuilder::default().start(LOOP).at(LOOP, &[0, 1, 2][..=usize::from(bci)]);
        flow.start(LEAF).at(LEAF, &[0, 1]).ret(LEAF).at(LOOP, &[0, 1, 2, 5][usize::from(bci) + 1..]).ret(LOOP)
    };
    assert_eq!(upcall(1).broken(), ["vm-call"]);
    // A branch polls for safepoints, so the VM may call there.
    assert!(upcall(2).check().is_clean(), "{}", upcall(2).check().text());
}

#[test]
fn tiers_agree() {
    assert_eq!(planted(0, entered(CALLER, Tier::Native, Entry::Upcall))[0], "tier");
    assert_eq!(planted(2, entered(LEAF, Tier::C1, Entry::Call)), ["tier", "tier"]);
    let native = |tier| FlowBuilder::default().enter(NATIVE, tier, Entry::Upcall).ret(NATIVE).broken();
    assert!(native(Tier::Native).is_empty());
    assert_eq!(native(Tier::C2)[0], "tier");
}

#[test]
fn a_frame_returns_from_a_return() {
    assert_eq!(planted(4, None), ["return"]);
    let flow = FlowBuilder::default().start(LEAF).ret(LEAF);
    assert_eq!(flow.broken(), ["return"]);
    // The interpreter's entry of an intrinsic does all the work.
    assert!(FlowBuilder::default().start(INTRINSIC).ret(INTRINSIC).check().is_clean());
}

#[test]
fn an_unknown_method() {
    assert_eq!(FlowBuilder::default().start(99).broken()[0], "method");
}

#[test]
fn a_wrong_handler() {
    let catch = |bci| Some(EventKind::Catch { method: MethodId(CALLER), bci: Bci(bci) });
    // The handler of the other range.
    let mut flow = caught();
    flow.0[4].kind = catch(8).unwrap();
    flow.0.remove(5);
    assert_eq!(flow.broken(), ["handler"]);
    // The handler is announced, but execution continues elsewhere.
    let mut flow = caught();
    flow.0[5].kind = bytecode(CALLER, 3).unwrap();
    flow.0.truncate(6);
    assert_eq!(flow.leave(CALLER, Exit::Unwind).broken(), ["handler"]);
    // A bytecode that cannot throw.
    let flow = FlowBuilder::default().start(FINALLY).at(FINALLY, &[0]).catch(FINALLY, 5).at(FINALLY, &[5, 6]);
    assert_eq!(flow.ret(FINALLY).broken(), ["handler"]);
}

#[test]
fn an_exception_does_not_vanish() {
    // Not caught: the caller continues as if `leaf` had returned.
    let mut flow = caught();
    flow.0.truncate(4);
    assert_eq!(flow.clone().at(CALLER, &[3]).call(BRANCHY).broken()[0], "exception-lost");
    assert_eq!(flow.clone().ret(CALLER).broken(), ["exception-lost"]);
    assert_eq!(flow.call(BRANCHY).broken()[0], "exception-lost");
    // A return reported as an unwinding.
    assert_eq!(planted(5, left(LEAF, Exit::Unwind)), ["exception-lost"]);
}

#[test]
fn unwinding_past_a_handler_that_takes_all() {
    let flow = FlowBuilder::default().start(FINALLY).at(FINALLY, &[0, 1]).call(THROWER).at(THROWER, &[0, 1]);
    let flow = flow.leave(THROWER, Exit::Unwind);
    let good = flow.clone().catch(FINALLY, 5).at(FINALLY, &[5, 6]).ret(FINALLY);
    assert!(good.check().is_clean(), "{}", good.check().text());
    assert_eq!(flow.leave(FINALLY, Exit::Unwind).broken(), ["unwind"]);
    // `nop` cannot throw.
    let flow = FlowBuilder::default().start(LEAF).at(LEAF, &[0]).leave(LEAF, Exit::Unwind);
    assert_eq!(flow.broken(), ["unwind"]);
}

#[test]
fn out_of_stack_handlers_may_be_passed_by() {
    let deep = (0..600).fold(FlowBuilder::default(), |flow, _| flow.start(LOOP).at(LOOP, &[0, 1, 2]));
    let flow = deep.start(FINALLY).at(FINALLY, &[0, 1]).call(THROWER).leave(THROWER, Exit::Unwind);
    let report = flow.leave(FINALLY, Exit::Unwind).gap(true).check();
    assert!(report.is_clean(), "{}", report.text());
    assert_eq!(report.resets[Reset::StackExhausted.name()], 1);
}

#[test]
fn a_handler_around_the_handler_that_could_not_be_chosen() {
    let caught = |bci: u16| {
        let flow = FlowBuilder::default().start(NESTED).at(NESTED, &[0]).call(LEAF).leave(LEAF, Exit::Unwind);
        flow.catch(NESTED, bci).at(NESTED, &[bci, bci + 1]).ret(NESTED).check()
    };
    assert!(caught(4).is_clean() && caught(4).resets.is_empty());
    let around = caught(6);
    assert!(around.is_clean() && around.resets[Reset::HandlerOfHandler.name()] == 1, "{}", around.text());
    assert_eq!(caught(8).by_rule["handler"], 1);
}

#[test]
fn frames_beyond_the_bound_are_not_looked_at() {
    let deep = (0..=MAX_DEPTH).fold(FlowBuilder::default(), |flow, _| flow.start(LEAF).at(LEAF, &[0]));
    // The last frame is not kept: its fault is not seen. Its end is counted as its begin is.
    let report = deep.at(LEAF, &[7]).ret(LEAF).at(LEAF, &[1]).ret(LEAF).gap(true).check();
    assert_eq!(report.by_rule.get("vm-call"), Some(&(MAX_DEPTH as u64)), "{}", report.text());
    assert_eq!((report.by_rule.len(), report.resets[Reset::TooDeep.name()]), (1, 4));
}

#[test]
fn pop_frame_executes_the_invoke_again() {
    let mut flow = good();
    let again: Vec<_> =
        [left(LEAF, Exit::PopFrame), bytecode(CALLER, 0), entered(LEAF, Tier::Interpreter, Entry::Call)]
            .into_iter()
            .map(|kind| jportal_flow::Event::decoded(kind.unwrap()))
            .collect();
    flow.0.splice(3..3, again);
    let report = flow.clone().check();
    assert!(report.is_clean() && report.resets[Reset::PopFrame.name()] == 1, "{}", report.text());
    // An exception does not make the caller repeat the invoke.
    flow.0[3].kind = left(LEAF, Exit::Unwind).unwrap();
    assert_eq!(flow.broken(), ["exception-lost"]);
}

#[test]
fn after_a_popped_frame_nothing_but_the_invoke_is_due() {
    let popped =
        || FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).leave(LEAF, Exit::PopFrame);
    let on = |flow: FlowBuilder| flow.at(CALLER, &[3]).call(BRANCHY).at(BRANCHY, &[0, 1, 8, 9]).ret(BRANCHY);
    assert_eq!(on(popped()).at(CALLER, &[6]).ret(CALLER).broken(), ["edge"]);
    // The callee cannot be called unless the invoke begins again.
    let called = popped().call(LEAF).at(LEAF, &[0, 1]).ret(LEAF).leave(CALLER, Exit::PopFrame);
    assert_eq!(called.broken(), ["call-site"]);
    // The caller may be popped next. A compiled caller is deoptimised.
    assert!(popped().leave(CALLER, Exit::PopFrame).check().is_clean());
    let compiled =
        FlowBuilder::default().enter(CALLER, Tier::C1, Entry::Upcall).in_tier(Tier::C1, CALLER, &[0]);
    let compiled =
        compiled.call(LEAF).at(LEAF, &[0]).leave(LEAF, Exit::PopFrame).leave(CALLER, Exit::Replaced);
    let compiled = compiled.enter(CALLER, Tier::Interpreter, Entry::Deoptimisation).at(CALLER, &[0]);
    let report = compiled.call(LEAF).at(LEAF, &[0, 1]).ret(LEAF).leave(CALLER, Exit::PopFrame).check();
    assert!(report.is_clean(), "{}", report.text());
    // Debuggers take only interpreted frames.
    let native = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).enter(LEAF, Tier::C1, Entry::Call);
    assert_eq!(native.leave(LEAF, Exit::PopFrame).leave(CALLER, Exit::PopFrame).broken(), ["tier"]);
}

#[test]
fn a_frame_may_be_made_to_return_from_anywhere() {
    let early = |exit| {
        let flow =
            FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).at(LEAF, &[0]).leave(LEAF, exit);
        flow.at(CALLER, &[3])
            .call(BRANCHY)
            .at(BRANCHY, &[0, 1, 8, 9])
            .ret(BRANCHY)
            .at(CALLER, &[6])
            .ret(CALLER)
    };
    let report = early(Exit::EarlyReturn).check();
    assert!(report.is_clean() && report.resets[Reset::EarlyReturn.name()] == 1, "{}", report.text());
    assert_eq!(early(Exit::Return).broken(), ["return"]);
}

#[test]
fn an_exception_from_outside_arrives_at_the_target_of_a_branch() {
    // The handler covers only the target of the branch.
    let flow = |last: &[u16]| FlowBuilder::default().start(POLLED).at(POLLED, last);
    let caught = flow(&[0, 4, 5]).catch(POLLED, 8).at(POLLED, &[8, 9]).ret(POLLED).check();
    assert!(caught.is_clean() && caught.resets[Reset::Asynchronous.name()] == 1, "{}", caught.text());
    // The handler does not cover the branch that polls. A bytecode that does not poll cannot
    // throw.
    assert_eq!(flow(&[0, 4]).catch(POLLED, 8).at(POLLED, &[8, 9]).ret(POLLED).broken(), ["handler"]);
    // The handler of a branch does not catch an exception that is thrown at the branch's
    // target.
    let left = |covered: u32| {
        FlowBuilder::default().start(covered).at(covered, &[0, 1]).leave(covered, Exit::Unwind)
    };
    let report = left(COVERED).check();
    assert!(report.is_clean() && report.resets[Reset::Asynchronous.name()] == 1, "{}", report.text());
}

#[test]
fn an_error_in_the_search_may_pass_a_handler_that_takes_all() {
    let left = |m: u32| FlowBuilder::default().start(m).at(m, &[0]).call(LEAF).leave(LEAF, Exit::Unwind);
    let report = left(AROUND).leave(AROUND, Exit::Unwind).check();
    assert!(report.is_clean() && report.resets[Reset::HandlerOfHandler.name()] == 1, "{}", report.text());
}

/// JDK 17's C2 lets the interpreter call `clone` once more, and no other method.
#[test]
fn a_deoptimised_frame_clones_again() {
    let deoptimised = |caller, callee, bcis: &[u16]| {
        let flow =
            FlowBuilder::default().enter(caller, Tier::C2, Entry::Upcall).in_tier(Tier::C2, caller, &[0]);
        let flow = flow.call(callee).at(callee, bcis).ret(callee).leave(caller, Exit::Replaced);
        flow.enter(caller, Tier::Interpreter, Entry::Deoptimisation).at(caller, &[0])
    };
    let flow = deoptimised(COPIER, CLONE, &[0, 1]).call(CLONE).at(CLONE, &[0, 1]).ret(CLONE);
    let report = flow.at(COPIER, &[3]).ret(COPIER).check();
    assert!(report.is_clean() && report.resets[Reset::ClonedAgain.name()] == 1, "{}", report.text());
    assert_eq!(deoptimised(CALLER, LEAF, &[0, 1]).gap(true).broken(), ["edge"]);
}

/// `loop` interpreted, on-stack replaced, deoptimised.
fn replaced() -> FlowBuilder {
    FlowBuilder::default()
        .start(LOOP)
        .at(LOOP, &[0, 1, 2])
        .leave(LOOP, Exit::Replaced)
        .enter(LOOP, Tier::C2, Entry::Osr)
        .in_tier(Tier::C2, LOOP, &[0, 1])
        .leave(LOOP, Exit::Replaced)
        .enter(LOOP, Tier::Interpreter, Entry::Deoptimisation)
        .at(LOOP, &[1, 2, 5])
        .ret(LOOP)
}

#[test]
fn frames_continue_in_another_kind() {
    let report = replaced().check();
    assert!(report.is_clean(), "{}", report.text());
    assert_eq!((report.resets[Reset::Osr.name()], report.resets[Reset::Deoptimised.name()]), (1, 1));
}

#[test]
fn replacements_pair() {
    let without = |i: usize| {
        let mut flow = replaced();
        flow.0.remove(i);
        flow.broken()
    };
    assert_eq!(without(4)[0], "replacement");
    assert_eq!(without(5)[0], "replacement");
    assert_eq!(without(8)[0], "replacement");
    let mut flow = replaced();
    flow.0[5].kind = entered(LEAF, Tier::C2, Entry::Osr).unwrap();
    assert_eq!(flow.broken()[0], "replacement");
    // On-stack replacement leads from the interpreter to compiled code.
    let mut flow = replaced();
    flow.0[5].kind = entered(LOOP, Tier::Interpreter, Entry::Osr).unwrap();
    assert_eq!(flow.broken()[0], "replacement");
    // A callee returned before the caller was deoptimised, so the invoke is complete.
    let flow = FlowBuilder::default().enter(CALLER, Tier::C1, Entry::Upcall).in_tier(Tier::C1, CALLER, &[0]);
    let flow = flow.enter(LEAF, Tier::C1, Entry::Call).in_tier(Tier::C1, LEAF, &[0, 1]).ret(LEAF);
    let flow = flow.leave(CALLER, Exit::Replaced).enter(CALLER, Tier::Interpreter, Entry::Deoptimisation);
    assert!(flow.clone().at(CALLER, &[3]).gap(true).check().is_clean());
    assert_eq!(flow.at(CALLER, &[0]).gap(true).broken(), ["edge"]);
    // The branch does not lead to bci 1.
    let mut flow = replaced();
    flow.0[6].kind = EventKind::Bytecode { method: MethodId(LOOP), bci: Bci(1), tier: Tier::C2 };
    flow.0.remove(7);
    assert_eq!(flow.broken(), ["mid-block"]);
    // Deoptimised at bci 1, but the interpreter begins elsewhere.
    let mut flow = replaced();
    flow.0[10].kind = bytecode(LOOP, 0).unwrap();
    flow.0.remove(11);
    assert_eq!(flow.broken()[0], "edge");
}

#[test]
fn unresolved_stretches_are_held_to_their_ends() {
    let flow = |from, to, then: &[u16]| {
        let flow =
            FlowBuilder::default().enter(BRANCHY, Tier::C2, Entry::Upcall).unresolved(BRANCHY, from, to);
        flow.in_tier(Tier::C2, BRANCHY, then).ret(BRANCHY)
    };
    let good = flow(None, Some(9), &[9]).check();
    assert!(good.is_clean() && good.resets[Reset::Unresolved.name()] == 1, "{}", good.text());
    assert!(flow(None, None, &[]).check().is_clean());
    assert_eq!(flow(Some(4), Some(9), &[9]).broken(), ["stretch"]);
    assert_eq!(flow(None, Some(9), &[8, 9]).broken(), ["stretch"]);
    assert_eq!(flow(None, Some(5), &[]).broken(), ["return"]);
    // No path leads back.
    let back =
        FlowBuilder::default().enter(BRANCHY, Tier::C2, Entry::Upcall).in_tier(Tier::C2, BRANCHY, &[0, 1, 8]);
    let back = back.unresolved(BRANCHY, Some(8), Some(4)).in_tier(Tier::C2, BRANCHY, &[4, 5, 9]).ret(BRANCHY);
    assert_eq!(back.broken(), ["stretch"]);
    // Where the interpreter restarts at an earlier state, the path leads from there.
    let restarted = |to, then: &[u16]| {
        let flow = FlowBuilder::default().enter(BRANCHY, Tier::C2, Entry::Upcall);
        let flow = flow.in_tier(Tier::C2, BRANCHY, &[0, 1, 8]).restarts(BRANCHY, 8, to);
        flow.in_tier(Tier::C2, BRANCHY, then).ret(BRANCHY)
    };
    assert!(restarted(1, &[1, 4, 5, 9]).check().is_clean());
    assert_eq!(restarted(4, &[4, 5, 9]).broken(), ["stretch"]);
    // A path exists if another activation went there.
    let anew =
        FlowBuilder::default().enter(BRANCHY, Tier::C2, Entry::Upcall).in_tier(Tier::C2, BRANCHY, &[0, 1, 8]);
    let anew = anew.unresolved_over(BRANCHY, (Some(8), Some(4)), 1).in_tier(Tier::C2, BRANCHY, &[4, 5, 9]);
    assert!(anew.ret(BRANCHY).check().is_clean());
    // The interpreter has no unresolved stretches.
    let flow = FlowBuilder::default().start(BRANCHY).unresolved(BRANCHY, None, None).ret(BRANCHY);
    assert_eq!(flow.broken(), ["stretch"]);
}

#[test]
fn a_stretch_to_the_end_of_a_frame() {
    let enter = |m| FlowBuilder::default().enter(m, Tier::C2, Entry::Upcall);
    // THROWER ends only by an exception.
    for (exit, broken) in [(Exit::Return, &["stretch"][..]), (Exit::Unwind, &[]), (Exit::Unknown, &[])] {
        assert_eq!(enter(THROWER).unresolved(THROWER, None, None).leave(THROWER, exit).broken(), broken);
    }
    // Compiled code ends in an unknown way without an unresolved stretch that says so.
    assert_eq!(enter(LEAF).leave(LEAF, Exit::Unknown).broken(), ["stretch"]);
    // The caller may continue, catch, or be left, but not with a different bytecode.
    let called = enter(CALLER).in_tier(Tier::C2, CALLER, &[0]).enter(LEAF, Tier::C2, Entry::Call);
    let back = called.unresolved(LEAF, None, None).leave(LEAF, Exit::Unknown);
    assert!(back.clone().in_tier(Tier::C2, CALLER, &[3, 6]).ret(CALLER).check().is_clean());
    assert!(back.clone().catch(CALLER, 7).in_tier(Tier::C2, CALLER, &[7]).gap(true).check().is_clean());
    assert!(back.clone().leave(CALLER, Exit::Unwind).check().is_clean());
    assert_eq!(back.in_tier(Tier::C2, CALLER, &[6]).ret(CALLER).broken(), ["mid-block"]);
    // A frame continues although its end was announced.
    let on = enter(LEAF).unresolved(LEAF, None, None).in_tier(Tier::C2, LEAF, &[0, 1]);
    assert_eq!(on.ret(LEAF).broken(), ["stretch"]);
}

#[test]
fn a_handler_at_the_end_of_a_stretch() {
    let start = FlowBuilder::default().enter(CALLER, Tier::C1, Entry::Upcall).in_tier(Tier::C1, CALLER, &[0]);
    let flow = |to| start.clone().unresolved(CALLER, Some(0), Some(to)).catch(CALLER, to);
    assert!(flow(7).in_tier(Tier::C1, CALLER, &[7]).gap(true).check().is_clean());
    assert_eq!(flow(6).in_tier(Tier::C1, CALLER, &[6]).ret(CALLER).broken(), ["handler"]);
}

#[test]
fn an_exception_caught_in_a_stretch() {
    let start = FlowBuilder::default().enter(CALLER, Tier::C1, Entry::Upcall).in_tier(Tier::C1, CALLER, &[0]);
    let flow = start.enter(LEAF, Tier::C1, Entry::Call).leave(LEAF, Exit::Unwind);
    let stretch = |to| flow.clone().unresolved(CALLER, Some(0), Some(to)).in_tier(Tier::C1, CALLER, &[to]);
    let report = stretch(9).ret(CALLER).check();
    assert!(report.is_clean() && report.resets[Reset::CaughtInStretch.name()] == 1, "{}", report.text());
    // Only normal control flow leads to bci 6.
    let report = stretch(6).ret(CALLER).check();
    assert_eq!(report.by_rule["stretch"], 1, "{}", report.text());
}

#[test]
fn a_gap_resets_as_much_as_it_must() {
    // The stack is lost: the checker believes whatever follows, but it must begin with a frame.
    let start = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).leave(CALLER, Exit::Lost).gap(true);
    let found =
        start.clone().enter(BRANCHY, Tier::Interpreter, Entry::Found).at(BRANCHY, &[5, 9]).ret(BRANCHY);
    let report = found.check();
    assert!(report.is_clean(), "{}", report.text());
    let reset = |r: Reset| report.resets.get(r.name()).copied().unwrap_or_default();
    assert_eq!((reset(Reset::GapStackLost), reset(Reset::FrameLost), reset(Reset::FrameFound)), (1, 1, 1));
    assert_eq!(start.clone().at(BRANCHY, &[5]).broken()[0], "no-frame");
    // A found frame calls before its position is known: its call site cannot be checked.
    let calls = start.enter(CALLER, Tier::C1, Entry::Found).call(LEAF).at(LEAF, &[0, 1]).ret(LEAF).gap(true);
    let report = calls.check();
    assert!(report.is_clean() && report.resets[Reset::CallerUnknown.name()] == 1, "{}", report.text());
    // An inlined frame may be found directly on a found one, but not on one of which something
    // is known.
    let begun = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).leave(CALLER, Exit::Lost).gap(true);
    let outer = begun.clone().enter(CALLER, Tier::C1, Entry::Found);
    let inner = |f: FlowBuilder| f.enter(LEAF, Tier::C1, Entry::Found).gap(true);
    assert!(inner(outer.clone()).check().is_clean());
    let known = begun.enter(CALLER, Tier::C1, Entry::Found).gap(false).enter(BRANCHY, Tier::C1, Entry::Call);
    assert_eq!(inner(known).broken(), ["call-site"]);
    assert_eq!(outer.enter(LEAF, Tier::C2, Entry::Found).gap(true).broken()[0], "call-site");
    // The stack is kept: the frames below are still checked.
    let kept =
        FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).gap(false).at(LEAF, &[1]).ret(LEAF);
    assert!(kept.clone().at(CALLER, &[3]).call(BRANCHY).gap(true).check().is_clean());
    assert_eq!(kept.at(CALLER, &[6]).ret(CALLER).broken(), ["mid-block"]);
}

#[test]
fn frames_are_lost_only_in_front_of_a_gap() {
    let flow = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).leave(LEAF, Exit::Lost);
    assert_eq!(flow.clone().at(CALLER, &[3]).broken()[0], "lost");
    assert!(flow.leave(CALLER, Exit::Lost).check().is_clean());
}

#[test]
fn only_inferred_frames_are_lost_in_front_of_a_found_one() {
    let start = FlowBuilder::default().start(CALLER).at(CALLER, &[0]).call(LEAF).at(LEAF, &[0]);
    let orphan = EventKind::Orphan(Orphan::Bytecode { opcode: 0, taken: None });
    let goes_on = |f: FlowBuilder| {
        let found =
            f.clone().enter(BRANCHY, Tier::Interpreter, Entry::Found).at(BRANCHY, &[5, 9]).ret(BRANCHY);
        assert_eq!(found.broken(), f.clone().event(orphan.clone()).broken());
        found.broken()
    };
    let lost = |f: FlowBuilder, m, inferred| match inferred {
        true => f.leave(m, Exit::Lost).inferred(),
        false => f.leave(m, Exit::Lost),
    };
    for (callee, caller) in [(true, true), (true, false), (false, true), (false, false)] {
        let flow = lost(lost(start.clone(), LEAF, callee), CALLER, caller);
        let expected: &[&str] = if callee && caller { &[] } else { &["lost"] };
        assert_eq!(goes_on(flow.clone()), expected, "{callee} {caller}");
        assert!(goes_on(flow.gap(true)).is_empty(), "behind a gap");
    }
    let by = lost(lost(start, LEAF, true), CALLER, true);
    assert_eq!(by.call(BRANCHY).broken()[0], "lost", "it is not found, but called");
}

#[test]
fn time_continues() {
    let flow = FlowBuilder::default().event(EventKind::Time(Tsc(5))).event(EventKind::Time(Tsc(5)));
    assert!(flow.check().is_clean());
    assert_eq!(flow.event(EventKind::Time(Tsc(4))).broken(), ["time"]);
}

#[test]
fn frames_left_open() {
    let mut flow = good();
    flow.0.pop();
    assert_eq!(flow.broken(), ["open"]);
}

#[test]
fn findings_say_where_and_only_the_first_are_kept() {
    let mut flow = good();
    flow.0[10].kind = bytecode(BRANCHY, 5).unwrap();
    flow.0.insert(0, jportal_flow::Event::decoded(EventKind::Time(Tsc(77))));
    let report = flow.check();
    let f = &report.first[0];
    assert_eq!((f.rule, f.tid, f.event, f.tsc), (Rule::MidBlock, 7, 11, Some(77)));
    assert_eq!((f.frames[0].bci, f.frames[0].opcode, f.frames[1].bci), (Some(1), Some("ifeq"), Some(3)));
    assert!(f.what.contains("bci 5 (goto) follows bci 1 (ifeq), which leads to 4, 8"), "{}", f.what);
    assert!(f.text().contains("called from a.A.caller()V @3 invokestatic"), "{}", f.text());
    let many = (0..50).fold(FlowBuilder::default().start(LEAF), |flow, _| flow.at(LEAF, &[1]));
    let report = many.check_with(CheckOptions { keep: 3 });
    assert_eq!((report.first.len(), report.findings), (3, 51));
    assert!(report.text().contains("and 48 more findings"));
    assert_eq!(report.resets[Reset::AfterFinding.name()], 51);
}
