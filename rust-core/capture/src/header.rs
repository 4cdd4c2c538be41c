// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The header: every fact about the VM, the machine and the PT unit that a decoder relies on.
//!
//! It is written when the recording starts, and again as a whole when more is known (for
//! example the bounds of the code cache). The last header in the file is the valid one. Later
//! versions append fields and never move them.

use crate::codec::{Appended, CodecError, Source, Str, Wire};
use crate::schema::{FieldSchema, StructSchema};

macro_rules! wire_struct {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $f:ident : $t:ty),* $(,)? }) => {
        impl $name {
            const SCHEMA: StructSchema = StructSchema {
                name: stringify!($name),
                kind: None,
                doc: &[],
                fields: &[$(FieldSchema { name: stringify!($f), ty: stringify!($t), doc: &[] }),*],
            };
        }
        $(#[$m])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        impl Wire for $name {
            fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
                Ok(Self { $($f: Wire::decode(from)?),* })
            }
            fn encode(&self, to: &mut Vec<u8>) {
                $(self.$f.encode(to);)*
            }
        }
    };
}

/// Values of [`PtConfig::source`].
pub mod sources {
    /// No PT: metadata only.
    pub const NONE: u8 = 0;
    /// `intel_pt` through `perf_event_open`.
    pub const PERF: u8 = 1;
    /// The emulated PT unit.
    pub const EMULATED: u8 = 2;
    /// No PT, but the thread switches of each core, from the kernel's software events.
    pub const SIDEBAND: u8 = 3;
}
/// Bits of [`PtConfig::packets`].
pub mod packet_flags {
    /// TSC packets.
    pub const TSC: u8 = 1;
    /// MTC packets.
    pub const MTC: u8 = 2;
    /// CYC packets.
    pub const CYC: u8 = 4;
    /// Return compression is on: a near return to the predicted address is a TNT bit.
    pub const RETURN_COMPRESSION: u8 = 8;
}
/// Values of [`PtConfig::return_pop`]: what a near return that is *not* compressed does to
/// the return stack. Meaningful with return compression only.
pub mod return_pops {
    /// Every near return pops (Intel SDM vol. 3, "RET Compression"; perf's decoder).
    pub const ALWAYS: u8 = 0;
    /// Only a compressed return pops (libipt's decoder).
    pub const COMPRESSED_ONLY: u8 = 1;
}

wire_struct! {
    /// How TSC values become the nanoseconds of perf's records (`perf_event_mmap_page`):
    /// `ns = zero + (tsc >> shift) * mult + (((tsc & ((1 << shift) - 1)) * mult) >> shift)`,
    /// wrapping.
    TimeConversion {
        /// 1 when the kernel vouches for it (`cap_user_time_zero`); otherwise unusable.
        valid: u8,
        /// `time_shift`.
        shift: u16,
        /// `time_mult`.
        mult: u32,
        /// `time_zero`.
        zero: u64,
    }
}
wire_struct! {
    /// A half-open range of traced addresses.
    FilterRange {
        /// First address inside.
        low: u64,
        /// First address after the range.
        high: u64,
    }
}
wire_struct! {
    /// How the PT unit was set up.
    PtConfig {
        /// One of [`sources`].
        source: u8,
        /// Number of cores with a stream of their own.
        cores: u32,
        /// Bits of [`packet_flags`].
        packets: u8,
        /// One of [`return_pops`].
        return_pop: u8,
        /// MTC packets every `2^mtc_period` crystal ticks.
        mtc_period: u8,
        /// CYC threshold as programmed (0 = every one).
        cyc_threshold: u8,
        /// PSB about every `2^(psb_period + 11)` bytes.
        psb_period: u8,
        /// Ratio of TSC to crystal frequency: numerator (CPUID.15H:EBX), 0 unknown.
        tsc_ctc_numerator: u32,
        /// Ratio of TSC to crystal frequency: denominator (CPUID.15H:EAX), 0 unknown.
        tsc_ctc_denominator: u32,
        /// Nominal frequency in units of 100 MHz (`max_nonturbo_ratio`), 0 unknown.
        nominal_ratio: u8,
        /// `perf_event_attr.config` as opened; for the emulated unit, the value that it would
        /// have.
        perf_config: u64,
        /// `perf_event_attr.sample_type` of the sideband's `sample_id` trailer.
        sample_type: u64,
        /// AUX buffer per core in bytes.
        aux_bytes: u64,
        /// Filtered ranges; empty when nothing is filtered out.
        filter: Vec<FilterRange>,
        /// Source-specific settings in words (the emulated unit: its arguments and seed).
        detail: Str,
    }
}
wire_struct! {
    /// The header chunk's payload.
    Header {
        /// Process id of the traced VM.
        pid: u32,
        /// TSC when the recording began.
        start_tsc: u64,
        /// Wall clock at that moment, nanoseconds since 1970 UTC.
        start_unix_ns: u64,
        /// TSC frequency in kHz, 0 unknown.
        tsc_khz: u64,
        /// `VM_Version::internal_vm_info_string` or the like.
        vm_version: Str,
        /// Non-default flags, `-XX:` form, separated by blanks.
        vm_flags: Str,
        /// Java command (`sun.java.command`), may be empty.
        java_command: Str,
        /// Operating system and kernel release.
        os: Str,
        /// CPUID vendor string.
        cpu_vendor: Str,
        /// Display family.
        cpu_family: u16,
        /// Display model.
        cpu_model: u16,
        /// Stepping.
        cpu_stepping: u16,
        /// TSC to perf time.
        time: TimeConversion,
        /// Code cache: lowest address (0 not known yet).
        code_cache_low: u64,
        /// Code cache: first address after the reservation (0 not known yet).
        code_cache_high: u64,
        /// The PT unit.
        pt: PtConfig,
        /// Path of the file that holds the export ring while the VM lives
        /// ([`crate::ring_file`]); empty: there is none.
        ring: Appended<Str>,
        /// Offset in the metadata stream of its first byte in this file: the length of what a
        /// flight recorder left out. [`crate::CaptureWriter`] sets it.
        metadata_from: Appended<u64>,
    }
}

