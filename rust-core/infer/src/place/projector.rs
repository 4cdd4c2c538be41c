// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The consumer that places orphans and passes the flow on to another consumer.

use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Drain;

use jportal_bytecode::{Icfg, MethodTable, Node, SharedIcfg, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::MethodId;

use crate::place::emit::{Frames, depth_after, emit, leave_all};
use crate::place::known::KnownFits;
use crate::place::placement::{GraphSource, PlacementSettings, Placer, StretchPart};
use crate::place::stretch::{OrphanStretch, Taken};
use crate::place::summary::Summary;

/// Passes flows on with their orphans placed.
pub struct Projector<'c> {
    placer: Arc<Placer>,
    summary: Arc<Mutex<Summary>>,
    to: &'c mut dyn FlowConsumer,
}

impl<'c> Projector<'c> {
    /// Places orphans in `methods`, those of the recording, and passes the flows to `to`.
    pub fn new(methods: Arc<MethodTable>, settings: PlacementSettings, to: &'c mut dyn FlowConsumer) -> Self {
        Self::of(GraphSource::Methods(methods), settings, to)
    }
    /// The same with a graph of the methods, which is not awaited before the first orphan.
    pub fn on(icfg: SharedIcfg, settings: PlacementSettings, to: &'c mut dyn FlowConsumer) -> Self {
        Self::of(GraphSource::Graph(icfg), settings, to)
    }
    fn of(source: GraphSource, settings: PlacementSettings, to: &'c mut dyn FlowConsumer) -> Self {
        Self { placer: Arc::new(Placer::new(source, settings)), summary: Arc::default(), to }
    }
    /// The results for the threads that have ended.
    pub fn summary(&self) -> Summary {
        *self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Projector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projector").field("settings", self.placer.settings()).finish_non_exhaustive()
    }
}

impl FlowConsumer for Projector<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        Box::new(Sink {
            placer: Arc::clone(&self.placer),
            known: KnownFits::default(),
            summary: Summary::default(),
            total: Arc::clone(&self.summary),
            to: self.to.thread(info),
            out: Vec::new(),
            stretch: None,
            landing: Vec::new(),
            frames: Frames::new(),
            certain: false,
            throws: false,
            depth: 0,
            upcall: false,
            after: None,
        })
    }
    fn takes_runs(&self) -> bool {
        self.to.takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

/// Takes the flow of one thread.
struct Sink {
    placer: Arc<Placer>,
    known: KnownFits,
    summary: Summary,
    total: Arc<Mutex<Summary>>,
    to: Box<dyn FlowSink + Send>,
    out: Vec<Event>,
    stretch: Option<OrphanStretch>,
    /// The frames found after a stretch that ends in a return, held back until the bytecode
    /// that was returned to.
    landing: Vec<Event>,
    /// The frames that placed bytecodes have led to; they are below all frames that the flow
    /// reports.
    frames: Frames,
    /// Whether only one position fits for the top one of these frames.
    certain: bool,
    /// Whether an exception is unwinding these frames.
    throws: bool,
    /// The number of frames that the flow reports.
    depth: usize,
    /// Whether the VM called the lowest of the reported frames.
    upcall: bool,
    /// The method of the last reported frame, if that returned and the VM had not called it.
    after: Option<MethodId>,
}

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        self.take(&mut events.to_vec());
    }
    fn take(&mut self, events: &mut Vec<Event>) {
        let followed = self.go_by(events);
        if followed == events.len() && self.stretch.is_none() {
            return self.to.take(events);
        }
        self.several(followed, events.drain(..));
        self.hand_on();
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
    fn end(mut self: Box<Self>) {
        self.landed();
        self.give_up(Exit::Lost);
        self.hand_on();
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&self.summary);
        self.to.end();
    }
}

