// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Measures the cost of placing and filling on a random program of realistic size.
//!
//! `cargo run --release -p jportal-infer --example scale -- [METHODS] [INSTRUCTIONS]`. The
//! program is random, and so is most of its execution: times and memory are meaningful,
//! accuracy is not.

use jportal_bytecode::{
    ByName, EdgeKind, ExceptionRow, Icfg, InvokeRef, Method, MethodTable, Node, Transfer, instructions,
};
use jportal_infer::fill::{
    Basic, Calibration, Captured, Choose, Expected, Fill, Follower, Gap, Hole, Learned, Parameters,
    Rehearsal, SegmentId, Settings, Tally, Tiered, recover,
};
use jportal_infer::project::paths::Below;
use jportal_infer::project::{Extent, Fit, Guided, Indexed, Project, ProjectionLimits};
use jportal_infer::{Outcome, Segment, Symbol};
use jportal_units::Bci;
use std::time::Instant;

struct CongruentialRandom(u64);

impl CongruentialRandom {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// A method of about forty instructions, some of them branches and calls.
fn method(random: &mut CongruentialRandom, number: usize, methods: usize) -> Method {
    let mut code = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..20 + random.below(40) {
        starts.push(code.len() as u16);
        match random.below(64) {
            0..6 => code.extend([153 + random.below(14) as u8, 0, 0]),
            6 => code.extend([182, 0, 1]),
            7 => code.extend([184, 0, 1]),
            8 => code.extend([167, 0, 0]),
            _ => code.push([3, 4, 5, 21, 26, 27, 42, 43, 54, 59, 60, 75, 96, 100, 89, 190][random.below(16)]),
        }
        if code[starts[starts.len() - 1] as usize] == 21 || code[starts[starts.len() - 1] as usize] == 54 {
            code.push(4);
        }
    }
    code.push(177);
    let mut invokes = Vec::new();
    let found: Vec<_> = instructions(&code).flatten().map(|i| (i.bci, i.opcode.transfer())).collect();
    for (bci, transfer) in found {
        let at = usize::from(bci.0);
        match transfer {
            Transfer::If | Transfer::Goto => {
                // Mostly forwards, so that methods end.
                let later: Vec<u16> = starts.iter().copied().filter(|s| *s > bci.0).collect();
                let back = transfer == Transfer::If && random.below(4) == 0;
                let to = if back || later.is_empty() { starts[0] } else { later[random.below(later.len())] };
                let offset =
                    if transfer == Transfer::Goto && to <= bci.0 { 3 } else { to as i16 - bci.0 as i16 };
                code[at + 1..at + 3].copy_from_slice(&offset.to_be_bytes());
            }
            Transfer::Invoke => {
                // Virtual calls share a hundred names; static calls go to methods with higher
                // numbers.
                let name = match code[at] {
                    182 => format!("v{}", random.below(100)),
                    _ => format!("s{}", (number + 1 + random.below(200)).min(methods - 1)),
                };
                invokes.push(InvokeRef {
                    bci,
                    class_name: "a/A".into(),
                    name: name.into(),
                    signature: "()V".into(),
                });
            }
            _ => {}
        }
    }
    let is_virtual = number.is_multiple_of(3);
    let name = if is_virtual { format!("v{}", random.below(100)) } else { format!("s{number}") };
    Method {
        class_name: "a/A".into(),
        name: name.into(),
        signature: "()V".into(),
        access_flags: if is_virtual { 0 } else { 8 },
        exceptions: [ExceptionRow {
            start: Bci(0),
            end: starts[2].into(),
            handler: Bci(0),
            catch_type: None,
        }]
        .into(),
        code: code.into(),
        lines: [].into(),
        invokes: invokes.into(),
        ..Method::default()
    }
}

/// Runs `count` instructions from random entries; each branch has a preferred direction. Where
/// a run from an entry ends, its last outcome is `None`.
fn run(g: &Icfg, random: &mut CongruentialRandom, count: usize) -> (Vec<Node>, Vec<Option<Outcome>>) {
    let entries = g.outside_entries();
    let hot: Vec<Node> = (0..200).map(|_| entries[random.below(entries.len())]).collect();
    let (mut nodes, mut outcomes) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut stack: Vec<Node> = Vec::new();
    let mut at = hot[0];
    while nodes.len() < count {
        nodes.push(at);
        let mut outcome = Outcome::Open;
        let habit = (at.0 as usize * 7919) % 16;
        let next = match g.opcode(at).transfer() {
            Transfer::Return => stack.pop().and_then(|s| g.edges(s).next()).map(|e| e.1),
            Transfer::Invoke if stack.len() < 100 && !g.callees(at).is_empty() => {
                stack.push(at);
                let callees = g.callees(at);
                Some(callees[(habit + usize::from(random.below(20) == 0)) % callees.len()])
            }
            Transfer::Invoke if !g.passes(at) => None,
            Transfer::If => {
                let taken = random.below(16) < if habit < 2 { 8 } else { 1 };
                outcome = if taken { Outcome::Taken } else { Outcome::NotTaken };
                let kind = if taken { EdgeKind::Taken } else { EdgeKind::NotTaken };
                g.edges(at).find(|e| e.0 == kind).map(|e| e.1)
            }
            _ => g.edges(at).next().map(|e| e.1),
        };
        outcomes.push(next.map(|_| outcome));
        at = next.unwrap_or_else(|| {
            stack.clear();
            hot[random.below(hot.len())]
        });
    }
    (nodes, outcomes)
}

fn timed<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = f();
    println!("{what}: {:.3} s", begin.elapsed().as_secs_f64());
    result
}

