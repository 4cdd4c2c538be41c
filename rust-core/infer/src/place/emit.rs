// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Turns a stretch and the places of its bytecodes into events.

use crate::Outcome;
use jportal_bytecode::{EdgeKind, Icfg, Node, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, Orphan, Provenance, Tier};
use jportal_units::MethodId;

use crate::place::placement::StretchPart;
use crate::place::stretch::{Bytecode, OrphanStretch};

/// The frames that placed bytecodes have led to, outermost first: the position of each, and its
/// provenance.
pub(crate) type Frames = Vec<(Node, Provenance)>;

/// Gives up all `frames`.
pub(crate) fn leave_all(icfg: &Icfg, frames: &mut Frames, exit: Exit, out: &mut Vec<Event>) {
    while let Some((node, provenance)) = frames.pop() {
        out.push(Event { kind: EventKind::Leave { method: icfg.method(node), exit }, provenance });
    }
}

/// Appends the events of `stretch` to `out` and removes them from it; `parts` has the places of
/// its bytecodes. On entry, `frames` are those that an earlier stretch led to; on return, those
/// that this one led to.
pub(crate) fn emit(
    icfg: &Icfg,
    stretch: &mut OrphanStretch,
    parts: &[StretchPart],
    frames: &mut Frames,
    out: &mut Vec<Event>,
) {
    let mut emitter = Emitter { icfg, frames, out, provenance: Provenance::Decoded };
    let (mut parts, mut part) = (parts.iter(), None::<&StretchPart>);
    let mut bytecodes = stretch.bytecodes.iter().enumerate().peekable();
    let mut last: Option<(&Bytecode, bool)> = None;
    let mut depth = 0;
    let (all, mut events) = (stretch.events.len(), std::mem::take(&mut stretch.events).into_iter());
    loop {
        if depth > 0 {
            // Passes on the rest of a visit.
            let ends = events.as_slice().iter().position(|event| {
                depth = depth_after(depth, &event.kind);
                depth == 0
            });
            let len = ends.map_or(events.len(), |last| last + 1);
            emitter.out.extend(events.by_ref().take(len));
        }
        let index = all - events.len();
        let Some(event) = events.next() else { break };
        match event.kind {
            EventKind::Orphan(Orphan::Bytecode { .. }) => {
                let Some((at, bytecode)) = bytecodes.next_if(|(_, b)| b.event == index) else { continue };
                if part.is_none_or(|p| p.bytecodes.end <= at) {
                    part = parts.next();
                }
                let place = part.and_then(|p| p.place.as_ref().map(|place| (place, at - p.bytecodes.start)));
                let begins = part.is_some_and(|p| p.bytecodes.start == at);
                if let Some((place, symbol)) = place {
                    let paths = if place.is_certain(symbol) { 1 } else { place.paths };
                    let paths = u32::try_from(paths).unwrap_or(u32::MAX);
                    emitter.provenance = Provenance::Projected { paths };
                    let before = last.filter(|l| l.1).map(|l| l.0);
                    if begins {
                        emitter.go_on(place.nodes[symbol], before.map(|b| b.outcome));
                    }
                    emitter.bytecode(place.nodes[symbol], bytecode, before.filter(|_| !begins));
                } else {
                    leave_all(icfg, emitter.frames, Exit::Lost, emitter.out);
                    emitter.out.push(event);
                }
                last = Some((bytecode, place.is_some()));
            }
            EventKind::Orphan(Orphan::Throw) if last.is_some_and(|l| l.1) => {}
            EventKind::Orphan(_) => {
                leave_all(icfg, emitter.frames, Exit::Lost, emitter.out);
                emitter.out.push(event);
            }
            EventKind::Enter { method, tier, entry } => {
                depth = 1;
                let called = last.is_some_and(|l| l.1) && entry == Entry::Found;
                let entry = if called { Entry::Call } else { entry };
                let kind = EventKind::Enter { method, tier, entry };
                emitter.out.push(Event { kind, provenance: event.provenance });
            }
            _ => emitter.out.push(event),
        }
    }
}

