// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How many instructions the time of a gap was enough for.

/// What a thread executed and when, apart from its gaps.
///
/// The pace of a thread changes by orders of magnitude: between interpreter and compiled code, and wherever it waits for
/// the VM. What it was just in front of a gap and just behind it tells more of the time between than the mean of the run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paces {
    /// Instructions so far and time, ascending.
    marks: Vec<(u64, u64)>,
    /// Of each mark but the first, sums up to it: ticks and instructions of the stretches between marks without a gap.
    sums: Vec<(u64, u64)>,
    /// A gap has been noted behind the last mark.
    broken: bool,
    /// Stretches without a gap between two marks.
    stretches: u64,
}

/// Where a gap is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Instructions in front of it.
    pub at: u64,
    /// When it began and ended, as far as that is known.
    pub since: Option<u64>,
    /// See [`Self::since`].
    pub until: Option<u64>,
}

/// How many instructions there was time for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// So many at the pace around the gap.
    pub instructions: f64,
    /// By how much that may be wrong because time is told now and then only.
    pub slack: f64,
}

impl Expected {
    /// What a difference from it is measured with: some instructions are not told from none.
    pub const fn scale(&self) -> f64 {
        self.instructions.max(2.0 * self.slack).max(16.0)
    }
    /// How far a fill of `len` instructions is from it, in parts of its scale.
    pub fn misfit(&self, len: usize) -> f64 {
        (len as f64 - self.instructions).abs() / self.scale()
    }
}

/// Over so many times the time of a gap paces are taken on either side. Next to it a pace tells most where it stays what it is, over
/// longer times where it changes often; the mean of all is wrong by less than any of them.
const PARTS: [f64; 5] = [0.03, 0.1, 0.3, 1.0, 3.0];
/// Instructions over which a pace is taken at least.
const LEAST: u64 = 1 << 12;

impl Paces {
    /// So many instructions have been executed at `time`. Both ascend; what does not is left out.
    pub fn mark(&mut self, instructions: u64, time: u64) {
        let (ticks, sum) = self.sums.last().copied().unwrap_or_default();
        match self.marks.last() {
            Some((_, last)) if time <= *last => return,
            Some((at, last)) if !self.broken => {
                self.sums.push((ticks + time - last, sum + instructions.saturating_sub(*at)));
            }
            Some(_) => self.sums.push((ticks, sum)),
            None => self.sums.push((0, 0)),
        }
        self.stretches += u64::from(!self.broken && !self.marks.is_empty());
        self.marks.push((instructions, time));
        self.broken = false;
    }
    /// There is a gap here: what comes next has nothing to do with the last mark.
    pub fn gap(&mut self) {
        self.broken = true;
    }
    /// Instructions for which the time was enough between the marks next to a gap, less those that are known; `None` where there
    /// is no time on one side, or no pace.
    pub fn expected(&self, span: Span) -> Option<Expected> {
        let next = self.marks.partition_point(|m| m.0 <= span.at);
        // A mark at the gap is that of the instruction in front of it, or of the one behind.
        let before = self.marks[..next].last();
        let (since, known) = match (span.since, before) {
            (Some(since), _) => (since, 0),
            (None, Some((at, time))) => (*time, span.at - at),
            (None, None) => return None,
        };
        let (until, more) = match (span.until, self.marks.get(next)) {
            (Some(until), _) => (until, 0),
            (None, Some((at, time))) => (*time, at - span.at),
            (None, None) => return None,
        };
        let ticks = until.saturating_sub(since);
        let over = |part: f64| (ticks as f64 * part) as u64;
        let sides = |part| [self.in_front(next, over(part)), self.behind(next, over(part))];
        let paces: Vec<f64> = PARTS.into_iter().flat_map(sides).flatten().collect();
        let pace = paces.iter().sum::<f64>() / paces.len().max(1) as f64;
        (!paces.is_empty()).then(|| Expected {
            instructions: (ticks as f64 * pace - (known + more) as f64).max(0.0),
            slack: self.step() * pace,
        })
    }
    /// The mean time between two marks.
    fn step(&self) -> f64 {
        let ticks = self.sums.last().map_or(0, |s| s.0);
        ticks as f64 / self.stretches.max(1) as f64
    }
    /// Instructions per tick in at least `ticks` in front of mark `next`.
    fn in_front(&self, next: usize, ticks: u64) -> Option<f64> {
        let (time, sum) = *self.sums[..next].last()?;
        let enough = |s: &(u64, u64)| time - s.0 >= ticks && sum - s.1 >= LEAST;
        let from = self.sums[..next].partition_point(enough).saturating_sub(1);
        per_tick(self.sums[from], (time, sum))
    }
    /// The same behind it.
    fn behind(&self, next: usize, ticks: u64) -> Option<f64> {
        let (time, sum) = *self.sums.get(next)?;
        let enough = |s: &(u64, u64)| s.0 - time >= ticks && s.1 - sum >= LEAST;
        let to = next + self.sums[next..].partition_point(|s| !enough(s));
        per_tick((time, sum), self.sums[to.min(self.sums.len() - 1)])
    }
}

fn per_tick(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let ticks = to.0 - from.0;
    (ticks > 0).then(|| (to.1 - from.1) as f64 / ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten ticks an instruction, then, behind a gap of 2,000,000 ticks at 100,000 instructions, twenty.
    fn paces() -> Paces {
        let mut paces = Paces::default();
        (0..=100).for_each(|i| paces.mark(1000 * i, 10_000 * i));
        paces.gap();
        (0..=100).for_each(|i| paces.mark(100_500 + 1000 * i, 3_000_000 + 20_000 * i));
        paces
    }

    #[test]
    fn the_pace_on_both_sides_tells_how_much_there_was_time_for() {
        let span = Span { at: 100_000, since: None, until: None };
        // 2,000,000 ticks at 0.075 instructions each, of which 500 are known.
        let instructions = |span| paces().expected(span).map(|e| e.instructions.round());
        assert_eq!(instructions(span), Some(149_500.0));
        let span = Span { at: 100_000, since: Some(1_000_000), until: Some(1_100_000) };
        assert_eq!(instructions(span), Some(7500.0));
    }

    #[test]
    fn what_lies_across_a_gap_is_no_pace() {
        let mut paces = paces();
        paces.gap();
        paces.mark(200_501, 1 << 40);
        let instructions = |ticks| {
            let span = Span { at: 200_500, since: Some(0), until: Some(ticks) };
            paces.expected(span).map(|e| e.instructions.round())
        };
        // In front 0.05 in the last 2,000,000 ticks, which count for 300,000 and 1,000,000; over all 3,000,000 a fifteenth. Behind
        // nobody knows.
        assert_eq!(instructions(10_000_000), Some(600_000.0));
        // What is far from a shorter gap says less of it.
        assert_eq!(instructions(3_000_000), Some(170_000.0));
    }

    #[test]
    fn without_time_nothing_is_expected() {
        assert_eq!(Paces::default().expected(Span::default()), None);
        let mut paces = Paces::default();
        paces.mark(10, 100);
        assert_eq!(paces.expected(Span { at: 20, since: None, until: Some(500) }), None);
        paces.mark(30, 90);
        assert_eq!(paces, {
            let mut one = Paces::default();
            one.mark(10, 100);
            one
        });
    }
}
