// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Call trees: for each calling context, how often it was entered and what it executed.
//!
//! A tree has one root per thread, the caller of whatever the VM calls first. A node is a method
//! in its whole calling context. Its bytecodes are those executed in its activations themselves.
//! An activation that continues after OSR or deoptimisation is the same one. The definitions are
//! those of the exact profiler JP (Binder 2005), with precise counts:
//!
//! | events | effect on the tree |
//! |---|---|
//! | `Enter` as `Call`, `Upcall` | a child of the node on top, one more invocation |
//! | `Enter` as `Found` | the same, but a found activation; under `(unknown)` if there is no frame |
//! | `Leave`, then `Enter` as `Osr` or `Deoptimisation` | none |
//! | `Leave` as `Unwind` before a bytecode | the invocation becomes an unstarted one |
//! | `Leave` as `Lost`, and an event follows | figures of the node and below are lower bounds |
//! | `Bytecode`, `Run` | bytecodes of the node on top |
//! | `Unresolved` | bounds for the node; for its callers, too, if they may have begun again |
//! | `Orphan` | a bytecode of the node `(orphans)` under the root |
//! | `Gap` without the stack | back to the root; what follows hangs on `(unknown)` |
//! | `Gap` with the stack | figures of the node on top and below are lower bounds |
//! | an invoke without a callee | an invocation of the leaf `(intrinsic) name` |
//!
//! A bytecode that the flow has twice, because a compiled frame began it and the interpreter
//! executed it again, counts twice, as in all reports.
//!
//! Memory: 64 bytes and an index entry per node, up to [`Options::max_nodes`].

mod arena;
mod build;
#[cfg(test)]
pub(crate) mod by_hand;
mod check;
mod count;
mod lengths;
mod open;
mod options;
mod replay;
mod report;
mod rows;
mod rules;
mod series;
mod split;
mod text;
mod time;
pub(crate) use self::time::TimeShares;
mod walk;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod figure_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod testing;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Analysis, Enough, Event, Exclude, ThreadInfo};

use self::build::Numbered;
use self::rules::Rules;
use self::walk::Hook;
use crate::buckets::BucketMethods;
use crate::execution::OnCore;
use crate::hidden::{Inexact, Inlined};
use crate::names::Naming;

pub use check::BadTree;
pub use options::{Counting, Hide, MAX_NODES, Natives, Options, Upcalls, is_of_hidden_class};
pub use replay::{Change, Live, NodeId, Profiler, Replay, ReplayThread};
pub use report::{BucketTree, CallTree, Context, Delta, Kind, Limits, Settings, Site, ThreadTree, Tiers};
pub use rows::Row;
pub use series::{NodeChange, Series, SeriesAnalysis, SeriesError, SeriesInterval, SeriesRow};
pub use text::{Layout, Weight};
pub use walk::TreeThread;

/// A tree that would need more nodes than allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call tree needs more than {limit} nodes: thread {thread} was at {path}. Fold recursive calls \
     (--fold-recursion), choose fewer classes (--class with --hide fold), or allow more (--max-nodes)"
)]
pub struct TooManyNodes {
    /// The limit.
    pub limit: u64,
    /// OS thread id and name of the thread.
    pub thread: String,
    /// The path that grew, from the root on. The middle of a long path is left out.
    pub path: String,
}

/// Builds call trees.
pub struct TreeAnalysis {
    rules: Rules,
    inlined: Arc<Inlined>,
    naming: Naming,
    threads: Vec<TreeThread>,
}

impl std::fmt::Debug for TreeAnalysis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeAnalysis")
            .field("options", &self.rules.options)
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

