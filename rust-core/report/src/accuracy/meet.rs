//! Where two sequences that part go on together.

use std::io;
use std::ops::Range;

use hashbrown::HashMap;

use super::words::Words;

/// Words that must be equal in a row.
pub(crate) const GRAM: usize = 32;
/// Places in the reference remembered per gram.
const PLACES: usize = 8;
/// Places tried, or grams if none is unique.
const TRIED: usize = 64;
/// How far they are followed to see which fits longest.
const FOLLOWED: u64 = 4096;
/// Base of the rolling hash: odd, arbitrary.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where a gram of the tested sequence stands.
#[derive(Default)]
struct Gram {
    /// First place in the tested sequence, within the window.
    at: usize,
    /// It stands there more than once.
    again: bool,
    /// First places in the reference.
    places: [u64; PLACES],
    /// How many places there are in the reference.
    count: usize,
}

/// A place in the reference window and one in the tested window from which on [`GRAM`] words are equal at least.
///
/// Grams that stand once in either window are chained (longest increasing subsequence), and the first of the chain is
/// taken. If no gram is unique (in loops), the first few places of the first few grams are tried and the one that fits
/// longest is taken, of equals the earliest. From there the equality is followed backwards to its begin. Neither is followed back beyond its floor. Time is linear in both windows, memory in the tested one.
pub(crate) fn meet(
    reference: &mut Words,
    within: Range<u64>,
    tested: &mut Words,
    window: Range<u64>,
    floors: (u64, u64),
) -> io::Result<Option<Meeting>> {
    let ours = tested.range(window.clone())?;
    let mut grams: HashMap<u64, Gram> = HashMap::new();
    for (at, hash) in Rolling::over(&ours) {
        grams.entry(hash).and_modify(|g| g.again = true).or_insert(Gram { at, ..Gram::default() });
    }
    if grams.is_empty() {
        return Ok(None);
    }
    let mut rolling = Rolling::default();
    for at in within.clone() {
        let word = reference.get(at)?;
        let leaving = match at.checked_sub(GRAM as u64).filter(|&old| old >= within.start) {
            Some(old) => Some(reference.get(old)?),
            None => None,
        };
        if let Some(gram) = rolling.push(word, leaving).and_then(|hash| grams.get_mut(&hash)) {
            if let Some(place) = gram.places.get_mut(gram.count) {
                *place = at + 1 - GRAM as u64;
            }
            gram.count += 1;
        }
    }
    let mut seen: Vec<&Gram> = grams.values().filter(|g| g.count > 0).collect();
    seen.sort_unstable_by_key(|g| g.at);
    let unique: Vec<(usize, u64)> =
        seen.iter().filter(|g| !g.again && g.count == 1).map(|g| (g.at, g.places[0])).collect();
    // How far it fits, where in the reference, where in the tested sequence.
    let mut best: Option<(u64, u64, u64)> = None;
    let mut consider = |best: &mut Option<(u64, u64, u64)>, (place, at): (u64, u64)| {
        let n = equal(reference, place..within.end, tested, at..window.end, FOLLOWED)?;
        if n >= GRAM as u64 && best.is_none_or(|b| n > b.0) {
            *best = Some((n, place, at));
        }
        io::Result::Ok(n >= FOLLOWED || n == window.end - at)
    };
    let chained = chain(&unique).into_iter().map(|(at, place)| (place, window.start + at as u64));
    let mut convincing = false;
    for place in chained.take(TRIED) {
        consider(&mut best, place)?;
        if best.is_some() {
            convincing = true;
            break;
        }
    }
    if best.is_none() {
        for gram in seen.iter().take(TRIED) {
            for &place in &gram.places[..gram.count.min(PLACES)] {
                convincing |= consider(&mut best, (place, window.start + gram.at as u64))?;
            }
        }
    }
    let Some((fits, place, at)) = best else { return Ok(None) };
    let back = equal_before(reference, floors.0..place, tested, floors.1..at)?;
    Ok(Some(Meeting { place: (place - back, at - back), fits: fits + back, convincing }))
}

/// Where two sequences go on together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meeting {
    /// In the reference and in the tested sequence.
    pub(crate) place: (u64, u64),
    /// Words that are equal around it, as far as was looked.
    pub(crate) fits: u64,
    /// It stands once in either window, or fits up to where the window ends, or for long.
    pub(crate) convincing: bool,
}

