// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Dumps of the flight recorder because of slow calls.
//!
//! The VM reports a slow call in the middle of Java code, where a wait would hold up every
//! safepoint. So the reporting thread only pauses the device, which keeps the trace of the call
//! (and takes time with the emulated unit alone), and leaves a request. A thread of the recorder,
//! which lives as long as the process, dumps.

use crate::dump::SlowCall;
use crate::error::Error;
use crate::recorder::{Recorder, panic_text};
use crate::session::lock;
use crate::sys;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, Thread};

/// A dump to be made.
struct Request {
    recorder: Arc<Recorder>,
    path: PathBuf,
    reason: String,
    call: SlowCall,
}

/// The request to carry out next. Held for a few instructions only.
static NEXT: Mutex<Option<Request>> = Mutex::new(None);
/// Slow calls that came while another request was waiting.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// The thread that dumps.
static DUMPER: OnceLock<Thread> = OnceLock::new();

/// Starts the thread that dumps, unless it runs.
///
/// # Errors
/// When no thread can be created.
pub(crate) fn start() -> Result<(), Error> {
    if DUMPER.get().is_some() {
        return Ok(());
    }
    let name = "jportal-slow";
    let spawned = sys::with_signals_blocked(|| Builder::new().name(name.into()).spawn(run));
    let thread = spawned.map_err(|source| Error::Thread { name: name.into(), source })?;
    let _ = DUMPER.set(thread.thread().clone());
    Ok(())
}

/// Leaves the request to dump the flight recorder because of `call`. `false`: an
/// earlier request is still there, or no flight recorder was started.
pub(crate) fn request(recorder: &Arc<Recorder>, path: PathBuf, reason: String, call: SlowCall) -> bool {
    let Some(dumper) = DUMPER.get() else { return false };
    {
        let mut next = lock(&NEXT);
        if next.is_some() {
            MISSED.fetch_add(1, Relaxed);
            return false;
        }
        // Under the lock, so that the dump does not resume the device before this pause.
        recorder.pause();
        *next = Some(Request { recorder: Arc::clone(recorder), path, reason, call });
    }
    dumper.unpark();
    true
}

/// Carries out requests. A request stays in its place until its windows are copied: meanwhile
/// the device pauses, and there is nothing to dump for another call.
fn run() {
    loop {
        let request =
            lock(&NEXT).as_ref().map(|r| (Arc::clone(&r.recorder), r.path.clone(), r.reason.clone(), r.call));
        let Some((recorder, path, reason, call)) = request else {
            std::thread::park();
            continue;
        };
        let dump = || recorder.dump(&path, &reason, Some(call));
        let done =
            catch_unwind(AssertUnwindSafe(dump)).unwrap_or_else(|p| Err(Error::Panic(panic_text(&*p))));
        *lock(&NEXT) = None;
        if let Err(e) = done {
            recorder.resume();
            recorder.warn(&format!("no dump of {reason}: {e}"));
        }
        let missed = MISSED.swap(0, Relaxed);
        if missed > 0 {
            recorder.warn(&format!(
                "{missed} more slow calls while a dump began: they are in no dump of their own"
            ));
        }
    }
}
