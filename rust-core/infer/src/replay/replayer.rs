// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Replays one thread's flow with fills in the place of gaps.
//!
//! The decoder gives up all frames before a gap and finds some after it. Where a fill replaces
//! the gap, the frames continue: the events that gave them up are left out. The events that
//! find frames again are left out, too, because these frames are on the stack by then. After a
//! fill, more frames are known than the decoder knows; they are below the decoder's own ones.
//! When all of the decoder's frames have ended and it finds another one, that must be the top
//! frame of the stack. If it is not, the remaining frames were wrong, or something ran that the
//! flow does not show; the flow then continues without these frames, after a gap of its own.

use crate::cut::FrameSites;
use crate::fill::straight;
use crate::replay::filler::{Filler, Question, RatedFill};
use crate::replay::holes::GapPlace;
use crate::replay::stack::{Methods, NoWay, ShadowStack};
use crate::replay::summary::Figures;
use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{EdgeKind, Icfg, Node, Opcode, Transfer};
use jportal_flow::{
    Entry, Event, EventKind, Exit, FlowFault, FlowSink, Gap, GapReason, Orphan, Provenance, Tier,
};
use jportal_units::{Core, MethodId, StreamOffset, Tsc};
use std::time::{Duration, Instant};

/// The number of events passed on at a time.
const FLUSH: usize = 8192;
/// The maximum confidence in a callee that was captured nowhere in the same context.
const CALLEE: f32 = 0.2;
/// The maximum number of invokes of one fill that get a callee.
const CALLED: usize = 1 << 12;
/// The maximum nesting of such callees.
const DEPTH: usize = 8;
/// The maximum number of gaps inside a fill.
const BREAKS: usize = 4;
/// The confidence in the events that join both ends of a gap in which nothing seems to have
/// run.
const JOINED: f32 = 0.5;

/// What the run shows about methods.
#[derive(Clone, Debug, Default)]
pub(crate) struct MethodKnowledge {
    /// The tier that executed each method last.
    tiers: Vec<Option<Tier>>,
    /// The compiler whose code executed each method last.
    compiled: Vec<Option<Tier>>,
    /// The native methods that were called, by call site.
    natives: HashMap<Node, MethodId>,
    /// Pairs of call site and callee that the graph does not have.
    called: HashSet<(Node, MethodId)>,
    /// Methods with bytecodes that the interpreter executed without them. They are few: the
    /// interpreter has special entries for about twenty methods.
    silent: Vec<MethodId>,
}

/// Method ids are dense: a table of all ids is no larger than the methods themselves.
fn note(tiers: &mut Vec<Option<Tier>>, method: MethodId, tier: Tier) {
    let at = method.0 as usize;
    if tiers.len() <= at {
        tiers.resize(at + 1, None);
    }
    tiers[at] = Some(tier);
}

fn noted(tiers: &[Option<Tier>], method: MethodId) -> Option<Tier> {
    tiers.get(method.0 as usize).copied().flatten()
}

impl MethodKnowledge {
    /// Notes that `tier` executed `method`.
    pub(crate) fn executed(&mut self, method: MethodId, tier: Tier) {
        note(&mut self.tiers, method, tier);
        if matches!(tier, Tier::C1 | Tier::C2) {
            note(&mut self.compiled, method, tier);
        }
    }
    /// Notes that `site` called `callee`.
    pub(crate) fn called(&mut self, icfg: &Icfg, site: Node, callee: MethodId) {
        match icfg.entry(callee) {
            None => _ = self.natives.insert(site, callee),
            Some(entry) if !icfg.names(site, entry) => _ = self.called.insert((site, callee)),
            Some(_) => {}
        }
    }
    /// Notes that the interpreter was called for `method` and returned from it, with nothing in
    /// between.
    pub(crate) fn was_silent(&mut self, icfg: &Icfg, method: MethodId) {
        if icfg.entry(method).is_some() {
            self.add_silent(method);
        }
    }
    fn add_silent(&mut self, method: MethodId) {
        if !self.silent.contains(&method) {
            self.silent.push(method);
        }
    }
    /// Adds the knowledge from another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        for tiers in [other.compiled, other.tiers] {
            for (at, tier) in tiers.into_iter().enumerate() {
                if let Some(tier) = tier {
                    self.executed(MethodId(at as u32), tier);
                }
            }
        }
        self.natives.extend(other.natives);
        self.called.extend(other.called);
        other.silent.into_iter().for_each(|method| self.add_silent(method));
    }
}

