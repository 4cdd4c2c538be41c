//! The decode loop: cores in parallel, stretches in order of time, one machine per thread.
//!
//! Each core's PT stream is decoded by a worker of its own, which runs ahead by a bounded
//! number of batches. The calling thread takes the stretches of all cores in the order in
//! which they were closed and feeds each batch to the machine of the stretch's thread; a
//! thread is on one core at a time, so that order is the order of every thread's flow.
//! Memory is bounded by the batches under way, whatever the length of the trace.

use crate::batch::{Batch, CoreStream};
use crate::error::Error;
use crate::machine::{Machine, Place, Shared, ThreadCounters};
use crate::recording::Recording;
use crate::stretches::Stretch;
use crate::summary::{DecodeSummary, NativeTotals, ThreadSummary};
use crate::watch::Watcher;
use hashbrown::HashMap;
use jportal_capture::header::sources;
use jportal_flow::{FlowConsumer, FlowSink, ThreadInfo};
use jportal_units::{Tid, Tsc};
use std::sync::mpsc::{Receiver, sync_channel};

/// Which decoder turns packets into machine blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NativeDecoder {
    /// Our own.
    #[default]
    Own,
    /// Our own with Intel's libipt, the reference, in lock-step: any difference ends the decode
    /// with an error that names the place. Slow; needs the trace in memory.
    Libipt,
}

/// Where compiled code gets its positions from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Positions {
    /// Path markers where the VM recorded them, debug info elsewhere.
    #[default]
    Markers,
    /// Debug info alone, as in the paper (section 3.2).
    DebugInfo,
}

/// What to decode and how.
#[derive(Clone, Debug, Default)]
pub struct DecodeOptions {
    /// Packets to machine blocks.
    pub native_decoder: NativeDecoder,
    /// Positions in compiled code.
    pub positions: Positions,
    /// Only these threads; all when `None`.
    pub only: Option<Vec<Tid>>,
}

/// Batches a core's worker may be ahead.
const AHEAD: usize = 8;
/// Events handed to a sink at once.
const FLUSH: usize = 8192;

/// Called now and then with bytes of PT decoded and bytes in all.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// One thread's machine with its sink.
struct Lane<'a> {
    machine: Machine<'a>,
    sink: Option<Box<dyn FlowSink + Send>>,
    info: ThreadInfo,
    pt_bytes: u64,
}

impl Lane<'_> {
    fn flush(&mut self) {
        if self.machine.out.is_empty() {
            return;
        }
        if let Some(sink) = &mut self.sink {
            sink.events(&self.machine.out);
        }
        self.machine.out.clear();
    }
    fn end(mut self) -> ThreadSummary {
        self.machine.finish();
        self.flush();
        if let Some(sink) = self.sink.take() {
            sink.end();
        }
        let counters: ThreadCounters = self.machine.counters.clone();
        ThreadSummary { info: self.info, counters, pt_bytes: self.pt_bytes }
    }
}

/// Runs the loop.
pub(crate) fn decode(
    recording: &Recording<'_>,
    options: &DecodeOptions,
    consumer: &mut dyn FlowConsumer,
    progress: &mut Progress<'_>,
) -> Result<DecodeSummary, Error> {
    decode_watched(recording, options, consumer, progress, None)
}

/// The same with an eye on one event; ends when that has been seen.
pub(crate) fn decode_watched(
    recording: &Recording<'_>,
    options: &DecodeOptions,
    consumer: &mut dyn FlowConsumer,
    progress: &mut Progress<'_>,
    mut watcher: Option<&mut Watcher>,
) -> Result<DecodeSummary, Error> {
    let emulated = recording.reader().header().pt.source == sources::EMULATED;
    let shared = Shared::new(recording.image(), recording.history(), options.positions, emulated);
    let order = recording.stretches_in_order();
    let total: u64 = order.iter().map(|s| s.to.0.saturating_sub(s.from.0)).sum();
    std::thread::scope(|scope| {
        let mut inputs: HashMap<u32, Receiver<Result<Batch, Error>>> = HashMap::new();
        for core in recording.cores() {
            let (send, receive) = sync_channel(AHEAD);
            let mut stream = CoreStream::new(recording, core, options.native_decoder)?;
            scope.spawn(move || stream.run(&send));
            inputs.insert(core.0, receive);
        }
        let mut lanes = Lanes {
            recording,
            shared: &shared,
            options,
            consumer,
            open: HashMap::new(),
            closed: HashMap::new(),
        };
        let mut totals = NativeTotals::default();
        let mut done = 0;
        for stretch in &order {
            let Some(input) = inputs.get(&stretch.core.0) else { continue };
            let lane = lanes.of(stretch);
            // A worker that failed has said why in its last message and hung up.
            while let Ok(batch) = input.recv() {
                let batch = batch?;
                totals.add(&batch);
                take(lane, stretch, &batch, watcher.as_deref_mut());
                if batch.last {
                    break;
                }
            }
            done += stretch.to.0.saturating_sub(stretch.from.0);
            lane.pt_bytes += stretch.to.0.saturating_sub(stretch.from.0);
            progress(done, total);
            if watcher.as_ref().is_some_and(|w| w.is_done()) {
                break;
            }
        }
        Ok(lanes.end(totals, recording))
    })
}

