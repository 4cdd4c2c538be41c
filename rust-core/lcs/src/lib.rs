// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Longest common subsequences (LCS), bit-parallel, with the matched pairs.
//!
//! The dynamic programme is Hyyrö's bit-parallel formulation ("Bit-parallel LCS-length
//! computation revisited", 2004): one bit per word of `a`, one row per word of `b`. [`pairs`]
//! keeps all rows, so that it can read the pairs off backwards. That takes `a.len() * b.len() /
//! 8` bytes, which the caller must bound.
//!
//! [`divided`] handles larger sequences: it splits both at a point that some LCS passes through
//! (Hirschberg, "A linear space algorithm for computing maximal common subsequences", 1975).
//! That takes twice the steps and linear memory.
//!
//! Where that would still take too long, [`Bound::shares`] cuts both sequences into parts of
//! equal share, each to be compared on its own.
#![forbid(unsafe_code)]

use hashbrown::HashMap;
use std::ops::Range;

/// Limits on one comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Largest number of pairs of words, which is the product of both lengths.
    pub cells: u64,
    /// Largest length of either sequence, in words.
    pub side: u64,
}

impl Bound {
    /// The number of parts into which sequences of `n` and `m` words are divided.
    pub fn parts(&self, n: u64, m: u64) -> u64 {
        let cells = u128::from(n) * u128::from(m);
        let by_cells = (cells as f64 / self.cells as f64).sqrt().ceil() as u64;
        by_cells.max(n.div_ceil(self.side)).max(m.div_ceil(self.side)).max(1)
    }
    /// The parts into which sequences of `n` and `m` words are divided, in order. A part of one
    /// sequence is to be compared only with the part of the other that comes with it. There are
    /// no parts if a sequence is empty.
    pub fn shares(&self, n: u64, m: u64) -> impl Iterator<Item = (Range<u64>, Range<u64>)> + use<> {
        let parts = if n == 0 || m == 0 { 0 } else { self.parts(n, m) };
        let share = move |all: u64, k: u64| (u128::from(all) * u128::from(k) / u128::from(parts)) as u64;
        (0..parts).map(move |k| (share(n, k)..share(n, k + 1), share(m, k)..share(m, k + 1)))
    }
}

/// Splits off the common prefix and suffix of two sequences so that they do not overlap.
///
/// `front` is the length of the common prefix, `end` that of the common suffix, and `shorter`
/// the length of the shorter sequence, all in words. Returns how many words to match at the
/// front and at the end, so that no word is matched twice. These matches are part of some
/// longest common subsequence. If they cover all of the shorter sequence, as for two runs
/// through the same loop, the surplus of the longer one is left out of its middle.
pub fn both_ends(front: u64, end: u64, shorter: u64) -> (u64, u64) {
    if front + end <= shorter {
        return (front, end);
    }
    let front = (shorter / 2).clamp(shorter - end, front);
    (front, shorter - front)
}

/// Pairs `(index in a, index in b)` of one longest common subsequence, in order.
///
/// If there are several, the common prefix is matched first and the rest as late as possible in
/// both sequences.
pub fn pairs(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    // A common prefix and a common suffix are part of some longest common subsequence.
    let front = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[front..], &b[front..]);
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (inner_a, inner_b) = (&a[..a.len() - back], &b[..b.len() - back]);
    let mut all: Vec<(usize, usize)> = (0..front).map(|i| (i, i)).collect();
    all.extend(inner(inner_a, inner_b).into_iter().map(|(i, j)| (i + front, j + front)));
    all.extend((0..back).map(|k| (front + inner_a.len() + k, front + inner_b.len() + k)));
    all
}

/// The same as [`pairs`] for sequences of any length. All rows are kept only for parts with at
/// most `cells` pairs of words or fewer than two words of `b`.
pub fn divided(a: &[u32], b: &[u32], cells: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    // Parts that are still to be done; the next one is last.
    let mut parts = vec![(0..a.len(), 0..b.len())];
    while let Some((ours, theirs)) = parts.pop() {
        let (x, y) = (&a[ours.clone()], &b[theirs.clone()]);
        if y.len() < 2 || x.len().saturating_mul(y.len()) <= cells {
            found.extend(pairs(x, y).into_iter().map(|(i, j)| (ours.start + i, theirs.start + j)));
            continue;
        }
        let half = y.len() / 2;
        let front = lengths(x.iter(), y[..half].iter());
        let back = lengths(x.iter().rev(), y[half..].iter().rev());
        let sum = |i: usize| front[i] + back[x.len() - i];
        let at = (0..=x.len()).max_by_key(|i| sum(*i)).unwrap_or(0);
        let (at, half) = (ours.start + at, theirs.start + half);
        parts.push((at..ours.end, half..theirs.end));
        parts.push((ours.start..at, theirs.start..half));
    }
    found
}

