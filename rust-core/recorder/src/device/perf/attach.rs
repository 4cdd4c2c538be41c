// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Events for threads that exist before the recording.
//!
//! A thread that has events passes them on to the threads that it creates; a thread without
//! events does not. Nothing reveals afterwards which kind of thread created another one. So
//! events are opened for the existing threads, and if a further thread exists when that is
//! done, all events are closed and opened anew: opening events for that thread alone would
//! duplicate those that it may have inherited. At a safepoint this ends soon, because no Java
//! thread is created. (A thread that native code is creating at that very moment is not visible
//! yet and inherits nothing: `copy_process` copies the events first and makes the thread
//! visible last.)
//!
//! Most events are opened before the safepoint ([`ahead`]), which is then short. They are used if
//! the threads at the safepoint had all been there before. A thread that was being created when
//! the events were opened is a further one.

use super::Host;
use super::open::{EventPlan, Opened, ThreadEvents, check_files, open_pt, open_sideband, redirect};
use crate::error::Error;
use jportal_perf_abi::Refusal;
use jportal_perf_abi::kernel::{Event, Thread};
use std::time::{Duration, Instant};

/// How often the opening is attempted.
const ATTEMPTS: usize = 20;
/// How long events that were opened ahead can be used. Later, the id of a thread that has ended may
/// be that of another one: the kernel gives an id again when it has given all others.
const USABLE: Duration = Duration::from_secs(1);

/// Events of threads, disabled.
pub(super) struct Ahead {
    /// The threads, in order.
    threads: Vec<u32>,
    /// By core.
    events: Vec<Vec<ThreadEvents>>,
    /// When the threads were listed.
    since: Instant,
}

impl Ahead {
    fn covers(&self, threads: &[u32]) -> bool {
        threads.iter().all(|tid| self.threads.binary_search(tid).is_ok())
    }
}

/// Opens events for all threads but `own` and the opener, on each core of `opened`. `None`: new
/// threads appear in every attempt.
///
/// # Errors
/// When the kernel refuses an event, or `/proc` cannot be read.
pub(super) fn ahead(
    host: &Host,
    opened: &Opened,
    plan: &EventPlan<'_>,
    own: &[u32],
) -> Result<Option<Ahead>, Error> {
    let (mut since, mut there) = (Instant::now(), others(host, opened, own)?);
    for _ in 0..ATTEMPTS {
        check_files(host, there.len() + 1, plan.pt.is_some())?;
        let events = for_threads(host, opened, plan, &there)?;
        let ahead = Ahead { threads: there, events, since };
        (since, there) = (Instant::now(), others(host, opened, own)?);
        if ahead.covers(&there) {
            return Ok(Some(ahead));
        }
    }
    Ok(None)
}

/// Attaches to all threads but `own` and the opener: uses the events of `earlier`, if there was no
/// other thread since, or opens all of them anew.
///
/// # Errors
/// Those of [`ahead`], and [`Error::ThreadsComing`].
pub(super) fn all(
    host: &Host,
    opened: &Opened,
    plan: &EventPlan<'_>,
    own: &[u32],
    earlier: Option<Ahead>,
) -> Result<(), Error> {
    let now = others(host, opened, own)?;
    let is_usable = |earlier: &Ahead| earlier.since.elapsed() < USABLE && earlier.covers(&now);
    let all = match earlier.filter(is_usable) {
        Some(earlier) => earlier,
        None => ahead(host, opened, plan, own)?.ok_or(Error::ThreadsComing { attempts: ATTEMPTS })?,
    };
    for (core, events) in opened.cores.iter().zip(all.events) {
        core.attach(events);
    }
    Ok(())
}

/// The threads of the process but `own` and the opener, in order.
fn others(host: &Host, opened: &Opened, own: &[u32]) -> Result<Vec<u32>, Error> {
    let mut all = host.kernel.threads().map_err(Error::Threads)?;
    all.retain(|tid| *tid != opened.opener && !own.contains(tid));
    all.sort_unstable();
    Ok(all)
}

/// Opens the events of `threads`, listed by core. A thread that has ended meanwhile gets none.
fn for_threads(
    host: &Host,
    opened: &Opened,
    plan: &EventPlan<'_>,
    threads: &[u32],
) -> Result<Vec<Vec<ThreadEvents>>, Error> {
    let mut of_cores: Vec<Vec<ThreadEvents>> = opened.cores.iter().map(|_| Vec::new()).collect();
    for &tid in threads {
        for (core, events) in opened.cores.iter().zip(&mut of_cores) {
            match for_thread(host, plan, tid, (core.core, core.output())) {
                Ok(new) => events.push(new),
                Err(r) if r.errno == libc::ESRCH => break,
                Err(r) => return Err(r.into()),
            }
        }
    }
    Ok(of_cores)
}

/// Opens the events of one thread on one core. They write to the rings of `output`.
fn for_thread(
    host: &Host,
    plan: &EventPlan<'_>,
    tid: u32,
    (core, output): (u32, Event),
) -> Result<ThreadEvents, Refusal> {
    let pt = open_pt(host, plan, Thread::Of(tid), core)?;
    if let Some(pt) = &pt {
        redirect(host, core, pt, output)?;
    }
    let sideband = open_sideband(host, plan, Thread::Of(tid), core)?;
    redirect(host, core, &sideband, output)?;
    Ok(ThreadEvents { pt, sideband })
}
