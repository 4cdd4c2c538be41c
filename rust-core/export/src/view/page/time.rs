// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What has times: the overview, durations of calls, events of compiled code.

use serde::Serialize;

use crate::view::encode::{Column, Deltas, Num, Sparse, Strings};
use crate::view::model::{Jit, JitKind, Latency, LatencyRow};
use crate::view::overview::{Bucket, Overview, OverviewThread};

/// Greatest number of events of compiled code in the page.
const JIT_EVENTS: usize = 60_000;
/// Buckets over time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Over {
    start: Num,
    width: Num,
    buckets: u32,
    cores: bool,
    threads: Vec<OverThread>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct OverThread {
    tid: u32,
    java: Num,
    name: String,
    start: Num,
    /// Of what happened before the first known time: bytecodes and gaps.
    before: [Num; 2],
    at: Deltas,
    tiers: [Column; 3],
    native: Column,
    lost: Column,
    cores: Column,
    inferred: Sparse,
    orphans: Sparse,
    unresolved: Sparse,
    gaps: Sparse,
}

impl Over {
    pub(super) fn of(o: &Overview) -> Self {
        Self {
            start: Num(o.start),
            width: Num(o.width),
            buckets: o.buckets,
            cores: o.on_core,
            threads: o.threads.iter().map(OverThread::of).collect(),
        }
    }
}

impl OverThread {
    pub(super) fn of(t: &OverviewThread) -> Self {
        let column = |of: fn(&Bucket) -> u64| {
            let all = Column(t.buckets.iter().map(|(_, b)| of(b)).collect());
            if all.0.iter().all(|n| *n == 0) { Column::default() } else { all }
        };
        let sparse = |of: fn(&Bucket) -> u64| {
            let mut all = Sparse::default();
            t.buckets.iter().enumerate().for_each(|(row, (_, b))| all.put(row, of(b)));
            all
        };
        Self {
            tid: t.tid,
            java: Num(t.java_tid),
            name: t.name.clone(),
            start: Num(t.started),
            before: [Num(t.before.tiers.iter().sum()), Num(t.before.gaps)],
            at: Deltas(t.buckets.iter().map(|(n, _)| u64::from(*n)).collect()),
            tiers: [column(|b| b.tiers[0]), column(|b| b.tiers[1]), column(|b| b.tiers[2])],
            native: column(|b| b.native_calls),
            lost: column(|b| b.lost),
            cores: column(|b| b.on_core),
            inferred: sparse(|b| b.inferred),
            orphans: sparse(|b| b.orphans),
            unresolved: sparse(|b| b.unresolved),
            gaps: sparse(|b| b.gaps),
        }
    }
}

/// Durations of calls.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Durations {
    measure: String,
    resolution: Option<Num>,
    rows: Vec<DurationRow>,
}

#[derive(Clone, Debug, Serialize)]
struct DurationRow {
    name: String,
    calls: Num,
    unmeasured: Num,
    sum: Num,
    quantiles: Column,
    /// Lower bound and number of calls, in turn.
    buckets: Column,
    /// Time, duration and thread id, in turn.
    slowest: Column,
    exact: bool,
}

impl Durations {
    pub(super) fn of(l: &Latency) -> Self {
        let rows = l.rows.iter().map(DurationRow::of).collect();
        Self { measure: l.measure.clone(), resolution: l.resolution.map(Num), rows }
    }
}

impl DurationRow {
    pub(super) fn of(r: &LatencyRow) -> Self {
        Self {
            name: r.name.clone(),
            calls: Num(r.calls),
            unmeasured: Num(r.unmeasured),
            sum: Num(r.sum),
            quantiles: Column(r.quantiles.to_vec()),
            buckets: Column(r.buckets.iter().flat_map(|(lower, n)| [*lower, *n]).collect()),
            slowest: Column(r.slowest.iter().flat_map(|s| [s.at, s.ticks, s.tid.into()]).collect()),
            exact: r.exact,
        }
    }
}

/// What the compilers did: the events by time, one row in each column.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Compilations {
    at: Deltas,
    /// Digits of [`JitKind`].
    kinds: String,
    levels: String,
    method: Column,
    id: Deltas,
    /// 1 + bci.
    osr: Sparse,
    size: Column,
    /// 1 + number of a string.
    detail: Sparse,
    unknown: Vec<u8>,
    left: usize,
}

impl Compilations {
    pub(super) fn of(jit: &Jit, strings: &mut Strings) -> Self {
        let mut events: Vec<_> = jit.events.iter().collect();
        // Deoptimised frames may be many: they are left out first.
        events.sort_by_key(|e| (e.kind == JitKind::Deoptimised, e.at));
        let left = events.len().saturating_sub(JIT_EVENTS);
        events.truncate(JIT_EVENTS);
        events.sort_by_key(|e| e.at);
        let unknown = jit.unknown.iter().map(|k| *k as u8).collect();
        let mut out = Self { unknown, left, ..Self::default() };
        for (row, e) in events.into_iter().enumerate() {
            out.at.0.push(e.at);
            out.kinds.push(char::from(b'0' + e.kind as u8));
            out.levels.push(char::from(b'0' + e.level.min(9)));
            out.method.0.push(strings.number(&e.method).into());
            out.id.0.push(e.compile_id.into());
            out.osr.put(row, e.osr_bci.map_or(0, |b| u64::from(b) + 1));
            out.size.0.push(e.size.into());
            if !e.detail.is_empty() {
                out.detail.put(row, u64::from(strings.number(&e.detail)) + 1);
            }
        }
        out
    }
}
