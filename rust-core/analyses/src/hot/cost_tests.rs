// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use std::sync::Arc;

use jportal_flow::{Entry, Event, EventKind, Exit};
use jportal_units::Tsc;

use super::*;
use crate::testing::{bytecode, enter, enter_as, feed, gap, leave, leave_as, methods, recovered};

fn time(tsc: u64) -> Event {
    Event::decoded(EventKind::Time(Tsc(tsc)))
}

/// `f` executes 2 bytecodes and calls `g`, which executes 2, calls `abs` (1), and itself (1).
fn flow() -> Vec<Event> {
    vec![
        time(100),
        enter_as(0, Entry::Upcall),
        bytecode(0, 0),
        enter(1),
        bytecode(1, 0),
        bytecode(1, 1),
        enter(2),
        bytecode(2, 0),
        leave(2),
        time(170),
        enter(1),
        bytecode(1, 0),
        leave(1),
        leave(1),
        bytecode(0, 1),
        leave(0),
        time(200),
    ]
}

fn ranked(by: HotRank, events: &[Event]) -> HotMethods {
    let mut analysis = HotAnalysis::new(methods(), Arc::default()).ranked(by, Arc::new(|_, t| t.get()));
    feed(&mut analysis, 1, events);
    analysis.report(9, |_| true)
}

/// Name, bytecodes with callees, whether these are exact, and ticks.
fn costs(report: &HotMethods) -> Vec<(&str, u64, bool, u64)> {
    let rows = report.methods.iter().map(|m| {
        let cost = m.cost.unwrap();
        (m.method.strip_suffix("(I)I").unwrap(), cost.inclusive, cost.inclusive_exact, cost.ticks)
    });
    rows.collect()
}

#[test]
fn a_recursive_activation_counts_once() {
    let report = ranked(HotRank::Inclusive, &flow());
    // 70 ticks for 4 bytecodes and 3 calls, 30 for 2 bytecodes and 1 call.
    assert_eq!(
        costs(&report),
        [("a.B.f", 6, true, 20 + 10), ("a.B.g", 4, true, 30 + 20), ("java.lang.Math.abs", 1, true, 20)]
    );
    let text = report.text();
    assert!(text.starts_with("with callees   share  bytecodes"), "{text}");
    assert!(text.contains("           4   66.7%          3   50.0%"), "{text}");
}

#[test]
fn time_ranks_by_what_the_method_itself_took() {
    let report = ranked(HotRank::Time, &flow());
    assert_eq!(report.methods.iter().map(|m| m.cost.unwrap().ticks).collect::<Vec<_>>(), [50, 30, 20]);
    assert_eq!(report.time, Some(TimeSteps { ticks: 100, steps: 2 }));
    let text = report.text();
    assert!(text.contains("   50   50.0%          3   50.0%"), "{text}");
    assert!(text.contains("The flow has 2 steps of time, 50 ticks long on average"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["by"], &json["methods"][0]["ticks"]), (&"time".into(), &50.into()));
    assert_eq!(serde_json::from_value::<HotMethods>(json).unwrap(), report);
}

#[test]
fn without_a_request_there_are_no_costs() {
    let mut analysis = HotAnalysis::new(methods(), Arc::default());
    feed(&mut analysis, 1, &flow());
    let json = serde_json::to_value(analysis.report(9, |_| true)).unwrap();
    assert!(json["methods"][0].get("ticks").is_none() && json.get("time").is_none());
    assert!(analysis.named_costs().is_empty());
    let calls = ranked(HotRank::Calls, &flow());
    assert_eq!(calls.methods[0].method, "a.B.g(I)I", "two calls");
    assert!(calls.methods[0].cost.is_none());
}

#[test]
fn what_is_not_known_makes_the_frames_on_the_stack_lower_bounds() {
    let begins = [enter_as(0, Entry::Upcall), bytecode(0, 0), enter(1), bytecode(1, 0)];
    let cause = jportal_flow::Cause::EmptyLoop;
    let (from, to) = (Some(jportal_units::Bci(0)), None);
    let unresolved = EventKind::Unresolved { method: MethodId(1), from, to, cause, callers: 0 };
    for (doubt, what) in [
        (Event::decoded(unresolved), "unresolved"),
        (recovered(bytecode(1, 1)), "recovered"),
        (gap(false), "a gap that keeps the stack"),
        (gap(true), "a gap that loses the stack"),
    ] {
        let events = [&begins[..], &[doubt, leave_as(1, Exit::Unknown), bytecode(0, 1), leave(0)]].concat();
        let report = ranked(HotRank::Inclusive, &events);
        let all = costs(&report);
        assert!(all.iter().all(|row| !row.2), "{what}: {all:?}");
    }
    // The flow continues after the end of what is not known: what begins there is exact.
    let later = [enter_as(2, Entry::Upcall), bytecode(2, 0), leave(2)];
    let events = [&begins[..], &[recovered(bytecode(1, 1)), leave(1), leave(0)], &later].concat();
    let mut follower =
        HotAnalysis::new(methods(), Arc::default()).ranked(HotRank::Inclusive, Arc::new(|_, t| t.get()));
    feed(&mut follower, 1, &events);
    let exact: Vec<bool> =
        (0..3).map(|m| follower.rows.costs.of(follower.row_groups(), MethodId(m)).inclusive_exact).collect();
    assert_eq!(exact, [false, false, true]);
    let found = [enter_as(0, Entry::Found), bytecode(0, 0), leave(0)];
    assert_eq!(costs(&ranked(HotRank::Inclusive, &found)), [("a.B.f", 1, false, 0)]);
}

#[test]
fn open_activations_have_cost_what_they_cost_so_far() {
    let events = &flow()[..8];
    assert_eq!(
        costs(&ranked(HotRank::Inclusive, events)),
        [("a.B.f", 4, true, 0), ("a.B.g", 3, true, 0), ("java.lang.Math.abs", 1, true, 0)]
    );
}

#[test]
fn methods_of_one_name_are_one_for_other_profilers() {
    let mut analysis = HotAnalysis::new(methods(), Arc::default()).beside_profiles(Arc::new(|_, t| t.get()));
    feed(&mut analysis, 1, &flow());
    feed(&mut analysis, 2, &flow());
    let mut named = analysis.named_costs();
    named.sort_by(|a, b| a.method.cmp(&b.method));
    let rows: Vec<_> =
        named.iter().map(|n| (&*n.method, n.bytecodes, n.cost.inclusive, n.cost.ticks)).collect();
    assert_eq!(rows, [("a.B.f", 4, 12, 60), ("a.B.g", 6, 8, 100), ("java.lang.Math.abs", 2, 2, 40)]);
}
