// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts of small programs and flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::testing::feed;
use jportal_flow::{Cause, Entry, Event, EventKind, Exclude, Exit, Tally};
use jportal_units::{Bci, MethodId};

use super::interpreter::{foo, fun, pre, run, thr};
use super::*;
use crate::run_tests::{RandomFlow, in_runs};
use crate::testing::{bytecode, enter, enter_as, gap, leave, leave_as, methods, projected, recovered};

const ALL: BlocksOptions = BlocksOptions { level: Level::Bytecodes, top: None, idle: true };

fn counted(methods: &MethodTable, events: &[Event]) -> Blocks {
    let mut counts = CountsAnalysis::new(Arc::new(methods.clone()), Arc::default());
    feed(&mut counts, 1, events);
    counts.blocks(ALL, |_| true)
}

fn method<'b>(blocks: &'b Blocks, name: &str) -> &'b MethodBlocks {
    let mut all = blocks.classes.iter().flat_map(|c| &c.methods);
    all.find(|m| m.name.starts_with(&format!("{name}("))).expect("the method")
}

fn block_counts(blocks: &Blocks, name: &str) -> Vec<(u16, u64)> {
    method(blocks, name).blocks.iter().map(|b| (b.bci, b.executions.total())).collect()
}

/// First bci, last bci and count of consecutive bytecodes with the same count.
fn ranges(blocks: &Blocks, name: &str) -> Vec<(u16, u16, u64)> {
    let mut all: Vec<(u16, u16, u64)> = Vec::new();
    for b in method(blocks, name).code.iter().flatten() {
        match all.last_mut() {
            Some((_, last, n)) if *n == b.executions.total() => *last = b.bci,
            _ => all.push((b.bci, b.bci, b.executions.total())),
        }
    }
    all
}

fn ways(blocks: &Blocks, name: &str) -> Vec<(u16, u16, u64)> {
    method(blocks, name).ways.iter().map(|w| (w.bci, w.to, w.times.total())).collect()
}

fn exceptions(blocks: &Blocks, name: &str) -> Vec<(Option<u16>, Option<u16>, u64)> {
    method(blocks, name).exceptions.iter().map(|e| (e.from, e.to, e.times.total())).collect()
}

fn calls_and_bytecodes(blocks: &Blocks, name: &str) -> (u64, u64) {
    let m = method(blocks, name);
    (m.entries.calls.total(), m.bytecodes.total())
}

/// Block executions times their length, less what exceptions cut off, is the number of bytecodes.
fn sums_hold(blocks: &Blocks) {
    let mut sum = 0;
    for m in blocks.classes.iter().flat_map(|c| &c.methods) {
        let whole: u64 = m.blocks.iter().map(|b| b.executions.total() * u64::from(b.bytecodes)).sum();
        let cut = |e: &ExceptionWay| {
            let from = e.from.expect("a known position");
            let block = m.blocks.iter().find(|b| (b.bci..=b.end).contains(&from)).unwrap();
            let after = m.code.iter().flatten().filter(|b| b.bci > from && b.bci <= block.end).count();
            e.times.total() * after as u64
        };
        let cuts: u64 = m.exceptions.iter().map(cut).sum();
        assert_eq!(whole - cuts, m.bytecodes.total(), "{}", m.name);
        sum += m.bytecodes.total();
    }
    assert_eq!(sum, blocks.bytecodes.total());
}

#[test]
fn e1_counts_of_nested_loops() {
    let program = foo();
    let (events, _) = run(&program);
    for events in [in_runs(&program, &events), events] {
        let b = counted(&program, &events);
        assert!(b.exact);
        assert_eq!(block_counts(&b, "f"), [(0, 1), (2, 11), (8, 10), (23, 1)]);
        assert_eq!(block_counts(&b, "g"), [(0, 10), (2, 65), (7, 55), (17, 10)]);
        assert_eq!(block_counts(&b, "h"), [(0, 65)]);
        let all = ["main", "<init>", "f", "g", "h"].map(|m| calls_and_bytecodes(&b, m));
        assert_eq!(all, [(1, 5), (1, 3), (1, 106), (10, 445), (65, 65)]);
        assert_eq!(b.bytecodes, Tally { decoded: 624, ..Tally::default() });
        assert_eq!(ways(&b, "g"), [(4, 7, 55), (4, 17, 10)]);
        sums_hold(&b);
    }
}

