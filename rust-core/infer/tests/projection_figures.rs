// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The paper's Figures 2, 4 and 5.
//!
//! The paper's text and figures are inconsistent about outcomes: in Figure 2(d) `ifne` has the
//! bit 1, in 2(e) it is `ifne 0`, and both mean that the branch is not taken, while `ifeq 0` is
//! a branch taken. These tests follow the flow of 2(f). It numbers the last two instructions 22
//! and 23, which are at 21 and 22 in 2(b).

mod support;

use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_infer::project::nfa::Nfa;
use jportal_infer::project::{
    Anfa, Dfa, Enumerate, Extent, Fit, Guided, Indexed, Project, Projection, ProjectionLimits, Work,
    abstraction,
};
use jportal_infer::{Outcome, Segment, Symbol};
use support::{at, fun, graph, method, sym};

/// Figure 2(e).
fn trace() -> Segment {
    let mut all = [
        Opcode::ILOAD_0,
        Opcode::IFEQ,
        Opcode::ILOAD_1,
        Opcode::ICONST_2,
        Opcode::ISUB,
        Opcode::ISTORE_1,
        Opcode::ILOAD_1,
        Opcode::ICONST_2,
        Opcode::IREM,
        Opcode::IFNE,
        Opcode::ICONST_1,
        Opcode::IRETURN,
    ]
    .map(Symbol::open);
    all[1].outcome = Outcome::Taken;
    all[9].outcome = Outcome::NotTaken;
    Segment::new(all.to_vec())
}

/// Figure 2(f).
const FLOW: [u16; 12] = [0, 1, 11, 12, 13, 14, 15, 16, 17, 18, 21, 22];

fn projected(p: &mut dyn Project, segment: &Segment) -> Projection {
    match p.project(segment, &ProjectionLimits::default()).fit {
        Fit::Paths(projection) => projection,
        other => panic!("{other:?}"),
    }
}

fn projectors(g: &Icfg) -> Vec<Box<dyn Project + '_>> {
    vec![
        Box::new(Enumerate::new(g, Extent::All)),
        Box::new(Guided::new(g, Extent::All)),
        Box::new(Indexed::new(g)),
    ]
}

#[test]
fn figure_2_the_flow_of_an_interpreted_trace() {
    // A second method, so that there is something to choose from.
    let g = graph(vec![method("other", &[26, 153, 0, 3, 27, 5, 100, 177]), fun()]);
    for mut p in projectors(&g) {
        let found = projected(&mut *p, &trace());
        assert_eq!(found.nodes, at(&g, 1, &FLOW));
        assert_eq!((found.paths, found.ambiguous.len()), (1, 0));
    }
}

#[test]
fn figure_2_without_its_head() {
    let g = graph(vec![fun()]);
    // iload_1, iconst_2 are both at 11 and at 15; isub distinguishes them.
    let tail = |from: usize, to: usize| Segment::new(trace().symbols()[from..to].to_vec());
    for mut p in projectors(&g) {
        let two = projected(&mut *p, &tail(2, 4));
        assert_eq!((two.paths, two.ambiguous.len(), two.ambiguous[0].clone()), (2, 1, 0..2));
        let one = projected(&mut *p, &tail(2, 5));
        assert_eq!((one.nodes, one.paths), (at(&g, 0, &[11, 12, 13]), 1));
    }
}

/// The nodes that may execute next. The states of Figure 4(b) are between its labels.
fn after(g: &Icfg, node: Node, outcome: Outcome) -> Vec<Node> {
    let mut next = Vec::new();
    Nfa::new(g).successors(node, outcome, None, &mut |n, _| next.push(n));
    next
}

#[test]
fn figure_4_the_automaton_of_the_icfg() {
    let g = graph(vec![fun()]);
    let bci = |b: u16| at(&g, 0, &[b])[0];
    let step = |from: u16, outcome, to: &[u16]| assert_eq!(after(&g, bci(from), outcome), at(&g, 0, to));
    for straight in [[0, 1], [4, 5], [5, 6], [6, 7], [7, 8], [11, 12], [14, 15], [15, 16], [17, 18], [21, 22]]
    {
        step(straight[0], Outcome::Open, &straight[1..]);
    }
    step(1, Outcome::Taken, &[11]);
    step(1, Outcome::NotTaken, &[4]);
    step(1, Outcome::Open, &[4, 11]);
    step(8, Outcome::Open, &[15]);
    step(18, Outcome::Taken, &[23]);
    step(18, Outcome::NotTaken, &[21]);
    // Nothing calls fun.
    step(22, Outcome::Open, &[]);
    step(24, Outcome::Open, &[]);
}

