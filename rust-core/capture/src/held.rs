// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The lock on a capture, which says that somebody writes to it.
//!
//! Who writes a recording, a dump or a trimmed copy holds an exclusive `flock(2)` on the file, from
//! its creation to its end. The lock belongs to the open file: it stays if the file is renamed, and
//! ends with the process, however that ends. The descriptor does not survive `exec`, but a child
//! that was forked and executes no other program holds the lock for as long as it lives. Who only
//! reads needs no lock. Some file systems know none; nothing is then known about their files.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::create::open_to_look;
use crate::error::Error;

/// How often, and with what pause, the lock is tried: others who ask for it hold one for a moment.
const ROUNDS: u32 = 50;
const ROUND: Duration = Duration::from_millis(2);

/// Takes the lock. `false`: somebody else holds it.
pub(crate) fn take(file: &File) -> bool {
    for _ in 0..ROUNDS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(ROUND),
            // No lock can be had, or it is there.
            _ => return true,
        }
    }
    false
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
