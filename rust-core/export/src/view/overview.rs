// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What each thread did over time: bytecodes by tier, gaps, time on cores.
//!
//! Time is divided into buckets. All threads have the same buckets: their width is a power of two,
//! and bucket `n` begins at `n * width`. A thread's state holds at most [`BUCKETS`] of them; when
//! it needs more, the width doubles. Memory is bounded by the number of threads.
//!
//! A bytecode belongs to the bucket of the last known time before it. It may have executed later,
//! up to the next known time.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use jportal_analyses::execution::Visits;
use jportal_flow::{Analysis, Enough, Event, EventKind, Exclude, Gap, Orphan, Provenance, ThreadInfo, Tier};

/// Greatest number of buckets.
pub(super) const BUCKETS: u64 = 2048;

/// What a thread did in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Bytecodes by interpreter, C1 and C2.
    pub tiers: [u64; 3],
    /// Calls of native methods.
    pub native_calls: u64,
    /// Of the bytecodes, those that are known by placing or filling only.
    pub inferred: u64,
    /// Bytecodes of unknown frames.
    pub orphans: u64,
    /// Unresolved stretches.
    pub unresolved: u64,
    /// Gaps that began here.
    pub gaps: u64,
    /// Ticks in which trace was lost, or could not be decoded. Two gaps may overlap.
    pub lost: u64,
    /// Ticks on a core; 0 if the stays on cores are not known.
    pub on_core: u64,
}

impl Bucket {
    fn add(&mut self, other: &Self) {
        for (a, b) in self.tiers.iter_mut().zip(other.tiers) {
            *a += b;
        }
        self.native_calls += other.native_calls;
        self.inferred += other.inferred;
        self.orphans += other.orphans;
        self.unresolved += other.unresolved;
        self.gaps += other.gaps;
        self.lost += other.lost;
        self.on_core += other.on_core;
    }
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A thread in the overview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverviewThread {
    /// OS thread id.
    pub tid: u32,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Name.
    pub name: String,
    /// When it started.
    pub started: u64,
    /// What happened before the first known time of the thread.
    pub before: Bucket,
    /// The buckets in which something happened, with their numbers, ascending.
    pub buckets: Vec<(u32, Bucket)>,
}

/// What the threads did over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Beginning of bucket 0.
    pub start: u64,
    /// Ticks per bucket.
    pub width: u64,
    /// Number of buckets.
    pub buckets: u32,
    /// Whether it is known when threads were on a core.
    pub on_core: bool,
    /// The threads, by start and then thread id.
    pub threads: Vec<OverviewThread>,
}

/// Makes an [`Overview`] of the flows of all threads.
#[derive(Debug, Default)]
pub struct OverviewAnalysis {
    threads: Vec<OverviewState>,
    exclude: Exclude,
}

impl OverviewAnalysis {
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The overview. `visits` says when threads were on which core, if that is known.
    pub fn overview(&self, visits: Option<&Visits>) -> Overview {
        let mut rows: Vec<BucketRow> = self.threads.iter().map(|t| t.row.clone()).collect();
        // The shift at which all threads together fit.
        let mut shift = rows.iter().map(|r| r.shift).max().unwrap_or(0);
        let ends = |rows: &[BucketRow], shift: u32| {
            let used = rows.iter().filter(|r| !r.buckets.is_empty());
            let first = used.clone().map(|r| r.first >> (shift - r.shift)).min();
            first.zip(used.map(|r| r.last() >> (shift - r.shift)).max())
        };
        while ends(&rows, shift).is_some_and(|(first, last)| last - first >= BUCKETS) {
            shift += 1;
        }
        rows.iter_mut().for_each(|r| r.widen_to(shift));
        let (first, last) = ends(&rows, shift).unwrap_or((0, 0));
        let mut threads: Vec<OverviewThread> =
            self.threads.iter().zip(&rows).map(|(t, row)| t.shown(row, first, visits)).collect();
        threads.sort_by_key(|t| (t.started, t.tid));
        let buckets = if rows.iter().all(|r| r.buckets.is_empty()) { 0 } else { (last - first + 1) as u32 };
        Overview { start: first << shift, width: 1 << shift, buckets, on_core: visits.is_some(), threads }
    }
}

/// Consecutive buckets of one thread.
#[derive(Clone, Debug, Default)]
struct BucketRow {
    /// The width is 2 to that power.
    shift: u32,
    /// Number of the first bucket.
    first: u64,
    buckets: VecDeque<Bucket>,
}

