// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How far the expected length of a gap can be trusted.
//!
//! Instructions that follow one end of a gap as at all other places ran only if the gap was
//! long enough for them. The time of the gap says little about that: compilation, waiting and
//! class loading take time, too. Gaps that are cut into the captured data show how actual
//! lengths are distributed, as parts of the expected ones.

use super::confidence::Confidence;
use super::pace::Expected;

/// The distribution of the lengths of gaps.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Lengths {
    /// Actual lengths as parts of the expected scale, ascending.
    parts: Vec<f64>,
}

impl Lengths {
    /// `parts` holds the actual length of each gap, as a part of the [scale](Expected::scale)
    /// of the expected one.
    pub(super) fn new(mut parts: Vec<f64>) -> Self {
        parts.sort_by(f64::total_cmp);
        Self { parts }
    }
    /// For each of the first `len` instructions at an end of a gap, how sure it is that the gap
    /// is long enough for it, by the rule of succession. The number is 1 if nothing is known.
    pub(super) fn reaching(&self, len: usize, expected: Option<Expected>) -> Confidence {
        let Some(scale) = expected.map(|e| e.scale()).filter(|_| !self.parts.is_empty()) else {
            return Confidence::uniform(len, 1.0);
        };
        let all = self.parts.len();
        let share = |longer: usize| (longer + 1) as f32 / (all + 2) as f32;
        let mut sure = Confidence::default();
        for (shorter, part) in self.parts.iter().enumerate() {
            sure.extend_to(len.min((part * scale) as usize), share(all - shorter));
        }
        sure.extend_to(len, share(0));
        sure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_on_an_end_ran_if_the_gap_was_long_enough() {
        let expected = Some(Expected { instructions: 100.0, slack: 0.0 });
        let lengths = Lengths::new(vec![1.5, 0.1, 1.0]);
        let sure: Vec<_> = lengths.reaching(200, expected).stretches().collect();
        assert_eq!(sure, [(0..10, 0.8), (10..100, 0.6), (100..150, 0.4), (150..200, 0.2)]);
        assert_eq!(lengths.reaching(5, expected), Confidence::uniform(5, 0.8));
        // Nothing is known about this gap's length, or about lengths at all.
        assert_eq!(lengths.reaching(5, None), Confidence::uniform(5, 1.0));
        assert_eq!(Lengths::default().reaching(5, expected), Confidence::uniform(5, 1.0));
    }
}
