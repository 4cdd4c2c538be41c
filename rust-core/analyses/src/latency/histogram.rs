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

/// The least value of a bucket.
fn bottom(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    ((bucket - (shift << BITS)) as u64) << shift
}

/// Buckets that are one step of [`Histogram::steps`], as a power of two: each power of two has four
/// steps. Steps never reach across a power of two.
const STEP: u32 = BITS - 2;

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
    /// A coarser histogram: lower bounds and counts, ascending. A step ends where the next one
    /// begins. The first and the last one have values; of empty ones in a row there is the first.
    pub(super) fn steps(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(usize, u64)> = Vec::new();
        for (at, n) in self.buckets.iter().enumerate() {
            let step = (self.first + at) >> STEP;
            match steps.last_mut() {
                Some((last, count)) if *last == step => *count += n,
                _ => steps.push((step, *n)),
            }
        }
        steps.dedup_by(|(_, n), (_, before)| *n == 0 && *before == 0);
        steps.into_iter().map(|(step, n)| (bottom(step << STEP), n)).collect()
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
        (1..3776).for_each(|b| assert_eq!(bottom(b), top(b - 1) + 1, "{b}"));
    }

    #[test]
    fn steps_are_four_in_each_power_of_two() {
        let steps = |values: &[u64]| {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.add(*v));
            h.steps()
        };
        assert!(steps(&[]).is_empty());
        assert_eq!(steps(&[3, 15, 16]), [(0, 2), (16, 1)]);
        // 64, 80, 96 and 112; 128, 160, 192 and 224; 256
        assert_eq!(steps(&[79, 64, 80, 127, 128]), [(64, 2), (80, 1), (96, 0), (112, 1), (128, 1)]);
        assert_eq!(steps(&[255, 1000, 1000]), [(224, 1), (256, 0), (896, 2)]);
        assert_eq!(steps(&[u64::MAX]), [(7 << 61, 1)]);
        let mut rng = Rng::with_seed(9);
        let values: Vec<u64> = (0..999).map(|_| rng.u64(..) >> rng.u32(..60)).collect();
        let all = steps(&values);
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        for (at, (lower, n)) in all.iter().enumerate() {
            let upper = all.get(at + 1).map_or(u64::MAX, |next| next.0 - 1);
            let inside = values.iter().filter(|v| (*lower..=upper).contains(*v)).count();
            assert_eq!(*n, inside as u64, "{lower}");
        }
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