#[test]
fn e2_counts_of_branches() {
    let program = fun();
    let (events, printed) = run(&program);
    assert_eq!(printed, [5]);
    for events in [in_runs(&program, &events), events] {
        let b = counted(&program, &events);
        assert_eq!(calls_and_bytecodes(&b, "main"), (1, 150));
        assert_eq!(calls_and_bytecodes(&b, "fun"), (10, 124));
        assert_eq!(block_counts(&b, "fun"), [(0, 10), (4, 4), (11, 6), (15, 10), (21, 5), (23, 5)]);
        assert_eq!(ways(&b, "fun"), [(1, 4, 4), (1, 11, 6), (18, 21, 5), (18, 23, 5)]);
        let lines = |m| method(&b, m).lines.as_ref().unwrap().iter();
        let of = |m| lines(m).map(|l| (l.line, l.times.total(), l.entered.total())).collect::<Vec<_>>();
        assert_eq!(of("fun"), [(3, 10, 10), (4, 10, 10)]);
        assert_eq!(of("main"), [(7, 1, 1), (8, 11, 1), (9, 1, 1), (10, 1, 1)]);
        sums_hold(&b);
    }
}

#[test]
fn e3_counts_of_exceptions() {
    let program = thr();
    let (events, printed) = run(&program);
    assert_eq!(printed, [396]);
    for events in [in_runs(&program, &events), events] {
        let b = counted(&program, &events);
        let all = ["main", "call", "boom"].map(|m| calls_and_bytecodes(&b, m));
        assert_eq!((all, b.bytecodes.total()), ([(1, 72), (9, 108), (9, 78)], 258));
        assert_eq!(ranges(&b, "call"), [(0, 9, 9), (12, 21, 6), (24, 31, 3), (34, 34, 9)]);
        assert_eq!(ranges(&b, "boom"), [(0, 3, 9), (6, 13, 3), (14, 22, 6)]);
        assert_eq!(exceptions(&b, "call"), [(Some(9), Some(24), 3)]);
        assert_eq!(exceptions(&b, "boom"), [(Some(13), None, 3)]);
        // The default analysis of the paper JP counts whole blocks.
        let default: u64 =
            method(&b, "call").blocks.iter().map(|x| x.executions.total() * u64::from(x.bytecodes)).sum();
        assert_eq!(default, 123);
        sums_hold(&b);
    }
}

#[test]
fn e10_what_ran_before_a_throw_is_counted() {
    let program = pre();
    let (events, printed) = run(&program);
    assert_eq!(printed, [6]);
    let b = counted(&program, &events);
    let all = ["prep", "fail", "main"].map(|m| calls_and_bytecodes(&b, m));
    assert_eq!(all, [(1, 5), (1, 4), (1, 10)]);
    assert_eq!(ranges(&b, "prep"), [(0, 8, 1), (11, 19, 0)]);
    assert_eq!(exceptions(&b, "prep"), [(Some(8), None, 1)]);
    assert_eq!(exceptions(&b, "fail"), [(Some(7), None, 1)]);
    assert_eq!(exceptions(&b, "main"), [(Some(0), Some(6), 1)]);
    sums_hold(&b);
}

#[test]
fn each_planted_fault_is_seen() {
    let program = thr();
    let (events, _) = run(&program);
    let whole = counted(&program, &events);
    for at in 0..events.len() {
        if matches!(events[at].kind, EventKind::Leave { exit: Exit::Return, .. }) {
            // A return is not counted.
            continue;
        }
        let mut less = events.clone();
        less.remove(at);
        assert_ne!(counted(&program, &less), whole, "without event {at}");
        let mut more = events.clone();
        more.insert(at, events[at].clone());
        assert_ne!(counted(&program, &more), whole, "event {at} twice");
    }
}

