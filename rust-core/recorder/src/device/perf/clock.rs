// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Converts times of perf's clock into TSC values.

use jportal_perf_abi::kernel::Moment;
use jportal_perf_abi::ring::PerfTime;

/// The TSC at `ns` of perf's clock by the kernel's own relation (`tools/perf/util/tsc.c`,
/// `perf_time_to_tsc`).
pub(super) fn by_kernel(time: PerfTime, ns: u64) -> u64 {
    let mult = u64::from(time.mult);
    let t = ns.wrapping_sub(time.zero);
    let part = (t % mult).wrapping_shl(u32::from(time.shift)) / mult;
    (t / mult).wrapping_shl(u32::from(time.shift)).wrapping_add(part)
}

/// An interval of time whose ends are known in both clocks, for kernels that report no relation
/// of the clocks. Records are read soon after they were written, so their times are in the
/// interval or shortly before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    begin: Moment,
    end: Moment,
}

impl Span {
    /// Shortest interval in nanoseconds. In a shorter one the error of reading the clocks once
    /// (tens of nanoseconds) would distort the slope.
    const SHORTEST: u64 = 1_000_000;

    pub(super) fn new(begin: Moment) -> Self {
        Self { begin, end: begin }
    }

    /// Replaces the interval by the one from its end to `now`, if that is long enough.
    pub(super) fn advance(&mut self, now: Moment) {
        if now.ns.saturating_sub(self.end.ns) >= Self::SHORTEST {
            *self = Self { begin: self.end, end: now };
        }
    }

    /// How far the TSC goes in a millisecond; a generous guess as long as the interval has no
    /// length.
    pub(super) fn millisecond(&self) -> u64 {
        const FAST: u64 = 10_000_000;
        let (ticks, passed) =
            (self.end.tsc.wrapping_sub(self.begin.tsc), self.end.ns.wrapping_sub(self.begin.ns));
        let ms = u128::from(ticks) * 1_000_000 / u128::from(passed.max(1));
        if passed == 0 { FAST } else { u64::try_from(ms).unwrap_or(FAST) }
    }

    /// The TSC at `ns`. An interval of length 0 yields the TSC of its only moment, for lack of
    /// a slope.
    pub(super) fn tsc(&self, ns: u64) -> u64 {
        let (ticks, passed) =
            (self.end.tsc.wrapping_sub(self.begin.tsc), self.end.ns.wrapping_sub(self.begin.ns));
        let since = i128::from(ns) - i128::from(self.begin.ns);
        if passed == 0 {
            return self.begin.tsc;
        }
        let tsc = i128::from(self.begin.tsc) + since * i128::from(ticks) / i128::from(passed);
        u64::try_from(tsc).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_relation_goes_back() {
        let time = PerfTime { shift: 31, mult: 0x2fa0_0000, zero: 77_000 };
        let header = jportal_capture::TimeConversion { valid: 1, shift: 31, mult: 0x2fa0_0000, zero: 77_000 };
        for ns in [77_000, 1_000_000_000, 987_654_321_012] {
            assert_eq!(by_kernel(time, ns), header.ns_to_tsc(ns).unwrap());
        }
    }

    #[test]
    fn times_are_interpolated_between_looks_at_the_clocks() {
        let at = |ms: u64| Moment { ns: ms * 1_000_000, tsc: 5_000 + ms * 2_500_000 };
        let mut span = Span::new(at(10));
        assert_eq!(span.tsc(3), at(10).tsc, "nothing better is known");
        span.advance(at(20));
        assert_eq!(span.tsc(12_000_000), at(12).tsc);
        assert_eq!(span.tsc(9_000_000), at(9).tsc, "a record that was under way at the first look");
        span.advance(Moment { ns: 30_000_000, tsc: at(20).tsc + 20_000_000 });
        assert_eq!(span.tsc(25_000_000), at(20).tsc + 10_000_000, "the newest rate counts");
        assert_eq!(span.tsc(20_000_000), at(20).tsc, "one stretch ends where the next begins");
    }

    #[test]
    fn looks_too_close_together_are_passed_over() {
        let mut span = Span::new(Moment { ns: 0, tsc: 0 });
        span.advance(Moment { ns: 10_000_000, tsc: 25_000_000 });
        let before = span.tsc(10_000_500);
        span.advance(Moment { ns: 10_000_100, tsc: 25_000_900 });
        assert_eq!(span.tsc(10_000_500), before, "a slope of 9 ticks a nanosecond would be noise");
        span.advance(Moment { ns: 20_000_000, tsc: 50_000_000 });
        assert_eq!(span.tsc(15_000_000), 37_500_000);
    }
}
