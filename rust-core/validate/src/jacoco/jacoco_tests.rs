// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use crate::testing::{bytecode, enter, feed, leave_as, methods};
use jportal_flow::Exit;

const LISTING: &str =
    "jacoco\t0.8.6\nclass\ta/B\tran\nmethod\tf\t(I)I\t5 6 1 2\tL 1 J4 1 K5:0+ L 1 P1- R2+\t-\n";

fn compared(listing: &str, flow: &[jportal_flow::Event]) -> JacocoComparison {
    let mut marks = MarksAnalysis::new(methods());
    feed(&mut marks, 1, flow);
    JacocoComparison::new(&marks, &Listing::read(listing.as_bytes()).unwrap(), |m| &*m.class_name == "a/B")
}

fn first_way() -> Vec<jportal_flow::Event> {
    [vec![enter(0)], [0, 1, 4, 5, 9].map(|bci| bytecode(0, bci)).to_vec()].concat()
}

#[test]
fn equal_coverage_is_equal() {
    let c = compared(LISTING, &first_way());
    assert!(c.equal(), "{c:?}");
    assert_eq!((c.total.probes.compared, c.total.probes.hit), (3, 2));
    assert_eq!((c.total.by_rule, c.total.flow), (c.total.jacoco, c.total.jacoco));
    assert_eq!(c.total.reasons, Reasons::default());
    assert!(c.text(true).contains("3 of 3 probes equal, 2 of them hit"), "{}", c.text(true));
}

#[test]
fn a_way_that_only_one_took_is_named() {
    let other = [vec![enter(0)], [0, 1, 8, 9].map(|bci| bytecode(0, bci)).to_vec()].concat();
    let c = compared(LISTING, &other);
    assert!(!c.equal());
    assert_eq!((c.total.probes.flow_only, c.total.probes.jacoco_only), (1, 1));
    let text = c.text(false);
    assert!(text.contains("only the flow passed between @8 and @9"), "{text}");
    assert!(text.contains("1 of 1 methods differ"), "{text}");
}

#[test]
fn what_an_exception_hides_from_jacoco_is_counted() {
    let listing = LISTING.replace("5 6 1 2", "0 6 0 2").replace('+', "-");
    let thrown = [enter(0), bytecode(0, 0), bytecode(0, 1), bytecode(0, 4), leave_as(0, Exit::Unwind)];
    let c = compared(&listing, &thrown);
    assert!(c.equal(), "{c:?}");
    let r = c.total.reasons.no_probe_behind;
    assert_eq!((r.instructions.covered, r.branches.covered), (3, 1));
}

#[test]
fn filtered_instructions_are_counted() {
    let listing = LISTING.replace("5 6 1 2", "3 4 1 2").replace("\t-\n", "\ti2:3\n");
    let c = compared(&listing, &first_way());
    assert!(c.equal(), "{c:?}");
    assert_eq!(c.total.reasons.filtered.instructions, Count { covered: 2, present: 2 });
}

#[test]
fn counters_that_do_not_follow_from_the_probes_are_a_difference() {
    let c = compared(&LISTING.replace("5 6 1 2", "5 6 2 2"), &first_way());
    assert!(!c.equal() && c.differences[0].arithmetic, "{c:?}");
}

#[test]
fn what_is_not_compared_is_said() {
    let failed = compared("jacoco\t1\nclass\ta/B\tfailed\tPermittedSubclasses\n", &first_way());
    assert!(
        !failed.equal() && failed.text(false).contains("PermittedSubclasses: a.B"),
        "{}",
        failed.text(false)
    );
    let missing = compared("jacoco\t1\n", &first_way());
    assert_eq!(missing.left_out["no class file of it was given"], ["a.B"]);
    let shorter = compared(&LISTING.replace("R2+", ""), &first_way());
    assert_eq!(shorter.methods_left_out.values().sum::<u64>(), 1);
}
