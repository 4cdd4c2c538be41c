// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts by instruction.

use jportal_bytecode::{Branch, Method, MethodTable, Opcode, Shape, Shapes};
use jportal_flow::{Entry, EventKind, Exit};
use jportal_units::{Bci, MethodId};

use super::kind::OpcodeKind;

/// JVMS table 4.6-A.
const ACC_SYNCHRONIZED: u32 = 0x20;

/// The counts of one method.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodCounts {
    /// By bci: how many stretches of executed bytecodes begin here, less those that ended before.
    /// The sum up to a bci is the number of executions.
    steps: Box<[u64]>,
    /// The way that each branch went last, by branch: 1 and more; 0 before the first time.
    last: Box<[u16]>,
    /// Which outcomes of branches were seen, by slot.
    seen: Box<[bool]>,
    /// Executions of a branch that went another way than the time before in the same thread.
    pub(super) changes: u64,
    /// Entries of a synchronized method.
    pub(super) locked: u64,
}

impl MethodCounts {
    fn new(method: &Method, shape: &Shape) -> Self {
        Self {
            steps: vec![0; method.code.len() + 1].into(),
            last: vec![0; shape.branches.len()].into(),
            seen: vec![false; shape.slots].into(),
            ..Self::default()
        }
    }
    /// The instructions that were executed, with their opcodes and numbers of executions.
    pub(super) fn instructions<'a>(
        &'a self,
        method: &'a Method,
        shape: &'a Shape,
    ) -> impl Iterator<Item = (Bci, Opcode, u64)> + 'a {
        let (mut sum, mut at) = (0_u64, 0);
        shape.starts.iter().filter_map(move |bci| {
            let here = usize::from(bci.get());
            for step in self.steps.get(at..=here).unwrap_or_default() {
                sum = sum.wrapping_add(*step);
            }
            at = here + 1;
            let mut opcode = Opcode(*method.code.get(here)?);
            if opcode == Opcode::WIDE {
                opcode = Opcode(*method.code.get(here + 1)?);
            }
            (sum > 0).then_some((*bci, opcode, sum))
        })
    }
    /// The number of branches that went more than one way.
    pub(super) fn changing(&self, shape: &Shape) -> u64 {
        let ways = |b: &&Branch| {
            let slots = self.seen.get(b.slot..b.slot + b.successors.len()).unwrap_or_default();
            slots.iter().filter(|seen| **seen).count() > 1
        };
        shape.branches.iter().filter(ways).count() as u64
    }
    fn executed(&mut self, first: Bci, last: Bci) {
        let (first, end) = (usize::from(first.get()), usize::from(last.get()) + 1);
        if first < end && end < self.steps.len() {
            self.steps[first] = self.steps[first].wrapping_add(1);
            self.steps[end] = self.steps[end].wrapping_sub(1);
        }
    }
    fn went(&mut self, shape: &Shape, from: Bci, to: Bci) {
        let Ok(number) = shape.branches.binary_search_by_key(&from, |b| b.bci) else { return };
        let branch = &shape.branches[number];
        let Ok(way) = branch.successors.binary_search(&to) else { return };
        self.seen[branch.slot + way] = true;
        let last = std::mem::replace(&mut self.last[number], way as u16 + 1);
        self.changes += u64::from(last != 0 && usize::from(last) != way + 1);
    }
    fn merge(&mut self, other: &Self) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(a, b)| *a = a.wrapping_add(*b));
        self.seen.iter_mut().zip(&other.seen).for_each(|(a, b)| *a |= b);
        self.changes += other.changes;
        self.locked += other.locked;
    }
}

/// The counts of all methods.
#[derive(Debug, Default)]
pub(super) struct MetricsCounts {
    methods: Vec<Option<Box<MethodCounts>>>,
}

