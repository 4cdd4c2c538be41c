// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The interface between a recording and the kernel: every system call that a perf device
//! makes, and nothing else. Tests implement it in place of the kernel.

use crate::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};
use crate::memory::Block;
use perf_event_open_sys::{ioctls, perf_event_open};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

/// An event's file descriptor.
pub type Event = i32;

/// The core on which an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Wherever the thread runs.
    Anywhere,
    /// On one core.
    Core(u32),
}

/// The thread to which an event belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thread {
    /// The calling thread.
    Calling,
    /// The thread of this process with this id.
    Of(u32),
}

/// `ioctl` on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control<'a> {
    /// `PERF_EVENT_IOC_ENABLE`, with all inherited events.
    Enable,
    /// `PERF_EVENT_IOC_DISABLE`, with all inherited events; returns when no core runs them any
    /// more.
    Disable,
    /// `PERF_EVENT_IOC_SET_OUTPUT`: records go to the ring of another event.
    SetOutput(Event),
    /// `PERF_EVENT_IOC_SET_FILTER`.
    SetFilter(&'a CStr),
}

/// One moment in two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// The time-stamp counter.
    pub tsc: u64,
    /// `CLOCK_MONOTONIC_RAW`, nanoseconds.
    pub ns: u64,
}

/// A recording may use one part in this many of the process's file descriptors: the program has
/// no use for an answer "too many open files" because it is recorded.
pub const FILES_SHARE: u64 = 4;

/// The system calls that a perf device needs.
pub trait Kernel: Send + Sync {
    /// The directory that contains `proc` and `sys`.
    fn root(&self) -> &Path;
    /// `perf_event_open`, closed on `exec`.
    ///
    /// # Errors
    /// The kernel's error.
    fn open(&self, attr: &perf_event_attr, thread: Thread, place: Place) -> io::Result<Event>;
    /// Closes an event and all events that were inherited from it.
    fn close(&self, event: Event);
    /// An `ioctl`. Async-signal-safe.
    ///
    /// # Errors
    /// The kernel's error.
    fn control(&self, event: Event, request: Control<'_>) -> io::Result<()>;
    /// Maps `len` bytes of an event from `offset` on, shared, readable and writable.
    ///
    /// # Errors
    /// The kernel's error.
    fn map(&self, event: Event, offset: u64, len: usize) -> io::Result<Block>;
    /// As [`Kernel::map`], but readable only.
    ///
    /// # Errors
    /// The kernel's error.
    fn map_read_only(&self, event: Event, offset: u64, len: usize) -> io::Result<Block>;
    /// `RLIMIT_MEMLOCK` in bytes, `None` for unlimited or unknown.
    fn locked_memory_limit(&self) -> Option<u64>;
    /// `RLIMIT_NOFILE`, `None` for unlimited or unknown.
    fn open_files_limit(&self) -> Option<u64>;
    /// The calling thread.
    fn this_thread(&self) -> u32;
    /// All threads of this process (`/proc/self/task`).
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    fn threads(&self) -> io::Result<Vec<u32>>;
    /// The current time in both clocks.
    fn moment(&self) -> Moment;
}

/// The kernel on which this process runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

impl Kernel for Linux {
    fn root(&self) -> &Path {
        Path::new("/")
    }

    fn open(&self, attr: &perf_event_attr, thread: Thread, place: Place) -> io::Result<Event> {
        let core = match place {
            Place::Anywhere => -1,
            Place::Core(core) => core as libc::c_int,
        };
        let thread = match thread {
            Thread::Calling => 0,
            Thread::Of(tid) => tid as libc::pid_t,
        };
        let no_group = -1;
        let mut attr = *attr;
        // SAFETY: the kernel reads `attr.size` bytes, which are not more than the structure
        // has, and writes at most that field.
        let fd = unsafe { perf_event_open(&mut attr, thread, core, no_group, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
    }

    fn close(&self, event: Event) {
        // SAFETY: the caller got the descriptor from `open` and does not use it again.
        unsafe { libc::close(event) };
    }

    fn control(&self, event: Event, request: Control<'_>) -> io::Result<()> {
        // SAFETY: the argument is a number, or a string that ends in NUL, lives during the call
        // and is only read, as the request requires.
        let result = unsafe {
            match request {
                Control::Enable => ioctls::ENABLE(event, 0),
                Control::Disable => ioctls::DISABLE(event, 0),
                Control::SetOutput(to) => ioctls::SET_OUTPUT(event, to),
                Control::SetFilter(text) => ioctls::SET_FILTER(event, text.as_ptr().cast_mut()),
            }
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn map(&self, event: Event, offset: u64, len: usize) -> io::Result<Block> {
        Block::map_event(event, offset, len)
    }

    fn map_read_only(&self, event: Event, offset: u64, len: usize) -> io::Result<Block> {
        Block::map_event_read_only(event, offset, len)
    }

    fn locked_memory_limit(&self) -> Option<u64> {
        limit(libc::RLIMIT_MEMLOCK)
    }

    fn open_files_limit(&self) -> Option<u64> {
        limit(libc::RLIMIT_NOFILE)
    }

    fn this_thread(&self) -> u32 {
        // SAFETY: no arguments, and it cannot fail.
        unsafe { libc::gettid() as u32 }
    }

    fn threads(&self) -> io::Result<Vec<u32>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir("/proc/self/task")? {
            all.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(all)
    }

    /// Reads the clock between two reads of the TSC. Of a few attempts, takes the one with the
    /// shortest time between those reads.
    fn moment(&self) -> Moment {
        const ATTEMPTS: usize = 5;
        let attempt = |_| {
            let before = rdtsc();
            let ns = raw_clock();
            let after = rdtsc();
            (
                after.wrapping_sub(before),
                Moment { tsc: before.wrapping_add(after.wrapping_sub(before) / 2), ns },
            )
        };
        (0..ATTEMPTS)
            .map(attempt)
            .min_by_key(|(width, _)| *width)
            .map(|(_, moment)| moment)
            .unwrap_or_default()
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` is written when the call succeeds.
    if unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded.
    let soft = unsafe { limit.assume_init() }.rlim_cur;
    (soft != libc::RLIM_INFINITY).then_some(soft)
}

fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux permits it in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn raw_clock() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `now` is written if the call succeeds. If not, it is all zeros, which is a valid
    // time.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, now.as_mut_ptr());
        now.assume_init()
    };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_continue_together() {
        let (first, start) = (Linux.moment(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = Linux.moment();
        let passed = second.ns - first.ns;
        assert!(passed >= 19_000_000 && passed <= start.elapsed().as_nanos() as u64 * 2, "{passed} ns");
        assert!(second.tsc > first.tsc);
    }

    #[test]
    fn threads_are_those_of_the_process() {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(Linux.this_thread()).unwrap();
            stopped.recv().unwrap_err();
        });
        let id = told.recv().unwrap();
        assert_ne!(id, Linux.this_thread());
        let all = Linux.threads().unwrap();
        assert!(all.contains(&id) && all.contains(&Linux.this_thread()), "{all:?}");
        drop(stop);
        other.join().unwrap();
    }

    #[test]
    fn a_descriptor_that_is_no_event_is_refused() {
        assert!(Linux.control(-1, Control::Enable).is_err());
        assert!(Linux.map(-1, 0, 4096).is_err());
    }
}
