// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A dump of the flight recorder: the windows of all cores, and all metadata.
//!
//! The device pauses while the drain threads copy the windows, each thread those of its cores.
//! Metadata is written to the capture continuously; a dump is a copy of that capture with the
//! windows appended.

use crate::error::Error;
use crate::log::Level;
use crate::session::{Session, lock};
use crate::window::CoreWindow;
use jportal_capture::{CaptureWriter, Counter, EndReason};
use jportal_units::{Core, StreamOffset};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// How long the device may take to stop, and the consumer to catch up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A call that took longer than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowCall {
    /// OS thread.
    pub tid: u32,
    /// The method: its `Method*`, as in the metadata.
    pub method: u64,
    /// TSC at the beginning of the call.
    pub began: u64,
    /// TSC at the end of the call.
    pub ended: u64,
}

/// The channel through which a dumping thread requests windows from the drain threads.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    number: AtomicU64,
    to: Mutex<Option<SyncSender<Vec<CoreWindow>>>>,
}

impl Requests {
    /// The number of the last request.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Acquire)
    }

    /// Sends the windows for the last request.
    pub(crate) fn answer(&self, windows: Vec<CoreWindow>) {
        if let Some(to) = lock(&self.to).as_ref() {
            let _ = to.send(windows);
        }
    }

    fn ask(&self, threads: usize) -> mpsc::Receiver<Vec<CoreWindow>> {
        let (to, from) = mpsc::sync_channel(threads);
        *lock(&self.to) = Some(to);
        self.number.fetch_add(1, Release);
        from
    }

    fn end(&self) {
        *lock(&self.to) = None;
    }
}

/// Pauses the device, wakes the `threads` drain threads with `wake`, receives the windows that
/// they copy, and resumes the device. Returns the windows and the position in the metadata
/// stream that belongs to them.
pub(crate) fn collect(
    session: &Session,
    threads: usize,
    wake: impl Fn(),
) -> Result<(Vec<CoreWindow>, u64), Error> {
    session.device.pause();
    let answers = session.requests.ask(threads);
    wake();
    let deadline = Instant::now() + PATIENCE;
    let mut windows = Vec::new();
    let mut got = Ok(());
    for _ in 0..threads {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(more) => windows.extend(more),
            Err(RecvTimeoutError::Timeout) => {
                got = Err(Error::Dump("the device did not stop in time".into()))
            }
            Err(RecvTimeoutError::Disconnected) => got = Err(Error::Dump("the recording ends".into())),
        }
        if got.is_err() {
            break;
        }
    }
    session.requests.end();
    let mark = session.ring.position();
    session.device.resume();
    got.map(|()| (windows, mark))
}

/// Writes a capture with the metadata up to `mark` and the windows, and returns its path.
pub(crate) fn write(
    session: &Session,
    path: &Path,
    windows: &[CoreWindow],
    mark: u64,
    reason: &str,
    slow: Option<SlowCall>,
) -> Result<PathBuf, Error> {
    let (mut writer, path) = copy_metadata(session, path, mark)?;
    let refused = |source| Error::Capture { path: path.clone(), source };
    append(&mut writer, windows).map_err(refused)?;
    let mut counters = session.counters();
    if let Some(call) = slow {
        let facts = [
            ("trigger.tid", u64::from(call.tid)),
            ("trigger.method", call.method),
            ("trigger.began", call.began),
            ("trigger.ended", call.ended),
        ];
        counters.extend(facts.map(|(name, value)| Counter { name: name.into(), value }));
    }
    let written = writer.finish(EndReason::Stopped, reason, counters).map_err(refused)?;
    let (name, pt, metadata) = (path.display(), written.pt, written.metadata);
    let text = format!("{name}: {pt} bytes of trace, {metadata} of metadata ({reason})");
    session.log.line(Level::Info, &text);
    Ok(path)
}

/// Appends the windows to the dump as sideband and trace.
fn append(writer: &mut CaptureWriter, windows: &[CoreWindow]) -> Result<(), jportal_capture::Error> {
    for window in windows {
        let core = Core(window.core);
        writer.sideband(core, &window.sideband)?;
        writer.pt(core, StreamOffset(0), &window.trace)?;
    }
    Ok(())
}

/// Copies the capture as soon as all records up to `mark` are in it, and it ends at a record
/// boundary.
fn copy_metadata(session: &Session, path: &Path, mark: u64) -> Result<(CaptureWriter, PathBuf), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match session.copy_at(path, mark) {
            Some(Ok(copy)) => return Ok(copy),
            Some(Err(source)) => return Err(Error::Capture { path: path.to_owned(), source }),
            None if session.is_broken() || Instant::now() > deadline => {
                let reason =
                    session.failure().unwrap_or_else(|| "the metadata did not arrive in time".into());
                return Err(Error::Dump(reason));
            }
            None => {
                session.ring.wake_consumer();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
