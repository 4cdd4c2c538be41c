// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares figures, counts the results, and keeps the first differences.

use super::{Change, Diff, DiffOptions, Difference, DocumentKind, Numbers, Presence};

/// The figures of a node or row, in the order of their names.
pub(super) type Figures<const N: usize> = [u64; N];

/// A node or row on both sides; `None` where it is absent.
pub(super) type Pair<const N: usize> = [Option<Figures<N>>; 2];

/// Adds figures to those of one side.
pub(super) fn add<const N: usize>(to: &mut Option<Figures<N>>, figures: Figures<N>) {
    let to = to.get_or_insert([0; N]);
    to.iter_mut().zip(figures).for_each(|(a, b)| *a = a.saturating_add(b));
}

/// What a difference is of. Computed only for differences that are listed.
#[derive(Default)]
pub(super) struct DiffSubject {
    pub(super) thread: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) loader: String,
}

/// Lines that count as missed on one side only: in the second, in the first.
pub(super) type Lines = (Vec<u16>, Vec<u16>);

/// Takes all nodes or rows, in the order in which differences are listed.
pub(super) struct Collector<'a, const N: usize> {
    names: [&'static str; N],
    options: &'a DiffOptions,
    totals: [Figures<N>; 2],
    numbers: Numbers,
    differences: Vec<Difference>,
}

impl<'a, const N: usize> Collector<'a, N> {
    pub(super) fn new(names: [&'static str; N], options: &'a DiffOptions) -> Self {
        let (numbers, differences) = Default::default();
        Self { names, options, totals: [[0; N]; 2], numbers, differences }
    }
    /// Compares one node or row.
    pub(super) fn item(&mut self, pair: Pair<N>, lines: Lines, place: impl FnOnce() -> DiffSubject) {
        let presence = match pair {
            [None, None] => return,
            [Some(_), Some(_)] => Presence::Both,
            [Some(_), None] => Presence::Before,
            [None, Some(_)] => Presence::After,
        };
        let [before, after] = pair.map(|side| side.unwrap_or([0; N]));
        self.numbers.compared += 1;
        for (total, figures) in self.totals.iter_mut().zip([before, after]) {
            total.iter_mut().zip(figures).for_each(|(a, b)| *a = a.saturating_add(b));
        }
        let changed_lines = (lines.0.len() + lines.1.len()) as u64;
        if before == after && presence == Presence::Both && changed_lines == 0 {
            return;
        }
        let tolerance = self.options.tolerance;
        let changes: Vec<Change> = (0..N)
            .filter(|&i| before[i].abs_diff(after[i]) > tolerance)
            .map(|i| Change::new(self.names[i], before[i], after[i]))
            .collect();
        if changes.is_empty() && changed_lines <= tolerance && (tolerance > 0 || presence == Presence::Both) {
            self.numbers.within_tolerance += 1;
            return;
        }
        match presence {
            Presence::Both => self.numbers.changed += 1,
            Presence::Before => self.numbers.only_before += 1,
            Presence::After => self.numbers.only_after += 1,
        }
        if self.differences.len() < self.options.most {
            let DiffSubject { thread, path, loader } = place();
            let (newly_missed, no_longer_missed) = lines;
            let all = Difference { presence, thread, path, loader, changes, newly_missed, no_longer_missed };
            self.differences.push(all);
        }
    }
    pub(super) fn end(self, kind: DocumentKind) -> Diff {
        let [before, after] = self.totals;
        let total = |i: usize| Change::new(self.names[i], before[i], after[i]);
        Diff {
            kind,
            equal: self.numbers.differences() == 0,
            exact: false,
            before_inexact: None,
            after_inexact: None,
            tolerance: self.options.tolerance,
            numbers: self.numbers,
            totals: (0..N).map(total).collect(),
            differences: self.differences,
        }
    }
}