/// The knowledge about methods for the frames of one fill. For the end of the fill, the decoder
/// reports the tier of the frame that follows.
struct Landing<'k> {
    icfg: &'k Icfg,
    known: &'k MethodKnowledge,
    last: Option<(MethodId, Tier)>,
    /// Methods that compiled code executes here, whatever tier executed them last.
    compiled: Vec<(MethodId, Tier)>,
    /// Native methods that the graph names at invokes where none was seen.
    named: Vec<(Node, MethodId)>,
    /// Supplies the callees of invokes that a fill passes without one, and its answers so far.
    filler: &'k dyn Filler,
    called: HashMap<Node, Option<Vec<Node>>>,
}

impl Landing<'_> {
    /// Makes compiled code execute `method`, as elsewhere in the run. Returns `false` if
    /// compiled code never executed it, or does so already.
    fn compile(&mut self, method: MethodId) -> bool {
        let new = !self.compiled.iter().any(|c| c.0 == method);
        let tier = noted(&self.known.compiled, method).filter(|_| new);
        self.compiled.extend(tier.map(|tier| (method, tier)));
        tier.is_some()
    }
    /// Makes `site` call a native method that the graph names there and that was called
    /// elsewhere. Returns `false` if there is none.
    fn name(&mut self, site: Node) -> bool {
        let named = |native: &MethodId| self.icfg.may_call_method(site, *native);
        let native = self.known.natives.values().copied().filter(named).min_by_key(|native| native.0);
        self.named.extend(native.map(|native| (site, native)));
        native.is_some()
    }
    /// The instructions that a callee of `site` executes, if one is known.
    fn callee(&mut self, site: Node) -> Option<Vec<Node>> {
        if self.called.len() >= CALLED && !self.called.contains_key(&site) {
            return None;
        }
        let ask = || self.filler.callee_of(site).filter(|nodes| !nodes.is_empty());
        self.called.entry(site).or_insert_with(ask).clone()
    }
}

impl Methods for Landing<'_> {
    fn tier(&self, method: MethodId) -> Tier {
        let told = self.last.iter().chain(&self.compiled).find(|m| m.0 == method).map(|m| m.1);
        let seen = || noted(&self.known.tiers, method);
        told.or_else(seen).unwrap_or(Tier::Interpreter)
    }
    fn native_callee(&self, site: Node) -> Option<MethodId> {
        let named = || self.named.iter().find(|named| named.0 == site).map(|named| named.1);
        self.known.natives.get(&site).copied().or_else(named)
    }
    fn silent_callee(&self, site: Node) -> Option<MethodId> {
        let named = |m: &&MethodId| self.icfg.entry(**m).is_some_and(|entry| self.icfg.names(site, entry));
        self.known.silent.iter().find(named).copied()
    }
    fn was_called(&self, site: Node, callee: MethodId) -> bool {
        self.known.called.contains(&(site, callee))
    }
}

/// Events that are held back until it is known whether a fill replaces them.
#[derive(Debug, Default)]
struct Pending {
    events: Vec<Event>,
    /// The index of the place; `None` where the decoder finds frames that may be those on the
    /// stack.
    place: Option<usize>,
}

/// Replays one thread.
pub(crate) struct Replay<'r> {
    icfg: &'r Icfg,
    places: &'r [GapPlace],
    next_place: usize,
    filler: &'r mut dyn Filler,
    sink: Box<dyn FlowSink + Send>,
    /// Whether the bytecodes of fills are passed on as runs.
    runs: bool,
    known: MethodKnowledge,
    stack: ShadowStack<'r>,
    /// How many of the frames the decoder knows itself; these are the innermost ones.
    own: usize,
    /// The number of the next event.
    number: u64,
    pending: Option<Pending>,
    /// The confidence of the last event of a fill.
    confidence: f32,
    /// The core and offset of the last gap, and the last known time.
    gap: (Core, StreamOffset),
    now: Option<Tsc>,
    out: Vec<Event>,
    figures: Figures,
    filling: Duration,
}

