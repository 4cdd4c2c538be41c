// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The timeline of one thread.

use std::io;

use jportal_flow::{Entry, Event, EventKind, Exit, Gap, Provenance, ThreadInfo, Tier};
use jportal_units::{MethodId, Tsc};

use super::{Load, Lost, Shown, Slice, SliceEnd, ThreadTimeline, TimelineContext, TimelineSink};
use crate::hidden::{Follower, Inexact};

/// An activation on the stack.
#[derive(Clone, Copy, Debug)]
struct OpenActivation {
    method: MethodId,
    first: Tier,
    tier: Tier,
    entry: Entry,
    line: Option<u16>,
    /// Last time before its beginning; `None` before the first time.
    begin: Option<u64>,
    inferred: bool,
    /// Neither shown nor counted.
    hidden: bool,
    /// The sink has its beginning.
    begun: bool,
}

/// The state of one thread.
pub struct TimelineThread {
    info: ThreadInfo,
    /// `None` if the thread is not wanted, or an error occurred.
    sink: Option<Box<dyn TimelineSink>>,
    follower: Follower,
    /// From the bottom up, as far as the greatest depth.
    open: Vec<OpenActivation>,
    /// The number of frames from the bottom up of which the sink has the beginning.
    begun: usize,
    /// Frames deeper than that.
    beyond: u64,
    /// Popped activations that continue as another kind of frame.
    replaced: Vec<OpenActivation>,
    now: Option<u64>,
    /// Bytecodes by tier since that time.
    load: ([u64; 3], u64),
    /// The last figures were not all zero.
    loaded: bool,
    shown: Shown,
}

impl std::fmt::Debug for TimelineThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimelineThread").field("info", &self.info).finish_non_exhaustive()
    }
}

