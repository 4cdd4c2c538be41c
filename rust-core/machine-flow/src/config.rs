// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The unit's configuration, and how far its clocks can be trusted.

use jportal_units::{StreamOffset, Tid, Tsc};

/// Which returns remove an entry from the decoder's return stack when returns are compressed.
///
/// Decoders disagree about an uncompressed return: libipt keeps the entry; the SDM's procedure
/// and perf remove it. So the rule can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PopRule {
    /// Every near return.
    Always,
    /// Compressed returns only.
    Compressed,
}

/// The clocks on which MTC and TMA packets are based (CPUID leaf 15H, IA32_RTIT_CTL.MTCFreq).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MtcConfig {
    /// IA32_RTIT_CTL.MTCFreq: an MTC carries CTC\[freq+7:freq\].
    pub frequency: u8,
    /// CPUID.15H:EBX, numerator of TSC ticks per core crystal clock tick.
    pub numerator: u32,
    /// CPUID.15H:EAX, denominator.
    pub denominator: u32,
}

/// How far a change's timestamp and a trace's clock may disagree, in TSC ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack {
    /// If it is unknown when the store of a change began, the change may have been visible this
    /// long before the time of its record. (The store precedes the reading of the clock; the
    /// thread may lose its core in between.)
    pub before: u64,
    /// Old bytes may have run until this long after the time of the record.
    pub after: u64,
}

impl Default for Slack {
    /// 250,000 ticks before and 50,000 ticks after: about 100 µs and 20 µs.
    fn default() -> Self {
        Self { before: 250_000, after: 50_000 }
    }
}

/// Configuration of a [`crate::CoreDecoder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// `None` if the unit ran with DisRETC (the recorder's default).
    pub return_compression: Option<PopRule>,
    /// Whether the unit may send a TIP after TNT outcomes that are younger than it (SDM,
    /// "Deferred TIPs"). With `false`, fewer traces are possible.
    pub deferred_tips: bool,
    /// `None` if MTC is off or its clocks are unknown.
    pub mtc: Option<MtcConfig>,
    /// Ratio at which the TSC counts (MSR_PLATFORM_INFO\[15:8\]). With it, CYC packets give the
    /// time.
    pub nominal_ratio: Option<u8>,
    /// Whether to keep a [`crate::Decision`] for each code change that this core was found to
    /// see.
    pub record_decisions: bool,
    /// Tolerance between the times of changes and of the trace.
    pub slack: Slack,
    /// Whether to follow each branch by itself. With `false`, the decoder keeps where the outcomes
    /// of a packet lead from a block. The flow is the same.
    pub step_by_step: bool,
}

impl Default for Config {
    /// No return compression, deferred TIPs possible, time from TSC packets only.
    fn default() -> Self {
        Self {
            return_compression: None,
            deferred_tips: true,
            mtc: None,
            nominal_ratio: None,
            record_decisions: false,
            slack: Slack::default(),
            step_by_step: false,
        }
    }
}

/// The part of the trace that [`crate::CoreDecoder::decode`] decodes, and the bounds of its time
/// from the sideband.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Packets below this offset belong to the stretch; usually the end of an AUX record.
    pub until: StreamOffset,
    /// Nothing in the stretch happened before this time (the previous AUX record, or the thread's
    /// switch to the core); 0 if unknown.
    pub since: Tsc,
    /// Nothing in the stretch happened after this time (of its AUX record); `u64::MAX` if
    /// unknown.
    pub latest: Tsc,
    /// The OS thread that ran; `Tid(0)` if unknown.
    pub tid: Tid,
    /// When that thread was last seen on any core before its turn on this one began; 0 if
    /// unknown.
    pub left: Tsc,
    /// Whether the trace after `until` belongs to the same thread. If so, the last items may be
    /// held back until the packets after them confirm them.
    pub continues: bool,
}

/// Result of [`crate::CoreDecoder::decode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// `out` is full enough: take the items and call again with the same stretch.
    More,
    /// The stretch is decoded.
    Done,
}
