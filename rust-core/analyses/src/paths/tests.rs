// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use fastrand::Rng;
use jportal_bytecode::{Cfg, MethodTable, Opcode, Transfer};
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit, Tier};
use jportal_units::{Bci, MethodId};

use super::examples::{FOO, FUN, LIBRARY, POLY, POLY_SUPERS, THR};
use super::machine::{ClassFileMethod, HeapMachine, table};
use super::numbering_tests::{Last, assemble, random};
use super::{MethodPaths, Paths, PathsAnalysis, Show};
use crate::run_tests::in_runs;
use crate::select::is_application;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, projected, recovered};

const ALL: Show = Show { top: usize::MAX, cut: true };

fn report(methods: &Arc<MethodTable>, threads: &[&[Event]]) -> Paths {
    let mut analysis = PathsAnalysis::new(Arc::clone(methods), Arc::default());
    (1..).zip(threads).for_each(|(tid, events)| feed(&mut analysis, tid, events));
    analysis.report(ALL, |_| true)
}

/// The report on an example, from runs and from single bytecodes.
fn example(class: &str, sources: &[ClassFileMethod<'_>], supers: &[(&str, &str)]) -> Paths {
    let methods = Arc::new(table(&[sources, LIBRARY]));
    let events = HeapMachine::new(&methods, supers).run(class);
    let runs = in_runs(&methods, &events);
    assert!(runs.len() < events.len());
    let report = report(&methods, &[&events]);
    assert_eq!(report, self::report(&methods, &[&runs]));
    assert!(report.exact);
    report
}

fn of<'a>(report: &'a Paths, method: &str) -> &'a MethodPaths {
    report.methods.iter().find(|m| m.method.contains(method)).unwrap()
}

/// Identity and times.
fn times(m: &MethodPaths) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = m.rows.iter().map(|row| (row.id, row.times.total())).collect();
    all.sort_unstable();
    all
}

/// Prefix, bci, reason, times and bytecodes.
fn cuts(m: &MethodPaths) -> Vec<(Option<u64>, u16, &str, u64, u64)> {
    let mut all: Vec<_> =
        m.cuts.iter().flatten().map(|c| (c.prefix, c.bci, c.reason, c.times.total(), c.bytecodes)).collect();
    all.sort_unstable();
    all
}

/// Every bytecode is on a path or was cut.
fn assert_sum(report: &Paths) {
    let counted: u64 = report.methods.iter().map(|m| m.bytecodes).sum();
    assert_eq!(counted + report.again, report.bytecodes.total());
}

#[test]
fn e1_foo() {
    let r = example("Foo", FOO, &[]);
    assert_sum(&r);
    assert_eq!(r.bytecodes.total(), 624 + 1, "one of Object.<init>");
    let [f, g, h] = ["Foo.f(", "Foo.g(", "Foo.h("].map(|m| of(&r, m));
    assert_eq!((f.paths, g.paths, h.paths), (Some(4), Some(4), Some(1)));
    assert_eq!(times(f), [(0, 1), (2, 9), (3, 1)]);
    assert_eq!(times(g), [(0, 10), (2, 45), (3, 10)]);
    assert_eq!(times(h), [(0, 65)]);
    assert_eq!((g.executed, g.completed.total(), g.cut.total()), (3, 65, 0));
    assert_eq!((f.bytecodes, g.bytecodes, h.bytecodes), (106, 445, 65));
    let row = &g.rows[0];
    assert_eq!(
        (&*row.from, &*row.to, &row.blocks[..], &*row.lines),
        ("loop @2", "back @14", &[2, 7][..], "3")
    );
    assert_eq!((row.length, g.rows[2].to.as_str(), g.rows[1].from.as_str()), (7, "return", "entry"));
    let text = r.text();
    let expected = "
Foo.g(I)V   4 paths, 3 executed, 65 completed, 0 cut
  id  times  share  from     to        blocks  (lines)
   2     45  69.2%  loop @2  back @14  2 7     (3)
   0     10  15.4%  entry    back @14  0 2 7   (3)
   3     10  15.4%  loop @2  return    2 17    (3)
";
    assert!(text.contains(expected), "{text}");
    assert_eq!((r.hot[0].method.as_str(), r.hot[0].bytecodes, r.hot[0].path.id), ("Foo.g(I)V", 315, 2));
    assert!(
        text.starts_with(
            "share  bytecodes  times  id  from     to        method\n50.4%        315     45   2"
        )
    );
}