impl<'r> Replay<'r> {
    /// For a thread with these places, whose flow is passed on to the sink, in runs or bytecode
    /// by bytecode.
    pub(crate) fn new(
        icfg: &'r Icfg,
        known: MethodKnowledge,
        places: &'r [GapPlace],
        filler: &'r mut dyn Filler,
        (sink, runs): (Box<dyn FlowSink + Send>, bool),
    ) -> Self {
        Self {
            icfg,
            places,
            next_place: 0,
            filler,
            sink,
            runs,
            known,
            stack: ShadowStack::new(icfg),
            own: 0,
            number: 0,
            pending: None,
            confidence: JOINED,
            gap: (Core(0), StreamOffset(0)),
            now: None,
            out: Vec::new(),
            figures: Figures::default(),
            filling: Duration::ZERO,
        }
    }
    /// Takes the thread's next events.
    pub(crate) fn events(&mut self, mut events: Vec<Event>) {
        let mut quiet = self.followed(&events);
        if quiet == events.len() && self.out.is_empty() {
            return self.sink.take(&mut events);
        }
        let mut events = events.into_iter();
        loop {
            self.out.extend(events.by_ref().take(quiet));
            if self.out.len() >= FLUSH {
                self.flush();
            }
            let Some(event) = events.next() else { return };
            self.event(event);
            quiet = self.followed(events.as_slice());
        }
    }
    /// Follows the leading events that are passed on unchanged, with nothing before them or in
    /// their place. Returns their number.
    fn followed(&mut self, events: &[Event]) -> usize {
        if self.pending.is_some() {
            return 0;
        }
        let next_place = self.places.get(self.next_place).map_or(u64::MAX, |p| p.events.start);
        let most = usize::try_from(next_place.saturating_sub(self.number)).unwrap_or(usize::MAX);
        let mut quiet = 0;
        for Event { kind, .. } in events.iter().take(most) {
            if self.has_others() || matches!(kind, EventKind::Gap(_)) {
                break;
            }
            self.follow(kind);
            quiet += 1;
        }
        self.number += quiet as u64;
        quiet
    }
    /// Takes the thread's next event.
    fn event(&mut self, event: Event) {
        let number = self.number;
        self.number += 1;
        if self.pending.is_none() {
            let place = self.places.get(self.next_place).filter(|p| p.events.start == number);
            if place.is_some() {
                self.pending = Some(Pending { place: Some(self.next_place), ..Pending::default() });
                self.next_place += 1;
            } else if self.has_others() && is_found(&event) {
                self.pending = Some(Pending::default());
            }
        }
        let ends = matches!(
            event.kind,
            EventKind::Bytecode { .. } | EventKind::Run { .. } | EventKind::Unresolved { .. }
        );
        match &mut self.pending {
            Some(pending) if !ends => pending.events.push(event),
            _ => {
                if let Some(pending) = self.pending.take() {
                    let filled = self.fill(&pending, &event);
                    match filled {
                        Some((stretch, events)) => self.put(stretch, events),
                        None => pending.events.into_iter().for_each(|e| self.pass(e)),
                    }
                }
                self.pass(event);
            }
        }
        if self.out.len() >= FLUSH {
            self.flush();
        }
    }
    /// Ends the flow. Returns the figures, and how long filling took.
    pub(crate) fn end(mut self) -> (Figures, Duration) {
        if let Some(pending) = self.pending.take() {
            pending.events.into_iter().for_each(|e| self.pass(e));
        }
        self.leave_others();
        self.flush();
        self.sink.end();
        (self.figures, self.filling)
    }
    fn flush(&mut self) {
        self.sink.take(&mut self.out);
    }
    /// Whether there are frames on the stack and the decoder knows none of them.
    fn has_others(&self) -> bool {
        self.own == 0 && !self.stack.frames().is_empty()
    }
    /// Passes on an event of the decoder unchanged.
    fn pass(&mut self, event: Event) {
        if self.has_others() && self.contradicts(&event.kind) {
            self.give_up();
        }
        if let EventKind::Gap(gap) = &event.kind {
            self.figures.gaps += 1;
            self.gap = (gap.core, gap.offset);
            if gap.stack_lost {
                self.leave_others();
                self.own = 0;
            }
        }
        self.follow(&event.kind);
        self.out.push(event);
    }
    /// Whether the decoder continues in other frames than those on the stack, none of which it
    /// knows.
    fn contradicts(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Enter { entry, .. } => *entry == Entry::Found,
            EventKind::Leave { method, .. }
            | EventKind::Bytecode { method, .. }
            | EventKind::Run { method, .. } => self.is_other(*method),
            // The frame of an orphan is unknown, and so is its position afterwards.
            EventKind::Orphan(_) => true,
            EventKind::Catch { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Time(_)
            | EventKind::Code(_)
            | EventKind::Gap(_) => false,
        }
    }
    fn is_other(&self, method: MethodId) -> bool {
        self.stack.frames().last().is_none_or(|top| top.method != method)
    }
    /// Follows an event of the decoder.
    fn follow(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Enter { method, tier, .. } => {
                self.known.executed(*method, *tier);
                self.own += 1;
            }
            EventKind::Leave { .. } => self.own = self.own.saturating_sub(1),
            EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } => {
                if self.is_other(*method) {
                    // A frame whose beginning was not reported.
                    self.own = 1;
                }
                self.figures.decoded += kind.bytecodes();
            }
            EventKind::Time(tsc) => self.now = Some(*tsc),
            EventKind::Catch { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Orphan(_)
            | EventKind::Code(_)
            | EventKind::Gap(_) => {}
        }
        self.stack.follow(kind);
        self.own = self.own.min(self.stack.frames().len());
    }
    /// Leaves the frames whose end the decoder will not report, unless it still knows some
    /// frames above them.
    fn leave_others(&mut self) {
        if self.own > 0 {
            return;
        }
        for kind in self.stack.given_up() {
            self.out.push(recovered(kind, self.confidence));
            self.figures.recovered_other += 1;
        }
        self.stack.forget();
    }
    /// Gives up the frames on the stack, which are not those that follow.
    fn give_up(&mut self) {
        self.leave_others();
        self.out.push(recovered(self.leads_nowhere(), self.confidence));
        self.figures.given_up += 1;
    }
    /// The gap before an instruction that no frames lead to.
    fn leads_nowhere(&self) -> EventKind {
        EventKind::Gap(Box::new(Gap {
            reason: GapReason::Reconstruct(
                FlowFault::Fill,
                "what was recovered before does not lead here".into(),
            ),
            core: self.gap.0,
            offset: self.gap.1,
            address: None,
            since: self.now,
            until: self.now,
            bytes: None,
            stack_lost: true,
        }))
    }
    /// Looks for a fill for `pending`, which precedes `next`, and leads the frames through it.
    /// Returns the events of the place and those that replace them. `None` if there is no fill:
    /// then the frames have not changed.
    fn fill<'p>(&mut self, pending: &'p Pending, next: &Event) -> Option<(PlaceEvents<'p>, Vec<Event>)> {
        let (stretch, to) = PlaceEvents::of(&pending.events, next, self.icfg)?;
        let fill = match pending.place {
            None => RatedFill::default(),
            Some(place) => {
                let begin = Instant::now();
                let question = self.question(place, self.stack.sites(), stretch.entered());
                let fill = self.filler.fill(question);
                self.filling += begin.elapsed();
                fill?
            }
        };
        let admitted = stretch.admits(&fill, to, &self.known, self.icfg);
        let joined = admitted.then(|| self.joined(&stretch, &fill, to)).flatten();
        let Some(Joined { stack, own, events, broken }) = joined else {
            self.figures.contradicted += u64::from(pending.place.is_some());
            return None;
        };
        (self.stack, self.own) = (stack, own);
        self.figures.broken += broken;
        Some((stretch, events))
    }
    fn question(&self, index: usize, before: FrameSites, entered: Option<MethodId>) -> Question {
        Question { index, before, entered: entered.and_then(|method| self.icfg.entry(method)) }
    }
    /// The events that join both ends of a place with `fill`, up to `to`; `None` if no frames
    /// lead there.
    fn joined(&self, stretch: &PlaceEvents<'_>, fill: &RatedFill, to: Node) -> Option<Joined<'r>> {
        let mut stack = self.stack.clone();
        stretch.before.iter().for_each(|e| stack.follow(&e.kind));
        let own = stretch.before.iter().fold(self.own, |own, e| match e.kind {
            EventKind::Enter { .. } => own + 1,
            EventKind::Leave { .. } => own.saturating_sub(1),
            _ => own,
        });
        let mut arrival = stretch.arrival.clone();
        let mut own_after = arrival.len();
        if stretch.keeps_frames {
            // The decoder takes the frames before the gap for those after it.
            let frames = stack.frames();
            let kept = frames[frames.len().saturating_sub(own)..].iter().map(|f| (f.method, f.tier));
            arrival = kept.chain(arrival).collect();
            own_after = arrival.len();
        }
        let (compiled, named, called) = (Vec::new(), Vec::new(), HashMap::new());
        let filler = &*self.filler;
        let mut methods =
            Landing { icfg: self.icfg, known: &self.known, last: None, compiled, named, filler, called };
        let mut breaks: Vec<usize> = fill.broken.into_iter().collect();
        let most = if fill.breaks { BREAKS } else { 0 };
        // Repeats with the methods compiled that the last pass found to be compiled. More than
        // that depends on the frames below. Also repeats with a gap where no frames lead to an
        // instruction.
        loop {
            methods.last = None;
            let known = methods.compiled.len();
            let way = Crossing {
                fill,
                to,
                arrival: &arrival,
                breaks: &breaks,
                runs: self.runs,
                nowhere: &self.leads_nowhere(),
            };
            match way.lead(stack.clone(), &mut methods) {
                _ if methods.compiled.len() > known => {}
                Ok((stack, events)) => {
                    return Some(Joined { stack, own: own_after, events, broken: breaks.len() as u64 });
                }
                Err(at) if breaks.len() < most && !breaks.contains(&at) => breaks.push(at),
                Err(_) => return None,
            }
        }
    }
    fn put(&mut self, stretch: PlaceEvents<'_>, mut events: Vec<Event>) {
        // The fill contains the orphans.
        self.out.extend(stretch.before.iter().filter(|e| !is_orphan(e)).cloned());
        for Event { kind, provenance } in &events {
            if let EventKind::Enter { method, tier, .. } = kind {
                self.known.executed(*method, *tier);
            }
            match kind.bytecodes() {
                0 => self.figures.recovered_other += 1,
                bytecodes => self.figures.recovered += bytecodes,
            }
            if let Provenance::Recovered { confidence } = provenance {
                self.confidence = *confidence;
            }
        }
        if events.len() >= FLUSH {
            self.flush();
            self.out = events;
            self.flush();
        } else {
            self.out.append(&mut events);
        }
        for event in stretch.before.iter().chain(stretch.lost) {
            match &event.kind {
                EventKind::Time(tsc) => self.now = Some(*tsc),
                EventKind::Gap(gap) => {
                    self.figures.gaps += 1;
                    self.figures.gaps_filled += 1;
                    self.gap = (gap.core, gap.offset);
                }
                _ => {}
            }
        }
        // The times in the place hold for what follows.
        self.out.extend(stretch.lost.iter().filter(|e| is_time(e)).cloned());
    }
}

