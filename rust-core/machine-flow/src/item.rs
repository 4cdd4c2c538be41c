// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the decoder says: machine blocks, transitions, time and gaps.

use crate::error::Error;
use core::num::NonZeroU64;
use jportal_units::{Address, CodeId, StreamOffset, Tsc};

/// How a [`Item::Block`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Exit {
    /// A conditional branch that was not taken.
    NotTaken,
    /// A conditional branch that was taken.
    Taken,
    /// A direct jump.
    Jump,
    /// A direct call.
    Call,
    /// An indirect jump.
    IndirectJump,
    /// An indirect call.
    IndirectCall,
    /// A near return.
    Return,
    /// No branch: the block was split at a length limit or at the end of a code blob.
    FallThrough,
    /// No branch: an asynchronous event or a fault came before the instruction at `end`.
    Cut,
    /// A far transfer (`syscall`, `iret`, `int`).
    Far,
}

/// Where a branch that left the traced range went.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target(NonZeroU64);

impl Target {
    /// `None` for address 0, which nothing branches to.
    #[inline]
    pub const fn new(address: Address) -> Option<Self> {
        match NonZeroU64::new(address.0) {
            Some(a) => Some(Self(a)),
            None => None,
        }
    }
    /// The address.
    #[inline]
    pub const fn address(self) -> Address {
        Address(self.0.get())
    }
}

impl core::fmt::Debug for Target {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.address())
    }
}

/// One step of a core's machine flow; 16 bytes.
///
/// Blocks follow one another as executed: a block begins where the branch of the one before it
/// led. Between a [`Item::Leave`] or [`Item::Interrupt`] and the next [`Item::Enter`] nothing was
/// traced (the thread was outside the code cache, in the kernel, or another thread ran).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// Instructions executed one after another, up to and including one branch.
    Block {
        /// First instruction, bytes from the start of the code cache
        /// ([`crate::CodeHistory::range`]).
        start: u32,
        /// First byte behind the last executed instruction, same scale.
        end: u32,
        /// Which code stood there.
        code: CodeId,
        /// How it ended.
        exit: Exit,
    },
    /// Tracing begins or goes on at `ip` (TIP.PGE; also the first place known after a gap).
    Enter {
        /// First instruction that will execute.
        ip: Address,
    },
    /// The branch that ended the preceding block left the traced range (TIP.PGD).
    Leave {
        /// Where it went; `None` when the unit suppressed the address (a far transfer).
        target: Option<Target>,
    },
    /// An interrupt, signal or fault (FUP, then TIP.PGD or TIP): the instruction at `ip` has not
    /// executed. A preceding block, if any instruction of it ran, ends at `ip` with [`Exit::Cut`].
    Interrupt {
        /// The instruction that has not executed.
        ip: Address,
    },
    /// What follows happened at or after this time.
    Time(Tsc),
    /// Nothing is known about a stretch. An [`Item::Enter`] comes before the next block.
    Gap(Box<MachineGap>),
}

/// Why the machine flow is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MachineGapReason {
    /// Trace before the core's first PSB.
    Start,
    /// The unit or the kernel had no room ([`crate::CoreDecoder::loss`]).
    Truncated,
    /// The unit's internal buffer overflowed (OVF).
    Overflow,
    /// Whose trace it is was not recorded ([`crate::CoreDecoder::blind`]).
    Sideband,
    /// The trace cannot be explained: damaged packets, or packets that contradict the code.
    Undecodable(Error),
}

impl MachineGapReason {
    /// Whether data was lost while recording, rather than refused by the decoder.
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::Truncated | Self::Overflow | Self::Sideband | Self::Start)
    }
}

/// A stretch of one core's trace without flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineGap {
    /// Why.
    pub reason: MachineGapReason,
    /// Packet at which it became clear.
    pub offset: StreamOffset,
    /// Packet from which decoding goes on; equal to `offset` when nothing was skipped, `None`
    /// when the trace ended first.
    pub resumed: Option<StreamOffset>,
    /// Where the decoder stood in the code, if it was inside it.
    pub address: Option<Address>,
    /// Last time known before.
    pub since: Option<Tsc>,
    /// First time known after.
    pub until: Option<Tsc>,
}

impl MachineGap {
    /// Bytes of trace that were skipped.
    pub fn bytes(&self) -> Option<u64> {
        self.resumed.map(|r| r.0.saturating_sub(self.offset.0))
    }
}

const _: () = assert!(size_of::<Item>() == 16);
