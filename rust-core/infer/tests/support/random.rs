// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Random programs and random walks through them.

use super::{calling, catching, graph, method};
use jportal_bytecode::{EdgeKind, Icfg, Method, Node, Transfer};
use jportal_infer::{Outcome, Segment, Symbol};
use proptest::prelude::*;

/// An instruction before its method is laid out; targets are indices of instructions.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// An opcode without operands and without a transfer.
    Plain(u8),
    /// A conditional branch: opcode and target.
    If(u8, u8),
    /// A `goto` with its target.
    Goto(u8),
    /// A `lookupswitch`: the default target, and the target of its only case.
    Switch(u8, u8),
    /// A call of the method with this number; a number after the last one is a method that the
    /// graph does not have.
    Call(u8),
    /// An `ireturn`.
    Return,
    /// An `athrow`.
    Throw,
}

/// A method before it is laid out: its instructions, and the rows of its exception table as
/// start, length, handler.
pub type Draft = (Vec<Op>, Vec<(u8, u8, u8)>);

/// Random methods.
pub fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    // Few opcodes, so that segments fit in several places.
    let plain = prop_oneof![Just(4u8), Just(26), Just(96), Just(108), Just(108)];
    let op = prop_oneof![
        5 => plain.prop_map(Op::Plain),
        3 => (153u8..155, any::<u8>()).prop_map(|(o, t)| Op::If(o, t)),
        1 => any::<u8>().prop_map(Op::Goto),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::Switch(a, b)),
        3 => (0u8..6).prop_map(Op::Call),
        1 => Just(Op::Return),
        1 => Just(Op::Throw),
    ];
    let rows = prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..4);
    prop::collection::vec((prop::collection::vec(op, 1..12), rows), 1..5)
}

fn size(op: Op, at: usize) -> usize {
    match op {
        Op::Plain(_) | Op::Return | Op::Throw => 1,
        Op::If(..) | Op::Goto(_) | Op::Call(_) => 3,
        Op::Switch(..) => ((at + 4) & !3) + 16 - at,
    }
}

fn lay_out(number: usize, draft: &Draft) -> Method {
    let ops: Vec<Op> = draft.0.iter().copied().chain([Op::Return]).collect();
    let mut at = vec![0];
    for op in &ops {
        at.push(at[at.len() - 1] + size(*op, at[at.len() - 1]));
    }
    let target = |t: u8| at[usize::from(t) % ops.len()];
    let (mut code, mut callees) = (Vec::new(), Vec::new());
    for op in &ops {
        let here = code.len();
        let short = |t: u8| ((target(t) as i32 - here as i32) as i16).to_be_bytes();
        match *op {
            Op::Plain(o) => code.push(o),
            Op::Return => code.push(172),
            Op::Throw => code.push(191),
            Op::If(o, t) => code.extend([o, short(t)[0], short(t)[1]]),
            Op::Goto(t) => code.extend([167, short(t)[0], short(t)[1]]),
            Op::Call(callee) => {
                callees.push(format!("f{callee}"));
                code.extend([184, 0, 1]);
            }
            Op::Switch(a, b) => {
                code.push(171);
                code.resize((here + 4) & !3, 0);
                for v in [target(a) as i32 - here as i32, 1, 7, target(b) as i32 - here as i32] {
                    code.extend(v.to_be_bytes());
                }
            }
        }
    }
    let names: Vec<&str> = callees.iter().map(String::as_str).collect();
    let m = calling(method(&format!("f{number}"), &code), &names);
    draft.1.iter().fold(m, |m, (start, len, handler)| {
        let start = usize::from(*start) % ops.len();
        let end = (start + usize::from(*len) % ops.len()).min(ops.len());
        catching(m, at[start] as u16, at[end] as u16, at[1 + usize::from(*handler) % (ops.len() - 1)] as u16)
    })
}

/// The graph of a random program.
pub fn program(drafts: &[Draft]) -> Icfg {
    graph(methods(drafts))
}

/// The methods of a random program.
pub fn methods(drafts: &[Draft]) -> Vec<Method> {
    drafts.iter().enumerate().map(|(i, d)| lay_out(i, d)).collect()
}

/// A walk through a program.
#[derive(Clone, Debug)]
pub struct RandomWalk {
    /// The executed instructions.
    pub nodes: Vec<Node>,
    /// How each instruction ended.
    pub outcomes: Vec<Outcome>,
    /// The call sites of the frames below the first instruction; [`walk`] has none.
    pub below: Vec<Node>,
}

impl RandomWalk {
    /// The walk from `from` on as a trace shows it; the bits of `hidden` select branch outcomes
    /// that it does not show.
    pub fn segment(&self, g: &Icfg, from: usize, hidden: u64) -> Segment {
        let shown = |i: usize, o: Outcome| match o {
            Outcome::Taken | Outcome::NotTaken if hidden >> (i % 64) & 1 == 1 => Outcome::Open,
            o => o,
        };
        let all = self.nodes.iter().zip(&self.outcomes).enumerate().skip(from);
        Segment::new(all.map(|(i, (n, o))| Symbol::with(g.opcode(*n), shown(i, *o))).collect())
    }
}