/// An event of a fill, with its confidence.
fn recovered(kind: EventKind, confidence: f32) -> Event {
    Event { kind, provenance: Provenance::Recovered { confidence } }
}

const fn is_found(event: &Event) -> bool {
    matches!(event.kind, EventKind::Enter { entry: Entry::Found, .. })
}

const fn is_time(event: &Event) -> bool {
    matches!(event.kind, EventKind::Time(_))
}

const fn is_orphan(event: &Event) -> bool {
    matches!(event.kind, EventKind::Orphan(_))
}

/// An orphan: the opcode, and the direction of a branch.
type Symbol = (Opcode, Option<bool>);

/// The orphans of a place.
#[derive(Debug, Default)]
struct Orphans {
    /// Before the first gap.
    first: Vec<Symbol>,
    /// Between gaps.
    between: Vec<Vec<Symbol>>,
    /// After the last gap.
    last: Vec<Symbol>,
}

impl Orphans {
    /// The orphans among `events`; `None` if one throws: a fill does not say where an exception
    /// came from.
    fn among(events: &[Event]) -> Option<Self> {
        let is_gap = |e: &Event| matches!(e.kind, EventKind::Gap(_));
        let symbol = |e: &Event| match e.kind {
            EventKind::Orphan(Orphan::Bytecode { opcode, taken }) => Some((Opcode(opcode), taken)),
            _ => None,
        };
        if events.iter().any(|e| e.kind == EventKind::Orphan(Orphan::Throw)) {
            return None;
        }
        let mut runs = events.split(is_gap).map(|part| part.iter().filter_map(symbol).collect::<Vec<_>>());
        let first = runs.next().unwrap_or_default();
        let Some(last) = runs.next_back() else {
            // The decoder finds frames that may be those on the stack: nothing ran.
            return first.is_empty().then(Self::default);
        };
        Some(Self { first, between: runs.filter(|run| !run.is_empty()).collect(), last })
    }
    /// Whether `fill`, which precedes `to`, begins and ends with these orphans, and contains
    /// those between gaps in their order.
    fn admit(&self, fill: &RatedFill, to: Node, icfg: &Icfg) -> bool {
        let (nodes, first, last) = (&fill.nodes, self.first.len(), self.last.len());
        let goes = |at: usize, taken: bool| {
            let next = nodes.get(at + 1).copied().unwrap_or(to);
            icfg.edges(nodes[at]).any(|(kind, n)| n == next && (kind == EdgeKind::Taken) == taken)
        };
        let are = |from: usize, orphans: &[Symbol]| {
            (from..).zip(orphans).all(|(at, (opcode, taken))| {
                icfg.opcode(nodes[at]) == *opcode && taken.is_none_or(|taken| goes(at, taken))
            })
        };
        let Some(end) = nodes.len().checked_sub(last).filter(|end| *end >= first) else { return false };
        let mut from = first;
        let mut come = |run: &Vec<Symbol>| {
            let found = (from..(end + 1).saturating_sub(run.len())).find(|at| are(*at, run));
            from = found.map_or(from, |at| at + run.len());
            found.is_some()
        };
        are(0, &self.first) && are(end, &self.last) && self.between.iter().all(&mut come)
    }
}

