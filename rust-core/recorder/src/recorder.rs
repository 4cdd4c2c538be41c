// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One recording: its threads, from start to stop.

use crate::config::{RecordingConfig, StorageLimits};
use crate::device::{self, Device};
use crate::drain::{self, CORES_PER_THREAD, CoreDrain};
use crate::dump::{self, SlowCall};
use crate::error::Error;
use crate::log::Level;
use crate::ring::{ANONYMOUS_CAPACITY, CAPACITY, Overrun, Ring};
use crate::session::{Session, lock, try_lock};
use crate::{consumer, header, sys};
use jportal_capture::header::sources;
use jportal_capture::{EndReason, ring_file};
use jportal_perf_abi::kernel::{Kernel, Linux};
use std::any::Any;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Why a recording is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The VM exits.
    Exit,
    /// A user or program requested the stop.
    Asked,
    /// The VM ends with an error: the stop must not take long.
    VmError,
}

impl StopReason {
    /// How long [`Recorder::stop`] may take; `None`: as long as data arrives.
    const fn patience(self) -> Option<Duration> {
        match self {
            Self::VmError => Some(Duration::from_secs(2)),
            Self::Exit | Self::Asked => None,
        }
    }
    const fn end(self) -> (EndReason, &'static str) {
        match self {
            Self::Exit => (EndReason::Exit, ""),
            Self::Asked => (EndReason::Stopped, "asked for"),
            Self::VmError => (EndReason::Failed, "the VM ended with an error"),
        }
    }
}

/// How long a dying process waits for the recorder, in all of its calls together: below the 100 ms
/// that it is promised, because each sleep may last longer than it should.
const LAST_PATIENCE: Duration = Duration::from_millis(90);

/// What a process under QEMU waits in addition.
const EMULATED_PATIENCE: Duration = Duration::from_secs(2);

/// A running recording.
pub struct Recorder {
    session: Arc<Session>,
    /// `None` once the recording has been stopped.
    threads: Mutex<Option<RecorderThreads>>,
    /// The drain threads, to wake them.
    drains: Arc<[Thread]>,
    /// Threads that write dumps.
    writers: Mutex<Vec<JoinHandle<()>>>,
    end: Arc<Mutex<StopReason>>,
    /// How long the dying process has waited, in nanoseconds.
    dying: AtomicU64,
}

struct RecorderThreads {
    drains: Vec<JoinHandle<()>>,
    consumer: JoinHandle<()>,
    watch: JoinHandle<()>,
}

/// Why the ring closed itself. A constant, because the thread that finds it may hold locks of the
/// VM.
const fn reason_of(overrun: Overrun) -> &'static str {
    match overrun {
        Overrun::Full => {
            "the file system is too slow: the memory for metadata that waits for it is full; record to a faster disk"
        }
        Overrun::NoMemory => "/dev/shm has no room for metadata that waits for the file system",
    }
}

impl Recorder {
    /// Opens device, ring and capture, and starts the threads.
    ///
    /// # Errors
    /// When one of them cannot be opened; then nothing is left running and no file stays. When a
    /// file system does not answer in time, the same holds from its answer on.
    pub fn start(config: RecordingConfig) -> Result<Self, Error> {
        sys::with_signals_blocked(|| Self::start_blocked(config))
    }

    fn start_blocked(config: RecordingConfig) -> Result<Self, Error> {
        let device = device::open(&config)?;
        Self::start_on(config, device)
    }

