// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Errors of a completion.

use std::io;

/// An error of a completion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage for a thread's events could not be opened.
    #[error("cannot open a temporary file for the events of tid {tid}")]
    Open {
        /// The thread.
        tid: u32,
        /// The cause.
        source: io::Error,
    },
    /// A thread's events could not be written: the disk is full, for example.
    #[error("cannot write the events of tid {tid} behind byte {at} of their temporary file")]
    Write {
        /// The thread.
        tid: u32,
        /// The number of bytes written before.
        at: u64,
        /// The cause.
        source: io::Error,
    },
    /// A thread's events could not be read again.
    #[error("cannot read event {event} of tid {tid} from its temporary file")]
    Read {
        /// The thread.
        tid: u32,
        /// The number of the event.
        event: u64,
        /// The cause; [`io::ErrorKind::InvalidData`] if the data read are not the data written.
        source: io::Error,
    },
    /// The flow of a thread has not ended.
    #[error("the flow of tid {tid} has not ended")]
    Unfinished {
        /// The thread.
        tid: u32,
    },
}