/// For each prefix of `a`, shortest first, the length of its longest common subsequence with
/// `b`.
///
/// Each word of `b` takes one step over the whole row. To set up the mask of the word takes no
/// longer. If the word has more occurrences in `a` than the row has elements, its mask is kept;
/// there are at most 64 such words. The mask of any other word is built from its occurrences.
fn lengths<'w>(a: impl ExactSizeIterator<Item = &'w u32>, b: impl Iterator<Item = &'w u32>) -> Vec<u32> {
    let len = a.len();
    let mut row = vec![u64::MAX; len.div_ceil(64)];
    let mut places: HashMap<u32, Vec<u32>> = HashMap::new();
    a.enumerate().for_each(|(i, word)| places.entry(*word).or_default().push(i as u32));
    let places: HashMap<u32, Occurrences> =
        places.into_iter().map(|(word, all)| (word, Occurrences::new(all, row.len()))).collect();
    let mut mask = vec![0u64; row.len()];
    for word in b {
        match places.get(word) {
            None => {}
            Some(Occurrences::Dense(mask)) => step(&mut row, mask),
            Some(Occurrences::Sparse(all)) => {
                all.iter().for_each(|i| mask[*i as usize / 64] |= 1 << (i % 64));
                step(&mut row, &mask);
                all.iter().for_each(|i| mask[*i as usize / 64] = 0);
            }
        }
    }
    let mut all = vec![0];
    all.extend((0..len).scan(0, |sum, i| {
        *sum += u32::from(row[i / 64] >> (i % 64) & 1 == 0);
        Some(*sum)
    }));
    all
}

/// The occurrences of a word in a sequence.
enum Occurrences {
    /// The index of each.
    Sparse(Vec<u32>),
    /// One bit per index.
    Dense(Box<[u64]>),
}

impl Occurrences {
    fn new(all: Vec<u32>, width: usize) -> Self {
        if all.len() <= width {
            return Self::Sparse(all);
        }
        let mut mask = vec![0; width].into_boxed_slice();
        all.iter().for_each(|i| mask[*i as usize / 64] |= 1 << (i % 64));
        Self::Dense(mask)
    }
}

/// Computes the next row, for a word whose occurrences are the ones in `mask`.
fn step(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (v, &m) in row.iter_mut().zip(mask) {
        let u = *v & m;
        let (sum, c1) = v.overflowing_add(u);
        let (sum, c2) = sum.overflowing_add(u64::from(carry));
        carry = c1 || c2;
        *v = sum | (*v & !m);
    }
}

fn inner(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let width = a.len().div_ceil(64);
    let masks = Masks::new(a, b, width);
    // Bit i of row j is 0 exactly if the LCS of the first i + 1 words of `a` and the first j +
    // 1 of `b` is one word longer than that of the first i words of `a` and the first j + 1 of
    // `b`.
    let mut rows: Vec<u64> = Vec::with_capacity(width * b.len());
    let mut row = vec![u64::MAX; width];
    for word in b {
        if let Some(mask) = masks.of(*word) {
            step(&mut row, mask);
        }
        rows.extend_from_slice(&row);
    }
    let grows = |i: usize, j: usize| rows[j * width + i / 64] >> (i % 64) & 1 == 0;
    let (mut i, mut j) = (a.len(), b.len());
    let mut found = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            i -= 1;
            j -= 1;
            found.push((i, j));
        } else if grows(i - 1, j - 1) {
            // Every LCS uses the last word of `a` here, so the last of `b` is not needed.
            j -= 1;
        } else {
            i -= 1;
        }
    }
    found.reverse();
    found
}

