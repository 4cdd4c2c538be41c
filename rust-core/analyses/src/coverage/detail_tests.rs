// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counters of methods and classes, counts of lines and ways, and what was missed.

use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::{Cause, Event, EventKind};
use jportal_units::{Bci, MethodId};

use super::*;
use crate::blocks::State;
use crate::blocks::interpreter::{fun, pre, run, thr};
use crate::testing::{bytecode, enter, feed, gap, leave, method, methods};

const COUNTS: CoverageOptions = CoverageOptions { counts: true, exception_branches: false };

fn covered(methods: &MethodTable, events: &[Event], options: CoverageOptions) -> Coverage {
    let mut analysis = CoverageAnalysis::new(Arc::new(methods.clone()), Arc::default());
    feed(&mut analysis, 1, events);
    analysis.report_with(options, |_| true)
}

fn of<'c>(coverage: &'c Coverage, name: &str) -> &'c MethodCoverage {
    let mut all = coverage.classes.iter().flat_map(|c| &c.methods);
    all.find(|m| m.name.starts_with(&format!("{name}("))).expect("the method")
}

fn executed(ratio: &Ratio) -> (u64, u64) {
    (ratio.executed.total(), ratio.present)
}

#[test]
fn e10_coverage_is_true_to_exceptions() {
    let program = pre();
    let c = covered(&program, &run(&program).0, COUNTS);
    let prep = of(&c, "prep");
    assert_eq!(executed(&prep.figures.bytecodes), (5, 10));
    assert_eq!((executed(&prep.figures.lines), &prep.missed_lines[..]), ((1, 1), &[][..]));
    let detail = prep.detail.as_ref().unwrap();
    let line = &detail.lines[0];
    assert_eq!((line.line, line.state, line.times.total()), (4, State::Executed, 1));
    assert_eq!(detail.exceptions.len(), 1);
    assert_eq!((detail.exceptions[0].from, detail.exceptions[0].to), (Some(8), None));
    assert_eq!((executed(&c.units.methods), executed(&c.units.classes)), ((3, 3), (1, 1)));
    assert!(c.exact);
}

#[test]
fn e2_all_ways_are_covered() {
    let program = fun();
    let c = covered(&program, &run(&program).0, COUNTS);
    assert_eq!(executed(&of(&c, "fun").figures.branches), (4, 4));
    let lines = &of(&c, "fun").detail.as_ref().unwrap().lines;
    let lines: Vec<_> = lines.iter().map(|l| (l.line, l.times.total(), executed(&l.branches))).collect();
    assert_eq!(lines, [(3, 10, (2, 2)), (4, 10, (2, 2))]);
    assert!(c.uncovered().classes.is_empty() && c.uncovered().text().starts_with("nothing was missed"));
}

#[test]
fn exceptions_count_as_branches_on_request() {
    let program = thr();
    let events = run(&program).0;
    let plain = covered(&program, &events, COUNTS);
    let all = covered(&program, &events, CoverageOptions { exception_branches: true, ..COUNTS });
    assert_eq!(executed(&of(&plain, "call").figures.branches), (0, 0));
    // May throw: getstatic 0, putstatic 5, invokestatic 9, getstatic 12, putstatic 18 with the
    // handler or out; getstatic 25, putstatic 31, return 34 out.
    assert_eq!(executed(&of(&all, "call").figures.branches), (1, 13));
    // irem 2, new 6, invokespecial 10, athrow 13, getstatic 14, putstatic 19, return 22; two ways
    // of ifne.
    assert_eq!(executed(&of(&all, "boom").figures.branches), (3, 9));
    let ways = &of(&all, "call").detail.as_ref().unwrap().exceptions;
    let taken: Vec<_> = ways.iter().filter(|w| w.state == State::Executed).collect();
    assert_eq!((ways.len(), taken.len(), taken[0].times.total()), (13, 1, 3));
}

