// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Estimates how many bytecodes a gap hides, from the rate of bytecodes captured near the gap.

use std::collections::VecDeque;

/// The window of captured time on either side of a gap that the estimate uses. It is `TIMES`
/// the ticks that the gap hides, but at least `LEAST` and at most `MOST` ticks. With a smaller
/// window, the estimate would take the activity that filled the buffer for the activity that
/// followed it. With a larger window it would include start-up or another phase.
const TIMES: u64 = 2;
const LEAST: u64 = 1 << 22;
const MOST: u64 = 1 << 30;

/// A gap that waits for the rate of bytecodes around it.
#[derive(Clone, Copy, Debug)]
struct Asks {
    gap: usize,
    at: u64,
    window: u64,
    ticks: u64,
}

/// The bytecodes of a thread over its captured time. That clock stops while the thread is not
/// on a core and during gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Density {
    /// Pairs of a captured time and the bytecodes executed until then. Both ascend. Bounded by
    /// the windows and by the intervals at which the flow states the time.
    marks: VecDeque<(u64, u64)>,
    asks: Vec<Asks>,
}

impl Density {
    /// Notes that `bytecodes` had run at captured time `at`. Calls `tell` with each gap whose
    /// estimate has become known.
    pub(super) fn mark(&mut self, at: u64, bytecodes: u64, mut tell: impl FnMut(usize, f64)) {
        if self.marks.is_empty() {
            self.marks.push_back((0, 0));
        }
        let at = at.max(self.marks.back().map_or(0, |m| m.0));
        self.marks.push_back((at, bytecodes));
        let Self { marks, asks } = self;
        asks.retain(|a| {
            let known = a.at.saturating_add(a.window) <= at;
            if known {
                tell(a.gap, answer(marks, a));
            }
            !known
        });
        // Keep one mark that is old enough for every window.
        while marks.get(1).is_some_and(|m| m.0.saturating_add(2 * MOST) <= at) {
            marks.pop_front();
        }
    }
    /// Notes that gap number `gap` hides `ticks` ticks at captured time `at`.
    pub(super) fn ask(&mut self, gap: usize, at: u64, ticks: u64) {
        self.asks.push(Asks { gap, at, window: ticks.saturating_mul(TIMES).clamp(LEAST, MOST), ticks });
    }
    /// Ends the flow: answers for all gaps that still wait.
    pub(super) fn end(&mut self, mut tell: impl FnMut(usize, f64)) {
        self.asks.iter().for_each(|a| tell(a.gap, answer(&self.marks, a)));
        self.asks.clear();
    }
}

fn answer(marks: &VecDeque<(u64, u64)>, a: &Asks) -> f64 {
    let from = marks.partition_point(|m| m.0.saturating_add(a.window) <= a.at).saturating_sub(1);
    let (Some(from), Some(to)) = (marks.get(from), marks.back()) else { return 0.0 };
    match to.0 - from.0 {
        0 => 0.0,
        time => a.ticks as f64 * (to.1 - from.1) as f64 / time as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimates for gaps at these captured times in a flow with these marks. The flow ends
    /// at the last mark.
    fn hidden(gaps: &[(u64, u64)], marks: &[(u64, u64)]) -> Vec<f64> {
        let (mut density, mut all) = (Density::default(), vec![-1.0; gaps.len()]);
        let mut gaps = gaps.iter().enumerate().peekable();
        for &(at, bytecodes) in marks {
            while let Some((i, &(at, ticks))) = gaps.next_if(|g| g.1.0 <= at) {
                density.ask(i, at, ticks);
            }
            density.mark(at, bytecodes, |i, n| all[i] = n);
        }
        density.end(|i, n| all[i] = n);
        all
    }

    #[test]
    fn a_gap_is_as_dense_as_what_is_around_it() {
        // One bytecode per ten ticks, then one per hundred ticks.
        let at =
            |n: u64| (n * LEAST, if n < 20 { n * LEAST / 10 } else { 2 * LEAST + (n - 20) * LEAST / 100 });
        let marks: Vec<_> = (0..100).map(at).collect();
        let of = |at: u64, ticks: u64| hidden(&[(at * LEAST - 1, ticks)], &marks)[0] / LEAST as f64;
        let close = |a: f64, b: f64| (a - b).abs() < 0.05 * b;
        assert!(close(of(10, 4 * LEAST), 0.4));
        assert!(close(of(80, 4 * LEAST), 0.04));
        let both = of(20, 10 * LEAST);
        assert!(both > 0.4 && both < 0.7, "{both}");
        assert!(close(of(99, LEAST), 0.01), "at the end");
    }

    #[test]
    fn of_no_time_nothing_is_reported() {
        assert_eq!(hidden(&[(0, 5)], &[(0, 1)]), [0.0]);
        assert_eq!(hidden(&[], &[]), [0.0; 0]);
        let mut nothing = Density::default();
        nothing.ask(0, 0, 7);
        let mut told = None;
        nothing.end(|_, n| told = Some(n));
        assert_eq!(told, Some(0.0));
    }

    #[test]
    fn marks_are_bounded() {
        let mut density = Density::default();
        (0..100_000).for_each(|n| density.mark(n << 18, n, |_, _| {}));
        assert!(density.marks.len() < 8200, "{}", density.marks.len());
        assert!(density.marks[0].0 + 2 * MOST <= 99_999 << 18, "and none is missing");
    }
}
