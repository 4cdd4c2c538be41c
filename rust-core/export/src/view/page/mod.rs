// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The data of the page, as `assets/data.js` reads it.

mod code;
mod cover;
mod time;
mod tree;

use jportal_analyses::names::Version;
use jportal_analyses::{Inexact, ThreadTotals};
use serde::Serialize;

pub(super) use self::code::{Files, MethodListings};
use self::cover::Cover;
use self::time::{Compilations, Durations, Over};
pub(super) use self::tree::{Tree, names};
use super::encode::{Column, Num, Sparse, Strings};
use super::model::{View, ViewMeta, ViewMethod};

/// What the page leaves out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Omissions {
    /// Nodes of trees that were folded.
    pub(super) folded: u64,
    /// Listings.
    pub(super) listings: u64,
    /// Source files.
    pub(super) files: u64,
}

/// What is never left out.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rest {
    meta: Meta,
    threads: Vec<PageThread>,
    methods: MethodColumns,
    coverage: Option<Cover>,
    overview: Option<Over>,
    latency: Option<Durations>,
    jit: Option<Compilations>,
}

impl Rest {
    pub(super) fn of(view: &View, strings: &mut Strings) -> Self {
        Self {
            meta: Meta::of(&view.meta),
            threads: view.threads.iter().map(PageThread::of).collect(),
            methods: MethodColumns::of(&view.methods, strings),
            coverage: view.coverage.as_ref().map(|c| Cover::of(c, strings)),
            overview: view.overview.as_ref().map(Over::of),
            latency: view.latency.as_ref().map(Durations::of),
            jit: view.jit.as_ref().map(|j| Compilations::of(j, strings)),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Meta {
    capture: String,
    jvm: String,
    recorded: String,
    producer: String,
    command: String,
    hz: Option<f64>,
    exact: bool,
    /// Any method may have run unseen: every figure is a lower bound.
    blind: bool,
    why: Vec<String>,
    notes: Vec<String>,
}

impl Meta {
    fn of(m: &ViewMeta) -> Self {
        Self {
            capture: m.capture.clone(),
            jvm: m.jvm.clone(),
            recorded: m.recorded.clone(),
            producer: m.producer.clone(),
            command: m.command.clone(),
            hz: m.ticks_per_second.filter(|hz| hz.is_finite() && *hz > 0.0),
            exact: m.exact,
            blind: !m.inexact.blind_text().is_empty(),
            why: why(&m.inexact),
            notes: m.notes.clone(),
        }
    }
}

/// Why figures are not exact, in words.
fn why(inexact: &Inexact) -> Vec<String> {
    let mut why = Vec::new();
    let blind = inexact.blind_text();
    if !blind.is_empty() {
        why.push(format!("{blind}: any method may have run there, so every figure is a lower bound."));
    }
    let stretches = inexact.stretches_text();
    if !stretches.is_empty() {
        why.push(format!("{stretches}: the bytecodes between two known ones of compiled code are unknown."));
    }
    if inexact.silent_calls > 0 {
        why.push(format!(
            "{} calls without a frame: instructions of an intrinsic stand for them, or a compiler removed them.",
            inexact.silent_calls
        ));
    }
    if inexact.projected > 0 {
        why.push(format!("{} events are known by placing only.", inexact.projected));
    }
    if inexact.recovered > 0 {
        why.push(format!("{} events are known by filling only.", inexact.recovered));
    }
    why
}

#[derive(Clone, Debug, Serialize)]
struct PageThread {
    tid: u32,
    java: Num,
    name: String,
    start: Num,
    /// Bytecodes: all, projected, recovered.
    bytecodes: [Num; 3],
    calls: Num,
    unresolved: Num,
    orphans: Num,
    gaps: Vec<(&'static str, Num)>,
}

impl PageThread {
    fn of(t: &ThreadTotals) -> Self {
        let b = t.bytecodes;
        Self {
            tid: t.tid,
            java: Num(t.java_tid),
            name: t.name.clone(),
            start: Num(t.started),
            bytecodes: [b.total(), b.projected, b.recovered].map(Num),
            calls: Num(t.calls),
            unresolved: Num(t.unresolved),
            orphans: Num(t.orphans),
            gaps: t.gaps.iter().map(|(reason, n)| (*reason, Num(*n))).collect(),
        }
    }
}

fn version(v: Version) -> String {
    format!("version {} of {}", v.number, v.of)
}

/// The methods, one row in each column.
#[derive(Clone, Debug, Default, Serialize)]
struct MethodColumns {
    name: Column,
    calls: Column,
    bytecodes: Column,
    interpreter: Column,
    c1: Column,
    c2: Column,
    /// Projected and recovered events.
    inferred: Sparse,
    /// 1: the figures are lower bounds.
    inexact: Sparse,
    /// 1 + the most bytecodes and calls that may be missing; absent: no limit, or exact.
    more: [Sparse; 2],
    version: Vec<(usize, String)>,
}

impl MethodColumns {
    fn of(methods: &[ViewMethod], strings: &mut Strings) -> Self {
        let mut all = Self::default();
        for (row, m) in methods.iter().enumerate() {
            all.name.0.push(strings.name(&m.method, &m.loader));
            all.calls.0.push(m.calls.total());
            all.bytecodes.0.push(m.bytecodes.total());
            all.interpreter.0.push(m.tiers.interpreter);
            all.c1.0.push(m.tiers.c1);
            all.c2.0.push(m.tiers.c2);
            all.inferred.put(row, m.bytecodes.projected + m.bytecodes.recovered);
            if !m.exact {
                all.inexact.put(row, 1);
                for (column, most) in all.more.iter_mut().zip(m.at_most) {
                    column.put(row, most.map_or(0, |n| n.saturating_add(1)));
                }
            }
            all.version.extend(m.version.map(|v| (row, version(v))));
        }
        all
    }
}
