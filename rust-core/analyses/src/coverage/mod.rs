// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage: which of the classes, methods, bytecodes, lines and branch outcomes were executed,
//! and how often.
//!
//! A line counts as executed when one of its bytecodes was. A bytecode that throws was executed,
//! and so was what ran before it. A branch outcome is one distinct successor of a conditional or
//! switch. It counts when the flow has the successor directly after the branch. Each of them
//! counts under the best provenance it is known by.
//!
//! What was not seen is *missed* or *unknown*. It is unknown if it may have been executed in a
//! place where the flow says that it does not know (module `hidden`). Therefore `executed` is a
//! lower bound and `at_most` an upper bound. Where trace was lost, any method may have run.
//! Then an item that counts as missed was not seen, but may have been executed nevertheless.
//!
//! [`split`] divides coverage among activations of chosen methods, such as tests or requests.

mod cover;
mod detail;
mod figures;
pub mod split;
mod text;
mod uncovered;

#[cfg(test)]
mod coverage_tests;
#[cfg(test)]
mod detail_tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};
use serde::{Deserialize, Serialize};

use crate::blocks::{CountsAnalysis, CountsThread};
use crate::hidden::{Inexact, Inlined};
use crate::names::{Naming, Version};

pub use self::detail::{Detail, LineCoverage, WayCoverage};
pub use self::figures::{Figures, Ratio, Units};
pub use self::uncovered::{Uncovered, UncoveredClass, UncoveredMethod};

/// One method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCoverage {
    /// Name and descriptor.
    pub name: String,
    /// The version, if the method was redefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Lines of which no bytecode was executed. See [`Coverage::missed_is_certain`].
    pub missed_lines: Vec<u16>,
    /// Lines of which no bytecode was seen, but some may have been executed.
    pub unknown_lines: Vec<u16>,
    /// Counts of its parts, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// One class of one loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCoverage {
    /// Binary name (`java.lang.Object`).
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// The `SourceFile` attribute, possibly empty.
    pub source_file: String,
    /// Sum over the methods.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its methods, and the class itself.
    pub units: Units,
    /// Its methods with bytecode, in order of definition. A redefined method has a row for each
    /// version that ran, and one for the last version.
    pub methods: Vec<MethodCoverage>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Whether nothing is unknown in the classes shown, and nothing was lost or inferred.
    pub exact: bool,
    /// Whether everything that counts as missed was certainly not executed in the threads
    /// shown. It is not certain where trace was lost.
    pub missed_is_certain: bool,
    /// Why the report is not exact, in the threads shown.
    pub inexact: Inexact,
    /// Sum over the classes.
    pub total: Figures,
    /// Methods and classes.
    pub units: Units,
    /// The classes, by name.
    pub classes: Vec<ClassCoverage>,
}

/// What the report contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverageOptions {
    /// Counts of lines and ways ([`MethodCoverage::detail`]).
    pub counts: bool,
    /// Whether the ways of exceptions count as branch outcomes, too: from each bytecode that may
    /// throw (JVMS 6.5) to each handler that covers it, and out of the method if no handler that
    /// covers it catches everything.
    pub exception_branches: bool,
}

/// Collects coverage from the flows of all threads.
#[derive(Debug)]
pub struct CoverageAnalysis {
    counts: CountsAnalysis,
}

impl CoverageAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        Self { counts: CountsAnalysis::new(methods, inlined) }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { counts: self.counts.excluding(exclude) }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { counts: self.counts.naming(naming) }
    }
    /// The report over the classes whose methods `wanted` accepts, without counts.
    pub fn report(&self, wanted: impl Fn(&Method) -> bool) -> Coverage {
        self.counts.coverage(CoverageOptions::default(), wanted)
    }
    /// The report over the classes whose methods `wanted` accepts.
    pub fn report_with(&self, options: CoverageOptions, wanted: impl Fn(&Method) -> bool) -> Coverage {
        self.counts.coverage(options, wanted)
    }
    /// The counts that the report is made from.
    pub const fn counts(&self) -> &CountsAnalysis {
        &self.counts
    }
}

/// The counts of one thread.
pub type CoverageThread = CountsThread;

impl Analysis for CoverageAnalysis {
    type Thread = CoverageThread;

    fn begin(&self, thread: &ThreadInfo) -> CoverageThread {
        self.counts.begin(thread)
    }
    fn events(&self, thread: &mut CoverageThread, events: &[Event]) -> ControlFlow<Enough> {
        self.counts.events(thread, events)
    }
    fn merge(&mut self, thread: CoverageThread) {
        self.counts.merge(thread);
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
