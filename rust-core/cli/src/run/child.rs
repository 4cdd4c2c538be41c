// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The traced process: started, waited for, signals handed on.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use crate::sys::{Watch, send};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By exit.
    Code(u8),
    /// Killed.
    Signal(i32),
}

/// A program that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) pid: u32,
    pub(crate) end: End,
}

/// Runs `command` with our stdin, stdout and stderr to its end.
///
/// A signal that a process sends to us goes on to the program. One from the terminal has gone
/// to the program already, since it is in our process group.
pub(crate) fn run(command: &mut Command) -> io::Result<Finished> {
    let watch = Watch::begin()?;
    watch.restore_in(command);
    let mut child = command.spawn()?;
    let pid = child.id();
    let status = wait(&watch, &mut child)?;
    Ok(Finished { pid, end: end_of(status) })
}

fn wait(watch: &Watch, child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        // Before the first wait too: SIGCHLD may have been ignored where we come from.
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let arrival = watch.next()?;
        if arrival.signal != libc::SIGCHLD && arrival.sent {
            send(child.id(), arrival.signal);
        }
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code as u8),
        (None, signal) => End::Signal(signal.unwrap_or(libc::SIGKILL)),
    }
}