    /// Starts on a device that was opened for this recording.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn start_on(config: RecordingConfig, device: Box<dyn Device>) -> Result<Self, Error> {
        sys::with_signals_blocked(|| Self::start_on_blocked(config, device, None))
    }

    /// As [`Recorder::start_on`], but writes to `file`, which is empty and positioned at its start.
    /// For tests: no other file is a pipe that somebody may stop reading.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    #[doc(hidden)]
    pub fn start_into(
        config: RecordingConfig,
        device: Box<dyn Device>,
        file: std::fs::File,
    ) -> Result<Self, Error> {
        sys::with_signals_blocked(|| Self::start_on_blocked(config, device, Some(file)))
    }

    /// Creates the recorder's threads first: the device traces this thread and those that it
    /// creates after `rings`, so the recorder's own are not traced. On an error the threads'
    /// channels close and the threads end.
    fn start_on_blocked(
        config: RecordingConfig,
        device: Box<dyn Device>,
        file: Option<std::fs::File>,
    ) -> Result<Self, Error> {
        let end = Arc::new(Mutex::new(StopReason::Exit));
        let consumer = WaitingConsumer::spawn(Arc::clone(&end))?;
        let crew =
            (0..device.config().cores as usize).step_by(CORES_PER_THREAD).map(|_| WaitingDrain::spawn());
        let crew: Vec<WaitingDrain> = crew.collect::<Result<_, _>>()?;
        let watch = WaitingWatch::spawn()?;
        let own: Vec<u32> = crew.iter().map(|drain| drain.tid).chain([consumer.tid, watch.tid]).collect();
        let rings = device.rings(&own)?;
        let (buffer_bytes, snapshot_bytes) = (config.buffer_bytes, config.snapshot_bytes);
        let (session, consumer) = consumer.start(config, device.into(), file)?;
        let watch = watch.start(&session);
        let keep = session.device.keeps();
        if keep.is_none() && snapshot_bytes != 0 {
            let rest = if session.trims { "metadata is trimmed as beside trace" } else { "it is ignored" };
            let text = format!("JPortalSnapshot: this source writes no trace; {rest}");
            session.log.line(Level::Warning, &text);
        }
        let mut cores = rings.into_iter().map(|(core, rings)| CoreDrain::new(core, rings, keep));
        let drains = crew.into_iter().map(|thread| {
            let cores = cores.by_ref().take(CORES_PER_THREAD).collect();
            thread.start(Arc::clone(&session), cores)
        });
        let drains: Vec<_> = drains.collect();
        session.drains.store(drains.len() as u64, Relaxed);
        let pt = session.device.config();
        if buffer_bytes != 0 && pt.source == sources::EMULATED && pt.aux_bytes != buffer_bytes {
            let text = format!(
                "JPortalBufferSize is ignored: the emulated unit has {} bytes per core",
                pt.aux_bytes
            );
            session.log.line(Level::Warning, &text);
        }
        let source = pt.source_name();
        session.log.line(Level::Info, &format!("recording to {} (source {source})", session.path.display()));
        Ok(Self {
            session,
            drains: drains.iter().map(|d| d.thread().clone()).collect(),
            threads: Mutex::new(Some(RecorderThreads { drains, consumer, watch })),
            writers: Mutex::default(),
            end,
            dying: AtomicU64::new(0),
        })
    }

    /// Whether records are accepted.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.session.ring.is_open()
    }

    /// The calling thread is new and will run Java code or work for the VM.
    pub fn thread_started(&self) {
        if self.is_active() {
            self.session.device.thread_started();
        }
    }

    /// Whether [`Recorder::stop`] has completed.
    pub fn is_stopped(&self) -> bool {
        self.threads.try_lock().is_ok_and(|threads| threads.is_none())
    }

    /// Commits one metadata record (see [`Ring::write`]). Waits for no disk.
    #[inline]
    pub fn write(&self, kind: u16, body: &[u8]) -> bool {
        let taken = self.session.ring.write(kind, body);
        if let (false, Some(overrun)) = (taken, self.session.ring.overrun()) {
            self.session.fail_with(reason_of(overrun).into());
        }
        taken
    }

    /// Whether the device cannot filter a code cache of anonymous memory, but can filter one
    /// that [`crate::code_memory`] has made.
    pub fn filters_files_only(&self) -> bool {
        self.is_active() && self.session.device.filters_files_only()
    }

    /// The code cache is `low..high`: sets the filter and enables the device. `file` is the
    /// file that [`crate::code_memory::back`] returned for the range; it is not needed after
    /// this call.
    ///
    /// # Errors
    /// For an empty range, or when the device refuses.
    pub fn set_code_cache(&self, low: u64, high: u64, file: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        if low >= high {
            let value = format!("{low:#x}..{high:#x}");
            return Err(Error::Configuration { field: "code cache", value, rule: "low must be below high" });
        }
        let filter = self.session.device.enable(low, high, file.map(|f| f.as_raw_fd()))?;
        {
            let mut header = lock(&self.session.header);
            header.code_cache_low = low;
            header.code_cache_high = high;
            header.pt.filter = filter;
        }
        self.session.header_is_new.store(true, Release);
        self.session.ring.wake_consumer();
        Ok(())
    }

    /// Ends the recording: stops the device, drains everything, ends the file. Later calls do
    /// nothing; they wait for the first one, except with [`StopReason::VmError`].
    pub fn stop(&self, reason: StopReason) {
        if self.session.ring.is_crashed() {
            return; // what is left is in the ring file
        }
        // The lock is held to the end, because later calls wait for it.
        let mut running = match reason.patience() {
            None => lock(&self.threads),
            Some(_) => match try_lock(&self.threads) {
                Some(threads) => threads,
                None => return,
            },
        };
        if running.is_none() {
            return;
        }
        let mut limit = EndLimit::new(&self.session, reason.patience());
        let collecting = match reason.patience() {
            // A dump that does not come to its end is left to itself.
            None => limit.lock(&self.session.collecting),
            Some(_) => match try_lock(&self.session.collecting) {
                Some(collecting) => Some(collecting),
                // The threads stay for a later call.
                None => return,
            },
        };
        let Some(threads) = running.take() else { return };
        *lock(&self.end) = reason;
        self.session.device.disable();
        self.session.stopping.store(true, Release);
        drop(collecting);
        // The metadata ring stays open until the trace has ended, so that it takes every record
        // that the trace needs.
        for thread in threads.drains {
            thread.thread().unpark();
            limit.join(thread);
        }
        // Not under the lock, which a thread that asks for a dump takes.
        let writers = std::mem::take(&mut *lock(&self.writers));
        for writer in writers {
            limit.join(writer);
        }
        self.session.ring.close();
        limit.join(threads.consumer);
        // With the watching thread ends what a failure entails. Its log line may take long.
        self.session.end_watch();
        join(threads.watch, Some(Instant::now() + LAST_LINE));
        self.session.leave();
        self.session.report_missed();
        self.warn_of_silence();
        self.session.log.line(Level::Info, &self.summary());
    }

    /// Writes what the flight recorder holds to a separate capture; the recording continues.
    /// The capture contains `reason`. Waits until it is complete, and returns its path.
    ///
    /// # Errors
    /// When nothing is recorded, when the recording is not that of a flight recorder, or when
    /// the capture cannot be written.
    pub fn dump(&self, path: &Path, reason: &str) -> Result<PathBuf, Error> {
        let dump = sys::with_signals_blocked(|| self.spawn_dump(path, reason, Caller::Waits))?;
        let limit = self.session.limits.dump;
        dump.written.recv_timeout(limit).unwrap_or_else(|_| {
            let text = format!("it is not complete after {} s and continues", limit.as_secs());
            Err(Error::Dump(text))
        })
    }

    /// The same, but returns when the windows are copied. The capture contains `call`, if a slow
    /// call is the reason. A later failure is logged.
    pub(crate) fn begin_dump(&self, path: &Path, reason: &str, call: Option<SlowCall>) -> Result<(), Error> {
        let dump = sys::with_signals_blocked(|| self.spawn_dump(path, reason, Caller::Continues(call)))?;
        let _ = dump.copied.recv_timeout(self.session.limits.dump);
        Ok(())
    }

    /// Starts the thread that makes a dump, because no thread of the VM waits for a disk without
    /// a limit.
    fn spawn_dump(&self, path: &Path, reason: &str, caller: Caller) -> Result<UnderWay, Error> {
        let session = &self.session;
        if session.device.keeps().is_none() {
            return Err(Error::Dump(
                "the recording is none of a flight recorder (-XX:JPortalSnapshot)".into(),
            ));
        }
        if !self.is_active() {
            return Err(Error::Dump(self.failure().unwrap_or_else(|| "nothing is recorded".into())));
        }
        let place = DumpPlace::take(session)
            .ok_or_else(|| Error::Dump(format!("{MOST_UNWRITTEN} others are not written yet")))?;
        let (own, drains) = (Arc::clone(session), Arc::clone(&self.drains));
        let (reason, path) = (reason.to_owned(), path.to_owned());
        let (done, written) = mpsc::sync_channel(1);
        let (collected, copied) = mpsc::sync_channel(1);
        let write = move || {
            let mut result = Err(Error::Dump("its thread panicked".into()));
            guarded(&own, || result = make_dump(&own, &drains, &path, &reason, caller, &collected));
            drop(collected);
            if let (Err(e), Caller::Continues(_)) = (&result, caller) {
                own.log.line(Level::Warning, &e.to_string());
            }
            // The caller may want another dump at once.
            drop(place);
            let _ = done.try_send(result);
            own.report_missed();
        };
        let writer = spawn("jportal-dump", write)?;
        let mut writers = lock(&self.writers);
        writers.retain(|w| !w.is_finished());
        writers.push(writer);
        Ok(UnderWay { copied, written })
    }

    /// Pauses the device until the next dump has been made, as far as possible until `deadline`.
    /// Waits longer for the emulated unit alone.
    pub(crate) fn pause_until(&self, deadline: Instant) {
        self.session.device.pause_until(deadline);
    }

    /// Continues after [`Recorder::pause_until`] if no dump was made.
    pub(crate) fn resume(&self) {
        // The lock is that of dumps, during which the device must not run.
        let _no_dump = lock(&self.session.collecting);
        self.session.device.resume();
    }

    /// Whether there is a place for one more dump.
    pub(crate) fn takes_dumps(&self) -> bool {
        self.session.unwritten.load(Acquire) < MOST_UNWRITTEN
    }

    /// A request for a dump is not taken.
    pub(crate) fn miss_dump(&self) {
        self.session.missed.fetch_add(1, Relaxed);
    }

    /// Logs how many requests for dumps were not taken.
    pub(crate) fn report_missed(&self) {
        self.session.report_missed();
    }

    /// Logs a warning.
    pub(crate) fn warn(&self, text: &str) {
        self.session.log.line(Level::Warning, text);
    }

    /// Async-signal-safe: the VM has met a fatal error. Stops the device, in half of
    /// `LAST_PATIENCE` as far as possible. The recorder's threads continue to drain while the
    /// process lives; the ring stays open.
    pub fn crash_begins(&self) {
        let since = Instant::now();
        self.stop_device(since + self.patience() / 2);
        self.dying.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    }

    fn stop_device(&self, deadline: Instant) {
        self.session.device.disable_until(deadline);
        self.session.stopping.store(true, Release);
    }

    /// What is left of `LAST_PATIENCE`.
    fn patience(&self) -> Duration {
        LAST_PATIENCE.saturating_sub(Duration::from_nanos(self.dying.load(Relaxed)))
    }

    /// Async-signal-safe: a thread got SIGBUS at `address`. Returns whether it may repeat its
    /// access ([`Ring::bus_error`]).
    pub fn bus_error(&self, address: usize) -> bool {
        self.session.ring.bus_error(address)
    }

    /// Async-signal-safe: the process is about to end by a fatal error. Stops the device, gives
    /// it and the drain threads what is left of `LAST_PATIENCE` (`EMULATED_PATIENCE` more for the
    /// windows of a flight recorder with the emulated unit), and releases producers. The ring file
    /// stays.
    pub fn emergency(&self) {
        self.emergency_since(Instant::now());
    }

    /// The same, for a process that has waited for the recorder since `since`.
    pub(crate) fn emergency_since(&self, since: Instant) {
        let session = &self.session;
        let patience = self.patience();
        let (half, deadline) = (since + patience / 2, since + patience);
        self.stop_device(half);
        // Code that runs until the device stops is traced, and decoding it may need records
        // that other threads commit meanwhile. So the ring stays open until then.
        give_time(half, || session.device.is_quiet());
        session.ring.mark_crashed();
        if session.device.keeps().is_some() {
            // The drain threads write the windows of a flight recorder, and continue while the VM
            // writes its report. QEMU makes them slow.
            let emulated = session.device.config().source == sources::EMULATED;
            let deadline = if emulated { deadline + EMULATED_PATIENCE } else { deadline };
            let drains = session.drains.load(Relaxed);
            give_time(deadline, || session.saved.load(Relaxed) >= drains);
        }
    }

    /// Ends the recording because of an error outside its threads.
    pub(crate) fn fail(&self, error: &Error) {
        self.session.fail(error);
    }

    /// Why the recording ended prematurely, if it did.
    pub fn failure(&self) -> Option<String> {
        self.session.failure()
    }

    /// The status as lines "key: value".
    pub fn status(&self) -> String {
        let s = &self.session;
        let written = s.written();
        let state = match (s.failure(), s.ring.is_crashed(), s.ring.is_open()) {
            (Some(reason), ..) => format!("failed: {reason}"),
            (None, true, _) => "crashed".into(),
            (None, false, true) => "recording".into(),
            (None, false, false) => "stopped".into(),
        };
        let pt = s.device.config();
        let mode =
            s.device.keeps().map(|keep| format!("flight recorder, the last {keep} bytes of each core"));
        let lines = [
            ("state", state),
            ("file", s.path.display().to_string()),
            ("source", pt.source_name().into()),
            ("mode", mode.unwrap_or_else(|| if s.trims { "trimmed metadata" } else { "everything" }.into())),
            ("dumps", s.dumps.load(Relaxed).to_string()),
            ("dumps missed", s.missed.load(Relaxed).to_string()),
            ("cores", pt.cores.to_string()),
            ("file bytes", written.file.to_string()),
            ("trace bytes", written.pt.to_string()),
            ("metadata bytes", written.metadata.to_string()),
            ("records", s.ring.records().to_string()),
            ("ring waits", s.ring.waits().to_string()),
            ("losses", s.stats.losses.load(Relaxed).to_string()),
        ];
        lines.map(|(key, value)| format!("{key}: {value}\n")).concat()
    }

    /// Warns if the unit wrote nothing at all: it was not scheduled, or its filter matches
    /// nothing. No call reports this as an error.
    fn warn_of_silence(&self) {
        let pt = self.session.device.config();
        if pt.source == sources::PERF && self.session.written().pt == 0 && self.session.failure().is_none() {
            let filter = match lock(&self.session.header).pt.filter.first() {
                Some(f) => format!("the filter {:#x}..{:#x} matched nothing", f.low, f.high),
                None => "nothing was filtered out".into(),
            };
            let text =
                format!("Intel PT wrote no trace: {filter}, or the event was never scheduled (see dmesg)");
            self.session.log.line(Level::Warning, &text);
        }
    }

    fn summary(&self) -> String {
        let w = self.session.written();
        let path = self.session.path.display();
        let losses = self.session.stats.losses.load(Relaxed);
        format!("{path}: {} bytes of trace, {} of metadata, {losses} losses", w.pt, w.metadata)
    }
}