fn project(g: &Icfg, nodes: &[Node], outcomes: &[Option<Outcome>], random: &mut CongruentialRandom) {
    let mut indexed = timed("index", || Indexed::new(g));
    println!("  {} MB", indexed.places().memory() >> 20);
    for len in [10, 50, 200, 1000] {
        let segments: Vec<(usize, Segment)> = (0..100)
            .map(|_| {
                let whole = |from: &usize| outcomes[*from..from + len].iter().all(Option::is_some);
                let mut tries = std::iter::repeat_with(|| random.below(nodes.len() - len));
                let from = tries.by_ref().take(10_000).find(whole).unwrap_or(0);
                let symbol = |i: usize| Symbol::with(g.opcode(nodes[i]), outcomes[i].unwrap_or_default());
                (from, Segment::new((from..from + len).map(symbol).collect()))
            })
            .collect();
        let (mut unique, mut certain, mut wrong, mut given_up, mut nowhere, mut transitions) =
            (0, 0, 0, 0, 0, 0);
        timed(&format!("100 segments of {len} with the index"), || {
            for (from, segment) in &segments {
                let found = indexed.project(segment, &ProjectionLimits::default());
                transitions += found.work.transitions;
                match found.fit {
                    Fit::Paths(p) => {
                        unique += usize::from(p.paths == 1);
                        let sure = || (0..len).filter(|i| p.is_certain(*i));
                        certain += sure().count();
                        wrong += sure().filter(|i| p.nodes[*i] != nodes[from + i]).count();
                    }
                    Fit::GivenUp { .. } => given_up += 1,
                    Fit::Nowhere { .. } => nowhere += 1,
                }
            }
        });
        println!("  unique {unique}, nowhere {nowhere}, given up {given_up}, {transitions} transitions");
        println!("  certain {:.1} % of the symbols, {wrong} of them wrong", certain as f64 / len as f64);
        let mut guided = Guided::new(g, Extent::First);
        timed(&format!("5 segments of {len} by Algorithm 2"), || {
            for (_, segment) in &segments[..5] {
                guided.project(segment, &ProjectionLimits::default());
            }
        });
    }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let methods = arguments.first().copied().unwrap_or(20_000);
    let instructions = arguments.get(1).copied().unwrap_or(5_000_000);
    let mut random = CongruentialRandom(42);
    let mut table = MethodTable::default();
    for i in 0..methods {
        table.push(method(&mut random, i, methods));
    }
    let g = timed("ICFG", || Icfg::build(&table, &mut ByName::new(&table)));
    println!("  {} nodes, {} MB, {} left out", g.len(), g.memory() >> 20, g.left_out().len());
    let (nodes, outcomes) = timed("run", || run(&g, &mut random, instructions));
    println!("  {} entered from outside", outcomes.iter().filter(|o| o.is_none()).count());
    project(&g, &nodes, &outcomes, &mut random);
    for lose in [50, 500, 10_000] {
        println!("gaps of {lose} instructions");
        fill(&g, &nodes, lose);
    }
}

