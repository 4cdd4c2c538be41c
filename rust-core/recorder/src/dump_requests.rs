// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Dumps of the flight recorder that the VM requests and does not wait for.
//!
//! The VM reports a slow call in the middle of Java code, where a wait would hold up every
//! safepoint. It reports an `OutOfMemoryError` with locks of the collector held
//! (`ShenandoahHeapRegion::do_commit`), where it may not wait for a safepoint either. So the
//! reporting thread only pauses the device, which keeps the trace up to here (and takes time with
//! the emulated unit alone), and leaves a request. A thread of the recorder, which lives as long
//! as the process, dumps.

use crate::dump::SlowCall;
use crate::error::Error;
use crate::recorder::{Recorder, panic_text};
use crate::session::lock;
use crate::sys;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

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

/// The requests, the first of them under way. Held for a few instructions only.
static WAITING: Mutex<VecDeque<Request>> = Mutex::new(VecDeque::new());
/// [`WAITING`] has become longer or shorter.
static CHANGED: Condvar = Condvar::new();
/// Requests that were not taken.
static MISSED: AtomicU64 = AtomicU64::new(0);
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

/// Leaves a request. `false`: earlier requests are still there, or no flight recorder was
/// started.
pub(crate) fn add(request: Request) -> bool {
    if STARTED.get().is_none() {
        return false;
    }
    let mut waiting = lock(&WAITING);
    let limit = if request.call.is_some() { 1 } else { LIMIT };
    if waiting.len() >= limit {
        MISSED.fetch_add(1, Relaxed);
        return false;
    }
    // Under the lock, so that the dump does not resume the device before this pause.
    request.recorder.pause();
    waiting.push_back(request);
    CHANGED.notify_all();
    true
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
        let missed = MISSED.swap(0, Relaxed);
        if missed > 0 {
            recorder
                .warn(&format!("{missed} more requests while a dump began: there are no dumps of their own"));
        }
    }
}
