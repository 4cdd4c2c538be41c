// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A stretch of orphan bytecodes: from the first to where something else is known of the frame they belong to.
//!
//! Its events are orphans, time, and *visits*: activations that come and go on top of the unknown frame, each a call out of
//! it or a call of the VM in its middle.

use crate::emit::depth_behind;
use jportal_bytecode::{Icfg, Node, Opcode, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, Orphan};
use jportal_recover::segment::Ends;
use jportal_recover::{Outcome, Segment, Symbol};
use jportal_units::MethodId;
use std::ops::Range;

/// An orphan bytecode of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytecode {
    /// Index of its event.
    pub event: usize,
    /// Which.
    pub opcode: Opcode,
    /// How it ended.
    pub outcome: Outcome,
    /// What it called.
    pub callee: Option<MethodId>,
}

/// The stretch that is being collected.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// Its events in order.
    pub events: Vec<Event>,
    /// The orphan bytecodes among them.
    pub bytecodes: Vec<Bytecode>,
    /// What leads out of it at its ends, as far as known.
    pub ends: Ends,
    /// Its events, a run counted as the bytecodes that it stands for: the same whether there are runs or not.
    pub size: u64,
    /// Frames on top of the unknown one.
    depth: usize,
    /// What the last bytecode is in the middle of.
    visit: Visit,
}

/// What stands on top of the unknown frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Visit {
    /// Nothing.
    #[default]
    None,
    /// What the last bytecode called.
    Callee,
    /// A call of the VM.
    Upcall,
}

/// What is known of the place of a bytecode from what stands in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing.
    Anywhere,
    /// It stands here.
    At(Node),
    /// A frame of this method returned to it.
    Behind(MethodId),
}

/// What an event is to a stretch.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Part of it.
    Inside,
    /// This is the first behind it.
    Behind(Event),
}

impl Stretch {
    /// One that begins behind a call of `after`.
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
    /// How many of `events`, from the first on, are part of a visit that goes on behind them, as long as it has fewer than `most`. They are
    /// taken, except that the caller has to append them.
    pub fn go_by(&mut self, events: &[Event], most: u64) -> usize {
        let mut len = 0;
        for event in events {
            let size = self.size + event.kind.bytecodes().max(1);
            let depth = depth_behind(self.depth, &event.kind);
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
            // Frame by frame.
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
    /// Whether a frame of `method` comes and goes on top.
    fn visited(&mut self, method: MethodId, entry: Entry) -> bool {
        self.visit = match (entry, self.bytecodes.last_mut()) {
            (Entry::Upcall, _) => Visit::Upcall,
            (Entry::Call | Entry::Found, Some(last))
                if last.outcome == Outcome::Open
                    && last.callee.is_none()
                    && last.opcode.transfer() == Transfer::Invoke =>
            {
                last.callee = Some(method);
                Visit::Callee
            }
            _ => return false,
        };
        self.depth = 1;
        true
    }
    fn in_visit(&mut self, kind: &EventKind) {
        self.depth = depth_behind(self.depth, kind);
        let EventKind::Leave { exit, .. } = kind else { return };
        if self.depth > 0 {
            return;
        }
        let called = std::mem::take(&mut self.visit) == Visit::Callee;
        let returned = matches!(exit, Exit::Return | Exit::Unknown | Exit::EarlyReturn);
        if let (Some(last), true, true) = (self.bytecodes.last_mut(), returned, called) {
            last.outcome = Outcome::Returned;
        }
    }
    /// Frames that stand on top of the unknown one at its end, and whether the VM called the lowest of them.
    pub fn above(&self) -> (usize, bool) {
        (self.depth, self.visit == Visit::Upcall)
    }
    /// Whether an exception is on its way at its end.
    pub fn throws(&self) -> bool {
        self.bytecodes.last().is_some_and(|b| matches!(b.outcome, Outcome::Thrown | Outcome::Unwound))
    }
    /// Whether it ends with a return.
    pub fn returns(&self) -> bool {
        let returns = |b: &Bytecode| b.opcode.transfer() == Transfer::Return && b.outcome == Outcome::Open;
        self.depth == 0 && self.bytecodes.last().is_some_and(returns)
    }
    /// The last of the returns in a row that bytecode `from` is the first of; `from` where it is none. Each of them may lead almost
    /// anywhere.
    pub fn behind_returns(&self, from: usize) -> usize {
        let returns = |b: &&Bytecode| b.opcode.transfer() == Transfer::Return;
        from + self.bytecodes[from..].iter().take_while(returns).count().saturating_sub(1)
    }
    /// Some of its bytecodes as a segment, by what is known of the first of them.
    pub fn segment(&self, icfg: &Icfg, bytecodes: Range<usize>, begin: Begin) -> Segment {
        let Range { start, end } = bytecodes;
        let symbol = |b: &Bytecode| Symbol::with(b.opcode, b.outcome);
        let mut segment = Segment::new(self.bytecodes[start..end].iter().map(symbol).collect());
        if let Begin::At(node) = begin {
            // One that does not fit is none.
            let _ = segment.anchor(icfg, 0, icfg.method(node), icfg.bci(node));
        }
        for (index, bytecode) in self.bytecodes[start..end].iter().enumerate() {
            if let Some(callee) = bytecode.callee {
                // In order, and invokes only: a stretch collects them so.
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
