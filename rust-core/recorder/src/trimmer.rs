// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The trimming of a flight recorder's capture: now and then, a copy without what no dump needs
//! takes its place. A thread of its own makes the copy, with the same priority as the others; only
//! the exchange of the files takes a turn of the writer.

use crate::error::Error;
use crate::log::Level;
use crate::pages::Pages;
use crate::recorder::{panic_text, spawn};
use crate::session::{Replacement, Session};
use crate::sys;
use jportal_units::Tsc;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the trimming waits after an attempt that came to nothing.
const RETRY: Duration = Duration::from_secs(5);
/// How often, and with what pause, it waits for dumps to be written.
const ROUNDS: u32 = 100;
const ROUND: Duration = Duration::from_millis(100);
/// What may be left to copy in the writer's turn, and how many attempts are made to come below it.
const REST: u64 = 256 << 10;
const ATTEMPTS: u32 = 8;

/// When the consumer begins trimmings.
pub(crate) struct Trimmer {
    thread: Option<JoinHandle<Result<Option<u64>, Error>>>,
    /// Length of the capture from which on it is trimmed.
    above: u64,
    not_before: Instant,
}

impl Trimmer {
    pub(crate) fn new(session: &Session) -> Self {
        Self { thread: None, above: session.trimming.above, not_before: Instant::now() }
    }

    /// Begins a trimming if the capture has become long.
    pub(crate) fn look(&mut self, session: &Arc<Session>) {
        if !session.trims {
            return;
        }
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.after(session, thread);
        }
        let is_due = session.written().file >= self.above && Instant::now() >= self.not_before;
        if !is_due || self.thread.is_some() || !session.ring.is_open() {
            return;
        }
        let own = Arc::clone(session);
        session.copying.fetch_add(1, AcqRel);
        let thread = spawn("jportal-trim", move || {
            let done = trim(&own);
            // An attempt that is made again later has no tables.
            if !matches!(done, Ok(None)) {
                sys::return_free_memory();
            }
            own.copying.fetch_sub(1, AcqRel);
            done
        });
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(e) => {
                session.copying.fetch_sub(1, AcqRel);
                self.failed(session, &e.to_string());
            }
        }
    }

    fn after(&mut self, session: &Session, thread: JoinHandle<Result<Option<u64>, Error>>) {
        match thread.join() {
            Ok(Ok(Some(bytes))) => self.above = session.trimming.above.max(2 * bytes),
            Ok(Ok(None)) => self.not_before = Instant::now() + RETRY,
            Ok(Err(e)) => self.failed(session, &e.to_string()),
            Err(panic) => {
                session.copying.fetch_sub(1, AcqRel);
                self.failed(session, &panic_text(&*panic));
            }
        }
    }

    /// The capture stays as it is, and is tried again when it is twice as long.
    fn failed(&mut self, session: &Session, why: &str) {
        self.above = 2 * session.written().file;
        let text = format!("the capture is not trimmed, and grows: {why}");
        session.log.line(Level::Warning, &text);
    }

    /// The ring is closed: a trimming that is under way gives up.
    pub(crate) fn end(self) {
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

/// Trims the capture. Returns its new length; `None` if there is nothing to do at present.
fn trim(session: &Session) -> Result<Option<u64>, Error> {
    let refused = |source| Error::Capture { path: session.path.clone(), source };
    let rule = session.trimming;
    let (horizon, needed) =
        match (session.tsc_before(rule.reach), session.tsc_before(rule.reach + rule.margin)) {
            (Some(horizon), Some(needed)) => (horizon, Tsc(needed)),
            _ => return Ok(None),
        };
    let Some(present) = session.present().transpose().map_err(refused)? else { return Ok(None) };
    let before = session.written().file;
    let mut name = session.path.clone().into_os_string();
    name.push(".trim");
    let is_wanted = || session.ring.is_open();
    let copy = present.trimmed_to(&PathBuf::from(name), sys::user(), needed, &is_wanted, Pages);
    let mut copy = match copy {
        Err(_) if !is_wanted() => return Ok(None),
        copy => copy.map_err(refused)?,
    };
    for _ in 0..ATTEMPTS {
        let Some(present) = session.present().transpose().map_err(refused)? else { return Ok(None) };
        let bytes = copy.catch_up(&present).map_err(refused)?;
        session.copied.fetch_add(bytes, Relaxed);
        if bytes < REST {
            break;
        }
    }
    for _ in 0..ROUNDS {
        match session.replace(copy, horizon).map_err(refused)? {
            Replacement::Done(bytes) => {
                let text = format!("trimmed {}: {before} to {bytes} bytes", session.path.display());
                session.log.line(Level::Info, &text);
                return Ok(Some(bytes));
            }
            Replacement::Never => return Ok(None),
            Replacement::Later(later) => copy = later,
        }
        std::thread::sleep(ROUND);
    }
    Ok(None)
}