/// Dumps under way at one time. Each holds the windows of all cores until it is written.
const MOST_UNWRITTEN: u64 = 2;

/// One of the places for dumps under way.
struct DumpPlace(Arc<Session>);

impl DumpPlace {
    fn take(session: &Arc<Session>) -> Option<Self> {
        let more = |n| (n < MOST_UNWRITTEN).then_some(n + 1);
        let taken = session.unwritten.fetch_update(AcqRel, Acquire, more);
        taken.ok().map(|_| Self(Arc::clone(session)))
    }
}

impl Drop for DumpPlace {
    fn drop(&mut self) {
        self.0.unwritten.fetch_sub(1, AcqRel);
    }
}

/// Whether somebody waits for the outcome of a dump.
#[derive(Debug, Clone, Copy)]
enum Caller {
    Waits,
    /// The caller has paused the device and learns of the copied windows only.
    Continues(Option<SlowCall>),
}

/// What the thread that makes a dump reports.
struct UnderWay {
    /// The windows are copied.
    copied: mpsc::Receiver<()>,
    /// The outcome.
    written: mpsc::Receiver<Result<PathBuf, Error>>,
}

/// Makes a dump, and returns its path. Sends to `collected` when its windows are copied.
fn make_dump(
    session: &Session,
    drains: &[Thread],
    path: &Path,
    reason: &str,
    caller: Caller,
    collected: &mpsc::SyncSender<()>,
) -> Result<PathBuf, Error> {
    let turn = lock(&session.collecting);
    if !session.ring.is_open() || session.stopping.load(Acquire) {
        if let Caller::Continues(_) = caller {
            session.device.resume();
        }
        return Err(Error::Dump(session.failure().unwrap_or_else(|| "the recording ends".into())));
    }
    let wake = || drains.iter().for_each(Thread::unpark);
    let (windows, mark) = dump::collect(session, drains.len(), wake)?;
    // Before the turn ends: the metadata of the windows must not be trimmed until it is copied.
    session.copying.fetch_add(1, Relaxed);
    drop(turn);
    let _ = collected.try_send(());
    session.dumps.fetch_add(1, Relaxed);
    let call = if let Caller::Continues(call) = caller { call } else { None };
    let written = dump::write(session, path, &windows, mark, reason, call);
    session.copying.fetch_sub(1, Relaxed);
    written
}

