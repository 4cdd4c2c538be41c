// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The crate's error: why packets and code contradict each other, or why an image event is
//! refused.

use jportal_units::{Address, AddressRange, StreamOffset};
use thiserror::Error;

/// Why a stretch of trace cannot be explained, or an event of the code image is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not valid packets.
    #[error(transparent)]
    Packet(#[from] jportal_pt_packet::Error),
    /// A packet came that the code at this place cannot cause.
    #[error("{packet} at {offset}, but the code at {address} {needs}")]
    UnexpectedPacket {
        /// SDM name of the packet.
        packet: &'static str,
        /// Its stream offset.
        offset: StreamOffset,
        /// Block that the decoder has reached.
        address: Address,
        /// What the code there requires.
        needs: &'static str,
    },
    /// A packet came that cannot come in this state of the unit.
    #[error("{packet} at {offset} while {state}")]
    UnexpectedState {
        /// SDM name of the packet.
        packet: &'static str,
        /// Its stream offset.
        offset: StreamOffset,
        /// The unit's state.
        state: &'static str,
    },
    /// The flow reached an address for which no code is known at that time.
    #[error(
        "no code is known at {address} (packet at {offset}); its installation may not have been recorded"
    )]
    NoCode {
        /// The address.
        address: Address,
        /// Packet being followed.
        offset: StreamOffset,
    },
    /// The bytes at an address are not an instruction.
    #[error("the bytes at {address} are no instruction (packet at {offset})")]
    NoInstruction {
        /// The address.
        address: Address,
        /// Packet being followed.
        offset: StreamOffset,
    },
    /// An IP packet contains an address to which the code does not lead.
    #[error("{packet} at {offset} says {said}, the code at {address} leads elsewhere")]
    WrongAddress {
        /// SDM name of the packet.
        packet: &'static str,
        /// Its stream offset.
        offset: StreamOffset,
        /// The address that the packet carries.
        said: Address,
        /// Block that the decoder has reached.
        address: Address,
    },
    /// A direct branch leads out of the traced range, but no TIP.PGD reports it.
    #[error("the branch at {address} leaves the traced range, but {packet} at {offset} continues inside")]
    LeftRange {
        /// The block's start.
        address: Address,
        /// SDM name of the packet.
        packet: &'static str,
        /// Its stream offset.
        offset: StreamOffset,
    },
    /// A compressed return without a call on the return stack, or with outcome "not taken".
    #[error("compressed return at {address} without a matching call (packet at {offset})")]
    ReturnStack {
        /// Block that ends with the return.
        address: Address,
        /// Packet being followed.
        offset: StreamOffset,
    },
    /// The code loops without a branch that needs a packet.
    #[error("the code at {address} runs in a circle that {packet} at {offset} does not end")]
    Circle {
        /// A block of the loop.
        address: Address,
        /// SDM name of the packet.
        packet: &'static str,
        /// Its stream offset.
        offset: StreamOffset,
    },
    /// The flow enters the VM to have a call resolved, but the VM resolved another call of the
    /// thread then.
    #[error(
        "the call that returns to {returns} is resolved (packet at {offset}), but the VM resolved the one that returns to {resolved}"
    )]
    OtherCall {
        /// Packet being followed.
        offset: StreamOffset,
        /// Where the call in the flow returns.
        returns: Address,
        /// Where the call in the VM's record returns.
        resolved: Address,
    },
    /// Code returns to a caller that has not called in this flow, or past one that has.
    #[error("{address} returns to {returns} (packet at {offset}), and no call there was made")]
    OtherCaller {
        /// Packet being followed.
        offset: StreamOffset,
        /// Block that ends with the return.
        address: Address,
        /// Where it returns to.
        returns: Address,
    },
    /// MODE.Exec announces code other than 64-bit.
    #[error("MODE.Exec at {offset}: only 64-bit code can be followed")]
    NotLongMode {
        /// Its stream offset.
        offset: StreamOffset,
    },
    /// An image event lies outside the code cache.
    #[error("{range:?} is not inside the code cache {cache:?}")]
    OutsideCodeCache {
        /// The event's range.
        range: AddressRange,
        /// The code cache.
        cache: AddressRange,
    },
    /// The code cache is larger than offsets of 32 bits can count.
    #[error("a code cache of {size} bytes: more than {max} cannot be decoded", max = u32::MAX - 1)]
    CodeCacheTooLarge {
        /// Its size.
        size: u64,
    },
}
