// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The decode loop: cores and lanes in parallel, stretches in order of time, one machine per
//! thread.
//!
//! The calling thread takes the stretches of all cores in the order in which they were closed.
//! It passes each batch to the lane of the stretch's thread. A thread is on one core at a time,
//! so this order is the order of every thread's flow. A crew decodes the batches ahead, and runs
//! the lanes. Memory is bounded by the batches in transit, whatever the length of the trace.

use crate::batch::{self, Batch, CoreStream};
use crate::blind::Unseen;
use crate::crew::{Alone, BatchSource, Crew, LaneWork, Pool, Workers};
use crate::error::Error;
use crate::lanes::Lanes;
use crate::machine::Shared;
use crate::needs::Needs;
use crate::recording::{Recording, Turn};
use crate::states::StateObservers;
use crate::stretches::Stretch;
use crate::summary::{DecodeSummary, MachineTotals};
use crate::watch::Watcher;
use hashbrown::HashMap;
use jportal_capture::header::sources;
use jportal_flow::{FlowConsumer, Sender};
use jportal_units::{Core, Tid, Tsc};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Which decoder turns packets into machine blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MachineDecoder {
    /// JPortal's own decoder.
    #[default]
    Own,
    /// JPortal's own decoder, which keeps nothing that it has worked out: it follows each branch,
    /// and what each block of compiled code does, anew. The flow is the same. Slow; one thread.
    Reference,
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
    /// `None`. The figures of the machine flow are those of these threads. The own decoder leaves
    /// out the trace of others.
    pub only: Option<Vec<(Tid, Tsc)>>,
    /// The number of threads that decode; as many as the machine has processors when `None`.
    /// The result does not depend on it.
    pub jobs: Option<NonZeroUsize>,
    /// The consumer receives the events of all threads in one order, that of the recording, as
    /// with one job. Other threads still decode the cores ahead.
    pub in_order: bool,
    /// Leaves out the trace of threads whose sinks have enough. The figures then cover what was
    /// decoded, and [`DecodeSummary::enough`] says so. Not with libipt, nor with an order.
    pub leave_out: bool,
    /// With `leave_out`: also leaves out the trace of threads that cannot run bytecodes (of the
    /// garbage collector, of C1 and C2). Their flows are empty: gaps of them are not known.
    pub leave_out_vm_threads: bool,
    /// Leaves out the trace before this time. A flow then begins with a gap
    /// ([`GapReason::LeftOut`](jportal_flow::GapReason)), and the frames that were open are not
    /// known. The own decoder only.
    pub since: Option<Tsc>,
    /// Observers of compiled code. The numbers of events that they get are those of a consumer
    /// that takes no runs.
    pub observers: Option<Arc<dyn StateObservers>>,
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
    let reference = options.native_decoder == MachineDecoder::Reference;
    let mut shared = Shared::new(recording.image(), recording.history(), options.positions, emulated);
    shared.automatic = !reference;
    let lanes = Lanes::new(&shared, options.only.as_deref(), consumer);
    let order = &recording.stretches_in_order();
    let selected = match &watcher {
        Some(watcher) => Some(vec![watcher.tid()]),
        None => options.only.as_ref().map(|them| them.iter().map(|t| t.0).collect()),
    };
    let mut needs = Needs::of(selected.map(Vec::into_iter)).since(options.since);
    let own = options.native_decoder == MachineDecoder::Own;
    let until_enough = own && options.leave_out && watcher.is_none() && options.observers.is_none();
    if until_enough {
        needs = needs.until_enough(order, &recording.image().threads);
    }
    if until_enough && options.leave_out_vm_threads {
        needs = needs.without_vm_threads(&recording.image().threads);
    }
    let (needs, reported) = (Some(&needs).filter(|_| own), Some(&needs).filter(|_| until_enough));
    let lanes = lanes.observed_by(options.observers.as_deref()).reporting_to(reported);
    let jobs = if reference { 1 } else { options.jobs() };
    let ahead = match options.native_decoder {
        MachineDecoder::Libipt => Some(CHECKED.ok_or(Error::NoLibipt)?),
        MachineDecoder::Own if options.in_order && jobs > 1 => Some(batch::send as SendBatches),
        MachineDecoder::Own | MachineDecoder::Reference => None,
    };
    if let Some(send) = ahead {
        return decode_ahead((recording, needs), send, watcher, |crew| {
            route((recording, order), lanes, crew, progress)
        });
    }
    let mut turns = recording.turns();
    let mut stream = |core: Core| {
        let turns = turns.remove(&core.0).unwrap_or_default();
        CoreStream::new(recording, core, turns, reference).needed_by(needs)
    };
    if jobs == 1 || watcher.is_some() {
        let source = |core: Core| (core.0, BatchSource::Stream(Box::new(stream(core))));
        let mut crew = Alone::new(recording.cores().map(source).collect(), watcher);
        return route((recording, order), lanes, &mut crew, progress);
    }
    let workers = Workers::new(recording.cores().map(|core| (core, stream(core))).collect());
    std::thread::scope(|scope| {
        // The workers end when the pool is dropped.
        let mut pool = Pool(&workers);
        for _ in 0..jobs {
            scope.spawn(|| workers.run());
        }
        route((recording, order), lanes, &mut pool, progress)
    })
}

