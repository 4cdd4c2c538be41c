// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Fills the tables.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_analyses::Inlined;
use jportal_analyses::block_trace::{Numbers, Open, Watch};
use jportal_bytecode::{MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Event, EventKind, ThreadInfo};
use jportal_units::Tsc;

use super::counts::TableCounts;
use super::events::{COLUMNS, Events};
use super::options::{Output, Partition, Table, TableOptions, ThreadKey};
use super::rows;
use super::sheet::{ColumnKind, Sheet, Spec};
use crate::Error;

/// Writes flows into Parquet tables. Events are written while they come, in row groups of bounded
/// size. Counts are bounded by the program, per thread, and written by [`TableAnalysis::finish`].
pub struct TableAnalysis<F> {
    pub(super) methods: Arc<MethodTable>,
    pub(super) inlined: Arc<Inlined>,
    pub(super) shapes: Shapes,
    pub(super) numbers: Numbers,
    pub(super) options: TableOptions,
    pub(super) open: F,
    pub(super) error: Mutex<Option<Error>>,
    pub(super) threads: Vec<Counted>,
}

/// The figures of a thread whose flow is complete.
pub(super) struct Counted {
    pub(super) key: ThreadKey,
    pub(super) info: ThreadInfo,
    pub(super) counts: TableCounts,
    pub(super) open: Open,
}

/// One thread of a [`TableAnalysis`].
pub struct TableThread {
    key: ThreadKey,
    info: ThreadInfo,
    counts: TableCounts,
    watch: Watch,
    /// The number of the next event, and the last time.
    number: u64,
    since: Option<Tsc>,
    /// Number of the first of the events that were left out, and how many.
    excluded: Option<(u64, u64)>,
    slice: Option<u64>,
    events: Option<Events>,
    failed: bool,
}