/// For each word of `b`, its occurrences in `a`, one bit per word of `a`.
struct Masks {
    of: HashMap<u32, usize>,
    bits: Vec<u64>,
    width: usize,
}

impl Masks {
    fn new(a: &[u32], b: &[u32], width: usize) -> Self {
        let mut of: HashMap<u32, usize> = b.iter().map(|&w| (w, usize::MAX)).collect();
        let mut bits: Vec<u64> = Vec::new();
        for (i, word) in a.iter().enumerate() {
            let Some(at) = of.get_mut(word) else { continue };
            if *at == usize::MAX {
                *at = bits.len();
                bits.resize(bits.len() + width, 0);
            }
            bits[*at + i / 64] |= 1 << (i % 64);
        }
        of.retain(|_, at| *at != usize::MAX);
        Self { of, bits, width }
    }
    fn of(&self, word: u32) -> Option<&[u64]> {
        self.of.get(&word).map(|&at| &self.bits[at..at + self.width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The length by the textbook's quadratic dynamic programme.
    fn length(a: &[u32], b: &[u32]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    #[test]
    fn pairs_by_hand() {
        assert_eq!(pairs(&[1, 2, 3, 4, 5], &[2, 9, 4, 5]), [(1, 0), (3, 2), (4, 3)]);
        assert_eq!(pairs(&[1, 2], &[3, 4]), []);
        assert_eq!(pairs(&[], &[3, 4]), []);
        assert_eq!(pairs(&[7, 1, 7, 2], &[7, 2]), [(0, 0), (3, 1)]);
    }

    /// Two sequences over a small alphabet.
    fn two() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
        (2u32..11).prop_flat_map(|letters| {
            let words = || prop::collection::vec(0..letters, 0..211);
            (words(), words())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn pairs_are_a_longest_common_subsequence((a, b) in two(), cells in 0usize..200) {
            for found in [pairs(&a, &b), divided(&a, &b, cells)] {
                prop_assert!(found.iter().all(|&(i, j)| a[i] == b[j]));
                prop_assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
                prop_assert_eq!(found.len(), length(&a, &b));
            }
        }

        #[test]
        fn both_ends_are_matched_once_and_as_far_as_they_go((a, b) in two()) {
            let front = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            let end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
            let shorter = a.len().min(b.len());
            let found = both_ends(front as u64, end as u64, shorter as u64);
            let (from, until) = (found.0 as usize, found.1 as usize);
            prop_assert!(from <= front && until <= end);
            prop_assert_eq!(from + until, shorter.min(front + end));
            let between = length(&a[from..a.len() - until], &b[from..b.len() - until]);
            prop_assert_eq!(from + between + until, length(&a, &b));
        }

        #[test]
        fn shares_are_small_and_all(n in 0u64..100_000_000, m in 0u64..100_000_000, cells in 30u32..40, side in 17u32..30) {
            let bound = Bound { cells: 1 << cells, side: 1 << side };
            let mut ends = (0, 0);
            for (ours, theirs) in bound.shares(n, m) {
                prop_assert_eq!((ours.start, theirs.start), ends);
                ends = (ours.end, theirs.end);
                let (n, m) = (ours.end - ours.start, theirs.end - theirs.start);
                prop_assert!(n <= bound.side && m <= bound.side && n.saturating_sub(1) * m.saturating_sub(1) <= bound.cells);
            }
            prop_assert_eq!(ends, if n == 0 || m == 0 { (0, 0) } else { (n, m) });
        }
    }

    #[test]
    fn parts_by_hand() {
        let bound = Bound { cells: 1 << 27, side: 1 << 20 };
        let parts =
            [(1, 1), (1 << 13, 1 << 13), (1 << 14, 1 << 15), (5, 1 << 22)].map(|(n, m)| bound.parts(n, m));
        assert_eq!(parts, [1, 1, 2, 4]);
    }

    #[test]
    fn the_surplus_of_a_loop_is_in_the_middle() {
        assert_eq!(both_ends(6, 6, 6), (3, 3));
        assert_eq!(both_ends(6, 4, 6), (3, 3));
        assert_eq!(both_ends(6, 2, 6), (4, 2));
        assert_eq!(both_ends(1, 6, 6), (1, 5));
        assert_eq!(both_ends(2, 3, 6), (2, 3));
    }
}
