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

use super::Host;
use super::open::{EventPlan, Opened, ThreadEvents, check_files, open_pt, open_sideband, redirect};
use crate::error::Error;
use jportal_perf_abi::Refusal;
use jportal_perf_abi::kernel::{Event, Thread};

/// How often the opening is attempted.
const ATTEMPTS: usize = 20;

/// Opens events for all threads but `own` and the opener, on each core of `opened`. The events
/// are disabled.
///
/// # Errors
/// When the kernel refuses an event, `/proc` cannot be read, or new threads appear in every
/// attempt.
pub(super) fn all(host: &Host, opened: &Opened, plan: &EventPlan<'_>, own: &[u32]) -> Result<(), Error> {
    let others = || -> Result<Vec<u32>, Error> {
        let mut all = host.kernel.threads().map_err(Error::Threads)?;
        all.retain(|tid| *tid != opened.opener && !own.contains(tid));
        all.sort_unstable();
        Ok(all)
    };
    let mut there = others()?;
    for _ in 0..ATTEMPTS {
        check_files(host, there.len() + 1, plan.pt.is_some())?;
        let events = for_threads(host, opened, plan, &there)?;
        let now = others()?;
        if now.iter().all(|tid| there.binary_search(tid).is_ok()) {
            for (core, events) in opened.cores.iter().zip(events) {
                core.attach(events);
            }
            return Ok(());
        }
        there = now;
    }
    Err(Error::ThreadsComing { attempts: ATTEMPTS })
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
