// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Measures the activations of one thread.

use hashbrown::HashMap;
use jportal_flow::{Entry, Event, EventKind, Exit, Provenance, ThreadInfo};
use jportal_units::{MethodId, Tsc};

use super::LatencyAnalysis;
use super::figures::{ActivationFigures, Slow, Slowest};
use crate::execution::OnCore;
use crate::hidden::{Follower, Hidden};

/// A chosen activation on the stack.
#[derive(Clone, Copy, Debug)]
struct ChosenActivation {
    method: MethodId,
    /// Number of frames on the stack, including this one.
    depth: u64,
    /// Last time before its beginning; `None` before the first time.
    begin: Option<u64>,
    /// First time after its beginning, once it is known.
    begun: Option<u64>,
    /// Ticks on cores up to `begin`.
    on_core: u64,
    /// Its beginning is not decoded.
    inferred: bool,
    /// It cannot be measured. It is counted as `found` already, or as `cut` when it ends.
    found: bool,
    cut: bool,
    /// An activation of the same method is below.
    nested: bool,
}

/// The state of one thread.
pub struct Stopwatch {
    follower: Follower,
    depth: u64,
    open: Vec<ChosenActivation>,
    /// Activations from this index on began after the last time.
    fresh: usize,
    /// Popped activations that continue as another kind of frame.
    replaced: Vec<ChosenActivation>,
    now: Option<u64>,
    clock: Option<(OnCore, ThreadInfo)>,
    /// Ticks on cores up to `now`, once they were needed.
    on_core: Option<u64>,
    /// Methods of which an activation ended after the last time.
    ended: Vec<MethodId>,
    figures: HashMap<MethodId, ActivationFigures>,
    slowest: Slowest,
    /// Some of the slowest have no upper limit yet.
    unlimited: bool,
}

impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stopwatch").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Stopwatch {
    pub(super) fn new(slowest: Slowest, clock: Option<(OnCore, ThreadInfo)>) -> Self {
        Self {
            follower: Follower::default(),
            depth: 0,
            open: Vec::new(),
            fresh: 0,
            replaced: Vec::new(),
            now: None,
            clock,
            on_core: None,
            ended: Vec::new(),
            figures: HashMap::new(),
            slowest,
            unlimited: false,
        }
    }
    pub(super) fn event(&mut self, to: &LatencyAnalysis, e: &Event) {
        match &e.kind {
            EventKind::Time(tsc) => return self.time(tsc.get()),
            EventKind::Enter { method, entry, .. } => {
                self.depth += 1;
                let hidden = to.exclude.hides(e.provenance);
                let known = (e.provenance, hidden);
                self.enter(*method, *entry, known, to.is_chosen(*method));
            }
            EventKind::Leave { exit, .. } => self.leave(*exit, e.provenance),
            EventKind::Gap(gap) => self.gap(gap.stack_lost),
            EventKind::Unresolved { callers, .. } if *callers > 0 => {
                // The lowest of the frames does not end in the lost loop.
                let lowest = self.depth.saturating_sub(u64::from(*callers));
                self.open.iter_mut().rev().take_while(|o| o.depth > lowest).for_each(|o| o.cut = true);
            }
            EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } if self.depth == 0 => {
                self.depth = 1;
                let known = (e.provenance, false);
                self.enter(*method, Entry::Found, known, to.is_chosen(*method));
            }
            _ => {}
        }
        self.follower.event((&to.methods, &to.shapes), e, to.exclude);
    }
    fn time(&mut self, time: u64) {
        let time = self.now.map_or(time, |now| now.max(time));
        let step = time - self.now.unwrap_or(time);
        for method in self.ended.drain(..) {
            self.figures.entry(method).or_default().until(step);
        }
        let from = self.fresh.min(self.open.len());
        for open in &mut self.open[from..] {
            open.begun.get_or_insert(time);
        }
        self.fresh = self.open.len();
        if std::mem::take(&mut self.unlimited) {
            self.slowest.until(time);
        }
        self.now = Some(time);
        self.on_core = None;
    }
    /// Ticks on cores up to now.
    fn on_core(&mut self) -> u64 {
        let Some((clock, thread)) = &self.clock else { return 0 };
        let now = self.now.unwrap_or(0);
        *self.on_core.get_or_insert_with(|| clock(thread, Tsc(now)))
    }
    fn enter(
        &mut self,
        method: MethodId,
        entry: Entry,
        (provenance, hidden): (Provenance, bool),
        chosen: bool,
    ) {
        let continues = matches!(entry, Entry::Osr | Entry::Deoptimisation);
        if continues && let Some(open) = self.replaced.pop_if(|o| o.method == method && o.depth == self.depth)
        {
            return self.open.push(open);
        }
        if (chosen || !continues) && !self.replaced.is_empty() {
            self.drop_replaced();
        }
        if !chosen {
            return;
        }
        let on_core = self.on_core();
        let own = self.figures.entry(method).or_default();
        let found = !matches!(entry, Entry::Call | Entry::Upcall);
        own.found += u64::from(found);
        if !found && !hidden {
            own.calls.add(provenance);
        }
        let nested = own.active > 0;
        own.active += 1;
        self.open.push(ChosenActivation {
            method,
            depth: self.depth,
            begin: self.now,
            begun: None,
            on_core,
            inferred: provenance != Provenance::Decoded,
            found,
            cut: false,
            nested,
        });
    }
    fn leave(&mut self, exit: Exit, provenance: Provenance) {
        if exit != Exit::Replaced && !self.replaced.is_empty() {
            self.drop_replaced();
        }
        let top = self.open.pop_if(|o| o.depth >= self.depth);
        self.depth = self.depth.saturating_sub(1);
        let Some(open) = top else { return };
        match exit {
            Exit::Replaced => self.replaced.push(open),
            Exit::Lost => self.ended(ChosenActivation { cut: true, ..open }, false),
            _ => self.ended(open, provenance != Provenance::Decoded),
        }
        self.fresh = self.fresh.min(self.open.len());
    }
    /// Activations that should have continued and did not.
    fn drop_replaced(&mut self) {
        for open in std::mem::take(&mut self.replaced) {
            self.ended(ChosenActivation { cut: true, ..open }, false);
        }
    }
    fn gap(&mut self, stack_lost: bool) {
        self.open.iter_mut().for_each(|o| o.cut = true);
        self.replaced.iter_mut().for_each(|o| o.cut = true);
        if stack_lost {
            self.drop_replaced();
            for open in std::mem::take(&mut self.open) {
                self.ended(open, false);
            }
            (self.depth, self.fresh) = (0, 0);
        }
    }
    fn ended(&mut self, open: ChosenActivation, inferred: bool) {
        let on_core = self.on_core().saturating_sub(open.on_core);
        let has_clock = self.clock.is_some();
        let own = self.figures.entry(open.method).or_default();
        own.active = own.active.saturating_sub(1);
        let (begin, now) = match (open.begin, self.now) {
            _ if open.found => return,
            _ if open.cut => return own.cut += 1,
            _ if open.inferred || inferred => return own.inferred += 1,
            (Some(begin), Some(now)) => (begin, now),
            _ => return own.untimed += 1,
        };
        let wall = now.saturating_sub(begin);
        let begun = open.begun.unwrap_or(begin);
        let least = now.saturating_sub(begun);
        own.wall.add(wall);
        if has_clock {
            own.on_core.add(on_core);
        }
        if open.nested {
            own.nested += 1;
        } else {
            own.wall_sum.measured += u128::from(wall);
            own.wall_sum.least += u128::from(least);
            own.wall_sum.most += u128::from(wall);
            own.wall_sum.unlimited += 1;
            own.on_core_sum += u128::from(on_core);
        }
        if own.ends.add(wall - least, open.nested) {
            self.ended.push(open.method);
        }
        if self.slowest.keeps(wall) {
            self.unlimited = true;
            let on_core = has_clock.then_some(on_core);
            let method = open.method;
            self.slowest.add(Slow { method, begin, wall, least, most: None, on_core, thread: 0 });
        }
    }
    /// The flow has ended.
    pub(super) fn end(mut self) -> (HashMap<MethodId, ActivationFigures>, Slowest, Hidden) {
        self.drop_replaced();
        for open in std::mem::take(&mut self.open) {
            self.ended(ChosenActivation { cut: true, ..open }, false);
        }
        (self.figures, self.slowest, self.follower.end())
    }
}
