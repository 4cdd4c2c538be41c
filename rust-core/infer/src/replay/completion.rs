// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The consumer of a decode pass, and the completion of its flows after the decode.

use crate::Error;
use crate::cut::{Cutter, Piece};
use crate::fill::{
    Calibration, Captured, Follower, Learned as Patterns, Parameters, Rehearsal, SegmentId, Settings, Walker,
};
use crate::project::paths::Below;
use crate::replay::filler::{Chosen, FillMethod, Filler, Followed};
use crate::replay::holes::{GapPlace, Learned, Places};
use crate::replay::replayer::{MethodKnowledge, Replay};
use crate::replay::spool::{Spool, Storage};
use crate::replay::summary::{Summary, ThreadFigures};
use jportal_bytecode::{Icfg, SharedIcfg};
use jportal_flow::{Entry, Event, EventKind, Exit, FlowConsumer, FlowSink, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId, Tsc};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Instant;

/// How flows are completed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompletionSettings {
    /// How gaps are filled.
    pub method: FillMethod,
    /// The maximum number of instructions to learn from, of all threads together. Beyond it,
    /// only some thousand instructions on both sides of each gap are kept;
    /// [`Summary::not_learned`] counts the others.
    pub longest_captured: usize,
    /// The number of gaps to cut into the captured flow, to calibrate the confidences of
    /// [`FillMethod::Follow`]. 0: they are not calibrated.
    pub rehearsals: usize,
}

impl CompletionSettings {
    /// The default settings for a method.
    pub const fn with(method: FillMethod) -> Self {
        Self { method, longest_captured: 1 << 28, rehearsals: 48 }
    }
}

/// The maximum number of instructions of a segment. Longer stretches are cut, so that they can
/// be handed over during the decode, and so that the frames at a place of the rehearsal can be
/// followed from the beginning of its segment.
const SEGMENT: usize = 1 << 18;

/// Opens the storage for the events of a thread.
pub type Open<'o> = dyn FnMut(&ThreadInfo) -> io::Result<Box<dyn Storage>> + 'o;

/// The ticks for which a thread has had a core, up to a time. A thread that sleeps or waits for
/// a core executes nothing, so this bounds how much it may have executed in a gap.
pub type Clock = Arc<dyn Fn(&ThreadInfo, Tsc) -> u64 + Send + Sync>;

/// Takes the flows of all threads and passes them on with their gaps filled; see the
/// documentation of the crate.
pub struct Completion<'o> {
    icfg: SharedIcfg,
    settings: CompletionSettings,
    clock: Clock,
    runs: bool,
    open: Box<Open<'o>>,
    shared: Arc<Mutex<CompletionState>>,
}

/// The state that all sinks write to.
#[derive(Default)]
struct CompletionState {
    learned: Learned,
    known: MethodKnowledge,
    /// In the order in which their flows began. `None`: the flow has not ended.
    threads: Vec<(ThreadInfo, Option<EndedFlow>)>,
    error: Option<Error>,
}

/// A thread whose flow has ended.
struct EndedFlow {
    spool: Spool,
    places: Vec<GapPlace>,
}

