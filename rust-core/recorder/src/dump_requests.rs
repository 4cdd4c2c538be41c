// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Dumps of the flight recorder that the VM requests and does not wait for.
//!
//! The VM reports a slow call in the middle of Java code, where a wait would hold up every
//! safepoint. It reports an `OutOfMemoryError` with locks of the collector held
//! (`ShenandoahHeapRegion::do_commit`), where it may not wait for a safepoint either. So the
//! reporting thread only pauses the device, which keeps the trace up to here, and leaves a request.
//! It disables events for a millisecond at most; that is enough unless hundreds of threads have
//! events of their own. A thread of the recorder, which lives as long as the process, disables the
//! others and dumps. Only for the emulated unit does the reporting thread wait.

use crate::dump::SlowCall;
use crate::error::Error;
use crate::recorder::{Recorder, panic_text};
use crate::session::{lock, try_lock};
use crate::sys;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A dump to be made.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
    /// The call that was slow, if that is the reason.
    pub(crate) call: Option<SlowCall>,
}

/// Requests at one time. A slow call is only taken when there is no other.
const LIMIT: usize = 2;

/// How long the reporting thread may take to pause the device.
const PAUSE: Duration = Duration::from_millis(1);

/// The requests, the first of them under way. Held for a few instructions and [`PAUSE`] only, or
/// while the emulated unit stops.
static WAITING: Mutex<VecDeque<Request>> = Mutex::new(VecDeque::new());
/// [`WAITING`] has become longer or shorter.
static CHANGED: Condvar = Condvar::new();
/// The thread that dumps was started.
static STARTED: OnceLock<()> = OnceLock::new();

/// Starts the thread that dumps, unless it runs.
///
/// # Errors
/// When no thread can be created.
pub(crate) fn start() -> Result<(), Error> {
    if STARTED.get().is_some() {
        return Ok(());
    }
    let name = "jportal-request";
    let spawned = sys::with_signals_blocked(|| Builder::new().name(name.into()).spawn(run));
    spawned.map_err(|source| Error::Thread { name: name.into(), source })?;
    let _ = STARTED.set(());
    Ok(())
}

/// Leaves a request. `false`: earlier requests are still there, or earlier dumps are not written
/// yet, or no flight recorder was started.
pub(crate) fn add(request: Request) -> bool {
    if STARTED.get().is_none() {
        return false;
    }
    let Some(mut waiting) = waiting_soon() else {
        request.recorder.miss_dump();
        return false;
    };
    let limit = if request.call.is_some() { 1 } else { LIMIT };
    if waiting.len() >= limit || !request.recorder.takes_dumps() {
        request.recorder.miss_dump();
        return false;
    }
    // Under the lock, so that the dump does not resume the device before this pause.
    request.recorder.pause_until(Instant::now() + PAUSE);
    waiting.push_back(request);
    CHANGED.notify_all();
    true
}

/// The requests, unless another thread pauses the emulated unit, for which it waits with them.
fn waiting_soon() -> Option<MutexGuard<'static, VecDeque<Request>>> {
    let deadline = Instant::now() + 2 * PAUSE;
    loop {
        match try_lock(&WAITING) {
            None if Instant::now() < deadline => std::thread::yield_now(),
            waiting => return waiting,
        }
    }
}

/// Waits until the windows of every request are copied, at most for `limit`.
pub(crate) fn wait(limit: Duration) {
    let waiting = lock(&WAITING);
    drop(CHANGED.wait_timeout_while(waiting, limit, |w| !w.is_empty()));
}