#[test]
fn e2_fun() {
    let r = example("Fun", FUN, &[]);
    assert_sum(&r);
    let fun = of(&r, "Fun.fun(");
    assert_eq!((fun.paths, times(fun)), (Some(4), vec![(0, 2), (1, 2), (2, 3), (3, 3)]));
    assert_eq!((fun.bytecodes, of(&r, "Fun.main(").bytecodes), (124, 150));
    let blocks = |id| fun.rows.iter().find(|row| row.id == id).unwrap().blocks.clone();
    assert_eq!((blocks(0), blocks(1)), (vec![0, 4, 15, 21], vec![0, 4, 15, 23]));
    assert_eq!((blocks(2), blocks(3)), (vec![0, 11, 15, 21], vec![0, 11, 15, 23]));
}

#[test]
fn e3_thr() {
    let r = example("Thr", THR, &[]);
    assert_sum(&r);
    let (call, boom) = (of(&r, "Thr.call("), of(&r, "Thr.boom("));
    assert_eq!((call.paths, times(call)), (Some(2), vec![(0, 6), (1, 3)]));
    assert_eq!(cuts(call), [(Some(0), 9, "exception", 3, 18)]);
    assert_eq!((call.cut.total(), call.bytecodes, boom.bytecodes), (3, 108, 78));
    assert_eq!((&*call.rows[1].from, &call.rows[1].blocks[..]), ("handler @24", &[24, 34][..]));
    assert_eq!((times(boom), boom.cut.total()), (vec![(0, 3), (1, 6)], 0), "athrow completes a path");
    assert!(r.text().contains("       0      3  exception  at @9  0       (4)\n"), "{}", r.text());
}

#[test]
fn e6_poly() {
    let r = example("Poly", POLY, POLY_SUPERS);
    assert_sum(&r);
    assert_eq!(of(&r, "Poly.main(").bytecodes, 404);
    assert_eq!(times(of(&r, "Poly.main(")), [(0, 1), (2, 11), (3, 1)]);
}

/// 0 nop; 1 if 8; 4 nop; 5 goto 1; 8 return. Four paths: 0 4>1, 0 8, 4>1, 8.
fn looping() -> Arc<MethodTable> {
    let blocks = [(0, Last::Fall), (0, Last::If(3)), (1, Last::Goto(1)), (0, Last::Return)];
    let (m, starts) = assemble(&blocks, &[]);
    assert_eq!(starts, [0, 1, 4, 8]);
    let mut methods = MethodTable::default();
    methods.push(m);
    Arc::new(methods)
}

fn at(bcis: &[u16]) -> Vec<Event> {
    bcis.iter().map(|bci| bytecode(0, *bci)).collect()
}

fn flow(parts: &[&[Event]]) -> MethodPaths {
    let methods = looping();
    let events = parts.concat();
    let r = report(&methods, &[&events]);
    assert_sum(&r);
    assert_eq!(r, report(&methods, &[&in_runs(&methods, &events)]));
    r.methods.into_iter().next().unwrap()
}

#[test]
fn osr_and_deoptimisation_continue_a_path() {
    let whole: Vec<u16> = vec![0, 1, 4, 5, 1, 8];
    for n in 1..whole.len() {
        for (entry, twice) in
            [(Entry::Osr, false), (Entry::Deoptimisation, false), (Entry::Deoptimisation, true)]
        {
            let again = n - usize::from(twice);
            let replaced = [leave_as(0, Exit::Replaced), enter_as(0, entry)];
            let m = flow(&[&[enter(0)], &at(&whole[..n]), &replaced, &at(&whole[again..]), &[leave(0)]]);
            assert_eq!((times(&m), cuts(&m)), (vec![(0, 1), (3, 1)], vec![]), "{n} {entry:?} {twice}");
        }
    }
    // The same bytecode twice without a deoptimisation is a fault.
    let m = flow(&[&[enter(0)], &at(&[0, 1, 1, 4, 5, 1, 8]), &[leave(0)]]);
    assert_eq!(
        (times(&m), cuts(&m)),
        (vec![(3, 1)], vec![(None, 1, "break", 1, 3), (Some(0), 1, "break", 1, 2)])
    );
}

