// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The figures of one method.

use jportal_flow::Tally;

use super::histogram::Histogram;
use crate::hidden::Missing;

/// A sum in ticks, with the limits between which the true value lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) measured: u128,
    pub(super) least: u128,
    pub(super) most: u128,
    /// Activations of which `most` is not known, because no time follows their end.
    pub(super) unlimited: u64,
}

impl Sum {
    fn merge(&mut self, other: &Self) {
        self.measured += other.measured;
        self.least += other.least;
        self.most += other.most;
        self.unlimited += other.unlimited;
    }
}

/// How exactly activations are measured, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Widths {
    /// Sum of the differences between the limits of an activation.
    pub(super) sum: u128,
    pub(super) greatest: u64,
    pub(super) count: u64,
}

impl Widths {
    pub(super) fn add(&mut self, sum: u128, greatest: u64, count: u64) {
        self.sum += sum;
        self.greatest = self.greatest.max(greatest);
        self.count += count;
    }
}

/// Activations that ended since the last time. Their upper limits are known at the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    all: u64,
    outermost: u64,
    /// Differences between the first time after and the last time before the beginnings.
    widths: u128,
    widest: u64,
}

impl Ends {
    /// Adds one. Returns whether it is the first since the last time.
    pub(super) fn add(&mut self, width: u64, nested: bool) -> bool {
        self.all += 1;
        self.outermost += u64::from(!nested);
        self.widths += u128::from(width);
        self.widest = self.widest.max(width);
        self.all == 1
    }
}

/// What is known of the activations of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActivationFigures {
    pub(super) calls: Tally,
    /// Activations whose beginning was not seen.
    pub(super) found: u64,
    /// Activations whose end was not seen, or during which trace was lost.
    pub(super) cut: u64,
    /// Activations that began or ended in placed or filled parts.
    pub(super) inferred: u64,
    /// Activations that began before the first time of their thread.
    pub(super) untimed: u64,
    /// Measured activations within another activation of the same method. They are not part of
    /// the sums.
    pub(super) nested: u64,
    pub(super) wall: Histogram,
    pub(super) on_core: Histogram,
    pub(super) wall_sum: Sum,
    pub(super) on_core_sum: u128,
    pub(super) widths: Widths,
    /// Activations on the stack.
    pub(super) active: u32,
    pub(super) ends: Ends,
}

impl ActivationFigures {
    /// The next time is known, `step` ticks after the last one.
    pub(super) fn until(&mut self, step: u64) {
        let ends = std::mem::take(&mut self.ends);
        self.wall_sum.most += u128::from(step) * u128::from(ends.outermost);
        self.wall_sum.unlimited = self.wall_sum.unlimited.saturating_sub(ends.outermost);
        let widths = ends.widths + u128::from(step) * u128::from(ends.all);
        self.widths.add(widths, ends.widest.saturating_add(step), ends.all);
    }
    /// Activations that were seen and not measured.
    pub(super) const fn unmeasured(&self) -> u64 {
        self.found + self.cut + self.inferred + self.untimed
    }
    /// Whether no call is missing and every activation was measured.
    pub(super) const fn is_exact(&self, missing: &Missing, lossy: bool) -> bool {
        !lossy && missing.calls.is_none() && missing.silent_calls == 0 && self.unmeasured() == 0
    }
    pub(super) fn merge(&mut self, other: &Self) {
        self.calls.merge(&other.calls);
        self.found += other.found;
        self.cut += other.cut;
        self.inferred += other.inferred;
        self.untimed += other.untimed;
        self.nested += other.nested;
        self.wall.merge(&other.wall);
        self.on_core.merge(&other.on_core);
        self.wall_sum.merge(&other.wall_sum);
        self.on_core_sum += other.on_core_sum;
        self.widths.add(other.widths.sum, other.widths.greatest, other.widths.count);
    }
}

/// One measured activation, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    pub(super) method: jportal_units::MethodId,
    /// Last known time before its beginning.
    pub(super) begin: u64,
    pub(super) wall: u64,
    pub(super) least: u64,
    /// `None`: no time follows its end.
    pub(super) most: Option<u64>,
    pub(super) on_core: Option<u64>,
    /// Number of the thread in [`Slowest`].
    pub(super) thread: usize,
}

/// A thread, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) started: u64,
    pub(super) tid: u32,
    pub(super) name: String,
}

/// The slowest activations, slowest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowest {
    most: usize,
    pub(super) threads: Vec<Who>,
    pub(super) all: Vec<Slow>,
}

impl Slowest {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }
    /// Whether an activation of that length is kept.
    pub(super) fn keeps(&self, wall: u64) -> bool {
        self.all.len() < self.most || self.all.last().is_some_and(|last| wall >= last.wall && self.most > 0)
    }
    pub(super) fn add(&mut self, slow: Slow) {
        let key = |s: &Slow| {
            let who = self.threads.get(s.thread);
            (u64::MAX - s.wall, s.begin, who.map(|w| (w.started, w.tid)), s.method)
        };
        let at = self.all.partition_point(|s| key(s) <= key(&slow));
        self.all.insert(at, slow);
        self.all.truncate(self.most);
    }
    /// Sets the upper limits that were not known until `time`.
    pub(super) fn until(&mut self, time: u64) {
        for slow in self.all.iter_mut().filter(|s| s.most.is_none()) {
            slow.most = Some(time.saturating_sub(slow.begin));
        }
    }
    pub(super) fn merge(&mut self, other: Self) {
        let threads = self.threads.len();
        self.threads.extend(other.threads);
        for slow in other.all {
            self.add(Slow { thread: threads + slow.thread, ..slow });
        }
    }
}
