// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where an activation is with its current path.

use jportal_flow::Provenance;
use jportal_units::Bci;
use serde::Serialize;

use super::numbering::{EdgeKind, Numbering};

/// Why a path has no end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// An exception left the block before its end.
    Exception,
    /// Trace was lost.
    Gap,
    /// A stretch of compiled code is unresolved.
    Unresolved,
    /// The frame was found in the middle of a method.
    Found,
    /// Events were left out at the caller's request.
    Excluded,
    /// A debugger removed the frame.
    PopFrame,
    /// A debugger made the frame return.
    EarlyReturn,
    /// The end of the frame was not seen.
    Lost,
    /// The flow ended.
    End,
    /// The next bytecode of the frame does not follow the last one.
    Break,
}

impl Reason {
    /// The name in texts and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Gap => "gap",
            Self::Unresolved => "unresolved",
            Self::Found => "found",
            Self::Excluded => "excluded",
            Self::PopFrame => "pop-frame",
            Self::EarlyReturn => "early-return",
            Self::Lost => "lost",
            Self::End => "end",
            Self::Break => "break",
        }
    }
}

/// The less certain of two provenances.
pub(super) const fn weaker(a: Provenance, b: Provenance) -> Provenance {
    match (a, b) {
        (Provenance::Recovered { .. }, _) | (_, Provenance::Decoded) => a,
        (Provenance::Projected { .. }, Provenance::Projected { .. }) => a,
        _ => b,
    }
}

/// A path that has begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Open {
    /// The sum of the values of its edges.
    pub(super) prefix: u64,
    /// Its last instruction.
    last: u16,
    /// Number of bytecodes.
    pub(super) bytecodes: u64,
    /// The least certain of its events.
    pub(super) provenance: Provenance,
}

/// Bytecodes that belong to no known path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) reason: Reason,
    /// The first bytecode, and the least certain event. `None` before the first bytecode.
    pub(super) seen: Option<(Bci, Provenance)>,
    /// The last instruction, if nothing is missing after it.
    last: Option<u16>,
    pub(super) bytecodes: u64,
}

/// The state of an activation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// At its entry, before the first bytecode.
    Entry,
    /// Before the first bytecode of a handler.
    Handler(Bci),
    Open(Open),
    /// The last path ended with this instruction, and no other one has begun.
    Done(u16),
    /// In no known path.
    Part(Part),
}

/// The path register of an activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Register {
    at: At,
    /// The last instruction may be executed again.
    again: bool,
}

/// What became of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PathOutcome {
    /// It has this identity.
    Completed(u64, Open),
    /// It has no end. The last bytecode is given.
    Cut(Open, Bci, Reason),
    /// Bytecodes outside of known paths end.
    Part(Part),
    /// A bytecode was executed again after a deoptimisation.
    Again(Provenance),
}

