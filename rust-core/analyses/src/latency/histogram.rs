// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A log-linear histogram: bounded memory, bounded relative error, exact extremes.
//!
//! As in HdrHistogram, each power of two is divided into the same number of buckets. With 64
//! buckets a value is known to less than 1/64 of itself, and values below 128 exactly.

/// Buckets per power of two, as a power of two.
const BITS: u32 = 6;

/// The greatest relative error of a percentile: a reported value is at most this much too high.
pub const RELATIVE_ERROR: f64 = 1.0 / (1u64 << BITS) as f64;

/// Counts of values. It keeps the buckets between the least and the greatest value: at most 3,776
/// buckets of 8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// Number of the first bucket kept.
    first: usize,
    buckets: Vec<u64>,
    count: u64,
    /// Least and greatest value.
    extremes: Option<(u64, u64)>,
}

fn bucket(value: u64) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(BITS);
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The greatest value of a bucket.
fn top(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let mantissa = (bucket - (shift << BITS)) as u128;
    u64::try_from(((mantissa + 1) << shift) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    pub(super) fn add(&mut self, value: u64) {
        self.add_all(bucket(value), 1);
        self.include(value, value);
    }
    pub(super) fn merge(&mut self, other: &Self) {
        for (at, n) in other.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.add_all(other.first + at, *n);
        }
        if let Some((least, greatest)) = other.extremes {
            self.include(least, greatest);
        }
    }
    fn include(&mut self, least: u64, greatest: u64) {
        let (a, b) = self.extremes.unwrap_or((least, greatest));
        self.extremes = Some((a.min(least), b.max(greatest)));
    }
    fn add_all(&mut self, bucket: usize, n: u64) {
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = self.first - bucket;
            self.buckets.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += n;
        self.count += n;
    }
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
    /// The least and the greatest value, exactly.
    pub(super) const fn extremes(&self) -> Option<(u64, u64)> {
        self.extremes
    }
    /// The value at a rank of `part` of the values, by nearest rank. `part` is above 0 and at most
    /// 1. The true value is at most this, and less than [`RELATIVE_ERROR`] below it.
    pub(super) fn percentile(&self, part: f64) -> Option<u64> {
        let (least, greatest) = self.extremes?;
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (at, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(top(self.first + at).clamp(least, greatest));
            }
        }
        Some(greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[test]
    fn buckets_are_consecutive_and_narrow() {
        let narrow = |value: u64| {
            let top = top(bucket(value));
            assert!(top >= value && (top - value) as f64 <= value as f64 * RELATIVE_ERROR, "{value}");
        };
        (0..58).flat_map(|s| [(64 << s) - 1, 64 << s, (65 << s) - 1]).for_each(narrow);
        for value in 0..5000 {
            narrow(value);
            assert!([0, 1].contains(&(bucket(value + 1) - bucket(value))), "{value}");
        }
        assert_eq!((bucket(127), top(bucket(127)), top(bucket(u64::MAX))), (127, 127, u64::MAX));
        assert_eq!(bucket(u64::MAX), 3775);
    }

    #[test]
    fn percentiles_are_close_and_extremes_exact() {
        let mut rng = Rng::with_seed(4);
        let mut values: Vec<u64> = (0..2001).map(|_| rng.u64(..) >> rng.u32(..60)).collect();
        let (mut whole, mut parts) = (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for (i, v) in values.iter().enumerate() {
            whole.add(*v);
            parts[i % 2].add(*v);
        }
        let [mut a, b] = parts;
        a.merge(&b);
        values.sort_unstable();
        assert_eq!((whole.extremes(), whole.count()), (Some((values[0], values[2000])), 2001));
        for part in [0.0001, 0.5, 0.9, 0.99, 1.0] {
            let rank = (part * 2001.0_f64).ceil() as usize;
            let (exact, found) = (values[rank - 1], whole.percentile(part).unwrap());
            assert!(found >= exact && (found - exact) as f64 <= exact as f64 * RELATIVE_ERROR, "{part}");
            assert_eq!(a.percentile(part), Some(found));
        }
        assert_eq!(Histogram::default().percentile(0.5), None);
    }
}
