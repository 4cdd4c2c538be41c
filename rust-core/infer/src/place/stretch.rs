// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A stretch of orphan bytecodes: from the first one to where the flow says more about their
//! frame.
//!
//! The events of a stretch are orphans, times, and *visits*: activations above the unknown
//! frame, each a call out of that frame or a call of the VM in its middle.

use crate::place::emit::depth_after;
use crate::segment::Ends;
use crate::{Outcome, Segment, Symbol};
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, Orphan};
use jportal_units::MethodId;
use std::ops::Range;

/// An orphan bytecode of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytecode {
    /// The index of its event.
    pub event: usize,
    /// The opcode.
    pub opcode: Opcode,
    /// How it ended.
    pub outcome: Outcome,
    /// The method that it called, if known.
    pub callee: Option<MethodId>,
}

/// The stretch that is being collected.
#[derive(Clone, Debug, Default)]
pub struct OrphanStretch {
    /// The events in order.
    pub events: Vec<Event>,
    /// The orphan bytecodes among them.
    pub bytecodes: Vec<Bytecode>,
    /// The known calls that lead out of the stretch at its ends.
    pub ends: Ends,
    /// The number of events, where a run counts as its bytecodes: it is the same with and
    /// without runs.
    pub size: u64,
    /// The number of frames above the unknown one.
    depth: usize,
    /// The visit that the last bytecode is in.
    visit: VisitKind,
}

/// The kind of activation above the unknown frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VisitKind {
    /// None.
    #[default]
    None,
    /// The callee of the last bytecode.
    Callee,
    /// A method that the VM called.
    Upcall,
}

/// The knowledge about the place of a bytecode from what precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// None.
    Anywhere,
    /// The bytecode is this node.
    At(Node),
    /// A frame of this method returned to the bytecode.
    Behind(MethodId),
}

/// Whether an event belongs to a stretch.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// The event belongs to the stretch.
    Inside,
    /// This event is the first after the stretch.
    Behind(Event),
}