/// Walks from the node that the first choice selects, as the other choices say; calls and
/// returns are paired.
pub fn walk(g: &Icfg, choices: &[u8]) -> RandomWalk {
    let mut walk = RandomWalk { nodes: vec![], outcomes: vec![], below: vec![] };
    let mut stack: Vec<Node> = Vec::new();
    let mut choices = choices.iter().map(|c| usize::from(*c));
    let Some(mut node) = g.nodes().nth(choices.next().unwrap_or(0) % g.len()) else { return walk };
    for choice in choices {
        walk.nodes.push(node);
        let next = step(g, node, choice, &mut stack);
        walk.outcomes.push(next.map_or(Outcome::Open, |n| n.0));
        match next {
            Some((_, n)) => node = n,
            None => break,
        }
    }
    walk
}

fn step(g: &Icfg, node: Node, choice: usize, stack: &mut Vec<Node>) -> Option<(Outcome, Node)> {
    let pick = |nodes: &[Node]| (!nodes.is_empty()).then(|| nodes[choice / 4 % nodes.len()]);
    let transfer = g.opcode(node).transfer();
    if transfer == Transfer::Throw || (choice % 4 == 3 && g.opcode(node).0 == 108) {
        if let Some(handler) = pick(&g.handlers(node).collect::<Vec<_>>()) {
            return Some((Outcome::Thrown, handler));
        }
        while let Some(site) = stack.pop() {
            if let Some(handler) = g.handlers(site).next() {
                return Some((Outcome::Unwound, handler));
            }
        }
        return None;
    }
    let edges: Vec<_> = g.edges(node).collect();
    match transfer {
        Transfer::Return => {
            let site = stack.pop()?;
            g.edges(site).next().map(|(_, n)| (Outcome::Open, n))
        }
        Transfer::Invoke => {
            if g.passes(node) && choice.is_multiple_of(4) {
                return edges.first().map(|e| (Outcome::Open, e.1));
            }
            let outside = g.is_outside(node).then(|| g.outside_entries()).into_iter().flatten();
            let callee = pick(&g.callees(node).iter().chain(outside).copied().collect::<Vec<_>>())?;
            stack.push(node);
            Some((Outcome::Open, callee))
        }
        _ if edges.is_empty() => None,
        _ => {
            let (kind, to) = edges[choice % edges.len()];
            let outcome = match kind {
                EdgeKind::Taken => Outcome::Taken,
                EdgeKind::NotTaken => Outcome::NotTaken,
                _ => Outcome::Open,
            };
            Some((outcome, to))
        }
    }
}

/// Whether `to` may follow `from`, computed without the automaton under test.
pub fn is_edge(g: &Icfg, from: Node, outcome: Outcome, to: Node) -> bool {
    let behind = |n: Node| n.0 > 0 && g.edges(Node(n.0 - 1)).any(|e| e == (EdgeKind::Behind, n));
    match (outcome, g.opcode(from).transfer()) {
        (Outcome::Thrown, _) => g.handlers(from).any(|h| h == to),
        (Outcome::Unwound, _) => g.rows_into(to).next().is_some(),
        (_, Transfer::Invoke) => {
            g.may_call(from, to) || g.passes(from) && g.edges(from).any(|(_, n)| n == to)
        }
        (_, Transfer::Return) => {
            behind(to) && g.entry(g.method(from)).is_some_and(|e| g.may_call(Node(to.0 - 1), e))
        }
        _ => g.edges(from).any(|(kind, n)| {
            n == to
                && match kind {
                    EdgeKind::Taken => outcome != Outcome::NotTaken,
                    EdgeKind::NotTaken => outcome != Outcome::Taken,
                    _ => true,
                }
        }),
    }
}

/// Whether each of `nodes` may follow the previous one, with or without an exception.
pub fn is_path(g: &Icfg, nodes: &[Node]) -> bool {
    let any = [Outcome::Open, Outcome::Thrown, Outcome::Unwound];
    nodes.windows(2).all(|pair| any.iter().any(|o| is_edge(g, pair[0], *o, pair[1])))
}

/// Whether `nodes` is a path that `segment` may have taken.
pub fn is_path_of(g: &Icfg, nodes: &[Node], segment: &Segment) -> bool {
    let symbols = segment.symbols();
    nodes.len() == symbols.len()
        && nodes.iter().zip(symbols).all(|(n, s)| g.opcode(*n) == s.opcode)
        && (1..nodes.len()).all(|i| is_edge(g, nodes[i - 1], symbols[i - 1].outcome, nodes[i]))
}

/// The call sites of the frames below the last of `nodes`.
pub fn frames(g: &Icfg, nodes: &[Node], outcomes: &[Outcome]) -> Vec<Node> {
    let mut stack = Vec::new();
    for (i, pair) in nodes.windows(2).enumerate() {
        match (outcomes[i], g.opcode(pair[0]).transfer()) {
            (Outcome::Unwound, _) => {
                while stack.pop().is_some_and(|site| g.handlers(site).next().is_none()) {}
            }
            (Outcome::Thrown, _) => {}
            (_, Transfer::Invoke) if g.is_entry(pair[1]) && g.may_call(pair[0], pair[1]) => {
                stack.push(pair[0])
            }
            (_, Transfer::Return) => {
                stack.pop();
            }
            _ => {}
        }
    }
    stack
}
