// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The time base: the host's time-stamp counter, which guest code reads as well.
//!
//! Under QEMU's user mode the guest's `rdtsc` returns the host's TSC, so records of the VM and
//! packets of the emulated unit share one clock. The guest's CPUID lacks leaf 15H; the unit states
//! its own ratio of TSC to core crystal clock.

use std::time::{Duration, Instant};

/// TSC ticks per tick of the emulated core crystal clock, as a power of two.
pub const CTC_SHIFT: u32 = 7;

/// The current TSC.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Measures the time in which the calling thread translates guest code.
///
/// QEMU calls the plugin in the middle of a translation: after it has decoded the instructions
/// and before it generates host code for them.
pub mod translation {
    use std::cell::RefCell;

    use super::tsc;

    /// Time for the part of a translation before QEMU's call, in tenths of the time for the
    /// part after it (measured with H2, 76,000 translations).
    const BEFORE: u64 = 7;
    /// Maximum number of spans that are kept. When it is reached, neighbouring spans are
    /// merged.
    const SPANS: usize = 1024;

    /// An interval in which blocks were translated.
    #[derive(Clone, Copy, Debug)]
    struct TranslationSpan {
        began: u64,
        ended: u64,
        /// Ticks of translation in the interval. In a merged span, other code ran for the rest
        /// of the interval.
        ticks: u64,
    }

    #[derive(Debug)]
    struct TranslationState {
        /// TSC at which QEMU called the plugin for the current translation.
        told: u64,
        /// TSC at which the latest translation ended.
        ended: u64,
        /// In order of time, since the last [`forget`].
        spans: Vec<TranslationSpan>,
    }

    thread_local! {
        static STATE: RefCell<TranslationState> =
            const { RefCell::new(TranslationState { told: 0, ended: 0, spans: Vec::new() }) };
    }

    /// Calls `what` with the calling thread's state; `None` if the thread is ending and its
    /// state is already destroyed.
    fn with<T>(what: impl FnOnce(&mut TranslationState) -> T) -> Option<T> {
        STATE.try_with(|state| what(&mut state.borrow_mut())).ok()
    }

    /// QEMU calls the plugin for a translation.
    pub fn told() {
        with(|state| state.told = tsc());
    }

    /// The translated block begins to execute: its translation has ended.
    pub fn ends() {
        let now = tsc();
        with(|TranslationState { told, ended, spans }| {
            let behind = now.saturating_sub(*told);
            let began = told.saturating_sub(behind * BEFORE / 10).max(*ended);
            *ended = now;
            if spans.len() == SPANS {
                let one = |pair: &[TranslationSpan]| TranslationSpan {
                    began: pair[0].began,
                    ended: pair[1].ended,
                    ticks: pair[0].ticks + pair[1].ticks,
                };
                *spans = spans.chunks_exact(2).map(one).collect();
            }
            spans.push(TranslationSpan { began, ended: now, ticks: now.saturating_sub(began) });
        });
    }

    /// Ticks that the calling thread has spent in translations since `tsc`. Time before the
    /// last [`forget`] does not count.
    pub fn since(tsc: u64) -> u64 {
        let of = |span: &TranslationSpan| span.ticks.min(span.ended.saturating_sub(span.began.max(tsc)));
        with(|state| state.spans.iter().rev().take_while(|span| span.ended > tsc).map(of).sum()).unwrap_or(0)
    }

    /// Drops all spans. Later calls of [`since`] concern only the time after this call.
    pub fn forget() {
        with(|state| state.spans.clear());
    }
}

/// How long a thread has been without a processor of the host since [`Absence::begin`], in TSC
/// ticks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absence {
    khz: u64,
    /// The TSC at [`Absence::begin`] minus the CPU time that the thread had used by then, in
    /// ticks.
    base: u64,
}

impl Absence {
    /// For a TSC of `khz` kHz. With 0, every absence is 0.
    pub const fn new(khz: u64) -> Absence {
        Absence { khz, base: 0 }
    }

    /// Starts to measure the absence of the calling thread.
    pub fn begin(&mut self) {
        self.base = tsc().saturating_sub(self.had());
    }

    /// Ticks since [`Absence::begin`] in which the calling thread had no processor.
    pub fn so_far(&self) -> u64 {
        if self.khz == 0 { 0 } else { tsc().saturating_sub(self.had()).saturating_sub(self.base) }
    }

    /// CPU time of the calling thread in TSC ticks.
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
        // A thread that does not sleep may lose the processor as well, but not in every
        // attempt.
        let briefly = |_| {
            absence.begin();
            ms(absence.so_far()) < 5
        };
        assert!((0..50).any(briefly));
        assert_eq!(Absence::new(0).so_far(), 0);
    }

    /// Spins for `ticks` ticks.
    fn work(ticks: u64) {
        let begin = tsc();
        while tsc() - begin < ticks {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn translations_are_reported_in_the_middle() {
        let ms = measure_tsc_khz();
        work(20 * ms);
        let before = tsc();
        translation::told();
        work(5 * ms);
        translation::ends();
        // The span begins before `before`; only the part after `before` counts.
        let told = translation::since(before);
        assert!((5 * ms..=tsc() - before).contains(&told), "{told} of {ms} a ms");
        let whole = translation::since(0);
        assert!((85 * ms / 10..=(tsc() - before) * 17 / 10).contains(&whole), "{whole} of {ms} a ms");
        // The second span begins no earlier than the end of the first.
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
    fn many_translations_are_reported_together() {
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
