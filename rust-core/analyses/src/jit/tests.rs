// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests the analysis of compiled code on flows made by hand.

use std::sync::Arc;

use jportal_flow::{CodeStep, CodeStop, Entry, Event, EventKind, Exit, Tier};
use jportal_units::{Bci, CodeId, MethodId, Tsc};

use super::*;
use jportal_bytecode::Method;

use crate::testing::{enter, enter_as, feed, gap, leave, leave_as};

/// Code of m0 with the compile id and the code id `id`.
pub(crate) fn compilation(id: u32, level: u8, method: u32) -> Compilation {
    Compilation {
        code: CodeId(id),
        compile_id: id,
        tier: if level == 4 { Tier::C2 } else { Tier::C1 },
        level,
        method: Some(MethodId(method)),
        osr_bci: None,
        installed: Tsc(u64::from(id) * 1000),
        size: 100,
        states: Vec::new(),
        freed: None,
        frames: vec![ChainFrame { parent: None, call_bci: 0, method: Some(MethodId(method)) }],
        blocks: None,
        traps: Vec::new(),
    }
}

/// C2's code 7 of m0 with m1 inlined at bci 4, and a trap at bci 1 that returns to offset 40.
fn c2() -> Compilation {
    let inlined = ChainFrame { parent: Some(0), call_bci: 4, method: Some(MethodId(1)) };
    let frames = vec![ChainFrame { parent: None, call_bci: 0, method: Some(MethodId(0)) }, inlined];
    let request = Some(!(23 << 3 | 2));
    let traps = vec![PlannedTrap { returns: 40, request, position: Some((MethodId(0), 1)) }];
    let blocks = Some(vec![(0, 0), (0, 4), (0, 8), (1, 0), (1, 4)]);
    Compilation { frames, traps, blocks, ..compilation(7, 4, 0) }
}

/// m0 calls m1 at bci 4: 0 iload_0; 1 ifeq 8; 4 invokestatic; 7 nop; 8 iconst_0; 9 ireturn.
fn methods() -> Arc<MethodTable> {
    const CALLS: &[u8] = &[26, 153, 0, 7, 184, 0, 1, 0, 3, 172];
    let mut table = MethodTable::default();
    for m in crate::testing::methods().iter() {
        let code = if m.id == MethodId(0) { CALLS.into() } else { m.code.clone() };
        table.push(Method { code, ..m.clone() });
    }
    Arc::new(table)
}

fn analysis(all: Vec<Compilation>) -> JitAnalysis {
    JitAnalysis::new(methods(), Arc::default(), Arc::new(CompilationTable::new(all, 0)))
}

const OPTIONS: JitOptions<'static> =
    JitOptions { top: 100, clock: CodeClock { start: Tsc(0), khz: 1 }, whole: true, log: None };

fn at(method: u32, bci: u16, tier: Tier) -> Event {
    Event::decoded(EventKind::Bytecode { method: MethodId(method), bci: Bci(bci), tier })
}

fn in_tier(event: Event, to: Tier) -> Event {
    match event.kind {
        EventKind::Enter { method, entry, .. } => {
            Event::decoded(EventKind::Enter { method, entry, tier: to })
        }
        _ => event,
    }
}

fn entered(code: u32) -> Event {
    Event::decoded(EventKind::Code(CodeStep::Entered(CodeId(code))))
}

fn deoptimised(code: u32, stop: CodeStop) -> Event {
    let step = CodeStep::Deoptimised { code: CodeId(code), stop: Some(stop) };
    Event::decoded(EventKind::Code(step))
}

/// m0 is called in code 7, calls m1 inlined, and returns.
fn run_of_c2() -> Vec<Event> {
    vec![
        in_tier(enter_as(0, Entry::Upcall), Tier::C2),
        entered(7),
        at(0, 0, Tier::C2),
        at(0, 1, Tier::C2),
        at(0, 4, Tier::C2),
        in_tier(enter(1), Tier::C2),
        at(1, 0, Tier::C2),
        at(1, 1, Tier::C2),
        leave(1),
        leave(0),
    ]
}

/// m0 takes the trap at bci 1 and continues in the interpreter.
fn run_into_trap() -> Vec<Event> {
    vec![
        in_tier(enter_as(0, Entry::Upcall), Tier::C2),
        entered(7),
        at(0, 0, Tier::C2),
        at(0, 1, Tier::C2),
        deoptimised(7, CodeStop::Call(40)),
        leave_as(0, Exit::Replaced),
        enter_as(0, Entry::Deoptimisation),
        at(0, 8, Tier::Interpreter),
        leave(0),
    ]
}

