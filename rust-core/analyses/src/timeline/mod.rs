// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timelines: the activations of each thread as slices of time.
//!
//! Slices are passed to a [`TimelineSink`] while the flow is read. Memory is bounded by the depth
//! of the stacks. A slice begins at the last time before its activation and ends at the last time
//! before the activation's end, so short activations have no length. An activation that continues
//! after on-stack replacement or deoptimisation is one slice.
//!
//! Three things bound the output: which methods are wanted, the depth of a slice and its least
//! length. A sink gets the beginning of a slice once the slice is long enough, and before that of
//! every slice above it. What is left out is counted.

#[cfg(test)]
mod tests;
mod thread;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, Exclude, Exit, ThreadInfo, Tier};
use jportal_plain::table::{Align, table};
use jportal_units::{MethodId, Tsc};
use serde::Serialize;

pub use self::thread::TimelineThread;
use crate::hidden::Inexact;
use crate::names::{Names, Naming, version_text};

/// The beginning of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice<'a> {
    /// The method.
    pub method: MethodId,
    /// `class.name(descriptor)`, with the version if there are several.
    pub name: &'a str,
    /// Source file of its class; may be empty.
    pub source: &'a str,
    /// What executed the activation first.
    pub tier: Tier,
    /// How the activation began.
    pub entry: Entry,
    /// Number of frames below.
    pub depth: u32,
    /// Source line of the call, in the slice below.
    pub line: Option<u16>,
    /// The last time before.
    pub begin: Tsc,
    /// The beginning is placed or filled.
    pub inferred: bool,
}

/// The end of the slice that began last and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceEnd {
    /// The last time before.
    pub end: Tsc,
    /// How. `None`: the frames were lost, or the recording ended.
    pub exit: Option<Exit>,
    /// What executed the activation last.
    pub tier: Tier,
}

/// A gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Last time before.
    pub since: Tsc,
    /// First time after, if it is known.
    pub until: Option<Tsc>,
    /// Name of the reason.
    pub reason: &'static str,
    /// Bytes of trace that were lost, if known.
    pub bytes: Option<u64>,
}

/// Bytecodes that a thread executed between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// From.
    pub since: Tsc,
    /// To.
    pub until: Tsc,
    /// Bytecodes in the interpreter, in C1's and in C2's code.
    pub bytecodes: [u64; 3],
}

/// Receives the timeline of one thread. Times do not decrease, except for [`Self::load`], which
/// comes when its span has ended.
pub trait TimelineSink: Send {
    /// A slice begins.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()>;
    /// The slice that began last ends.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn end(&mut self, end: &SliceEnd) -> io::Result<()>;
    /// Trace is missing. If the frames were lost, all slices have ended before.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn lost(&mut self, lost: &Lost) -> io::Result<()>;
    /// What the tiers executed.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn load(&mut self, load: &Load) -> io::Result<()>;
    /// The timeline is complete.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn finish(&mut self) -> io::Result<()>;
}

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Least length of a slice, in ticks.
    pub min: u64,
    /// Greatest number of slices above each other.
    pub depth: u32,
    /// Least time between two figures of the tiers, in ticks. `None`: no figures.
    pub load: Option<u64>,
}

impl Limits {
    /// Slices of at least 100 µs, 128 above each other, and figures of the tiers every 10 ms.
    /// `tsc_khz`: ticks per millisecond.
    pub const fn new(tsc_khz: u64) -> Self {
        Self { min: tsc_khz / 10, depth: 128, load: Some(tsc_khz.saturating_mul(10)) }
    }
}

/// What was passed on and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Slices passed on.
    pub slices: u64,
    /// Of these, slices of which the beginning or the end was not seen.
    pub open: u64,
    /// Activations shorter than the least length.
    pub short: u64,
    /// Activations deeper than the greatest depth.
    pub deep: u64,
    /// Activations of methods that are not wanted.
    pub outside: u64,
    /// Gaps.
    pub gaps: u64,
}

impl Shown {
    fn merge(&mut self, other: &Self) {
        self.slices += other.slices;
        self.open += other.open;
        self.short += other.short;
        self.deep += other.deep;
        self.outside += other.outside;
        self.gaps += other.gaps;
    }
}

/// The timeline of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadTimeline {
    /// OS thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// TSC at its start.
    pub started: u64,
    /// Whether nothing is missing or inferred, apart from what the limits left out.
    pub exact: bool,
    /// The slices.
    pub shown: Shown,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Timelines {
    /// Whether nothing is missing or inferred, apart from what the limits left out.
    pub exact: bool,
    /// What the flow leaves open, in the threads shown.
    pub inexact: Inexact,
    /// The limits.
    pub limits: Limits,
    /// All slices.
    pub total: Shown,
    /// The threads, by start and then thread id.
    pub threads: Vec<ThreadTimeline>,
}

