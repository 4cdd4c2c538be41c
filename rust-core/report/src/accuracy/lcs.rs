//! Longest common subsequence, bit-parallel, with the matched pairs.
//!
//! Hyyrö's formulation ("Bit-parallel LCS-length computation revisited", 2004) of the dynamic programme: one bit per
//! word of `a`, one row per word of `b`. All rows are kept, so that the pairs can be read off backwards; that takes
//! `a.len() * b.len() / 8` bytes, which the caller bounds ([`pairs`]). What is larger is divided where some longest common
//! subsequence is (Hirschberg, "A linear space algorithm for computing maximal common subsequences", 1975), which takes twice
//! the steps and linear memory ([`divided`]).

use hashbrown::HashMap;

/// Pairs `(index in a, index in b)` of one longest common subsequence, in order.
///
/// Of several it is one that lies far behind in both.
pub(crate) fn pairs(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    // Common ends are part of some longest common subsequence.
    let front = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[front..], &b[front..]);
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (inner_a, inner_b) = (&a[..a.len() - back], &b[..b.len() - back]);
    let mut all: Vec<(usize, usize)> = (0..front).map(|i| (i, i)).collect();
    all.extend(inner(inner_a, inner_b).into_iter().map(|(i, j)| (i + front, j + front)));
    all.extend((0..back).map(|k| (front + inner_a.len() + k, front + inner_b.len() + k)));
    all
}

/// The same for sequences of any length. Below `cells` pairs of words all rows are kept.
pub(crate) fn divided(a: &[u32], b: &[u32], cells: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    // Parts that are still to be done, the first last.
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

/// The length of the longest common subsequence of `b` and each beginning of `a`, shortest first.
///
/// A step per word of `b` over all of the row; where the word stands in `a` is no more than that again: of words that stand in
/// more places than the row has parts, 64 at most, the masks are kept.
fn lengths<'w>(a: impl ExactSizeIterator<Item = &'w u32>, b: impl Iterator<Item = &'w u32>) -> Vec<u32> {
    let len = a.len();
    let mut row = vec![u64::MAX; len.div_ceil(64)];
    let mut places: HashMap<u32, Vec<u32>> = HashMap::new();
    a.enumerate().for_each(|(i, word)| places.entry(*word).or_default().push(i as u32));
    let places: HashMap<u32, Places> =
        places.into_iter().map(|(word, all)| (word, Places::new(all, row.len()))).collect();
    let mut mask = vec![0u64; row.len()];
    for word in b {
        match places.get(word) {
            None => {}
            Some(Places::Dense(mask)) => step(&mut row, mask),
            Some(Places::Sparse(all)) => {
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

/// Where a word stands.
enum Places {
    Sparse(Vec<u32>),
    /// A bit each.
    Dense(Box<[u64]>),
}

impl Places {
    fn new(all: Vec<u32>, width: usize) -> Self {
        if all.len() <= width {
            return Self::Sparse(all);
        }
        let mut mask = vec![0; width].into_boxed_slice();
        all.iter().for_each(|i| mask[*i as usize / 64] |= 1 << (i % 64));
        Self::Dense(mask)
    }
}

/// The next row, for a word that stands where `mask` has ones.
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
    // Bit i of row j is 0 exactly where the first i + 1 words of `a` have one word more in common with the first j + 1
    // of `b` than the first i have.
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
            // The last word of `a` is needed, so the last of `b` is not.
            j -= 1;
        } else {
            i -= 1;
        }
    }
    found.reverse();
    found
}

/// Where each word of `b` stands in `a`, a bit per word of `a`.
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
pub(crate) mod tests {
    use super::*;
    use crate::accuracy::testing::Random;

    /// The length by the quadratic programme of the textbooks.
    pub(crate) fn length(a: &[u32], b: &[u32]) -> usize {
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

    #[test]
    fn pairs_are_a_longest_common_subsequence() {
        let mut random = Random(1);
        for round in 0..400 {
            let letters = 2 + random.below(9);
            let mut words = |n: u64| -> Vec<u32> { (0..n).map(|_| random.below(letters) as u32).collect() };
            let (a, b) = (words(round % 211), words(round * 7 % 190));
            let found = pairs(&a, &b);
            assert!(found.iter().all(|&(i, j)| a[i] == b[j]));
            assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            assert_eq!(found.len(), length(&a, &b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn divided_it_is_as_long() {
        let mut random = Random(2);
        for round in 0..400 {
            let letters = 2 + random.below(9);
            let mut words = |n: u64| -> Vec<u32> { (0..n).map(|_| random.below(letters) as u32).collect() };
            let (a, b) = (words(round % 211), words(round * 7 % 190));
            let found = divided(&a, &b, random.below(200) as usize);
            assert!(found.iter().all(|&(i, j)| a[i] == b[j]));
            assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            assert_eq!(found.len(), length(&a, &b), "{a:?} {b:?}");
        }
    }
}