#[test]
fn random_flows_give_the_same_counts_as_an_independent_recount() {
    for seed in 0..200 {
        let mut flow = RandomFlow::random(seed);
        (0..6).for_each(|_| flow.caller());
        let methods = crate::run_tests::methods();
        let mut recount: BTreeMap<(u32, u16), Tally> = BTreeMap::new();
        for e in &flow.events {
            if let EventKind::Bytecode { method, bci, .. } = e.kind {
                recount.entry((method.0, bci.0)).or_default().add(e.provenance);
            }
        }
        for events in [in_runs(&methods, &flow.events), flow.events.clone()] {
            let b = counted(&methods, &events);
            for (number, name) in [(0, "f"), (1, "g")] {
                for c in method(&b, name).code.iter().flatten() {
                    let expected = recount.get(&(number, c.bci)).copied().unwrap_or_default();
                    assert_eq!(c.executions, expected, "seed {seed}, {name} {}", c.bci);
                }
            }
        }
    }
}

#[test]
fn threads_in_any_order_give_the_same_report() {
    let program = thr();
    let (events, _) = run(&program);
    let report = |order: &[usize]| {
        let mut counts = CountsAnalysis::new(Arc::new(program.clone()), Arc::default());
        order.iter().for_each(|n| feed(&mut counts, *n as u32, &events[..events.len() / n]));
        counts.blocks(ALL, |_| true)
    };
    let ordered = report(&[1, 2, 3]);
    assert_eq!(ordered, report(&[3, 1, 2]));
    assert_eq!(ordered.text(), report(&[2, 3, 1]).text());
}

fn unresolved(m: u32, from: Option<u16>, to: Option<u16>) -> Event {
    let (from, to) = (from.map(Bci), to.map(Bci));
    let cause = Cause::ConditionalExpression;
    Event::decoded(EventKind::Unresolved { method: MethodId(m), from, to, cause, callers: 0 })
}

fn catch(m: u32, bci: u16) -> Event {
    Event::decoded(EventKind::Catch { method: MethodId(m), bci: Bci(bci) })
}

#[test]
fn a_stretch_makes_counts_lower_bounds() {
    let events =
        [enter(0), bytecode(0, 0), bytecode(0, 1), unresolved(0, Some(1), Some(9)), bytecode(0, 9), leave(0)];
    let b = counted(&methods(), &events);
    let f = method(&b, "f");
    let more: Vec<_> = f.code.iter().flatten().map(|c| (c.bci, c.perhaps_more)).collect();
    assert_eq!(more, [(0, false), (1, false), (4, true), (5, true), (8, true), (9, false)]);
    assert_eq!(f.ways.iter().map(|w| (w.times.total(), w.perhaps_more)).collect::<Vec<_>>(), [(0, true); 2]);
    assert!(!f.exact && !b.exact && method(&b, "g").exact);
    let exact: Vec<_> = f.blocks.iter().map(|x| (x.bci, x.exact)).collect();
    assert_eq!(exact, [(0, true), (4, false), (8, false), (9, true)]);
    let text = b.text();
    assert!(text.contains("≥ 0 ") && text.contains("in 1 unresolved stretch"), "{text}");
}

#[test]
fn after_a_gap_every_count_is_a_lower_bound() {
    let b = counted(&methods(), &[enter(0), bytecode(0, 0), bytecode(0, 1), gap(true), bytecode(0, 8)]);
    let f = method(&b, "f");
    assert!(f.blocks.iter().all(|b| !b.exact) && method(&b, "g").blocks.iter().all(|b| !b.exact));
    assert_eq!(ways(&b, "f"), [(1, 4, 0), (1, 8, 0)], "a way does not lead across a gap");
    assert!(b.text().contains("1 gap: any method may have run there"), "{}", b.text());
}

