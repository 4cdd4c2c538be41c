// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How many bytecodes a gap hides: as many as run elsewhere in such a time, near it.

use std::collections::VecDeque;

/// What is looked at on either side of a gap: twice as much as the gap hides, but at least and at most so many ticks.
/// Less, and what filled the buffer is taken for what followed; more, and start-up, or another phase, is.
const TIMES: u64 = 2;
const LEAST: u64 = 1 << 22;
const MOST: u64 = 1 << 30;

/// A gap that wants to know how much runs around it.
#[derive(Clone, Copy, Debug)]
struct Asks {
    gap: usize,
    at: u64,
    window: u64,
    ticks: u64,
}

/// A thread's bytecodes by the clock of its captured time, which stands still off the cores and in gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Density {
    /// Time and bytecodes until then; both grow. Bounded by the windows and the steps in which time is told.
    marks: VecDeque<(u64, u64)>,
    asks: Vec<Asks>,
}

impl Density {
    /// At captured time `at`, `bytecodes` had run. `tell` gets gaps and what they hide as soon as that is known.
    pub(super) fn mark(&mut self, at: u64, bytecodes: u64, mut tell: impl FnMut(usize, f64)) {
        if self.marks.is_empty() {
            self.marks.push_back((0, 0));
        }
        let at = at.max(self.marks.back().map_or(0, |m| m.0));
        self.marks.push_back((at, bytecodes));
        let Self { marks, asks } = self;
        asks.retain(|a| {
            let known = a.at + a.window <= at;
            if known {
                tell(a.gap, answer(marks, a));
            }
            !known
        });
        // One that is old enough for any window is needed.
        while marks.get(1).is_some_and(|m| m.0 + 2 * MOST <= at) {
            marks.pop_front();
        }
    }
    /// Gap number `gap` hides `ticks` at captured time `at`.
    pub(super) fn ask(&mut self, gap: usize, at: u64, ticks: u64) {
        self.asks.push(Asks { gap, at, window: ticks.saturating_mul(TIMES).clamp(LEAST, MOST), ticks });
    }
    /// Nothing follows.
    pub(super) fn end(&mut self, mut tell: impl FnMut(usize, f64)) {
        self.asks.iter().for_each(|a| tell(a.gap, answer(&self.marks, a)));
        self.asks.clear();
    }
}

fn answer(marks: &VecDeque<(u64, u64)>, a: &Asks) -> f64 {
    let from = marks.partition_point(|m| m.0 + a.window <= a.at).saturating_sub(1);
    let (Some(from), Some(to)) = (marks.get(from), marks.back()) else { return 0.0 };
    match to.0 - from.0 {
        0 => 0.0,
        time => a.ticks as f64 * (to.1 - from.1) as f64 / time as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gaps at these captured times hide of a flow with these marks, behind the last of which it ends.
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
        // A bytecode each ten ticks, then one each hundred.
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
    fn of_no_time_nothing_is_told() {
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
