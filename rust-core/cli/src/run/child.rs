// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The traced process: starts it, waits for it, and passes signals on.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::Signal;

use crate::sys::{SignalWatch, send};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// By exit, with this status.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// A program that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) pid: u32,
    pub(crate) end: ProgramEnd,
}

/// Runs `command` to its end with our stdin, stdout and stderr.
///
/// A signal that a process sends to us is passed on to the program. A signal from the terminal
/// has already reached the program, because it is in our process group.
pub(crate) fn run(command: &mut Command) -> io::Result<Finished> {
    let watch = SignalWatch::begin()?;
    watch.restore_in(command);
    let mut child = command.spawn()?;
    let pid = child.id();
    let status = wait(&watch, &mut child)?;
    Ok(Finished { pid, end: end_of(status) })
}

fn wait(watch: &SignalWatch, child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        // Check before the first wait too: our parent process may have made us ignore SIGCHLD.
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let arrival = watch.next()?;
        if arrival.signal != Signal::SIGCHLD && arrival.sent {
            send(child.id(), arrival.signal);
        }
    }
}

fn end_of(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Code(code as u8),
        (None, signal) => ProgramEnd::Signal(signal.unwrap_or(Signal::SIGKILL as i32)),
    }
}
