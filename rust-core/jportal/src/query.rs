// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What to decode of a capture, and how gaps are treated.

use std::num::NonZeroUsize;
use std::sync::Arc;

use jportal_analyses::execution::Listener;
use jportal_analyses::original::Restored;
use jportal_analyses::{Execution, Unrolled};
use jportal_bytecode::SharedIcfg;
use jportal_flow::{Analysis, FlowConsumer, ThreadInfo, relayed, run_on};
use jportal_infer::place::Projector;
use jportal_infer::replay::{Completion, Storage};
use jportal_infer::{place, replay};
use jportal_reconstruct::{
    DecodeOptions, DecodeSummary, MachineDecoder, MachineStep, Positions, Recording, StateObservers, Watch,
};
use jportal_units::{Tid, Tsc};

use crate::window::{Bounds, WindowConsumer};
use crate::{Bound, Capture, Error};

/// How to place orphans: interpreted bytecodes whose frame is older than a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// Do not place them: only their opcode is known.
    Nothing,
    /// Algorithm 1 of the JPortal paper: try every place.
    Enumerate,
    /// Algorithm 2 of the paper: try every place on an abstraction first.
    Guided,
    /// JPortal's own: look up the part of a segment that has the fewest possible places.
    #[default]
    Indexed,
}

/// How to fill gaps with the bytecodes that likely ran there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fill {
    /// Do not fill: a gap stays a gap.
    #[default]
    Nothing,
    /// Algorithm 3 of the JPortal paper.
    Basic,
    /// Algorithm 4 of the paper.
    Tiered,
    /// JPortal's own: continue as the run itself did in the same context, for the duration of
    /// the gap.
    Follow,
}

/// What [`Query::run`] returns.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer<A> {
    /// The analysis, with all threads merged.
    pub analysis: A,
    /// Figures of the decode.
    pub summary: DecodeSummary,
    /// Which share of the threads' execution the flow covers. `None` for a
    /// [part](Query::between) of the recording, and if the analysis ended the decode early.
    pub execution: Option<Execution>,
    /// Figures of placing, if orphans were placed.
    pub placed: Option<place::Summary>,
    /// Figures of filling, if gaps were filled.
    pub filled: Option<replay::Summary>,
}

/// A part of a capture's flow, and how to decode it.
#[must_use = "a query does nothing until it is run"]
pub struct Query<'c> {
    capture: &'c Capture,
    options: DecodeOptions,
    place: Place,
    fill: Fill,
    bounds: Bounds,
    cold: bool,
    progress: Box<dyn FnMut(u64, u64) + 'c>,
}

impl std::fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query")
            .field("options", &self.options)
            .field("place", &self.place)
            .field("fill", &self.fill)
            .field("bounds", &self.bounds)
            .field("cold", &self.cold)
            .finish_non_exhaustive()
    }
}