#[test]
fn bytecodes_belong_to_the_code_that_executed_them() {
    let mut a = analysis(vec![c2(), compilation(8, 3, 1)]);
    feed(&mut a, 1, &run_of_c2());
    let r = a.report(OPTIONS, |_| true);
    let n = &r.nmethods[0];
    assert_eq!((n.compile_id, n.calls, n.bytecodes.total(), n.inlined), (7, 1, 5, 1));
    assert_eq!((n.blocks, n.reached, n.unknown), (Some(5), 3, 0));
    assert_eq!((r.never_ran.as_slice(), r.never_ran_is_certain, r.totals.ran), (&[8][..], true, 1));
    // m0's block at 8 and m1's at 4.
    let untaken: Vec<_> = r.untaken.iter().map(|b| (&*b.method, b.bci, b.depth)).collect();
    assert_eq!(untaken, [("a.B.f(I)I", 8, 0), ("a.B.g(I)I", 4, 1)]);
    let by_tier: Vec<_> = r.tiers.iter().map(|t| (&*t.tier, t.bytecodes)).collect();
    assert_eq!(by_tier, [("interpreter", 0), ("C1 level 3", 0), ("C2 level 4", 5)]);
    assert!(r.exact);
}

#[test]
fn a_callee_with_code_of_its_own_is_not_inlined() {
    let mut a = analysis(vec![c2(), compilation(8, 4, 1)]);
    let mut flow = run_of_c2();
    feed(&mut a, 1, &flow);
    flow.insert(6, entered(8));
    feed(&mut a, 2, &flow);
    let r = a.report(OPTIONS, |_| true);
    let site = &r.sites[0];
    assert_eq!((&*site.caller, site.bci, site.line), ("a.B.f(I)I", 4, Some(11)));
    assert_eq!((site.calls.total(), site.compiled, site.inlined), (2, 2, 1));
    let t = &site.targets[0];
    assert_eq!((t.method.as_deref(), &*t.inlined_by, t.undecided), (Some("a.B.g(I)I"), &[7][..], 0));
    let ran: Vec<_> = r.nmethods.iter().map(|n| (n.compile_id, n.bytecodes.total())).collect();
    assert_eq!(ran, [(7, 8), (8, 2)]);
}

#[test]
fn a_trap_has_the_reason_that_the_code_gives() {
    let ended = Compilation { states: vec![(Tsc(9000), CodeState::NotEntrant)], ..c2() };
    let mut a = analysis(vec![ended]);
    feed(&mut a, 1, &[run_into_trap(), run_into_trap()].concat());
    let mut invalid = run_into_trap();
    invalid[4] = deoptimised(7, CodeStop::Call(44));
    feed(&mut a, 2, &invalid);
    let r = a.report(OPTIONS, |_| true);
    let rows: Vec<_> =
        r.deoptimisations.iter().map(|d| (d.kind, d.reason, d.action, d.bci, d.times)).collect();
    let trap = ("uncommon-trap", Some("unstable_if"), Some("reinterpret"), Some(1), 2);
    assert_eq!(rows, [trap, ("invalid-code", None, None, Some(1), 1)]);
    let n = &r.nmethods[0];
    assert_eq!((n.end, n.deoptimisations, n.not_entrant_ms), (CodeEnd::Trapped, 3, Some(9000.0)));
    let b = r.branches.iter().find(|b| b.bci == 1).unwrap();
    assert_eq!((&*b.method, &*b.pruned_by), ("a.B.f(I)I", &[7][..]));
    assert!(r.storms.is_empty());
    let text = r.text();
    assert!(text.contains("unstable_if, reinterpret  a.B.f(I)I @1 line 10"), "{text}");
}

#[test]
fn traps_have_the_times_of_the_first_and_the_last() {
    let time = |t| vec![Event::decoded(EventKind::Time(Tsc(t)))];
    let mut a = analysis(vec![c2()]);
    let traps = [time(100), run_into_trap(), time(200), run_into_trap(), time(300), run_into_trap()];
    feed(&mut a, 1, &traps.concat());
    feed(&mut a, 2, &[time(250), run_into_trap()].concat());
    let r = a.report(OPTIONS, |_| true);
    let rows: Vec<_> = r.deoptimisations.iter().map(|d| (d.times, d.first_ms, d.last_ms)).collect();
    assert_eq!(rows, [(4, Some(100.0), Some(300.0))]);
}

#[test]
fn many_traps_are_a_storm_and_many_compilations_a_loop() {
    let mut a = analysis(vec![compilation(5, 4, 0), compilation(6, 4, 0), c2()]);
    feed(&mut a, 1, &vec![run_into_trap(); 10].concat());
    let r = a.report(OPTIONS, |_| true);
    assert_eq!((r.storms[0].times, r.storms[0].compilations[&7]), (10, 10));
    assert_eq!((r.loops[0].level, &*r.loops[0].compilations), (4, &[5, 6, 7][..]));
    assert!(r.text().contains("10 of unstable_if at a.B.f(I)I @1 line 10 (compilation 7: 10)"));
    let others = a.report(OPTIONS, |m| m.loader.is_empty());
    assert!(others.storms.is_empty() && others.loops.is_empty() && others.nmethods.is_empty());
}

