// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Polymorphism: the targets of each executed `invokevirtual` and `invokeinterface`.
//!
//! Names and definitions of the figures follow Dufour et al., *Dynamic metrics for Java* (OOPSLA
//! 2003). A call *misses* if its target differs from that of the previous call at the same site
//! in the same thread; the first call of a thread misses, too. A call that did not happen, for
//! example because the receiver was null, does not count. A call without a frame (an intrinsic's
//! instructions ran in its place) has an unknown target; all unknown targets of a site count as
//! one.
//!
//! The class of a receiver is not in a branch trace. A target's class is a class of which the
//! receiver's class is a subclass, so different classes of targets mean different receivers:
//! figures on receivers are lower bounds and are labelled so.

pub(crate) mod outcome;
mod report;
#[cfg(test)]
mod tests;
mod text;

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{MethodTable, Opcode, Shapes};
use jportal_flow::{Analysis, Enough, Event, EventKind, Exclude, Provenance, Tally, ThreadInfo};
use jportal_units::{Bci, MethodId};

use self::outcome::{InvokeOutcome, Invokes, Site};
pub(crate) use self::report::ratio;
pub use self::report::{AtLeast, Polymorphism, SiteRow, TargetRow, Totals};
use crate::hidden::{Follower, Hidden, Inlined};
use crate::names::{FirstOfName, Naming};

/// A target; `None` if no frame was entered.
type Target = Option<MethodId>;

/// What was seen at one site.
#[derive(Debug, Default)]
struct Seen {
    /// Calls by target, without those of `last`.
    targets: HashMap<Target, Tally>,
    /// The last target, and the calls of it in a row.
    last: Option<(Target, Tally)>,
    /// The class of the last known target.
    class: Option<u32>,
    misses: u64,
    /// Calls whose target is of another class than the last known target.
    class_misses: u64,
    /// Number of threads with a call.
    threads: u64,
    not_called: Tally,
    unknown: Tally,
}

impl Seen {
    fn call(&mut self, target: Target, class: Option<u32>, provenance: Provenance) {
        match &mut self.last {
            Some((last, calls)) if *last == target => calls.add(provenance),
            _ => {
                self.settle();
                self.misses += 1;
                let mut calls = Tally::default();
                calls.add(provenance);
                self.last = Some((target, calls));
            }
        }
        if class.is_some() && class != self.class {
            self.class_misses += 1;
            self.class = class;
        }
    }
    /// Adds the calls in a row to those of their target.
    fn settle(&mut self) {
        if let Some((target, calls)) = self.last.take() {
            self.targets.entry(target).or_default().merge(&calls);
        }
    }
    fn merge(&mut self, mut other: Self) {
        other.settle();
        self.threads += u64::from(!other.targets.is_empty());
        for (target, calls) in other.targets {
            self.targets.entry(target).or_default().merge(&calls);
        }
        self.misses += other.misses;
        self.class_misses += other.class_misses;
        self.not_called.merge(&other.not_called);
        self.unknown.merge(&other.unknown);
    }
}

/// Counts targets.
#[derive(Debug)]
pub struct PolymorphismAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    sites: HashMap<Site, Seen>,
    /// Bytecodes by method.
    bytecodes: Vec<u64>,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
    first: FirstOfName,
}