impl TimelineThread {
    pub(super) fn new(info: &ThreadInfo, sink: Option<Box<dyn TimelineSink>>) -> Self {
        Self {
            info: info.clone(),
            sink,
            follower: Follower::default(),
            open: Vec::new(),
            begun: 0,
            beyond: 0,
            replaced: Vec::new(),
            now: None,
            load: ([0; 3], 0),
            loaded: false,
            shown: Shown::default(),
        }
    }
    pub(super) const fn is_stopped(&self) -> bool {
        self.sink.is_none()
    }
    /// Passes something to the sink. After an error there is no sink.
    fn pass(&mut self, s: &TimelineContext, what: impl FnOnce(&mut dyn TimelineSink) -> io::Result<()>) {
        if let Some(sink) = &mut self.sink
            && let Err(e) = what(&mut **sink)
        {
            s.fail(e);
            self.sink = None;
        }
    }
    pub(super) fn event(&mut self, s: &TimelineContext, e: &Event) {
        match &e.kind {
            EventKind::Time(tsc) => return self.time(s, tsc.get()),
            EventKind::Enter { method, tier, entry } => self.enter(s, *method, *tier, *entry, e.provenance),
            EventKind::Leave { method, exit } if !s.labels.is_outside(*method) => self.leave(s, *exit),
            EventKind::Bytecode { method, tier, .. } | EventKind::Run { method, tier, .. } => {
                if self.open.is_empty() && !s.labels.is_outside(*method) {
                    self.enter(s, *method, *tier, Entry::Found, e.provenance);
                }
                if !s.exclude.hides(e.provenance)
                    && !s.labels.is_outside(*method)
                    && let Some(count) = self.load.0.get_mut(*tier as usize)
                {
                    *count += e.kind.bytecodes();
                }
            }
            EventKind::Gap(gap) => self.gap(s, gap),
            _ => {}
        }
        self.follower.event((&s.labels.methods, &s.shapes), e, s.exclude);
    }
    fn time(&mut self, s: &TimelineContext, time: u64) {
        if self.now.is_none() {
            // Frames that began before the first time begin with it.
            self.open.iter_mut().for_each(|o| o.begin = Some(time));
            self.load.1 = time;
        }
        let time = self.now.map_or(time, |now| now.max(time));
        self.now = Some(time);
        self.begin_until(s, time);
        if let Some(step) = s.limits.load
            && time - self.load.1 >= step.max(1)
        {
            self.pass_load(s, time);
        }
    }
    fn pass_load(&mut self, s: &TimelineContext, until: u64) {
        let (bytecodes, since) = std::mem::replace(&mut self.load, ([0; 3], until));
        let any = bytecodes != [0; 3];
        if any || self.loaded {
            self.loaded = any;
            let [since, until] = [since, until].map(Tsc);
            self.pass(s, |sink| sink.load(&Load { since, until, bytecodes }));
        }
    }
    /// Passes the beginnings of the slices that are long enough at `time`.
    fn begin_until(&mut self, s: &TimelineContext, time: u64) {
        let long = |o: &OpenActivation| o.begin.is_some_and(|b| time - b >= s.limits.min);
        let count = self.open[self.begun..].iter().take_while(|o| long(o)).count();
        self.begin_all(s, self.begun + count);
    }
    /// Passes the beginnings of the lowest `to` frames.
    fn begin_all(&mut self, s: &TimelineContext, to: usize) {
        for depth in self.begun..to {
            let Some(own) = self.open.get_mut(depth) else { break };
            own.begun = true;
            let own = *own;
            if own.hidden {
                continue;
            }
            self.shown.slices += 1;
            self.shown.open += u64::from(own.entry == Entry::Found);
            let slice = Slice {
                method: own.method,
                name: s.labels.name(own.method),
                source: s.labels.source(own.method),
                tier: own.first,
                entry: own.entry,
                depth: depth as u32,
                line: own.line,
                begin: Tsc(own.begin.or(self.now).unwrap_or(0)),
                inferred: own.inferred,
            };
            self.pass(s, |sink| sink.begin(&slice));
        }
        self.begun = self.begun.max(to);
    }
    fn enter(
        &mut self,
        s: &TimelineContext,
        method: MethodId,
        tier: Tier,
        entry: Entry,
        provenance: Provenance,
    ) {
        let continues = matches!(entry, Entry::Osr | Entry::Deoptimisation);
        if s.labels.is_outside(method) {
            self.shown.outside += u64::from(!continues && !s.exclude.hides(provenance));
            return;
        }
        if self.open.len() == s.limits.depth as usize {
            self.beyond += 1;
            self.shown.deep += u64::from(!continues && !s.exclude.hides(provenance));
            return;
        }
        if continues && let Some(own) = self.replaced.pop_if(|o| o.method == method) {
            self.begun += usize::from(own.begun);
            return self.open.push(OpenActivation { tier, ..own });
        }
        self.drop_replaced(s);
        let mut callers = self.follower.stack().frames().filter(|f| !s.labels.is_outside(f.method));
        let caller = callers.next().filter(|_| matches!(entry, Entry::Call));
        let line = caller.and_then(|f| s.labels.methods.get(f.method)?.line_at(f.bci?));
        self.open.push(OpenActivation {
            method,
            first: tier,
            tier,
            entry: if continues { Entry::Found } else { entry },
            line,
            begin: self.now,
            inferred: provenance != Provenance::Decoded,
            hidden: s.exclude.hides(provenance),
            begun: false,
        });
    }
    fn leave(&mut self, s: &TimelineContext, exit: Exit) {
        if exit != Exit::Replaced {
            self.drop_replaced(s);
        }
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        self.begin_if_long(s);
        let Some(own) = self.open.pop() else { return };
        self.begun = self.begun.min(self.open.len());
        match exit {
            Exit::Replaced => self.replaced.push(own),
            _ => self.ended(s, own, Some(exit)),
        }
    }
    /// The top frame ends now. Passes its beginning if it is long enough without a time that says
    /// so: the least length is 0, or there is no time yet.
    fn begin_if_long(&mut self, s: &TimelineContext) {
        let now = self.now.unwrap_or(0);
        let long = |o: &OpenActivation| now - o.begin.unwrap_or(now) >= s.limits.min;
        if self.open.last().is_some_and(long) {
            self.begin_all(s, self.open.len());
        }
    }
    fn ended(&mut self, s: &TimelineContext, own: OpenActivation, exit: Option<Exit>) {
        if own.hidden {
            return;
        }
        if !own.begun {
            self.shown.short += 1;
            return;
        }
        let seen = !matches!(exit, None | Some(Exit::Lost));
        self.shown.open += u64::from(!seen && own.entry != Entry::Found);
        let end = SliceEnd { end: Tsc(self.now.unwrap_or(0)), exit, tier: own.tier };
        self.pass(s, |sink| sink.end(&end));
    }
    /// Activations that should have continued and did not.
    fn drop_replaced(&mut self, s: &TimelineContext) {
        for own in std::mem::take(&mut self.replaced) {
            self.ended(s, own, None);
        }
    }
    fn gap(&mut self, s: &TimelineContext, gap: &Gap) {
        let now = self.now.unwrap_or(0);
        let since = gap.since.map_or(now, Tsc::get).max(now);
        let until = gap.until.map(|t| Tsc(t.get().max(since)));
        self.drop_replaced(s);
        if self.now.is_some() || gap.since.is_some() {
            self.time(s, since);
        }
        if gap.stack_lost {
            self.end_all(s);
        } else {
            // The gap lies on the slices below, so their beginnings come first.
            self.begin_all(s, self.open.len());
        }
        self.shown.gaps += 1;
        if !s.exclude.lost {
            let (reason, bytes) = (gap.reason.name(), gap.bytes);
            self.pass(s, |sink| sink.lost(&Lost { since: Tsc(since), until, reason, bytes }));
        }
        if let Some(until) = until {
            self.time(s, until.get());
        }
    }
    fn end_all(&mut self, s: &TimelineContext) {
        self.beyond = 0;
        while !self.open.is_empty() {
            self.begin_if_long(s);
            let own = self.open.pop();
            self.begun = self.begun.min(self.open.len());
            own.into_iter().for_each(|own| self.ended(s, own, None));
        }
    }
    /// The flow has ended.
    pub(super) fn end(mut self, s: &TimelineContext) -> Option<(ThreadTimeline, Inexact)> {
        self.drop_replaced(s);
        self.end_all(s);
        if let (Some(now), Some(_)) = (self.now, s.limits.load) {
            self.pass_load(s, now);
        }
        self.pass(s, |sink| sink.finish());
        self.sink?;
        let inexact = self.follower.end().inexact;
        let exact = !inexact.is_lossy() && inexact.stretches() == 0;
        let own = ThreadTimeline {
            tid: self.info.tid.get(),
            name: self.info.name.clone(),
            started: self.info.started.get(),
            exact,
            shown: self.shown,
        };
        Some((own, inexact))
    }
}
