// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The crate's error.

use jportal_units::StreamOffset;
use thiserror::Error;

/// Why bytes are no packet. Every variant contains the offset at which the packet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside a packet; further bytes may complete it.
    #[error("packet at {offset} is cut off after {available} bytes")]
    Truncated {
        /// First byte of the packet.
        offset: StreamOffset,
        /// Number of bytes from there to the end.
        available: usize,
    },
    /// No packet begins with these bytes (SDM, table "Packet Opcodes").
    #[error("no packet begins with {opcode:02x?} at {offset}; resume at the next PSB")]
    UnknownOpcode {
        /// First byte of the packet.
        offset: StreamOffset,
        /// The first three bytes, zero-padded.
        opcode: [u8; 3],
    },
    /// The opcode is known, but a field holds a value that the SDM reserves.
    #[error("{packet} at {offset} has the reserved value {value:#x}; resume at the next PSB")]
    Reserved {
        /// First byte of the packet.
        offset: StreamOffset,
        /// The packet's SDM name.
        packet: &'static str,
        /// The offending field's value.
        value: u64,
    },
}

impl Error {
    /// Offset at which the packet begins.
    pub const fn offset(&self) -> StreamOffset {
        match self {
            Self::Truncated { offset, .. }
            | Self::UnknownOpcode { offset, .. }
            | Self::Reserved { offset, .. } => *offset,
        }
    }
}