/// The way from the frames before a place to those after it.
struct Crossing<'w> {
    fill: &'w RatedFill,
    /// The instruction after the place, and the innermost frames there.
    to: Node,
    arrival: &'w [(MethodId, Tier)],
    /// The indices of instructions of the fill, or of the one after it, that no frames lead to,
    /// and the gap that precedes them.
    breaks: &'w [usize],
    /// Whether the bytecodes of the fill may be runs.
    runs: bool,
    nowhere: &'w EventKind,
}

impl Crossing<'_> {
    /// Makes `stack` execute the fill and continue to the instruction after the place. Returns
    /// the stack and the events before that instruction. If [`Landing::compiled`] has become
    /// longer, the caller must repeat the call.
    ///
    /// # Errors
    /// The index of the first instruction that no frames lead to.
    fn lead<'a>(&self, mut stack: ShadowStack<'a>, methods: &mut Landing<'_>) -> Result<Led<'a>, usize> {
        let RatedFill { nodes, confidence, .. } = self.fill;
        let mut all = Vec::with_capacity(nodes.len());
        let mut kinds = Vec::new();
        let mut last = JOINED;
        let mut at = 0;
        while let Some((&node, (confidence, sure_to))) = nodes.get(at).zip(confidence.at(at)) {
            if self.breaks.contains(&at) {
                self.break_off(&mut stack, confidence, &mut all);
            }
            reach(&mut stack, (node, confidence), methods, DEPTH, (&mut all, &mut kinds)).map_err(|_| at)?;
            let straight = self.straight(stack.icfg(), at, sure_to);
            if self.runs && straight > 1 {
                stack.execute_run(node, straight as u16, &mut kinds);
            } else {
                nodes[at..at + straight].iter().for_each(|node| stack.execute(*node, &mut kinds));
            }
            last = confidence;
            all.extend(kinds.drain(..).map(|kind| recovered(kind, confidence)));
            at += straight;
        }
        let end = nodes.len();
        methods.last = self.arrival.last().copied();
        if self.breaks.contains(&end) {
            self.break_off(&mut stack, last, &mut all);
            for &(method, tier) in self.arrival {
                let found = EventKind::Enter { method, tier, entry: Entry::Found };
                stack.follow(&found);
                all.push(recovered(found, last));
            }
        }
        reach(&mut stack, (self.to, last), methods, DEPTH, (&mut all, &mut kinds)).map_err(|_| end)?;
        if !stack.ends_with(self.arrival) || !stack.replace(self.arrival, &mut kinds) {
            return Err(end);
        }
        all.extend(kinds.into_iter().map(|kind| recovered(kind, last)));
        Ok((stack, all))
    }
    /// How many instructions of the fill, from `at` and before `end`, lead from one to the next
    /// wherever they are executed.
    fn straight(&self, icfg: &Icfg, at: usize, end: usize) -> usize {
        let breaks = self.breaks.iter().filter(|to| **to > at).map(|to| to - at);
        // Code continues past the end of a method only by a transfer.
        breaks.fold(straight(icfg, &self.fill.nodes[at..end]), usize::min)
    }
    /// Gives up all frames: how the thread came to the next instruction is unknown.
    fn break_off(&self, stack: &mut ShadowStack<'_>, sure: f32, all: &mut Vec<Event>) {
        all.extend(stack.given_up().chain([self.nowhere.clone()]).map(|kind| recovered(kind, sure)));
        stack.forget();
    }
}

