// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The records of all cores in one order of time, together with the records synthesised for
//! perf.

use crate::error::Error;
use crate::export::id_of;
use crate::plan::CorePlan;
use crate::time::PerfClock;
use crate::trace::Edges;
use jportal_capture::CaptureReader;
use jportal_perf_abi::record::SampleId;
use jportal_perf_abi::{Body, Record, RecordReader};
use jportal_units::{Core, Tsc};

/// The records of one core in the form that perf needs, in order of time.
pub(crate) struct CoreRecords<'a> {
    reader: &'a CaptureReader,
    clock: &'a PerfClock,
    core: Core,
    edges: Edges,
    /// The times of the turns with trace, in order, and the number of the next one.
    turns: Turns,
    next_piece: usize,
    /// The records of the current piece; the next one is last.
    ready: Vec<Record>,
    latest: u64,
}

/// When each turn's thread came to the core: as recorded, and as reported to perf.
struct Turns {
    times: Vec<(u64, u64)>,
    next: usize,
}

impl Turns {
    /// The time to report for a switch to the core at `tsc`.
    fn told(&mut self, tsc: u64) -> u64 {
        while self.times.get(self.next).is_some_and(|t| t.0 < tsc) {
            self.next += 1;
        }
        self.times.get(self.next).filter(|t| t.0 == tsc && t.1 > tsc).map_or(tsc, |t| t.1)
    }
}

impl<'a> CoreRecords<'a> {
    /// The records of the core that `plan` is of, in the order of the file.
    pub fn new(reader: &'a CaptureReader, clock: &'a PerfClock, plan: &CorePlan, edges: Edges) -> Self {
        let times = plan.switched.iter().copied().zip(plan.turn_times.iter().copied()).collect();
        let turns = Turns { times, next: 0 };
        let core = plan.core;
        Self { reader, clock, core, edges, turns, next_piece: 0, ready: Vec::new(), latest: 0 }
    }

    fn load(&mut self) -> Result<bool, Error> {
        let Some(piece) = self.reader.sideband(self.core).get(self.next_piece) else { return Ok(false) };
        self.next_piece += 1;
        let bytes = self.reader.read(piece)?;
        for record in RecordReader::new(&bytes) {
            let record = record.map_err(|source| Error::Record { core: self.core, source })?;
            let told = self.told(record);
            self.ready.extend(told);
        }
        self.ready.reverse();
        Ok(true)
    }

    /// The record for perf; `None` for records that only JPortal's decoder knows.
    fn told(&mut self, record: Record) -> Option<Record> {
        let tsc = record.sample.time;
        let (ns, body) = match record.body {
            Body::StaleBlock { .. } => return None,
            Body::Switch { out: false, .. } => (self.clock.ns_from(Tsc(self.turns.told(tsc))), record.body),
            Body::Aux { offset, size, flags } => {
                let (offset, size) = self.edges.piece(offset, size);
                (self.clock.ns(Tsc(tsc)), Body::Aux { offset, size, flags })
            }
            Body::ItraceStart { pid, tid, .. } => (self.clock.ns(Tsc(tsc)), Body::ItraceStart { pid, tid }),
            Body::Exit(t) => (self.clock.ns(Tsc(tsc)), Body::Exit(self.task(t))),
            Body::Fork(t) => (self.clock.ns(Tsc(tsc)), Body::Fork(self.task(t))),
            other => (self.clock.ns(Tsc(tsc)), other),
        };
        self.latest = self.latest.max(ns);
        let id = id_of(&body);
        let sample = SampleId { time: self.latest, cpu: self.core.0, id, ..record.sample };
        Some(Record { body, sample })
    }

    fn task(&self, task: jportal_perf_abi::record::Task) -> jportal_perf_abi::record::Task {
        jportal_perf_abi::record::Task { time: self.clock.ns(Tsc(task.time)), ..task }
    }

    /// The next record, if there is one.
    fn peek(&mut self) -> Result<Option<&Record>, Error> {
        while self.ready.is_empty() {
            if !self.load()? {
                return Ok(None);
            }
        }
        Ok(self.ready.last())
    }
}

/// Passes all records to `take`, in order of time. Of records with the same time, synthesised
/// ones come first.
pub(crate) fn merge(
    made: impl Iterator<Item = Record>,
    mut cores: Vec<CoreRecords<'_>>,
    mut take: impl FnMut(Record) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut made = made.peekable();
    loop {
        let mut first = made.peek().map(|r| (r.sample.time, None));
        for (n, core) in cores.iter_mut().enumerate() {
            if let Some(record) = core.peek()?
                && first.is_none_or(|f| record.sample.time < f.0)
            {
                first = Some((record.sample.time, Some(n)));
            }
        }
        let next = match first {
            None => return Ok(()),
            Some((_, None)) => made.next(),
            Some((_, Some(n))) => cores[n].ready.pop(),
        };
        next.map_or(Ok(()), &mut take)?;
    }
}