/// A drain thread that waits for its work.
struct WaitingDrain {
    thread: JoinHandle<()>,
    tid: u32,
    work: mpsc::SyncSender<(Arc<Session>, Vec<CoreDrain>)>,
}

impl WaitingDrain {
    fn spawn() -> Result<Self, Error> {
        let (work, given) = mpsc::sync_channel::<(Arc<Session>, Vec<CoreDrain>)>(1);
        let body = move || {
            if let Ok((session, cores)) = given.recv() {
                guarded(&session, || drain::run(&session, cores));
                session.leave();
            }
        };
        let (thread, tid) = spawn_known("jportal-drain", body)?;
        Ok(Self { thread, tid, work })
    }

    fn start(self, session: Arc<Session>, cores: Vec<CoreDrain>) -> JoinHandle<()> {
        session.enter();
        // Cannot fail: the thread waits for this message only.
        let _ = self.work.send((session, cores));
        self.thread
    }
}

type Assignment = (RecordingConfig, Arc<dyn Device>, Option<std::fs::File>);

/// The consumer thread before it receives its work. It creates ring and capture itself, so that
/// every write of the recorder happens with signals blocked.
struct WaitingConsumer {
    thread: JoinHandle<()>,
    tid: u32,
    work: mpsc::SyncSender<Assignment>,
    answer: mpsc::Receiver<Result<Arc<Session>, Error>>,
}

