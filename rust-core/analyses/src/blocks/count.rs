// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts the events of one thread.

use jportal_bytecode::Transfer;
use jportal_flow::{Entry, Event, EventKind, Exclude, Exit, Frame};
use jportal_units::{Bci, MethodId};

use super::code::{Code, Parts};
use super::planes::{Table, Throw, plane};
use crate::hidden::Follower;

/// The counts of one thread.
#[derive(Debug, Default)]
pub(crate) struct ExecutionCounter {
    pub(crate) table: Table,
    pub(crate) follower: Follower,
    /// The last bytecode, a branch, and its plane. The first bytecode of the next event says
    /// which way it took.
    branch: Option<(MethodId, Bci, usize)>,
    /// The depths of frames whose position is unknown, ascending: after an unresolved stretch or a
    /// gap, and before the next bytecode.
    adrift: Vec<usize>,
    /// The last bytecode of a compiled frame that the interpreter continues.
    resumed: Option<(MethodId, Bci)>,
}

impl ExecutionCounter {
    /// Counts the next event, unless its provenance is excluded.
    pub(crate) fn event(&mut self, code: &Code, event: &Event, exclude: Exclude) {
        let kind = &event.kind;
        // Neither time, whatever its provenance, nor a step of code separates a branch from its
        // successor.
        if matches!(kind, EventKind::Time(_) | EventKind::Code(_)) {
            return;
        }
        let (top, depth) = (self.follower.stack().top(), self.follower.stack().depth());
        self.follower.event((&code.methods, &code.shapes), event, exclude);
        let resumed = self.resumed.take();
        if exclude.hides(event.provenance) {
            self.branch = None;
        } else {
            self.count(code, kind, plane(event.provenance), (top, depth), resumed);
        }
        self.drift(kind, depth);
    }
    fn count(
        &mut self,
        code: &Code,
        kind: &EventKind,
        plane: usize,
        (top, depth): (Option<Frame>, usize),
        resumed: Option<(MethodId, Bci)>,
    ) {
        match *kind {
            EventKind::Bytecode { method, bci, .. } => {
                self.repeated(code, resumed, (method, bci));
                self.run(code, method, (bci, bci), plane, top);
            }
            EventKind::Run { method, first, last, .. } => {
                self.repeated(code, resumed, (method, first));
                self.run(code, method, (first, last), plane, top);
            }
            // The activation continues. OSR may come between a loop's branch and its target.
            EventKind::Leave { exit: Exit::Replaced, .. } => {
                self.resumed = top.and_then(|frame| Some((frame.method, frame.bci?)));
            }
            EventKind::Enter { entry: Entry::Osr, .. } => {}
            EventKind::Enter { entry: Entry::Deoptimisation, method, .. } => {
                self.resumed = resumed.filter(|(m, _)| *m == method);
            }
            EventKind::Enter { method, entry, .. } => {
                self.branch = None;
                self.enter(code, method, entry, plane);
            }
            EventKind::Leave { method, exit } => {
                self.branch = None;
                if exit == Exit::Unwind {
                    self.unwind(code, method, plane, (top, depth));
                }
            }
            EventKind::Catch { method, bci } => {
                self.branch = None;
                self.caught(code, (method, bci), plane, (top, depth));
            }
            EventKind::Unresolved { .. } | EventKind::Orphan(_) | EventKind::Gap(_) => self.branch = None,
            EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
    fn run(
        &mut self,
        code: &Code,
        method: MethodId,
        (first, last): (Bci, Bci),
        plane: usize,
        top: Option<Frame>,
    ) {
        let branch = self.branch.take().filter(|(m, ..)| *m == method);
        let Some(parts) = code.parts(method) else { return };
        let Some(counts) = self.table.of(code, method) else { return };
        counts.run(plane, &parts, (first, last));
        if let Some((_, from, known)) = branch {
            // The provenance of a way is the less certain one of its two ends.
            counts.way(plane.max(known), &parts, from, first);
        }
        if enters_line(&parts, top.filter(|frame| frame.method == method), first) {
            counts.entered(plane, &parts, first);
        }
        if matches!(parts.transfer(last), Some(Transfer::If | Transfer::Switch)) {
            self.branch = Some((method, last, plane));
        }
    }
    fn enter(&mut self, code: &Code, method: MethodId, entry: Entry, plane: usize) {
        let Some(counts) = self.table.of(code, method) else { return };
        let entries = &mut counts.entries;
        let count = if entry == Entry::Found { &mut entries.found } else { &mut entries.calls };
        super::planes::tally_in(count, plane, 1);
    }
    fn unwind(&mut self, code: &Code, method: MethodId, plane: usize, (top, depth): (Option<Frame>, usize)) {
        let has_code = code.methods.get(method).is_some_and(|m| !m.code.is_empty());
        let Some(frame) = top.filter(|frame| frame.method == method && has_code) else { return };
        let from = frame.bci.filter(|_| !self.is_adrift(depth));
        if frame.bci.is_none() && !frame.found && !self.is_adrift(depth) {
            if let Some(counts) = self.table.of(code, method) {
                super::planes::tally_in(&mut counts.entries.unstarted, plane, 1);
            }
            return;
        }
        self.throw(method, Throw { from, to: None }, plane);
    }
    fn caught(
        &mut self,
        code: &Code,
        (method, bci): (MethodId, Bci),
        plane: usize,
        (top, depth): (Option<Frame>, usize),
    ) {
        let frame = top.filter(|frame| frame.method == method);
        let from = frame.and_then(|frame| frame.bci).filter(|_| !self.is_adrift(depth));
        self.throw(method, Throw { from, to: Some(bci) }, plane);
        // The bytecode at the handler comes next, and then the frame is at the handler already.
        if let Some(parts) = code.parts(method)
            && enters_line(&parts, frame, bci)
            && let Some(counts) = self.table.of(code, method)
        {
            counts.entered(plane, &parts, bci);
        }
    }
    fn throw(&mut self, method: MethodId, way: Throw, plane: usize) {
        super::planes::tally_in(self.table.throws.entry((method, way)).or_default(), plane, 1);
    }
    /// Counts a bytecode that a deoptimised frame executed last and executes first. One whose
    /// successor may be itself is not suspicious.
    fn repeated(&mut self, code: &Code, resumed: Option<(MethodId, Bci)>, next: (MethodId, Bci)) {
        if resumed != Some(next) {
            return;
        }
        let transfer = code.parts(next.0).and_then(|parts| parts.transfer(next.1));
        let may_follow_itself = matches!(transfer, Some(Transfer::If | Transfer::Goto | Transfer::Switch));
        self.table.repeated += u64::from(!may_follow_itself);
    }
    fn is_adrift(&self, depth: usize) -> bool {
        self.adrift.last() == Some(&depth)
    }
    /// Follows which frames have an unknown position. `depth`: of the frames before the event.
    fn drift(&mut self, kind: &EventKind, depth: usize) {
        match kind {
            EventKind::Unresolved { .. } => self.set_adrift(depth),
            EventKind::Gap(gap) if gap.stack_lost => self.adrift.clear(),
            EventKind::Gap(_) => self.set_adrift(depth),
            EventKind::Bytecode { .. } | EventKind::Run { .. } | EventKind::Catch { .. } => {
                self.adrift.pop_if(|last| *last >= depth);
            }
            // The caller is at its invoke. A frame that is replaced keeps its depth.
            EventKind::Leave { exit, .. } if *exit != Exit::Replaced => {
                while self.adrift.pop_if(|last| *last >= depth).is_some() {}
            }
            _ => {}
        }
    }
    fn set_adrift(&mut self, depth: usize) {
        if self.adrift.last().is_none_or(|last| *last < depth) {
            self.adrift.push(depth);
        }
    }
}

/// Whether a frame that was at its last bytecode comes from another line when it reaches `to`. A
/// frame whose beginning was not seen has no last bytecode, and may have been on the same line.
fn enters_line(parts: &Parts<'_>, frame: Option<Frame>, to: Bci) -> bool {
    match frame {
        Some(Frame { bci: Some(from), .. }) => parts.lines.number(from) != parts.lines.number(to),
        Some(frame) => !frame.found,
        None => false,
    }
}
