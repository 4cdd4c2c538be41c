// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage of small flows.

use std::sync::Arc;

use jportal_flow::{Entry, EventKind, Exit, Tally};
use jportal_units::{Bci, MethodId};

use super::*;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods, recovered};

#[test]
fn both_ways_through_a_branch() {
    let mut c = CoverageAnalysis::new(methods(), Arc::default());
    feed(
        &mut c,
        1,
        &[enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 4), bytecode(0, 5), bytecode(0, 9)],
    );
    let r = c.report(|m| &*m.class_name == "a/B");
    assert_eq!(r.classes.len(), 1);
    let f = &r.classes[0].methods[0];
    assert_eq!((f.figures.bytecodes.executed.decoded, f.figures.bytecodes.present), (5, 6));
    assert_eq!((f.figures.lines.executed.decoded, f.figures.lines.present), (3, 3));
    assert_eq!((f.figures.branches.executed.decoded, f.figures.branches.present), (1, 2));
    assert_eq!(r.total.bytecodes.present, 12, "g counts as present");

    feed(&mut c, 2, &[bytecode(0, 1), recovered(bytecode(0, 8))]);
    let f = &c.report(|_| true).classes[0].methods[0];
    assert_eq!(f.figures.branches.executed, Tally { decoded: 1, recovered: 1, ..Tally::default() });
    assert_eq!(f.figures.bytecodes.executed, Tally { decoded: 5, recovered: 1, ..Tally::default() });
}

#[test]
fn what_is_excluded_is_not_covered() {
    let exclude = Exclude { recovered: true, ..Exclude::default() };
    let executed = |c: CoverageAnalysis| {
        let mut c = c;
        // Both ends of an outcome must count. An excluded event does not connect its
        // neighbours.
        let events = [
            bytecode(0, 0),
            recovered(bytecode(0, 1)),
            bytecode(0, 4),
            recovered(bytecode(0, 5)),
            bytecode(0, 9),
        ];
        feed(&mut c, 1, &events);
        feed(&mut c, 2, &[bytecode(0, 1), recovered(bytecode(0, 4)), bytecode(0, 8)]);
        c.report(|_| true).total
    };
    let all = executed(CoverageAnalysis::new(methods(), Arc::default()));
    assert_eq!(all.bytecodes.executed, Tally { decoded: 5, recovered: 1, ..Tally::default() });
    assert_eq!(all.branches.executed, Tally { recovered: 1, ..Tally::default() });
    let some = executed(CoverageAnalysis::new(methods(), Arc::default()).excluding(exclude));
    assert_eq!(some.bytecodes.executed, Tally { decoded: 5, ..Tally::default() });
    assert_eq!(some.branches.executed, Tally::default());
}

#[test]
fn what_is_not_adjacent_is_no_outcome() {
    let outcomes = |events: &[Event]| {
        let mut c = CoverageAnalysis::new(methods(), Arc::default());
        feed(&mut c, 1, events);
        c.report(|_| true).total.branches.executed.total()
    };
    assert_eq!(outcomes(&[bytecode(0, 1), gap(false), bytecode(0, 4)]), 0);
    assert_eq!(outcomes(&[bytecode(0, 1), leave(0), enter(0), bytecode(0, 4)]), 0);
    assert_eq!(outcomes(&[bytecode(0, 1), bytecode(1, 4)]), 0);
    assert_eq!(outcomes(&[bytecode(0, 1), bytecode(0, 9)]), 0, "not a successor");
    let osr = [bytecode(0, 1), leave_as(0, Exit::Replaced), enter_as(0, Entry::Osr), bytecode(0, 8)];
    assert_eq!(outcomes(&osr), 1);
}

#[test]
fn the_table_names_missed_lines_and_sums() {
    let mut c = CoverageAnalysis::new(methods(), Arc::default());
    feed(&mut c, 1, &[bytecode(0, 0)]);
    let r = c.report(|m| &*m.class_name == "a/B");
    assert_eq!(r.classes[0].methods[0].missed_lines, [11, 12]);
    let text = r.text(true);
    let total = text.lines().find(|l| l.starts_with("total")).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(total, ["total", "(1", "classes)", "1/12", "8.3%", "1/6", "16.7%", "0/4", "0.0%"]);
    let json = serde_json::to_value(&r).unwrap();
    assert_eq!(json["classes"][0]["lines"]["executed"]["decoded"], 1);
}

