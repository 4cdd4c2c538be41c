// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Moves the words after a cut as late as possible.
//!
//! In a loop, the words after a cut equal the reference at many indices, and the alignment may
//! have chosen one that is some rounds too early. Then words of the reference are missing
//! further on, where there is no cut. If everything from the cut up to there also equals the
//! reference right before the next stretch, it is moved there. The number of equal words stays
//! the same, and the missing words are then missing at the cut. A few words may be missing in
//! between, for example where callees are known but not all of their callers. Words that are
//! one of several possible paths may be wrong: they may fit another round by chance, and if
//! they fit nowhere they do not separate the stretches on both sides of them.

use std::io;
use std::ops::Range;

use super::meet::equal_before;
use super::spool::SEVERAL_PATHS;
use super::times::Guide;
use super::walk::{Cut, Match, Matches, put_late};
use super::words::{WORD_BITS, Words};

/// Most words after a cut that may be moved.
const MOST: u64 = 1 << 16;
/// The same if words are missing in between, and how many may be missing.
const MOST_STREWN: u64 = 1 << 12;
const MISSING: u64 = 1 << 8;

/// Precedes another receiver of stretches and passes them on with a delay.
pub(crate) struct Late<'a> {
    cuts: &'a [Cut],
    guide: &'a Guide,
    to: &'a mut dyn Matches,
    /// The stretches since the last cut, as long as the tested sequence has nothing between
    /// them except words that are one of several paths.
    held: Vec<Match>,
}

impl<'a> Late<'a> {
    pub(crate) const fn new(cuts: &'a [Cut], guide: &'a Guide, to: &'a mut dyn Matches) -> Self {
        Self { cuts, guide, to, held: Vec::new() }
    }
    /// Passes on the stretches that are held: nothing more follows.
    pub(crate) fn flush(&mut self, reference: &mut Words, tested: &mut Words) -> io::Result<()> {
        self.held.drain(..).try_for_each(|m| self.to.found(reference, tested, m))
    }
    /// The held stretches as a range of the tested sequence.
    fn held_range(&self) -> Option<Range<u64>> {
        let (first, last) = (self.held.first()?, self.held.last()?);
        Some(first.tested..last.tested + last.len)
    }
    /// Takes a stretch that no cut divides; `cut`: a cut is right before it.
    fn part(
        &mut self,
        (reference, tested): (&mut Words, &mut Words),
        found: Match,
        cut: bool,
    ) -> io::Result<()> {
        let goes_on = match self.held_range() {
            Some(held) => found.tested - held.start <= MOST && are_choices(tested, held.end..found.tested)?,
            None => false,
        };
        if cut || !goes_on {
            self.flush(reference, tested)?;
        }
        match self.held_range() {
            Some(held) => self.put_before(reference, tested, held.start..found.tested, found)?,
            None if !cut => return self.to.found(reference, tested, found),
            None => {}
        }
        self.held.push(found);
        Ok(())
    }
    /// Moves the held stretches right before `next` if they fit there, too, and no time forbids
    /// it.
    fn put_before(
        &mut self,
        reference: &mut Words,
        tested: &mut Words,
        held: Range<u64>,
        next: Match,
    ) -> io::Result<()> {
        let len = held.end - held.start;
        let (first, last) = (self.held[0], self.held[self.held.len() - 1]);
        let Some(place) = next.reference.checked_sub(len) else { return Ok(()) };
        let mut told = self.guide.anchors(held.start).iter().take_while(|a| a.0 < held.end);
        let elsewhere = told.any(|a| a.1 != place + (a.0 - held.start));
        if last.reference + last.len == next.reference || elsewhere {
            return Ok(());
        }
        let before = first.reference..next.reference;
        if equal_before(reference, before, tested, held.clone())? == len {
            self.held = vec![Match { reference: place, tested: held.start, len }];
            return Ok(());
        }
        let there = match even_before(reference, tested, held.clone(), next)? {
            None => strewn_before(reference, tested, held, next)?,
            even => even,
        };
        let span = |all: &[Match]| all.first().map_or(u64::MAX, |m| next.reference - m.reference);
        if let Some(there) = there.filter(|there| span(there) < span(&self.held)) {
            self.held = there;
        }
        Ok(())
    }
}

/// Whether all words of a part of the tested sequence are one of several paths.
fn are_choices(tested: &mut Words, mut part: Range<u64>) -> io::Result<bool> {
    part.try_fold(true, |all, at| Ok(all && tested.raw(at)? >> WORD_BITS == SEVERAL_PATHS))
}