/// The frames after a place, and the events in it.
type Led<'a> = (ShadowStack<'a>, Vec<Event>);

/// Makes `stack` continue to `to`. The events before `to` are appended to `kinds`. If callees
/// must be called first, the content of `kinds` and the events of the callees move to `all`,
/// with their confidences. Callees that lack a callee themselves get one, nested up to `depth`.
fn reach(
    stack: &mut ShadowStack<'_>,
    (to, sure): (Node, f32),
    methods: &mut Landing<'_>,
    depth: usize,
    (all, kinds): (&mut Vec<Event>, &mut Vec<EventKind>),
) -> Result<(), NoWay> {
    let mut tried = None;
    loop {
        let site = match stack.advance(to, methods, kinds) {
            Err(NoWay::Interpreted { method, .. }) if methods.compile(method) => {
                // Continues only to find further such methods: the caller repeats all of it.
                stack.compile(methods.tier(method));
                continue;
            }
            Err(NoWay::Interpreted { site, .. }) if depth > 0 && tried != Some(site) => site,
            other => return other,
        };
        tried = Some(site);
        let Some(callee) = methods.callee(site) else {
            if methods.name(site) {
                continue;
            }
            return Err(NoWay::Frames);
        };
        // The events up to the site are valid: a class initialiser that the invoke needed has
        // returned, for example.
        all.extend(kinds.drain(..).map(|kind| recovered(kind, sure)));
        let sure = sure.min(CALLEE);
        for node in callee {
            reach(stack, (node, sure), methods, depth - 1, (all, kinds))?;
            stack.execute(node, kinds);
            all.extend(kinds.drain(..).map(|kind| recovered(kind, sure)));
        }
    }
}

