// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The crate's error.

use jportal_units::StreamOffset;
use thiserror::Error;

/// Why bytes are no packet. Every variant says where the packet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside a packet; more of them may make it whole.
    #[error("packet at {offset} is cut off after {available} bytes")]
    Truncated {
        /// First byte of the packet.
        offset: StreamOffset,
        /// Bytes there are.
        available: usize,
    },
    /// No packet begins with these bytes (SDM, table "Packet Opcodes").
    #[error("no packet begins with {opcode:02x?} at {offset}; resume at the next PSB")]
    UnknownOpcode {
        /// Where.
        offset: StreamOffset,
        /// The first three bytes, zero-padded.
        opcode: [u8; 3],
    },
    /// The opcode is known, a field holds a value the SDM reserves.
    #[error("{packet} at {offset} has the reserved value {value:#x}; resume at the next PSB")]
    Reserved {
        /// Where.
        offset: StreamOffset,
        /// The packet's SDM name.
        packet: &'static str,
        /// The offending field's value.
        value: u64,
    },
}

impl Error {
    /// Where the packet begins.
    pub const fn offset(&self) -> StreamOffset {
        match self {
            Self::Truncated { offset, .. }
            | Self::UnknownOpcode { offset, .. }
            | Self::Reserved { offset, .. } => *offset,
        }
    }
}