/// The stretches of `held` right before `next`, word for word, if every word fits there except
/// those that are one of several paths.
fn even_before(
    reference: &mut Words,
    tested: &mut Words,
    held: Range<u64>,
    next: Match,
) -> io::Result<Option<Vec<Match>>> {
    let place = next.reference - (held.end - held.start);
    let mut found: Vec<Match> = Vec::new();
    for (reference_at, at) in (place..).zip(held) {
        if reference.get(reference_at)? != tested.get(at)? {
            if tested.raw(at)? >> WORD_BITS != SEVERAL_PATHS {
                return Ok(None);
            }
        } else if let Some(last) = found.last_mut().filter(|last| last.tested + last.len == at) {
            last.len += 1;
        } else {
            found.push(Match { reference: reference_at, tested: at, len: 1 });
        }
    }
    Ok(Some(found))
}

/// The stretches of `held` before `next` with words of the reference missing in between, if
/// every word fits there except those that are one of several paths.
fn strewn_before(
    reference: &mut Words,
    tested: &mut Words,
    held: Range<u64>,
    next: Match,
) -> io::Result<Option<Vec<Match>>> {
    let len = held.end - held.start;
    if len > MOST_STREWN {
        return Ok(None);
    }
    let from = next.reference.saturating_sub(len + MISSING);
    let (a, b) = (reference.range(from..next.reference)?, tested.range(held.clone())?);
    let mut pairs = jportal_lcs::pairs(&a, &b);
    put_late(&mut pairs, &a, &b);
    let mut found = pairs.iter().map(|p| held.start + p.1 as u64).peekable();
    for at in held.clone() {
        if found.next_if_eq(&at).is_none() && tested.raw(at)? >> WORD_BITS != SEVERAL_PATHS {
            return Ok(None);
        }
    }
    let stretches = pairs.chunk_by(|x, y| (x.0 + 1, x.1 + 1) == *y).map(|s| {
        let (reference, tested) = (from + s[0].0 as u64, held.start + s[0].1 as u64);
        Match { reference, tested, len: s.len() as u64 }
    });
    Ok(Some(stretches.collect()))
}

