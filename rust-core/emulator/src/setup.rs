// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Creates the shared file, and classifies Linux system calls.

use jportal_perf_abi::emulated::{Cpu, EmulatedUnit, Mode, PacketConfig, ReturnPop, UnitConfig};

use crate::clock::CTC_SHIFT;
use crate::config::{Config, OnFull, Pop, Timing};
use crate::error::Error;

/// The processor the unit claims to be: family 6, model 9EH (Coffee Lake), which has IP
/// filters, MTC and CYC.
const CPU: Cpu = Cpu { family: 6, model: 0x9e, stepping: 10 };

/// Creates the rings and writes the configuration to the header of the shared file.
pub fn create_shared(config: &Config, tsc_khz: u64) -> Result<EmulatedUnit, Error> {
    let unit = UnitConfig {
        cores: config.cores,
        data_bytes: config.data,
        aux_bytes: config.aux,
        tsc_khz,
        tsc_ctc: (1 << CTC_SHIFT, 1),
        packets: PacketConfig {
            ret_compression: config.return_compression,
            mtc_period: (config.timing != Timing::Tsc).then_some(config.mtc_freq),
            cyc_threshold: (config.timing == Timing::Cyc).then_some(0),
            psb_period: config.psb.trailing_zeros().saturating_sub(11) as u8,
            return_pop: match config.pop {
                Pop::Always => ReturnPop::Always,
                Pop::Compressed => ReturnPop::CompressedOnly,
            },
        },
        mode: match config.mode {
            OnFull::Stall => Mode::Stall,
            OnFull::Drop => Mode::Drop,
        },
        cpu: CPU,
    };
    Ok(EmulatedUnit::create(&config.shm, unit)?)
}

/// The ratio of the TSC to a bus clock of 100 MHz.
pub fn bus_ratio(tsc_khz: u64) -> u8 {
    u8::try_from((tsc_khz + 50_000) / 100_000).unwrap_or(u8::MAX).max(1)
}

/// Whether a system call may put its thread to sleep, so that the kernel would run another one.
pub fn may_block(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_pread64
            | libc::SYS_readv
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_pause
            | libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_futex
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_sched_yield
            | libc::SYS_exit
    )
}
