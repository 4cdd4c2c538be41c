// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use jportal_units::{Bci, MethodId};
use std::sync::mpsc::sync_channel;

const HOLE: ComparisonStep = ComparisonStep::Unresolved(Tier::C2, Cause::EmptyLoop);

fn bytecode(key: u64, bci: u16, tier: Tier) -> ComparisonStep {
    let (behind, event) = (Behind::default(), bci.into());
    ComparisonStep::Bytecode(Executed { key, method: MethodId(0), bci: Bci(bci), tier, behind, event })
}

fn run(reference: &[ComparisonStep], tested: &[ComparisonStep]) -> Comparison {
    let table = MethodTable::default();
    let side = |steps: &[ComparisonStep]| {
        let (to, from) = sync_channel(1000);
        steps.chunks(3).for_each(|c| to.send(Steps { steps: c.to_vec(), ..Steps::default() }).unwrap());
        from
    };
    compare((side(reference), &table), (side(tested), &table))
}

fn line(n: u16) -> Vec<ComparisonStep> {
    (0..n).map(|i| bytecode(1, i, Tier::Interpreter)).collect()
}

#[test]
fn equal_flows_are_equal_whoever_executed_them() {
    let tested: Vec<ComparisonStep> = (0..10).map(|i| bytecode(1, i, Tier::C2)).collect();
    let c = run(&line(10), &tested);
    assert!(c.equal());
    assert_eq!((c.matched, c.matched_compiled), (10, 10));
}

#[test]
fn a_wrong_a_missing_and_a_surplus_bytecode_are_found() {
    let mut wrong = line(10);
    wrong[4] = bytecode(2, 4, Tier::C1);
    for (tested, at) in [(wrong, 4), (line(9), 9), (line(11), 10)] {
        let c = run(&line(10), &tested);
        assert_eq!(c.first.as_ref().map(|d| d.at), Some(at));
        assert!(!c.agrees() && c.text().contains("the flows part at 1 places"));
    }
}

#[test]
fn what_is_unresolved_hides_and_does_not_contradict() {
    let mut tested = line(100);
    tested.splice(20..25, [HOLE]);
    tested.push(ComparisonStep::Gap);
    let c = run(&line(110), &tested);
    assert_eq!((c.matched, c.hidden, c.unresolved, c.gaps), (95, 15, 1, 1));
    assert!(c.agrees() && !c.equal());
    tested.splice(40..41, [HOLE, bytecode(9, 9, Tier::C2)]);
    assert!(!run(&line(110), &tested).agrees());
}

#[test]
fn rounds_of_a_loop_may_be_hidden() {
    let round: Vec<ComparisonStep> = line(40);
    let end: Vec<ComparisonStep> = (200..230).map(|i| bytecode(1, i, Tier::C2)).collect();
    let reference = [round.repeat(6), end.clone()].concat();
    let mut tested = [round.repeat(4), end.clone()].concat();
    tested.splice(43..46, [HOLE]);
    let c = run(&reference, &tested);
    assert!(c.agrees() && c.hidden == 2 * 40 + 3, "{c:?}");
    // Without a hidden stretch it is a difference, and so is a bytecode after the hidden
    // stretch that the reference does not have.
    assert!(!run(&reference, &[round.repeat(4), end].concat()).agrees());
    tested.push(bytecode(9, 9, Tier::C2));
    assert!(!run(&reference, &tested).agrees());
}

/// Rounds of 60 bytecodes; the bytecode at 40 identifies the round.
fn rounds(n: u64) -> Vec<ComparisonStep> {
    let round = |r| move |i| bytecode(if i == 40 { 100 + r } else { 1 }, i, Tier::C2);
    (0..n).flat_map(|r| (0..60).map(round(r))).collect()
}

#[test]
fn a_wrong_bytecode_after_a_hidden_stretch_is_one_mismatch_where_it_is() {
    let wrong = bytecode(1, 20, Tier::C2);
    // The wrong bytecode occurs in the reference, but a round later.
    for (told, hidden, missing) in [(vec![HOLE, wrong, HOLE], 1, 0), (vec![HOLE, wrong], 0, 1)] {
        let mut tested = rounds(10);
        tested.splice(2 * 60 + 29..2 * 60 + 30, told);
        let c = run(&rounds(10), &tested);
        assert_eq!((c.mismatches, c.extra, c.missing, c.hidden), (1, 1, missing, hidden), "{c:?}");
        assert_eq!(c.first.as_ref().map(|d| (d.at, d.look_at)), Some((2 * 60 + 29, Some(20))));
        assert_eq!(c.matched, 10 * 60 - 1);
        assert!(!c.agrees() && !c.given_up);
    }
}

#[test]
fn a_short_certain_stretch_between_hidden_ones_may_be_rounds_away() {
    let mut tested = rounds(10);
    tested.splice(2 * 60 + 29..5 * 60 + 45, [HOLE, bytecode(1, 20, Tier::C2), HOLE]);
    let c = run(&rounds(10), &tested);
    assert!(c.agrees(), "{c:?}");
    assert_eq!((c.matched, c.hidden), (10 * 60 - (3 * 60 + 16) + 1, 3 * 60 + 16 - 1));
    // Rounds that are missing without a hidden stretch stay a difference.
    tested.drain(300..360);
    assert!(!run(&rounds(10), &tested).agrees());
}

#[test]
fn what_a_last_hidden_stretch_hides_is_no_difference() {
    let mut tested = rounds(3);
    tested.splice(100.., [HOLE, bytecode(1, 20, Tier::C2), HOLE]);
    let c = run(&rounds(3), &tested);
    assert!(c.agrees() && c.matched == 101 && c.hidden == 79, "{c:?}");
}

#[test]
fn flows_that_part_are_compared_after_the_place_too() {
    let mut tested = line(1000);
    tested.splice(100..103, [bytecode(7, 7, Tier::C2)]);
    tested.remove(500);
    tested.insert(800, bytecode(9, 9, Tier::C1));
    let c = run(&line(1000), &tested);
    assert_eq!((c.mismatches, c.missing, c.extra, c.given_up), (3, 4, 2, false), "{c:?}");
    assert_eq!((c.matched, c.tiers.c2.extra, c.tiers.c1.extra), (996, 1, 1));
    assert_eq!(c.first.as_ref().map(|d| (d.at, d.look_at)), Some((100, Some(7))));
    let kinds: Vec<&str> = c.mismatch_groups.iter().map(|g| g.kind).collect();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert!(c.text().contains("the flows part at 3 places"), "{}", c.text());
}

#[test]
fn flows_with_nothing_in_common_are_given_up() {
    let other: Vec<ComparisonStep> = (0..500).map(|i| bytecode(2, i, Tier::C2)).collect();
    let c = run(&line(500), &other);
    assert!(c.given_up && !c.agrees() && c.mismatches == 1, "{c:?}");
}

#[test]
fn what_hides_is_counted_by_cause() {
    let mut tested = line(100);
    tested.splice(20..25, [HOLE]);
    let c = run(&line(100), &tested);
    assert_eq!((c.hidden, c.tiers.c2.unresolved), (5, 5));
    assert_eq!((c.unresolved_by_cause[0].cause, c.unresolved_by_cause[0].hidden), ("empty-loop", 5));
}
