// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The lock on a capture, which says that somebody writes to it.
//!
//! Who writes a recording, a dump or a trimmed copy holds an exclusive `flock(2)` on the file, from
//! its creation to its end. Who completes the capture of a dead VM holds one meanwhile. The lock
//! belongs to the open file: it stays if the file is renamed, and ends with the process, however
//! that ends. The descriptor does not survive `exec`, but a child that was forked and executes no
//! other program holds the lock for as long as it lives. Who only reads needs no lock. Some file
//! systems know none; nothing is then known about their files.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::create::open_to_look;
use crate::error::Error;

/// The pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(2);
/// How long [`take`] waits for the end of an exclusive lock. VMs that begin at once hold it one
/// after the other, to rename an earlier capture.
const EXCLUSIVE: Duration = Duration::from_millis(100);
/// How long [`take_of_the_dead`] waits for the recovery by another process.
const RECOVERY: Duration = Duration::from_secs(60);
/// How long the lock is waited for while others share it. They only ask whether somebody writes
/// ([`is_held`]), but the scheduler may take the core from them while they hold it.
const SHARED: Duration = Duration::from_secs(5);

/// Takes the lock. `false`: somebody else holds it.
pub(crate) fn take(file: &File) -> bool {
    take_within(file, EXCLUSIVE)
}

/// Takes the lock on the capture of a dead VM. If another process recovers it, waits for its end.
/// `false`: that takes too long.
pub(crate) fn take_of_the_dead(file: &File) -> bool {
    take_within(file, RECOVERY)
}

fn take_within(file: &File, exclusive: Duration) -> bool {
    let start = Instant::now();
    // On a file system without locks, nobody can hold one.
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        let limit = if is_held(file) { exclusive } else { SHARED };
        if start.elapsed() >= limit {
            return false;
        }
        sleep(PAUSE);
    }
    true
}

/// Whether somebody holds the lock. Others who ask at the same time do not count.
pub(crate) fn is_held(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Whether somebody writes to the capture at `path`, which may be a link.
pub(crate) fn is_written(path: &Path) -> Result<bool, Error> {
    let open = |source| Error::Open { path: path.to_owned(), source };
    let file = match open_to_look(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(open(e)),
    };
    Ok(file.metadata().map_err(open)?.is_file() && is_held(&file))
}
