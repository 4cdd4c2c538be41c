// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A small random number generator: the same seed gives the same program on every machine.

/// SplitMix64. Tests and documents name programs by their seeds, so the sequence must not change.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        // Mix the seed, so that consecutive seeds do not start with similar numbers.
        let mut rng = Self(seed ^ 0x6a70_6f72_7461_6c21);
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let n = items.len() as u64;
        &items[usize::try_from(self.below(n)).unwrap_or(0)]
    }

    /// An index chosen by weight.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (i, &weight) in weights.iter().enumerate() {
            if at < weight {
                return i;
            }
            at -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn weights_are_kept() {
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];
        for _ in 0..3000 {
            seen[rng.weighted(&[1, 0, 2])] += 1;
        }
        assert!(seen[0] > 800 && seen[1] == 0 && seen[2] > 1700, "{seen:?}");
    }
}
