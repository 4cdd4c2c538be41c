// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What can go wrong while flows wait for their gaps to be filled.

use std::io;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no place for a thread's events.
    #[error("cannot open a temporary file for the events of tid {tid}")]
    Open {
        /// The thread.
        tid: u32,
        /// Why.
        source: io::Error,
    },
    /// A thread's events cannot be written: the disk is full, for example.
    #[error("cannot write the events of tid {tid} behind byte {at} of their temporary file")]
    Write {
        /// The thread.
        tid: u32,
        /// Bytes written before.
        at: u64,
        /// Why.
        source: io::Error,
    },
    /// They cannot be read again.
    #[error("cannot read event {event} of tid {tid} from its temporary file")]
    Read {
        /// The thread.
        tid: u32,
        /// Number of the event.
        event: u64,
        /// Why; [`io::ErrorKind::InvalidData`] where what was read is not what was written.
        source: io::Error,
    },
    /// The flow of a thread has not ended.
    #[error("the flow of tid {tid} has not ended")]
    Unfinished {
        /// The thread.
        tid: u32,
    },
}
