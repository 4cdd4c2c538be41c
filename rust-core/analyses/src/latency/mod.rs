// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Latency: how long activations of chosen methods took.
//!
//! A flow contains times between its events. An activation began between the last time before
//! its beginning and the first time after it, and ended likewise. Its measured length is the
//! difference of the two last times before. The true length lies between two limits, which
//! results state. An activation that continues after on-stack replacement or deoptimisation is
//! one activation.
//!
//! Only what was seen from beginning to end is measured. Activations that were found, that were
//! on the stack where trace was lost, or that are placed or filled are counted apart.

mod figures;
mod histogram;
mod lengths;
mod report;
#[cfg(test)]
mod tests;
mod thread;

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};
use jportal_units::MethodId;

use self::figures::{ActivationFigures, Slowest, Who};
pub use self::histogram::RELATIVE_ERROR;
pub use self::lengths::{Length, Lengths, MethodLengths};
pub use self::report::{Activation, Distribution, Latencies, MethodLatency};
use self::thread::Stopwatch;
pub use self::thread::Stopwatch as LatencyThread;
use crate::execution::OnCore;
use crate::hidden::{Hidden, Inlined};
use crate::names::Naming;

/// Measures activations.
pub struct LatencyAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    /// By method.
    chosen: Box<[bool]>,
    slow: usize,
    on_core: Option<OnCore>,
    exclude: Exclude,
    naming: Naming,
    figures: HashMap<MethodId, ActivationFigures>,
    slowest: Slowest,
    hidden: Hidden,
}

impl std::fmt::Debug for LatencyAnalysis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LatencyAnalysis").field("figures", &self.figures).finish_non_exhaustive()
    }
}

impl LatencyAnalysis {
    /// For the methods of one recording that `wanted` accepts. `inlined` says which methods the
    /// compilers inlined where. The `slow` slowest activations are kept.
    pub fn new(
        methods: Arc<MethodTable>,
        inlined: Arc<Inlined>,
        slow: usize,
        wanted: impl Fn(&Method) -> bool,
    ) -> Self {
        Self {
            shapes: Shapes::new(&methods),
            chosen: methods.iter().map(wanted).collect(),
            methods,
            inlined,
            slow,
            on_core: None,
            exclude: Exclude::default(),
            naming: Naming::default(),
            figures: HashMap::new(),
            slowest: Slowest::new(slow),
            hidden: Hidden::default(),
        }
    }
    /// The same analysis that also measures time on cores.
    pub fn on_core(self, clock: OnCore) -> Self {
        Self { on_core: Some(clock), ..self }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    fn is_chosen(&self, method: MethodId) -> bool {
        self.chosen.get(method.get() as usize).copied().unwrap_or(false)
    }
}

impl Analysis for LatencyAnalysis {
    type Thread = LatencyThread;

    fn begin(&self, info: &ThreadInfo) -> Stopwatch {
        let mut slowest = Slowest::new(self.slow);
        let (started, tid) = (info.started.get(), info.tid.get());
        slowest.threads.push(Who { started, tid, name: info.name.clone() });
        let clock = self.on_core.clone().map(|clock| (clock, info.clone()));
        Stopwatch::new(slowest, clock)
    }
    fn events(&self, thread: &mut Stopwatch, events: &[Event]) -> ControlFlow<Enough> {
        for e in events {
            thread.event(self, e);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: Stopwatch) {
        let (figures, slowest, hidden) = thread.end();
        for (method, own) in figures {
            self.figures.entry(method).or_default().merge(&own);
        }
        self.slowest.merge(slowest);
        self.hidden.merge(hidden);
    }
}