#[test]
fn an_exception_after_a_stretch_has_no_origin() {
    let origin = |events: &[Event]| {
        let t = thr();
        let b = counted(&t, events);
        let ways = |m| method(&b, m).exceptions.iter().map(|e| (e.from, e.to, e.perhaps_more));
        ["boom", "call"].into_iter().flat_map(ways).collect::<Vec<_>>()
    };
    let call = [enter(1), bytecode(1, 0), bytecode(1, 3)];
    let with = |rest: &[Event]| origin(&[&call[..], rest].concat());
    assert_eq!(with(&[catch(1, 24), bytecode(1, 24)]), [(Some(3), Some(24), false)]);
    let lost = with(&[unresolved(1, Some(3), None), leave_as(1, Exit::Unwind)]);
    assert_eq!(lost, [(None, None, true)]);
    assert_eq!(with(&[gap(false), catch(1, 24)]), [(None, Some(24), true)]);
    // The callee's exception is the invoke's.
    let callee = [bytecode(1, 9), enter(0), bytecode(0, 0), unresolved(0, Some(0), None)];
    let unwound = [&callee[..], &[leave_as(0, Exit::Unwind), catch(1, 24), bytecode(1, 24)]].concat();
    assert_eq!(with(&unwound), [(None, None, true), (Some(9), Some(24), false)]);
    // The caller drifts, calls, and throws at a place that is unknown.
    let below = [gap(false), enter(0), bytecode(0, 0), leave(0), leave_as(1, Exit::Unwind)];
    assert_eq!(with(&below), [(None, None, true)]);
    let known = [gap(false), bytecode(1, 9), enter(0), bytecode(0, 0), leave(0), leave_as(1, Exit::Unwind)];
    assert_eq!(with(&known)[0].0, Some(9));
}

#[test]
fn an_invocation_without_a_bytecode_is_unstarted() {
    let b = counted(&thr(), &[enter(1), bytecode(1, 9), enter(0), leave_as(0, Exit::Unwind), catch(1, 24)]);
    let boom = method(&b, "boom");
    assert_eq!((boom.entries.calls.total(), boom.entries.unstarted.total()), (1, 1));
    assert_eq!(boom.exceptions, []);
    assert_eq!(exceptions(&b, "call"), [(Some(9), Some(24), 1)]);
}

#[test]
fn an_activation_continues_through_osr_and_deoptimisation() {
    let again = |entry| [leave_as(0, Exit::Replaced), enter_as(0, entry)];
    let before = [enter(0), bytecode(0, 0), bytecode(0, 1)];
    let counts = |entry, after: &[Event]| {
        let b = counted(&methods(), &[&before[..], &again(entry), after].concat());
        let f = method(&b, "f");
        assert_eq!(
            (b.exact, b.text().contains("repeated after a deoptimisation")),
            (b.repeated == 0, b.repeated > 0)
        );
        (f.entries.calls.total(), f.bytecodes.total(), ways(&b, "f"), b.repeated)
    };
    let ways = vec![(1, 4, 0), (1, 8, 1)];
    assert_eq!(counts(Entry::Osr, &[bytecode(0, 8)]), (1, 3, ways.clone(), 0));
    assert_eq!(counts(Entry::Deoptimisation, &[bytecode(0, 8)]), (1, 3, ways.clone(), 0));
    // The flow has a bytecode twice: it counts twice, and the report says so. A conditional may
    // follow itself.
    let none = vec![(1, 4, 0), (1, 8, 0)];
    assert_eq!(counts(Entry::Deoptimisation, &[bytecode(0, 1)]), (1, 3, none, 0));
    let after = [bytecode(0, 8), leave_as(0, Exit::Replaced), enter_as(0, Entry::Deoptimisation)];
    let twice = [&after[..], &[bytecode(0, 8)]].concat();
    assert_eq!(counts(Entry::Osr, &twice), (1, 4, ways.clone(), 1));
    assert_eq!(counts(Entry::Osr, &[&after[..], &[bytecode(0, 9)]].concat()), (1, 4, ways, 0));
}

#[test]
fn lines_are_entered_from_other_lines() {
    // Lines: 0 is 10, 4 is 11, 8 is 12.
    let entered = |events: &[Event]| {
        let b = counted(&methods(), events);
        let lines = method(&b, "f").lines.clone().unwrap();
        lines.iter().map(|l| (l.times.total(), l.entered.total())).collect::<Vec<_>>()
    };
    let start = [enter(0), bytecode(0, 0), bytecode(0, 1)];
    let then = |rest: &[Event]| entered(&[&start[..], rest].concat());
    assert_eq!(then(&[bytecode(0, 4), bytecode(0, 5), bytecode(0, 9)]), [(1, 1), (1, 1), (1, 1)]);
    assert_eq!(then(&[catch(0, 8), bytecode(0, 8)]), [(1, 1), (0, 0), (1, 1)], "once through the handler");
    assert_eq!(then(&[enter(0), bytecode(0, 0), leave(0), bytecode(0, 8)])[0], (2, 2), "a recursion");
    assert_eq!(entered(&[bytecode(0, 1)]), [(1, 0), (0, 0), (0, 0)], "found on the line");
    assert_eq!(entered(&[enter_as(0, Entry::Found), bytecode(0, 8)])[2], (1, 0));
}