impl WaitingConsumer {
    fn spawn(end: Arc<Mutex<StopReason>>) -> Result<Self, Error> {
        let (work, given) = mpsc::sync_channel::<Assignment>(1);
        // Without a buffer: what was sent has been received.
        let (to_starter, answer) = mpsc::sync_channel(0);
        let body = move || {
            let Ok((config, device, file)) = given.recv() else { return };
            match catch_unwind(AssertUnwindSafe(|| open_session(&config, device, file))) {
                Ok(Ok(session)) => {
                    session.ring.attach_consumer();
                    if to_starter.send(Ok(Arc::clone(&session))).is_err() {
                        return session.discard();
                    }
                    guarded(&session, || consumer::run(&session));
                    guarded(&session, || consumer::save(&session));
                    let (reason, text) = lock(&end).end();
                    session.finish(reason, text);
                    session.ring.remove_file();
                }
                Ok(Err(e)) => drop(to_starter.send(Err(e))),
                Err(panic) => drop(to_starter.send(Err(Error::Panic(panic_text(&*panic))))),
            }
        };
        let (thread, tid) = spawn_known("jportal-export", body)?;
        Ok(Self { thread, tid, work, answer })
    }

    /// Gives the thread its work and waits until it has created ring and capture. When that takes
    /// too long, the device is closed, because it has many files, and the thread is left to itself;
    /// it discards what it has created.
    fn start(
        self,
        config: RecordingConfig,
        device: Arc<dyn Device>,
        file: Option<std::fs::File>,
    ) -> Result<(Arc<Session>, JoinHandle<()>), Error> {
        let (path, limit) = (config.path.clone(), config.limits.start);
        let _ = self.work.send((config, Arc::clone(&device), file));
        match self.answer.recv_timeout(limit) {
            Ok(Ok(session)) => Ok((session, self.thread)),
            Ok(Err(e)) => {
                let _ = self.thread.join();
                Err(e)
            }
            Err(RecvTimeoutError::Timeout) => {
                device.finish();
                Err(Error::SlowStart { path, seconds: limit.as_secs() })
            }
            Err(e) => Err(Error::Panic(e.to_string())),
        }
    }
}