/// Carries out requests. A request stays in its place until its windows are copied: meanwhile
/// the device pauses, and there is nothing to dump for another call.
fn run() {
    loop {
        let request = {
            let waiting = lock(&WAITING);
            let waiting = CHANGED.wait_while(waiting, |w| w.is_empty());
            waiting.unwrap_or_else(PoisonError::into_inner).front().cloned()
        };
        let Some(Request { recorder, path, reason, call }) = request else { continue };
        let dump = || recorder.begin_dump(&path, &reason, call);
        let done =
            catch_unwind(AssertUnwindSafe(dump)).unwrap_or_else(|p| Err(Error::Panic(panic_text(&*p))));
        lock(&WAITING).pop_front();
        CHANGED.notify_all();
        if let Err(e) = done {
            recorder.resume();
            recorder.warn(&format!("no dump of {reason}: {e}"));
        }
        recorder.report_missed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RecordingConfig, Source, StorageLimits};
    use crate::device;
    use crate::fake_kernel::{FakeKernel, Rules};
    use crate::log::Log;
    use crate::recorder::StopReason;
    use jportal_capture::CaptureReader;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    /// The requests belong to the process.
    static ONE_TEST: Mutex<()> = Mutex::new(());

    /// With hundreds of threads there are many thousands of events.
    #[test]
    fn a_request_does_not_wait_for_many_events() {
        let _one = lock(&ONE_TEST);
        let dir = tempfile::tempdir().unwrap();
        let config = RecordingConfig {
            path: dir.path().join("a.jportal"),
            source: Source::Perf,
            snapshot_bytes: 256 << 10,
            attach: true,
            ..RecordingConfig::default()
        };
        let kernel = Arc::new(FakeKernel::new(Rules::default(), &[]));
        kernel.have_threads(&(100..300).collect::<Vec<_>>());
        let device = device::open_on(kernel.clone(), &config, None).unwrap();
        start().unwrap();
        let recorder = Arc::new(Recorder::start_on(config, device).unwrap());
        recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
        // All of them would take 1.6 seconds.
        kernel.disable_slowly(Duration::from_millis(2));
        let path = dir.path().join("dump");
        let start = Instant::now();
        let reason = "a test".into();
        assert!(add(Request { recorder: Arc::clone(&recorder), path: path.clone(), reason, call: None }));
        assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
        assert!((0..4).any(|core| kernel.is_on(core)), "too fast: this test shows nothing");
        kernel.disable_slowly(Duration::ZERO);
        wait(Duration::from_secs(20));
        assert!((0..4).all(|core| kernel.is_on(core)), "PT still pauses");
        recorder.stop(StopReason::Exit);
        assert!(CaptureReader::open(&path).unwrap().completeness().is_whole());
    }

    #[test]
    fn a_request_does_not_wait_for_another() {
        let _one = lock(&ONE_TEST);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, ..RecordingConfig::default() };
        start().unwrap();
        let recorder = Arc::new(Recorder::start(config).unwrap());
        let path = dir.path().join("dump");
        let request = Request { recorder: Arc::clone(&recorder), path, reason: "".into(), call: None };
        let (answer, answered) = std::sync::mpsc::channel();
        let pausing = lock(&WAITING);
        std::thread::spawn(move || answer.send(add(request)).unwrap());
        let taken = answered.recv_timeout(Duration::from_secs(20));
        drop(pausing);
        assert_eq!(taken, Ok(false), "it waits");
        assert!(recorder.status().contains("dumps missed: 1\n"), "{}", recorder.status());
        recorder.stop(StopReason::Exit);
    }

    /// The storage is a pipe that nobody reads. A dump holds its windows until it is written.
    #[test]
    fn dumps_that_are_not_written_are_few() {
        let _one = lock(&ONE_TEST);
        let dir = tempfile::tempdir().unwrap();
        let log = Log::to_memory();
        let config = RecordingConfig {
            path: dir.path().join("a.jportal"),
            source: Source::Perf,
            snapshot_bytes: 256 << 10,
            limits: StorageLimits { write: Duration::from_millis(300), ..StorageLimits::default() },
            log: log.clone(),
            ..RecordingConfig::default()
        };
        let kernel = Arc::new(FakeKernel::new(Rules::default(), &[]));
        let device = device::open_on(kernel.clone(), &config, None).unwrap();
        let (mut pipe, end) = std::io::pipe().unwrap();
        start().unwrap();
        let recorder = Recorder::start_into(config, device, File::from(OwnedFd::from(end))).unwrap();
        let recorder = Arc::new(recorder);
        recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
        for _ in 0..100_000 {
            assert!(recorder.write(12, &[0; 8]));
        }
        let call = |n| SlowCall { tid: n, method: 1, began: 2, ended: 3 };
        let taken = (0..10).filter(|&n| {
            let request = Request {
                recorder: Arc::clone(&recorder),
                path: dir.path().join(format!("dump{n}")),
                reason: "a test".into(),
                call: (n % 2 == 0).then(|| call(n)),
            };
            let taken = add(request);
            wait(Duration::from_secs(20));
            assert!((0..4).all(|core| kernel.is_on(core)), "PT pauses after request {n}");
            taken
        });
        assert_eq!(taken.collect::<Vec<_>>(), [0, 1]);
        assert!(recorder.status().contains("dumps missed: 8\n"), "{}", recorder.status());
        let refused = recorder.dump(&dir.path().join("asked"), "a test").unwrap_err().to_string();
        assert!(refused.contains("2 others are not written yet"), "{refused}");
        recorder.stop(StopReason::Exit);
        let missed = || {
            let lines = log.lines();
            lines.iter().filter(|(_, text)| text.starts_with("8 more requests")).count()
        };
        assert_eq!(missed(), 1, "{:?}", log.lines());
        // When the storage takes data again, the capture gets its end, and the dumps give up.
        pipe.read_to_end(&mut Vec::new()).unwrap();
        let start = Instant::now();
        while !recorder.takes_dumps() {
            assert!(start.elapsed() < Duration::from_secs(7), "the dumps do not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(missed(), 1);
    }
}