/// The result of joining both ends of a place with a fill.
struct Joined<'a> {
    /// The frames after the place.
    stack: ShadowStack<'a>,
    /// How many of these frames the decoder knows.
    own: usize,
    /// The events that replace the place.
    events: Vec<Event>,
    /// The number of gaps among these events.
    broken: u64,
}

/// The events of a place, sorted.
struct PlaceEvents<'e> {
    /// The events before the loss, which remain in the flow.
    before: &'e [Event],
    /// Frames given up, gaps, frames found.
    lost: &'e [Event],
    /// The frames found: method and tier, outermost first.
    arrival: Vec<(MethodId, Tier)>,
    /// The method of the frame that was found last and has returned since, before any of its
    /// instructions was known.
    returned: Option<MethodId>,
    /// Whether the decoder's frames continue across the place.
    keeps_frames: bool,
    orphans: Orphans,
}

impl<'e> PlaceEvents<'e> {
    /// Sorts the events before `next`, and returns the instruction of `next`. `None` if the
    /// events say more than that something is missing: a fill would drop that.
    fn of(events: &'e [Event], next: &Event, icfg: &Icfg) -> Option<(Self, Node)> {
        let (EventKind::Bytecode { method, bci, tier } | EventKind::Run { method, first: bci, tier, .. }) =
            next.kind
        else {
            return None;
        };
        let to = icfg.node_at(method, bci)?;
        let loses = |e: &Event| {
            matches!(e.kind, EventKind::Gap(_) | EventKind::Leave { exit: Exit::Lost, .. }) || is_found(e)
        };
        let (before, lost) = events.split_at(events.iter().position(loses).unwrap_or(events.len()));
        let mut keeps_frames = true;
        let mut arrival: Vec<(MethodId, Tier)> = Vec::new();
        let mut returned = None;
        for event in lost {
            match &event.kind {
                EventKind::Time(_) | EventKind::Orphan(_) => {}
                EventKind::Gap(gap) if arrival.is_empty() => keeps_frames &= !gap.stack_lost,
                EventKind::Leave { exit: Exit::Lost, .. } if arrival.is_empty() => {}
                EventKind::Leave { method, exit: Exit::Return }
                    if arrival.pop_if(|f| f.0 == *method).is_some() =>
                {
                    returned = Some(*method);
                }
                EventKind::Enter { method, tier, entry } => {
                    keeps_frames &= *entry != Entry::Found;
                    arrival.push((*method, *tier));
                }
                _ => return None,
            }
        }
        // Whatever frame the instruction is in, its tier is known.
        match arrival.last_mut() {
            Some(last) => last.1 = tier,
            None if !keeps_frames => arrival.push((method, tier)),
            None => {}
        }
        let orphans = Orphans::among(events)?;
        Some((Self { before, lost, arrival, returned, keeps_frames, orphans }, to))
    }
    /// The method that was called before the gap and has executed nothing there.
    fn entered(&self) -> Option<MethodId> {
        let mut entered = Vec::new();
        for event in self.before {
            match &event.kind {
                // Replaced frames continue at their position.
                EventKind::Enter { method, entry, .. } => {
                    let called = matches!(entry, Entry::Call | Entry::Upcall);
                    entered.push(Some(*method).filter(|_| called));
                }
                EventKind::Leave { .. } => _ = entered.pop(),
                _ => {}
            }
        }
        entered.pop().flatten()
    }
    /// Whether `fill` matches what is known at the end of the gap: the orphans, and the end of
    /// the frame that was seen to return.
    fn admits(&self, fill: &RatedFill, to: Node, known: &MethodKnowledge, icfg: &Icfg) -> bool {
        let ends = |method| match (fill.nodes.last(), icfg.entry(method)) {
            (Some(last), Some(_)) => {
                icfg.method(*last) == method && icfg.opcode(*last).transfer() == Transfer::Return
            }
            (Some(last), None) => known.natives.get(last) == Some(&method),
            (None, _) => false,
        };
        self.orphans.admit(fill, to, icfg) && self.returned.is_none_or(ends)
    }
}

#[cfg(test)]
#[path = "replayer_tests.rs"]
mod tests;
