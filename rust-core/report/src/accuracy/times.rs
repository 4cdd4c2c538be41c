// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where in a thread's flow which time was.

/// Entries kept; a power of two.
const KEPT: usize = 1 << 16;
/// Words by which a place may be off: the same time need not be told at the very same word in both flows.
const SLACK: u64 = 1 << 13;

/// Times of a flow by its bytecodes, thinned to at most [`KEPT`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Bytecodes before the time, and the time (TSC); both grow.
    entries: Vec<(u64, u64)>,
    /// One in 2^`thinned` times is kept. Which, the time itself decides, so that two flows keep the same ones.
    thinned: u32,
}

impl Times {
    /// What follows behind `at` bytecodes happened at or after `tsc`.
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
    /// Appends those of a flow that goes on behind `at` bytecodes.
    pub(crate) fn append(&mut self, at: u64, other: &Self) {
        other.entries.iter().for_each(|e| self.push(at + e.0, e.1));
    }
    /// The bytecodes between which time `tsc` lies, a step further out on either side, because clocks that were
    /// interrupted estimate. `len`: bytecodes of the flow.
    pub(crate) fn around(&self, tsc: u64, len: u64) -> (u64, u64) {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        let before = n.checked_sub(2).map_or(0, |n| self.entries[n].0);
        (before, self.entries.get(n + 1).map_or(len, |e| e.0))
    }
    /// All before the returned bytecode ran before `tsc`.
    pub(crate) fn before(&self, tsc: u64) -> u64 {
        let n = self.entries.partition_point(|e| e.1 <= tsc);
        n.checked_sub(1).map_or(0, |n| self.entries[n].0)
    }
    /// All from the returned bytecode on ran at `tsc` or later. `len`: bytecodes of the flow.
    pub(crate) fn behind(&self, tsc: u64, len: u64) -> u64 {
        self.entries.get(self.entries.partition_point(|e| e.1 < tsc)).map_or(len, |e| e.0)
    }
}

/// Whether a time stays if one in 2^`thinned` does.
fn is_kept(tsc: u64, thinned: u32) -> bool {
    let mixed = (tsc ^ tsc >> 17).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
    mixed.trailing_zeros() >= thinned
}

/// Where in a reference the words of another flow of the same run stand, by the times of both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guide {
    /// Words before, and the places between which they go on; all three grow.
    entries: Vec<(u64, (u64, u64))>,
    /// Where both tell the very same time: words before it in the tested flow and in the reference; both grow.
    anchors: Vec<(u64, u64)>,
}

impl Guide {
    /// `len`: words of the reference.
    pub(crate) fn new(reference: &Times, len: u64, tested: &Times) -> Self {
        // Without times on either side nothing is told.
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
    /// The first place in the reference at which word `at` may stand, and the first at which it may not.
    pub(crate) fn around(&self, at: u64) -> (u64, u64) {
        let n = self.entries.partition_point(|e| e.0 <= at);
        let from = n.checked_sub(1).map_or(0, |n| self.entries[n].1.0);
        (from.saturating_sub(SLACK), self.entries.get(n).map_or(u64::MAX, |e| e.1.1.saturating_add(SLACK)))
    }
    /// Whether word `at` may stand at `place`.
    pub(crate) fn allows(&self, at: u64, place: u64) -> bool {
        let (from, to) = self.around(at);
        (from..to).contains(&place)
    }
    /// Where both flows tell the same time, from word `at` on: the word, and its place in the reference. Both flows come from
    /// the same packets, so the two are the same moment but for what the decoder had not made out yet.
    pub(crate) fn anchors(&self, at: u64) -> &[(u64, u64)] {
        &self.anchors[self.anchors.partition_point(|a| a.0 < at)..]
    }
    /// The next word behind `at` of which more is told.
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
        // Half of it is missing.
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
