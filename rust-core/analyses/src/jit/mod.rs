// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the JIT compilers decided, beside what ran.
//!
//! A recording says what each piece of compiled code contains ([`Compilation`]). The flow says
//! which of it ran, if the consumer takes [steps of code](jportal_flow::EventKind::Code). This
//! analysis puts the two beside each other, and beside HotSpot's own log of its compilers
//! ([`CompilationLog`]) if there is one.
//!
//! Figures are what was seen. Where trace was lost, or a stretch is unresolved, they are lower
//! bounds. Memory is bounded by the compiled code and by the number of call sites, per thread.

mod compilation;
mod count;
mod join;
mod log;
mod report;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};

pub use self::compilation::{ChainFrame, CodeState, Compilation, CompilationTable, PlannedTrap};
use self::count::JitCounted;
pub use self::count::JitThread;
pub use self::join::{LogJoin, LogOnly, TrapMismatch};
pub use self::log::{CompilationLog, LogBranch, LogCall, LogNMethod, LogTask, LogTrap};
pub use self::report::{
    BranchRow, CallRow, CodeClock, CodeEnd, DeoptRow, Jit, JitOptions, JitSite, JitTotals, LoopRow,
    NMethodRow, StormRow, TakenWay, TierRow, UntakenBlock,
};
use crate::blocks::CountsAnalysis;
use crate::execution::OnCore;
use crate::hidden::Inlined;
use crate::names::{FirstOfName, Naming};
use crate::polymorphism::outcome::Site;

/// Counts what compiled code did.
pub struct JitAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    compilations: Arc<CompilationTable>,
    counts: CountsAnalysis,
    counted: JitCounted,
    on_core: Option<OnCore>,
    exclude: Exclude,
    naming: Naming,
    first: FirstOfName,
}

impl std::fmt::Debug for JitAnalysis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JitAnalysis").field("counted", &self.counted).finish_non_exhaustive()
    }
}

impl JitAnalysis {
    /// For the methods and the compiled code of one recording. `inlined` says which methods the
    /// compilers inlined where.
    pub fn new(
        methods: Arc<MethodTable>,
        inlined: Arc<Inlined>,
        compilations: Arc<CompilationTable>,
    ) -> Self {
        let counts = CountsAnalysis::new(Arc::clone(&methods), Arc::clone(&inlined));
        let shapes = Shapes::new(&methods);
        let (counted, on_core, exclude, naming, first) = Default::default();
        Self { methods, inlined, shapes, compilations, counts, counted, on_core, exclude, naming, first }
    }
    /// The same analysis that also measures time on cores.
    pub fn on_core(self, clock: OnCore) -> Self {
        Self { on_core: Some(clock), ..self }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, counts: self.counts.excluding(exclude), ..self }
    }
    /// The same analysis with a different naming of methods. Methods of one name are one target,
    /// and their sites are one.
    pub fn naming(self, naming: Naming) -> Self {
        let first = FirstOfName::new(&self.methods, naming);
        Self { naming, first, counts: self.counts.naming(naming), ..self }
    }
    fn first(&self, site: Site) -> Site {
        (self.first.of(site.0), site.1)
    }
}

impl Analysis for JitAnalysis {
    type Thread = JitThread;

    fn begin(&self, info: &ThreadInfo) -> JitThread {
        JitThread::new(info.clone())
    }
    fn events(&self, thread: &mut JitThread, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            thread.event(self, event);
        }
        self.counts.events(&mut thread.counts, events)
    }
    fn merge(&mut self, mut thread: JitThread) {
        thread.end(self);
        self.counts.merge(thread.counts);
        self.counted.merge(thread.counted);
    }
    fn takes_code(&self) -> bool {
        true
    }
}
