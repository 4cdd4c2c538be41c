// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The decode loop: cores and lanes in parallel, stretches in order of time, one machine per
//! thread.
//!
//! The calling thread takes the stretches of all cores in the order in which they were closed.
//! It passes each batch to the lane of the stretch's thread. A thread is on one core at a time,
//! so this order is the order of every thread's flow. A crew decodes the batches ahead, and runs
//! the lanes. Memory is bounded by the batches in transit, whatever the length of the trace.

use crate::batch::CoreStream;
use crate::crew::{Alone, Crew, Pool, Source, Work, Workers};
use crate::error::Error;
use crate::lanes::Lanes;
use crate::machine::Shared;
use crate::recording::Recording;
use crate::summary::{DecodeSummary, MachineTotals};
use crate::watch::Watcher;
use jportal_capture::header::sources;
use jportal_flow::FlowConsumer;
use jportal_units::{Core, Tid, Tsc};
use std::num::NonZeroUsize;

/// Which decoder turns packets into machine blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MachineDecoder {
    /// JPortal's own decoder.
    #[default]
    Own,
    /// JPortal's own decoder and Intel's libipt, the reference, in lock-step. Any difference
    /// ends the decode with an error that names the place. Slow; needs the trace in memory.
    Libipt,
}

/// The source of the positions of compiled code.
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
    /// How packets become machine blocks.
    pub native_decoder: MachineDecoder,
    /// The source of positions in compiled code.
    pub positions: Positions,
    /// Decodes only these threads, by id and start (the OS reuses ids); all threads when
    /// `None`.
    pub only: Option<Vec<(Tid, Tsc)>>,
    /// The number of threads that decode; as many as the machine has processors when `None`.
    /// The result does not depend on it.
    pub jobs: Option<NonZeroUsize>,
}

impl DecodeOptions {
    fn jobs(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(all, NonZeroUsize::get)
    }
}

/// Called from time to time with the bytes of PT decoded and the bytes in total.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// Runs the decode loop.
pub(crate) fn decode(
    recording: &Recording,
    options: &DecodeOptions,
    consumer: &mut dyn FlowConsumer,
    progress: &mut Progress<'_>,
) -> Result<DecodeSummary, Error> {
    decode_watched(recording, options, consumer, progress, None)
}

/// As [`decode`], with a watcher for one event. Ends when the watcher has seen the event.
pub(crate) fn decode_watched(
    recording: &Recording,
    options: &DecodeOptions,
    consumer: &mut dyn FlowConsumer,
    progress: &mut Progress<'_>,
    watcher: Option<&mut Watcher>,
) -> Result<DecodeSummary, Error> {
    let emulated = recording.reader().header().pt.source == sources::EMULATED;
    let shared = Shared::new(recording.image(), recording.history(), options.positions, emulated);
    let lanes = Lanes::new(&shared, options.only.as_deref(), consumer);
    if options.native_decoder == MachineDecoder::Libipt {
        return with_libipt(recording, watcher, |crew| route(recording, lanes, crew, progress));
    }
    let mut turns = recording.turns();
    let mut stream = |core: Core| CoreStream::new(recording, core, turns.remove(&core.0).unwrap_or_default());
    let jobs = options.jobs();
    if jobs == 1 || watcher.is_some() {
        let source = |core: Core| (core.0, Source::Stream(Box::new(stream(core))));
        let mut crew = Alone::new(recording.cores().map(source).collect(), watcher);
        return route(recording, lanes, &mut crew, progress);
    }
    let workers = Workers::new(recording.cores().map(|core| (core, stream(core))).collect());
    std::thread::scope(|scope| {
        // The workers end when the pool is dropped.
        let mut pool = Pool(&workers);
        for _ in 0..jobs {
            scope.spawn(|| workers.run());
        }
        route(recording, lanes, &mut pool, progress)
    })
}

/// Runs `decode` with a crew whose streams are decoded by libipt, too.
#[cfg(feature = "libipt")]
fn with_libipt<'a, T>(
    recording: &'a Recording,
    watcher: Option<&mut Watcher>,
    decode: impl FnOnce(&mut Alone<'a, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    /// The weight of the batches that a core may decode ahead.
    const AHEAD: usize = 1 << 18;
    let mut turns = recording.turns();
    std::thread::scope(|scope| {
        let mut sources = hashbrown::HashMap::new();
        for core in recording.cores() {
            let (send, receive) = jportal_flow::bounded(AHEAD);
            let turns = turns.remove(&core.0).unwrap_or_default();
            scope.spawn(move || crate::batch::send_checked(recording, core, turns, &send));
            sources.insert(core.0, Source::Ahead(receive));
        }
        decode(&mut Alone::new(sources, watcher))
    })
}

#[cfg(not(feature = "libipt"))]
fn with_libipt<'a, T>(
    _: &'a Recording,
    _: Option<&mut Watcher>,
    _: impl FnOnce(&mut Alone<'a, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    Err(Error::NoLibipt)
}

/// Passes the stretches of all cores to the lanes of their threads.
fn route<'a>(
    recording: &Recording,
    mut lanes: Lanes<'a, '_>,
    crew: &mut impl Crew<'a>,
    progress: &mut Progress<'_>,
) -> Result<DecodeSummary, Error> {
    let order = recording.stretches_in_order();
    let mut unseen = recording.unseen(&order).into_iter().peekable();
    let total: u64 = order.iter().map(|s| s.to.0.saturating_sub(s.from.0)).sum();
    let mut totals = MachineTotals::default();
    let mut done = 0;
    for (number, stretch) in order.iter().enumerate() {
        let lane = lanes.of(stretch, crew);
        while let Some(unseen) = unseen.next_if(|u| u.before == Some(number)) {
            lanes.give(lane, Work::Blind(unseen.blind), crew);
        }
        while let Some(batch) = crew.batch(stretch.core)? {
            totals.add(&batch);
            let last = batch.last;
            lanes.give(lane, Work::Batch(*stretch, batch), crew);
            if last {
                break;
            }
        }
        let bytes = stretch.to.0.saturating_sub(stretch.from.0);
        done += bytes;
        lanes.add_bytes(lane, bytes);
        progress(done, total);
        if lanes.have_enough() || crew.has_enough() {
            break;
        }
    }
    for unseen in unseen.filter(|u| u.before.is_none()) {
        let lane = lanes.at(unseen.tid, unseen.blind.since, crew);
        lanes.give(lane, Work::Blind(unseen.blind), crew);
    }
    Ok(DecodeSummary::new(lanes.end(crew), totals, recording))
}