impl<'c> Query<'c> {
    pub(crate) fn new(capture: &'c Capture) -> Self {
        Self {
            capture,
            options: DecodeOptions::default(),
            place: Place::default(),
            fill: Fill::default(),
            bounds: Bounds::default(),
            cold: false,
            progress: Box::new(|_, _| {}),
        }
    }
    /// Only threads with one of these names or OS thread ids. An empty list selects all threads.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    pub fn threads<S: AsRef<str>>(mut self, wanted: &[S]) -> Result<Self, Error> {
        let mut chosen = Vec::new();
        for want in wanted {
            chosen.extend(self.capture.threads(want.as_ref())?);
        }
        self.options.only = Some(chosen).filter(|_| !wanted.is_empty());
        Ok(self)
    }
    /// Only these threads, by OS thread id and start.
    pub fn only(mut self, threads: Vec<(Tid, Tsc)>) -> Self {
        self.options.only = Some(threads);
        self
    }
    /// Only the events between two bounds. A flow that begins later than the recording begins
    /// with the frames on the stack.
    pub fn between(self, from: Option<Bound>, to: Option<Bound>) -> Self {
        Self { bounds: Bounds { from, to }, ..self }
    }
    /// Does not decode the trace before the [part](Self::between), which must begin at a time. The
    /// frames that are open there are not known: each flow that has begun earlier begins with a gap
    /// ([`GapReason::LeftOut`](jportal_flow::GapReason)). Only with [`MachineDecoder::Own`].
    pub fn cold(self) -> Self {
        Self { cold: true, ..self }
    }
    /// Which decoder turns packets into machine blocks.
    pub fn machine_decoder(mut self, decoder: MachineDecoder) -> Self {
        self.options.native_decoder = decoder;
        self
    }
    /// Where the positions in compiled code come from.
    pub fn positions(mut self, positions: Positions) -> Self {
        self.options.positions = positions;
        self
    }
    /// The number of threads that decode; by default, as many as the machine has processors. The
    /// answer does not depend on it. Filling gaps takes further threads.
    pub fn jobs(mut self, jobs: NonZeroUsize) -> Self {
        self.options.jobs = Some(jobs);
        self
    }
    /// Leaves out the trace of threads of which the analysis has enough, and trace after the end of
    /// the [part](Self::between). The analysis sees the same. The figures of the decode then cover
    /// what was decoded.
    pub fn leave_out(mut self) -> Self {
        self.options.leave_out = true;
        self
    }
    /// With [`Self::leave_out`]: also leaves out the trace of threads that cannot run bytecodes, as
    /// those of the garbage collector, C1 and C2. The analysis sees nothing of them, not even gaps.
    pub fn leave_out_vm_threads(mut self) -> Self {
        self.options.leave_out_vm_threads = true;
        self
    }
    /// Observers of the compiled code of the selected threads.
    pub fn observers(mut self, observers: Arc<dyn StateObservers>) -> Self {
        self.options.observers = Some(observers);
        self
    }
    /// How to place orphans.
    pub fn place(self, place: Place) -> Self {
        Self { place, ..self }
    }
    /// How to fill gaps. If they are filled, an analysis receives one thread after the other when
    /// everything is decoded.
    pub fn fill(self, fill: Fill) -> Self {
        Self { fill, ..self }
    }
    /// Called from time to time with the bytes of trace decoded so far, and with all of them.
    pub fn progress(self, progress: impl FnMut(u64, u64) + 'c) -> Self {
        Self { progress: Box::new(progress), ..self }
    }

    /// Decodes the trace and runs an analysis on the flow. Tuples run several.
    ///
    /// # Errors
    /// When the capture cannot be read, or the temporary files for filling cannot be written.
    /// Trace that cannot be decoded is a gap in the flow.
    pub fn run<A: Analysis>(mut self, analysis: A) -> Result<Answer<A>, Error> {
        self.options.since = self.since()?;
        self.check_bounds()?;
        // An analysis that has enough of all selected threads ends the decode.
        let threads = self.options.only.as_ref().map(Vec::len);
        let (analysis, decoded) = run_on(threads, analysis, |to| self.decode(to));
        let Decoded { summary, execution, placed, filled } = decoded?;
        let execution = execution.filter(|_| self.bounds.is_whole());
        Ok(Answer { analysis, summary, execution, placed, filled })
    }

    /// The machine's steps around one event of a thread's flow, without placing and filling.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn steps_around(mut self, watch: Watch) -> Result<Vec<MachineStep>, Error> {
        let steps = self.recording().steps_around(watch, &self.options, &mut self.progress);
        steps.map_err(|source| Error::Decode { path: self.capture.path().to_owned(), source })
    }

    fn recording(&self) -> &'c Recording {
        self.capture.recording()
    }

    /// The time since which trace is decoded, for a cold start.
    fn since(&self) -> Result<Option<Tsc>, Error> {
        let can = self.options.native_decoder == MachineDecoder::Own && self.fill == Fill::Nothing;
        match self.bounds.from {
            _ if !self.cold => Ok(None),
            Some(Bound::Time(tsc)) if can => Ok(Some(tsc)),
            _ => Err(Error::Cold),
        }
    }

    fn check_bounds(&self) -> Result<(), Error> {
        let threads = self.options.only.as_ref();
        let threads = threads.map_or_else(|| self.recording().image().threads.iter().count(), Vec::len);
        if self.bounds.number_events() && threads != 1 {
            return Err(Error::EventsOfSeveralThreads { threads });
        }
        Ok(())
    }

    /// Decodes, places and fills; `to` receives the flow.
    fn decode(&mut self, to: &mut dyn FlowConsumer) -> Result<Decoded, Error> {
        let visits = Arc::new(self.capture.visits());
        let mut restored;
        let to: &mut dyn FlowConsumer = match self.capture.original() {
            Some(original) => {
                restored = Restored::new(Arc::clone(original), to);
                &mut restored
            }
            None => to,
        };
        let mut window = WindowConsumer::new(self.bounds, to);
        let methods = || Arc::new(self.recording().methods().clone());
        let mut unrolled;
        // Filling works with runs.
        let to: &mut dyn FlowConsumer = if self.fill == Fill::Nothing || window.takes_runs() {
            &mut window
        } else {
            unrolled = Unrolled::new(methods(), &mut window);
            &mut unrolled
        };
        let mut shown = Listener::new(Arc::clone(&visits), to);
        let Some(method) = self.fill.method() else {
            let (summary, placed) = self.place_orphans(None, &mut shown)?;
            let heard = shown.heard();
            let ended_early = shown.has_enough() || summary.enough;
            let execution = (!ended_early).then(|| Execution::new(&visits, &heard, &heard));
            return Ok(Decoded { summary, execution, placed, filled: None });
        };
        let open = |_: &ThreadInfo| Ok(Box::new(tempfile::tempfile()?) as Box<dyn Storage>);
        let on_core = Arc::clone(&visits);
        let clock = move |thread: &ThreadInfo, time: Tsc| {
            on_core.ticks((thread.tid.get(), thread.started.get()), time.get())
        };
        let path = self.capture.path().to_owned();
        std::thread::scope(|scope| {
            // The decoder need not wait for the graph.
            let icfg = SharedIcfg::build(scope, self.recording().methods());
            let settings = replay::CompletionSettings::with(method);
            let completion = Completion::new(icfg.clone(), settings, open);
            let mut completion = completion.timed_by(Arc::new(clock)).in_runs();
            let mut decoded = Listener::new(Arc::clone(&visits), &mut completion);
            let (summary, placed) = self.place_orphans(Some(icfg), &mut decoded)?;
            let decoded = decoded.heard();
            let filled = relayed(&mut shown, |to| completion.finish(to));
            let filled = filled.map_err(|source| Error::Fill { path, source })?;
            let execution = Some(Execution::new(&visits, &decoded, &shown.heard()));
            Ok(Decoded { summary, execution, placed, filled: Some(filled) })
        })
    }

    /// Decodes and places orphans. Builds the graph of the methods if it is needed and `icfg` is
    /// `None`.
    fn place_orphans(
        &mut self,
        icfg: Option<SharedIcfg>,
        to: &mut dyn FlowConsumer,
    ) -> Result<(DecodeSummary, Option<place::Summary>), Error> {
        let recording = self.recording();
        // Filling learns from the threads in the order in which their events arrive.
        let in_order = icfg.is_some();
        let (options, progress) = (&DecodeOptions { in_order, ..self.options.clone() }, &mut self.progress);
        let mut decode = |to: &mut dyn FlowConsumer| recording.decode(options, to, progress);
        let failed = |source| Error::Decode { path: self.capture.path().to_owned(), source };
        let Some(method) = self.place.method() else {
            return Ok((decode(to).map_err(failed)?, None));
        };
        let settings = place::PlacementSettings::new(method);
        let mut projector = match icfg {
            Some(icfg) => Projector::on(icfg, settings, to),
            None => Projector::new(Arc::new(recording.methods().clone()), settings, to),
        };
        let summary = if in_order { relayed(&mut projector, decode) } else { decode(&mut projector) };
        let summary = summary.map_err(failed)?;
        Ok((summary, Some(projector.summary())))
    }
}

/// The figures of one decode.
struct Decoded {
    summary: DecodeSummary,
    execution: Option<Execution>,
    placed: Option<place::Summary>,
    filled: Option<replay::Summary>,
}

impl Place {
    const fn method(self) -> Option<place::Method> {
        match self {
            Self::Nothing => None,
            Self::Enumerate => Some(place::Method::Enumerate),
            Self::Guided => Some(place::Method::Guided),
            Self::Indexed => Some(place::Method::Indexed),
        }
    }
}

impl Fill {
    fn method(self) -> Option<replay::FillMethod> {
        match self {
            Self::Nothing => None,
            Self::Basic => Some(replay::FillMethod::Basic(Default::default())),
            Self::Tiered => Some(replay::FillMethod::Tiered(Default::default())),
            Self::Follow => Some(replay::FillMethod::Follow(Default::default())),
        }
    }
}
