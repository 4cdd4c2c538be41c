// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Dynamic metrics of programs, after Dufour, Driesen, Hendren and Verbrugge, *Dynamic metrics for
//! Java* (OOPSLA 2003).
//!
//! Each metric has a value for all classes and one, with the prefix `app`, for the application's.
//! Densities are per 1000 executed bytecodes of the classes. A metric that needs data which a
//! capture does not have is listed as unavailable, with the reason; it has no value.

mod count;
mod kind;
mod report;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Event, EventKind, Exclude, Tally, ThreadInfo};
use jportal_units::Tsc;

use self::count::{MetricsCounter, MetricsCounts};
pub use self::report::{Figure, Metrics};
use crate::hidden::Inlined;
use crate::polymorphism::{PolymorphismAnalysis, PolymorphismThread};
use crate::select::is_application;

/// When a thread was alive, and whether it executed bytecodes.
#[derive(Clone, Copy, Debug)]
struct Life {
    started: Option<Tsc>,
    /// The last time that its flow states.
    last: Option<Tsc>,
    /// It executed a bytecode: of any class, of the application's.
    executed: [bool; 2],
}

/// Computes metrics.
#[derive(Debug)]
pub struct MetricsAnalysis {
    methods: Arc<MethodTable>,
    shapes: Shapes,
    /// Whether a method belongs to the application, by method.
    application: Box<[bool]>,
    counts: MetricsCounts,
    lives: Vec<Life>,
    bytecodes: Tally,
    exclude: Exclude,
    calls: PolymorphismAnalysis,
}

impl MetricsAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        Self {
            shapes: Shapes::new(&methods),
            application: methods.iter().map(is_application).collect(),
            counts: MetricsCounts::default(),
            lives: Vec::new(),
            bytecodes: Tally::default(),
            exclude: Exclude::default(),
            calls: PolymorphismAnalysis::new(Arc::clone(&methods), inlined),
            methods,
        }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, calls: self.calls.excluding(exclude), ..self }
    }
    /// The same analysis with another notion of the application.
    pub fn application(self, is_application: impl Fn(&Method) -> bool) -> Self {
        Self { application: self.methods.iter().map(is_application).collect(), ..self }
    }
}

/// The figures of one thread.
#[derive(Debug)]
pub struct MetricsThread {
    counter: MetricsCounter,
    life: Life,
    bytecodes: Tally,
    calls: PolymorphismThread,
}

impl Analysis for MetricsAnalysis {
    type Thread = MetricsThread;

    fn begin(&self, info: &ThreadInfo) -> MetricsThread {
        let started = Some(info.started).filter(|tsc| tsc.get() > 0);
        let life = Life { started, last: started, executed: [false; 2] };
        let calls = self.calls.begin(info);
        MetricsThread { counter: MetricsCounter::default(), life, bytecodes: Tally::default(), calls }
    }
    fn events(&self, thread: &mut MetricsThread, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            if let EventKind::Time(tsc) = event.kind {
                thread.life.started.get_or_insert(tsc);
                thread.life.last = thread.life.last.max(Some(tsc));
                continue;
            }
            let hidden = self.exclude.hides(event.provenance);
            if !hidden {
                thread.bytecodes.add_all(event.provenance, event.kind.bytecodes());
            }
            thread.counter.event((&self.methods, &self.shapes), &event.kind, hidden);
        }
        self.calls.events(&mut thread.calls, events)
    }
    fn merge(&mut self, thread: MetricsThread) {
        let counts = thread.counter.end();
        let mut life = thread.life;
        for id in counts.executed() {
            life.executed[0] = true;
            life.executed[1] |= self.application.get(id.get() as usize).is_some_and(|app| *app);
        }
        self.lives.push(life);
        self.counts.merge(counts);
        self.bytecodes.merge(&thread.bytecodes);
        self.calls.merge(thread.calls);
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