#[test]
fn deoptimisation_of_a_return_and_of_inlined_frames() {
    let twice = [leave_as(0, Exit::Replaced), enter_as(0, Entry::Deoptimisation)];
    let m = flow(&[&[enter(0)], &at(&[0, 1, 8]), &twice, &at(&[8]), &[leave(0)]]);
    assert_eq!((times(&m), cuts(&m)), (vec![(1, 1)], vec![]));
    // Two activations of one method, as if inlined.
    let both = [&twice[..1], &twice[..1], &twice[1..], &twice[1..]].concat();
    let m = flow(&[
        &[enter(0)],
        &at(&[0]),
        &[enter(0)],
        &at(&[0, 1]),
        &both,
        &at(&[4, 5, 1, 8]),
        &[leave(0)],
        &at(&[1, 8]),
    ]);
    assert_eq!((times(&m), cuts(&m)), (vec![(0, 1), (1, 1), (3, 1)], vec![]));
}

#[test]
fn found_frames_begin_at_a_known_edge() {
    let found = [enter_as(0, Entry::Found)];
    // The frame reaches the head of the loop by a back edge.
    let m = flow(&[&found, &at(&[4, 5, 1, 4, 5, 1, 8]), &[leave(0)]]);
    assert_eq!((times(&m), cuts(&m)), (vec![(2, 1), (3, 1)], vec![(None, 4, "found", 1, 2)]));
    // It comes from block 0: no path of the loop begins.
    let m = flow(&[&found, &at(&[0, 1, 8]), &[leave(0)]]);
    assert_eq!((times(&m), cuts(&m)), (vec![(1, 1)], vec![]), "nothing but the entry leads to block 0");
    // Found at the head: it may have come from block 0.
    let m = flow(&[&found, &at(&[1, 4, 5, 1, 8]), &[leave(0)]]);
    assert_eq!((times(&m), cuts(&m)), (vec![(3, 1)], vec![(None, 1, "found", 1, 3)]));
    let m = flow(&[&at(&[8])]);
    assert_eq!((times(&m), cuts(&m), m.exact), (vec![], vec![(None, 8, "found", 1, 1)], false));
}

#[test]
fn gaps_and_unresolved_stretches_cut_paths() {
    let m = flow(&[&[enter(0)], &at(&[0, 1]), &[gap(false)], &at(&[5, 1, 8]), &[leave(0)]]);
    assert_eq!((times(&m), m.exact), (vec![(3, 1)], false));
    assert_eq!(cuts(&m), [(None, 5, "gap", 1, 1), (Some(0), 1, "gap", 1, 2)]);
    assert_eq!((m.cut.total(), m.parts.total()), (1, 1));
    let m = flow(&[&[enter(0)], &at(&[0, 1]), &[gap(true), enter(0)], &at(&[0, 1, 8]), &[leave(0)]]);
    assert_eq!((times(&m), cuts(&m)), (vec![(1, 1)], vec![(Some(0), 1, "gap", 1, 2)]));
    let stretch = |from: u16, to: Option<u16>, callers| {
        let (from, to, cause) = (Some(Bci(from)), to.map(Bci), Cause::EmptyLoop);
        [Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers })]
    };
    let m = flow(&[&[enter(0)], &at(&[0]), &stretch(0, Some(8), 0), &at(&[8]), &[leave(0)]]);
    assert_eq!((times(&m), m.exact), (vec![], false));
    assert_eq!(cuts(&m), [(None, 8, "unresolved", 1, 1), (Some(0), 0, "unresolved", 1, 1)]);
    let m = flow(&[&[enter(0)], &at(&[0, 1]), &stretch(1, None, 0), &[leave(0)]]);
    assert_eq!(cuts(&m), [(Some(0), 1, "unresolved", 1, 2)]);
    // A lost loop that includes the caller.
    let inner = [&at(&[0])[..], &[enter(0)], &at(&[0])].concat();
    let m = flow(&[&[enter(0)], &inner, &stretch(0, Some(1), 1), &at(&[1, 8]), &[leave(0)], &at(&[1, 8])]);
    assert_eq!(
        (times(&m), cuts(&m)),
        (vec![], vec![(None, 1, "unresolved", 2, 4), (Some(0), 0, "unresolved", 2, 2)])
    );
}

