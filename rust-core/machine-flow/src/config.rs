// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How the unit was configured, and how far clocks may be trusted.

use jportal_units::{StreamOffset, Tid, Tsc};

/// Which returns take an entry off the decoder's return stack when returns are compressed.
///
/// Decoders disagree about an uncompressed return (libipt keeps the entry, the SDM's recipe and
/// perf take it), so the rule can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PopRule {
    /// Every near return.
    Always,
    /// Only compressed ones.
    Compressed,
}

/// The clocks behind MTC and TMA packets (CPUID leaf 15H, IA32_RTIT_CTL.MTCFreq).
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
    /// A change of which it is not known when its store began may have been visible this long before its record's time (the store
    /// comes first, the clock is read later; the thread may lose its core in between).
    pub before: u64,
    /// Old bytes may have run this long after.
    pub after: u64,
}

impl Default for Slack {
    /// A quarter of a million ticks before, fifty thousand after: about 100 µs and 20 µs.
    fn default() -> Self {
        Self { before: 250_000, after: 50_000 }
    }
}

/// Configuration of a [`crate::CoreDecoder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// `None` when the unit ran with DisRETC (the recorder's default).
    pub return_compression: Option<PopRule>,
    /// Whether the unit may send a TIP behind TNT outcomes that are younger than it (SDM,
    /// "Deferred TIPs"). If it never does, say so: fewer traces look possible then.
    pub deferred_tips: bool,
    /// `None` when MTC is off or its clocks are unknown.
    pub mtc: Option<MtcConfig>,
    /// Ratio at which the TSC counts (MSR_PLATFORM_INFO\[15:8\]); with it CYC packets give time.
    pub nominal_ratio: Option<u8>,
    /// Keep a [`crate::Decision`] for each code change this core came to see.
    pub record_decisions: bool,
    /// Clock tolerance.
    pub slack: Slack,
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
        }
    }
}

/// What [`crate::CoreDecoder::decode`] is to decode, with what sideband records know of its
/// time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Packets below this place; usually the end of an AUX record.
    pub until: StreamOffset,
    /// Nothing in it happened before (the previous AUX record, or the thread's switch to the
    /// core); 0 if unknown.
    pub since: Tsc,
    /// Nothing in it happened after (the AUX record's own time); `u64::MAX` if unknown.
    pub latest: Tsc,
    /// The OS thread that ran; `Tid(0)` if unknown.
    pub tid: Tid,
    /// When that thread was last seen on a core before its turn on this one began; 0 if unknown.
    pub left: Tsc,
    /// Whether the trace behind `until` belongs to the same thread: then the last items may be
    /// held back until the packets behind them have confirmed them.
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
