// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One flow of a comparison, as one sequence.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use jportal_bytecode::{Method, MethodTable};

use crate::against::steps::{ComparisonStep, Steps};

pub(crate) struct Side<'a> {
    from: Receiver<Steps>,
    pub(crate) ready: VecDeque<ComparisonStep>,
    methods: &'a MethodTable,
    pub(crate) tid: u32,
    pub(crate) started: u64,
}

impl<'a> Side<'a> {
    pub(crate) fn new((from, methods): (Receiver<Steps>, &'a MethodTable)) -> Self {
        Self { from, ready: VecDeque::new(), methods, tid: 0, started: 0 }
    }
    /// Makes `n` steps available in `ready`, or all that are left.
    pub(crate) fn fill(&mut self, n: usize) {
        while self.ready.len() < n {
            let Ok(more) = self.from.recv() else { return };
            (self.tid, self.started) = (more.tid, more.started);
            self.ready.extend(more.steps);
        }
    }
    /// The next step, without taking it.
    pub(crate) fn peek(&mut self) -> Option<ComparisonStep> {
        self.fill(1);
        self.ready.front().copied()
    }
    /// Takes up to `n` available steps.
    pub(crate) fn take(&mut self, n: usize) -> impl Iterator<Item = ComparisonStep> {
        self.ready.drain(..n.min(self.ready.len()))
    }
    /// Drops up to `n` available steps; returns their number.
    pub(crate) fn pass(&mut self, n: usize) -> u64 {
        self.ready.drain(..n.min(self.ready.len())).len() as u64
    }
    /// Makes all steps that are left available; returns their number.
    pub(crate) fn rest(&mut self) -> usize {
        self.fill(usize::MAX);
        self.ready.len()
    }
    /// Drops all steps that are left; returns their number.
    pub(crate) fn rest_dropped(&mut self) -> u64 {
        let mut passed = 0;
        while self.peek().is_some() {
            passed += self.ready.len() as u64;
            self.ready.clear();
        }
        passed
    }
    /// Keys and bcis of the next bytecodes, up to the next hidden stretch.
    pub(crate) fn certain(&self, most: usize) -> Vec<(u64, u16)> {
        let name = |s: &ComparisonStep| match s {
            ComparisonStep::Bytecode(e) => Some((e.key, e.bci.get())),
            ComparisonStep::Unresolved(..) | ComparisonStep::Gap => None,
        };
        self.ready.iter().take(most).map_while(name).collect()
    }
    /// Whether step `at` is a hidden stretch or a gap.
    pub(crate) fn hides_at(&self, at: usize) -> bool {
        self.ready.get(at).is_some_and(|s| !matches!(s, ComparisonStep::Bytecode(_)))
    }
    pub(crate) fn show(&self, step: &ComparisonStep) -> String {
        match step {
            ComparisonStep::Bytecode(e) => {
                let name = self.methods.get(e.method);
                let name = name.map_or_else(|| e.method.to_string(), Method::qualified_name);
                format!("{name} @{} {}", e.bci, e.tier.name())
            }
            ComparisonStep::Unresolved(_, cause) => format!("(unresolved: {})", cause.name()),
            ComparisonStep::Gap => "(gap)".into(),
        }
    }
    /// The next `n` steps, for display.
    pub(crate) fn coming(&mut self, n: usize) -> Vec<String> {
        self.fill(n);
        self.ready.iter().take(n).map(|s| self.show(s)).collect()
    }
}

/// Whether two steps are the same bytecode.
pub(crate) fn same(a: &ComparisonStep, b: &ComparisonStep) -> bool {
    match (a, b) {
        (ComparisonStep::Bytecode(a), ComparisonStep::Bytecode(b)) => (a.key, a.bci) == (b.key, b.bci),
        _ => false,
    }
}
