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

/// QEMU's translation of guest code by the calling thread.
///
/// QEMU tells of it in the middle: behind the decoding of the instructions, before it makes host code of them.
pub mod translation {
    use std::cell::Cell;

    use super::tsc;

    /// What comes before QEMU tells takes this many tenths of what comes behind (H2, 76,000 translations).
    const BEFORE: u64 = 7;

    #[derive(Clone, Copy, Debug)]
    struct State {
        /// TSC at which QEMU told of one.
        told: u64,
        /// TSC at which the latest one had ended.
        ended: u64,
        /// Ticks that all of them took.
        sum: u64,
    }

    thread_local! {
        static STATE: Cell<State> = const { Cell::new(State { told: 0, ended: 0, sum: 0 }) };
    }

    /// QEMU tells of a translation.
    pub fn told() {
        STATE.set(State { told: tsc(), ..STATE.get() });
    }

    /// The block that was translated begins.
    pub fn ends() {
        let now = tsc();
        let State { told, ended, sum } = STATE.get();
        let behind = now.saturating_sub(told);
        let began = told.saturating_sub(behind * BEFORE / 10).max(ended);
        STATE.set(State { told, ended: now, sum: sum + now.saturating_sub(began) });
    }

    /// Ticks that the calling thread's translations have taken.
    pub fn so_far() -> u64 {
        STATE.get().sum
    }
}

/// How long a thread has not had a processor of the host for the guest's code, in TSC ticks from some moment on. A processor of the
/// guest would not translate code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absence {
    khz: u64,
    /// Ticks that had passed, less those that the thread had had, at that moment.
    base: u64,
}

impl Absence {
    /// With a TSC of so many kHz; 0: nobody is ever absent.
    pub const fn new(khz: u64) -> Absence {
        Absence { khz, base: 0 }
    }

    /// Counts from now on, for the calling thread.
    pub fn begin(&mut self) {
        self.base = tsc().saturating_sub(self.had());
    }

    /// The calling thread's since then.
    pub fn so_far(&self) -> u64 {
        if self.khz == 0 { 0 } else { tsc().saturating_sub(self.had()).saturating_sub(self.base) }
    }

    /// Ticks on a processor that the calling thread has had for the guest's code.
    fn had(&self) -> u64 {
        if self.khz == 0 {
            return 0;
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes `time` and nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        let ns = time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128;
        let ticks = (ns * u128::from(self.khz) / 1_000_000) as u64;
        ticks.saturating_sub(translation::so_far())
    }
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
    fn who_sleeps_is_absent() {
        let khz = measure_tsc_khz();
        let ms = |ticks: u64| ticks / khz;
        let mut absence = Absence::new(khz);
        absence.begin();
        std::thread::sleep(Duration::from_millis(30));
        let slept = ms(absence.so_far());
        assert!((29..1000).contains(&slept), "{slept} ms");
        // Who does not sleep may lose the processor as well, but not each time.
        let briefly = |_| {
            absence.begin();
            ms(absence.so_far()) < 5
        };
        assert!((0..50).any(briefly));
        assert_eq!(Absence::new(0).so_far(), 0);
    }

    /// Keeps the processor for so many ticks.
    fn work(ticks: u64) {
        let begin = tsc();
        while tsc() - begin < ticks {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn who_translates_is_absent() {
        let ms = measure_tsc_khz();
        let mut absence = Absence::new(ms);
        absence.begin();
        let before = translation::so_far();
        work(20 * ms);
        translation::told();
        work(5 * ms);
        translation::ends();
        let took = translation::so_far() - before;
        assert!((85 * ms / 10..20 * ms).contains(&took), "{took} of {ms} a ms");
        assert!(absence.so_far() >= took - ms);
        // The next one begins where the first one has ended, at the earliest.
        let before = translation::so_far();
        translation::told();
        work(10 * ms);
        translation::ends();
        let took = translation::so_far() - before;
        assert!(
            (10 * ms..11 * ms).contains(&took) || took > 11 * ms && absence.so_far() > took,
            "{took} of {ms} a ms"
        );
    }

    #[test]
    fn the_frequency_is_plausible() {
        let khz = measure_tsc_khz();
        assert!((500_000..10_000_000).contains(&khz), "{khz} kHz");
    }
}