impl Matches for Late<'_> {
    fn found(&mut self, reference: &mut Words, tested: &mut Words, mut found: Match) -> io::Result<()> {
        let mut cut = false;
        while let Some(next) = self.cuts.first().filter(|c| c.at < found.tested + found.len) {
            self.cuts = &self.cuts[1..];
            let (at, before) = (next.at, next.at.saturating_sub(found.tested));
            if before == 0 {
                // The words before the cut are not part of what follows it.
                self.flush(reference, tested)?;
                cut = are_choices(tested, at..found.tested)?;
            } else {
                self.part((reference, tested), Match { len: before, ..found }, cut)?;
                let (at, place) = (found.tested + before, found.reference + before);
                found = Match { reference: place, tested: at, len: found.len - before };
                cut = true;
            }
        }
        self.part((reference, tested), found, cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::testing::{All, words};
    use crate::accuracy::times::Times;

    /// The final stretches for those in `given`; `cut` is an index in the tested sequence.
    fn late(
        a: &[u32],
        b: &[u32],
        cut: u64,
        guide: &Guide,
        given: &[(u64, u64, u64)],
    ) -> Vec<(u64, u64, u64)> {
        let cuts = [Cut { at: cut, before: 0, from: 0, to: 0 }];
        let mut all = All::default();
        let mut late = Late::new(&cuts, guide, &mut all);
        let (mut a, mut b) = (words(a), words(b));
        for &(reference, tested, len) in given {
            late.found(&mut a, &mut b, Match { reference, tested, len }).unwrap();
        }
        late.flush(&mut a, &mut b).unwrap();
        all.0.iter().map(|m| (m.reference, m.tested, m.len)).collect()
    }

    /// Front, three rounds of a loop, end. The tested sequence lacks one of the rounds; the
    /// tests add its end.
    const TRUTH: [u32; 12] = [7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8, 9];
    const TESTED: [u32; 7] = [7, 1, 2, 3, 1, 2, 3];

    #[test]
    fn what_is_missing_is_missing_at_the_cut() {
        let tested = [&TESTED[..], &[8, 9]].concat();
        let nowhere = Guide::default();
        // The round after the cut is the last one.
        let found = late(&TRUTH, &tested, 4, &nowhere, &[(0, 0, 7), (10, 7, 2)]);
        assert_eq!(found, [(0, 0, 4), (7, 4, 3), (10, 7, 2)]);
        // The words are spread over two rounds; they move into the last one.
        let found = late(&TRUTH, &tested, 4, &nowhere, &[(0, 0, 5), (5, 5, 1), (9, 6, 1), (10, 7, 2)]);
        assert_eq!(found, [(0, 0, 4), (7, 4, 2), (9, 6, 1), (10, 7, 2)]);
    }

    #[test]
    fn words_that_are_missing_in_between_are_few() {
        // A thousand rounds. After the cut come the last two, without the first word of the
        // last one.
        let truth: Vec<u32> = (0..3000).map(|n| n % 3).chain([8, 9]).collect();
        let tested = [0, 1, 2, 0, 1, 2, 1, 2, 8, 9];
        let given = [(0, 0, 6), (7, 6, 2), (3000, 8, 2)];
        let found = late(&truth, &tested, 3, &Guide::default(), &given);
        assert_eq!(found, [(0, 0, 3), (2994, 3, 3), (2998, 6, 2), (3000, 8, 2)]);
    }

    #[test]
    fn one_of_several_paths_may_be_wrong() {
        let truth: Vec<u32> = (0..3000).map(|n| n % 3).chain([8, 9]).collect();
        let several = |n: u32| n | SEVERAL_PATHS << WORD_BITS;
        // The round after the cut ends otherwise than the last one does.
        let truth = [&truth[..6], &[5], &truth[6..]].concat();
        let given = [(0, 0, 3), (3, 3, 4), (3001, 7, 2)];
        let tested = [0, 1, 2, 0, 1, 2, several(5), 8, 9];
        let found = late(&truth, &tested, 3, &Guide::default(), &given);
        assert_eq!(found, [(0, 0, 3), (2998, 3, 3), (3001, 7, 2)]);
        let tested = [0, 1, 2, 0, 1, 2, 5, 8, 9];
        assert_eq!(late(&truth, &tested, 3, &Guide::default(), &given), given, "it is no choice");
    }

    #[test]
    fn one_of_several_paths_tells_no_round() {
        // Three equal rounds, then three that begin otherwise. After the cut comes the last
        // one, whose first word was placed as that of one of the first three.
        let truth: Vec<u32> =
            [[4, 2, 3], [5, 2, 3]].iter().flat_map(|round| round.repeat(3)).chain([8, 9]).collect();
        let several = |n: u32| n | SEVERAL_PATHS << WORD_BITS;
        let tested = [4, 2, 3, several(4), 2, 3, 8, 9];
        let given = [(0, 0, 6), (18, 6, 2)];
        let found = late(&truth, &tested, 3, &Guide::default(), &given);
        assert_eq!(found, [(0, 0, 3), (16, 4, 2), (18, 6, 2)]);
        // A word that fits nowhere is between the words after the cut and the next stretch.
        let tested = [4, 2, 3, 2, 3, several(7), 8, 9];
        let truth = [&truth[..18], &[6], &truth[18..]].concat();
        let found = late(&truth, &tested, 3, &Guide::default(), &[(0, 0, 3), (4, 3, 2), (19, 6, 2)]);
        assert_eq!(found, [(0, 0, 3), (16, 3, 2), (19, 6, 2)]);
        // The same with that word right after the cut: the words after it move late, the words
        // before the cut do not.
        let tested = [4, 2, 3, several(7), 2, 3, 6, 8, 9];
        let found = late(&truth, &tested, 3, &Guide::default(), &[(0, 0, 3), (4, 4, 2), (18, 6, 3)]);
        assert_eq!(found, [(0, 0, 3), (16, 4, 2), (18, 6, 3)]);
        let (tested, given) = ([4, 2, 3, 7, 2, 3, 6, 8, 9], [(0, 0, 3), (4, 4, 2), (18, 6, 3)]);
        assert_eq!(late(&truth, &tested, 3, &Guide::default(), &given), given, "it is no choice");
    }

    #[test]
    fn what_does_not_stand_there_stays() {
        let nowhere = Guide::default();
        // No cut within the stretches; words that are not equal; tested words in between that
        // equal nothing.
        let tested = [&TESTED[..], &[8, 9]].concat();
        assert_eq!(late(&TRUTH, &tested, 9, &nowhere, &[(0, 0, 7), (10, 7, 2)]), [(0, 0, 7), (10, 7, 2)]);
        let given = [(0, 0, 1), (1, 1, 6), (10, 7, 2)];
        assert_eq!(late(&TRUTH, &tested, 1, &nowhere, &given)[1], (4, 1, 6), "two rounds stand there, too");
        let other = [7, 5, 2, 3, 1, 2, 3, 1, 2, 3, 8, 9];
        let tested = [7, 5, 2, 3, 8, 9];
        let given = [(0, 0, 1), (1, 1, 3), (10, 4, 2)];
        assert_eq!(late(&other, &tested, 1, &nowhere, &given), given);
        let wrong = [&TESTED[..], &[6, 8, 9]].concat();
        let given = [(0, 0, 4), (4, 4, 3), (10, 8, 2)];
        assert_eq!(late(&TRUTH, &wrong, 4, &nowhere, &given), given);
    }

    #[test]
    fn a_time_holds_what_it_is_reported_of() {
        let (mut of_truth, mut of_tested) = (Times::default(), Times::default());
        (0..12).for_each(|n| of_truth.push(n, 100 + n));
        // The fifth word has the time of the fifth word of the truth.
        of_tested.push(4, 104);
        let guide = Guide::new(&of_truth, 12, &of_tested);
        let tested = [&TESTED[..], &[8, 9]].concat();
        let given = [(0, 0, 4), (4, 4, 3), (10, 7, 2)];
        assert_eq!(late(&TRUTH, &tested, 4, &guide, &given), given);
    }
}