fn lock(shared: &Mutex<CompletionState>) -> MutexGuard<'_, CompletionState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'o> Completion<'o> {
    /// For flows of the methods of `icfg`, which the sinks wait for at their first events.
    /// `open` gives each thread the storage for its events, for example a nameless temporary
    /// file: about two bytes per event.
    pub fn new(
        icfg: impl Into<SharedIcfg>,
        settings: CompletionSettings,
        open: impl FnMut(&ThreadInfo) -> io::Result<Box<dyn Storage>> + 'o,
    ) -> Self {
        let clock: Clock = Arc::new(|_, time| time.get());
        let icfg = icfg.into();
        Self { icfg, settings, clock, runs: false, open: Box::new(open), shared: Arc::default() }
    }
    /// Takes the lengths of gaps from `clock`; without it, they are taken from the times of the
    /// flows.
    #[must_use]
    pub fn timed_by(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }
    /// Accepts flows with [runs](EventKind::Run) of bytecodes. [`Self::finish`] then passes
    /// runs on as well, so its consumer must take them.
    #[must_use]
    pub fn in_runs(self) -> Self {
        Self { runs: true, ..self }
    }
    /// Whether an error occurred. If so, the rest of the decode is of no use.
    pub fn has_failed(&self) -> bool {
        lock(&self.shared).error.is_some()
    }
    /// Fills the gaps of all flows, which have ended, and passes the flows to `consumer`: one
    /// thread after the other, in the order in which their flows began.
    ///
    /// # Errors
    /// The first error of any thread: its events could not be written or not be read again.
    /// What `consumer` received before the error is incomplete.
    pub fn finish(self, consumer: &mut dyn FlowConsumer) -> Result<Summary, Error> {
        let CompletionState { learned, known, threads, error } = std::mem::take(&mut *lock(&self.shared));
        if let Some(error) = error {
            return Err(error);
        }
        let mut all = Vec::new();
        for (info, thread) in threads {
            let tid = info.tid.0;
            all.push((info, thread.ok_or(Error::Unfinished { tid })?));
        }
        let mut summary = Summary {
            method: self.settings.method.name(),
            learned: learned.captured.nodes().len() as u64,
            not_learned: learned.left_out,
            spooled_bytes: all.iter().map(|t| t.1.spool.len()).sum(),
            ..Summary::default()
        };
        let (icfg, captured) = (&**self.icfg.get(), &learned.captured);
        let has_places = all.iter().any(|t| !t.1.places.is_empty());
        let patterns;
        let method = match self.settings.method {
            // Without a place to fill, the tables are not needed.
            FillMethod::Follow(settings) if has_places => {
                let places = all.iter().flat_map(|t| &t.1.places);
                let (learnt, calibration) = self.learn(settings, &learned, places, &mut summary);
                patterns = learnt;
                let follower = Follower::new(icfg, captured, &patterns, settings);
                Learnt::Follow(Box::new(follower), Box::new(calibration))
            }
            FillMethod::Follow(_) => Learnt::Choose(false, Parameters::default()),
            FillMethod::Basic(parameters) => Learnt::Choose(false, parameters),
            FillMethod::Tiered(parameters) => Learnt::Choose(true, parameters),
        };
        for (info, thread) in all {
            let begin = Instant::now();
            let sink = (consumer.thread(&info), self.runs);
            let EndedFlow { spool, places } = thread;
            let (figures, filling, work) = std::thread::scope(|scope| {
                let mut filler = method.filler(icfg, captured, &places, scope);
                let mut replay = Replay::new(icfg, known.clone(), &places, &mut *filler, sink);
                spool.read(|events| replay.events(events))?;
                let (figures, filling) = replay.end();
                Ok::<_, Error>((figures, filling, filler.work()))
            })?;
            summary.work.add(&work);
            summary.seconds.filling += filling.as_secs_f64();
            summary.seconds.replaying += begin.elapsed().saturating_sub(filling).as_secs_f64();
            summary.total.add(&figures);
            let (tid, started, name) = (info.tid.0, info.started.0, info.name);
            summary.threads.push(ThreadFigures { tid, started, name, figures });
        }
        Ok(summary)
    }
    /// Learns from the captured instructions, and calibrates the confidences on cut gaps that
    /// took as long as the run's own gaps.
    fn learn<'p>(
        &self,
        settings: Settings,
        learned: &Learned,
        places: impl Iterator<Item = &'p GapPlace>,
        summary: &mut Summary,
    ) -> (Patterns, Calibration) {
        let begin = Instant::now();
        let (icfg, captured) = (&**self.icfg.get(), &learned.captured);
        let times: Vec<u64> = places.filter_map(|place| place.hole?.time).filter(|time| *time > 0).collect();
        let rehearsal = Rehearsal::new(captured, &times, self.settings.rehearsals);
        let patterns = Patterns::new(icfg, rehearsal.cut()).with_lengths(rehearsal.lengths());
        summary.seconds.learning = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let first = |segment: SegmentId| {
            learned.first.get(segment.0 as usize).map_or(Below::Unknown, |sites| sites.below())
        };
        let tally = rehearsal.run(icfg, captured, &first, &patterns, settings);
        summary.rehearsed = (tally.gaps, tally.filled);
        summary.seconds.rehearsing = begin.elapsed().as_secs_f64();
        (patterns, Calibration::of(&tally))
    }
}

/// A method of filling, prepared with the captured instructions.
enum Learnt<'a> {
    Follow(Box<Follower<'a>>, Box<Calibration>),
    /// `true`: Algorithm 4; `false`: Algorithm 3.
    Choose(bool, Parameters),
}

impl Learnt<'_> {
    /// The filler for the places of one thread; its helper threads run in `scope`.
    fn filler<'a: 's, 's>(
        &'a self,
        icfg: &'a Icfg,
        captured: &'a Captured,
        places: &'a [GapPlace],
        scope: &'s Scope<'s, '_>,
    ) -> Box<dyn Filler + 'a> {
        match self {
            Self::Follow(follower, calibration) => {
                Box::new(Followed::new(follower, calibration, places, scope))
            }
            Self::Choose(tiered, parameters) => {
                Box::new(Chosen::new(captured, places, *tiered, Walker::new(icfg), *parameters))
            }
        }
    }
}

impl FlowConsumer for Completion<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let mut shared = lock(&self.shared);
        let slot = shared.threads.len();
        shared.threads.push((info.clone(), None));
        let spool = match (self.open)(info) {
            Ok(storage) => Some(Spool::new(info.tid.0, storage)),
            Err(source) => {
                shared.error.get_or_insert(Error::Open { tid: info.tid.0, source });
                None
            }
        };
        let (info, longest) = (info.clone(), self.settings.longest_captured);
        let (clock, shared, icfg) = (Arc::clone(&self.clock), Arc::clone(&self.shared), self.icfg.clone());
        let make = move || Sink {
            slot,
            info,
            clock,
            longest,
            shared,
            icfg: Arc::clone(icfg.get()),
            spool,
            cutter: Cutter::with_longest(Arc::clone(icfg.get()), SEGMENT),
            places: Places::default(),
            known: MethodKnowledge::default(),
            last: None,
            entered: None,
            lately: Box::new([None; LATELY]),
        };
        Box::new(Late { make: Some(make), sink: None })
    }
    fn takes_runs(&self) -> bool {
        self.runs
    }
}

