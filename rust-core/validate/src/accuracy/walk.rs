// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The alignment of a tested sequence with a reference: in order, one to one, in bounded time
//! and memory.
//!
//! The walk follows both sequences while they are equal. It stops where they differ, or where
//! the tested sequence is *cut*: words are missing there, and the times of both flows bound
//! where in the reference the tested sequence resumes. The walk then searches windows of
//! growing size for a *meeting*: an index in each sequence from which on both are equal again
//! ([`meet`](super::meet)). The range up to the meeting is aligned by a longest common
//! subsequence ([`jportal_lcs`]), up to [`BOUND`] at once. A larger range is aligned in chunks,
//! backwards from the meeting. If there is no meeting, the range is divided into parts of equal
//! share on both sides, and each part is aligned by itself.
//!
//! The times of both sequences guide the search ([`Guide`]). Where both sequences have the same
//! time, they correspond to each other if the words around agree (an *anchor*). Anchors are
//! tried first. Where both sequences are equal but an anchor says that they do not correspond,
//! as may happen in loops, the search for a meeting starts anew. Between anchors, the search
//! only considers indices that the times allow. So a wrong meeting costs at most the words up
//! to the next time. Words that were aligned too early after a cut are moved later
//! ([`late`](super::late)).
//!
//! Whatever the heuristics choose, the result is a list of disjoint equal stretches that are in
//! order on both sides: a common subsequence, never longer than the longest one.
//!
//! Cost: where a word of the tested sequence fits, it is compared a bounded number of times.
//! Where nothing fits, one scan of the reference's largest window passes over at least half of
//! the largest tested window. Aligning a range costs `BOUND.cells.sqrt() / 64` steps a word.
//! Memory: the largest tested window with its table, and `BOUND.cells / 8` bytes each for rows
//! and for masks.

use std::io;
use std::ops::Range;

use super::late::Late;
use super::meet::{GRAM, Meeting, SearchRanges, equal, equal_before, meet};
use super::times::Guide;
use super::words::Words;
use jportal_lcs::{Bound, both_ends, divided, pairs};

/// The limit of one longest common subsequence.
const BOUND: Bound = Bound { cells: 1 << 27, side: 1 << 20 };
/// The limit where the result must be a longest common subsequence of both sides
/// ([`subsequence`]).
const LARGE: Bound = Bound { cells: 1 << 34, side: 1 << 22 };
/// Windows of the search for a meeting: words of the tested sequence, and words of the
/// reference after the index where the meeting is expected.
const WINDOWS: [(u64, u64); 4] =
    [(1 << 10, 1 << 13), (1 << 12, 1 << 16), (1 << 14, 1 << 19), (1 << 17, 1 << 22)];
/// Anchors that are tried before the search by words alone.
const ANCHORS: usize = 16;
/// Least number of pairs of words for which a range is divided at an anchor.
const PIECE: u64 = 1 << 20;
/// How much of the reference a tested part that is anchored at one end only may span: factor
/// per word, and constant.
const SPAN: (u64, u64) = (4, 4096);
/// Words of the tested sequence per chunk, when a range is too large and is aligned backwards
/// from a meeting.
const CHUNK: u64 = 1 << 12;

/// Words are missing in the tested sequence before index `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Index in the tested sequence.
    pub(crate) at: u64,
    /// Index in the reference before which the words before the cut end.
    pub(crate) before: u64,
    /// Index in the reference at or after which the words after the cut begin.
    pub(crate) from: u64,
    /// Index in the reference up to which the first word after the cut is expected.
    pub(crate) to: u64,
}

/// An equal stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Index in the reference.
    pub(crate) reference: u64,
    /// Index in the tested sequence.
    pub(crate) tested: u64,
    pub(crate) len: u64,
}

/// Receives equal stretches in order, together with the sequences, which it may read.
pub(crate) trait Matches {
    fn found(&mut self, reference: &mut Words, tested: &mut Words, found: Match) -> io::Result<()>;
}

