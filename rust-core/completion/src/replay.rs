// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One thread's flow once more, with fills in the places of gaps.
//!
//! The decoder gives up all frames in front of a gap and finds some behind it. Where a fill stands instead, the frames go on:
//! the events that gave them up are left out, and so are those that find frames again, since they are on the stack by then. From
//! there on more frames are known than the decoder knows, and they stay below its own ones. When the decoder's have all
//! ended and it finds another, that has to be the one that is on top by then; if it is not, the frames that remain were wrong,
//! or something ran of which the flow says nothing, and the flow goes on without them behind a gap of its own.

use crate::filler::{Fill, Filler, Question};
use crate::holes::Place;
use crate::stack::{Methods, NoWay, Stack};
use crate::summary::Figures;
use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{EdgeKind, Icfg, Node, Opcode, Transfer};
use jportal_flow::{Entry, Event, EventKind, Exit, FlowSink, Gap, GapReason, Orphan, Provenance, Tier};
use jportal_recover::cut::Sites;
use jportal_recover::fill::straight;
use jportal_units::{Core, MethodId, StreamOffset, Tsc};
use std::time::{Duration, Instant};

/// Events handed on at once.
const FLUSH: usize = 8192;
/// The confidence in a callee that no place in the same context had, at most.
const CALLEE: f32 = 0.2;
/// Invokes of one fill that are given a callee.
const CALLED: usize = 1 << 12;
/// Such callees inside each other.
const DEPTH: usize = 8;
/// Gaps inside of a fill.
const BREAKS: usize = 4;
/// The confidence in what joins both ends of a gap in which nothing seems to have run.
const JOINED: f32 = 0.5;

/// What the run says of methods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Who executed each method last.
    tiers: Vec<Option<Tier>>,
    /// The compiler whose code executed each method last.
    compiled: Vec<Option<Tier>>,
    /// The native methods that were called, by call site.
    natives: HashMap<Node, MethodId>,
    /// Callees that the graph does not name at their call sites.
    called: HashSet<(Node, MethodId)>,
    /// Methods with code that the interpreter executed without it. Few: it has entries of its own for some twenty.
    silent: Vec<MethodId>,
}

/// Ids are dense: a table of all of them is no larger than the methods themselves.
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

impl Known {
    /// `method` was executed by `tier`.
    pub(crate) fn executed(&mut self, method: MethodId, tier: Tier) {
        note(&mut self.tiers, method, tier);
        if matches!(tier, Tier::C1 | Tier::C2) {
            note(&mut self.compiled, method, tier);
        }
    }
    /// `site` called `callee`.
    pub(crate) fn called(&mut self, icfg: &Icfg, site: Node, callee: MethodId) {
        match icfg.entry(callee) {
            None => _ = self.natives.insert(site, callee),
            Some(entry) if !icfg.names(site, entry) => _ = self.called.insert((site, callee)),
            Some(_) => {}
        }
    }
    /// The interpreter was called for `method` and returned from it, with nothing in between.
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
    /// Adds what another thread says.
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

/// Where a fill ends, the decoder says who executes the frame that follows.
struct Landing<'k> {
    icfg: &'k Icfg,
    known: &'k Known,
    last: Option<(MethodId, Tier)>,
    /// Methods that compiled code executes here, whoever did so last.
    compiled: Vec<(MethodId, Tier)>,
    /// Native methods that the graph names at invokes where none was seen.
    named: Vec<(Node, MethodId)>,
    /// Asked for the callees of invokes that a fill goes past without one, and what came of it.
    filler: &'k dyn Filler,
    called: HashMap<Node, Option<Vec<Node>>>,
}

impl Landing<'_> {
    /// Has compiled code execute `method`, as it did elsewhere. `false` where it never did, or does already.
    fn compile(&mut self, method: MethodId) -> bool {
        let new = !self.compiled.iter().any(|c| c.0 == method);
        let tier = noted(&self.known.compiled, method).filter(|_| new);
        self.compiled.extend(tier.map(|tier| (method, tier)));
        tier.is_some()
    }
    /// Has `site` call a native method that the graph names there and that was called elsewhere. `false` where there is none.
    fn name(&mut self, site: Node) -> bool {
        let named = |native: &MethodId| self.icfg.may_call_method(site, *native);
        let native = self.known.natives.values().copied().filter(named).min_by_key(|native| native.0);
        self.named.extend(native.map(|native| (site, native)));
        native.is_some()
    }
    /// What a callee of `site` executes, if there is one.
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

