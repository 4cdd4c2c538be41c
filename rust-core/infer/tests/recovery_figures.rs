// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The paper's Figures 1 and 6.

use jportal_bytecode::Node;
use jportal_infer::fill::{
    Basic, Captured, Choose, Fill, FillSource, Filled, Hole, Parameters, SegmentId, Tier, Tiered, Tiers,
    recover,
};

/// Letters stand for instructions; the paper does not say which ones are calls.
struct Letters;

impl Tiers for Letters {
    fn tier(&self, node: Node) -> Tier {
        match char::from(node.0 as u8) {
            'C' | 'G' => Tier::Calls,
            'X' | 'B' => Tier::Control,
            _ => Tier::Concrete,
        }
    }
}

fn letters(text: &str) -> Vec<Node> {
    text.bytes().map(|b| Node(b.into())).collect()
}

fn text(nodes: &[Node]) -> String {
    nodes.iter().map(|n| char::from(n.0 as u8)).collect()
}

fn push(captured: &mut Captured, text: &str) -> SegmentId {
    captured.push(&Letters, &letters(text), &[]).unwrap()
}

fn both() -> [&'static dyn Choose; 2] {
    [&Basic, &Tiered]
}

/// Figure 6: ACDXEF ⋄ BDCA, and the segments with MCDXEFGHXBDCA and CBXEFJYXB.
fn figure_6(first: &str, second: &str) -> (Captured, Hole) {
    let mut captured = Captured::default();
    for text in [first, second] {
        push(&mut captured, text);
    }
    let before = push(&mut captured, "ACDXEF");
    let after = push(&mut captured, "BDCA");
    (captured, Hole { before, after, time: None })
}

fn one(captured: &Captured, hole: Hole, choose: &dyn Choose, parameters: &Parameters) -> Filled {
    recover(captured, &[hole], choose, None, parameters).remove(0)
}

#[test]
fn figure_6_the_longest_common_suffix_wins() {
    let parameters = Parameters { anchors: 3, join: 4, ..Parameters::default() };
    for (first, second) in [("MCDXEFGHXBDCA", "CBXEFJYXB"), ("CBXEFJYXB", "MCDXEFGHXBDCA")] {
        let (captured, hole) = figure_6(first, second);
        for choose in both() {
            let filled = one(&captured, hole, choose, &parameters);
            let Fill { nodes, source } = filled.fill.unwrap();
            assert_eq!(text(&nodes), "GHX");
            // CD precedes the anchor instructions XEF.
            let FillSource::Captured { matched, rank, .. } = source else { panic!("{source:?}") };
            assert_eq!((matched, rank, filled.work.candidates), (2 + 3, 0, 2));
        }
    }
}

#[test]
fn figure_6_the_second_shares_nothing_but_the_anchors() {
    let (captured, hole) = figure_6("CBXEFJYXB", "");
    let chosen = Basic.choose(&captured, hole.before, &[5], &Parameters::default(), &mut Default::default());
    assert_eq!((chosen.len(), chosen[0].matched), (1, 3));
    // JYXB runs into B, not into BDCA.
    for (join, fill) in [(4, None), (1, Some("JYX"))] {
        let parameters = Parameters { join, ..Parameters::default() };
        for choose in both() {
            let filled = one(&captured, hole, choose, &parameters);
            assert_eq!(filled.fill.map(|f| text(&f.nodes)).as_deref(), fill);
        }
    }
}

#[test]
fn the_next_best_is_read_when_the_best_does_not_join() {
    let mut captured = Captured::default();
    push(&mut captured, "ACDXEFJJJ");
    push(&mut captured, "MCDXEFGHXBDCA");
    let before = push(&mut captured, "ACDXEF");
    let after = push(&mut captured, "BDCA");
    let hole = Hole { before, after, time: None };
    let filled = one(&captured, hole, &Tiered, &Parameters::default());
    let Some(Fill { nodes, source: FillSource::Captured { matched: 5, rank: 1, .. } }) = &filled.fill else {
        panic!("{filled:?}")
    };
    assert_eq!(text(nodes), "GHX");
    // Algorithm 3 reads only the best candidate, and so does Algorithm 4 with N = 1.
    assert_eq!(one(&captured, hole, &Basic, &Parameters::default()).fill, None);
    let top = Parameters { top: 1, ..Parameters::default() };
    assert_eq!(one(&captured, hole, &Tiered, &top).fill, None);
}

#[test]
fn a_fill_runs_into_all_of_the_join() {
    let (captured, hole) = figure_6("ACDXEFJBDXBDCAM", "");
    for choose in both() {
        let filled = one(&captured, hole, choose, &Parameters::default());
        assert_eq!(text(&filled.fill.unwrap().nodes), "JBDX");
    }
}

#[test]
fn time_bounds_what_is_read() {
    let mut captured = Captured::default();
    // G at 100, H at 110, X at 120, B at 130.
    let nodes = letters("MCDXEFGHXBDCA");
    captured.push(&Letters, &nodes, &[(6, 100), (9, 130)]).unwrap();
    let before = push(&mut captured, "ACDXEF");
    let after = push(&mut captured, "BDCA");
    for (d, fill) in [(Some(30), true), (Some(29), true), (Some(19), false), (None, true)] {
        let hole = Hole { before, after, time: d };
        for choose in both() {
            let filled = one(&captured, hole, choose, &Parameters::default());
            assert_eq!(filled.fill.is_some(), fill, "{d:?}");
        }
    }
    let hole = Hole { before, after, time: Some(19) };
    let parameters = Parameters { time: false, ..Parameters::default() };
    assert!(one(&captured, hole, &Basic, &parameters).fill.is_some());
}

/// Figure 1: the IS ABCD is filled with the XY of the CS ABCDXY.
#[test]
fn figure_1_a_segment_cut_off() {
    let mut captured = Captured::default();
    push(&mut captured, "ABCDXYFGH");
    push(&mut captured, "UVCDWWFGH");
    let before = push(&mut captured, "ABCD");
    let after = push(&mut captured, "FGHUV");
    let hole = Hole { before, after, time: None };
    let parameters = Parameters { anchors: 2, join: 3, ..Parameters::default() };
    for choose in both() {
        assert_eq!(text(&one(&captured, hole, choose, &parameters).fill.unwrap().nodes), "XY");
    }
}

#[test]
fn pruning_spares_the_concrete_tier() {
    let mut captured = Captured::default();
    push(&mut captured, "CACDXEFGBDCA");
    for _ in 0..10 {
        push(&mut captured, "BBBXEFJJ");
    }
    let before = push(&mut captured, "CACDXEF");
    let after = push(&mut captured, "BDCA");
    let hole = Hole { before, after, time: None };
    let parameters = Parameters { top: 1, ..Parameters::default() };
    let three = one(&captured, hole, &Basic, &parameters);
    let four = one(&captured, hole, &Tiered, &parameters);
    assert_eq!(three.fill, four.fill);
    assert_eq!((three.work.compared, four.work.compared), (11, 1));
}