fn take(lane: &mut Lane<'_>, stretch: &Stretch, batch: &Batch, watcher: Option<&mut Watcher>) {
    let machine = &mut lane.machine;
    machine.place = Place { core: stretch.core, offset: batch.offset };
    match watcher.filter(|w| w.wants(&lane.info)) {
        None => batch.items.iter().for_each(|item| machine.item(item)),
        Some(watcher) => {
            for item in &batch.items {
                let before = machine.out.len();
                machine.item(item);
                watcher.step(machine.place, machine.now, item, &machine.out[before..]);
            }
        }
    }
    if lane.machine.out.len() >= FLUSH || batch.last {
        lane.flush();
    }
}

/// The machines of all threads.
struct Lanes<'a, 'c> {
    recording: &'a Recording<'a>,
    shared: &'a Shared<'a>,
    options: &'a DecodeOptions,
    consumer: &'c mut dyn FlowConsumer,
    /// By OS thread id and start, because ids come again.
    open: HashMap<(u32, u64), Lane<'a>>,
    /// When each core's last stretch was closed.
    closed: HashMap<u32, Tsc>,
}

impl<'a> Lanes<'a, '_> {
    /// The lane of the stretch's thread. Of two that share an OS thread one after the other (`main` and
    /// `DestroyJavaVM`), a stretch in which both ran goes to the first.
    fn of(&mut self, stretch: &Stretch) -> &mut Lane<'a> {
        let since = self.closed.insert(stretch.core.0, stretch.closed).unwrap_or(Tsc(0));
        let info = self.info(stretch.tid, self.time_of_thread(stretch.tid, since, stretch.closed));
        let key = (info.tid.0, info.started.0);
        let (shared, options, consumer) = (self.shared, self.options, &mut *self.consumer);
        self.open.entry(key).or_insert_with(|| {
            let wanted = options.only.as_ref().is_none_or(|tids| tids.contains(&info.tid));
            let sink = wanted.then(|| consumer.thread(&info));
            Lane { machine: Machine::new(shared), sink, info, pt_bytes: 0 }
        })
    }
    /// A time at which the thread that began what happened between `since` and `closed` was alive.
    fn time_of_thread(&self, tid: Tid, since: Tsc, closed: Tsc) -> Tsc {
        let threads = &self.recording.image().threads;
        let began_inside = threads.at(tid, closed).is_some_and(|span| span.started > since);
        let before = threads.at(tid, since).filter(|span| span.exited.is_none_or(|e| e >= since));
        if began_inside && before.is_some() { since } else { closed }
    }
    fn info(&self, tid: Tid, when: Tsc) -> ThreadInfo {
        match self.recording.image().threads.at(tid, when) {
            Some(span) => {
                ThreadInfo { tid, java_tid: span.java_tid, name: span.name.clone(), started: span.started }
            }
            None => ThreadInfo { tid, java_tid: 0, name: String::new(), started: Tsc(0) },
        }
    }
    fn end(self, native: NativeTotals, recording: &Recording<'_>) -> DecodeSummary {
        let mut threads: Vec<ThreadSummary> = self.open.into_values().map(Lane::end).collect();
        threads.sort_by_key(|t| (t.info.started, t.info.tid));
        DecodeSummary::new(threads, native, recording)
    }
}
