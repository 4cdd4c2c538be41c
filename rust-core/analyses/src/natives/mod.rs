// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Native calls: native methods by calls, by caller, and what they called back.
//!
//! The flow shows a frame for every native method that ran. JBInsTrace infers native calls by
//! *absence*: an executed invoke after which no callee begins. The column `by_absence` is what
//! that rule finds, for comparison. The rule is wrong for calls that did not happen, for calls
//! without a frame (an intrinsic's instructions ran), and for callees that an exception left
//! before their first bytecode.

mod report;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Event, Exclude, Provenance, Tally, ThreadInfo};
use jportal_units::{Bci, MethodId};

pub use self::report::{NativeCaller, NativeRow, Natives};
use crate::hidden::{Follower, Hidden, Inlined};
use crate::names::Naming;
use crate::polymorphism::outcome::{InvokeOutcome, Invokes, Site};

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum From {
    Java(MethodId, Bci),
    /// The VM or native code.
    Vm,
    /// The caller's position was lost.
    Unknown,
}

/// Invokes of one site without a callee.
#[derive(Clone, Copy, Debug, Default)]
struct Absent {
    silent: Tally,
    not_called: Tally,
    unknown: Tally,
}

#[derive(Debug, Default)]
struct NativeCounts {
    calls: HashMap<(From, MethodId), Tally>,
    /// Calls from native methods to Java methods, by native method.
    upcalls: HashMap<MethodId, Tally>,
    absent: HashMap<Site, Absent>,
    unstarted: HashMap<MethodId, Tally>,
}

impl NativeCounts {
    fn outcome(&mut self, outcome: InvokeOutcome, p: Provenance) {
        match outcome {
            InvokeOutcome::Called { site, callee, native: true } => {
                let from = site.map_or(From::Unknown, |(m, bci)| From::Java(m, bci));
                self.calls.entry((from, callee)).or_default().add(p);
            }
            InvokeOutcome::Upcall { callee, native, from } => {
                if native {
                    self.calls.entry((From::Vm, callee)).or_default().add(p);
                }
                if let Some(from) = from {
                    self.upcalls.entry(from).or_default().add(p);
                }
            }
            InvokeOutcome::Silent(site) => self.absent.entry(site).or_default().silent.add(p),
            InvokeOutcome::NotCalled(site) => self.absent.entry(site).or_default().not_called.add(p),
            InvokeOutcome::Unknown(site) => self.absent.entry(site).or_default().unknown.add(p),
            InvokeOutcome::Unstarted(method) => self.unstarted.entry(method).or_default().add(p),
            InvokeOutcome::Called { native: false, .. } => {}
        }
    }
    fn merge(&mut self, other: Self) {
        for (key, tally) in other.calls {
            self.calls.entry(key).or_default().merge(&tally);
        }
        for (method, tally) in other.upcalls {
            self.upcalls.entry(method).or_default().merge(&tally);
        }
        for (site, absent) in other.absent {
            let into = self.absent.entry(site).or_default();
            into.silent.merge(&absent.silent);
            into.not_called.merge(&absent.not_called);
            into.unknown.merge(&absent.unknown);
        }
        for (method, tally) in other.unstarted {
            self.unstarted.entry(method).or_default().merge(&tally);
        }
    }
}

/// Counts native calls.
#[derive(Debug)]
pub struct NativesAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    counts: NativeCounts,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
}

impl NativesAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let (counts, hidden, exclude, naming) = Default::default();
        Self { methods, inlined, shapes, counts, hidden, exclude, naming }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct NativesThread {
    invokes: Invokes,
    counts: NativeCounts,
    follower: Follower,
}

impl Analysis for NativesAnalysis {
    type Thread = NativesThread;

    fn begin(&self, _: &ThreadInfo) -> NativesThread {
        NativesThread::default()
    }
    fn events(&self, thread: &mut NativesThread, events: &[Event]) -> ControlFlow<Enough> {
        let NativesThread { invokes, counts, follower } = thread;
        for event in events {
            follower.event((&self.methods, &self.shapes), event, self.exclude);
            let hidden = self.exclude.hides(event.provenance);
            invokes.event((&self.methods, &self.shapes), event, |outcome, provenance| {
                if !hidden {
                    counts.outcome(outcome, provenance);
                }
            });
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: NativesThread) {
        let counts = &mut thread.counts;
        thread.invokes.end(|outcome| counts.outcome(outcome, Provenance::Decoded));
        self.counts.merge(thread.counts);
        self.hidden.merge(thread.follower.end());
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