impl MetricsCounts {
    pub(super) fn get(&self, id: MethodId) -> Option<&MethodCounts> {
        self.methods.get(id.get() as usize)?.as_deref()
    }
    /// The methods of which a bytecode was executed.
    pub(super) fn executed(&self) -> impl Iterator<Item = MethodId> + '_ {
        let some = |c: &MethodCounts| c.steps.iter().any(|n| *n != 0);
        let methods = (0..).map(MethodId).zip(&self.methods);
        methods.filter(move |(_, c)| c.as_deref().is_some_and(some)).map(|(id, _)| id)
    }
    pub(super) fn merge(&mut self, other: Self) {
        if self.methods.len() < other.methods.len() {
            self.methods.resize_with(other.methods.len(), || None);
        }
        for (into, from) in self.methods.iter_mut().zip(other.methods) {
            match (into, from) {
                (Some(into), Some(from)) => into.merge(&from),
                (into @ None, from) => *into = from,
                (Some(_), None) => {}
            }
        }
    }
    fn of(&mut self, (methods, shapes): (&MethodTable, &Shapes), id: MethodId) -> Option<&mut MethodCounts> {
        let n = id.get() as usize;
        if n >= self.methods.len() {
            if n >= methods.len() {
                return None;
            }
            self.methods.resize_with(n + 1, || None);
        }
        let counts = self.methods.get_mut(n)?;
        if counts.is_none() {
            *counts = Some(Box::new(MethodCounts::new(methods.get(id)?, shapes.get(methods, id)?)));
        }
        counts.as_deref_mut()
    }
}

/// Counts one thread.
#[derive(Debug, Default)]
pub(super) struct MetricsCounter {
    counts: MetricsCounts,
    /// The last bytecode is this branch. The next one says which way it went.
    branch: Option<(MethodId, Bci)>,
    /// The last event was the entry of this synchronized method.
    locked: Option<MethodId>,
}

impl MetricsCounter {
    pub(super) fn end(self) -> MetricsCounts {
        self.counts
    }
    /// Processes the next event. `hidden`: it is not counted.
    pub(super) fn event(&mut self, tables: (&MethodTable, &Shapes), kind: &EventKind, hidden: bool) {
        let locked = self.locked.take();
        if let EventKind::Leave { method, exit: Exit::Replaced } = kind {
            self.locked = locked.filter(|m| m == method);
            return;
        }
        if hidden {
            self.branch = None;
            return;
        }
        match kind {
            EventKind::Bytecode { method, bci, .. } => self.executed(tables, *method, (*bci, *bci)),
            EventKind::Run { method, first, last, .. } => self.executed(tables, *method, (*first, *last)),
            EventKind::Enter { method, entry: Entry::Call | Entry::Upcall, .. } => {
                self.branch = None;
                self.enter(tables, *method);
            }
            // The activation continues: OSR may come between a loop's branch and its target.
            EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. } => self.locked = locked,
            EventKind::Leave { method, exit } => {
                self.branch = None;
                // The stack had no room for the frame, which locked nothing.
                let native = tables.0.get(*method).is_some_and(Method::is_native);
                if *exit == Exit::Unwind && locked == Some(*method) && !native {
                    self.counts.of(tables, *method).into_iter().for_each(|c| c.locked -= 1);
                }
            }
            _ => self.branch = None,
        }
    }
    fn enter(&mut self, tables: (&MethodTable, &Shapes), method: MethodId) {
        let flags = tables.0.get(method).map_or(0, |m| m.access_flags);
        if flags & ACC_SYNCHRONIZED != 0
            && let Some(counts) = self.counts.of(tables, method)
        {
            counts.locked += 1;
            self.locked = Some(method);
        }
    }
    fn executed(&mut self, tables: (&MethodTable, &Shapes), id: MethodId, (first, last): (Bci, Bci)) {
        let branch = self.branch.take();
        let Some(method) = tables.0.get(id) else { return };
        let Some(shape) = tables.1.get(tables.0, id) else { return };
        let Some(counts) = self.counts.of(tables, id) else { return };
        if let Some((_, from)) = branch.filter(|(m, _)| *m == id) {
            counts.went(shape, from, first);
        }
        if first != last {
            for branch in shape.branches_before((first, last)) {
                if let Some(next) = shape.next(branch.bci) {
                    counts.went(shape, branch.bci, next);
                }
            }
        }
        counts.executed(first, last);
        let opcode = method.code.get(usize::from(last.get())).map(|o| Opcode(*o));
        if opcode.is_some_and(|o| OpcodeKind::Control.has(o)) {
            self.branch = Some((id, last));
        }
    }
}
