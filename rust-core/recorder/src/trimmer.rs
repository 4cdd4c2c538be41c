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

/// How often, and with what pause, it waits for dumps to be written.
const ROUNDS: u32 = 100;
const ROUND: Duration = Duration::from_millis(100);
/// What may be left to copy in the writer's turn, and how many attempts are made to come below it.
const REST: u64 = 256 << 10;
const ATTEMPTS: u32 = 8;

/// When the consumer begins trimmings.
pub(crate) struct Trimmer {
    thread: Option<JoinHandle<Result<Trimmed, Error>>>,
    /// Length of the capture from which on it is trimmed.
    above: u64,
    not_before: Instant,
    /// Device and inode of the capture, while it does not have its name.
    astray: Option<(u64, u64)>,
}

/// What became of a trimming.
enum Trimmed {
    /// The capture has this length now.
    To(u64),
    /// There is nothing to do at present.
    Later,
    /// The capture, with this device and inode, does not have its name: somebody renamed it, or
    /// another file has taken its place. A copy would replace what is not ours.
    Astray((u64, u64)),
}

impl Trimmer {
    pub(crate) fn new(session: &Session) -> Self {
        Self { thread: None, above: session.trimming.above, not_before: Instant::now(), astray: None }
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
        if self.astray.is_some() && self.astray != sys::identity(&session.path) {
            self.not_before = Instant::now() + session.trimming.retry;
            return;
        }
        self.astray = None;
        let own = Arc::clone(session);
        session.copying.fetch_add(1, AcqRel);
        let thread = spawn("jportal-trim", move || {
            let done = trim(&own);
            // An attempt that is made again later has no tables.
            if !matches!(done, Ok(Trimmed::Later | Trimmed::Astray(_))) {
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

    fn after(&mut self, session: &Session, thread: JoinHandle<Result<Trimmed, Error>>) {
        match thread.join() {
            Ok(Ok(Trimmed::To(bytes))) => self.above = session.trimming.above.max(2 * bytes),
            Ok(Ok(Trimmed::Later)) => self.not_before = Instant::now() + session.trimming.retry,
            Ok(Ok(Trimmed::Astray(identity))) => {
                self.astray = Some(identity);
                self.not_before = Instant::now() + session.trimming.retry;
                let path = session.path.display();
                let text = format!(
                    "the capture is not trimmed, and grows: it is no longer at {path}; move it back there"
                );
                session.log.line(Level::Warning, &text);
            }
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

/// Trims the capture.
fn trim(session: &Session) -> Result<Trimmed, Error> {
    let refused = |source| Error::Capture { path: session.path.clone(), source };
    let rule = session.trimming;
    let (horizon, needed) =
        match (session.tsc_before(rule.reach), session.tsc_before(rule.reach + rule.margin)) {
            (Some(horizon), Some(needed)) => (horizon, Tsc(needed)),
            _ => return Ok(Trimmed::Later),
        };
    let Some(present) = session.present().transpose().map_err(refused)? else { return Ok(Trimmed::Later) };
    if let Some(own) = present.identity().filter(|own| Some(*own) != sys::identity(&session.path)) {
        return Ok(Trimmed::Astray(own));
    }
    let before = session.written().file;
    let mut name = session.path.clone().into_os_string();
    name.push(".trim");
    let is_wanted = || session.ring.is_open();
    let copy = present.trimmed_to(&PathBuf::from(name), sys::user(), needed, &is_wanted, Pages);
    let mut copy = match copy {
        Err(_) if !is_wanted() => return Ok(Trimmed::Later),
        copy => copy.map_err(refused)?,
    };
    for _ in 0..ATTEMPTS {
        let Some(present) = session.present().transpose().map_err(refused)? else {
            return Ok(Trimmed::Later);
        };
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
                return Ok(Trimmed::To(bytes));
            }
            Replacement::Never => return Ok(Trimmed::Later),
            Replacement::Later(later) => copy = later,
        }
        std::thread::sleep(ROUND);
    }
    Ok(Trimmed::Later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RecordingConfig, Source, Trimming};
    use crate::device;
    use crate::log::Log;
    use crate::ring::Ring;
    use jportal_capture::schema::ThreadExited;
    use jportal_capture::{CaptureReader, CaptureWriter, Header, Record, Stamped, encode_frame};

    const RETRY: Duration = Duration::from_millis(20);

    fn lines(log: &Log, level: Level) -> Vec<String> {
        log.lines().into_iter().filter(|line| line.0 == level).map(|line| line.1).collect()
    }

    fn until(mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_capture_without_its_name_is_trimmed_when_it_has_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("a.jportal"), dir.path().join("moved"));
        let config = RecordingConfig {
            path: path.clone(),
            source: Source::None,
            snapshot_bytes: 1,
            trimming: Trimming { above: 1, reach: Duration::ZERO, margin: Duration::ZERO, retry: RETRY },
            log: Log::to_memory(),
            ..RecordingConfig::default()
        };
        let (device, ring) = (device::open(&config).unwrap(), Ring::anonymous(1 << 16, 1 << 16).unwrap());
        let session = Arc::new(Session::new(&config, device.into(), ring, Header::default()));
        session.set_writer(CaptureWriter::create(&path).unwrap());
        let mut records = Vec::new();
        let record = Record::ThreadExited(ThreadExited { tid: 7, ..ThreadExited::default() });
        encode_frame(&Stamped { tsc: 1, record }, &mut records);
        assert!(session.write_header() && session.append_records(&records));
        std::fs::rename(&path, &moved).unwrap();
        let mut trimmer = Trimmer::new(&session);
        for other in [None, Some("mine")] {
            if let Some(text) = other {
                std::fs::write(&path, text).unwrap();
            }
            until(|| {
                trimmer.look(&session);
                !lines(&config.log, Level::Warning).is_empty()
            });
            let warned = Instant::now();
            until(|| {
                trimmer.look(&session);
                assert!(trimmer.thread.is_none(), "it is tried again");
                warned.elapsed() > 10 * RETRY
            });
            let warnings = lines(&config.log, Level::Warning);
            assert!(warnings.len() == 1 && warnings[0].contains("no longer at"), "{warnings:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::rename(&moved, &path).unwrap();
        until(|| {
            trimmer.look(&session);
            !lines(&config.log, Level::Info).is_empty()
        });
        trimmer.end();
        assert!(lines(&config.log, Level::Info)[0].contains("trimmed "));
        assert_eq!(CaptureReader::open(&path).unwrap().metadata().count(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
