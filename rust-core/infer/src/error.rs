// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The error of the crate.

use std::io;

use jportal_bytecode::Opcode;
use jportal_units::{Bci, MethodId};

/// The caller's input is inconsistent, or the storage for events failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An anchor names an instruction that the ICFG does not have.
    #[error("anchor at symbol {index}: {method} has no instruction at bci {bci}")]
    NoSuchNode {
        /// The index of the symbol.
        index: usize,
        /// The method of the anchor.
        method: MethodId,
        /// The bci of the anchor.
        bci: Bci,
    },
    /// An anchor names an instruction with another opcode than the symbol's.
    #[error(
        "anchor at symbol {index}: the symbol is {symbol}, but there is {found} at bci {bci} of {method}"
    )]
    OtherOpcode {
        /// The index of the symbol.
        index: usize,
        /// The symbol's opcode.
        symbol: Opcode,
        /// The opcode at the anchor.
        found: Opcode,
        /// The method of the anchor.
        method: MethodId,
        /// The bci of the anchor.
        bci: Bci,
    },
    /// An anchor is after the end of its segment, or not after the previous anchor.
    #[error("anchor at symbol {index} of a segment of {len} symbols whose last anchor is at {last:?}")]
    AnchorOrder {
        /// The index of the symbol.
        index: usize,
        /// The segment's length.
        len: usize,
        /// The last anchor's symbol.
        last: Option<usize>,
    },
    /// A call is after the end of its segment, not after the previous call, or its symbol is no
    /// invoke.
    #[error(
        "call at symbol {index} of a segment of {len} symbols whose last call is at {last:?}, or no invoke"
    )]
    CallOrder {
        /// The index of the symbol.
        index: usize,
        /// The segment's length.
        len: usize,
        /// The last call's symbol.
        last: Option<usize>,
    },
    /// The storage for a thread's events could not be opened.
    #[error("cannot open a temporary file for the events of tid {tid}")]
    Open {
        /// The thread.
        tid: u32,
        /// The cause.
        source: io::Error,
    },
    /// A thread's events could not be written: the disk is full, for example.
    #[error("cannot write the events of tid {tid} after byte {at} of their temporary file")]
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
