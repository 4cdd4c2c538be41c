// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The state that the threads of one recording share.

use crate::config::RecordingConfig;
use crate::device::Device;
use crate::dump::Requests;
use crate::error::Error;
use crate::log::{Level, Log};
use crate::ring::Ring;
use crate::sys::rdtsc;
use jportal_capture::{CaptureWriter, Counter, EndReason, Header, Written};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) struct Session {
    pub(crate) ring: Ring,
    pub(crate) device: Box<dyn Device>,
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
    writer: Mutex<Option<CaptureWriter>>,
    /// A write to the capture failed.
    broken: AtomicBool,
    written: Mutex<Written>,
    failure: Mutex<Option<String>>,
    started: Instant,
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

impl Session {
    pub(crate) fn new(config: &RecordingConfig, device: Box<dyn Device>, ring: Ring, header: Header) -> Self {
        Self {
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
            writer: Mutex::new(None),
            broken: AtomicBool::new(false),
            written: Mutex::new(Written::default()),
            failure: Mutex::new(None),
            started: Instant::now(),
        }
    }

    /// Gives the session its capture.
    pub(crate) fn set_writer(&self, writer: CaptureWriter) {
        *lock(&self.writer) = Some(writer);
    }

    /// Appends to the capture. `false` when it accepts nothing more; the first failure ends the
    /// recording.
    pub(crate) fn append(
        &self,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        let mut guard = lock(&self.writer);
        let Some(writer) = guard.as_mut().filter(|_| !self.broken.load(Relaxed)) else { return false };
        let result = f(writer);
        *lock(&self.written) = writer.written();
        let Err(source) = result else { return true };
        self.broken.store(true, Relaxed);
        drop(guard);
        self.fail(&Error::Capture { path: self.path.clone(), source });
        false
    }

    /// Like [`Session::append`], but after a failure: a piece smaller than the one that did not
    /// fit may fit. `false` when this one does not fit either.
    pub(crate) fn append_after_failure(
        &self,
        f: impl FnOnce(&mut CaptureWriter) -> Result<(), jportal_capture::Error>,
    ) -> bool {
        let mut guard = lock(&self.writer);
        let Some(writer) = guard.as_mut() else { return false };
        writer.retry();
        let done = f(writer).is_ok();
        *lock(&self.written) = writer.written();
        done
    }

    /// A copy of the capture at `path`, with a writer that continues it. `None` while the
    /// capture lacks metadata up to `mark` or ends inside a record. Other threads continue to
    /// write meanwhile.
    pub(crate) fn copy_at(
        &self,
        path: &Path,
        mark: u64,
    ) -> Option<Result<CaptureWriter, jportal_capture::Error>> {
        let copy = {
            let guard = lock(&self.writer);
            let writer = guard.as_ref().filter(|_| !self.broken.load(Relaxed))?;
            (writer.written().metadata >= mark && writer.is_between_records()).then(|| writer.copy())?
        };
        Some(copy.and_then(|copy| copy.to(path)))
    }

    /// Writes the header if it has changed.
    pub(crate) fn write_header(&self) -> bool {
        if !self.header_is_new.swap(false, Acquire) {
            return true;
        }
        let header = lock(&self.header).clone();
        self.append(|w| w.header(&header))
    }

    /// Ends the recording with a reason: producers continue without recording, the device
    /// stops, and the consumer ends the capture if it still can. Only the first reason is kept.
    pub(crate) fn fail(&self, error: &Error) {
        let text = error.to_string();
        {
            let mut failure = lock(&self.failure);
            if failure.is_some() {
                return;
            }
            *failure = Some(text.clone());
        }
        self.log.line(Level::Error, &format!("recording stopped: {text}"));
        self.stopping.store(true, Release);
        self.device.disable();
        self.ring.close_now();
    }

    /// Why the recording ended prematurely, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Ends the capture with the failure if there was one, otherwise with `reason`. It is tried
    /// even when nothing else could be written, because a reason in the file is better than
    /// none.
    pub(crate) fn finish(&self, reason: EndReason, text: &str) {
        self.measure_tsc();
        self.write_header();
        let Some(writer) = lock(&self.writer).take() else { return };
        let failure = self.failure();
        let (reason, text) = failure.as_deref().map_or((reason, text), |text| (EndReason::Failed, text));
        match writer.finish(reason, text, self.counters()) {
            Ok(written) => *lock(&self.written) = written,
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