impl Register {
    /// Of an activation whose entry was seen.
    pub(super) const fn entered() -> Self {
        Self { at: At::Entry, again: false }
    }
    /// Of an activation in an unknown path.
    pub(super) const fn unknown(reason: Reason) -> Self {
        let part = Part { reason, seen: None, last: None, bytecodes: 0 };
        Self { at: At::Part(part), again: false }
    }
    /// The last instruction may be executed again: the activation continues in the interpreter,
    /// or a debugger removed its callee.
    pub(super) const fn resume(&mut self) {
        self.again = true;
    }
    /// An exception handler follows.
    pub(super) fn catch(&mut self, numbering: &Numbering, bci: Bci, out: impl FnMut(PathOutcome)) {
        self.end(numbering, Reason::Exception, out);
        self.at = At::Handler(bci);
    }
    /// The path is not known any further. For an activation that ends, `reason` says why.
    pub(super) fn end(&mut self, numbering: &Numbering, reason: Reason, mut out: impl FnMut(PathOutcome)) {
        match self.at {
            At::Open(open) => out(PathOutcome::Cut(open, numbering.bci_of(open.last), reason)),
            At::Part(part) if part.bytecodes > 0 => out(PathOutcome::Part(part)),
            _ => {}
        }
        *self = Self::unknown(reason);
    }
    /// Consecutive instructions were executed.
    pub(super) fn execute(
        &mut self,
        numbering: &Numbering,
        (first, last): (u16, u16),
        provenance: Provenance,
        out: &mut impl FnMut(PathOutcome),
    ) {
        let mut next = first;
        while next <= last {
            self.step(numbering, next, provenance, out);
            self.again = false;
            // The rest of the block follows.
            let block = numbering.block(numbering.block_of(next));
            let end = block.last.min(last);
            let more = end - next;
            match &mut self.at {
                At::Open(open) => {
                    open.bytecodes += u64::from(more);
                    open.last = end;
                    if block.stop.is_some() && end == block.last {
                        out(PathOutcome::Completed(open.prefix, *open));
                        self.at = At::Done(end);
                    }
                }
                At::Part(part) => {
                    part.bytecodes += u64::from(more);
                    part.last = Some(end);
                }
                At::Entry | At::Handler(_) | At::Done(_) => {}
            }
            let Some(after) = end.checked_add(1) else { return };
            next = after;
        }
    }
    /// One instruction was executed.
    #[inline]
    fn step(&mut self, of: &Numbering, next: u16, p: Provenance, out: &mut impl FnMut(PathOutcome)) {
        let number = of.block_of(next);
        let leads = of.block(number).first == next;
        match &mut self.at {
            At::Open(open) => match open.step(of, (next, number), (self.again, p)) {
                Next::Within => {}
                Next::Again => out(PathOutcome::Again(p)),
                Next::Ends(value) => {
                    out(PathOutcome::Completed(open.prefix + value, *open));
                    self.begin(of, next, p);
                }
                Next::Breaks => self.lose(of, (next, Reason::Break), p, out),
            },
            At::Part(part) => {
                let again = self.again && part.last == Some(next);
                if !again && leads && arrives(of, part.last, number) {
                    if part.bytecodes > 0 {
                        out(PathOutcome::Part(*part));
                    }
                    self.begin(of, next, p);
                } else {
                    part.add(of, next, p);
                }
            }
            At::Entry if next == 0 => self.begin(of, next, p),
            At::Handler(bci) if of.bci_of(next) == *bci => self.begin(of, next, p),
            At::Done(last) if self.again && *last == next => out(PathOutcome::Again(p)),
            At::Entry | At::Handler(_) | At::Done(_) => self.lose(of, (next, Reason::Break), p, out),
        }
    }
    /// A path begins at an instruction to which an edge from ENTRY leads.
    fn begin(&mut self, of: &Numbering, next: u16, provenance: Provenance) {
        match of.block(of.block_of(next)).entry {
            Some(prefix) => self.at = At::Open(Open { prefix, last: next, bytecodes: 1, provenance }),
            None => {
                let mut part = Part { reason: Reason::Break, seen: None, last: None, bytecodes: 0 };
                part.add(of, next, provenance);
                self.at = At::Part(part);
            }
        }
    }
    fn lose(
        &mut self,
        of: &Numbering,
        (next, reason): (u16, Reason),
        provenance: Provenance,
        out: &mut impl FnMut(PathOutcome),
    ) {
        self.end(of, reason, out);
        if let At::Part(part) = &mut self.at {
            part.add(of, next, provenance);
        }
    }
}

/// What an instruction is to an open path.
enum Next {
    /// The path continues with it.
    Within,
    /// It is the last one again.
    Again,
    /// The path ends before it, with an edge of this value.
    Ends(u64),
    /// It does not follow.
    Breaks,
}

impl Open {
    /// The next instruction, with its block, was executed.
    #[inline]
    fn step(&mut self, of: &Numbering, (next, number): (u16, u16), (again, p): (bool, Provenance)) -> Next {
        if again && self.last == next {
            return Next::Again;
        }
        let block = of.block(of.block_of(self.last));
        if of.block(number).first != next {
            if self.last + 1 != next {
                return Next::Breaks;
            }
        } else if block.last != self.last {
            return Next::Breaks;
        } else {
            match block.edge(number) {
                Some(edge) if edge.kind == EdgeKind::Within => self.prefix += edge.value,
                Some(edge) => return Next::Ends(edge.value),
                None => return Next::Breaks,
            }
        }
        self.last = next;
        self.bytecodes += 1;
        self.provenance = weaker(self.provenance, p);
        Next::Within
    }
}

impl Part {
    fn add(&mut self, of: &Numbering, next: u16, provenance: Provenance) {
        let (first, before) = self.seen.unwrap_or((of.bci_of(next), provenance));
        self.seen = Some((first, weaker(before, provenance)));
        self.last = Some(next);
        self.bytecodes += 1;
    }
}

/// Whether a path begins at a block that an activation in an unknown path reaches. A path begins
/// if the flow shows an edge that ends the path before it, or if no other edge leads there.
/// Otherwise the beginning of the path may be among the bytecodes that were not seen.
fn arrives(of: &Numbering, last: Option<u16>, block: u16) -> bool {
    let from = last.map(|last| (last, of.block(of.block_of(last))));
    let edge = from.filter(|(last, from)| from.last == *last).and_then(|(_, from)| from.edge(block));
    edge.map_or(of.block(block).only_entry, |edge| edge.kind != EdgeKind::Within)
}