/// The thread that carries out what a failure entails, before it receives its work.
struct WaitingWatch {
    thread: JoinHandle<()>,
    tid: u32,
    work: mpsc::SyncSender<Arc<Session>>,
}

impl WaitingWatch {
    fn spawn() -> Result<Self, Error> {
        let (work, given) = mpsc::sync_channel::<Arc<Session>>(1);
        let (thread, tid) = spawn_known("jportal-watch", move || {
            if let Ok(session) = given.recv() {
                session.watch();
            }
        })?;
        Ok(Self { thread, tid, work })
    }

    fn start(self, session: &Arc<Session>) -> JoinHandle<()> {
        // Before a producer can fail: it leaves log and device to this thread.
        session.watch_by(self.thread.thread());
        let _ = self.work.send(Arc::clone(session));
        self.thread
    }
}

/// How long the end of a recording may take.
struct EndLimit<'a> {
    session: &'a Session,
    rounds: Rounds,
    moved: (u64, u64),
}

/// Rounds of [`ROUND`] in which the end of a recording waits. They are counted, and no clock is
/// read: a process that was stopped for a minute has not waited for a minute.
struct Rounds {
    /// Of the whole wait.
    left: u32,
    /// The last ones, in which a write has lasted without an end.
    silent: u32,
    /// The wait depends on the file system: a write that lasts this long ends it.
    longest_write: Option<u32>,
}

/// Why the end of a recording waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The whole wait is over.
    All,
    /// A write lasts too long.
    Write,
}

const ROUND: Duration = Duration::from_millis(2);
/// How long the log may take for its last line.
const LAST_LINE: Duration = Duration::from_millis(500);

impl Rounds {
    /// `patience`: of an end that does not depend on the file system.
    fn new(patience: Option<Duration>, limits: StorageLimits) -> Self {
        let left = rounds_of(patience.unwrap_or(limits.end));
        let longest_write = patience.is_none().then(|| rounds_of(limits.write));
        Self { left, silent: 0, longest_write }
    }

    /// One more round. `silent`: a write lasts, and the file system has taken nothing.
    fn next(&mut self, silent: bool) -> Option<Over> {
        self.left = self.left.saturating_sub(1);
        self.silent = if silent { self.silent + 1 } else { 0 };
        if self.longest_write.is_some_and(|longest| self.silent >= longest) {
            return Some(Over::Write);
        }
        (self.left == 0).then_some(Over::All)
    }
}

const fn rounds_of(time: Duration) -> u32 {
    (time.as_millis() / ROUND.as_millis()) as u32
}

impl<'a> EndLimit<'a> {
    fn new(session: &'a Session, patience: Option<Duration>) -> Self {
        Self { session, rounds: Rounds::new(patience, session.limits), moved: (0, 0) }
    }

    /// Waits for a lock. `None` when the recording is given up.
    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> Option<MutexGuard<'m, ()>> {
        loop {
            if let Some(guard) = try_lock(mutex) {
                return Some(guard);
            }
            if !self.continues() {
                return None;
            }
            std::thread::sleep(ROUND);
        }
    }

    /// Waits for a thread. Gives the recording up when the disk takes nothing any more, or is too
    /// slow; the thread then ends when it can.
    fn join(&mut self, thread: JoinHandle<()>) {
        while !thread.is_finished() && self.continues() {
            std::thread::sleep(ROUND);
        }
        if thread.is_finished() {
            // A panic of the thread was caught in it.
            let _ = thread.join();
        }
    }

    fn continues(&mut self) -> bool {
        let moved = (self.session.written().chunks, self.session.copied.load(Relaxed));
        let writes = self.session.is_writing() || self.session.copying.load(Relaxed) > 0;
        let progress = std::mem::replace(&mut self.moved, moved) != moved;
        let Some(over) = self.rounds.next(writes && !progress) else { return true };
        let (path, limits) = (self.session.path.clone(), self.session.limits);
        match over {
            Over::Write => self.session.fail(&Error::Stuck { path, seconds: limits.write.as_secs() }),
            Over::All if self.rounds.longest_write.is_some() => {
                self.session.fail(&Error::SlowEnd { path, seconds: limits.end.as_secs() });
            }
            Over::All => {}
        }
        false
    }
}