impl TreeAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>, options: Options) -> Self {
        let rules = Rules::new(methods, options);
        Self { rules, inlined, naming: Naming::default(), threads: Vec::new() }
    }
    /// The same analysis with a scope: the methods that `wanted` accepts, without those of
    /// [hidden classes](is_of_hidden_class). Frames outside of it are treated as
    /// [`Options::hide`] says; with [`Hide::Show`] the scope has no effect.
    pub fn within(mut self, wanted: impl Fn(&Method) -> bool) -> Self {
        self.rules.scope = options::Scope::new(&self.rules.methods, wanted);
        self
    }
    /// The same analysis with a tree for each bucket: each outermost activation of a method that
    /// `begins` accepts. The tree of what a thread executes outside of its buckets is `(none)`.
    /// Threads without buckets have one tree, `(other threads)`. After the first 2²⁰ buckets of a
    /// thread, the activations that follow share the tree `(further)`.
    pub fn split(mut self, begins: impl Fn(&Method) -> bool) -> Self {
        self.rules.split = Some(BucketMethods::new(&self.rules.methods, begins));
        self
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(mut self, exclude: Exclude) -> Self {
        self.rules.exclude = exclude;
        self
    }
    /// The same analysis with a different naming of methods. Nodes whose names become equal are
    /// added up.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    /// The same analysis with a clock that knows when threads were on cores. Without a clock all
    /// time between two times of a flow counts.
    pub fn timed_by(mut self, clock: OnCore) -> Self {
        self.rules.clock = Some(clock);
        self
    }
    /// The trees of all threads.
    ///
    /// # Errors
    /// If they need more than [`Options::max_nodes`] nodes.
    pub fn tree(&self) -> Result<CallTree, TooManyNodes> {
        Ok(self.numbered()?.tree)
    }
    /// The trees, and the numbers of their nodes.
    fn numbered(&self) -> Result<Numbered, TooManyNodes> {
        self.check()?;
        Ok(build::tree(&self.rules, (&self.inlined, self.naming), &self.threads))
    }
    /// Whether all figures of all threads are exact, and why not: what [`TreeAnalysis::tree`]
    /// says of the same threads, without building the result.
    ///
    /// # Errors
    /// As [`TreeAnalysis::tree`].
    pub fn exactness(&self) -> Result<(bool, Inexact), TooManyNodes> {
        self.check()?;
        Ok(build::exactness(&self.rules, &self.inlined, &self.threads))
    }
    /// Number of blocks that an exception left after a bytecode that throws none, so after an
    /// asynchronous exception. Expected to be 0: only such exceptions make the precise count of
    /// JP, which ends blocks at bytecodes that may throw, differ from that of single bytecodes.
    pub fn cuts(&self) -> u64 {
        self.threads.iter().map(|t| t.cuts).sum()
    }
    fn check(&self) -> Result<(), TooManyNodes> {
        // Threads are merged in any order.
        let mut full: Vec<&TreeThread> = self.threads.iter().filter(|t| t.arena.refused.is_some()).collect();
        full.sort_by_key(|t| (t.info.started, t.info.tid));
        let Some((thread, (parent, _))) = full.first().and_then(|t| Some((t, t.arena.refused?))) else {
            return Ok(());
        };
        let (tid, name) = (thread.info.tid.get(), jportal_plain::line(&thread.info.name));
        Err(TooManyNodes {
            limit: self.rules.room.most(),
            thread: format!("{tid} \"{name}\""),
            path: build::path(&self.rules, self.naming, &thread.arena, parent),
        })
    }
    fn process(
        &self,
        thread: &mut TreeThread,
        events: &[Event],
        hook: &mut impl Hook,
    ) -> ControlFlow<Enough> {
        for event in events {
            thread.event(&self.rules, event, hook);
        }
        match thread.arena.refused {
            Some(_) => ControlFlow::Break(Enough::OfAll),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Analysis for TreeAnalysis {
    type Thread = TreeThread;

    fn begin(&self, info: &ThreadInfo) -> TreeThread {
        TreeThread::new(info.clone(), false)
    }
    fn events(&self, thread: &mut TreeThread, events: &[Event]) -> ControlFlow<Enough> {
        self.process(thread, events, &mut ())
    }
    fn merge(&mut self, mut thread: TreeThread) {
        thread.end_buckets();
        thread.arena.seal();
        self.threads.push(thread);
    }
}
