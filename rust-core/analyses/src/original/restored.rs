// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Passes on the flow of the original methods.

use std::sync::Arc;

use jportal_flow::{Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::{Bci, MethodId};

use super::{CodePlace, OriginalMethods};

/// Accepts the flow of changed methods in place of a consumer that wants that of the original ones.
pub struct Restored<'c> {
    original: Arc<OriginalMethods>,
    to: &'c mut dyn FlowConsumer,
}

impl std::fmt::Debug for Restored<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restored").finish_non_exhaustive()
    }
}

impl<'c> Restored<'c> {
    /// An adapter that passes the flows of `original` on to `to`.
    pub fn new(original: Arc<OriginalMethods>, to: &'c mut dyn FlowConsumer) -> Self {
        Self { original, to }
    }
}

impl FlowConsumer for Restored<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(RestoringSink {
            original: Arc::clone(&self.original),
            to: self.to.thread(info),
            frames: Vec::new(),
            replaced: Vec::new(),
            beyond: 0,
            out: Vec::new(),
        })
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

/// A frame of the changed flow.
#[derive(Clone, Copy)]
struct ChangedFrame {
    method: MethodId,
    /// It is the agent's, or was called by the agent.
    hidden: bool,
    /// It stands at an added instruction.
    added: bool,
    /// Last original bytecode.
    last: Option<Bci>,
    /// An exception was caught by added instructions, which lead to the original handler or throw
    /// it again.
    caught: bool,
}

/// Frames beyond this number count as frames like the last one.
const MAX_DEPTH: usize = 1 << 20;

struct RestoringSink {
    original: Arc<OriginalMethods>,
    to: Box<dyn FlowSink + Send>,
    frames: Vec<ChangedFrame>,
    /// Frames that continue as another kind of frame, innermost first.
    replaced: Vec<ChangedFrame>,
    beyond: u64,
    out: Vec<Event>,
}

impl FlowSink for RestoringSink {
    fn events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.event(event));
        self.to.take(&mut self.out);
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
    fn end(self: Box<Self>) {
        self.to.end();
    }
}

impl RestoringSink {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Enter { method, entry, .. } => {
                if self.enter(method, entry) {
                    self.out.push(event.clone());
                }
            }
            EventKind::Leave { method, exit } => {
                if self.leave(method, exit) {
                    self.out.push(event.clone());
                }
            }
            EventKind::Bytecode { method, bci, tier } => {
                self.at(event, method, bci, |method, bci| EventKind::Bytecode { method, bci, tier })
            }
            EventKind::Catch { method, bci } => {
                let place = self.original.place(method, bci);
                let frame = self.top(method);
                match place {
                    _ if frame.hidden => {}
                    CodePlace::Original(bci) => {
                        (frame.added, frame.caught) = (false, false);
                        self.out.push(Event { kind: EventKind::Catch { method, bci }, ..event.clone() });
                    }
                    CodePlace::Added(_) => (frame.added, frame.caught) = (true, true),
                }
            }
            EventKind::Unresolved { method, from, to, cause, callers } => {
                let to_place = to.map(|to| self.original.place(method, to));
                let from_place = from.map(|from| self.original.place(method, from));
                let frame = self.top(method);
                if frame.hidden {
                    return;
                }
                let from = match from_place {
                    Some(CodePlace::Original(bci)) => Some(bci),
                    Some(CodePlace::Added(_)) => frame.last,
                    None => None,
                };
                let to = match to_place {
                    Some(CodePlace::Original(bci)) => Some(bci),
                    Some(CodePlace::Added(next)) => next,
                    None => None,
                };
                let kind = EventKind::Unresolved { method, from, to, cause, callers };
                self.out.push(Event { kind, ..event.clone() });
            }
            EventKind::Run { .. } | EventKind::Orphan(_) | EventKind::Code(_) => {
                if self.frames.last().is_none_or(|top| !top.hidden) {
                    self.out.push(event.clone());
                }
            }
            EventKind::Time(_) => self.out.push(event.clone()),
            EventKind::Gap(ref gap) => {
                if gap.stack_lost {
                    self.frames.clear();
                    self.replaced.clear();
                    self.beyond = 0;
                }
                self.out.push(event.clone());
            }
        }
    }
    /// A bytecode. An exception that added instructions passed on has arrived at its handler.
    fn at(
        &mut self,
        event: &Event,
        method: MethodId,
        bci: Bci,
        kind: impl FnOnce(MethodId, Bci) -> EventKind,
    ) {
        let place = self.original.place(method, bci);
        let frame = self.top(method);
        match place {
            _ if frame.hidden => {}
            CodePlace::Added(_) => frame.added = true,
            CodePlace::Original(bci) => {
                frame.added = false;
                frame.last = Some(bci);
                if std::mem::take(&mut frame.caught) {
                    self.out.push(Event { kind: EventKind::Catch { method, bci }, ..event.clone() });
                }
                self.out.push(Event { kind: kind(method, bci), ..event.clone() });
            }
        }
    }
    /// The top frame. If none is known, it is one of `method`.
    fn top(&mut self, method: MethodId) -> &mut ChangedFrame {
        if self.frames.is_empty() {
            let hidden = self.original.hides(method);
            self.frames.push(ChangedFrame { method, hidden, added: false, last: None, caught: false });
        }
        self.frames.last_mut().expect("a frame was pushed")
    }
    /// A frame begins. Returns whether it is shown.
    fn enter(&mut self, method: MethodId, entry: Entry) -> bool {
        let kept = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|f| f.method == method),
            Entry::Call | Entry::Upcall | Entry::Found => None,
        };
        if kept.is_none() {
            self.replaced.clear();
        }
        let by_agent = self.frames.last().is_some_and(|caller| caller.hidden || caller.added);
        let hidden = by_agent || self.original.hides(method);
        let frame = kept.unwrap_or(ChangedFrame { method, hidden, added: false, last: None, caught: false });
        if self.frames.len() < MAX_DEPTH {
            self.frames.push(frame);
        } else {
            self.beyond += 1;
        }
        !frame.hidden
    }
    /// The top frame ends. Returns whether it was shown.
    fn leave(&mut self, method: MethodId, exit: Exit) -> bool {
        if self.beyond > 0 {
            self.beyond -= 1;
            return self.frames.last().is_none_or(|top| !top.hidden);
        }
        let frame = self.frames.pop();
        match exit {
            Exit::Replaced => self.replaced.extend(frame),
            _ => self.replaced.clear(),
        }
        !frame.map_or_else(|| self.original.hides(method), |frame| frame.hidden)
    }
}