#[test]
fn methods_and_classes_are_counted_with_unknown_ones() {
    let cause = Cause::ConditionalExpression;
    let (from, to) = (None, None);
    let lost = Event::decoded(EventKind::Unresolved { method: MethodId(1), from, to, cause, callers: 0 });
    let c = covered(&methods(), &[enter(0), bytecode(0, 0), enter(1), lost, leave(1)], COUNTS);
    let methods = &c.units.methods;
    assert_eq!((methods.executed.total(), methods.unknown, methods.present, methods.missed()), (1, 1, 3, 1));
    assert_eq!((executed(&c.units.classes), c.units.classes.unknown), ((1, 2), 0));
    let state = |name| of(&c, name).detail.as_ref().unwrap().state;
    assert_eq!(["f", "g", "abs"].map(state), [State::Executed, State::Unknown, State::Missed]);
    assert!(c.text(false).contains("executed: 1–2/3 methods (33.3–66.7%), 1/2 classes (50.0%)"));
    let missed = c.uncovered();
    let names: Vec<_> = missed.classes.iter().flat_map(|c| &c.methods).map(|m| (&*m.name, m.whole)).collect();
    assert_eq!(names, [("f(I)I", false), ("abs(I)I", true)], "what is unknown is not missed");
    assert!(missed.missed_is_certain);
}

#[test]
fn only_what_is_missed() {
    let way = [enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 8), bytecode(0, 9), leave(0)];
    let c = covered(&methods(), &way, COUNTS);
    let missed = c.uncovered();
    let f = &missed.classes[0].methods[0];
    assert_eq!((f.bytecodes, &f.lines[..], f.whole), (2, &[11][..], false));
    let ways = f.ways.as_ref().unwrap();
    assert_eq!((ways.len(), ways[0].from, ways[0].to, ways[0].line), (1, Some(1), Some(4), Some(10)));
    let text = missed.text();
    assert!(text.contains("  f(I)I: 2 bytecodes; lines 11; way 1 → 4 in line 10\n"), "{text}");
    assert!(text.contains("  g(I)I: never executed\njava.lang.Math: never executed\n"), "{text}");
    let lost = covered(&methods(), &[&way[..], &[gap(true)]].concat(), COUNTS).uncovered();
    assert!(!lost.missed_is_certain && lost.text().contains("1 gap: what counts as missed was not seen"));
    // Without counts, ways are not listed, and methods with missed ways are.
    let brief = covered(&methods(), &way, CoverageOptions::default()).uncovered();
    assert_eq!(brief.classes[0].methods[0].ways, None);
}

#[test]
fn counts_of_lines_as_text() {
    let program = thr();
    let text = covered(&program, &run(&program).0, COUNTS).counts_text();
    let has = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let found = text.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == words);
        assert!(found, "{line}\n{text}");
    };
    has("Thr Thr.java: 3/3 methods (100.0%)");
    has("call(I)V: 9 calls");
    has("9 9 4 17/17");
    has("9 9 3 13/13 2/2");
    has("exceptions 13 → out: 3");
    let json = serde_json::to_value(covered(&program, &run(&program).0, COUNTS)).unwrap();
    assert_eq!(json["classes"][0]["methods"][0]["detail"]["lines"][0]["state"], "executed");
    assert_eq!(json["units"]["methods"]["executed"]["decoded"], 3);
}

#[test]
fn the_greatest_count_of_a_line_is_its_count() {
    // Two bcis of one line, such as a `finally` that javac copied: 0 iload_0; 1 ifeq 8; …
    let mut t = MethodTable::default();
    let lines = [(0, 10), (4, 20), (8, 20)];
    let lines = lines.map(|(bci, line)| jportal_bytecode::LineRow { bci: Bci(bci), line });
    let code = crate::testing::BRANCHY;
    t.push(jportal_bytecode::Method { lines: lines.into(), ..method("a/B", "f", code) });
    let start = [enter(0), bytecode(0, 0), bytecode(0, 1)];
    let [left, right] = [[bytecode(0, 4), bytecode(0, 5)].to_vec(), vec![bytecode(0, 8)]];
    let end = [bytecode(0, 9), leave(0)];
    let once = |way: &[Event]| [&start[..], way, &end].concat();
    let c = covered(&t, &[once(&left), once(&right), once(&right)].concat(), COUNTS);
    let line = &of(&c, "f").detail.as_ref().unwrap().lines[1];
    assert_eq!((line.line, line.times.total(), line.entered.total()), (20, 3, 3));
    let first = &of(&covered(&t, &once(&left), COUNTS), "f").detail.as_ref().unwrap().lines[1].clone();
    assert_eq!((first.times.total(), executed(&first.bytecodes)), (1, (3, 4)));
}