#[test]
fn provenance_is_kept_and_excluded() {
    let events = [
        enter(0),
        recovered(bytecode(0, 0)),
        bytecode(0, 1),
        projected(bytecode(0, 4)),
        bytecode(0, 5),
        recovered(catch(0, 8)),
    ];
    let b = counted(&methods(), &events);
    let f = method(&b, "f");
    assert_eq!(f.bytecodes, Tally { decoded: 2, projected: 1, recovered: 1 });
    assert_eq!(f.ways[0].times, Tally { projected: 1, ..Tally::default() });
    assert_eq!(f.exceptions[0].times, Tally { recovered: 1, ..Tally::default() });
    let exclude = Exclude { projected: true, recovered: true, ..Exclude::default() };
    let mut counts = CountsAnalysis::new(methods(), Arc::default()).excluding(exclude);
    feed(&mut counts, 1, &events);
    let b = counts.blocks(ALL, |_| true);
    let f = method(&b, "f");
    assert_eq!(f.bytecodes, Tally { decoded: 2, ..Tally::default() });
    assert_eq!((ways(&b, "f"), f.exceptions.len()), (vec![(1, 4, 0), (1, 8, 0)], 0));
    assert!(!b.exact && b.inexact.excluded == 3);
}

#[test]
fn listing_has_counts_in_the_margin() {
    let program = thr();
    let (events, _) = run(&program);
    let text = counted(&program, &events).text();
    let has = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let found = text.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == words);
        assert!(found, "{line}\n{text}");
    };
    has("Thr.boom(I)V Thr.java: 9 calls, 78 bytecodes");
    has("9 3 ifne 14 → 6: 3, → 14: 6");
    has("9 > 0 getstatic 4");
    has("9 9 invokestatic Thr.boom(I)V");
    has("exceptions 9 → 24: 3");
    has("exceptions 13 → out: 3");
    assert!(!text.contains('≥'), "{text}");
    let mut counts = CountsAnalysis::new(Arc::new(program), Arc::default());
    feed(&mut counts, 1, &events);
    let top = counts.blocks(BlocksOptions { top: Some(1), ..BlocksOptions::default() }, |_| true);
    let names: Vec<_> = top.classes[0].methods.iter().map(|m| &*m.name).collect();
    assert_eq!((names, top.methods_left_out), (vec!["call(I)V"], 2));
    assert!(top.text().contains("2 more methods were selected"), "{}", top.text());
    let json = serde_json::to_value(&top).unwrap();
    assert_eq!(json["classes"][0]["methods"][0]["blocks"][0]["executions"]["decoded"], 9);
    assert_eq!(json["classes"][0]["methods"][0]["exceptions"][0]["to"], 24);
    let rows: Vec<_> = top.rows().map(|r| (r.item, r.bci, r.to, r.decoded)).collect();
    assert_eq!(rows[..2], [("method", None, None, 9), ("block", Some(0), Some(21), 9)]);
    assert_eq!(rows.last(), Some(&("exception", Some(9), Some(24), 3)));
}

#[test]
fn events_of_unknown_methods_and_places_are_harmless() {
    let tier = jportal_flow::Tier::C2;
    let run = |m, first, last| {
        let (method, [first, last]) = (MethodId(m), [first, last].map(Bci));
        Event::decoded(EventKind::Run { method, first, last, len: 2, tier })
    };
    let odd = [bytecode(99, 0), bytecode(0, 999), run(0, 8, 1), run(0, 0, 700), catch(99, 3), catch(0, 900)];
    let b = counted(&methods(), &[&odd[..], &[leave_as(99, Exit::Unwind), enter(99)]].concat());
    assert_eq!(b.bytecodes.total(), 0);
    assert!(b.text().contains("0 bytecodes"), "{}", b.text());
}