impl Sink {
    /// The number of leading events that need no action: they are passed on unchanged or,
    /// inside a visit, held back. These events have been followed on return.
    fn go_by(&mut self, events: &[Event]) -> usize {
        if !self.landing.is_empty() {
            return 0;
        }
        if let Some(stretch) = &mut self.stretch {
            return stretch.go_by(events, self.placer.settings().buffered);
        }
        let touched = events.iter().position(|event| {
            let touched = self.touches(&event.kind);
            if !touched {
                self.follow(&event.kind);
            }
            touched
        });
        touched.unwrap_or(events.len())
    }
    /// Takes the next events, the first of which have been [followed](Self::go_by).
    fn several(&mut self, mut followed: usize, mut events: Drain<'_, Event>) {
        while !events.as_slice().is_empty() {
            let held = self.stretch.as_mut().map_or(&mut self.out, |stretch| &mut stretch.events);
            held.extend(events.by_ref().take(followed));
            events.next().into_iter().for_each(|event| self.event(event));
            followed = self.go_by(events.as_slice());
        }
    }
    fn hand_on(&mut self) {
        if !self.out.is_empty() {
            self.to.take(&mut self.out);
        }
    }
    fn event(&mut self, mut event: Event) {
        if !self.landing.is_empty() {
            return self.land(event);
        }
        if let Some(stretch) = &mut self.stretch {
            let Taken::Behind(behind) = stretch.take(event) else {
                if stretch.size >= self.placer.settings().buffered {
                    self.close();
                }
                return;
            };
            event = behind;
            if stretch.returns() && matches!(event.kind, EventKind::Enter { entry: Entry::Found, .. }) {
                return self.landing.push(event);
            }
            self.close();
        }
        self.pass(event);
    }
    /// Takes the next event after a return to frames that are found.
    fn land(&mut self, event: Event) {
        let known = match event.kind {
            EventKind::Enter { entry: Entry::Found, .. } | EventKind::Time(_) | EventKind::Code(_) => {
                return self.landing.push(event);
            }
            ref kind => kind.executed().map(|(method, first, _)| (method, first)),
        };
        if let (Some(stretch), Some((method, bci))) = (&mut self.stretch, known) {
            let icfg = self.placer.icfg();
            stretch.ends.into = icfg.node_at(method, bci).and_then(|n| returned_to(icfg, n));
        }
        self.landed();
        self.pass(event);
    }
    /// Ends the stretch, and passes on the events that were held back after it.
    fn landed(&mut self) {
        self.close();
        for landed in std::mem::take(&mut self.landing) {
            self.pass(landed);
        }
    }
    /// Ends the stretch and places its bytecodes.
    fn close(&mut self) {
        let Some(mut stretch) = self.stretch.take() else { return };
        let icfg = self.placer.icfg();
        let called = |n: &&Node| {
            self.certain && stretch.ends.after.is_some() && icfg.opcode(**n).transfer() == Transfer::Invoke
        };
        let site = self.frames.last().map(|f| &f.0).filter(called);
        let anchor = site.and_then(|n| icfg.edges(*n).next()).map(|(_, to)| to);
        let parts = self.placer.place(&stretch, anchor, &mut self.known, &mut self.summary);
        emit(icfg, &mut stretch, &parts, &mut self.frames, &mut self.out);
        self.certain = parts.last().is_some_and(StretchPart::ends_certain);
        (self.depth, self.upcall) = stretch.above();
        self.throws = stretch.throws();
    }
    fn give_up(&mut self, exit: Exit) {
        if !self.frames.is_empty() {
            leave_all(self.placer.icfg(), &mut self.frames, exit, &mut self.out);
        }
    }
    /// Whether an event outside a stretch needs more than to be followed.
    fn touches(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Orphan(_) => self.depth == 0,
            EventKind::Enter { entry: Entry::Found, .. } => self.depth == 0 && !self.frames.is_empty(),
            EventKind::Gap(_) => !self.frames.is_empty(),
            _ => false,
        }
    }
    /// Takes an event outside a stretch: an orphan begins one, other events are passed on.
    fn pass(&mut self, mut event: Event) {
        if matches!(event.kind, EventKind::Orphan(_)) && self.depth == 0 {
            let mut stretch = OrphanStretch::new(self.after.take());
            // An orphan always belongs to a new stretch.
            stretch.take(event);
            self.stretch = Some(stretch);
            return;
        }
        match &mut event.kind {
            EventKind::Gap(_) => self.give_up(Exit::Lost),
            EventKind::Enter { method, entry, .. } if self.depth == 0 && *entry == Entry::Found => {
                if self.continues_in(*method) {
                    *entry = Entry::Osr;
                    self.give_up(Exit::Replaced);
                }
                self.give_up(if self.throws { Exit::Unwind } else { Exit::Lost });
            }
            _ => {}
        }
        self.follow(&event.kind);
        self.out.push(event);
    }
    /// Whether the only frame left is one of `method` at a branch, where on-stack replacement
    /// may happen.
    fn continues_in(&self, method: MethodId) -> bool {
        let [(node, _)] = self.frames[..] else { return false };
        let icfg = self.placer.icfg();
        let jumps = matches!(icfg.opcode(node).transfer(), Transfer::Goto | Transfer::If);
        jumps && icfg.method(node) == method
    }
    /// Counts the frames that the flow reports.
    fn follow(&mut self, kind: &EventKind) {
        let before = self.depth;
        self.depth = match kind {
            EventKind::Gap(gap) if gap.stack_lost => 0,
            _ => depth_after(before, kind),
        };
        match *kind {
            EventKind::Time(_) | EventKind::Code(_) => return,
            EventKind::Enter { entry, .. } if before == 0 => self.upcall = entry == Entry::Upcall,
            _ => {}
        }
        self.after = match *kind {
            EventKind::Leave { method, exit: Exit::Return | Exit::Unknown | Exit::EarlyReturn }
                if self.depth == 0 =>
            {
                Some(method).filter(|_| !self.upcall)
            }
            _ => None,
        };
    }
}

/// The invoke after which compiled code continues at `node`. The code may have passed `goto`s,
/// which have no machine code. `None` if there are several such invokes.
fn returned_to(icfg: &Icfg, node: Node) -> Option<Node> {
    let (mut reached, mut next) = (vec![node], 0);
    while let Some(&to) = reached.get(next) {
        next += 1;
        let gotos = icfg.jumps_to(to).filter(|n| icfg.opcode(*n).transfer() == Transfer::Goto);
        let new: Vec<Node> = gotos.filter(|n| !reached.contains(n)).collect();
        reached.extend(new);
    }
    let mut sites = reached.iter().filter_map(|n| icfg.site_before(*n));
    sites.next().filter(|_| sites.next().is_none())
}
