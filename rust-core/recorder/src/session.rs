// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The state that the threads of one recording share.

use crate::config::{RecordingConfig, StorageLimits, Trimming};
use crate::device::Device;
use crate::dump::Requests;
use crate::error::Error;
use crate::log::{Level, Log};
use crate::pages::Pages;
use crate::reserve;
use crate::ring::Ring;
use crate::sys::{self, rdtsc};
use crate::turn::{Cargo, Turns};
use jportal_capture::frames::FrameTracker;
use jportal_capture::header::sources;
use jportal_capture::{
    CaptureCopy, CaptureWriter, Counter, EndReason, Header, Sealed, Sealer, TrimmedCopy, Written,
};
use jportal_units::{Core, StreamOffset};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

pub(crate) struct Session {
    pub(crate) ring: Ring,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) log: Log,
    pub(crate) path: PathBuf,
    pub(crate) header: Mutex<Header>,
    /// The header has changed since it was last written.
    pub(crate) header_is_new: AtomicBool,
    /// The device was stopped: drain the rest.
    pub(crate) stopping: AtomicBool,
    pub(crate) stats: Stats,
    /// Requests for windows, made by dumps of the flight recorder.
    pub(crate) requests: Requests,
    /// Number of drain threads that have written the windows of their cores at the end, and
    /// number of all drain threads.
    pub(crate) saved: AtomicU64,
    pub(crate) drains: AtomicU64,
    pub(crate) dumps: AtomicU64,
    /// Dumps under way, from before their windows are copied until they are written.
    pub(crate) unwritten: AtomicU64,
    /// Requests for dumps that were not taken, and how many of them are in the log.
    pub(crate) missed: AtomicU64,
    missed_reported: AtomicU64,
    /// Held while a dump collects its windows, so that dumps take turns and the recording does not
    /// end meanwhile. Its holder never waits for the disk, because the end of the VM needs it.
    pub(crate) collecting: Mutex<()>,
    /// Copies of the capture that are being written, for dumps and by the trimming, and the bytes
    /// that were copied.
    pub(crate) copying: AtomicU64,
    pub(crate) copied: AtomicU64,
    /// The time before which no window of a flight recorder shows anything, because the metadata is
    /// trimmed. 0: none. Raised under the lock `collecting`.
    pub(crate) horizon: AtomicU64,
    pub(crate) trimming: Trimming,
    pub(crate) limits: StorageLimits,
    /// Whether the capture is trimmed: that of a flight recorder, with or without trace.
    pub(crate) trims: bool,
    writer: Turns<Option<CaptureWriter>>,
    /// Computes the checksums of large pieces before their turn.
    sealer: Sealer,
    /// A write to the capture failed, or the capture has its end.
    broken: AtomicBool,
    written: Mutex<Written>,
    failure: Mutex<Option<Cow<'static, str>>>,
    /// The failure is in the log and the device is off.
    reported: AtomicBool,
    /// The thread that carries out what a failure entails ([`Session::watch`]).
    watch: OnceLock<Thread>,
    /// The watching thread is to end.
    over: AtomicBool,
    /// Drain threads that run, and one more until the recording has been stopped.
    users: AtomicU64,
    started: Instant,
}

/// What became of a trimmed copy ([`Session::replace`]).
pub(crate) enum Replacement {
    /// It is the capture now, of this length.
    Done(u64),
    /// A dump still needs what was trimmed.
    Later(TrimmedCopy<Pages>),
    /// The capture accepts nothing more, or another file has its name.
    Never,
}

