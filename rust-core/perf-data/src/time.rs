// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Converts between the TSC and perf's nanoseconds.

use jportal_capture::{Header, TimeConversion};
use jportal_units::Tsc;

/// The nanoseconds among which the one next to a TSC value is searched. A tick of any TSC is
/// shorter.
const STEPS: u64 = 64;

/// A valid conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfClock {
    conversion: TimeConversion,
}

impl PerfClock {
    /// `None` when the kernel does not vouch for the conversion, or it is impossible.
    pub fn new(conversion: TimeConversion) -> Option<Self> {
        let fine = conversion.valid != 0 && conversion.mult != 0 && conversion.shift < 64;
        fine.then_some(Self { conversion })
    }

    /// The conversion of a capture: the kernel's, or else one derived from the TSC's frequency.
    /// If the frequency is not known either, one tick is one nanosecond.
    pub fn of(header: &Header) -> Self {
        Self::new(header.time.clone()).unwrap_or_else(|| Self::from_frequency(header.tsc_khz))
    }

    /// Nanoseconds since the TSC was 0.
    fn from_frequency(khz: u64) -> Self {
        let scaled = |shift: u16| (1_000_000u128 << shift).checked_div(khz.into());
        let fits = (0..=31u16).rev().find_map(|shift| {
            let mult = u32::try_from(scaled(shift)?).ok().filter(|&m| m > 0)?;
            Some((shift, mult))
        });
        let (shift, mult) = fits.unwrap_or((0, 1));
        Self { conversion: TimeConversion { valid: 1, shift, mult, zero: 0 } }
    }

    /// The conversion in perf's terms.
    pub const fn conversion(&self) -> &TimeConversion {
        &self.conversion
    }

    /// perf's time of `tsc`.
    pub fn ns(&self, tsc: Tsc) -> u64 {
        self.conversion.tsc_to_ns(tsc.0).unwrap_or(0)
    }

    /// The TSC value to which perf converts `ns`.
    pub fn tsc(&self, ns: u64) -> Tsc {
        Tsc(self.conversion.ns_to_tsc(ns).unwrap_or(0))
    }

    /// The first nanosecond that perf converts to a TSC value at or after `tsc`. For the last TSC
    /// values there is none, and the result is a nanosecond shortly before them.
    pub fn ns_from(&self, tsc: Tsc) -> u64 {
        let ns = self.ns(tsc);
        let near = ns..=ns.saturating_add(STEPS);
        near.into_iter().find(|&ns| self.tsc(ns) >= tsc).unwrap_or(ns)
    }

    /// The first TSC value at or after `tsc` that perf's time can express.
    pub fn up(&self, tsc: Tsc) -> Tsc {
        self.tsc(self.ns_from(tsc))
    }

    /// The last TSC value not after `tsc` that perf's time can express.
    pub fn down(&self, tsc: Tsc) -> Tsc {
        let ns = self.ns_from(tsc);
        let near = (ns.saturating_sub(STEPS)..=ns).rev();
        near.map(|ns| self.tsc(ns)).find(|&found| found <= tsc).unwrap_or(tsc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(khz: u64) -> PerfClock {
        PerfClock::of(&Header { tsc_khz: khz, ..Header::default() })
    }

    #[test]
    fn nanoseconds_follow_the_frequency() {
        let c = clock(2_596_143);
        let second = 2_596_143_000;
        assert!(c.ns(Tsc(second)).abs_diff(1_000_000_000) <= 1);
        // Without a frequency, a tick is a nanosecond.
        assert_eq!(clock(0).ns(Tsc(77)), 77);
        assert_eq!(clock(0).up(Tsc(77)), Tsc(77));
    }

    /// A damaged record may have any time.
    #[test]
    fn times_at_the_ends_have_a_conversion() {
        for khz in [0, 200_000, 2_596_155] {
            let c = clock(khz);
            for tsc in [u64::MAX - 1, u64::MAX] {
                assert!(c.ns_from(Tsc(tsc)) - c.ns(Tsc(tsc)) <= STEPS, "{khz} kHz, {tsc}");
                assert!(c.down(Tsc(tsc)) <= Tsc(tsc) && c.down(Tsc(0)) == Tsc(0));
            }
        }
        let kernel = TimeConversion { valid: 1, shift: 31, mult: 0x2fa0_0000, zero: u64::MAX - 7 };
        let c = PerfClock::new(kernel).unwrap();
        assert!(c.up(Tsc(1000)) >= Tsc(1000) && c.down(Tsc(1000)) <= Tsc(1000));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_perf_can_name_lies_around(tsc in 1_000_000u64..1 << 55, khz in 200_000u64..6_000_000) {
            let c = clock(khz);
            let (down, up) = (c.down(Tsc(tsc)), c.up(Tsc(tsc)));
            prop_assert!(down.0 <= tsc && tsc <= up.0);
            prop_assert!(up.0 - down.0 <= khz.div_ceil(1_000_000) + 2);
            prop_assert_eq!(c.up(up), up);
            prop_assert_eq!(c.down(down), down);
        }
    }
}
