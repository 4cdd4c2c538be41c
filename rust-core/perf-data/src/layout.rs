// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The constants of the perf.data format (`tools/perf/Documentation/perf.data-file-format.txt`
//! and `include/uapi/linux/perf_event.h` of the kernel's sources).

/// `PERFILE2`.
pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
/// The same, written by a machine of the other byte order.
pub(crate) const MAGIC_SWAPPED: [u8; 8] = *b"2ELIFREP";
/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: u64 = 104;
/// Size of the header of a file that was written to a pipe.
pub(crate) const PIPE_HEADER_BYTES: u64 = 16;
/// Size of `perf_event_attr` as it is written here: up to `aux_watermark` and the field that
/// shares its word.
pub(crate) const ATTR_BYTES: u32 = 112;

/// Bit of the feature `HEADER_AUXTRACE`.
pub(crate) const FEATURE_AUXTRACE: u64 = 1 << 18;

/// `PERF_RECORD_AUXTRACE_INFO`.
pub(crate) const AUXTRACE_INFO: u32 = 70;
/// `PERF_RECORD_AUXTRACE`.
pub(crate) const AUXTRACE: u32 = 71;
/// `PERF_RECORD_FINISHED_ROUND`.
pub(crate) const FINISHED_ROUND: u32 = 68;
/// `PERF_RECORD_COMPRESSED`.
pub(crate) const COMPRESSED: u32 = 81;
/// `PERF_RECORD_COMPRESSED2`.
pub(crate) const COMPRESSED2: u32 = 83;
/// First type of record that the kernel never writes (`PERF_RECORD_USER_TYPE_START`).
pub(crate) const FIRST_OF_PERF: u32 = 64;
/// Bytes of an AUXTRACE record without its trace.
pub(crate) const AUXTRACE_BYTES: u64 = 48;
/// `PERF_AUXTRACE_INTEL_PT`.
pub(crate) const INTEL_PT: u32 = 1;

/// Bits of `perf_event_attr.config` (format files of the PMU).
pub(crate) mod config {
    /// `pt`.
    pub const PT: u64 = 1;
    /// `cyc`.
    pub const CYC: u64 = 1 << 1;
    /// `mtc`.
    pub const MTC: u64 = 1 << 9;
    /// `tsc`.
    pub const TSC: u64 = 1 << 10;
    /// `noretcomp`.
    pub const NO_RETURN_COMPRESSION: u64 = 1 << 11;
    /// `branch`.
    pub const BRANCH: u64 = 1 << 13;
    /// `mtc_period`.
    pub const MTC_PERIOD: (u32, u64) = (14, 0xf);
    /// `cyc_thresh`.
    pub const CYC_THRESHOLD: (u32, u64) = (19, 0xf);
    /// `psb_period`.
    pub const PSB_PERIOD: (u32, u64) = (24, 0xf);
}

/// Flag bits of `perf_event_attr`.
pub(crate) mod flags {
    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const TASK: u64 = 1 << 13;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const MMAP2: u64 = 1 << 23;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
}

/// Indices of the words of AUXTRACE_INFO for Intel PT.
pub(crate) mod info {
    /// Type of the PMU.
    pub const PMU_TYPE: usize = 0;
    pub const TIME_SHIFT: usize = 1;
    pub const TIME_MULT: usize = 2;
    pub const TIME_ZERO: usize = 3;
    /// `cap_user_time_zero`.
    pub const CAP: usize = 4;
    /// Nonzero in snapshot mode.
    pub const SNAPSHOT: usize = 8;
    /// Nonzero if there is a ring per core.
    pub const PER_CPU: usize = 9;
    /// CPUID.15H:EBX.
    pub const RATIO_NUMERATOR: usize = 12;
    /// CPUID.15H:EAX.
    pub const RATIO_DENOMINATOR: usize = 13;
    /// `max_nonturbo_ratio`.
    pub const NON_TURBO_RATIO: usize = 15;
    /// Length of the filter that follows.
    pub const FILTER_BYTES: usize = 16;
}