/// Figures for the status and the end of the capture.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) losses: AtomicU64,
    pub(crate) discarded: AtomicU64,
    pub(crate) drain_passes: AtomicU64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks ends the recording; the protected data stays usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], without a wait. `None`: another thread has the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Session {
    pub(crate) fn new(config: &RecordingConfig, device: Arc<dyn Device>, ring: Ring, header: Header) -> Self {
        let source = device.config().source;
        let emulated = source == sources::EMULATED;
        let trims = device.keeps().is_some() || config.snapshot_bytes != 0 && source == sources::NONE;
        Self {
            sealer: if emulated { Sealer::by_table() } else { Sealer::default() },
            ring,
            device,
            log: config.log.clone(),
            path: config.path.clone(),
            header: Mutex::new(header),
            header_is_new: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
            stats: Stats::default(),
            requests: Requests::default(),
            saved: AtomicU64::new(0),
            drains: AtomicU64::new(0),
            dumps: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            missed_reported: AtomicU64::new(0),
            collecting: Mutex::new(()),
            copying: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            horizon: AtomicU64::new(0),
            trimming: config.trimming,
            limits: config.limits,
            trims,
            writer: Turns::default(),
            broken: AtomicBool::new(false),
            written: Mutex::new(Written::default()),
            failure: Mutex::new(None),
            reported: AtomicBool::new(false),
            watch: OnceLock::new(),
            over: AtomicBool::new(false),
            users: AtomicU64::new(1),
            started: Instant::now(),
        }
    }

    /// Gives the session its capture.
    pub(crate) fn set_writer(&self, mut writer: CaptureWriter) {
        writer.seal_with(self.sealer);
        *self.writer.take(Cargo::Metadata) = Some(writer);
    }

    /// Removes the files of a recording whose start was given up.
    pub(crate) fn discard(&self) {
        self.ring.close_now();
        let writer = self.writer.take(Cargo::Metadata).take();
        let own = writer.and_then(|writer| writer.identity());
        if own.is_some() && own == sys::identity(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        self.ring.remove_file();
    }

    /// Whether a thread writes to the capture, or waits for the disk there.
    pub(crate) fn is_writing(&self) -> bool {
        self.writer.is_taken()
    }

    /// Appends bytes of a core's PT stream to the capture. `false` when it accepts nothing more;
    /// the first failure ends the recording.
    pub(crate) fn append_pt(&self, core: Core, offset: StreamOffset, bytes: &[u8]) -> bool {
        self.append_sealed(Cargo::Trace, self.sealer.pt(core, offset, bytes))
    }

    /// Like [`Session::append_pt`], for whole records of a core's data ring.
    pub(crate) fn append_sideband(&self, core: Core, records: &[u8]) -> bool {
        match self.sealer.sideband(core, records) {
            Ok(pieces) => self.append_sealed(Cargo::Trace, pieces),
            Err(e) => self.break_off(e),
        }
    }

    /// Like [`Session::append_pt`], for metadata, which goes before all trace that waits.
    pub(crate) fn append_records(&self, bytes: &[u8]) -> bool {
        self.append_sealed(Cargo::Metadata, self.sealer.metadata(bytes))
    }

    /// The pieces' checksums are computed by the iterator, and so outside of a turn.
    fn append_sealed<'a>(&self, cargo: Cargo, mut pieces: impl Iterator<Item = Sealed<'a>>) -> bool {
        while !self.broken.load(Relaxed) {
            let Some(piece) = pieces.next() else { return true };
            if !self.append_as(cargo, |w| w.append(&piece)) {
                return false;
            }
        }
        false
    }

    /// The record boundaries of the metadata in the capture; `None` before it has a writer and
    /// after its end.
    pub(crate) fn frames(&self) -> Option<FrameTracker> {
        self.writer.take(Cargo::Metadata).as_ref().map(CaptureWriter::frames)
    }

    /// Appends a small chunk that belongs to trace. `false` when the capture accepts nothing more.
    pub(crate) fn append(
        &self,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        self.append_as(Cargo::Trace, f)
    }

    /// Like [`Session::append`], but before all trace that waits.
    pub(crate) fn append_metadata(
        &self,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        self.append_as(Cargo::Metadata, f)
    }

    fn append_as(
        &self,
        cargo: Cargo,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        let mut guard = self.writer.take(cargo);
        let Some(writer) = guard.as_mut().filter(|_| !self.broken.load(Relaxed)) else { return false };
        let result = f(writer);
        *lock(&self.written) = writer.written();
        let Err(source) = result else { return true };
        // Before the turn ends: the next thread must not write.
        self.broken.store(true, Relaxed);
        drop(guard);
        self.break_off(source)
    }

    /// Ends the recording because of its capture. Returns `false`.
    pub(crate) fn break_off(&self, source: jportal_capture::Error) -> bool {
        self.broken.store(true, Relaxed);
        self.fail(&Error::Capture { path: self.path.clone(), source });
        false
    }

    /// Like [`Session::append_records`], but after a failure: a piece smaller than the one that did
    /// not fit may fit. `false` when this one does not fit either.
    pub(crate) fn append_records_after_failure(&self, bytes: &[u8]) -> bool {
        self.sealer.metadata(bytes).all(|piece| self.append_after_failure(|w| w.append(&piece)))
    }

    /// Like [`Session::append_metadata`], but after a failure.
    pub(crate) fn append_after_failure(
        &self,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        let mut guard = self.writer.take(Cargo::Metadata);
        let Some(writer) = guard.as_mut() else { return false };
        writer.retry();
        let done = f(writer).is_ok();
        *lock(&self.written) = writer.written();
        done
    }

    /// A copy of the capture at `path` or, if that exists, at the next free number, with a writer
    /// that continues it. `None` while the capture lacks metadata up to `mark` or ends inside a
    /// record. Other threads continue to write meanwhile.
    pub(crate) fn copy_at(
        &self,
        path: &Path,
        mark: u64,
    ) -> Option<Result<(CaptureWriter, PathBuf), jportal_capture::Error>> {
        let copy = {
            let guard = self.writer.take(Cargo::Trace);
            let writer = guard.as_ref().filter(|_| !self.broken.load(Relaxed))?;
            (writer.written().metadata >= mark && writer.is_between_records()).then(|| writer.copy())?
        };
        let copied = |n| {
            self.copied.fetch_add(n, Relaxed);
        };
        Some(copy.and_then(|copy| copy.to(path, sys::user(), copied)))
    }

    /// Whether the capture accepts nothing more, so that [`Session::copy_at`] will never copy it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
    }

    /// A handle on the present content of the capture, for the trimming. `None` while it ends
    /// inside a record, and when the capture accepts nothing more.
    pub(crate) fn present(&self) -> Option<Result<CaptureCopy, jportal_capture::Error>> {
        let guard = self.writer.take(Cargo::Metadata);
        let writer = guard.as_ref().filter(|_| !self.broken.load(Relaxed))?;
        writer.is_between_records().then(|| writer.copy())
    }

    /// Puts a trimmed copy in the place of the capture. From then on, no window shows anything
    /// before `horizon`.
    ///
    /// # Errors
    /// Those of reading the capture and of writing and renaming the copy. The capture stays.
    pub(crate) fn replace(
        &self,
        copy: TrimmedCopy<Pages>,
        horizon: u64,
    ) -> Result<Replacement, jportal_capture::Error> {
        let earlier = {
            let _no_dump = lock(&self.collecting);
            // One of them is the trimming itself.
            if self.copying.load(Acquire) > 1 {
                return Ok(Replacement::Later(copy));
            }
            // Before the exchange: the windows of a dump that begins meanwhile fit both files.
            self.horizon.swap(horizon, AcqRel)
        };
        let replaced = self.exchange(copy);
        if !matches!(replaced, Ok(Replacement::Done(_))) {
            self.horizon.store(earlier, Release);
        }
        replaced
    }

    /// The part of [`Session::replace`] that waits for the disk.
    fn exchange(&self, mut copy: TrimmedCopy<Pages>) -> Result<Replacement, jportal_capture::Error> {
        let mut turn = self.writer.take(Cargo::Metadata);
        let Some(writer) = turn.as_mut().filter(|_| self.ring.is_open() && !self.broken.load(Relaxed)) else {
            return Ok(Replacement::Never);
        };
        let identity = writer.identity();
        if writer.look().is_err() || identity != sys::identity(&self.path) {
            return Ok(Replacement::Never);
        }
        copy.catch_up(&writer.copy()?)?;
        // A VM that is killed here leaves both files, and the ring completes either of them.
        let belongs_to = |identity: Option<_>| identity.into_iter().for_each(|i| self.ring.belongs_to(i));
        belongs_to(copy.identity());
        match copy.take_place(&self.path) {
            Ok(new) => *writer = new,
            Err(e) => {
                belongs_to(identity);
                return Err(e);
            }
        }
        *lock(&self.written) = writer.written();
        Ok(Replacement::Done(writer.written().file))
    }

    /// The TSC at the time `back` before now; `None` if that is before the recording.
    pub(crate) fn tsc_before(&self, back: Duration) -> Option<u64> {
        let elapsed = self.started.elapsed();
        let now = rdtsc();
        let ticks = u128::from(now.saturating_sub(lock(&self.header).start_tsc));
        let back = (back < elapsed).then(|| ticks * back.as_nanos() / elapsed.as_nanos())?;
        Some(now - back as u64)
    }

    /// Writes the header if it has changed.
    pub(crate) fn write_header(&self) -> bool {
        if !self.header_is_new.swap(false, Acquire) {
            return true;
        }
        let header = lock(&self.header).clone();
        self.append_metadata(|w| w.header(&header))
    }

    /// Ends the recording with a reason: producers continue without recording, the device
    /// stops, and the consumer ends the capture if it still can. Only the first reason is kept.
    pub(crate) fn fail(&self, error: &Error) {
        self.fail_with(error.to_string().into());
    }

    /// As [`Session::fail`]. Allocates nothing and waits for nothing: the caller may be a thread
    /// of the VM that holds a lock. Log and device are left to the watching thread, because a log
    /// may be a full pipe, and a device may have thousands of events.
    pub(crate) fn fail_with(&self, text: Cow<'static, str>) {
        {
            let mut failure = lock(&self.failure);
            if failure.is_some() {
                return;
            }
            *failure = Some(text);
        }
        self.ring.close_now();
        match self.watch.get() {
            Some(thread) => thread.unpark(),
            None => self.carry_out(),
        }
    }

    /// Ends the recording if an allocation had to come from the reserve.
    pub(crate) fn look_at_reserve(&self) {
        if reserve::was_used() {
            self.fail_with("the system has no memory for the recorder".into());
        }
    }

    /// Makes `thread` the watching thread. It may begin later.
    pub(crate) fn watch_by(&self, thread: &Thread) {
        let _ = self.watch.set(thread.clone());
    }

    /// The body of the watching thread: waits for a failure, and stops device and drain.
    pub(crate) fn watch(&self) {
        loop {
            // The order matters: a failure before the end is still reported.
            let over = self.over.load(Acquire);
            if lock(&self.failure).is_some() {
                return self.carry_out();
            }
            if over {
                return;
            }
            std::thread::park();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.get().is_some()
    }

    /// Lets the watching thread end.
    pub(crate) fn end_watch(&self) {
        self.over.store(true, Release);
        if let Some(thread) = self.watch.get() {
            thread.unpark();
        }
    }

    fn carry_out(&self) {
        if self.reported.swap(true, AcqRel) {
            return;
        }
        self.device.disable();
        self.stopping.store(true, Release);
        if let Some(text) = self.failure() {
            self.log.line(Level::Error, &format!("recording stopped: {text}"));
        }
    }

    /// Logs how many requests for dumps were not taken since the last call.
    pub(crate) fn report_missed(&self) {
        let missed = self.missed.load(Relaxed);
        let new = missed.saturating_sub(self.missed_reported.swap(missed, Relaxed));
        if new > 0 {
            let text = format!(
                "{new} more requests while a dump began, or others were not written yet: there are no dumps of their own"
            );
            self.log.line(Level::Warning, &text);
        }
    }

    /// A drain thread begins.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Relaxed);
    }

    /// A drain thread has ended, or the recording has been stopped. The last one closes the
    /// device: a thread that still waits for the disk controls its events when it returns.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, AcqRel) == 1 {
            self.device.finish();
        }
    }

    /// Why the recording ended prematurely, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).as_deref().map(str::to_owned)
    }

    /// Ends the capture with the failure if there was one, otherwise with `reason`. It is tried
    /// even when nothing else could be written, because a reason in the file is better than
    /// none.
    pub(crate) fn finish(&self, reason: EndReason, text: &str) {
        self.measure_tsc();
        self.write_header();
        // The turn lasts until the end is written, so that `is_writing` is true meanwhile.
        let mut turn = self.writer.take(Cargo::Metadata);
        let Some(writer) = turn.take() else { return };
        self.broken.store(true, Relaxed);
        let failure = self.failure();
        let (reason, text) = failure.as_deref().map_or((reason, text), |text| (EndReason::Failed, text));
        match writer.finish_regardless(reason, text, self.counters()) {
            Ok(written) => *lock(&self.written) = written,
            // The log says it already.
            Err(jportal_capture::Error::Deleted | jportal_capture::Error::Shortened { .. })
                if failure.is_some() => {}
            Err(e) if failure.is_some() => {
                self.log.line(Level::Warning, &format!("the capture has no end: {e}"));
            }
            Err(source) => self.fail(&Error::Capture { path: self.path.clone(), source }),
        }
    }

    /// If the device does not know its TSC frequency, measures it over a recording of at least
    /// 100 ms.
    fn measure_tsc(&self) {
        let ms = self.started.elapsed().as_millis() as u64;
        let mut header = lock(&self.header);
        if header.tsc_khz == 0 && ms >= 100 {
            header.tsc_khz = rdtsc().saturating_sub(header.start_tsc) / ms;
            self.header_is_new.store(true, Release);
        }
    }

    pub(crate) fn written(&self) -> Written {
        *lock(&self.written)
    }

    pub(crate) fn counters(&self) -> Vec<Counter> {
        let own = [
            ("records", self.ring.records()),
            ("ring_waits", self.ring.waits()),
            ("drain_passes", self.stats.drain_passes.load(Relaxed)),
            ("loss_notes", self.stats.losses.load(Relaxed)),
            ("dumps", self.dumps.load(Relaxed)),
        ];
        let unit = self.device.counters();
        let unit = unit
            .iter()
            .map(|(name, value)| Counter { name: format!("unit.{name}").as_str().into(), value: *value });
        own.iter().map(|(name, value)| Counter { name: (*name).into(), value: *value }).chain(unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;
    use crate::device;
    use jportal_capture::CaptureReader;

    #[test]
    fn a_start_that_was_given_up_leaves_no_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config =
            RecordingConfig { path: path.clone(), source: Source::None, ..RecordingConfig::default() };
        let late = || {
            let device = device::open(&config).unwrap();
            let ring = Ring::create(dir.path(), 1 << 16, 1 << 16).unwrap();
            let session = Session::new(&config, device.into(), ring, Header::default());
            session.set_writer(CaptureWriter::create(&path).unwrap());
            session
        };
        late().discard();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // Another recording has taken the name meanwhile.
        let session = late();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        session.discard();
        assert_eq!(std::fs::read(&path).unwrap(), b"another");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn checksums_are_computed_outside_of_a_turn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config =
            RecordingConfig { path: path.clone(), source: Source::None, ..RecordingConfig::default() };
        let device = device::open(&config).unwrap();
        let ring = Ring::anonymous(1 << 16, 1 << 16).unwrap();
        let session = Session::new(&config, device.into(), ring, Header::default());
        session.set_writer(CaptureWriter::create(&path).unwrap());
        assert!(session.write_header());
        let trace = vec![7; 9 << 20];
        let (mut pieces, mut asked) = (session.sealer.pt(Core(0), StreamOffset(0), &trace), 0);
        let watched = std::iter::from_fn(|| {
            assert!(!session.is_writing(), "a checksum in a turn");
            asked += 1;
            pieces.next()
        });
        assert!(session.append_sealed(Cargo::Trace, watched));
        assert_eq!(asked, 4, "three pieces and the end");
        assert!(session.append_sideband(Core(0), &[]) && !session.append_sideband(Core(0), &[1; 9]));
        assert!(session.failure().unwrap().contains("sideband of core 0"));
        assert!(!session.append_records(&[0; 24]), "after a failure");
        session.finish(EndReason::Exit, "");
        let reader = CaptureReader::open(&path).unwrap();
        assert_eq!(reader.pt_bytes(Core(0)), 9 << 20);
        assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Failed);
    }
}
