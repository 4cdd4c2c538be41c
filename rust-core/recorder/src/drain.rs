// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The threads that move the device's rings into the capture.

use crate::error::Error;
use crate::session::Session;
use crate::sys::rdtsc;
use crate::window::{CoreWindow, Keeper};
use jportal_capture::{LossNote, LossReason};
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::ring::CoreConsumer;
use jportal_perf_abi::{Body, RecordReader};
use jportal_units::{Core, StreamOffset, Tsc};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Number of cores that one thread serves.
pub(crate) const CORES_PER_THREAD: usize = 8;
/// Largest piece of trace taken at once. It bounds the memory, and the time for which other
/// threads wait for the file.
const PIECE: usize = 1 << 20;
/// Sleep between passes: short while trace arrives, longer otherwise.
const NAP: Duration = Duration::from_millis(1);
const LONG_NAP: Duration = Duration::from_millis(10);
/// How long a device may stay silent after it was stopped, before the drain gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// One core's rings, which the drain moves into the capture.
pub(crate) struct CoreDrain {
    core: u32,
    rings: CoreConsumer,
    trace: Vec<u8>,
    records: Vec<u8>,
    /// Present for a flight recorder.
    keeper: Option<Keeper>,
}

impl CoreDrain {
    /// `keep` is set if the device overwrites its AUX rings: the number of last bytes to keep.
    pub(crate) fn new(core: u32, rings: CoreConsumer, keep: Option<u64>) -> Self {
        let keeper = keep.map(|keep| Keeper::new(core, &rings.aux, keep, rdtsc()));
        Self { core, rings, trace: Vec::new(), records: Vec::new(), keeper }
    }

    /// The window of a flight recorder, taken while the device is stopped.
    fn window(&mut self, session: &Session) -> Option<Result<CoreWindow, Error>> {
        let keeper = self.keeper.as_mut()?;
        keeper.forget_before(session.horizon.load(Acquire));
        Some(keeper.window(&self.rings.aux, rdtsc()))
    }

    /// Takes the records that are in the data ring; the trace stays in its ring.
    fn keep(&mut self, session: &Session) -> Result<usize, Error> {
        self.records.clear();
        self.rings.data.drain(&mut self.records, usize::MAX)?;
        session.device.translate(self.core, &mut self.records);
        if let Some(keeper) = &mut self.keeper {
            keeper.take(&self.records)?;
        }
        session.device.keep_running(self.core, false);
        Ok(self.records.len())
    }

    /// Moves what is in the rings into the capture; returns the number of bytes.
    ///
    /// The sideband is written before the trace. The AUX records of all bytes below `aux_head`
    /// are published before it, and `aux_head` is read before the data ring is drained. So
    /// every trace byte in the capture follows the record that names its thread.
    fn pass(&mut self, session: &Session) -> Result<usize, Error> {
        if self.keeper.is_some() {
            return self.keep(session);
        }
        let ready = usize::try_from(self.rings.aux.available()?).unwrap_or(usize::MAX).min(PIECE);
        // Above seven eighths of the ring the kernel may find no room for its next region.
        let mut full = ready as u64 > self.rings.aux.size() / 8 * 7;
        self.records.clear();
        self.rings.data.drain(&mut self.records, usize::MAX)?;
        if !self.records.is_empty() {
            session.device.translate(self.core, &mut self.records);
            if session.append_sideband(Core(self.core), &self.records) {
                full |= self.note_losses(session);
            }
        }
        if ready > 0 {
            self.trace.clear();
            let offset = StreamOffset(self.rings.aux.position());
            self.rings.aux.drain(&mut self.trace, ready)?;
            if !session.append_pt(Core(self.core), offset, &self.trace) {
                session.stats.discarded.fetch_add(ready as u64, Relaxed);
            }
        }
        session.device.keep_running(self.core, full);
        Ok(ready + self.records.len())
    }

