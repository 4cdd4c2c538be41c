// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

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
    use std::cell::RefCell;

    use super::tsc;

    /// What comes before QEMU tells takes this many tenths of what comes behind (H2, 76,000 translations).
    const BEFORE: u64 = 7;
    /// Spans that are kept: beyond that neighbours become one.
    const SPANS: usize = 1024;

    /// Time in which blocks were translated.
    #[derive(Clone, Copy, Debug)]
    struct Span {
        began: u64,
        ended: u64,
        /// So much of it; the rest ran between two of them.
        ticks: u64,
    }

    #[derive(Debug)]
    struct State {
        /// TSC at which QEMU told of a translation.
        told: u64,
        /// TSC at which the latest one had ended.
        ended: u64,
        /// In order, since they were forgotten.
        spans: Vec<Span>,
    }

    thread_local! {
        static STATE: RefCell<State> = const { RefCell::new(State { told: 0, ended: 0, spans: Vec::new() }) };
    }

    /// At the end of a thread there is none.
    fn with<T>(what: impl FnOnce(&mut State) -> T) -> Option<T> {
        STATE.try_with(|state| what(&mut state.borrow_mut())).ok()
    }

    /// QEMU tells of a translation.
    pub fn told() {
        with(|state| state.told = tsc());
    }

    /// The block that was translated begins.
    pub fn ends() {
        let now = tsc();
        with(|State { told, ended, spans }| {
            let behind = now.saturating_sub(*told);
            let began = told.saturating_sub(behind * BEFORE / 10).max(*ended);
            *ended = now;
            if spans.len() == SPANS {
                let one = |pair: &[Span]| Span {
                    began: pair[0].began,
                    ended: pair[1].ended,
                    ticks: pair[0].ticks + pair[1].ticks,
                };
                *spans = spans.chunks_exact(2).map(one).collect();
            }
            spans.push(Span { began, ended: now, ticks: now.saturating_sub(began) });
        });
    }

    /// Ticks that the calling thread's translations have taken since then; nothing in front of the last [`forget`] is known any more.
    pub fn since(tsc: u64) -> u64 {
        let of = |span: &Span| span.ticks.min(span.ended.saturating_sub(span.began.max(tsc)));
        with(|state| state.spans.iter().rev().take_while(|span| span.ended > tsc).map(of).sum()).unwrap_or(0)
    }

    /// Nobody will ask for what was before.
    pub fn forget() {
        with(|state| state.spans.clear());
    }
}

/// How long a thread has not had a processor of the host, in TSC ticks from some moment on.
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

    /// Ticks on a processor that the calling thread has had.
    fn had(&self) -> u64 {
        if self.khz == 0 {
            return 0;
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes `time` and nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        let ns = time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128;
        (ns * u128::from(self.khz) / 1_000_000) as u64
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
    fn translations_are_told_in_the_middle() {
        let ms = measure_tsc_khz();
        work(20 * ms);
        let before = tsc();
        translation::told();
        work(5 * ms);
        translation::ends();
        // Of what came before, what lies behind the moment that is asked for.
        let told = translation::since(before);
        assert!((5 * ms..=tsc() - before).contains(&told), "{told} of {ms} a ms");
        let whole = translation::since(0);
        assert!((85 * ms / 10..=(tsc() - before) * 17 / 10).contains(&whole), "{whole} of {ms} a ms");
        // The next one begins where the first one has ended, at the earliest.
        let (middle, told) = (tsc(), translation::since(0));
        translation::told();
        work(10 * ms);
        translation::ends();
        let next = translation::since(middle);
        assert!((10 * ms..=tsc() - middle).contains(&next), "{next} of {ms} a ms");
        assert!(translation::since(0) - told <= tsc() - before);
        assert_eq!(translation::since(tsc()), 0);
        translation::forget();
        assert_eq!(translation::since(0), 0);
    }

    #[test]
    fn many_translations_are_told_together() {
        let before = tsc();
        for _ in 0..5000 {
            translation::told();
            translation::ends();
        }
        let (all, passed) = (translation::since(before), tsc() - before);
        assert!(all > 0 && all <= passed, "{all} of {passed}");
    }

    #[test]
    fn the_frequency_is_plausible() {
        let khz = measure_tsc_khz();
        assert!((500_000..10_000_000).contains(&khz), "{khz} kHz");
    }
}