/// How many words are equal from the fronts of two ranges on, `most` at most.
pub(crate) fn equal(
    a: &mut Words,
    in_a: Range<u64>,
    b: &mut Words,
    in_b: Range<u64>,
    most: u64,
) -> io::Result<u64> {
    let most = most.min(in_a.end - in_a.start).min(in_b.end - in_b.start);
    for n in 0..most {
        if a.get(in_a.start + n)? != b.get(in_b.start + n)? {
            return Ok(n);
        }
    }
    Ok(most)
}

/// How many words are equal from the ends of two ranges backwards.
fn equal_before(a: &mut Words, in_a: Range<u64>, b: &mut Words, in_b: Range<u64>) -> io::Result<u64> {
    let most = (in_a.end - in_a.start).min(in_b.end - in_b.start);
    for n in 0..most {
        if a.get(in_a.end - 1 - n)? != b.get(in_b.end - 1 - n)? {
            return Ok(n);
        }
    }
    Ok(most)
}

/// A longest part of `places`, which are in order of the first, that is in order of the second, too.
fn chain(places: &[(usize, u64)]) -> Vec<(usize, u64)> {
    // `ends[n]`: the index at which a chain of n + 1 ends earliest.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (i, &(_, place)) in places.iter().enumerate() {
        let n = ends.partition_point(|&e| places[e].1 < place);
        before.push(n.checked_sub(1).map(|n| ends[n]));
        if n == ends.len() { ends.push(i) } else { ends[n] = i }
    }
    let mut found = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(i) = at {
        found.push(places[i]);
        at = before[i];
    }
    found.reverse();
    found
}

/// Hash of the last [`GRAM`] words.
#[derive(Default)]
struct Rolling {
    hash: u64,
    words: usize,
}

impl Rolling {
    /// `BASE` to the power of [`GRAM`].
    const OLDEST: u64 = BASE.wrapping_pow(GRAM as u32);

    /// Takes a word in, and the one [`GRAM`] before it out; the hash, once there are so many.
    fn push(&mut self, word: u32, leaving: Option<u32>) -> Option<u64> {
        // Words of one method are close together: spread them first.
        let spread = |w: u32| (u64::from(w) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(spread(word));
        if let Some(old) = leaving {
            self.hash = self.hash.wrapping_sub(spread(old).wrapping_mul(Self::OLDEST));
        }
        self.words += 1;
        // The low bits of a product depend on the low bits of its factors alone.
        (self.words >= GRAM).then_some(self.hash ^ self.hash >> 32)
    }
    /// The grams of `words`: where each begins, and its hash.
    fn over(words: &[u32]) -> impl Iterator<Item = (usize, u64)> {
        let mut rolling = Self::default();
        words.iter().enumerate().filter_map(move |(i, &word)| {
            let leaving = i.checked_sub(GRAM).map(|old| words[old]);
            rolling.push(word, leaving).map(|hash| (i + 1 - GRAM, hash))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::testing::words;

    fn found(a: &[u32], b: &[u32]) -> Option<(u64, u64)> {
        meet(&mut words(a), 0..a.len() as u64, &mut words(b), 0..b.len() as u64, (0, 0))
            .unwrap()
            .map(|m| m.place)
    }

    #[test]
    fn the_first_common_stretch_is_followed_back_to_its_begin() {
        let a: Vec<u32> = (0..500).collect();
        let b: Vec<u32> = [9000, 9001].into_iter().chain(200..300).collect();
        assert_eq!(found(&a, &b), Some((200, 2)));
        assert_eq!(found(&a, &b[..33]), None, "too short");
        assert_eq!(found(&a[..100], &b), None);
    }

    #[test]
    fn what_stands_in_the_wrong_order_is_left_out() {
        let a: Vec<u32> = (0..500).collect();
        // A stretch of long ago first, then what goes on.
        let b: Vec<u32> = (400..440).chain(100..300).collect();
        assert_eq!(found(&a, &b), Some((100, 40)));
    }

    #[test]
    fn in_a_loop_the_place_that_fits_longest_is_taken() {
        let round: Vec<u32> = (0..40).collect();
        let a: Vec<u32> = [round.repeat(5), (100..104).collect()].concat();
        let b: Vec<u32> = [round.repeat(3), (100..104).collect()].concat();
        assert_eq!(found(&a, &b[..124]), Some((80, 0)));
    }

    #[test]
    fn chains() {
        assert_eq!(chain(&[(0, 9), (1, 3), (2, 4), (3, 20), (4, 5)]), [(1, 3), (2, 4), (4, 5)]);
        assert_eq!(chain(&[]), []);
    }
}
