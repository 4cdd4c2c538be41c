// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Static checks of the layout of [`crate::bindings`] against the offsets of the kernel's ABI
//! (`include/uapi/linux/perf_event.h`), and the constants that follow from them.

use crate::bindings::{perf_event_attr, perf_event_header, perf_event_mmap_page};
use core::mem::{offset_of, size_of};

/// Size of the control page, which the data ring follows.
pub const PAGE_SIZE: usize = 4096;
/// `sample_type` of every event that this project opens or emulates: IP | TID | TIME | CPU |
/// IDENTIFIER.
pub const SAMPLE_TYPE: u64 = (crate::bindings::PERF_SAMPLE_IP
    | crate::bindings::PERF_SAMPLE_TID
    | crate::bindings::PERF_SAMPLE_TIME
    | crate::bindings::PERF_SAMPLE_CPU
    | crate::bindings::PERF_SAMPLE_IDENTIFIER) as u64;

/// `PERF_ATTR_SIZE_VER5`: the size of the part of `perf_event_attr` that is filled in. A kernel
/// that knows a smaller structure may refuse a larger one. A kernel that knows a larger
/// structure takes the rest for 0.
pub const ATTR_SIZE: u32 = offset_of!(perf_event_attr, aux_sample_size) as u32;

pub(crate) const VERSION: usize = offset_of!(perf_event_mmap_page, version);
pub(crate) const LOCK: usize = offset_of!(perf_event_mmap_page, lock);
pub(crate) const CAPABILITIES: usize = LOCK + 32;
pub(crate) const TIME_SHIFT: usize = offset_of!(perf_event_mmap_page, time_shift);
pub(crate) const TIME_MULT: usize = offset_of!(perf_event_mmap_page, time_mult);
pub(crate) const TIME_ZERO: usize = offset_of!(perf_event_mmap_page, time_zero);
pub(crate) const SIZE: usize = offset_of!(perf_event_mmap_page, size);
pub(crate) const DATA_HEAD: usize = offset_of!(perf_event_mmap_page, data_head);
pub(crate) const DATA_TAIL: usize = offset_of!(perf_event_mmap_page, data_tail);
pub(crate) const DATA_OFFSET: usize = offset_of!(perf_event_mmap_page, data_offset);
pub(crate) const DATA_SIZE: usize = offset_of!(perf_event_mmap_page, data_size);
pub(crate) const AUX_HEAD: usize = offset_of!(perf_event_mmap_page, aux_head);
pub(crate) const AUX_TAIL: usize = offset_of!(perf_event_mmap_page, aux_tail);
pub(crate) const AUX_OFFSET: usize = offset_of!(perf_event_mmap_page, aux_offset);
pub(crate) const AUX_SIZE: usize = offset_of!(perf_event_mmap_page, aux_size);

const _: () = {
    assert!(SAMPLE_TYPE == 0x10087);
    assert!(size_of::<perf_event_header>() == 8);
    assert!(offset_of!(perf_event_header, misc) == 4 && offset_of!(perf_event_header, size) == 6);
    assert!(ATTR_SIZE == 112);
    assert!(LOCK == 8 && CAPABILITIES == 40);
    assert!(TIME_SHIFT == 50 && TIME_MULT == 52 && TIME_ZERO == 64);
    assert!(VERSION == 0 && SIZE == 72);
    assert!(DATA_HEAD == 1024 && DATA_TAIL == 1032 && DATA_OFFSET == 1040 && DATA_SIZE == 1048);
    assert!(AUX_HEAD == 1056 && AUX_TAIL == 1064 && AUX_OFFSET == 1072 && AUX_SIZE == 1080);
    assert!(size_of::<perf_event_mmap_page>() <= PAGE_SIZE);
};
