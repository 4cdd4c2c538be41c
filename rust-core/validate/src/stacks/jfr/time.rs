// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! JFR's times, and the capture's.

/// The relation of wall clock and TSC, as the capture's header has it.
///
/// The recorder reads both clocks once, one directly after the other. So a time is as exact as
/// `tsc_khz`, multiplied by the time since then: an error of 0.01 % is 6 ms after a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallClock {
    /// TSC when the recording began.
    pub start_tsc: u64,
    /// Wall clock at that moment, nanoseconds since 1970 UTC.
    pub start_unix_ns: u64,
    /// Ticks of the TSC per millisecond.
    pub tsc_khz: u64,
}

const NS_PER_MS: i128 = 1_000_000;

impl WallClock {
    /// The TSC at a time in nanoseconds since 1970 UTC; 0 if that is before TSC 0.
    pub fn tsc(&self, unix_ns: u64) -> u64 {
        let since = i128::from(unix_ns) - i128::from(self.start_unix_ns);
        let tsc = i128::from(self.start_tsc) + since * i128::from(self.tsc_khz) / NS_PER_MS;
        u64::try_from(tsc.max(0)).unwrap_or(u64::MAX)
    }
    /// Ticks in milliseconds.
    pub(super) fn ms(&self, ticks: u64) -> f64 {
        ticks as f64 / self.tsc_khz.max(1) as f64
    }
    /// Milliseconds in ticks.
    pub(super) fn ticks(&self, ms: f64) -> u64 {
        (ms * self.tsc_khz as f64) as u64
    }
}

/// Nanoseconds since 1970 UTC of a time such as `2026-11-28T18:50:53.894383581+01:00`, as Java's
/// `OffsetDateTime` writes it: seconds, their fraction and the parts of the offset may be missing.
pub(super) fn unix_ns(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once('T')?;
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = rest.find(['Z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let seconds = seconds_of(time)?;
    let offset = match zone.split_at(1) {
        ("Z", "") => 0,
        ("+", offset) => seconds_of(offset)?,
        ("-", offset) => -seconds_of(offset)?,
        _ => return None,
    };
    let nanos = match fraction.len() {
        0 => 0,
        digits @ 1..=9 => number(fraction)? * 10_i64.pow(9 - digits as u32),
        _ => return None,
    };
    if date.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) || year > 9999 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + seconds - offset;
    u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).ok()
}

/// A number that consists of digits only.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Seconds of `hours:minutes` or `hours:minutes:seconds`, or of `hours` alone.
fn seconds_of(text: &str) -> Option<i64> {
    let (mut sum, mut unit) = (0, 3600);
    for part in text.split(':') {
        sum += number(part).filter(|n| *n < 61 && unit > 0)? * unit;
        unit /= 60;
    }
    Some(sum)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: the day that a leap year adds is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 153 days are in any five months from March on; 719,468 lie between 0000-03-01 and 1970.
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_parts() {
        // `date -u -d TIME +%s`
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00Z", 0, 0),
            ("2000-02-29T12:00:00Z", 951_825_600, 0),
            ("2026-11-28T18:50:53.894383581Z", 1_795_891_853, 894_383_581),
            ("2026-11-28T19:50:53.5+01:00", 1_795_891_853, 500_000_000),
            ("2026-11-28T13:20:53-05:30", 1_795_891_853, 0),
            ("2100-03-01T00:00:00+00:00:00", 4_107_542_400, 0),
        ] {
            assert_eq!(unix_ns(text), Some(seconds * 1_000_000_000 + nanos), "{text}");
        }
        for text in [
            "",
            "T",
            "1970-01-01",
            "1970-01-01T00:00",
            "1970-13-01T00:00Z",
            "1970-01-01-01T00:00Z",
            "1970-01-01T00:00:00.0123456789Z",
            "1970-01-01T00:00:00:00:00Z",
            "1970-01-01T00:00Zx",
            "1960-01-01T00:00Z",
            "+970-01-01T00:00Z",
        ] {
            assert_eq!(unix_ns(text), None, "{text}");
        }
    }

    #[test]
    fn wall_clock_and_tsc() {
        let clock = WallClock { start_tsc: 1000, start_unix_ns: 5_000_000, tsc_khz: 2_000_000 };
        assert_eq!(clock.tsc(6_000_000), 1000 + 2_000_000);
        assert_eq!(clock.tsc(4_999_900), 800);
        assert_eq!(clock.tsc(0), 0);
        assert_eq!((clock.ticks(2.5), clock.ms(5_000_000)), (5_000_000, 2.5));
    }
}
