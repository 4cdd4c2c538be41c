// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The steps of a flow at the level of blocks.

use jportal_flow::{Cause, Gap};
use jportal_units::{Bci, MethodId, Tsc};

use crate::known::Known;

/// How a frame ended other than by a return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Left {
    /// An exception left it.
    Unwind = 0,
    /// A debugger removed it.
    PopFrame = 1,
    /// A debugger made it return.
    EarlyReturn = 2,
    /// An exception left it before its first bytecode. There was no [`Step::Start`].
    Unstarted = 3,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step<'e> {
    /// The method was called, and its first bytecode began.
    Start {
        /// The method.
        method: MethodId,
    },
    /// The method returned.
    End {
        /// The method.
        method: MethodId,
    },
    /// The first bytecode of a block began.
    Block {
        /// The method.
        method: MethodId,
        /// The block's number.
        block: u16,
    },
    /// A frame ended otherwise.
    Left {
        /// The method.
        method: MethodId,
        /// How.
        how: Left,
    },
    /// An exception handler was entered. The handler's block follows.
    Catch {
        /// The method.
        method: MethodId,
        /// First bytecode of the handler.
        bci: Bci,
    },
    /// A frame whose beginning was not seen.
    Found {
        /// The method.
        method: MethodId,
    },
    /// A frame whose end was not seen.
    Lost {
        /// The method.
        method: MethodId,
        /// Whether it is known that it ended by a return or an exception.
        ended: bool,
    },
    /// Where control stands after something unknown, if no block begins there.
    At {
        /// The method.
        method: MethodId,
        /// The bytecode that began.
        bci: Bci,
    },
    /// A stretch of compiled code whose bytecodes are not known. The method may lie outside of the
    /// scope: methods inside the scope that were inlined there may have run unseen.
    Unresolved {
        /// The method.
        method: MethodId,
        /// Last known bytecode before. `None`: the method's beginning.
        from: Option<Bci>,
        /// First known bytecode after. `None`: the method's end.
        to: Option<Bci>,
        /// Why.
        cause: Cause,
        /// Number of callers that may have ended and begun again.
        callers: u16,
    },
    /// Nothing is known of a part of the flow.
    Gap(&'e Gap),
    /// Bytecodes, and exceptions, of frames whose methods are not known.
    Orphans(u64),
    /// Events that were left out at the caller's request.
    Excluded(u64),
    /// Bytecodes of a method whose blocks are not known, because its code is malformed or missing.
    NoBlocks {
        /// The method.
        method: MethodId,
        /// Number of bytecodes.
        bytecodes: u64,
    },
    /// How the steps that follow are known. [`Known::Decoded`] at the beginning.
    Known(Known),
    /// The steps that follow happened at this time or later.
    Time(Tsc),
}
