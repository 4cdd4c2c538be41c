// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The confidence in each instruction of a fill.

use std::ops::Range;

/// A number between 0 and 1 for each instruction of a fill. It changes only where a place that
/// the fill is compared with stops agreeing. Instructions in a row with the same number are
/// stored as one stretch.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Confidence {
    /// The end of each stretch, ascending, and its number, which differs from that of the
    /// stretch before. No stretch is empty.
    stretches: Vec<(usize, f32)>,
}

impl Confidence {
    /// The confidence `sure` for `len` instructions.
    pub fn uniform(len: usize, sure: f32) -> Self {
        let mut all = Self::default();
        all.extend_to(len, sure);
        all
    }
    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.stretches.last().map_or(0, |stretch| stretch.0)
    }
    /// Whether there is no instruction.
    pub const fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }
    /// Appends instructions with the number `sure` up to the index `end`. Does nothing if there
    /// are as many already.
    pub fn extend_to(&mut self, end: usize, sure: f32) {
        if end <= self.len() {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.1 == sure => last.0 = end,
            _ => self.stretches.push((end, sure)),
        }
    }
    /// Stretches of instructions with the same number, in order.
    pub fn stretches(&self) -> impl Iterator<Item = (Range<usize>, f32)> {
        let begins = [0].into_iter().chain(self.stretches.iter().map(|stretch| stretch.0));
        begins.zip(&self.stretches).map(|(begin, (end, sure))| (begin..*end, *sure))
    }
    /// The number of the instruction at `index`, and the end of its stretch. `None` after the
    /// last instruction.
    pub fn at(&self, index: usize) -> Option<(f32, usize)> {
        let at = self.stretches.partition_point(|stretch| stretch.0 <= index);
        self.stretches.get(at).map(|(end, sure)| (*sure, *end))
    }
    /// The number of each instruction.
    pub fn iter(&self) -> impl Iterator<Item = f32> {
        self.stretches().flat_map(|(stretch, sure)| std::iter::repeat_n(sure, stretch.len()))
    }
    /// Replaces each number by what `other` makes of it.
    #[must_use]
    pub fn map(&self, other: impl Fn(f32) -> f32) -> Self {
        let mut all = Self::default();
        self.stretches.iter().for_each(|(end, sure)| all.extend_to(*end, other(*sure)));
        all
    }
    /// The confidence in the same instructions from the last to the first.
    #[must_use]
    pub(super) fn reversed(&self) -> Self {
        let len = self.len();
        let stretches = self.stretches().map(|(stretch, sure)| (len - stretch.start, sure));
        let mut stretches: Vec<_> = stretches.collect();
        stretches.reverse();
        Self { stretches }
    }
    /// Combines the numbers that an instruction has here and in `other`, up to the end of the
    /// shorter one.
    #[must_use]
    pub(super) fn zip(&self, other: &Self, both: impl Fn(f32, f32) -> f32) -> Self {
        let mut all = Self::default();
        while let Some(((a, a_end), (b, b_end))) = self.at(all.len()).zip(other.at(all.len())) {
            all.extend_to(a_end.min(b_end), both(a, b));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(all: &[f32]) -> Confidence {
        let mut confidence = Confidence::default();
        (1..).zip(all).for_each(|(end, sure)| confidence.extend_to(end, *sure));
        confidence
    }

    /// Few different numbers, so that many in a row are the same.
    fn some() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec((0u8..3).prop_map(|n| f32::from(n) / 2.0), 0..40)
    }

    proptest! {
        /// Compares stretches with one number per instruction.
        #[test]
        fn stretches_are_instructions_in_a_row(a in some(), b in some()) {
            let (one, other) = (of(&a), of(&b));
            prop_assert_eq!(one.iter().collect::<Vec<_>>(), a.clone());
            prop_assert_eq!((one.len(), one.is_empty()), (a.len(), a.is_empty()));
            for (at, sure) in a.iter().enumerate() {
                let (found, end) = one.at(at).unwrap();
                prop_assert_eq!(found, *sure);
                prop_assert!(a[at..end].iter().all(|other| other == sure));
                prop_assert!(a.get(end).is_none_or(|other| other != sure));
            }
            prop_assert_eq!(one.at(a.len()), None);
            let backwards: Vec<f32> = a.iter().rev().copied().collect();
            prop_assert_eq!(one.reversed(), of(&backwards));
            let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            prop_assert_eq!(one.zip(&other, |a, b| a + b), of(&sums));
            let ones: Vec<f32> = a.iter().map(|sure| sure.ceil()).collect();
            prop_assert_eq!(one.map(f32::ceil), of(&ones));
        }
    }

    #[test]
    fn what_it_goes_to_already_is_kept() {
        let mut confidence = Confidence::uniform(3, 0.5);
        confidence.extend_to(2, 1.0);
        confidence.extend_to(3, 1.0);
        assert_eq!(confidence, Confidence::uniform(3, 0.5));
        assert_eq!(Confidence::uniform(0, 0.5), Confidence::default());
    }
}