/// A sink that is made at the first event: it needs the graph, and the producer of the events
/// must not wait for the graph before.
struct Late<F> {
    /// `None` once the sink has been made.
    make: Option<F>,
    sink: Option<Box<Sink>>,
}

impl<F: FnOnce() -> Sink> Late<F> {
    fn sink(&mut self) -> Option<&mut Box<Sink>> {
        if let Some(make) = self.make.take() {
            self.sink = Some(Box::new(make()));
        }
        self.sink.as_mut()
    }
}

impl<F: FnOnce() -> Sink> FlowSink for Late<F> {
    fn events(&mut self, events: &[Event]) {
        self.sink().into_iter().for_each(|sink| sink.events(events));
    }
    fn end(mut self: Box<Self>) {
        self.sink();
        self.sink.into_iter().for_each(|sink| sink.end());
    }
}

/// Takes the flow of one thread.
struct Sink {
    slot: usize,
    info: ThreadInfo,
    clock: Clock,
    longest: usize,
    shared: Arc<Mutex<CompletionState>>,
    icfg: Arc<Icfg>,
    /// `None` after an error.
    spool: Option<Spool>,
    cutter: Cutter<Arc<Icfg>>,
    places: Places,
    known: MethodKnowledge,
    /// The position of the last event, if that was a bytecode.
    last: Option<(MethodId, Bci)>,
    /// The method that the last event called in the interpreter.
    entered: Option<MethodId>,
    /// Calls that have been noted, by call site: most calls are repeated.
    lately: Box<[Option<Call>; LATELY]>,
}

/// A call site and its callee.
type Call = ((MethodId, Bci), MethodId);

/// The number of calls in [`Sink::lately`].
const LATELY: usize = 1 << 11;

impl Sink {
    fn take(&mut self, event: &Event) -> Result<(), Error> {
        let Some(spool) = &mut self.spool else { return Ok(()) };
        spool.write(event)?;
        self.cutter.event(event);
        let (last, entered) = (self.last.take(), self.entered.take());
        match event.kind {
            EventKind::Bytecode { method, bci: last, .. } | EventKind::Run { method, last, .. } => {
                self.last = Some((method, last));
            }
            EventKind::Enter { method, tier, entry } => {
                self.known.executed(method, tier);
                if entry == Entry::Call
                    && let Some(site) = last
                    && self.notes_call(site, method)
                {
                    self.entered = Some(method).filter(|_| tier == Tier::Interpreter);
                }
            }
            EventKind::Leave { method, exit: Exit::Return } if entered == Some(method) => {
                self.known.was_silent(&self.icfg, method);
            }
            EventKind::Time(_) => (self.last, self.entered) = (last, entered),
            _ => {}
        }
        Ok(())
    }
    /// Notes that `site` called `callee`. Returns whether `site` is an instruction of the
    /// graph.
    fn notes_call(&mut self, site: (MethodId, Bci), callee: MethodId) -> bool {
        let call = Some((site, callee));
        let lately = &mut self.lately[(site.0.0 as usize + usize::from(site.1.0)) % LATELY];
        if *lately == call {
            return true;
        }
        let Some(site) = self.icfg.node_at(site.0, site.1) else { return false };
        *lately = call;
        self.known.called(&self.icfg, site, callee);
        true
    }
    fn learn(&mut self) {
        let pieces: Vec<Piece> = self.cutter.drain().collect();
        self.add(pieces);
    }
    /// Adds the thread's next pieces.
    fn add(&mut self, pieces: Vec<Piece>) {
        let mut shared = lock(&self.shared);
        for mut piece in pieces {
            piece.retime(|time| (self.clock)(&self.info, time));
            self.places.add(&mut shared.learned, &*self.icfg, piece, self.longest);
        }
    }
    fn fail(&mut self, error: Error) {
        self.spool = None;
        lock(&self.shared).error.get_or_insert(error);
    }
}

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        if let Err(error) = events.iter().try_for_each(|e| self.take(e)) {
            self.fail(error);
        }
        self.learn();
    }
    fn end(mut self: Box<Self>) {
        if let Some(Err(error)) = self.spool.as_mut().map(Spool::close) {
            self.fail(error);
        }
        let pieces = self.cutter.finish();
        self.add(pieces);
        let Self { slot, shared, spool, places, known, .. } = *self;
        let mut shared = lock(&shared);
        shared.known.merge(known);
        let thread = spool.map(|spool| EndedFlow { spool, places: places.finish() });
        if let Some((_, ended)) = shared.threads.get_mut(slot) {
            *ended = thread;
        }
    }
}