/// Creates the ring before the capture, whose header names it.
fn open_session(
    config: &RecordingConfig,
    device: Arc<dyn Device>,
    file: Option<std::fs::File>,
) -> Result<Arc<Session>, Error> {
    let ring = open_ring(config)?;
    let mut header = header::at_start(config, &*device);
    if let Some(path) = ring.path().and_then(Path::to_str) {
        header.ring.0 = path.into();
    }
    let session = Arc::new(Session::new(config, device, ring, header));
    consumer::create(&session, file).inspect_err(|_| session.ring.remove_file())?;
    Ok(session)
}

/// The ring, in the user's private folder if possible.
fn open_ring(config: &RecordingConfig) -> Result<Ring, Error> {
    let size = config.ring_size()?;
    let folder = config.ring_folder.clone().map_or_else(|| ring_file::make_folder(sys::user()), Ok);
    let why = match folder {
        Ok(folder) => match Ring::create(&folder, size, CAPACITY) {
            Ok(ring) => return Ok(ring),
            Err(e) => e.to_string(),
        },
        Err(e) => format!("no private folder in /dev/shm: {e}"),
    };
    let text = format!("{why}. If the VM is killed, the last records of metadata are lost");
    config.log.line(Level::Warning, &text);
    Ring::anonymous(size, ANONYMOUS_CAPACITY)
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    let thread = Builder::new().name(name.into()).spawn(body);
    thread.map_err(|source| Error::Thread { name: name.into(), source })
}

