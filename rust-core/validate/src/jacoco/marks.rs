// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The executed parts of each method, to the extent that a JaCoCo probe could show them:
//! instructions, ways of branches, and steps from one instruction to the next.

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{MethodTable, Shape, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exit, ThreadInfo};
use jportal_units::{Bci, MethodId};

/// The bytecode began.
pub(crate) const BEGUN: u8 = 1;
/// It ended, and control passed to the bytecode that follows it.
pub(crate) const WENT_ON: u8 = 2;

/// Bits of one method: per bci, and per way of a branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) bcis: Box<[u8]>,
    pub(crate) ways: Box<[bool]>,
}

impl Marks {
    fn merge(&mut self, other: &Self) {
        self.bcis.iter_mut().zip(&other.bcis).for_each(|(a, b)| *a |= b);
        self.ways.iter_mut().zip(&other.ways).for_each(|(a, b)| *a |= b);
    }
}

type MarkTable = Vec<Option<Box<Marks>>>;

/// Collects what was executed from the flows of all threads.
#[derive(Debug)]
pub struct MarksAnalysis {
    methods: Arc<MethodTable>,
    shapes: Shapes,
    marks: MarkTable,
    unresolved: u64,
}

impl MarksAnalysis {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        let shapes = Shapes::new(&methods);
        Self { methods, shapes, marks: MarkTable::new(), unresolved: 0 }
    }
    pub(crate) fn methods(&self) -> &MethodTable {
        &self.methods
    }
    pub(crate) fn shape(&self, id: MethodId) -> Option<&Shape> {
        self.shapes.get(&self.methods, id)
    }
    /// The marks of a method; `None` when nothing of it was executed.
    pub(crate) fn marks(&self, id: MethodId) -> Option<Marks> {
        self.marks.get(id.get() as usize)?.as_deref().cloned()
    }
    /// Unresolved stretches.
    pub(crate) fn unresolved(&self) -> u64 {
        self.unresolved
    }
}

/// An activation and the bytecode it executes.
#[derive(Clone, Copy, Debug)]
struct MarksFrame {
    method: MethodId,
    last: Option<Bci>,
}

/// What one thread executed.
#[derive(Debug, Default)]
pub struct MarksThread {
    marks: MarkTable,
    frames: Vec<MarksFrame>,
    /// Activations that continue as frames of another kind.
    replaced: Vec<MarksFrame>,
    unresolved: u64,
}

impl MarksThread {
    fn event(&mut self, of: &MarksAnalysis, kind: &EventKind) {
        match *kind {
            EventKind::Bytecode { method, bci, .. } => self.bytecode(of, method, bci),
            // This analysis receives no runs.
            EventKind::Run { .. } => {}
            EventKind::Enter { method, entry: Entry::Osr | Entry::Deoptimisation, .. } => {
                let kept = self.replaced.pop().filter(|f| f.method == method);
                self.frames.push(kept.unwrap_or(MarksFrame { method, last: None }));
            }
            EventKind::Enter { method, .. } => {
                self.replaced.clear();
                self.frames.push(MarksFrame { method, last: None });
            }
            EventKind::Leave { exit, .. } => {
                let frame = self.frames.pop();
                self.replaced.extend(frame.filter(|_| exit == Exit::Replaced));
            }
            // Control came here by an exception, not from the bytecode before.
            EventKind::Catch { .. } => self.forget(),
            EventKind::Unresolved { .. } => {
                self.unresolved += 1;
                self.forget();
            }
            EventKind::Gap(ref gap) => {
                self.replaced.clear();
                if gap.stack_lost {
                    self.frames.clear();
                }
                self.forget();
            }
            EventKind::Time(_) | EventKind::Orphan(_) | EventKind::Code(_) => {}
        }
    }
    fn forget(&mut self) {
        if let Some(top) = self.frames.last_mut() {
            top.last = None;
        }
    }
    fn bytecode(&mut self, of: &MarksAnalysis, method: MethodId, bci: Bci) {
        let before = match self.frames.last_mut() {
            Some(top) if top.method == method => top.last.replace(bci),
            _ => {
                self.frames.push(MarksFrame { method, last: Some(bci) });
                None
            }
        };
        let Some(shape) = of.shapes.get(&of.methods, method) else { return };
        let index = method.get() as usize;
        if self.marks.len() <= index {
            self.marks.resize_with(index + 1, || None);
        }
        let marks = self.marks[index].get_or_insert_with(|| {
            let code = of.methods.get(method).map_or(0, |m| m.code.len());
            Box::new(Marks { bcis: vec![0; code].into(), ways: vec![false; shape.slots].into() })
        });
        if let Some(mark) = marks.bcis.get_mut(usize::from(bci.get())) {
            *mark |= BEGUN;
        }
        let Some(before) = before else { return };
        if let Some(slot) = shape.slot(before, bci) {
            marks.ways[slot] = true;
        } else if shape.next(before) == Some(bci)
            && let Some(mark) = marks.bcis.get_mut(usize::from(before.get()))
        {
            *mark |= WENT_ON;
        }
    }
}

impl Analysis for MarksAnalysis {
    type Thread = MarksThread;

    fn begin(&self, _: &ThreadInfo) -> MarksThread {
        MarksThread::default()
    }
    fn events(&self, thread: &mut MarksThread, events: &[Event]) -> ControlFlow<Enough> {
        events.iter().for_each(|e| thread.event(self, &e.kind));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: MarksThread) {
        if self.marks.len() < thread.marks.len() {
            self.marks.resize_with(thread.marks.len(), || None);
        }
        for (into, from) in self.marks.iter_mut().zip(thread.marks) {
            match (into, from) {
                (Some(into), Some(from)) => into.merge(&from),
                (into @ None, from) => *into = from,
                (Some(_), None) => {}
            }
        }
        self.unresolved += thread.unresolved;
    }
    fn takes_runs(&self) -> bool {
        false
    }
}