/// Events held back until it is known what stands in their place.
#[derive(Debug, Default)]
struct Pending {
    events: Vec<Event>,
    /// Which place it is; `None` where frames are found that may be those below.
    place: Option<usize>,
}

/// Replays one thread.
pub(crate) struct Replay<'r> {
    icfg: &'r Icfg,
    places: &'r [Place],
    next_place: usize,
    filler: &'r mut dyn Filler,
    sink: Box<dyn FlowSink + Send>,
    /// Fills are told as runs.
    runs: bool,
    known: Known,
    stack: Stack<'r>,
    /// How many of the frames the decoder knows itself; they are the innermost.
    own: usize,
    /// Number of the next event.
    number: u64,
    pending: Option<Pending>,
    /// The last confidence given.
    confidence: f32,
    /// Where the last gap began, and the last time told.
    gap: (Core, StreamOffset),
    now: Option<Tsc>,
    out: Vec<Event>,
    figures: Figures,
    filling: Duration,
}

impl<'r> Replay<'r> {
    /// For a thread with these places, whose flow goes on to the sink, in runs or bytecode by bytecode.
    pub(crate) fn new(
        icfg: &'r Icfg,
        known: Known,
        places: &'r [Place],
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
            stack: Stack::new(icfg),
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
    /// The thread's next events.
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
    /// Follows the first of `events` that go on as they are, with nothing in front of them or in their place. How many there are.
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
    /// The thread's next event.
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
    /// The flow is over. Gives the figures, and how long filling took.
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
    /// Whether all frames on the stack are ones that the decoder does not know.
    fn has_others(&self) -> bool {
        self.own == 0 && !self.stack.frames().is_empty()
    }
    /// An event of the decoder's as it is.
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
    /// Whether the frames on the stack, none of which the decoder knows, are not those that it goes on in.
    fn contradicts(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Enter { entry, .. } => *entry == Entry::Found,
            EventKind::Leave { method, .. }
            | EventKind::Bytecode { method, .. }
            | EventKind::Run { method, .. } => self.is_other(*method),
            // Whose it is nobody knows, and where that frame stands afterwards.
            EventKind::Orphan(_) => true,
            EventKind::Catch { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Time(_)
            | EventKind::Gap(_) => false,
        }
    }
    fn is_other(&self, method: MethodId) -> bool {
        self.stack.frames().last().is_none_or(|top| top.method != method)
    }
    /// Follows an event of the decoder's.
    fn follow(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Enter { method, tier, .. } => {
                self.known.executed(*method, *tier);
                self.own += 1;
            }
            EventKind::Leave { .. } => self.own = self.own.saturating_sub(1),
            EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } => {
                if self.is_other(*method) {
                    // A frame whose beginning nobody told.
                    self.own = 1;
                }
                self.figures.decoded += kind.bytecodes();
            }
            EventKind::Time(tsc) => self.now = Some(*tsc),
            EventKind::Catch { .. }
            | EventKind::Unresolved { .. }
            | EventKind::Orphan(_)
            | EventKind::Gap(_) => {}
        }
        self.stack.follow(kind);
        self.own = self.own.min(self.stack.frames().len());
    }
    /// Frames that nobody will tell the end of, unless the decoder still knows some above them.
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
    /// The frames on the stack are not those that follow.
    fn give_up(&mut self) {
        self.leave_others();
        self.out.push(recovered(self.leads_nowhere(), self.confidence));
        self.figures.given_up += 1;
    }
    /// The gap in front of what no frames lead to.
    fn leads_nowhere(&self) -> EventKind {
        EventKind::Gap(Box::new(Gap {
            reason: GapReason::Reconstruct("what was recovered before does not lead here".into()),
            core: self.gap.0,
            offset: self.gap.1,
            address: None,
            since: self.now,
            until: self.now,
            bytes: None,
            stack_lost: true,
        }))
    }
    /// Looks for a fill in the place of `pending`, in front of `next`, and leads the frames through it: the events of the place, and those
    /// that stand there instead. `None` where there is none: nothing was done.
    fn fill<'p>(&mut self, pending: &'p Pending, next: &Event) -> Option<(Stretch<'p>, Vec<Event>)> {
        let (stretch, to) = Stretch::of(&pending.events, next, self.icfg)?;
        let fill = match pending.place {
            None => Fill::default(),
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
    fn question(&self, index: usize, before: Sites, entered: Option<MethodId>) -> Question {
        Question { index, before, entered: entered.and_then(|method| self.icfg.entry(method)) }
    }
    /// What a fill leads to in front of `to`; `None` where no frames lead there.
    fn joined(&self, stretch: &Stretch<'_>, fill: &Fill, to: Node) -> Option<Joined<'r>> {
        let mut stack = self.stack.clone();
        stretch.before.iter().for_each(|e| stack.follow(&e.kind));
        let own = stretch.before.iter().fold(self.own, |own, e| match e.kind {
            EventKind::Enter { .. } => own + 1,
            EventKind::Leave { .. } => own.saturating_sub(1),
            _ => own,
        });
        let mut arrival = stretch.arrival.clone();
        let mut own_behind = arrival.len();
        if stretch.keeps_frames {
            // The decoder knows the frames in front of the gap for those behind it.
            let frames = stack.frames();
            let kept = frames[frames.len().saturating_sub(own)..].iter().map(|f| (f.method, f.tier));
            arrival = kept.chain(arrival).collect();
            own_behind = arrival.len();
        }
        let (compiled, named, called) = (Vec::new(), Vec::new(), HashMap::new());
        let filler = &*self.filler;
        let mut methods =
            Landing { icfg: self.icfg, known: &self.known, last: None, compiled, named, filler, called };
        let mut breaks: Vec<usize> = fill.broken.into_iter().collect();
        let most = if fill.breaks { BREAKS } else { 0 };
        // Once more with the methods compiled that the first pass found to be, more than that needs who stands below; and with a gap
        // where no frames lead on.
        loop {
            methods.last = None;
            let known = methods.compiled.len();
            let way = Way {
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
                    return Some(Joined { stack, own: own_behind, events, broken: breaks.len() as u64 });
                }
                Err(at) if breaks.len() < most && !breaks.contains(&at) => breaks.push(at),
                Err(_) => return None,
            }
        }
    }
    fn put(&mut self, stretch: Stretch<'_>, mut events: Vec<Event>) {
        // The fill has the orphans.
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
        // What was told of time holds for what follows.
        self.out.extend(stretch.lost.iter().filter(|e| is_time(e)).cloned());
    }
}

/// What stands in a place, with how sure it is.
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

/// An orphan: the opcode, and which way a branch went.
type Symbol = (Opcode, Option<bool>);

/// Bytecodes that ran at a place and have none of their own.
#[derive(Debug, Default)]
struct Orphans {
    /// In front of the gap.
    first: Vec<Symbol>,
    /// Between gaps.
    between: Vec<Vec<Symbol>>,
    /// Behind them.
    last: Vec<Symbol>,
}

impl Orphans {
    /// Those among `events`; `None` where one throws: a fill does not say where an exception came from.
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
            // Frames that may be those below: nothing ran.
            return first.is_empty().then(Self::default);
        };
        Some(Self { first, between: runs.filter(|run| !run.is_empty()).collect(), last })
    }
    /// Whether `fill`, in front of `to`, begins and ends with them, and those between gaps come in it in their order.
    fn admit(&self, fill: &Fill, to: Node, icfg: &Icfg) -> bool {
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

/// What leads from the frames in front of a place to those behind it.
struct Way<'w> {
    fill: &'w Fill,
    /// The instruction behind the place, and its innermost frames there.
    to: Node,
    arrival: &'w [(MethodId, Tier)],
    /// The instructions of the fill, or the one behind it, that no frames lead to, and the gap that stands there.
    breaks: &'w [usize],
    /// Whether events may be runs.
    runs: bool,
    nowhere: &'w EventKind,
}