/// The number of frames after an event. A frame that is replaced by one of another tier counts
/// once.
pub(crate) const fn depth_after(depth: usize, kind: &EventKind) -> usize {
    match kind {
        EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. }
        | EventKind::Leave { exit: Exit::Replaced, .. } => depth,
        EventKind::Enter { .. } => depth + 1,
        EventKind::Leave { .. } => depth.saturating_sub(1),
        _ => depth,
    }
}

struct Emitter<'a> {
    icfg: &'a Icfg,
    frames: &'a mut Frames,
    out: &'a mut Vec<Event>,
    /// The provenance of the current bytecode.
    provenance: Provenance,
}

impl Emitter<'_> {
    fn push(&mut self, kind: EventKind) {
        self.out.push(Event { kind, provenance: self.provenance });
    }
    fn enter(&mut self, node: Node, entry: Entry) {
        self.push(EventKind::Enter { method: self.icfg.method(node), tier: Tier::Interpreter, entry });
        self.frames.push((node, self.provenance));
    }
    fn leave(&mut self, exit: Exit) {
        if let Some((node, _)) = self.frames.pop() {
            self.push(EventKind::Leave { method: self.icfg.method(node), exit });
        }
    }
    fn top(&self) -> Option<MethodId> {
        self.frames.last().map(|f| self.icfg.method(f.0))
    }
    /// Begins a part at `node`: frames that an earlier part led to are given up, unless the top
    /// frame continues at `node`. `outcome` is that of the previous bytecode, if the same
    /// stretch has it.
    fn go_on(&mut self, node: Node, outcome: Option<Outcome>) {
        let admits = |kind| match outcome {
            Some(Outcome::Taken) => kind == EdgeKind::Taken,
            Some(Outcome::NotTaken) => kind == EdgeKind::NotTaken,
            Some(Outcome::Thrown | Outcome::Unwound) => false,
            Some(Outcome::Open | Outcome::Returned) | None => true,
        };
        let leads = |site: Node| self.icfg.edges(site).any(|(kind, to)| to == node && admits(kind));
        if !self.frames.last().is_some_and(|top| leads(top.0)) {
            leave_all(self.icfg, self.frames, Exit::Lost, self.out);
        }
    }
    /// Emits the events for `bytecode`, placed at `node`; `before` is the previous bytecode on
    /// the same path.
    fn bytecode(&mut self, node: Node, bytecode: &Bytecode, before: Option<&Bytecode>) {
        let method = self.icfg.method(node);
        let outcome = before.map(|b| b.outcome);
        if outcome == Some(Outcome::Unwound) {
            self.leave(Exit::Unwind);
            while self.top().is_some_and(|m| m != method) {
                self.leave(Exit::Unwind);
            }
        }
        match self.frames.last().map(|f| f.0) {
            None => self.enter(node, Entry::Found),
            Some(site) if before.is_some() && self.calls(site, outcome, node) => {
                self.enter(node, Entry::Call);
            }
            Some(_) if self.top() != Some(method) => {
                leave_all(self.icfg, self.frames, Exit::Lost, self.out);
                self.enter(node, Entry::Found);
            }
            Some(_) => {}
        }
        let bci = self.icfg.bci(node);
        if matches!(outcome, Some(Outcome::Thrown | Outcome::Unwound)) {
            self.push(EventKind::Catch { method, bci });
        }
        self.push(EventKind::Bytecode { method, bci, tier: Tier::Interpreter });
        if let Some(top) = self.frames.last_mut() {
            *top = (node, self.provenance);
        }
        if bytecode.opcode.transfer() == Transfer::Return && bytecode.outcome == Outcome::Open {
            self.leave(Exit::Return);
        }
    }
    /// Whether the invoke at `site` called `node`, the next instruction.
    fn calls(&self, site: Node, outcome: Option<Outcome>, node: Node) -> bool {
        self.icfg.opcode(site).transfer() == Transfer::Invoke
            && outcome == Some(Outcome::Open)
            && self.icfg.site_before(node) != Some(site)
    }
}
