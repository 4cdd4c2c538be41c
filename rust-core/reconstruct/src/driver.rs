// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The decode loop: cores in parallel, stretches in order of time, one machine per thread.
//!
//! A worker per core decodes the core's PT stream and runs ahead by a bounded number of items.
//! The calling thread takes the stretches of all cores in the order in which they were closed.
//! It feeds each batch to the machine of the stretch's thread. A thread is on one core at a
//! time, so this order is the order of every thread's flow. Memory is bounded by the batches in
//! transit, whatever the length of the trace.

use crate::batch::{Batch, CoreStream};
use crate::error::Error;
use crate::lanes::Lanes;
use crate::machine::Shared;
use crate::recording::Recording;
use crate::summary::{DecodeSummary, MachineTotals};
use crate::watch::Watcher;
use hashbrown::HashMap;
use jportal_capture::header::sources;
use jportal_flow::{FlowConsumer, Receiver, bounded};
use jportal_units::{Tid, Tsc};

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
}

/// The number of items by which a core's worker may run ahead.
const AHEAD: usize = 1 << 18;

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
    mut watcher: Option<&mut Watcher>,
) -> Result<DecodeSummary, Error> {
    let emulated = recording.reader().header().pt.source == sources::EMULATED;
    let shared = Shared::new(recording.image(), recording.history(), options.positions, emulated);
    let order = recording.stretches_in_order();
    let mut unseen = recording.unseen(&order).into_iter().peekable();
    let total: u64 = order.iter().map(|s| s.to.0.saturating_sub(s.from.0)).sum();
    std::thread::scope(|scope| {
        let mut inputs: HashMap<u32, Receiver<Result<Batch, Error>>> = HashMap::new();
        for core in recording.cores() {
            let (send, receive) = bounded(AHEAD);
            let mut stream = CoreStream::new(recording, core, options.native_decoder)?;
            scope.spawn(move || stream.run(&send));
            inputs.insert(core.0, receive);
        }
        let mut lanes = Lanes::new(&shared, options.only.as_deref(), consumer);
        let mut totals = MachineTotals::default();
        let mut done = 0;
        for (number, stretch) in order.iter().enumerate() {
            let Some(input) = inputs.get(&stretch.core.0) else { continue };
            let lane = lanes.of(stretch);
            while let Some(unseen) = unseen.next_if(|u| u.before == Some(number)) {
                lane.blind(&unseen.blind);
            }
            // A worker that failed has sent the error as its last message and hung up.
            while let Some(batch) = input.recv() {
                let batch = batch?;
                totals.add(&batch);
                lane.take(stretch, &batch, watcher.as_deref_mut());
                if batch.last {
                    break;
                }
            }
            let bytes = stretch.to.0.saturating_sub(stretch.from.0);
            done += bytes;
            lane.add_bytes(bytes);
            progress(done, total);
            if lanes.have_enough() || watcher.as_ref().is_some_and(|w| w.is_done()) {
                break;
            }
        }
        for unseen in unseen.filter(|u| u.before.is_none()) {
            lanes.at(unseen.tid, unseen.blind.since).blind(&unseen.blind);
        }
        Ok(DecodeSummary::new(lanes.end(), totals, recording))
    })
}