#[test]
fn the_end_of_a_flow_and_lost_frames_cut_paths() {
    let m = flow(&[&[enter(0)], &at(&[0]), &[enter(0)], &at(&[0, 1, 4])]);
    assert_eq!(cuts(&m), [(Some(0), 0, "end", 1, 1), (Some(0), 4, "end", 1, 3)]);
    for (exit, reason) in [
        (Exit::Lost, "lost"),
        (Exit::Unknown, "lost"),
        (Exit::EarlyReturn, "early-return"),
        (Exit::PopFrame, "pop-frame"),
        (Exit::Return, "break"),
        (Exit::Unwind, "exception"),
    ] {
        let m = flow(&[&[enter(0)], &at(&[0, 1]), &[leave_as(0, exit)]]);
        assert_eq!(cuts(&m), [(Some(0), 1, reason, 1, 2)]);
    }
    // A frame that never began is no path.
    let methods = looping();
    let r = report(&methods, &[&[enter(0), leave_as(0, Exit::Unwind)]]);
    assert!(r.methods.is_empty());
    // PopFrame: the caller's invoke is executed again.
    let m = flow(&[
        &[enter(0)],
        &at(&[0]),
        &[enter(0)],
        &at(&[0]),
        &[leave_as(0, Exit::PopFrame)],
        &at(&[0, 1, 8]),
        &[leave(0)],
    ]);
    assert_eq!((times(&m), cuts(&m)), (vec![(1, 1)], vec![(Some(0), 0, "pop-frame", 1, 1)]));
}

#[test]
fn the_provenance_of_a_path_is_that_of_its_least_certain_event() {
    let methods = looping();
    let (p, r) = (projected(bytecode(0, 1)), recovered(bytecode(0, 8)));
    let some = [vec![enter(0)], at(&[0]), vec![p.clone()], at(&[4, 5, 1]), vec![r, leave(0)]].concat();
    let mut a = PathsAnalysis::new(Arc::clone(&methods), Arc::default());
    feed(&mut a, 1, &some);
    let m = a.report(ALL, |_| true).methods.remove(0);
    let all: Vec<_> = m
        .rows
        .iter()
        .map(|row| (row.id, row.times.decoded, row.times.projected, row.times.recovered))
        .collect();
    assert_eq!((all, m.exact), (vec![(0, 0, 1, 0), (3, 0, 0, 1)], false));
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let mut a = PathsAnalysis::new(methods, Arc::default()).excluding(exclude);
    feed(&mut a, 1, &some);
    let r = a.report(ALL, |_| true);
    assert_sum(&r);
    assert_eq!((times(&r.methods[0]), r.bytecodes.total()), (vec![(0, 1)], 5));
    assert_eq!(cuts(&r.methods[0]), [(Some(2), 1, "excluded", 1, 1)]);
    assert!(r.text().contains("1 event left out"), "{}", r.text());
}

#[test]
fn code_without_numbers_is_said() {
    let mut methods = MethodTable::default();
    methods.push(crate::testing::method("a/B\u{1b}", "f", &[0, 203]));
    let r = report(&Arc::new(methods), &[&[enter(0), bytecode(0, 0), leave(0)]]);
    assert_sum(&r);
    let m = &r.methods[0];
    assert_eq!((m.paths, m.rows.len(), cuts(m)), (None, 0, vec![(None, 0, "break", 1, 1)]));
    assert!(r.text().contains("the bytecodes cannot be read: opcode 203 at bci 1"), "{}", r.text());
    assert!(r.text().contains("a.B\\x1b.f(I)I   no paths"), "{}", r.text());
    // The frames of a flow that fits no code.
    let mut a = PathsAnalysis::new(looping(), Arc::default());
    feed(&mut a, 1, &[enter(7), bytecode(7, 3), leave(7), leave(7), bytecode(0, 3), bytecode(1, 99)]);
    assert_eq!(a.report(ALL, |_| true).bytecodes.total(), 3);
}

