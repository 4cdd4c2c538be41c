// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The times of a thread's flow, by number of bytecodes.

/// Most entries kept; a power of two.
const KEPT: usize = 1 << 16;
/// Number of words by which an index may be off: the two flows need not have the same time at
/// the very same word.
const SLACK: u64 = 1 << 13;

/// Times of a flow by its bytecodes, thinned to at most [`KEPT`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Number of bytecodes before the time, and the time (TSC); both ascending.
    entries: Vec<(u64, u64)>,
    /// One in 2^`thinned` times is kept. The time itself decides which, so that two flows keep
    /// the same ones.
    thinned: u32,
}

impl Times {
    /// The bytecodes after the first `at` ran at or after `tsc`.
    pub(crate) fn push(&mut self, at: u64, tsc: u64) {
        if !is_kept(tsc, self.thinned) || self.entries.last().is_some_and(|e| e.1 >= tsc) {
            return;
        }
        self.entries.push((at, tsc));
        if self.entries.len() == KEPT {
            self.thinned += 1;
            let thinned = self.thinned;
            self.entries.retain(|e| is_kept(e.1, thinned));
        }
    }
    /// Appends the times of a flow that follows after `at` bytecodes.
    pub(crate) fn append(&mut self, at: u64, other: &Self) {
        other.entries.iter().for_each(|e| self.push(at + e.0, e.1));
    }
    /// The range of bytecodes in which time `tsc` lies, extended by one entry on either side,
    /// because the clock estimates after an interruption. `len`: number of bytecodes of the
    /// flow.
    pub(crate) fn around(&self, tsc: u64, len: u64) -> (u64, u64) {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        let before = n.checked_sub(2).map_or(0, |n| self.entries[n].0);
        (before, self.entries.get(n + 1).map_or(len, |e| e.0))
    }
    /// All bytecodes before the returned index ran before `tsc`.
    pub(crate) fn before(&self, tsc: u64) -> u64 {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        n.checked_sub(1).map_or(0, |n| self.entries[n].0)
    }
    /// All bytecodes from the returned index on ran at `tsc` or later. `len`: number of
    /// bytecodes of the flow.
    pub(crate) fn behind(&self, tsc: u64, len: u64) -> u64 {
        self.entries.get(self.entries.partition_point(|e| e.1 < tsc)).map_or(len, |e| e.0)
    }
}

/// Whether a time is kept when one in 2^`thinned` is.
fn is_kept(tsc: u64, thinned: u32) -> bool {
    let mixed = (tsc ^ tsc >> 17).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
    mixed.trailing_zeros() >= thinned
}

/// Where in a reference the words of another flow of the same run are, by the times of both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guide {
    /// Number of words before, and the range of the reference in which the flow continues
    /// there; all three ascending.
    entries: Vec<(u64, (u64, u64))>,
    /// Where both flows have the same time: number of words before it in the tested flow and in
    /// the reference; both ascending.
    anchors: Vec<(u64, u64)>,
}

impl Guide {
    /// `len`: number of words of the reference.
    pub(crate) fn new(reference: &Times, len: u64, tested: &Times) -> Self {
        // Without times of the reference, nothing is known.
        if reference.entries.is_empty() {
            return Self::default();
        }
        let entries = tested.entries.iter().map(|&(at, tsc)| (at, reference.around(tsc, len))).collect();
        let (mut anchors, mut theirs) = (Vec::new(), reference.entries.iter().peekable());
        for &(at, tsc) in &tested.entries {
            while theirs.next_if(|e| e.1 < tsc).is_some() {}
            if let Some(same) = theirs.next_if(|e| e.1 == tsc) {
                anchors.push((at, same.0));
            }
        }
        Self { entries, anchors }
    }
    /// The first index in the reference that word `at` may have, and the first after it that it
    /// may not have.
    pub(crate) fn around(&self, at: u64) -> (u64, u64) {
        let n = self.entries.partition_point(|e| e.0 <= at);
        let from = n.checked_sub(1).map_or(0, |n| self.entries[n].1.0);
        (from.saturating_sub(SLACK), self.entries.get(n).map_or(u64::MAX, |e| e.1.1.saturating_add(SLACK)))
    }
    /// Whether word `at` may be at index `place` of the reference.
    pub(crate) fn allows(&self, at: u64, place: u64) -> bool {
        let (from, to) = self.around(at);
        (from..to).contains(&place)
    }
    /// Where both flows have the same time, from word `at` on: the word, and its index in the
    /// reference. Both flows come from the same packets, so the two are the same moment, except
    /// for bytecodes that one decode reported later than the other.
    pub(crate) fn anchors(&self, at: u64) -> &[(u64, u64)] {
        &self.anchors[self.anchors.partition_point(|a| a.0 < at)..]
    }
    /// The next word after `at` for which the bounds change.
    pub(crate) fn next(&self, at: u64) -> Option<u64> {
        self.entries.get(self.entries.partition_point(|e| e.0 <= at)).map(|e| e.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_is_as_exact_as_the_times_of_both() {
        let (mut reference, mut tested) = (Times::default(), Times::default());
        (0..100).for_each(|i| reference.push(SLACK * i, 10 * i));
        // The tested flow lacks part of the reference.
        [0, 10, 70, 80].into_iter().enumerate().for_each(|(i, n)| tested.push(SLACK * i as u64, 10 * n));
        let guide = Guide::new(&reference, 100 * SLACK, &tested);
        let at = |n| guide.around(SLACK * n);
        assert_eq!(
            [at(0), at(1), at(2), at(3)].map(|x| (x.0 / SLACK, x.1.checked_div(SLACK).filter(|&n| n < 101))),
            [(0, Some(13)), (8, Some(73)), (68, Some(83)), (78, None)]
        );
        assert_eq!((guide.next(0), guide.next(3 * SLACK)), (Some(SLACK), None));
        let nothing = Guide::new(&Times::default(), 9, &tested);
        assert_eq!((nothing.around(5), nothing.next(0)), ((0, u64::MAX), None));
    }

    #[test]
    fn places_of_times() {
        let mut t = Times::default();
        [(0, 100), (50, 200), (50, 300), (90, 400)].into_iter().for_each(|(at, tsc)| t.push(at, tsc));
        assert_eq!(
            [50, 100, 150, 200, 299, 399, 400, 900].map(|x| t.before(x)),
            [0, 0, 0, 50, 50, 50, 90, 90]
        );
        assert_eq!(
            [50, 100, 150, 200, 201, 399, 400, 900].map(|x| t.behind(x, 120)),
            [0, 0, 50, 50, 50, 90, 90, 120]
        );
        assert_eq!(t.around(250, 120), (0, 90));
        assert_eq!((t.around(50, 120), t.around(350, 120)), ((0, 50), (50, 120)));
        assert_eq!(Times::default().around(7, 120), (0, 120));
    }

    #[test]
    fn a_long_flow_has_its_times_thinned() {
        let mut t = Times::default();
        (0..10 * KEPT as u64).for_each(|i| t.push(10 * i, 7 * i));
        assert!(t.entries.len() < KEPT && t.entries.len() > KEPT / 4);
        let (from, to) = t.around(7 * 500_000, u64::MAX);
        assert!(
            (4_999_000..=5_000_000).contains(&from) && (5_000_000..5_001_000).contains(&to),
            "{from} {to}"
        );
        assert!(t.before(7 * 500_000) <= 5_000_000 && t.behind(7 * 500_000, u64::MAX) >= 5_000_000);
    }
}