/// Like [`spawn`]; also returns the thread's id.
fn spawn_known(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(JoinHandle<()>, u32), Error> {
    let (id, told) = mpsc::sync_channel(1);
    let thread = spawn(name, move || {
        let _ = id.send(Linux.this_thread());
        body();
    })?;
    let tid = told.recv().map_err(|e| Error::Panic(e.to_string()))?;
    Ok((thread, tid))
}

/// Runs a thread's body; a panic ends the recording, not the VM.
fn guarded(session: &Session, body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        session.fail(&Error::Panic(panic_text(&*panic)));
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}

/// Waits until `done`, at most until `deadline`. Async-signal-safe if `done` is.
fn give_time(deadline: Instant, done: impl Fn() -> bool) {
    while !done() && Instant::now() < deadline {
        sys::sleep_ms(2);
    }
}

/// Waits for a thread, at most until `deadline`.
fn join(thread: JoinHandle<()>, deadline: Option<Instant>) {
    while deadline.is_some_and(|d| Instant::now() < d) && !thread.is_finished() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if deadline.is_none() || thread.is_finished() {
        // A panic of the thread was caught in it.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;
    use crate::pages::Pages;
    use crate::session::Replacement;
    use jportal_capture::{CaptureReader, CaptureWriter, Header};
    use jportal_perf_abi::emulated::{EmulatedUnit, UnitConfig};
    use jportal_units::Tsc;

    /// The round in which a wait is over, and why, if every `n`th round makes progress.
    fn over(mut rounds: Rounds, n: u32) -> (u32, Over) {
        (1..).find_map(|round| Some((round, rounds.next(round % n != 0)?))).unwrap()
    }

    #[test]
    fn the_end_of_a_recording_waits_for_a_limited_time() {
        // A round takes 2 ms. Nothing moves; something moves each second.
        let rounds = |patience| Rounds::new(patience, StorageLimits::default());
        assert_eq!(over(rounds(None), u32::MAX), (2_500, Over::Write));
        assert_eq!(over(rounds(None), 500), (30_000, Over::All));
        assert_eq!(over(rounds(Some(Duration::from_secs(2))), u32::MAX), (1_000, Over::All));
    }

    /// A recording whose storage takes no write until the function is called.
    fn stalled(folder: &Path) -> (Arc<Recorder>, impl FnOnce()) {
        let limits = StorageLimits { write: Duration::from_millis(300), ..StorageLimits::default() };
        let path = folder.join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, limits, ..RecordingConfig::default() };
        let recorder = Arc::new(Recorder::start(config).unwrap());
        let ((hangs, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let session = Arc::clone(&recorder.session);
        let write = std::thread::spawn(move || {
            session.append_metadata(|_| {
                hangs.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            });
        });
        begun.recv().unwrap();
        let end = move || {
            drop(release);
            write.join().unwrap();
        };
        (recorder, end)
    }

    /// Stops the recording, which must not take long.
    fn stop_in_time(recorder: &Arc<Recorder>) {
        let (own, (done, stopped)) = (Arc::clone(recorder), mpsc::channel());
        std::thread::spawn(move || {
            own.stop(StopReason::Exit);
            done.send(()).unwrap();
        });
        stopped.recv_timeout(Duration::from_secs(20)).expect("the stop waits for the storage");
        assert!(recorder.failure().unwrap().contains("taken nothing"));
    }

    #[test]
    fn storage_that_hangs_while_files_are_exchanged_holds_up_neither_dumps_nor_the_end() {
        const HORIZON: u64 = 7;
        let dir = tempfile::tempdir().unwrap();
        let (recorder, release) = stalled(dir.path());
        let session = Arc::clone(&recorder.session);
        let copy = {
            let file = dir.path().join("b.jportal");
            let mut original = CaptureWriter::create(&file).unwrap();
            original.header(&lock(&session.header)).unwrap();
            let copy = original.copy().unwrap();
            copy.trimmed_to(&dir.path().join("a.trim"), sys::user(), Tsc(0), &|| true, Pages).unwrap()
        };
        let exchange = std::thread::spawn(move || session.replace(copy, HORIZON));
        let start = Instant::now();
        while recorder.session.horizon.load(Acquire) != HORIZON {
            assert!(start.elapsed() < Duration::from_secs(20), "the exchange does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        // The exchange waits for the storage from now on.
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(try_lock(&recorder.session.collecting).is_some(), "a dump would wait for the storage");
        }
        stop_in_time(&recorder);
        release();
        assert!(matches!(exchange.join().unwrap(), Ok(Replacement::Never)));
        assert_eq!(recorder.session.horizon.load(Acquire), 0, "nothing was trimmed");
    }

    /// The unit never confirms that it has stopped. What the caller has waited for before counts.
    #[test]
    fn a_dying_process_does_not_wait_twice() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("unit");
        let rings = UnitConfig { cores: 1, data_bytes: 4096, aux_bytes: 4096, ..UnitConfig::default() };
        EmulatedUnit::create(&unit, rings).unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::Emulated, ..RecordingConfig::default() };
        let device = device::open_on(Arc::new(Linux), &config, Some(unit.into())).unwrap();
        let recorder = Recorder::start_on(config, device).unwrap();
        recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
        // The shortest time, because the scheduler may lengthen each.
        let shortest = |spent: Duration| {
            let times = (0..20).map(|_| {
                let start = Instant::now();
                recorder.emergency_since(start.checked_sub(spent).unwrap());
                start.elapsed()
            });
            times.min().unwrap()
        };
        assert!(shortest(Duration::ZERO) >= LAST_PATIENCE / 2);
        assert!(shortest(LAST_PATIENCE) < LAST_PATIENCE / 4);
        recorder.dying.store(u64::MAX, Relaxed);
        assert!(shortest(Duration::ZERO) < LAST_PATIENCE / 4);
    }

    /// A thread of the VM that fails neither logs nor stops the device.
    #[test]
    fn the_watching_thread_is_known_before_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, ..RecordingConfig::default() };
        for _ in 0..20 {
            let device = device::open(&config).unwrap();
            let ring = Ring::anonymous(1 << 16, 1 << 16).unwrap();
            let session = Arc::new(Session::new(&config, device.into(), ring, Header::default()));
            let watch = WaitingWatch::spawn().unwrap().start(&session);
            assert!(session.is_watched());
            session.end_watch();
            watch.join().unwrap();
        }
    }

    #[test]
    fn a_stop_that_waits_for_dumps_holds_up_no_request() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, ..RecordingConfig::default() };
        let recorder = Recorder::start(config).unwrap();
        let (write, written) = mpsc::channel::<()>();
        lock(&recorder.writers).push(std::thread::spawn(move || {
            let _ = written.recv();
        }));
        std::thread::scope(|scope| {
            let stop = scope.spawn(|| recorder.stop(StopReason::Exit));
            let start = Instant::now();
            // The list is empty when the stop waits for the thread.
            while !try_lock(&recorder.writers).is_some_and(|writers| writers.is_empty()) {
                assert!(start.elapsed() < Duration::from_secs(20), "the list is locked");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!stop.is_finished());
            drop(write);
        });
        assert!(recorder.is_stopped());
    }

    #[test]
    fn a_dump_that_never_ends_does_not_hold_up_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (recorder, release) = stalled(dir.path());
        let dumping = lock(&recorder.session.collecting);
        stop_in_time(&recorder);
        drop(dumping);
        release();
    }

    /// A VM may end with an error while a dump collects its windows. A later stop still ends the
    /// capture.
    #[test]
    fn a_stop_that_may_not_wait_for_a_dump_leaves_the_recording_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, ..RecordingConfig::default() };
        let path = config.path.clone();
        let recorder = Recorder::start(config).unwrap();
        let dumping = lock(&recorder.session.collecting);
        recorder.stop(StopReason::VmError);
        assert!(recorder.is_active() && !recorder.is_stopped());
        drop(dumping);
        recorder.stop(StopReason::Exit);
        assert!(recorder.is_stopped());
        let reader = CaptureReader::open(&path).unwrap();
        assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Exit);
    }
}