fn fill(g: &Icfg, nodes: &[Node], lose: usize) {
    let mut captured = Captured::default();
    let mut gaps: Vec<(Hole, &[Node])> = Vec::new();
    let mut last: Option<(SegmentId, usize)> = None;
    let keep = 4 * lose;
    timed("captured", || {
        for from in (0..nodes.len()).step_by(keep + lose) {
            let to = (from + keep).min(nodes.len());
            let marks: Vec<(usize, u64)> =
                (0..to - from).step_by(50).map(|i| (i, (from + i) as u64 * 3)).collect();
            let id = captured.push(g, &nodes[from..to], &marks).unwrap();
            if let Some((before, end)) = last {
                let hole = Hole { before, after: id, time: Some((from - end) as u64 * 3) };
                gaps.push((hole, &nodes[end..from]));
            }
            last = Some((id, to));
        }
    });
    let holes: Vec<Hole> = gaps.iter().map(|g| g.0).collect();
    for (name, choose) in [("Algorithm 3", &Basic as &dyn Choose), ("Algorithm 4", &Tiered)] {
        let filled = timed(name, || recover(&captured, &holes, choose, None, &Parameters::default()));
        let compared: u64 = filled.iter().map(|f| f.work.compared).sum();
        let candidates: u64 = filled.iter().map(|f| f.work.candidates).sum();
        let fills: Vec<&Fill> = filled.iter().filter_map(|f| f.fill.as_ref()).collect();
        let len: usize = fills.iter().map(|f| f.nodes.len()).sum();
        println!(
            "  {} of {} filled, {len} instructions, {compared} of {candidates} compared",
            fills.len(),
            gaps.len()
        );
        let pairs = filled.iter().zip(&gaps).filter_map(|(f, g)| Some((&f.fill.as_ref()?.nodes[..], g.1)));
        print_right(pairs, gaps.len());
    }
    let rehearsal = Rehearsal::new(&captured, &[lose as u64 * 3], gaps.len().min(500));
    let learned = timed("learned", || Learned::new(g, rehearsal.cut()).with_lengths(rehearsal.lengths()));
    let follower = Follower::new(g, &captured, &learned, Settings::default());
    let expected = Some(Expected { instructions: lose as f64, slack: 0.0 });
    let gap = |h: &Hole| Gap {
        hole: *h,
        before: Below::Unknown,
        entered: None,
        after: Below::Unknown,
        sure: (1.0, 1.0),
        expected,
    };
    let all: Vec<Gap<'_>> = holes.iter().map(gap).collect();
    let found = timed("followed", || follower.recover(&all));
    let fills: Vec<_> = found.iter().filter_map(|f| f.0.as_ref()).collect();
    let len: usize = fills.iter().map(|f| f.nodes.len()).sum();
    let read: u64 = found.iter().map(|f| f.1.read).sum();
    println!("  {} of {} filled, {len} instructions, {read} read", fills.len(), gaps.len());
    let tally = timed("rehearsed", || {
        rehearsal.run(g, &captured, &|_| Below::Unknown, &learned, Settings::default())
    });
    let calibration = Calibration::of(&tally);
    for claimed in [0.0, 0.5, 0.7, 0.8, 0.9] {
        let share = |all: &Tally| {
            let (events, right) = all.from(claimed);
            format!("{events} events, {:.1} % right", 100.0 * right as f64 / events.max(1) as f64)
        };
        let (mut raw, mut calibrated) = (Tally::default(), Tally::default());
        for (found, (_, truth)) in found.iter().zip(&gaps) {
            let Some(found) = &found.0 else { continue };
            let front = found.nodes.iter().zip(*truth).take_while(|(a, b)| a == b).count();
            let back = found.nodes.iter().rev().zip(truth.iter().rev()).take_while(|(a, b)| a == b).count();
            for (at, c) in found.confidence.iter().enumerate() {
                let right = at < front || at + back >= found.nodes.len();
                raw.add(c, right, 1);
                calibrated.add(calibration.apply(c), right, 1);
            }
        }
        println!("  from {claimed}: {}; calibrated {}", share(&raw), share(&calibrated));
    }
    let pairs = found.iter().zip(&gaps).filter_map(|(f, g)| Some((&f.0.as_ref()?.nodes[..], g.1)));
    print_right(pairs, gaps.len());
}

/// Prints how many of the lost instructions are in the fills: contiguously at both ends, and
/// anywhere.
fn print_right<'n>(fills: impl Iterator<Item = (&'n [Node], &'n [Node])>, gaps: usize) {
    let (mut ends, mut anywhere, mut lost, mut filled) = (0, 0, 0, 0);
    for (fill, truth) in fills {
        let front = fill.iter().zip(truth).take_while(|(a, b)| a == b).count();
        let back = fill.iter().rev().zip(truth.iter().rev()).take_while(|(a, b)| a == b).count();
        ends += (front + back).min(truth.len());
        let mut counts = std::collections::HashMap::new();
        truth.iter().for_each(|n| *counts.entry(n).or_insert(0u32) += 1);
        for n in fill {
            if let Some(left) = counts.get_mut(n).filter(|left| **left > 0) {
                *left -= 1;
                anywhere += 1;
            }
        }
        (lost, filled) = (truth.len(), filled + fill.len());
    }
    println!("  of {} lost, {filled} filled, {ends} are right at the ends, {anywhere} at most", lost * gaps);
}
