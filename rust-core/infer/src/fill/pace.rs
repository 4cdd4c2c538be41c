// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Estimates how many instructions there was time for in a gap.

/// What a thread executed and when, without its gaps.
///
/// The pace of a thread changes by orders of magnitude: between interpreter and compiled code,
/// and wherever the thread waits for the VM. Its pace just before and just after a gap says
/// more about the gap than the mean of the execution.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Paces {
    /// Number of instructions so far, and time; ascending.
    marks: Vec<(u64, u64)>,
    /// For each mark, the sums of ticks and of instructions up to it, over the intervals
    /// between marks without a gap.
    sums: Vec<(u64, u64)>,
    /// Whether a gap was noted after the last mark.
    broken: bool,
    /// Number of intervals between two marks without a gap.
    stretches: u64,
}

/// The position of a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Number of instructions before it.
    pub at: u64,
    /// When it began, if known.
    pub since: Option<u64>,
    /// When it ended, if known.
    pub until: Option<u64>,
}

/// An estimate of how many instructions there was time for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// The number of instructions at the pace around the gap.
    pub instructions: f64,
    /// How far that may be off because times are known only now and then.
    pub slack: f64,
}

impl Expected {
    /// The unit in which a difference from the estimate is measured. It has a minimum, because
    /// the estimate cannot distinguish some instructions from none.
    pub const fn scale(&self) -> f64 {
        self.instructions.max(2.0 * self.slack).max(16.0)
    }
    /// How far a fill of `len` instructions is from the estimate, as a part of the scale.
    pub fn misfit(&self, len: usize) -> f64 {
        (len as f64 - self.instructions).abs() / self.scale()
    }
}

/// Paces are taken on either side of a gap, over these multiples of its time. Where the pace is
/// steady, the one next to the gap says most; where it changes often, the one over a longer
/// time. The mean of all has a smaller error than any of them.
const PARTS: [f64; 5] = [0.03, 0.1, 0.3, 1.0, 3.0];
/// Least number of instructions over which a pace is taken.
const LEAST: u64 = 1 << 12;

impl Paces {
    /// Notes that `instructions` have been executed at `time`. Both ascend; a mark whose time
    /// does not ascend is left out.
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
    /// Notes a gap: no pace is taken from the last mark to the next one.
    pub fn gap(&mut self) {
        self.broken = true;
    }
    /// The number of instructions there was time for between the marks next to a gap, without
    /// those that are known to have executed there. `None` if the time on one side or the pace
    /// is unknown.
    pub fn expected(&self, span: Span) -> Option<Expected> {
        let next = self.marks.partition_point(|m| m.0 <= span.at);
        // A mark at the gap belongs to the instruction before it or to the one after it.
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
    /// Instructions per tick over at least `ticks` before mark `next`.
    fn in_front(&self, next: usize, ticks: u64) -> Option<f64> {
        let (time, sum) = *self.sums[..next].last()?;
        let enough = |s: &(u64, u64)| time - s.0 >= ticks && sum - s.1 >= LEAST;
        let from = self.sums[..next].partition_point(enough).saturating_sub(1);
        per_tick(self.sums[from], (time, sum))
    }
    /// The same after mark `next`.
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

    /// Ten ticks per instruction up to 100,000 instructions; then a gap of 2,000,000 ticks;
    /// then twenty ticks per instruction.
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
        // 2,000,000 ticks at 0.075 instructions each; 500 of the instructions are known.
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
        // Before the gap, the pace is 0.05 over the last 300,000 and 1,000,000 ticks, and 1/15
        // over all 3,000,000 ticks for the three longer times. After the gap, it is unknown.
        assert_eq!(instructions(10_000_000), Some(600_000.0));
        // What is far away has less weight for a shorter gap.
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