/// The schema of the header and its parts; each structure follows its parts. `doc` is empty:
/// the descriptions of the fields are in `FORMAT.md` only.
pub const SCHEMA: &[StructSchema] =
    &[TimeConversion::SCHEMA, FilterRange::SCHEMA, PtConfig::SCHEMA, Header::SCHEMA];

impl TimeConversion {
    /// The time of `tsc` on perf's clock in nanoseconds; `None` when the conversion is not
    /// valid.
    pub fn tsc_to_ns(&self, tsc: u64) -> Option<u64> {
        if self.valid == 0 || self.shift >= 64 {
            return None;
        }
        let mult = u64::from(self.mult);
        let rest = tsc & ((1u64 << self.shift) - 1);
        let whole = (tsc >> self.shift).wrapping_mul(mult);
        let part = rest.wrapping_mul(mult) >> self.shift;
        Some(self.zero.wrapping_add(whole).wrapping_add(part))
    }
    /// The TSC at `ns` of perf's clock; `None` when the conversion is not valid.
    pub fn ns_to_tsc(&self, ns: u64) -> Option<u64> {
        if self.valid == 0 || self.shift >= 64 || self.mult == 0 {
            return None;
        }
        let mult = u64::from(self.mult);
        let t = ns.wrapping_sub(self.zero);
        let part = (t % mult).wrapping_shl(u32::from(self.shift)) / mult;
        Some((t / mult).wrapping_shl(u32::from(self.shift)).wrapping_add(part))
    }
}

impl PtConfig {
    /// Whether a bit of [`packet_flags`] is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.packets & flag != 0
    }
    /// The source's name: `none`, `perf`, `emulated`, `sideband`.
    pub const fn source_name(&self) -> &'static str {
        match self.source {
            sources::NONE => "none",
            sources::PERF => "perf",
            sources::EMULATED => "emulated",
            sources::SIDEBAND => "sideband",
            _ => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_there_and_back() {
        let t = TimeConversion { valid: 1, shift: 31, mult: 0x2fa0_0000, zero: 77_000 };
        for tsc in [0, 1 << 31, 123_456_789_012] {
            let ns = t.tsc_to_ns(tsc).unwrap();
            let back = t.ns_to_tsc(ns).unwrap();
            assert!(back.abs_diff(tsc) <= 3, "{tsc} {back}");
        }
        assert_eq!(TimeConversion::default().tsc_to_ns(1), None);
    }

    #[test]
    fn a_longer_header_of_a_later_version_is_accepted() {
        let h = Header { pid: 7, vm_version: "17".into(), ..Header::default() };
        let mut bytes = Vec::new();
        h.encode(&mut bytes);
        bytes.extend_from_slice(b"later");
        assert_eq!(Header::decode(&mut Source::new(&bytes)).unwrap(), h);
    }
}