/// A state of Figure 5(b), which includes the instructions on the ε-lines.
fn line(g: &Icfg, matched: &[Node], outcome: Outcome) -> Vec<Node> {
    let mut all = Vec::new();
    for node in matched {
        let mut work = after(g, *node, outcome);
        while let Some(n) = work.pop() {
            all.push(n);
            if g.opcode(n).transfer() == Transfer::None {
                work.extend(after(g, n, Outcome::Open));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn figure_5_the_abstract_automaton_and_its_dfa() {
    let g = graph(vec![fun()]);
    let anfa = Anfa::new(Nfa::new(&g));
    let ifeq_taken = sym(Opcode::IFEQ, Outcome::Taken);
    let ifeq_not = sym(Opcode::IFEQ, Outcome::NotTaken);
    let goto = Symbol::open(Opcode::GOTO);
    let step = |from: &[u16], by: Symbol, symbol: Symbol| anfa.step(&at(&g, 0, from), by.outcome, symbol).0;
    // {q0} -ifeq-> {q2..q6, q12..q15}: the arm with isub, and what follows it.
    assert_eq!(line(&g, &at(&g, 0, &[1]), ifeq_taken.outcome), at(&g, 0, &[11, 12, 13, 14, 15, 16, 17, 18]));
    // {q0} -ifeq-> {q7..q11}: the arm with iadd.
    assert_eq!(line(&g, &at(&g, 0, &[1]), ifeq_not.outcome), at(&g, 0, &[4, 5, 6, 7, 8]));
    // {q7..q11} -goto 15-> {q12..q15}, which the figure merges with the first arm: both
    // continue only with ifne.
    assert_eq!(step(&[1], ifeq_not, goto), at(&g, 0, &[8]));
    assert_eq!(line(&g, &at(&g, 0, &[8]), Outcome::Open), at(&g, 0, &[15, 16, 17, 18]));
    assert_eq!(step(&[1], ifeq_taken, goto), []);
    for outcome in [Outcome::Taken, Outcome::NotTaken] {
        let ifne = sym(Opcode::IFNE, outcome);
        assert_eq!(step(&[1], ifeq_taken, ifne), at(&g, 0, &[18]));
        assert_eq!(step(&[8], goto, ifne), at(&g, 0, &[18]));
    }
    // {q16, q17} -ireturn-> {q18} and {q19, q20} -ireturn-> {q21}.
    assert_eq!(line(&g, &at(&g, 0, &[18]), Outcome::NotTaken), at(&g, 0, &[21, 22]));
    assert_eq!(line(&g, &at(&g, 0, &[18]), Outcome::Taken), at(&g, 0, &[23, 24]));
    let ireturn = Symbol::open(Opcode::IRETURN);
    assert_eq!(step(&[18], sym(Opcode::IFNE, Outcome::NotTaken), ireturn), at(&g, 0, &[22]));
    assert_eq!(step(&[18], sym(Opcode::IFNE, Outcome::Taken), ireturn), at(&g, 0, &[24]));
}

#[test]
fn figure_5_accepts_the_abstraction_of_figure_2() {
    let g = graph(vec![fun()]);
    let abstracted = abstraction(&trace());
    let names: Vec<&str> = abstracted.iter().map(|s| s.opcode.name()).collect();
    assert_eq!(names, ["ifeq", "ifne", "ireturn"]);
    let mut dfa = Dfa::new(Anfa::new(Nfa::new(&g)));
    let (limits, mut work) = (ProjectionLimits::default(), Work::default());
    let mut accepts = |symbols: &[Symbol]| dfa.accepts(at(&g, 0, &[0])[0], symbols, &limits, &mut work);
    assert_eq!(accepts(&abstracted), Some(true));
    // The arm with isub has no goto.
    let mut with_goto = abstracted.clone();
    with_goto.insert(1, Symbol::open(Opcode::GOTO));
    assert_eq!(accepts(&with_goto), Some(false));
    with_goto[0].outcome = Outcome::NotTaken;
    assert_eq!(accepts(&with_goto), Some(true));
    // ifeq both ways, goto, ifne, ireturn.
    assert_eq!(dfa.states(), 5);
}
