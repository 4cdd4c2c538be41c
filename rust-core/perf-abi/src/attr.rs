// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The attributes of a recording's events: PT itself and, on each core, a software event that
//! keeps the sideband alive while PT is off.

use crate::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE, perf_event_attr};
use crate::layout::{ATTR_SIZE, SAMPLE_TYPE};

/// `CLOCK_MONOTONIC_RAW`: a clock that PT events may use (`perf_event_set_clock` requires one
/// that is safe in an NMI) and that can be read next to the TSC.
const RAW_CLOCK: i32 = 4;

/// The attributes that all events of a recording have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// Whether only threads inherit the events, not forked children (`inherit_thread`, Linux
    /// 5.13).
    pub threads_only: bool,
    /// Whether times are in `CLOCK_MONOTONIC_RAW` instead of perf's own clock. For kernels that
    /// do not state how perf's own clock relates to the TSC.
    pub raw_clock: bool,
}

/// Attributes of every event: user mode only, this thread and those it creates, disabled until
/// `PERF_EVENT_IOC_ENABLE`.
fn base(common: Common) -> perf_event_attr {
    let mut attr = perf_event_attr { size: ATTR_SIZE, sample_type: SAMPLE_TYPE, ..Default::default() };
    attr.sample_period = 1;
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_inherit_thread(common.threads_only.into());
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_sample_id_all(1);
    if common.raw_clock {
        attr.set_use_clockid(1);
        attr.clockid = RAW_CLOCK;
    }
    attr
}

/// An Intel PT event of PMU type `kind`. The watermark also bounds the size of the ToPA's
/// regions (`rb_alloc_aux`): small regions waste less of a full buffer.
pub fn pt(kind: u32, config: u64, aux_bytes: u64, common: Common) -> perf_event_attr {
    let mut attr = base(common);
    attr.type_ = kind;
    attr.config = config;
    attr.aux_watermark = u32::try_from(aux_bytes / 4).unwrap_or(u32::MAX);
    attr
}

/// A sideband event: it records who ran when, threads and processes that begin and end, and
/// executable mappings. Without an event that asks for mappings, filters on files do not follow
/// them (`perf_event_mmap`).
pub fn sideband(data_bytes: u64, common: Common) -> perf_event_attr {
    let mut attr = base(common);
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY.into();
    attr.set_context_switch(1);
    attr.set_comm(1);
    attr.set_task(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_watermark(1);
    attr.wakeup_watermark = u32::try_from(data_bytes / 2).unwrap_or(u32::MAX);
    attr
}

/// An event of this thread alone that records nothing. It serves to read its control page and
/// to test whether events may be opened.
pub fn probe() -> perf_event_attr {
    let mut attr = base(Common { threads_only: false, raw_clock: false });
    attr.set_inherit(0);
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY.into();
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word of flags as the kernel reads it.
    fn flags(attr: &perf_event_attr) -> u64 {
        attr._bitfield_1.get(0, 64)
    }

    const COMMON: Common = Common { threads_only: true, raw_clock: false };

    /// `disabled`, `inherit`, `exclude_kernel`, `exclude_hv`, `sample_id_all`, `inherit_thread`
    /// of `perf_event.h`.
    const BASE: u64 = 1 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 18 | 1 << 35;

    #[test]
    fn pt_has_the_bits_of_the_kernels_header() {
        let attr = pt(8, 0x2c01, 256 << 10, COMMON);
        assert_eq!((attr.type_, attr.size, attr.config, attr.aux_watermark), (8, 112, 0x2c01, 64 << 10));
        assert_eq!((flags(&attr), attr.sample_type), (BASE, 0x10087));
        let older = pt(8, 0, 0, Common { threads_only: false, raw_clock: true });
        assert_eq!((flags(&older), older.clockid), (BASE & !(1 << 35) | 1 << 25, 4));
    }

    #[test]
    fn the_sideband_says_who_ran() {
        let attr = sideband(64 << 10, COMMON);
        assert_eq!((attr.type_, attr.config), (1, 9));
        // mmap, comm, task, watermark, mmap2, context_switch.
        assert_eq!(flags(&attr), BASE | 1 << 8 | 1 << 9 | 1 << 13 | 1 << 14 | 1 << 23 | 1 << 26);
        assert_eq!(flags(&probe()), BASE & !(1 << 1) & !(1 << 35), "not inherited");
    }
}