/// The names that slices need, by method.
#[derive(Debug)]
struct Labels {
    names: Box<[Box<str>]>,
    methods: Arc<MethodTable>,
    /// Methods without slices.
    outside: Box<[bool]>,
}

impl Labels {
    fn name(&self, method: MethodId) -> &str {
        self.names.get(method.get() as usize).map_or("(unknown)", |n| n)
    }
    fn is_outside(&self, method: MethodId) -> bool {
        self.outside.get(method.get() as usize).copied().unwrap_or(false)
    }
    fn source(&self, method: MethodId) -> &str {
        self.methods.get(method).map_or("", |m| &m.source_file)
    }
}

/// What all threads share.
#[derive(Debug)]
struct TimelineContext {
    labels: Labels,
    shapes: Shapes,
    limits: Limits,
    exclude: Exclude,
    error: Mutex<Option<io::Error>>,
}

impl TimelineContext {
    fn fail(&self, e: io::Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
    }
}

/// Turns flows into timelines. `F` opens the sink of a thread; `None` for a thread that is not
/// wanted.
#[derive(Debug)]
pub struct TimelineAnalysis<F> {
    shared: TimelineContext,
    open: F,
    threads: Vec<ThreadTimeline>,
    inexact: Inexact,
}

impl<F> TimelineAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Option<Box<dyn TimelineSink>>> + Send + Sync + 'static,
{
    /// For the methods of one recording.
    pub fn new(
        methods: Arc<MethodTable>,
        naming: Naming,
        (limits, exclude): (Limits, Exclude),
        open: F,
    ) -> Self {
        let all = Names::new(&methods, naming);
        let label = |n: crate::names::Name| n.qualified() + &version_text(n.version);
        let names = methods.iter().map(|m| label(all.of(m)).into()).collect();
        let shapes = Shapes::new(&methods);
        drop(all);
        let labels = Labels { names, methods, outside: Box::default() };
        let shared = TimelineContext { labels, shapes, limits, exclude, error: Mutex::new(None) };
        Self { shared, open, threads: Vec::new(), inexact: Inexact::default() }
    }
    /// Shows only the methods that are `wanted`. Frames of others are transparent: what they call
    /// lies on the slice below them.
    #[must_use]
    pub fn within(mut self, wanted: impl Fn(&Method) -> bool) -> Self {
        self.shared.labels.outside = self.shared.labels.methods.iter().map(|m| !wanted(m)).collect();
        self
    }
    /// The first error of any sink. The timeline of that thread is incomplete.
    pub fn error(&self) -> Option<io::Error> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    /// What was written.
    pub fn report(&self) -> Timelines {
        let mut threads = self.threads.clone();
        threads.sort_by_key(|t| (t.started, t.tid));
        let mut total = Shown::default();
        threads.iter().for_each(|t| total.merge(&t.shown));
        let exact = threads.iter().all(|t| t.exact);
        Timelines { exact, inexact: self.inexact.clone(), limits: self.shared.limits, total, threads }
    }
}

impl<F> Analysis for TimelineAnalysis<F>
where
    F: Fn(&ThreadInfo) -> io::Result<Option<Box<dyn TimelineSink>>> + Send + Sync + 'static,
{
    type Thread = TimelineThread;

    fn begin(&self, info: &ThreadInfo) -> TimelineThread {
        let sink = (self.open)(info).unwrap_or_else(|e| {
            self.shared.fail(e);
            None
        });
        TimelineThread::new(info, sink)
    }
    fn events(&self, thread: &mut TimelineThread, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            if thread.is_stopped() {
                return ControlFlow::Break(Enough::OfThread);
            }
            thread.event(&self.shared, e);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: TimelineThread) {
        if let Some((own, inexact)) = thread.end(&self.shared) {
            self.threads.push(own);
            self.inexact.merge(&inexact);
        }
    }
}

impl Timelines {
    /// A table of the threads, and a line that says whether the timelines are complete.
    pub fn text(&self) -> String {
        let columns = ["slices", "open", "shorter", "deeper", "gaps"].map(|name| (name, Align::Right));
        let columns = [&[("thread", Align::Left), ("tid", Align::Right)], &columns[..]].concat();
        let row = |t: &ThreadTimeline| {
            let s = &t.shown;
            let mut row = vec![t.name.clone(), t.tid.to_string()];
            row.extend([s.slices, s.open, s.short, s.deep, s.gaps].map(|n| n.to_string()));
            row
        };
        let text = table(&columns, &self.threads.iter().map(row).collect::<Vec<_>>());
        if self.exact {
            return text + "The timelines are exact.\n";
        }
        let mut parts = vec![self.inexact.stretches_text(), self.inexact.blind_text()];
        let inferred = self.inexact.projected + self.inexact.recovered;
        parts.push(if inferred > 0 { format!("{inferred} inferred events") } else { String::new() });
        parts.retain(|p| !p.is_empty());
        format!("{text}The timelines are not exact: {}.\n", parts.join(", "))
    }
}
