// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Totals per thread, which `info` shows for a decoded flow.

use std::ops::ControlFlow;

use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Orphan, Tally, ThreadInfo};
use serde::Serialize;

/// Figures of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadTotals {
    /// OS thread id.
    pub tid: u32,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Name.
    pub name: String,
    /// TSC of its start.
    pub started: u64,
    /// Bytecodes.
    pub bytecodes: Tally,
    /// Frames entered. Continuations (OSR, deoptimisation) and found frames do not count.
    pub calls: u64,
    /// Stretches of compiled code that fit more than one bytecode path.
    pub unresolved: u64,
    /// Bytecodes of unknown interpreted frames.
    pub orphans: u64,
    /// Gaps by reason name.
    pub gaps: std::collections::BTreeMap<&'static str, u64>,
}

/// Collects [`ThreadTotals`].
#[derive(Debug, Default)]
pub struct Threads {
    all: Vec<ThreadTotals>,
}

impl Threads {
    /// The totals, by start and then thread id.
    pub fn totals(&self) -> Vec<ThreadTotals> {
        let mut all = self.all.clone();
        all.sort_by_key(|t| (t.started, t.tid));
        all
    }
}

impl Analysis for Threads {
    type Thread = ThreadTotals;

    fn begin(&self, info: &ThreadInfo) -> ThreadTotals {
        ThreadTotals {
            tid: info.tid.get(),
            java_tid: info.java_tid,
            name: info.name.clone(),
            started: info.started.get(),
            bytecodes: Tally::default(),
            calls: 0,
            unresolved: 0,
            orphans: 0,
            gaps: Default::default(),
        }
    }
    fn events(&self, own: &mut ThreadTotals, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            match &e.kind {
                EventKind::Bytecode { .. } | EventKind::Run { .. } => {
                    own.bytecodes.add_all(e.provenance, e.kind.bytecodes());
                }
                EventKind::Enter { entry: Entry::Call | Entry::Upcall, .. } => own.calls += 1,
                EventKind::Unresolved { .. } => own.unresolved += 1,
                EventKind::Orphan(Orphan::Bytecode { .. }) => own.orphans += 1,
                EventKind::Gap(gap) => *own.gaps.entry(gap.reason.name()).or_default() += 1,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, own: ThreadTotals) {
        self.all.push(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, feed, gap};

    #[test]
    fn totals_per_thread() {
        let mut t = Threads::default();
        let orphan = Orphan::Bytecode { opcode: 0, taken: None };
        let orphans = [orphan, Orphan::Throw].map(|o| Event::decoded(EventKind::Orphan(o)));
        let (method, tier) = (jportal_units::MethodId(0), jportal_flow::Tier::C1);
        let [first, last] = [0, 4].map(jportal_units::Bci);
        let run = Event::decoded(EventKind::Run { method, first, last, len: 3, tier });
        let some = [enter(0), bytecode(0, 0), run, gap(false), gap(true)];
        feed(&mut t, 9, &[&some[..], &orphans].concat());
        feed(&mut t, 3, &[]);
        let all = t.totals();
        assert_eq!(all.iter().map(|t| t.tid).collect::<Vec<_>>(), [3, 9]);
        assert_eq!((all[1].bytecodes.total(), all[1].calls, all[1].gaps["truncated"]), (4, 1, 2));
        assert_eq!((all[1].orphans, all[0].orphans), (1, 0));
    }
}