#[test]
fn what_is_not_known_is_no_figure() {
    let mut a = analysis(vec![c2()]);
    let hidden = EventKind::Unresolved {
        method: MethodId(1),
        from: Some(Bci(1)),
        to: None,
        cause: jportal_flow::Cause::ConditionalMove,
        callers: 0,
    };
    let mut flow = run_of_c2();
    flow.insert(8, Event::decoded(hidden));
    feed(&mut a, 1, &flow);
    let r = a.report(OPTIONS, |_| true);
    let n = &r.nmethods[0];
    // The stretch is in m1: of m1's block at 4 nothing is known, m0's at 8 was not executed.
    assert_eq!((n.reached, n.unknown, n.unresolved, n.exact), (3, 1, 1, false));
    assert_eq!((r.all_untaken, r.untaken[0].bci), (1, 8));
    // Frames whose code was not reported, and lost trace.
    let unknown = [in_tier(enter_as(0, Entry::Found), Tier::C2), at(0, 0, Tier::C2), gap(true)];
    feed(&mut a, 2, &unknown);
    let r = a.report(OPTIONS, |_| true);
    assert_eq!((r.totals.unknown_code, r.never_ran_is_certain, r.exact), (1, false, false));
    assert_eq!((r.nmethods[0].unknown, r.all_untaken), (2, 0));
    assert!(r.text().contains("≥ 5"), "{}", r.text());
    feed(&mut a, 3, &[in_tier(enter_as(0, Entry::Upcall), Tier::C2), entered(99), leave(0)]);
    assert_eq!(a.report(OPTIONS, |_| true).totals.undescribed, 1);
}

#[test]
fn time_is_shared_by_code() {
    let time = |t| Event::decoded(EventKind::Time(Tsc(t)));
    let mut a = analysis(vec![c2()]).on_core(Arc::new(|_, t| t.get()));
    let mut flow = vec![time(100)];
    flow.extend(run_of_c2());
    flow.extend([time(200), enter_as(2, Entry::Upcall), at(2, 0, Tier::Interpreter), time(230)]);
    feed(&mut a, 1, &flow);
    let r = a.report(OPTIONS, |_| true);
    let times: Vec<_> = r.tiers.iter().map(|t| (&*t.tier, t.time_ms)).collect();
    // The entry is shown before its code is known, and counts for no code.
    let ms = r.nmethods[0].time_ms.unwrap();
    assert!((80.0..=100.0).contains(&ms), "{ms}");
    assert_eq!(times[0], ("interpreter", Some(30.0)));
}

const LOG: &str = "<hotspot_log><tty>
<task_queued compile_id='7' method='a.B f (I)I' stamp='0.1' comment='tiered'/>
<nmethod compile_id='7' compiler='c2' level='4' method='a.B f (I)I' stamp='0.2'/>
<nmethod compile_id='9' compiler='c1' level='3' method='a.B g (I)I' stamp='0.2'/>
<make_not_entrant compile_id='7' level='4' stamp='0.3'/>
<uncommon_trap thread='1' reason='unstable_if' action='reinterpret' compile_id='7' level='4' stamp='0.3'>
<jvms bci='1' method='a.B f (I)I'/>
</uncommon_trap>
</tty><compilation_log thread='2'><task compile_id='7' stamp='0.15'>
<type id='1' name='int'/><klass id='2' name='a.B'/>
<method id='3' holder='2' name='f' return='1' arguments='1'/>
<parse method='3'><bc code='153' bci='1'/><branch target_bci='8' taken='0' not_taken='40' prob='never'/></parse>
<task_done success='1' stamp='0.2'/></task></compilation_log><hotspot_log_done stamp='1'/></hotspot_log>";

#[test]
fn a_log_is_put_beside_the_recording() {
    let ended = Compilation { states: vec![(Tsc(9000), CodeState::NotEntrant)], ..c2() };
    let mut a = analysis(vec![ended, compilation(8, 3, 1)]);
    feed(&mut a, 1, &[run_into_trap(), run_into_trap()].concat());
    let log = CompilationLog::read(LOG.as_bytes());
    let r = a.report(JitOptions { log: Some(&log), ..OPTIONS }, |_| true);
    let j = r.log.as_ref().unwrap();
    assert_eq!((j.matched, &*j.recording_only, j.log_only[0].compile_id), (1, &[8][..], 9));
    assert_eq!((j.not_entrant, j.not_entrant_differs.len()), (1, 0));
    let t = &j.traps_differ[0];
    assert_eq!((j.traps, t.log, t.flow, t.bci), (1, 1, 2, 1));
    let n = r.nmethods.iter().find(|n| n.compile_id == 7).unwrap();
    assert_eq!(n.task.as_ref().map(|t| &*t.comment), Some("tiered"));
    let b = r.branches.iter().find(|b| b.bci == 1).unwrap();
    assert_eq!((b.profile[0].taken, b.profile[0].not_taken), (0, 40));
    let text = r.text();
    assert!(text.contains("compilations: 1 in both, 1 in the log only, 1 in the recording only"), "{text}");
    assert!(text.contains("0/40 (7)"), "{text}");
}