impl BucketRow {
    fn last(&self) -> u64 {
        self.first + (self.buckets.len() as u64).saturating_sub(1)
    }
    fn widen_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.widen();
        }
    }
    fn widen(&mut self) {
        let old = std::mem::take(&mut self.buckets);
        for (i, bucket) in (0..).zip(&old) {
            let at = (((self.first + i) >> 1) - (self.first >> 1)) as usize;
            if at == self.buckets.len() {
                self.buckets.push_back(*bucket);
            } else if let Some(b) = self.buckets.get_mut(at) {
                b.add(bucket);
            }
        }
        (self.first, self.shift) = (self.first >> 1, self.shift + 1);
    }
    /// The bucket of a time. Widens until it exists.
    fn at(&mut self, time: u64) -> &mut Bucket {
        let mut number = time >> self.shift;
        if self.buckets.is_empty() {
            self.first = number;
            self.buckets.push_back(Bucket::default());
        }
        while self.last().max(number) - self.first.min(number) >= BUCKETS {
            self.widen();
            number = time >> self.shift;
        }
        while number < self.first {
            self.buckets.push_front(Bucket::default());
            self.first -= 1;
        }
        while number > self.last() {
            self.buckets.push_back(Bucket::default());
        }
        let index = (number - self.first) as usize;
        &mut self.buckets[index]
    }
    /// Adds lost time.
    fn lost(&mut self, since: u64, until: u64) {
        if until <= since {
            return;
        }
        self.at(since);
        self.at(until - 1);
        let (from, to) = (since >> self.shift, (until - 1) >> self.shift);
        for number in from..=to {
            let begin = number << self.shift;
            let end = begin.saturating_add(1 << self.shift);
            self.buckets[(number - self.first) as usize].lost += until.min(end) - since.max(begin);
        }
    }
}

/// The state of one thread.
#[derive(Debug)]
pub struct OverviewState {
    info: ThreadInfo,
    row: BucketRow,
    /// Before the first known time.
    before: Bucket,
    now: Option<u64>,
    /// Beginning of a gap whose end is the next known time.
    open: Option<u64>,
    /// The events since the last known time.
    pending: Bucket,
}

impl OverviewState {
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        match self.now {
            Some(now) => self.row.at(now).add(&pending),
            None => self.before.add(&pending),
        }
    }
    fn time(&mut self, now: u64) {
        if let Some(since) = self.open.take() {
            self.row.lost(since, now);
        }
        // Times of one thread do not decrease; a damaged capture may say otherwise.
        if self.now.is_none_or(|before| now > before) {
            self.flush();
            self.now = Some(now);
            self.row.at(now);
        }
    }
    fn gap(&mut self, gap: &Gap) {
        self.pending.gaps += 1;
        let since = gap.since.map(|t| t.get()).or(self.now);
        match (since, gap.until) {
            (Some(since), Some(until)) => self.row.lost(since, until.get()),
            (Some(since), None) => self.open = Some(self.open.map_or(since, |open| open.min(since))),
            (None, _) => {}
        }
    }
    fn executed(&mut self, tier: Tier, provenance: Provenance, bytecodes: u64) {
        let tier = match tier {
            Tier::Interpreter => 0,
            Tier::C1 => 1,
            Tier::C2 | Tier::Native => 2,
        };
        self.pending.tiers[tier] += bytecodes;
        if provenance != Provenance::Decoded {
            self.pending.inferred += bytecodes;
        }
    }
    /// The thread with its buckets, numbered from `first`.
    fn shown(&self, row: &BucketRow, first: u64, visits: Option<&Visits>) -> OverviewThread {
        let key = (self.info.tid.get(), self.info.started.get());
        let begin = |number: u64| number << row.shift;
        let mut buckets = Vec::new();
        let mut ticks = visits.map_or(0, |v| v.ticks(key, begin(row.first)));
        for (i, bucket) in (0..).zip(&row.buckets) {
            let (number, mut bucket) = (row.first + i, *bucket);
            if let Some(visits) = visits {
                let until = visits.ticks(key, begin(number.saturating_add(1)));
                bucket.on_core = until.saturating_sub(ticks);
                ticks = until;
            }
            if !bucket.is_empty() {
                buckets.push(((number - first) as u32, bucket));
            }
        }
        OverviewThread {
            tid: self.info.tid.get(),
            java_tid: self.info.java_tid,
            name: self.info.name.clone(),
            started: self.info.started.get(),
            before: self.before,
            buckets,
        }
    }
}

impl Analysis for OverviewAnalysis {
    type Thread = OverviewState;

    fn begin(&self, info: &ThreadInfo) -> OverviewState {
        let (row, before, now, open, pending) = Default::default();
        OverviewState { info: info.clone(), row, before, now, open, pending }
    }
    fn events(&self, own: &mut OverviewState, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            if let EventKind::Time(tsc) = e.kind {
                own.time(tsc.get());
                continue;
            }
            if self.exclude.hides_event(e) {
                continue;
            }
            match &e.kind {
                EventKind::Bytecode { tier, .. } | EventKind::Run { tier, .. } => {
                    own.executed(*tier, e.provenance, e.kind.bytecodes());
                }
                EventKind::Enter { tier: Tier::Native, .. } => own.pending.native_calls += 1,
                EventKind::Unresolved { .. } => own.pending.unresolved += 1,
                EventKind::Orphan(Orphan::Bytecode { .. }) => own.pending.orphans += 1,
                EventKind::Gap(gap) => own.gap(gap),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut own: OverviewState) {
        own.flush();
        self.threads.push(own);
    }
}

#[cfg(test)]
#[path = "overview_tests.rs"]
mod tests;