/// Decodes a core and sends its batches.
type SendBatches = fn(&Recording, Core, Vec<Turn>, Option<&Needs>, &Sender<Result<Batch, Error>>);

/// Decodes with both decoders, if libipt is built in.
#[cfg(feature = "libipt")]
const CHECKED: Option<SendBatches> = Some(batch::send_checked);
#[cfg(not(feature = "libipt"))]
const CHECKED: Option<SendBatches> = None;

/// Runs `decode` with a crew of one, for which a thread for each core decodes ahead.
fn decode_ahead<'a, T>(
    (recording, needs): (&'a Recording, Option<&Needs>),
    send: SendBatches,
    watcher: Option<&mut Watcher>,
    decode: impl FnOnce(&mut Alone<'a, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    /// The weight of the batches that a core may decode ahead.
    const AHEAD: usize = 1 << 18;
    let mut turns = recording.turns();
    std::thread::scope(|scope| {
        let mut sources = HashMap::new();
        for core in recording.cores() {
            let (sender, receiver) = jportal_flow::bounded(AHEAD);
            let turns = turns.remove(&core.0).unwrap_or_default();
            scope.spawn(move || send(recording, core, turns, needs, &sender));
            sources.insert(core.0, BatchSource::Ahead(receiver));
        }
        decode(&mut Alone::new(sources, watcher))
    })
}

/// By OS thread id: the number of the last stretch, after which the recording says nothing more
/// of the OS thread. Threads of which it does are left out.
fn last_stretches(order: &[Stretch], unseen: &[Unseen]) -> HashMap<u32, usize> {
    let mut lasts: HashMap<u32, usize> = order.iter().zip(0..).map(|(s, n)| (s.tid.0, n)).collect();
    for unseen in unseen.iter().filter(|u| u.before.is_none()) {
        lasts.remove(&unseen.tid.0);
    }
    lasts
}

/// Passes the stretches of all cores, which come in order, to the lanes of their threads.
fn route<'a>(
    (recording, order): (&Recording, &[Stretch]),
    mut lanes: Lanes<'a, '_>,
    crew: &mut impl Crew<'a>,
    progress: &mut Progress<'_>,
) -> Result<DecodeSummary, Error> {
    let unseen = recording.unseen(order);
    let lasts = last_stretches(order, &unseen);
    let mut unseen = unseen.into_iter().peekable();
    let total: u64 = order.iter().map(|s| s.to.0.saturating_sub(s.from.0)).sum();
    let mut totals = MachineTotals::default();
    let (mut done, mut asked_bytes) = (0, 0);
    for (number, stretch) in order.iter().enumerate() {
        let lane = lanes.of(stretch, crew);
        let mut left_out = false;
        while let Some(unseen) = unseen.next_if(|u| u.before == Some(number)) {
            lanes.give(lane, LaneWork::Blind(unseen.blind), crew);
        }
        while let Some(batch) = crew.batch(stretch.core)? {
            if lanes.is_selected(lane) {
                totals.add(&batch);
                left_out |= batch.skipped;
            }
            let last = batch.last;
            lanes.give(lane, LaneWork::Batch(*stretch, batch), crew);
            if last {
                break;
            }
        }
        let bytes = stretch.to.0.saturating_sub(stretch.from.0);
        done += bytes;
        asked_bytes += if left_out || !lanes.is_selected(lane) { 0 } else { bytes };
        lanes.add_bytes(lane, bytes);
        if lasts.get(&stretch.tid.0) == Some(&number) {
            lanes.end_all_of(stretch.tid, crew);
        }
        progress(done, total);
        if lanes.have_enough() || crew.has_enough() {
            break;
        }
    }
    for unseen in unseen.filter(|u| u.before.is_none()) {
        let lane = lanes.at(unseen.tid, unseen.blind.since, crew);
        lanes.give(lane, LaneWork::Blind(unseen.blind), crew);
    }
    let enough = lanes.needs().is_some_and(|needs| needs.ended() > 0 || needs.has_vm_threads());
    let threads = lanes.end(crew);
    let not_asked_bytes = total - asked_bytes;
    let unattributed_bytes = recording.pt_bytes().saturating_sub(total);
    let figures = DecodeSummary::new(threads, totals, recording);
    Ok(DecodeSummary { enough, not_asked_bytes, unattributed_bytes, ..figures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stretches::Blind;
    use crate::testing::stretch;
    use jportal_units::StreamOffset;

    #[test]
    fn an_os_thread_ends_after_its_last_stretch_unless_more_is_said_of_it() {
        let order = [7, 8, 7, 9, 8, 9].map(|tid| stretch(tid, 0, 1, 50));
        let blind = Blind { core: Core(0), offset: StreamOffset(0), since: Tsc(1), until: Tsc(2) };
        let unseen = |tid, before| Unseen { tid: Tid(tid), before, blind };
        let lasts = last_stretches(&order, &[unseen(7, Some(2)), unseen(9, None)]);
        assert_eq!(lasts, [(7, 2), (8, 4)].into_iter().collect());
    }
}
