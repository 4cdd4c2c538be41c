//! Longest common subsequence, bit-parallel, with the matched pairs.
//!
//! Hyyrö's formulation ("Bit-parallel LCS-length computation revisited", 2004) of the dynamic programme: one bit per
//! word of `a`, one row per word of `b`. All rows are kept, so that the pairs can be read off backwards; that takes
//! `a.len() * b.len() / 8` bytes, which the caller bounds.

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
            let mut carry = false;
            for (v, &m) in row.iter_mut().zip(mask) {
                let u = *v & m;
                let (sum, c1) = v.overflowing_add(u);
                let (sum, c2) = sum.overflowing_add(u64::from(carry));
                carry = c1 || c2;
                *v = sum | (*v & !m);
            }
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
}
