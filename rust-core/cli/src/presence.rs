// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which threads were on which cores, for captures that have no trace to decode.

use std::collections::{BTreeMap, BTreeSet};

use jportal::reconstruct::Recording;
use serde::Serialize;

/// One thread's time on the cores.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Thread {
    /// OS thread id.
    tid: u32,
    /// Empty if the VM did not report it.
    name: String,
    /// Number of visits to a core.
    visits: u64,
    /// TSC ticks on a core.
    ticks: u64,
}

/// All threads that ran.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Presence {
    visits: u64,
    cores: usize,
    lost_records: u64,
    /// Visits of threads that the VM did not name.
    unnamed: u64,
    threads: Vec<Thread>,
}

impl Presence {
    /// Computed from the sideband alone.
    pub(crate) fn of(recording: &Recording) -> Self {
        let spans = &recording.image().threads;
        let mut threads: BTreeMap<(u32, u64), Thread> = BTreeMap::new();
        let (mut cores, mut all) = (BTreeSet::new(), Self::default());
        for (core, started, visit) in recording.visits() {
            let tid = visit.tid.get();
            let name =
                || spans.iter().find(|s| s.tid == visit.tid && s.started == started).map(|s| s.name.clone());
            let thread = threads.entry((tid, started.get())).or_insert_with(|| Thread {
                tid,
                name: name().unwrap_or_default(),
                ..Thread::default()
            });
            thread.visits += 1;
            thread.ticks += visit.left.get().saturating_sub(visit.came.get());
            all.visits += 1;
            all.unnamed += u64::from(thread.name.is_empty());
            cores.insert(core);
        }
        all.threads = threads.into_values().collect();
        all.threads.sort_by_key(|t| std::cmp::Reverse(t.ticks));
        Self { cores: cores.len(), lost_records: recording.lost_records(), ..all }
    }

    /// One line.
    pub(crate) fn summary(&self) -> String {
        let unnamed =
            if self.unnamed == 0 { String::new() } else { format!(", {} without a name", self.unnamed) };
        format!(
            "{} visits of {} threads to {} cores{unnamed}; {} records lost",
            self.visits,
            self.threads.len(),
            self.cores,
            self.lost_records
        )
    }

    /// One line for each of the threads with the most time on a core, and one line for the
    /// rest.
    pub(crate) fn text(&self, khz: u64) -> String {
        const SHOWN: usize = 40;
        let seconds = |ticks: u64| if khz == 0 { 0.0 } else { ticks as f64 / khz as f64 / 1e3 };
        let mut text = "      tid          visits     on a core  thread\n".to_owned();
        for t in self.threads.iter().take(SHOWN) {
            let name = if t.name.is_empty() { "(no name)".into() } else { jportal_plain::line(&t.name) };
            text.push_str(&format!("{:>9}  {:>14}  {:>10.3} s  {name}\n", t.tid, t.visits, seconds(t.ticks)));
        }
        if let Some(rest) = self.threads.get(SHOWN..).filter(|r| !r.is_empty()) {
            let (visits, ticks) =
                (rest.iter().map(|t| t.visits).sum::<u64>(), rest.iter().map(|t| t.ticks).sum());
            text.push_str(&format!(
                "           {visits:>14}  {:>10.3} s  {} more threads\n",
                seconds(ticks),
                rest.len()
            ));
        }
        text
    }
}