/// Aligns `tested` with `reference`. `cuts` are in order; `guide` gives the correspondence by
/// times.
pub(crate) fn align(
    reference: (&mut Words, Range<u64>),
    tested: (&mut Words, Range<u64>),
    (cuts, guide): (&[Cut], &Guide),
    to: &mut dyn Matches,
) -> io::Result<()> {
    let (i, j) = (reference.1.start, tested.1.start);
    let cuts: Vec<Cut> = cuts.iter().filter(|c| tested.1.contains(&c.at)).copied().collect();
    let mut late = Late::new(&cuts, guide, to);
    let mut walk = SequenceWalk {
        a: &mut *reference.0,
        b: &mut *tested.0,
        ends: (reference.1.end, tested.1.end),
        i,
        j,
        cuts: cuts.clone(),
        passed: 0,
        guide,
        to: &mut late,
    };
    walk.run()?;
    late.flush(reference.0, tested.0)
}

/// Aligns `tested` with `reference` by a longest common subsequence. Sequences larger than
/// [`LARGE`] are divided into parts of equal share. The common prefix and suffix are always
/// aligned, because some longest common subsequence contains them. If together they cover all
/// of one sequence, see [`both_ends`].
pub(crate) fn subsequence(
    (reference, a): (&mut Words, Range<u64>),
    (tested, b): (&mut Words, Range<u64>),
    to: &mut dyn Matches,
) -> io::Result<()> {
    let front = equal(reference, a.clone(), tested, b.clone(), u64::MAX)?;
    let end = equal_before(reference, a.clone(), tested, b.clone())?;
    let shorter = (a.end - a.start).min(b.end - b.start);
    let (front, end) = both_ends(front, end, shorter);
    let (a, b) = (a.start + front..a.end - end, b.start + front..b.end - end);
    let mut stretch = |reference: &mut Words, tested: &mut Words, (i, j), len| match len {
        0 => Ok(()),
        _ => to.found(reference, tested, Match { reference: i, tested: j, len }),
    };
    stretch(reference, tested, (a.start - front, b.start - front), front)?;
    between((reference, a.clone()), (tested, b.clone()), &mut stretch)?;
    stretch(reference, tested, (a.end, b.end), end)
}

/// `range` is relative to `start`; returns it as indices of the whole sequence.
fn shifted(range: &Range<u64>, start: u64) -> Range<u64> {
    start + range.start..start + range.end
}

/// Receives a stretch: the sequences, its first index in either, and its length.
type Stretch<'s> = dyn FnMut(&mut Words, &mut Words, (u64, u64), u64) -> io::Result<()> + 's;

/// As [`subsequence`], for ranges without a common prefix or suffix.
fn between(
    (reference, a): (&mut Words, Range<u64>),
    (tested, b): (&mut Words, Range<u64>),
    stretch: &mut Stretch<'_>,
) -> io::Result<()> {
    for (ours, theirs) in LARGE.shares(a.end - a.start, b.end - b.start) {
        let (ours, theirs) = (shifted(&ours, a.start), shifted(&theirs, b.start));
        let (x, y) = (reference.range(ours.clone())?, tested.range(theirs.clone())?);
        let pairs = divided(&x, &y, BOUND.cells as usize);
        for s in pairs.chunk_by(|x, y| (x.0 + 1, x.1 + 1) == *y) {
            let (i, j) = (ours.start + s[0].0 as u64, theirs.start + s[0].1 as u64);
            stretch(reference, tested, (i, j), s.len() as u64)?;
        }
    }
    Ok(())
}

struct SequenceWalk<'a> {
    a: &'a mut Words,
    b: &'a mut Words,
    ends: (u64, u64),
    /// The reference is done up to this index.
    i: u64,
    /// The tested sequence is done up to this index.
    j: u64,
    cuts: Vec<Cut>,
    /// Number of cuts that are done.
    passed: usize,
    guide: &'a Guide,
    to: &'a mut dyn Matches,
}