impl Way<'_> {
    /// Has `stack` execute the fill and go on: the events in front of the instruction behind the place. Where
    /// [`Landing::compiled`] is longer behind that than before, it has to be asked once more.
    ///
    /// # Errors
    /// The first instruction that no frames lead to.
    fn lead<'a>(&self, mut stack: Stack<'a>, methods: &mut Landing<'_>) -> Result<Led<'a>, usize> {
        let Fill { nodes, confidence, .. } = self.fill;
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
    /// How many instructions of the fill, from `at` on and before `end`, lead from one to the next wherever they are executed.
    fn straight(&self, icfg: &Icfg, at: usize, end: usize) -> usize {
        let breaks = self.breaks.iter().filter(|to| **to > at).map(|to| to - at);
        // Code goes on behind the end of a method only where a transfer does.
        breaks.fold(straight(icfg, &self.fill.nodes[at..end]), usize::min)
    }
    /// Nobody knows how the thread came here: all frames are given up.
    fn break_off(&self, stack: &mut Stack<'_>, sure: f32, all: &mut Vec<Event>) {
        all.extend(stack.given_up().chain([self.nowhere.clone()]).map(|kind| recovered(kind, sure)));
        stack.forget();
    }
}

/// The frames behind a place, and the events in it.
type Led<'a> = (Stack<'a>, Vec<Event>);

