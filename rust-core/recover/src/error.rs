// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The crate's error.

use jportal_bytecode::Opcode;
use jportal_units::{Bci, MethodId};

/// What a caller handed over is inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An anchor names an instruction that the ICFG does not have.
    #[error("anchor at symbol {index}: {method} has no instruction at bci {bci}")]
    NoSuchNode {
        /// Which symbol.
        index: usize,
        /// The method named.
        method: MethodId,
        /// The bci named.
        bci: Bci,
    },
    /// An anchor names an instruction with another opcode than the symbol's.
    #[error(
        "anchor at symbol {index}: the symbol is {symbol}, but there is {found} at bci {bci} of {method}"
    )]
    OtherOpcode {
        /// Which symbol.
        index: usize,
        /// The symbol's opcode.
        symbol: Opcode,
        /// The opcode at the place named.
        found: Opcode,
        /// The method named.
        method: MethodId,
        /// The bci named.
        bci: Bci,
    },
    /// An anchor is behind the end of its segment, or not behind the anchor before it.
    #[error("anchor at symbol {index} of a segment of {len} symbols whose last anchor is at {last:?}")]
    AnchorOrder {
        /// Which symbol.
        index: usize,
        /// The segment's length.
        len: usize,
        /// The last anchor's symbol.
        last: Option<usize>,
    },
    /// A call is behind the end of its segment, not behind the call before it, or its symbol no invoke.
    #[error(
        "call at symbol {index} of a segment of {len} symbols whose last call is at {last:?}, or no invoke"
    )]
    CallOrder {
        /// Which symbol.
        index: usize,
        /// The segment's length.
        len: usize,
        /// The last call's symbol.
        last: Option<usize>,
    },
}
