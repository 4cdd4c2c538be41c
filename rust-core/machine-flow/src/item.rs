// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The decoder's output: machine blocks, transitions, time and gaps.

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

/// The target of a branch that left the traced range.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target(NonZeroU64);

impl Target {
    /// `None` for address 0, to which nothing branches.
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
/// Blocks are in the order of execution: each begins at the target of the branch that ended the
/// one before. Nothing was traced between an [`Item::Leave`] or [`Item::Interrupt`] and the next
/// [`Item::Enter`]: the thread was outside the code cache or in the kernel, or another thread
/// ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// Instructions that were executed one after another, up to and including one branch.
    Block {
        /// Offset of the first instruction from the start of the code cache
        /// ([`crate::CodeHistory::range`]), in bytes.
        start: u32,
        /// Offset of the first byte after the last executed instruction.
        end: u32,
        /// The code that the block belongs to.
        code: CodeId,
        /// How the block ended.
        exit: Exit,
    },
    /// Tracing begins or resumes at `ip` (TIP.PGE; also the first known address after a gap).
    Enter {
        /// The next instruction to execute.
        ip: Address,
    },
    /// The branch that ended the preceding block left the traced range (TIP.PGD).
    Leave {
        /// The target of the branch; `None` if the unit suppressed the address (a far transfer).
        target: Option<Target>,
    },
    /// An interrupt, signal or fault (FUP, then TIP.PGD or TIP): the instruction at `ip` was not
    /// executed. If instructions of its block ran, that block comes before and ends at `ip` with
    /// [`Exit::Cut`].
    Interrupt {
        /// The instruction that was not executed.
        ip: Address,
    },
    /// The items that follow happened at or after this time.
    Time(Tsc),
    /// A part of the trace without known flow. An [`Item::Enter`] comes before the next block.
    Gap(Box<MachineGap>),
}

/// Why a part of the machine flow is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MachineGapReason {
    /// Trace before the core's first PSB.
    Start,
    /// The unit or the kernel had no room for trace ([`crate::CoreDecoder::loss`]).
    Truncated,
    /// The unit's internal buffer overflowed (OVF).
    Overflow,
    /// The sideband records that say whose trace it is were lost ([`crate::CoreDecoder::blind`]).
    Sideband,
    /// The trace cannot be explained: damaged packets, or packets that contradict the code.
    Undecodable(Error),
}

impl MachineGapReason {
    /// Whether the data was lost during recording; otherwise the decoder refused it.
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::Truncated | Self::Overflow | Self::Sideband | Self::Start)
    }
}

/// A part of one core's trace without flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineGap {
    /// The reason.
    pub reason: MachineGapReason,
    /// Packet at which the gap was noticed.
    pub offset: StreamOffset,
    /// Packet at which decoding resumes. It equals `offset` if nothing was skipped, and is `None`
    /// if the trace ended first.
    pub resumed: Option<StreamOffset>,
    /// The address that the decoder had reached, if it was inside the code cache.
    pub address: Option<Address>,
    /// Last known time before the gap.
    pub since: Option<Tsc>,
    /// First known time after the gap.
    pub until: Option<Tsc>,
}

impl MachineGap {
    /// Number of bytes of trace that were skipped.
    pub fn bytes(&self) -> Option<u64> {
        self.resumed.map(|r| r.0.saturating_sub(self.offset.0))
    }
}

const _: () = assert!(size_of::<Item>() == 16);
