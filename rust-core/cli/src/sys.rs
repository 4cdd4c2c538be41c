// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! System calls for which std has no safe form. Only this file of the command uses `unsafe`.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Restores the default action of SIGPIPE, so that the command ends quietly when its reader
/// closes.
pub(crate) fn die_of_broken_pipes() {
    // SAFETY: sets a disposition; no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Signals that are passed on to the traced program, and SIGCHLD, which reports its end.
const WATCHED: [libc::c_int; 8] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// The watched signals, which are blocked, and the signal mask from before.
pub(crate) struct Watch {
    watched: libc::sigset_t,
    before: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Its number.
    pub(crate) signal: i32,
    /// Whether a process sent it to us. If not, the terminal sent it to our whole process
    /// group, which includes the traced program.
    pub(crate) sent: bool,
}

impl Watch {
    /// Blocks the watched signals in the calling thread, which must be the only one.
    pub(crate) fn begin() -> io::Result<Self> {
        // SAFETY: the sets are initialised by sigemptyset and pthread_sigmask before use.
        unsafe {
            let mut watched = MaybeUninit::uninit();
            libc::sigemptyset(watched.as_mut_ptr());
            for signal in WATCHED {
                libc::sigaddset(watched.as_mut_ptr(), signal);
            }
            let watched = watched.assume_init();
            let mut before = MaybeUninit::uninit();
            match libc::pthread_sigmask(libc::SIG_BLOCK, &watched, before.as_mut_ptr()) {
                0 => Ok(Self { watched, before: before.assume_init() }),
                e => Err(io::Error::from_raw_os_error(e)),
            }
        }
    }

    /// Makes `command` start with the signal mask that we were started with.
    pub(crate) fn restore_in(&self, command: &mut Command) {
        let before = self.before;
        // SAFETY: pthread_sigmask is async-signal-safe; nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                match libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) {
                    0 => Ok(()),
                    e => Err(io::Error::from_raw_os_error(e)),
                }
            });
        }
    }

    /// Waits for the next watched signal.
    pub(crate) fn next(&self) -> io::Result<Arrival> {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
            // SAFETY: the set is initialised; `info` is written when the call succeeds.
            let signal = unsafe { libc::sigwaitinfo(&self.watched, info.as_mut_ptr()) };
            if signal > 0 {
                // SAFETY: sigwaitinfo succeeded.
                let code = unsafe { info.assume_init() }.si_code;
                return Ok(Arrival { signal, sent: code <= 0 });
            }
            let e = io::Error::last_os_error();
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
    }
}

/// Sends a signal. If the process no longer exists, nothing happens.
pub(crate) fn send(pid: u32, signal: i32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: plain system call.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Ends this process by `signal`, as the traced program ended, without writing a core dump of
/// its own. Returns if the signal does not kill the process.
pub(crate) fn die_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on initialised values.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Free bytes, for this user, in the file system of `path`.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is NUL-terminated; `stat` is written when the call succeeds.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded.
    let stat = unsafe { stat.assume_init() };
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
