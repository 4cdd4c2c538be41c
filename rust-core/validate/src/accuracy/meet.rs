// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds where two sequences that differ are equal again.

use std::io;
use std::ops::Range;

use hashbrown::HashMap;

use super::times::Guide;
use super::words::Words;

/// Words of a gram: the least number of equal words in a row.
pub(crate) const GRAM: usize = 32;
/// Approximate number of grams of a window that vote.
const VOTERS: usize = 1 << 12;
/// Most votes in all; grams that occur at more indices vote later.
const VOTES: usize = 1 << 20;
/// Number of words up to which a meeting is followed to see whether it convinces.
const FOLLOWED: u64 = 4096;
/// Base of the rolling hash: odd, arbitrary.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The ranges of one search.
#[derive(Clone, Debug)]
pub(crate) struct SearchRanges<'a> {
    /// Range of the reference.
    pub(crate) within: Range<u64>,
    /// Range of the tested sequence whose grams are looked up.
    pub(crate) tested: Range<u64>,
    /// Ends of the sequences: both are followed up to here.
    pub(crate) ends: (u64, u64),
    /// Equality is not followed back beyond these indices.
    pub(crate) floors: (u64, u64),
    /// The indices that time allows for a word.
    pub(crate) guide: &'a Guide,
}

/// An index in the reference window and one in the tested window from which at least [`GRAM`]
/// words are equal.
///
/// Words that correspond lie on one diagonal (a fixed distance between the two indices), except
/// for the few words that the decoder left out. So the grams of the tested window vote for the
/// diagonals on which they occur, rare grams first. The function takes the first index on the
/// diagonal with the most votes; among equal diagonals, the one that has a vote first. Neither
/// a chance equality earlier in the window nor another round of a loop misleads it. From there
/// it follows the equality backwards to its beginning. Time is linear in both windows, memory
/// in the tested one.
pub(crate) fn meet(
    reference: &mut Words,
    tested: &mut Words,
    w: &SearchRanges<'_>,
) -> io::Result<Option<Meeting>> {
    let ours = tested.range(w.tested.clone())?;
    let every = ours.len().div_ceil(VOTERS).max(1);
    let mut voters: Vec<(usize, u64)> = Rolling::over(&ours).filter(|(at, _)| at % every == 0).collect();
    let mut places: HashMap<u64, Vec<u64>> = voters.iter().map(|v| (v.1, Vec::new())).collect();
    if voters.is_empty() {
        return Ok(None);
    }
    let mut rolling = Rolling::default();
    for at in w.within.clone() {
        let word = reference.get(at)?;
        let leaving = match at.checked_sub(GRAM as u64).filter(|&old| old >= w.within.start) {
            Some(old) => Some(reference.get(old)?),
            None => None,
        };
        if let Some(places) = rolling.push(word, leaving).and_then(|hash| places.get_mut(&hash)) {
            places.push(at + 1 - GRAM as u64);
        }
    }
    voters.retain(|v| places.get(&v.1).is_some_and(|p| !p.is_empty()));
    voters.sort_by_key(|v| places[&v.1].len());
    let (mut left, mut votes) = (VOTES, HashMap::<u64, (u64, usize)>::new());
    for (at, hash) in voters {
        let here = w.tested.start + at as u64;
        for place in places[&hash].iter().take(left).filter(|p| w.guide.allows(here, **p)) {
            let (n, first) = votes.entry(place.wrapping_sub(here)).or_insert((0, at));
            (*n, *first) = (*n + 1, at.min(*first));
        }
        left -= places[&hash].len().min(left);
    }
    // Grams with equal hashes but different words are rejected here.
    let mut order: Vec<(u64, u64, usize)> = votes.into_iter().map(|(d, (n, at))| (n, d, at)).collect();
    order.sort_unstable_by_key(|&(n, diagonal, at)| (std::cmp::Reverse(n), at, diagonal));
    for (_, diagonal, at) in order {
        let at = w.tested.start + at as u64;
        let place = at.wrapping_add(diagonal);
        let fits = equal(reference, place..w.ends.0, tested, at..w.ends.1, FOLLOWED)?;
        if fits < GRAM as u64 {
            continue;
        }
        let convincing = fits == FOLLOWED || at + fits == w.ends.1;
        let back = equal_before(reference, w.floors.0..place, tested, w.floors.1..at)?;
        return Ok(Some(Meeting { place: (place - back, at - back), fits: fits + back, convincing }));
    }
    Ok(None)
}

/// Where two sequences are equal again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meeting {
    /// Index in the reference and in the tested sequence.
    pub(crate) place: (u64, u64),
    /// Number of equal words around it, within the limit of the search.
    pub(crate) fits: u64,
    /// The sequences are equal for long, or up to the end of the tested part.
    pub(crate) convincing: bool,
}

/// Number of equal words from the fronts of two ranges on, at most `most`.
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

/// Number of equal words from the ends of two ranges backwards.
pub(crate) fn equal_before(
    a: &mut Words,
    in_a: Range<u64>,
    b: &mut Words,
    in_b: Range<u64>,
) -> io::Result<u64> {
    let most = (in_a.end - in_a.start).min(in_b.end - in_b.start);
    for n in 0..most {
        if a.get(in_a.end - 1 - n)? != b.get(in_b.end - 1 - n)? {
            return Ok(n);
        }
    }
    Ok(most)
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

    /// Adds a word and removes the one [`GRAM`] words before it. Returns the hash once the
    /// window holds [`GRAM`] words.
    fn push(&mut self, word: u32, leaving: Option<u32>) -> Option<u64> {
        // Words of one method have close values, so they are spread first.
        let spread = |w: u32| (u64::from(w) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(spread(word));
        if let Some(old) = leaving {
            self.hash = self.hash.wrapping_sub(spread(old).wrapping_mul(Self::OLDEST));
        }
        self.words += 1;
        // The low bits of a product depend only on the low bits of its factors.
        (self.words >= GRAM).then_some(self.hash ^ self.hash >> 32)
    }
    /// The grams of `words`: first index and hash.
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
        let all = |words: &[u32]| 0..words.len() as u64;
        let guide = Guide::default();
        let w = SearchRanges {
            within: all(a),
            tested: all(b),
            ends: (a.len() as u64, b.len() as u64),
            floors: (0, 0),
            guide: &guide,
        };
        meet(&mut words(a), &mut words(b), &w).unwrap().map(|m| m.place)
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
        // A stretch from another part of the reference first, then the one that continues.
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
}
