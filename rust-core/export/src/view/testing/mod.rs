// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A made-up capture of any size, for tests of the page and for its example.

mod code;
mod time;
mod tree;

use jportal_analyses::{Inexact, ThreadTotals};
use jportal_flow::Tally;

use super::{View, ViewMeta, ViewTree};
pub use tree::tree;

/// Ticks per second of the made-up machine.
pub(super) const HZ: u64 = 2_500_000_000;
/// The threads.
pub(super) const THREADS: [&str; 5] =
    ["main", "H2 Serialization Thread", "MVStore background writer", "worker-1", "worker-2"];

/// A generator of numbers that look random (xorshift).
#[derive(Debug)]
pub(super) struct MadeUpNumbers(u64);

impl MadeUpNumbers {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`; 0 for 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}

/// The page of a made-up capture with that many methods and nodes of the call tree.
pub fn view(methods: usize, nodes: usize) -> View {
    let tree = tree(methods, nodes);
    let gaps = [("truncated", 2), ("overflow", 1)].into();
    let threads = (1..).zip(&tree.threads).map(|(n, t)| ThreadTotals {
        tid: t.tid.unwrap_or(0),
        java_tid: t.java_tid,
        name: t.name.clone(),
        started: n * HZ / 10,
        bytecodes: Tally { decoded: tree.nodes[t.root as usize].total, ..Tally::default() },
        calls: 1000 * n,
        unresolved: n,
        orphans: 0,
        gaps: if n == 4 { Clone::clone(&gaps) } else { Default::default() },
    });
    let threads = threads.collect();
    let rows = code::methods(&tree);
    View {
        meta: meta(),
        threads,
        coverage: Some(code::coverage(&rows, methods)),
        sources: code::sources(&rows),
        methods: rows,
        overview: Some(time::overview()),
        latency: Some(time::latency(methods)),
        jit: Some(time::jit(methods)),
        trees: vec![ViewTree { title: "Threads".into(), tree }],
    }
}

fn meta() -> ViewMeta {
    ViewMeta {
        capture: "h2-dacapo.jportal".into(),
        jvm: "OpenJDK 64-Bit Server VM 17.0.15-jportal".into(),
        recorded: "2025-03-14 09:26:53 UTC".into(),
        producer: "jportal 0.1.0".into(),
        command: "jportal view h2-dacapo.jportal --source src/main -o h2.html".into(),
        ticks_per_second: Some(HZ as f64),
        exact: false,
        inexact: inexact(),
        notes: vec!["Made-up data: no JVM executed this.".into()],
    }
}

pub(super) fn inexact() -> Inexact {
    Inexact {
        gaps: 3,
        unresolved: [("conditional-move", 17), ("empty-loop", 2)].into(),
        silent_calls: 4211,
        ..Inexact::default()
    }
}
