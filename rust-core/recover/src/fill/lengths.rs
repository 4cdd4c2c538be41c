// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How far the length that is expected of a gap can be trusted.
//!
//! What hangs on one end of a gap, and goes on there as in all other places, ran only if the gap was long enough for it. Of that
//! its time tells little: compilation, waiting and the loading of classes take time as well. Gaps that are cut into what was
//! captured tell what share of them is how long, in parts of what was expected.

use super::confidence::Confidence;
use super::pace::Expected;

/// The lengths of gaps.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Lengths {
    /// In parts of the scale of what was expected, ascending.
    parts: Vec<f64>,
}

impl Lengths {
    /// Of gaps of which each is so long, in parts of the [scale](Expected::scale) of what was expected.
    pub(super) fn new(mut parts: Vec<f64>) -> Self {
        parts.sort_by(f64::total_cmp);
        Self { parts }
    }
    /// Of the first `len` instructions at an end of a gap, how sure it is that it is long enough for each; by the rule of succession. It is
    /// taken for long enough where nobody knows.
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
        // Nothing is known of its length, or of lengths at all.
        assert_eq!(lengths.reaching(5, None), Confidence::uniform(5, 1.0));
        assert_eq!(Lengths::default().reaching(5, expected), Confidence::uniform(5, 1.0));
    }
}