impl PolymorphismAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let shapes = Shapes::new(&methods);
        let (sites, bytecodes, hidden, exclude, naming, first) = Default::default();
        Self { methods, inlined, shapes, sites, bytecodes, hidden, exclude, naming, first }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods. Methods of one name are one target,
    /// and their sites are one.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, first: FirstOfName::new(&self.methods, naming), ..self }
    }
    /// Whether the invoke selects its target by the receiver.
    fn is_virtual(&self, (method, bci): Site) -> bool {
        let opcode = self.methods.get(method).and_then(|m| m.code.get(usize::from(bci.get())));
        opcode.is_some_and(|o| matches!(Opcode(*o), Opcode::INVOKEVIRTUAL | Opcode::INVOKEINTERFACE))
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct PolymorphismThread {
    invokes: Invokes,
    counted: TargetCounts,
    follower: Follower,
}

#[derive(Debug, Default)]
struct TargetCounts {
    sites: HashMap<Site, Seen>,
    bytecodes: Vec<u64>,
}

impl TargetCounts {
    fn site(&mut self, of: &PolymorphismAnalysis, site: Site) -> Option<&mut Seen> {
        of.is_virtual(site).then(|| self.sites.entry((of.first.of(site.0), site.1)).or_default())
    }
    fn outcome(&mut self, of: &PolymorphismAnalysis, outcome: InvokeOutcome, provenance: Provenance) {
        match outcome {
            InvokeOutcome::Called { site: Some(site), callee, .. } => {
                let class = of.methods.get(callee).map(|m| m.class);
                if let Some(seen) = self.site(of, site) {
                    seen.call(Some(of.first.of(callee)), class, provenance);
                }
            }
            InvokeOutcome::Silent(site) => {
                if let Some(seen) = self.site(of, site) {
                    seen.call(None, None, provenance);
                }
            }
            InvokeOutcome::NotCalled(site) => {
                if let Some(seen) = self.site(of, site) {
                    seen.not_called.add(provenance);
                }
            }
            InvokeOutcome::Unknown(site) => {
                if let Some(seen) = self.site(of, site) {
                    seen.unknown.add(provenance);
                }
            }
            InvokeOutcome::Called { site: None, .. }
            | InvokeOutcome::Upcall { .. }
            | InvokeOutcome::Unstarted(_) => {}
        }
    }
    fn executed(&mut self, of: &PolymorphismAnalysis, method: MethodId, bytecodes: u64) {
        let n = method.get() as usize;
        if n < of.methods.len() && self.bytecodes.len() <= n {
            self.bytecodes.resize(n + 1, 0);
        }
        if let Some(count) = self.bytecodes.get_mut(n) {
            *count += bytecodes;
        }
    }
}

impl Analysis for PolymorphismAnalysis {
    type Thread = PolymorphismThread;

    fn begin(&self, _: &ThreadInfo) -> PolymorphismThread {
        PolymorphismThread::default()
    }
    fn events(&self, thread: &mut PolymorphismThread, events: &[Event]) -> ControlFlow<Enough> {
        let PolymorphismThread { invokes, counted, follower } = thread;
        for event in events {
            follower.event((&self.methods, &self.shapes), event, self.exclude);
            let hidden = self.exclude.hides(event.provenance);
            invokes.event((&self.methods, &self.shapes), event, |outcome, provenance| {
                if !hidden {
                    counted.outcome(self, outcome, provenance);
                }
            });
            if let EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } = event.kind
                && !hidden
            {
                counted.executed(self, method, event.kind.bytecodes());
            }
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: PolymorphismThread) {
        let counted = &mut thread.counted;
        thread.invokes.end(|outcome| counted.outcome(self, outcome, Provenance::Decoded));
        for (site, seen) in thread.counted.sites {
            self.sites.entry(site).or_default().merge(seen);
        }
        if self.bytecodes.len() < thread.counted.bytecodes.len() {
            self.bytecodes.resize(thread.counted.bytecodes.len(), 0);
        }
        self.bytecodes.iter_mut().zip(thread.counted.bytecodes).for_each(|(a, b)| *a += b);
        self.hidden.merge(thread.follower.end());
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}

/// The bci's symbolic target: `a.B.f()V`.
fn declared(methods: &MethodTable, (method, bci): (MethodId, Bci)) -> Option<String> {
    let invoke = methods.get(method)?.invoke_at(bci)?;
    Some(format!("{}.{}{}", invoke.class_name.replace('/', "."), invoke.name, invoke.signature))
}
