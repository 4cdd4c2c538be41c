// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The packets.

use crate::ip::{IpCompression, IpPayload};
use core::fmt;

/// Branch outcomes of a TNT packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tnt {
    /// One bit per branch, 1 = taken; the oldest branch is bit `len - 1`, the youngest bit 0.
    pub bits: u64,
    /// Number of branches, 1 to 47.
    pub len: u8,
}

/// Execution mode of MODE.Exec.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CodeSize {
    /// CS.L = 0, CS.D = 0.
    Bits16,
    /// CS.L = 0, CS.D = 1.
    Bits32,
    /// CS.L = 1.
    Bits64,
}

/// Payload size of the BIPs of one block (BBP.SZ).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockItemSize {
    /// SZ = 0.
    Bytes8,
    /// SZ = 1.
    Bytes4,
}

impl BlockItemSize {
    /// Payload bytes of a BIP.
    pub const fn len(self) -> usize {
        match self {
            Self::Bytes8 => 8,
            Self::Bytes4 => 4,
        }
    }
    /// Always false: a block item has a payload.
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// Bits of [`Packet::Pwrx`]'s `wake`.
pub mod wake_reason {
    /// External interrupt.
    pub const INTERRUPT: u8 = 1;
    /// Store to the monitored address.
    pub const STORE: u8 = 4;
    /// Hardware autonomous condition.
    pub const HARDWARE: u8 = 8;
}

/// One packet (SDM, section "Trace Packets and Data Types").
///
/// PSB and PSBEND delimit PSB+. `ip: true` means that a FUP with the address follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Packet {
    /// Padding.
    Pad,
    /// Packet stream boundary.
    Psb,
    /// End of PSB+.
    PsbEnd,
    /// Taken/not taken, one byte, up to 6 branches.
    TntShort(Tnt),
    /// Taken/not taken, eight bytes, up to 47 branches.
    TntLong(Tnt),
    /// Target of an indirect branch, exception, interrupt …
    Tip(IpPayload),
    /// Packet generation enabled: tracing resumes at this address.
    TipPge(IpPayload),
    /// Packet generation disabled: the target of the branch; suppressed for an asynchronous
    /// event.
    TipPgd(IpPayload),
    /// Flow update: source address of an asynchronous event, or the address that another packet
    /// refers to.
    Fup(IpPayload),
    /// MODE, leaf Exec.
    ModeExec {
        /// From CS.L and CS.D.
        size: CodeSize,
        /// RFLAGS.IF, meaningful with event trace.
        interrupt_flag: bool,
    },
    /// MODE, leaf TSX.
    ModeTsx {
        /// Inside a transaction.
        in_transaction: bool,
        /// A transaction was aborted.
        aborted: bool,
    },
    /// Lower 56 bits of the time-stamp counter.
    Tsc(u64),
    /// Common timestamp copy and fast counter (9 bits) at the preceding TSC.
    Tma {
        /// Low 16 bits of the core crystal clock counter.
        ctc: u16,
        /// TSC ticks since it last changed.
        fast_counter: u16,
    },
    /// Eight bits of the core crystal clock, selected by MTCFreq.
    Mtc(u8),
    /// Core cycles since the last CYC.
    Cyc(u64),
    /// Core:bus ratio.
    Cbr(u8),
    /// The unit's internal buffer overflowed: packets were lost.
    Ovf,
    /// CR3 written.
    Pip {
        /// CR3\[51:5\] in place (bits 4:0 and above 51 are zero).
        cr3: u64,
        /// Written in VMX non-root operation.
        non_root: bool,
    },
    /// Base address of the VMCS, bits 51:12 in place.
    Vmcs(u64),
    /// Tracing stopped at a TraceStop region.
    TraceStop,
    /// Model-specific maintenance.
    Mnt(u64),
    /// PTWRITE operand.
    Ptw {
        /// The operand.
        payload: u64,
        /// 8 bytes rather than 4.
        wide: bool,
        /// A FUP with PTWRITE's address follows.
        ip: bool,
    },
    /// Execution stopped.
    Exstop {
        /// A FUP follows.
        ip: bool,
    },
    /// MWAIT executed.
    Mwait {
        /// EAX\[7:0\].
        hints: u8,
        /// ECX\[1:0\].
        extensions: u8,
    },
    /// Power entry.
    Pwre {
        /// Initiated by hardware.
        hardware: bool,
        /// Resolved thread C-state.
        state: u8,
        /// Resolved thread sub C-state.
        substate: u8,
    },
    /// Power exit.
    Pwrx {
        /// Last core C-state.
        last: u8,
        /// Deepest core C-state.
        deepest: u8,
        /// [`wake_reason`] bits.
        wake: u8,
    },
    /// Block begin: BIPs follow.
    Bbp {
        /// Payload size of the BIPs.
        size: BlockItemSize,
        /// Type, 5 bits.
        kind: u8,
    },
    /// Block item.
    Bip {
        /// Item id, 5 bits.
        id: u8,
        /// Value, 4 or 8 bytes, the size that the BBP states.
        payload: u64,
    },
    /// Block end.
    Bep {
        /// A FUP follows.
        ip: bool,
    },
    /// Control flow event.
    Cfe {
        /// Type, 5 bits.
        kind: u8,
        /// Vector.
        vector: u8,
        /// A FUP follows.
        ip: bool,
    },
    /// Event data.
    Evd {
        /// Type, 6 bits.
        kind: u8,
        /// Data.
        payload: u64,
    },
}