impl OrphanStretch {
    /// A stretch that begins after a call of `after`.
    pub fn new(after: Option<MethodId>) -> Self {
        Self { ends: Ends { after, ..Ends::default() }, ..Self::default() }
    }
    /// Takes the next event if it belongs to the stretch.
    pub fn take(&mut self, event: Event) -> Taken {
        let inside = match event.kind {
            EventKind::Gap(_) => false,
            _ if self.depth > 0 => {
                self.in_visit(&event.kind);
                true
            }
            EventKind::Orphan(orphan) => {
                self.orphan(orphan);
                true
            }
            EventKind::Time(_) => true,
            EventKind::Enter { method, entry, .. } => self.visited(method, entry),
            _ => false,
        };
        if !inside {
            return Taken::Behind(event);
        }
        self.size += event.kind.bytecodes().max(1);
        self.events.push(event);
        Taken::Inside
    }
    /// The number of leading events that belong to a visit which continues after them, as long
    /// as the stretch has fewer than `most` events. These events count as taken, but the caller
    /// must append them to [`Self::events`].
    pub fn go_by(&mut self, events: &[Event], most: u64) -> usize {
        let mut len = 0;
        for event in events {
            let size = self.size + event.kind.bytecodes().max(1);
            let depth = depth_after(self.depth, &event.kind);
            if self.depth == 0 || depth == 0 || size >= most || matches!(event.kind, EventKind::Gap(_)) {
                break;
            }
            (self.depth, self.size) = (depth, size);
            len += 1;
        }
        len
    }
    fn orphan(&mut self, orphan: Orphan) {
        match orphan {
            Orphan::Bytecode { opcode, taken } => {
                let outcome = match taken {
                    None => Outcome::Open,
                    Some(true) => Outcome::Taken,
                    Some(false) => Outcome::NotTaken,
                };
                let opcode = Opcode(opcode);
                self.bytecodes.push(Bytecode { event: self.events.len(), opcode, outcome, callee: None });
            }
            // There is one event for each frame that the exception passes.
            Orphan::Throw => {
                if let Some(last) = self.bytecodes.last_mut() {
                    last.outcome = match last.outcome {
                        Outcome::Thrown | Outcome::Unwound => Outcome::Unwound,
                        _ => Outcome::Thrown,
                    };
                }
            }
        }
    }
    /// Whether a frame of `method` can be a visit; if so, the visit begins.
    fn visited(&mut self, method: MethodId, entry: Entry) -> bool {
        self.visit = match (entry, self.bytecodes.last_mut()) {
            (Entry::Upcall, _) => VisitKind::Upcall,
            (Entry::Call | Entry::Found, Some(last))
                if last.outcome == Outcome::Open
                    && last.callee.is_none()
                    && last.opcode.transfer() == Transfer::Invoke =>
            {
                last.callee = Some(method);
                VisitKind::Callee
            }
            _ => return false,
        };
        self.depth = 1;
        true
    }
    fn in_visit(&mut self, kind: &EventKind) {
        self.depth = depth_after(self.depth, kind);
        let EventKind::Leave { exit, .. } = kind else { return };
        if self.depth > 0 {
            return;
        }
        let called = std::mem::take(&mut self.visit) == VisitKind::Callee;
        let returned = matches!(exit, Exit::Return | Exit::Unknown | Exit::EarlyReturn);
        if let (Some(last), true, true) = (self.bytecodes.last_mut(), returned, called) {
            last.outcome = Outcome::Returned;
        }
    }
    /// The number of frames above the unknown one at the end, and whether the VM called the
    /// lowest of them.
    pub fn above(&self) -> (usize, bool) {
        (self.depth, self.visit == VisitKind::Upcall)
    }
    /// Whether an exception is being thrown at the end.
    pub fn throws(&self) -> bool {
        self.bytecodes.last().is_some_and(|b| matches!(b.outcome, Outcome::Thrown | Outcome::Unwound))
    }
    /// Whether the stretch ends with a return.
    pub fn returns(&self) -> bool {
        let returns = |b: &Bytecode| b.opcode.transfer() == Transfer::Return && b.outcome == Outcome::Open;
        self.depth == 0 && self.bytecodes.last().is_some_and(returns)
    }
    /// The index of the last return in the row of returns that begins at bytecode `from`;
    /// `from` if that is no return. Each of these returns may lead almost anywhere.
    pub fn after_returns(&self, from: usize) -> usize {
        let returns = |b: &&Bytecode| b.opcode.transfer() == Transfer::Return;
        from + self.bytecodes[from..].iter().take_while(returns).count().saturating_sub(1)
    }
    /// Some of the bytecodes as a segment; `begin` is the knowledge about the first of them.
    pub fn segment(&self, icfg: &Icfg, bytecodes: Range<usize>, begin: Begin) -> Segment {
        let Range { start, end } = bytecodes;
        let symbol = |b: &Bytecode| Symbol::with(b.opcode, b.outcome);
        let mut segment = Segment::new(self.bytecodes[start..end].iter().map(symbol).collect());
        if let Begin::At(node) = begin {
            // An anchor that does not fit is ignored.
            let _ = segment.anchor(icfg, 0, icfg.method(node), icfg.bci(node));
        }
        for (index, bytecode) in self.bytecodes[start..end].iter().enumerate() {
            if let Some(callee) = bytecode.callee {
                // The calls are in order and belong to invokes: a stretch collects them that
                // way.
                let _ = segment.call(index, callee);
            }
        }
        let after = self.ends.after.filter(|_| start == 0);
        let into = self.ends.into.filter(|_| end == self.bytecodes.len());
        let returned = match begin {
            Begin::Behind(method) => Some(method),
            _ => None,
        };
        segment.end(Ends { after, returned, into });
        segment
    }
}
