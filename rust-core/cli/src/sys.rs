// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! System calls for which std has no safe form, by `nix` where it has one. Only this file of the
//! command uses `unsafe`.
//!
//! `signal-hook` would install handlers, which `exec` resets to the default: the traced program
//! would no longer ignore the signals that we were started to ignore (`nohup`). `rustix` offers
//! signal masks only to an implementation of libc. What remains in libc changes dispositions, or
//! must know all signals: those of `nix` lack the real-time ones, by which a program may end.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

/// Restores the default action of SIGPIPE, so that the command ends quietly when its reader
/// closes.
pub(crate) fn die_of_broken_pipes() {
    // SAFETY: sets a disposition; no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Whether this process was started to ignore SIGCHLD.
static CHILDREN_IGNORED: AtomicBool = AtomicBool::new(false);

/// Restores the default action of SIGCHLD. While it is ignored, the kernel reaps children, so that
/// nobody can learn how they ended. Call it before the first child is started.
pub(crate) fn see_children_end() {
    // SAFETY: sets a disposition; no handler is installed.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    CHILDREN_IGNORED.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Signals that are passed on to the traced program, and SIGCHLD, which reports its end.
const WATCHED: [Signal; 8] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// The watched signals, which are blocked, and the signal mask from before.
pub(crate) struct SignalWatch {
    watched: SignalFd,
    before: SigSet,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Which one.
    pub(crate) signal: Signal,
    /// Whether a process sent it to us. If not, the terminal sent it to our whole process
    /// group, which includes the traced program.
    pub(crate) sent: bool,
}

impl Arrival {
    /// Whether the signal asks to end.
    pub(crate) fn ends(self) -> bool {
        matches!(self.signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
    }
}

impl SignalWatch {
    /// Blocks the watched signals in the calling thread, which must be the only one.
    pub(crate) fn begin() -> io::Result<Self> {
        let signals: SigSet = WATCHED.into_iter().collect();
        let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { watched: SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?, before })
    }

    /// Makes `command` start with the signal mask, and the disposition of SIGCHLD, that we were
    /// started with.
    pub(crate) fn restore_in(&self, command: &mut Command) {
        let (before, ignored) = (self.before, CHILDREN_IGNORED.load(Ordering::Relaxed));
        let restore = move || {
            if ignored {
                // SAFETY: sets a disposition; no handler is installed.
                unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            }
            Ok(before.thread_set_mask()?)
        };
        // SAFETY: the closure makes system calls that are async-signal-safe, and allocates
        // nothing.
        unsafe { command.pre_exec(restore) };
    }

    /// Waits for the next watched signal, at most this long.
    pub(crate) fn next_within(&self, time: Duration) -> io::Result<Option<Arrival>> {
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.watched.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => self.next().map(Some),
            Err(e) => Err(e.into()),
        }
    }

    /// Waits for the next watched signal.
    pub(crate) fn next(&self) -> io::Result<Arrival> {
        loop {
            match self.watched.read_signal() {
                Ok(Some(info)) => {
                    let signal = Signal::try_from(info.ssi_signo as i32)?;
                    return Ok(Arrival { signal, sent: info.ssi_code <= 0 });
                }
                // The descriptor blocks, so there is always a signal.
                Ok(None) | Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Sends a signal. If the process no longer exists, nothing happens.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Ends this process by `signal`, as the traced program ended, without writing a core dump of
/// its own. Returns if the signal does not kill the process.
pub(crate) fn die_by(signal: i32) {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; the rest are plain system calls on initialised
    // values, and no handler is installed.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Free bytes, for this user, in the file system of `path`.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}
