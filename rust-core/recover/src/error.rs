// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The error of the crate.

use jportal_bytecode::Opcode;
use jportal_units::{Bci, MethodId};

/// The caller's input is inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
}