/// Has `stack` go on to `to`: appends the events in front of it to the last list, and those of callees that had to be called first, with
/// their confidences, to the other one, which takes what stood in the last. Callees that lack one themselves get it, up to `depth` inside
/// each other.
fn reach(
    stack: &mut Stack<'_>,
    (to, sure): (Node, f32),
    methods: &mut Landing<'_>,
    depth: usize,
    (all, kinds): (&mut Vec<Event>, &mut Vec<EventKind>),
) -> Result<(), NoWay> {
    let mut tried = None;
    loop {
        let site = match stack.advance(to, methods, kinds) {
            Err(NoWay::Interpreted { method, .. }) if methods.compile(method) => {
                // Only to find what else there is: all of it is done once more.
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
        // Up to the site all is as it has to be: a class initialiser that the invoke needed has returned, for example.
        all.extend(kinds.drain(..).map(|kind| recovered(kind, sure)));
        let sure = sure.min(CALLEE);
        for node in callee {
            reach(stack, (node, sure), methods, depth - 1, (all, kinds))?;
            stack.execute(node, kinds);
            all.extend(kinds.drain(..).map(|kind| recovered(kind, sure)));
        }
    }
}

/// Both ends of a place with a fill between them.
struct Joined<'a> {
    /// The frames behind it.
    stack: Stack<'a>,
    /// How many of them the decoder knows.
    own: usize,
    /// The events that stand in its place.
    events: Vec<Event>,
    /// How many gaps are among them.
    broken: u64,
}

/// The events of a place.
struct Stretch<'e> {
    /// Those that still tell what happened.
    before: &'e [Event],
    /// Frames given up, gaps, frames found.
    lost: &'e [Event],
    /// The frames found: method and executor, outermost first.
    arrival: Vec<(MethodId, Tier)>,
    /// The method of the frame that was found last and has returned since, before any instruction of it was known.
    returned: Option<MethodId>,
    /// Whether the decoder's frames stay what they are.
    keeps_frames: bool,
    orphans: Orphans,
}

impl<'e> Stretch<'e> {
    /// Sorts the events in front of `next`, and gives the instruction of that. `None` where they say more than that
    /// something is missing: what they say would be lost.
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
        // Whatever frame the instruction is in, its executor is known.
        match arrival.last_mut() {
            Some(last) => last.1 = tier,
            None if !keeps_frames => arrival.push((method, tier)),
            None => {}
        }
        let orphans = Orphans::among(events)?;
        Some((Self { before, lost, arrival, returned, keeps_frames, orphans }, to))
    }
    /// The method that has been called in front of the gap, of which nothing was executed there.
    fn entered(&self) -> Option<MethodId> {
        let mut entered = Vec::new();
        for event in self.before {
            match &event.kind {
                // Replaced frames go on where they stood.
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
    /// Whether `fill` ends as what is known of the gap's end has it: with the orphans, and with the end of the frame that was seen to
    /// return.
    fn admits(&self, fill: &Fill, to: Node, known: &Known, icfg: &Icfg) -> bool {
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
#[path = "replay_tests.rs"]
mod tests;
