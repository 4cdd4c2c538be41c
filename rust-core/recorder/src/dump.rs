// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A dump of the flight recorder: the windows of all cores, and everything the VM has told.
//!
//! The device pauses while the drain threads copy the windows, each those of its cores. Metadata is written to the capture all
//! the time; a dump is a copy of that, with the windows behind.

use crate::error::Error;
use crate::log::Level;
use crate::session::{Session, lock};
use crate::window::CoreWindow;
use jportal_capture::{CaptureWriter, Counter, EndReason};
use jportal_units::{Core, StreamOffset};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// How long a device may take to stop, and a consumer to catch up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A call that took longer than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowCall {
    /// OS thread.
    pub tid: u32,
    /// The method, as metadata names it.
    pub method: u64,
    /// TSC at its beginning and its end.
    pub began: u64,
    /// As above.
    pub ended: u64,
}

/// How the thread that dumps asks the drain threads for windows.
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

    /// Answers the last request.
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

/// Stops the device, has the windows copied by the drain threads, of which there are `threads` and which `wake` wakes, and
/// lets the device go on. Returns the position in the metadata stream that belongs to them.
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

/// Writes a capture of what the VM told up to `mark`, and the windows.
pub(crate) fn write(
    session: &Session,
    path: &Path,
    windows: &[CoreWindow],
    mark: u64,
    reason: &str,
    slow: Option<SlowCall>,
) -> Result<(), Error> {
    let mut writer = copy_metadata(session, path, mark)?;
    let refused = |source| Error::Capture { path: path.to_owned(), source };
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
    let (path, pt, metadata) = (path.display(), written.pt, written.metadata);
    let text = format!("{path}: {pt} bytes of trace, {metadata} of metadata ({reason})");
    session.log.line(Level::Info, &text);
    Ok(())
}

/// Appends the windows to a capture.
pub(crate) fn append(
    writer: &mut CaptureWriter,
    windows: &[CoreWindow],
) -> Result<(), jportal_capture::Error> {
    for window in windows {
        let core = Core(window.core);
        writer.sideband(core, &window.sideband)?;
        writer.pt(core, StreamOffset(0), &window.trace)?;
    }
    Ok(())
}

/// A copy of the capture as soon as all records up to `mark` are in it, and none in part.
fn copy_metadata(session: &Session, path: &Path, mark: u64) -> Result<CaptureWriter, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match session.copy_at(path, mark) {
            Some(Ok(writer)) => return Ok(writer),
            Some(Err(source)) => return Err(Error::Capture { path: path.to_owned(), source }),
            None if Instant::now() > deadline => {
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