#[test]
fn rows_for_files_and_json() {
    let r = example("Thr", THR, &[]);
    let rows: Vec<_> = r.csv_rows().filter(|row| row[0] == "Thr.call(I)V").collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows[1],
        [
            "Thr.call(I)V",
            "",
            "app",
            "2",
            "1",
            "3",
            "0",
            "0",
            "handler @24",
            "return",
            "24 34",
            "4",
            "6",
            "true"
        ]
    );
    assert_eq!(super::CSV_HEAD.len(), rows[0].len());
    let json = serde_json::to_value(of(&r, "Thr.call(")).unwrap();
    assert_eq!(json["cuts"][0]["reason"], "exception");
    assert_eq!((&json["rows"][0]["id"], &json["rows"][0]["times"]["decoded"]), (&0.into(), &6.into()));
    let methods = Arc::new(table(&[THR, LIBRARY]));
    let mut a = PathsAnalysis::new(Arc::clone(&methods), Arc::default());
    feed(&mut a, 1, &HeapMachine::new(&methods, &[]).run("Thr"));
    let r = a.report(Show { top: 1, cut: false }, is_application);
    assert_eq!((r.methods.len(), r.hot.len(), r.executed, &r.methods[0].cuts), (1, 1, 3, &None));
    assert!(
        r.text().contains("  1 path more\n") && r.text().ends_with("2 more methods were executed\n"),
        "{}",
        r.text()
    );
}

#[test]
fn the_order_of_threads_does_not_matter() {
    let methods = Arc::new(table(&[FOO, LIBRARY]));
    let events = HeapMachine::new(&methods, &[]).run("Foo");
    let half = &events[..300];
    assert_eq!(report(&methods, &[&events, half]), report(&methods, &[half, &events]));
}

/// A random walk through a method: exceptions, gaps and deoptimisations included.
fn walk(rng: &mut Rng, m: &jportal_bytecode::Method) -> Vec<Event> {
    let cfg = Cfg::of(m).unwrap();
    let mut events = vec![enter(0)];
    let mut at = 0_u32;
    for _ in 0..rng.usize(1..60) {
        let bci = cfg.starts()[at as usize];
        events.push(bytecode(0, bci.0));
        match rng.u8(..40) {
            0 => events.extend([
                leave_as(0, Exit::Replaced),
                enter_as(0, Entry::Deoptimisation),
                bytecode(0, bci.0),
            ]),
            1 => events.extend([leave_as(0, Exit::Replaced), enter_as(0, Entry::Osr)]),
            2 => {
                events.push(gap(rng.bool()));
                at = rng.u32(..cfg.starts().len() as u32);
                continue;
            }
            _ => {}
        }
        let opcode = Opcode(m.code[usize::from(bci.0)]);
        let handlers: Vec<u32> = cfg.handlers(at).collect();
        if opcode.transfer() == Transfer::Throw || rng.u8(..20) == 0 {
            let Some(handler) = rng.choice(handlers) else { break };
            let bci = cfg.starts()[handler as usize];
            events.push(Event::decoded(EventKind::Catch { method: MethodId(0), bci }));
            at = handler;
            continue;
        }
        let Some(edge) = rng.choice(cfg.edges(at)) else { break };
        at = edge.to;
    }
    events
}

#[test]
fn every_bytecode_of_random_walks_is_on_a_path_or_was_cut() {
    let mut rng = Rng::with_seed(11);
    let (mut completed, mut cut, mut again) = (0, 0, 0);
    for seed in 0..4000 {
        let (m, _) = random(&mut rng);
        let mut methods = MethodTable::default();
        let events = walk(&mut rng, &m);
        methods.push(m);
        let methods = Arc::new(methods);
        let r = report(&methods, &[&events]);
        assert_sum(&r);
        let runs = in_runs(&methods, &events);
        assert_eq!(r, report(&methods, &[&runs]), "seed {seed}");
        completed += r.completed.total();
        cut += r.cut.total();
        again += r.again;
        // Without a gap, all paths have a beginning.
        if !events.iter().any(|e| matches!(e.kind, EventKind::Gap(_))) {
            assert!(r.methods.iter().all(|m| m.parts.total() == 0), "seed {seed} {:?}", r.methods);
        }
    }
    assert!(completed > 5000 && cut > 1000 && again > 300, "{completed} {cut} {again}");
}

#[test]
fn compiled_and_interpreted_bytecodes_are_the_same_path() {
    let methods = looping();
    let tier = |bci, tier| Event::decoded(EventKind::Bytecode { method: MethodId(0), bci: Bci(bci), tier });
    let events = [enter(0), tier(0, Tier::C1), tier(1, Tier::C2), tier(8, Tier::Interpreter), leave(0)];
    assert_eq!(times(&report(&methods, &[&events]).methods[0]), [(1, 1)]);
}