fn unresolved(from: u16, to: u16) -> Event {
    let cause = jportal_flow::Cause::ConditionalExpression;
    let (from, to) = (Some(Bci(from)), Some(Bci(to)));
    Event::decoded(EventKind::Unresolved { method: MethodId(0), from, to, cause, callers: 0 })
}

#[test]
fn what_may_have_run_is_unknown_and_not_missed() {
    let mut c = CoverageAnalysis::new(methods(), Arc::default());
    let early = [enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 8), bytecode(0, 9), leave(0)];
    feed(&mut c, 1, &early);
    feed(&mut c, 2, &[enter(0), bytecode(0, 0), bytecode(0, 1), unresolved(1, 9), bytecode(0, 9), leave(0)]);
    let r = c.report(|m| &*m.class_name == "a/B");
    let f = &r.classes[0].methods[0];
    let bounds = |r: Ratio| (r.executed.total(), r.unknown, r.at_most, r.present);
    assert_eq!(bounds(f.figures.bytecodes), (4, 2, 6, 6));
    assert_eq!(bounds(f.figures.lines), (2, 1, 3, 3));
    assert_eq!(bounds(f.figures.branches), (1, 1, 2, 2));
    assert_eq!((&f.missed_lines[..], &f.unknown_lines[..]), (&[][..], &[11][..]));
    let g = &r.classes[0].methods[1];
    assert_eq!((&g.missed_lines[..], g.unknown_lines.len()), (&[10, 11, 12][..], 0));
    assert!(!r.exact && r.missed_is_certain);
    let text = r.text(true);
    let row: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(row[1..], ["4–6/6", "66.7–100.0%", "2–3/3", "66.7–100.0%", "1–2/2", "50.0–100.0%"]);
    let note = "2 bytecodes, 1 line, 1 branch are unknown, neither executed for certain nor missed: \
                1 unresolved stretch (1 conditional-expression)";
    assert!(text.contains(note), "{text}");
    let json = serde_json::to_value(&r).unwrap();
    assert_eq!(json["classes"][0]["methods"][0]["branches"]["at_most"], 2);
    assert_eq!(json["inexact"]["unresolved"]["conditional-expression"], 1);
}

#[test]
fn nothing_is_missed_for_certain_where_trace_was_lost() {
    let mut c = CoverageAnalysis::new(methods(), Arc::default());
    feed(&mut c, 1, &[enter(0), bytecode(0, 0), bytecode(0, 1), gap(true)]);
    let r = c.report(|m| &*m.class_name == "a/B");
    let [f, g] = &r.classes[0].methods[..] else { panic!("{r:?}") };
    assert_eq!((&f.missed_lines[..], &f.unknown_lines[..]), (&[][..], &[11, 12][..]), "it may have gone on");
    assert_eq!((&g.missed_lines[..], &g.unknown_lines[..]), (&[10, 11, 12][..], &[][..]));
    assert!(!r.missed_is_certain && !r.exact);
    let text = r.text(false);
    assert!(text.contains("1 gap: what counts as missed was not seen, but may have"), "{text}");
}

#[test]
fn versions_of_a_redefined_method() {
    let mut t = MethodTable::default();
    let lines = methods().get(MethodId(0)).unwrap().lines.clone();
    let versions =
        [crate::testing::BRANCHY, crate::testing::BRANCHY, &[26, 172][..], crate::testing::BRANCHY];
    for code in versions {
        t.push(Method { class: 7, lines: lines.clone(), ..crate::testing::method("a/B", "f", code) });
    }
    let report = |naming| {
        let mut c = CoverageAnalysis::new(Arc::new(t.clone()), Arc::default()).naming(naming);
        feed(&mut c, 1, &[enter(1), bytecode(1, 0), bytecode(1, 1), bytecode(1, 8), bytecode(1, 9)]);
        feed(&mut c, 1, &[enter(2), bytecode(2, 0)]);
        c.report(|_| true)
    };
    let r = report(Naming::default());
    let rows: Vec<_> =
        r.classes[0].methods.iter().map(|m| (m.version.unwrap().number, &m.missed_lines[..])).collect();
    // The first version never ran. The last one is the version that would run next.
    assert_eq!(rows, [(2, &[11][..]), (3, &[]), (4, &[10, 11, 12])]);
    assert!(r.text(true).contains("  f(I)I [version 2 of 4]"));
    let r = report(Naming { merge_versions: true, stable: false });
    let [f] = &r.classes[0].methods[..] else { panic!("{r:?}") };
    assert_eq!((f.version, &f.missed_lines[..]), (None, &[11][..]));
    assert_eq!((f.figures.bytecodes.executed.total(), f.figures.bytecodes.present), (5, 8));
}