impl SequenceWalk<'_> {
    fn run(&mut self) -> io::Result<()> {
        // A range that is small enough is solved exactly at once.
        let (n, m) = (self.ends.0 - self.i, self.ends.1 - self.j);
        if self.cuts.is_empty() && BOUND.parts(n, m) == 1 {
            return self.hole((self.ends.0, self.ends.1));
        }
        while self.i < self.ends.0 && self.j < self.ends.1 {
            if self.next_cut().is_none_or(|c| c.at > self.j) {
                let stop = self.next_cut().map_or(self.ends.1, |c| c.at);
                let n = self.equal(stop)?;
                self.matched(self.i, self.j, n)?;
                if self.j == stop {
                    continue;
                }
            }
            match self.meeting()? {
                Some(place) => self.bridge(place, true)?,
                None => return self.bridge(self.ends, false),
            }
        }
        Ok(())
    }

    /// The number of equal words from here on, up to index `stop` of the tested sequence and up
    /// to where the times contradict the correspondence.
    fn equal(&mut self, stop: u64) -> io::Result<u64> {
        let mut n = 0;
        loop {
            let (i, j) = (self.i + n, self.j + n);
            let told = self.guide.next(j).map_or(stop, |at| at.min(stop));
            n += equal(self.a, i..self.ends.0, self.b, j..told, u64::MAX)?;
            let (i, j) = (self.i + n, self.j + n);
            if j < told || told == stop || !self.guide.allows(j, i) {
                return Ok(n);
            }
            let anchor = self.guide.anchors(j).first().filter(|a| a.0 == j && a.1 != i);
            if let Some(&(_, place)) = anchor
                && self.hold(place, j, stop, (self.i, self.j))?.is_some()
            {
                return Ok(n);
            }
        }
    }

    /// If enough words around `place` in the reference and `at` in the tested sequence are
    /// equal, returns where the equality begins, not before `floors`. The tested sequence is
    /// followed up to `stop`.
    fn hold(&mut self, place: u64, at: u64, stop: u64, floors: (u64, u64)) -> io::Result<Option<(u64, u64)>> {
        let ahead = equal(self.a, place..self.ends.0, self.b, at..stop, GRAM as u64)?;
        let back = equal_before(self.a, floors.0.min(place)..place, self.b, floors.1..at)?;
        Ok((ahead + back >= GRAM as u64).then_some((place - back, at - back)))
    }

    fn next_cut(&self) -> Option<Cut> {
        self.cuts.get(self.passed).copied()
    }

    fn matched(&mut self, reference: u64, tested: u64, len: u64) -> io::Result<()> {
        if len > 0 {
            self.to.found(self.a, self.b, Match { reference, tested, len })?;
        }
        (self.i, self.j) = (reference + len, tested + len);
        Ok(())
    }

    /// The next meeting, with no cut inside its equal words.
    fn meeting(&mut self) -> io::Result<Option<(u64, u64)>> {
        let (mut from, mut cut) = (self.j, self.passed);
        // The words before the first cut continue at the current index of the reference.
        let mut begin = self.i;
        let mut expected = self.i;
        loop {
            if let Some(c) = self.cuts.get(cut).filter(|c| c.at <= from) {
                (begin, expected) = (c.from.clamp(self.i, self.ends.0), c.to.clamp(self.i, self.ends.0));
                expected = expected.max(begin);
                cut += 1;
                continue;
            }
            let stop = self.cuts.get(cut).map_or(self.ends.1, |c| c.at);
            if let Some(place) = self.meeting_before(from..stop, begin, expected)? {
                return Ok(Some(place));
            }
            if stop == self.ends.1 {
                return Ok(None);
            }
            from = stop;
        }
    }

    /// The next meeting in a part without cuts, which begins in the reference at about
    /// `begin..=expected`. A meeting that does not convince is taken only if the larger windows
    /// have none that does.
    fn meeting_before(
        &mut self,
        part: Range<u64>,
        begin: u64,
        expected: u64,
    ) -> io::Result<Option<(u64, u64)>> {
        let guide = self.guide;
        let told = guide.anchors(part.start).iter().take_while(|a| a.0 < part.end);
        let floor = self.i;
        for &(at, place) in told.filter(|a| a.1 >= floor).take(ANCHORS) {
            if let Some(found) = self.hold(place, at, part.end, (self.i, part.start))? {
                return Ok(Some(found));
            }
        }
        let mut from = part.start;
        while from < part.end {
            let mut best: Option<Meeting> = None;
            let mut too_far = None;
            for (ours, theirs) in WINDOWS {
                let window = from..part.end.min(from + ours);
                let ((first, _), (_, end)) = (self.guide.around(from), self.guide.around(window.end - 1));
                let far = (expected + (from - part.start)).max(first).saturating_add(theirs);
                let end = self.ends.0.min(end);
                let within = begin.max(first)..end.min(far);
                if within.is_empty() {
                    too_far = Some(window.end);
                    continue;
                }
                let (floors, ends) = ((self.i, part.start), (self.ends.0, part.end));
                let w = SearchRanges { within, tested: window, ends, floors, guide };
                if let Some(found) = meet(self.a, self.b, &w)? {
                    // Without a cut, the nearest meeting is good enough.
                    if found.convincing || begin == self.i && expected == begin {
                        return Ok(Some(found.place));
                    }
                    if best.as_ref().is_none_or(|b| found.fits > b.fits) {
                        best = Some(found);
                    }
                }
                too_far = None;
                if from + ours >= part.end && far >= end {
                    break;
                }
            }
            if let Some(best) = best {
                return Ok(Some(best.place));
            }
            // Earlier words than this window's meeting are not searched for.
            from = too_far.unwrap_or(from + WINDOWS[WINDOWS.len() - 1].0 / 2);
        }
        Ok(None)
    }

    /// Aligns everything before `place`. `hangs`: both sequences are equal from `place` on.
    fn bridge(&mut self, place: (u64, u64), hangs: bool) -> io::Result<()> {
        // The cuts that divide the range.
        let first = self.passed;
        while self.next_cut().is_some_and(|c| c.at <= place.1) {
            self.passed += 1;
        }
        let cuts: Vec<Cut> = self.cuts[first..self.passed].to_vec();
        let (n, m) = (place.0 - self.i, place.1 - self.j);
        match cuts.first() {
            None => return self.hole(place),
            // A small range needs no times.
            Some(cut) if BOUND.parts(n, m) == 1 => return self.small_hole(place, cut.at),
            Some(_) => {}
        }
        let span = |len: u64| SPAN.0 * len + SPAN.1;
        // The part after the last cut is anchored at the meeting.
        let last = cuts.last().map_or(self.j, |c| c.at);
        let held = if hangs { place.0.saturating_sub(span(place.1 - last)).max(self.i) } else { place.0 };
        let mut begin = self.i;
        for (k, end) in cuts.iter().map(|c| c.at).chain([place.1]).enumerate() {
            let ours = k.checked_sub(1).map(|k| cuts[k]);
            let is_last = k == cuts.len();
            let until = match cuts.get(k) {
                _ if is_last && hangs => place.0,
                None => ours.map_or(place.0, |c| c.to.saturating_add(span(end - self.j))),
                Some(_) if ours.is_none() => self.i + span(end - self.j),
                Some(next) => next.before,
            };
            if let Some(c) = ours {
                begin = begin.max(if is_last && hangs { held } else { c.from });
            }
            begin = begin.max(self.i).min(place.0);
            let ceiling = if is_last { place.0 } else { held.max(begin) };
            self.i = begin;
            if is_last && hangs {
                self.backwards(begin..place.0, self.j..end)?;
            } else {
                self.subsequence(begin..until.clamp(begin, ceiling), self.j..end)?;
            }
            self.j = end;
        }
        (self.i, self.j) = place;
        Ok(())
    }

    fn hole(&mut self, place: (u64, u64)) -> io::Result<()> {
        if place == self.ends {
            self.subsequence(self.i..place.0, self.j..place.1)?;
        } else {
            self.backwards(self.i..place.0, self.j..place.1)?;
        }
        (self.i, self.j) = place;
        Ok(())
    }

    /// A range with a cut. The words before the cut belong to the equal words before the range,
    /// so they are aligned as early as possible; the words after the cut are aligned as late as
    /// possible.
    fn small_hole(&mut self, place: (u64, u64), cut: u64) -> io::Result<()> {
        let a = self.a.range(self.i..place.0)?;
        let b = self.b.range(self.j..place.1)?;
        let mut pairs = pairs(&a, &b);
        let behind = pairs.partition_point(|p| self.j + (p.1 as u64) < cut);
        let (early, late) = pairs.split_at_mut(behind);
        let mut next = 0;
        for (x, y) in early {
            // The current index is the latest possible one.
            *x = (next..*x).find(|&i| a[i] == b[*y]).unwrap_or(*x);
            next = *x + 1;
        }
        put_late(late, &a, &b);
        let (i, j) = (self.i, self.j);
        let mut stretches = pairs.chunk_by(|x, y| (x.0 + 1, x.1 + 1) == *y);
        stretches.try_for_each(|s| self.matched(i + s[0].0 as u64, j + s[0].1 as u64, s.len() as u64))?;
        (self.i, self.j) = place;
        Ok(())
    }

    /// Aligns two ranges after whose ends both sequences are equal. Ranges that are too large
    /// for one longest common subsequence are aligned in chunks from the end, because the
    /// decoder left out little there.
    fn backwards(&mut self, a: Range<u64>, b: Range<u64>) -> io::Result<()> {
        if BOUND.parts(a.end - a.start, b.end - b.start) == 1 {
            return self.subsequence(a, b);
        }
        let (a, b) = self.up_to_last_anchor(a, b)?;
        let (mut ends, mut found) = ((a.end, b.end), Vec::new());
        while ends.0 > a.start && ends.1 > b.start {
            let ours = ends.1.saturating_sub(CHUNK).max(b.start)..ends.1;
            let theirs = ends.0.saturating_sub(SPAN.0 * CHUNK + SPAN.1).max(a.start)..ends.0;
            let (a, b) = (self.a.range(theirs.clone())?, self.b.range(ours.clone())?);
            let mut pairs = pairs(&a, &b);
            // In loops, the pairs would otherwise be spread over the whole range and leave
            // nothing for the words before.
            put_late(&mut pairs, &a, &b);
            ends = (pairs.first().map_or(ends.0, |p| theirs.start + p.0 as u64), ours.start);
            found.extend(pairs.iter().rev().map(|p| (theirs.start + p.0 as u64, ours.start + p.1 as u64)));
        }
        found.reverse();
        let mut stretches = found.chunk_by(|x, y| (x.0 + 1, x.1 + 1) == *y);
        stretches.try_for_each(|s| self.matched(s[0].0, s[0].1, s.len() as u64))
    }

    /// If two ranges are too large for one longest common subsequence, aligns their parts
    /// before the last anchor, piece by piece, and returns the rest. This keeps words in place
    /// that no gram can confirm, for example where callees are known but their caller is not.
    fn up_to_last_anchor(&mut self, a: Range<u64>, b: Range<u64>) -> io::Result<(Range<u64>, Range<u64>)> {
        if BOUND.parts(a.end - a.start, b.end - b.start) == 1 {
            return Ok((a, b));
        }
        let guide = self.guide;
        let (mut i, mut j) = (a.start, b.start);
        for &(at, place) in guide.anchors(b.start).iter().take_while(|x| x.0 < b.end) {
            if (i..a.end).contains(&place) && at >= j && (place - i) * (at - j) >= PIECE {
                self.backwards(i..place, j..at)?;
                (i, j) = (place, at);
            }
        }
        Ok((i..a.end, j..b.end))
    }

    /// Aligns two ranges by longest common subsequences; leaves `i` after the last match.
    fn subsequence(&mut self, a: Range<u64>, b: Range<u64>) -> io::Result<()> {
        let (a, b) = self.up_to_last_anchor(a, b)?;
        for (ours, theirs) in BOUND.shares(a.end - a.start, b.end - b.start) {
            let (a, b) = (shifted(&ours, a.start), shifted(&theirs, b.start));
            let pairs = pairs(&self.a.range(a.clone())?, &self.b.range(b.clone())?);
            let mut stretches = pairs.chunk_by(|x, y| (x.0 + 1, x.1 + 1) == *y);
            stretches.try_for_each(|s| {
                self.matched(a.start + s[0].0 as u64, b.start + s[0].1 as u64, s.len() as u64)
            })?;
        }
        Ok(())
    }
}

/// Moves each of `pairs`, which are in order, to the last index in `a` that it can have.
pub(crate) fn put_late(pairs: &mut [(usize, usize)], a: &[u32], b: &[u32]) {
    let mut end = a.len();
    for (x, y) in pairs.iter_mut().rev() {
        *x = (*x..end).rfind(|&i| a[i] == b[*y]).unwrap_or(*x);
        end = *x;
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
