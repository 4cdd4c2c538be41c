// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Gaps of a flow, and why they are there.

use jportal_units::{Core, StreamOffset, Tsc};

/// Why a part of the flow is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GapReason {
    /// The kernel or the emulated unit had no room (`PERF_AUX_FLAG_TRUNCATED`).
    Truncated,
    /// The PT unit overflowed (OVF).
    Overflow,
    /// Records that say which thread ran where were lost (`PERF_RECORD_LOST`): the thread may
    /// have run during that time.
    Sideband,
    /// Trace before the first PSB of its core, which cannot be decoded.
    BeforePsb,
    /// Trace that nobody asked for and that was not decoded.
    LeftOut,
    /// The packets are damaged, or packets and machine code contradict each other. The text names
    /// the place.
    MachineFlow(MachineFault, String),
    /// Machine flow and bytecode contradict each other, or the position is unknown. The text
    /// names the place.
    Reconstruct(FlowFault, String),
}

macro_rules! faults {
    ($(#[$doc:meta])* $type:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$each])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// A short stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

faults! {
    /// How packets are damaged, or contradict the machine code.
    MachineFault {
        /// The bytes are no packets.
        Packet = "packet",
        /// A packet that the code cannot cause, or that cannot come in the unit's state.
        Unexpected = "unexpected-packet",
        /// No code is known where the flow leads, or its bytes are no instruction.
        NoCode = "no-code",
        /// The packets lead elsewhere than the code.
        WrongAddress = "wrong-address",
        /// A return without its call, or to another caller.
        Return = "return",
        /// The code loops and no packet ends it.
        Circle = "circle",
        /// Anything else.
        Other = "other",
    }
}

faults! {
    /// How machine flow and bytecode contradict each other.
    FlowFault {
        /// A bytecode is dispatched while the top frame is not interpreted.
        DispatchWithoutFrame = "dispatch-without-frame",
        /// Another bytecode is dispatched than the method has there.
        WrongBytecode = "wrong-bytecode",
        /// The method has no bytecode there.
        NoBytecode = "no-bytecode",
        /// The outcome of a branch, switch, `ret` or exception was not seen.
        NoOutcome = "no-outcome",
        /// The outcome names no target.
        BadOutcome = "bad-outcome",
        /// Control returns to a kind of frame that is not on the stack.
        NoSuchFrame = "no-such-frame",
        /// Control is in compiled code of which no activation is on the stack.
        NotOnStack = "not-on-stack",
        /// A method entry stub that the VM did not describe.
        UnknownStub = "unknown-stub",
        /// A frame of a method that the VM did not describe.
        UnknownMethod = "unknown-method",
        /// The metadata of compiled code is damaged.
        Flawed = "flawed",
        /// The recording ends before the VM recorded where its calls of Java code return.
        NoCallStub = "no-call-stub",
        /// Filled events do not lead to the events that follow.
        Fill = "fill",
    }
}

impl GapReason {
    /// A short stable name, one per variant.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Overflow => "overflow",
            Self::Sideband => "sideband",
            Self::BeforePsb => "packets",
            Self::LeftOut => "left-out",
            Self::MachineFlow(..) => "machine-flow",
            Self::Reconstruct(..) => "reconstruct",
        }
    }
    /// The name of the fault, if the reason is one.
    pub const fn fault(&self) -> Option<&'static str> {
        match self {
            Self::MachineFlow(fault, _) => Some(fault.name()),
            Self::Reconstruct(fault, _) => Some(fault.name()),
            Self::Truncated | Self::Overflow | Self::Sideband | Self::BeforePsb | Self::LeftOut => None,
        }
    }
    /// The text that belongs to the reason, if it has one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::MachineFlow(_, s) | Self::Reconstruct(_, s) => Some(s),
            Self::BeforePsb => Some("trace before the first PSB"),
            Self::Truncated | Self::Overflow | Self::Sideband | Self::LeftOut => None,
        }
    }
    /// Whether trace was lost while recording. Otherwise it was recorded, and cannot be decoded or
    /// was left out.
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::Truncated | Self::Overflow | Self::Sideband)
    }
    /// The reason with this [name](Self::name), [fault](Self::fault) and [detail](Self::detail).
    pub fn named(name: &str, fault: &str, detail: String) -> Option<Self> {
        Some(match name {
            "truncated" => Self::Truncated,
            "overflow" => Self::Overflow,
            "sideband" => Self::Sideband,
            "packets" => Self::BeforePsb,
            "left-out" => Self::LeftOut,
            "machine-flow" => {
                Self::MachineFlow(*MachineFault::ALL.iter().find(|f| f.name() == fault)?, detail)
            }
            "reconstruct" => Self::Reconstruct(*FlowFault::ALL.iter().find(|f| f.name() == fault)?, detail),
            _ => return None,
        })
    }
}

/// A part of a thread's execution about which the flow says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The reason.
    pub reason: GapReason,
    /// Core on which the gap began.
    pub core: Core,
    /// Offset in that core's PT stream.
    pub offset: StreamOffset,
    /// Machine address that the decoder had reached, if any.
    pub address: Option<u64>,
    /// Last known time before the gap.
    pub since: Option<Tsc>,
    /// First known time after the gap.
    pub until: Option<Tsc>,
    /// Bytes of trace that were lost, if known.
    pub bytes: Option<u64>,
    /// Whether the frames below may be wrong after the gap (the shadow stack was dropped).
    pub stack_lost: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_its_name_fault_and_detail() {
        let text = || "why".to_owned();
        use GapReason::{BeforePsb, LeftOut, Overflow, Sideband, Truncated};
        let mut all = vec![Truncated, Overflow, Sideband, BeforePsb, LeftOut];
        all.extend(MachineFault::ALL.iter().map(|f| GapReason::MachineFlow(*f, text())));
        all.extend(FlowFault::ALL.iter().map(|f| GapReason::Reconstruct(*f, text())));
        for reason in all {
            let detail = reason.detail().unwrap_or_default().to_owned();
            let again = GapReason::named(reason.name(), reason.fault().unwrap_or_default(), detail);
            assert_eq!(again, Some(reason));
        }
        assert_eq!(GapReason::named("other", "", String::new()), None);
        assert_eq!(GapReason::named("reconstruct", "other", String::new()), None);
    }
}