impl Packet {
    /// The packet's name in the SDM.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pad => "PAD",
            Self::Psb => "PSB",
            Self::PsbEnd => "PSBEND",
            Self::TntShort(_) => "TNT-8",
            Self::TntLong(_) => "TNT-64",
            Self::Tip(_) => "TIP",
            Self::TipPge(_) => "TIP.PGE",
            Self::TipPgd(_) => "TIP.PGD",
            Self::Fup(_) => "FUP",
            Self::ModeExec { .. } => "MODE.Exec",
            Self::ModeTsx { .. } => "MODE.TSX",
            Self::Tsc(_) => "TSC",
            Self::Tma { .. } => "TMA",
            Self::Mtc(_) => "MTC",
            Self::Cyc(_) => "CYC",
            Self::Cbr(_) => "CBR",
            Self::Ovf => "OVF",
            Self::Pip { .. } => "PIP",
            Self::Vmcs(_) => "VMCS",
            Self::TraceStop => "TraceStop",
            Self::Mnt(_) => "MNT",
            Self::Ptw { .. } => "PTW",
            Self::Exstop { .. } => "EXSTOP",
            Self::Mwait { .. } => "MWAIT",
            Self::Pwre { .. } => "PWRE",
            Self::Pwrx { .. } => "PWRX",
            Self::Bbp { .. } => "BBP",
            Self::Bip { .. } => "BIP",
            Self::Bep { .. } => "BEP",
            Self::Cfe { .. } => "CFE",
            Self::Evd { .. } => "EVD",
        }
    }

    /// Whether the packet is followed by a FUP that belongs to it and is no event of its own.
    /// (The FUP of a TSX abort is an event: a TIP follows it.)
    pub const fn owns_fup(&self) -> bool {
        matches!(
            self,
            Self::ModeTsx { aborted: false, .. }
                | Self::Ptw { ip: true, .. }
                | Self::Exstop { ip: true }
                | Self::Bep { ip: true }
                | Self::Cfe { ip: true, .. }
        )
    }
}

impl fmt::Display for Tnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.len).rev().try_for_each(|i| f.write_str(if self.bits >> i & 1 == 1 { "T" } else { "N" }))
    }
}

impl fmt::Display for IpPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.compression {
            IpCompression::Suppressed => f.write_str("-"),
            c => write!(f, "{:0width$x}/{}", self.raw, c as u8, width = 2 * c.len()),
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            Self::TntShort(t) | Self::TntLong(t) => write!(f, " {t}"),
            Self::Tip(ip) | Self::TipPge(ip) | Self::TipPgd(ip) | Self::Fup(ip) => write!(f, " {ip}"),
            Self::ModeExec { size, interrupt_flag } => write!(f, " {size:?} if={interrupt_flag}"),
            Self::ModeTsx { in_transaction, aborted } => {
                write!(f, " in={in_transaction} aborted={aborted}")
            }
            Self::Tsc(v) | Self::Vmcs(v) | Self::Mnt(v) => write!(f, " {v:#x}"),
            Self::Tma { ctc, fast_counter } => write!(f, " ctc={ctc:#x} fc={fast_counter:#x}"),
            Self::Mtc(v) | Self::Cbr(v) => write!(f, " {v:#x}"),
            Self::Cyc(v) => write!(f, " {v}"),
            Self::Pip { cr3, non_root } => write!(f, " cr3={cr3:#x} nr={non_root}"),
            Self::Ptw { payload, wide, ip } => {
                write!(f, " {payload:#0w$x} ip={ip}", w = if wide { 18 } else { 10 })
            }
            Self::Exstop { ip } | Self::Bep { ip } => write!(f, " ip={ip}"),
            Self::Mwait { hints, extensions } => write!(f, " hints={hints:#x} ext={extensions:#x}"),
            Self::Pwre { hardware, state, substate } => {
                write!(f, " c{state}.{substate} hw={hardware}")
            }
            Self::Pwrx { last, deepest, wake } => {
                write!(f, " last=c{last} deepest=c{deepest} wake={wake:#x}")
            }
            Self::Bbp { size, kind } => write!(f, " type={kind} {size:?}"),
            Self::Bip { id, payload } => write!(f, " id={id} {payload:#x}"),
            Self::Cfe { kind, vector, ip } => write!(f, " type={kind} vector={vector} ip={ip}"),
            Self::Evd { kind, payload } => write!(f, " type={kind} {payload:#x}"),
            Self::Pad | Self::Psb | Self::PsbEnd | Self::Ovf | Self::TraceStop => Ok(()),
        }
    }
}