impl<F> TableAnalysis<F>
where
    F: Fn(&Partition) -> io::Result<Output>,
{
    /// For the methods of one recording. `inlined` says which methods the compilers inlined where.
    /// `open` opens a file.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>, options: TableOptions, open: F) -> Self {
        let (shapes, numbers) = (Shapes::new(&methods), Numbers::new(&methods));
        let (error, threads) = (Mutex::default(), Vec::new());
        Self { methods, inlined, shapes, numbers, options, open, error, threads }
    }
    /// Writes the tables of counts. Returns whether all counts are complete.
    ///
    /// # Errors
    /// The first error of any file.
    pub fn finish(mut self) -> Result<bool, Error> {
        if let Some(error) = self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        self.threads.sort_by(|a, b| (a.key, &a.info.name).cmp(&(b.key, &b.info.name)));
        rows::write(&self)
    }
    pub(super) fn sheet(&self, partition: &Partition, columns: &[Spec]) -> Result<Sheet, Error> {
        let out = (self.open)(partition)?;
        let thread = partition.thread.is_some() && self.options.thread_column;
        let specs: Vec<Spec> = thread
            .then_some(("thread", ColumnKind::Text, true))
            .into_iter()
            .chain(columns.iter().copied())
            .collect();
        Ok(Sheet::new(out, partition.table.name(), &specs)?)
    }
    /// The metadata of a file: the labels, and the pairs given.
    pub(super) fn metadata(&self, partition: &Partition, pairs: &[(&str, String)]) -> Vec<(String, String)> {
        let mut all = vec![
            ("jportal.table".to_owned(), partition.table.name().to_owned()),
            ("jportal.version".to_owned(), "1".to_owned()),
        ];
        all.extend(partition.thread.map(|key| ("jportal.thread".to_owned(), key.to_string())));
        all.extend(partition.slice.map(|n| ("jportal.time".to_owned(), n.to_string())));
        all.extend(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        all.extend(self.options.labels.iter().cloned());
        all
    }
    fn partition(key: ThreadKey, slice: Option<u64>) -> Partition {
        Partition { table: Table::Events, thread: Some(key), slice }
    }
    fn new_events(&self, t: &TableThread) -> Result<Events, Error> {
        let sheet = self.sheet(&Self::partition(t.key, t.slice), &COLUMNS)?;
        Ok(Events::new(sheet, self.options.thread_column.then(|| t.key.to_string())))
    }
    fn end_events(&self, t: &mut TableThread) -> Result<(), Error> {
        let Some(events) = t.events.take() else { return Ok(()) };
        let times = "times that the flow states before and after the event".to_owned();
        let pairs = [("jportal.column.since", times.clone()), ("jportal.column.until", times)];
        events.end(self.metadata(&Self::partition(t.key, t.slice), &pairs))
    }
    /// Passes an event to the table of events.
    fn row(&self, t: &mut TableThread, e: &Event) -> Result<(), Error> {
        let number = t.number;
        t.number += e.kind.bytecodes().max(1);
        if let EventKind::Time(tsc) = e.kind {
            t.since = Some(tsc);
            return self.time(t, tsc);
        }
        if self.options.exclude.hides_event(e) {
            let (_, n) = t.excluded.get_or_insert((number, 0));
            *n += e.kind.bytecodes().max(1);
            return Ok(());
        }
        self.settle(t)?;
        if let Some(events) = &mut t.events {
            events.event(number, t.since, e)?;
        }
        Ok(())
    }
    /// Adds a row for events that were left out.
    fn settle(&self, t: &mut TableThread) -> Result<(), Error> {
        if self.options.events && t.events.is_none() {
            t.events = Some(self.new_events(t)?);
        }
        if let (Some(events), Some((number, n))) = (&mut t.events, t.excluded.take()) {
            events.excluded(number, t.since, n);
        }
        Ok(())
    }
    fn time(&self, t: &mut TableThread, tsc: Tsc) -> Result<(), Error> {
        if t.excluded.is_some() {
            self.settle(t)?;
        }
        if let Some(events) = &mut t.events {
            events.time(tsc)?;
        }
        let slice = self.options.slices.map(|s| s.at(tsc));
        if slice > t.slice {
            self.end_events(t)?;
            t.slice = slice;
        }
        Ok(())
    }
}

impl<F> TableAnalysis<F> {
    fn fail(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl<F> Analysis for TableAnalysis<F>
where
    F: Fn(&Partition) -> io::Result<Output> + Send + Sync + 'static,
{
    type Thread = TableThread;

    fn begin(&self, info: &ThreadInfo) -> TableThread {
        TableThread {
            key: ThreadKey::of(info),
            info: info.clone(),
            counts: TableCounts::default(),
            watch: Watch::default(),
            number: 0,
            since: None,
            excluded: None,
            slice: self.options.slices.map(|s| s.at(info.started)),
            events: None,
            failed: false,
        }
    }
    fn events(&self, t: &mut TableThread, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            if !self.options.exclude.hides(e.provenance) {
                t.counts.event((&self.methods, &self.numbers), e, || t.watch.stack().top());
            }
            t.watch.event((&self.methods, &self.shapes), e, self.options.exclude);
            if self.options.events
                && let Err(error) = self.row(t, e)
            {
                self.fail(error);
                t.failed = true;
                return ControlFlow::Break(Enough::OfThread);
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut t: TableThread) {
        if t.failed {
            return;
        }
        let ended = if t.excluded.is_some() { self.settle(&mut t) } else { Ok(()) };
        if let Err(error) = ended.and_then(|()| self.end_events(&mut t)) {
            self.fail(error);
        }
        let TableThread { key, info, counts, watch, .. } = t;
        self.threads.push(Counted { key, info, counts, open: watch.end() });
    }
}

impl std::fmt::Debug for TableThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableThread").field("info", &self.info).finish_non_exhaustive()
    }
}

impl<F> std::fmt::Debug for TableAnalysis<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableAnalysis").field("options", &self.options).finish_non_exhaustive()
    }
}
