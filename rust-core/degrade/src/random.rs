// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Pseudo-random choices that are the same in every run.

/// SplitMix64: a counter as state, and a mix of it as output, so every seed is a good one.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The choices of `seed` for one purpose on one core.
    pub(crate) fn new(seed: u64, purpose: u32, core: u32) -> Self {
        let mut random = Self(seed ^ u64::from(purpose) << 32 ^ u64::from(core));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ b >> 31
    }

    /// A number below `n`; 0 for `n` 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next().checked_rem(n).unwrap_or(0)
    }

    /// A number from 0.75 to 1.25.
    pub(crate) fn jitter(&mut self) -> f64 {
        0.75 + self.below(1 << 20) as f64 / f64::from(1 << 21)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_choose_equally_and_cores_differently() {
        let draw = |seed, core| {
            let mut r = Random::new(seed, 1, core);
            (0..8).map(|_| r.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(5, 0), draw(5, 0));
        assert_ne!(draw(5, 0), draw(6, 0));
        assert_ne!(draw(5, 0), draw(5, 1));
        let mut r = Random::new(0, 0, 0);
        assert!((0..100).map(|_| r.jitter()).all(|j| (0.75..=1.25).contains(&j)));
        assert_eq!(r.below(0), 0);
    }
}
