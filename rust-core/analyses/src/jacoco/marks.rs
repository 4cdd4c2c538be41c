// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The executed parts of each method, to the extent that a JaCoCo probe could show them:
//! instructions, ways of branches, and steps from one instruction to the next.

use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::MethodTable;
use jportal_flow::{Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::{Bci, MethodId};

use crate::shape::{Shape, Shapes};

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

#[derive(Debug)]
struct Shared {
    methods: Arc<MethodTable>,
    shapes: Shapes,
    marks: Mutex<MarkTable>,
    unresolved: Mutex<u64>,
}

/// Collects what was executed from the flows of all threads.
#[derive(Debug)]
pub struct MarksConsumer {
    shared: Arc<Shared>,
}

impl MarksConsumer {
    /// For the methods of one recording.
    pub fn new(methods: Arc<MethodTable>) -> Self {
        let shapes = Shapes::new(&methods);
        let (marks, unresolved) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { methods, shapes, marks, unresolved }) }
    }
    pub(crate) fn methods(&self) -> &MethodTable {
        &self.shared.methods
    }
    pub(crate) fn shape(&self, id: MethodId) -> Option<&Shape> {
        self.shared.shapes.get(&self.shared.methods, id)
    }
    /// The marks of a method; `None` when nothing of it was executed.
    pub(crate) fn marks(&self, id: MethodId) -> Option<Marks> {
        let all = self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(id.get() as usize)?.as_deref().cloned()
    }
    /// Unresolved stretches.
    pub(crate) fn unresolved(&self) -> u64 {
        *self.shared.unresolved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowConsumer for MarksConsumer {
    fn thread(&mut self, _: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Sink {
            shared: Arc::clone(&self.shared),
            marks: Vec::new(),
            frames: Vec::new(),
            replaced: Vec::new(),
            unresolved: 0,
        })
    }
}

/// An activation and the bytecode it executes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    method: MethodId,
    last: Option<Bci>,
}

struct Sink {
    shared: Arc<Shared>,
    marks: MarkTable,
    frames: Vec<Frame>,
    /// Activations that continue as frames of another kind.
    replaced: Vec<Frame>,
    unresolved: u64,
}

impl Sink {
    fn event(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::Bytecode { method, bci, .. } => self.bytecode(method, bci),
            // This consumer receives no runs.
            EventKind::Run { .. } => {}
            EventKind::Enter { method, entry: Entry::Osr | Entry::Deoptimisation, .. } => {
                let kept = self.replaced.pop().filter(|f| f.method == method);
                self.frames.push(kept.unwrap_or(Frame { method, last: None }));
            }
            EventKind::Enter { method, .. } => {
                self.replaced.clear();
                self.frames.push(Frame { method, last: None });
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
            EventKind::Time(_) | EventKind::Orphan(_) => {}
        }
    }
    fn forget(&mut self) {
        if let Some(top) = self.frames.last_mut() {
            top.last = None;
        }
    }
    fn bytecode(&mut self, method: MethodId, bci: Bci) {
        let before = match self.frames.last_mut() {
            Some(top) if top.method == method => top.last.replace(bci),
            _ => {
                self.frames.push(Frame { method, last: Some(bci) });
                None
            }
        };
        let shared = Arc::clone(&self.shared);
        let Some(shape) = shared.shapes.get(&shared.methods, method) else { return };
        let index = method.get() as usize;
        if self.marks.len() <= index {
            self.marks.resize_with(index + 1, || None);
        }
        let marks = self.marks[index].get_or_insert_with(|| {
            let code = shared.methods.get(method).map_or(0, |m| m.code.len());
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

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        events.iter().for_each(|e| self.event(&e.kind));
    }
    fn end(self: Box<Self>) {
        let mut all = self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < self.marks.len() {
            all.resize_with(self.marks.len(), || None);
        }
        for (into, from) in all.iter_mut().zip(self.marks) {
            match (into, from) {
                (Some(into), Some(from)) => into.merge(&from),
                (into @ None, from) => *into = from,
                (Some(_), None) => {}
            }
        }
        *self.shared.unresolved.lock().unwrap_or_else(PoisonError::into_inner) += self.unresolved;
    }
}
