//! The time base: the host's time-stamp counter, which guest code reads too.
//!
//! Under QEMU's user mode the guest's `rdtsc` returns the host's TSC, so records of the VM and
//! packets of the emulated unit share one clock. The guest's CPUID lacks leaf 15H; the unit states
//! its own ratio of TSC to core crystal clock.

use std::time::{Duration, Instant};

/// TSC ticks per tick of the emulated core crystal clock, as a power of two.
pub const CTC_SHIFT: u32 = 7;

/// The TSC now.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Measures the TSC's frequency against the monotonic clock, in kHz.
pub fn measure_tsc_khz() -> u64 {
    let (t0, c0) = (Instant::now(), tsc());
    std::thread::sleep(Duration::from_millis(20));
    let (elapsed, ticks) = (t0.elapsed(), tsc().wrapping_sub(c0));
    (u128::from(ticks) * 1_000_000 / elapsed.as_nanos().max(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_is_plausible() {
        let khz = measure_tsc_khz();
        assert!((500_000..10_000_000).contains(&khz), "{khz} kHz");
    }
}