    /// Writes a loss note for each loss in the records; returns whether trace was lost.
    fn note_losses(&self, session: &Session) -> bool {
        let mut trace = false;
        for record in RecordReader::new(&self.records).flatten() {
            let (offset, reason, text) = match record.body {
                Body::Aux { offset, size, flags } if flags & aux_flags::TRUNCATED != 0 => {
                    trace = true;
                    (offset.wrapping_add(size), LossReason::AuxFull, "AUX buffer full".to_owned())
                }
                Body::Lost { lost, .. } => {
                    let text = format!("{lost} records lost, data ring full");
                    (self.rings.aux.position(), LossReason::SidebandFull, text)
                }
                _ => continue,
            };
            let note = LossNote {
                core: self.core,
                offset,
                reason,
                tsc: record.sample.time,
                bytes: u64::MAX,
                text: text.as_str().into(),
            };
            session.stats.losses.fetch_add(1, Relaxed);
            session.append(|w| w.loss(&note));
        }
        trace
    }
}

/// Drains `cores` until the device has been stopped and all its data is in the capture.
pub(crate) fn run(session: &Session, mut cores: Vec<CoreDrain>) {
    let mut last_bytes = Instant::now();
    let mut answered = 0;
    loop {
        let stopping = session.stopping.load(Acquire);
        let request = session.requests.number();
        let quiet = (stopping || request != answered) && session.device.is_quiet();
        let moved = match pass(session, &mut cores) {
            Ok(moved) => moved,
            Err(e) => return session.fail(&e),
        };
        session.look_at_reserve();
        if moved > 0 || !stopping {
            last_bytes = Instant::now();
        }
        let dead = session.device.failure().inspect(|e| session.fail(e)).is_some();
        if moved == 0 && quiet && request != answered && !stopping {
            answered = request;
            match windows(session, &mut cores) {
                Ok(windows) => session.requests.answer(windows),
                Err(e) => return session.fail(&e),
            }
            continue;
        }
        if moved == 0 && (quiet || dead) {
            match windows(session, &mut cores) {
                Ok(windows) => append_windows(session, &windows),
                Err(e) => session.fail(&e),
            }
            session.saved.fetch_add(1, Relaxed);
            return;
        }
        if moved == 0 && last_bytes.elapsed() > PATIENCE {
            return give_up(session, &cores);
        }
        if moved < PIECE / 4 {
            let soon = moved > 0 || stopping || request != answered;
            std::thread::park_timeout(if soon { NAP } else { LONG_NAP });
        }
    }
}

fn pass(session: &Session, cores: &mut [CoreDrain]) -> Result<usize, Error> {
    session.stats.drain_passes.fetch_add(1, Relaxed);
    // The mark lets a reader of a capture that was cut off know up to which time the absence of
    // a core's trace is significant. The capture of a flight recorder is written at once and
    // needs no marks.
    let complete = session.device.keeps().is_none().then(|| session.device.complete_until());
    let mut moved = 0;
    for core in &mut *cores {
        moved += core.pass(session)?;
    }
    if let (Some(complete), [first, ..], [.., last]) = (complete.filter(|_| moved > 0), &*cores, &*cores) {
        session.append(|w| w.drained(Core(first.core), Core(last.core), Tsc(complete)));
    }
    Ok(moved)
}

fn windows(session: &Session, cores: &mut [CoreDrain]) -> Result<Vec<CoreWindow>, Error> {
    cores.iter_mut().filter_map(|core| core.window(session)).collect()
}

/// Appends the windows of a flight recorder to the capture of its recording.
fn append_windows(session: &Session, windows: &[CoreWindow]) {
    for window in windows {
        let core = Core(window.core);
        if !session.append_sideband(core, &window.sideband)
            || !session.append_pt(core, StreamOffset(0), &window.trace)
        {
            return;
        }
    }
}

/// The device did not confirm the last disable: the ends of its streams may be missing.
fn give_up(session: &Session, cores: &[CoreDrain]) {
    for core in cores {
        let note = LossNote {
            core: core.core,
            offset: core.rings.aux.position(),
            reason: LossReason::Stopped,
            tsc: rdtsc(),
            bytes: u64::MAX,
            text: "the device did not confirm that it stopped".into(),
        };
        session.stats.losses.fetch_add(1, Relaxed);
        session.append(|w| w.loss(&note));
    }
}
