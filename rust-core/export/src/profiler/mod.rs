// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Replays a flow into a profiler that runs in another process.
//!
//! The process is that of `jportal-replay.jar` (`profiler/`). What both sides send is described in
//! `docs/profiler-format.md`. Trees grow here, and so the countdown to the next report is here;
//! the process gets what changed between two reports, and answers with the next granularity. So
//! it costs what it reports, and nothing is sent for the bytecodes between reports.

mod answer;
mod link;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jportal_analyses::Inexact;
use jportal_analyses::tree::{Live, NodeId, Profiler};
use jportal_flow::ThreadInfo;
use serde::Serialize;

use self::link::ProcessLink;
use crate::Error;

/// The version of the format of the stream.
pub const VERSION: u64 = 1;

/// The beginning of each direction of the stream.
const HEAD: &[u8; 8] = b"JPREPLAY";

/// What is sent to the process.
mod kind {
    pub(super) const METHOD: u8 = 1;
    pub(super) const LABEL: u8 = 2;
    pub(super) const THREAD: u8 = 3;
    pub(super) const REPORT: u8 = 4;
    pub(super) const END: u8 = 5;
    pub(super) const FINISH: u8 = 6;
}

/// A profiler in another process: it answers on `R` what is sent on `W`.
///
/// After a fault nothing is sent any more, and [`RemoteProfiler::finish`] returns the fault.
#[derive(Debug)]
pub struct RemoteProfiler<R, W> {
    link: Mutex<ProcessLink<R, W>>,
    broken: AtomicBool,
}

/// What the process knows of a thread.
#[derive(Debug)]
pub struct RemoteTree {
    /// Its number; `None` if it could not be registered.
    thread: Option<u64>,
    /// How many of its nodes.
    nodes: u32,
}

/// How much was replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayTotals {
    /// Threads with a frame that has a node.
    pub threads: u64,
    /// Calls of `report`, the last ones of the threads included.
    pub reports: u64,
}

impl<R: Read, W: Write> RemoteProfiler<R, W> {
    /// Exchanges greetings, and waits until the process has loaded its profiler.
    ///
    /// # Errors
    /// If the process cannot load it, ends, or is of another version.
    pub fn start(from: R, to: W) -> Result<Self, Error> {
        let link = Mutex::new(ProcessLink::start(from, to)?);
        Ok(Self { link, broken: AtomicBool::new(false) })
    }
    /// Says how complete the trees are, and waits until the profiler has finished.
    ///
    /// # Errors
    /// The first fault of the replay: the profiler failed, or its process ended early.
    pub fn finish(self, exact: bool, reason: &str) -> Result<ReplayTotals, Error> {
        self.link.into_inner().unwrap_or_else(PoisonError::into_inner).finish(exact, reason)
    }
    fn link(&self) -> MutexGuard<'_, ProcessLink<R, W>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The granularity that was answered. After a fault: never again.
    fn granularity(&self, link: &mut ProcessLink<R, W>, answered: Result<u32, Error>) -> u32 {
        answered.unwrap_or_else(|fault| {
            link.fault.get_or_insert(fault);
            self.broken.store(true, Ordering::Relaxed);
            u32::MAX
        })
    }
}

impl<R: Read + Send + 'static, W: Write + Send + 'static> Profiler for RemoteProfiler<R, W> {
    type Thread = RemoteTree;

    fn register(&self, thread: &ThreadInfo, _: &mut Live<'_>) -> (RemoteTree, u32) {
        let mut link = self.link();
        let number = link.fault.is_none().then_some(link.totals.threads);
        let answered = if number.is_some() { link.register(thread) } else { Ok(u32::MAX) };
        (RemoteTree { thread: number, nodes: 1 }, self.granularity(&mut link, answered))
    }
    fn report(&self, own: &mut RemoteTree, tree: &mut Live<'_>, at: NodeId) -> u32 {
        let mut link = self.link();
        let Some(thread) = own.thread.filter(|_| link.fault.is_none()) else { return u32::MAX };
        let answered = link.report((thread, &mut own.nodes), tree, at);
        self.granularity(&mut link, answered)
    }
    fn end(&mut self, own: RemoteTree) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = own.thread.filter(|_| link.fault.is_none()) {
            link.end(thread);
        }
    }
    fn has_enough(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

/// Why trees are not exact, for people: `3 gaps; 17 calls without a frame`. Empty if they are.
pub fn reason(exact: bool, inexact: &Inexact) -> String {
    if exact {
        return String::new();
    }
    let count = |n: u64, what: &str| if n > 0 { format!("{n} {what}") } else { String::new() };
    let parts = [
        inexact.stretches_text(),
        inexact.blind_text(),
        count(inexact.silent_calls, "calls without a frame"),
        count(inexact.projected, "events that were placed"),
        count(inexact.recovered, "events that were filled in"),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "frames ended unseen, or events of the flow contradict each other".to_owned(),
        false => parts.join("; "),
    }
}
