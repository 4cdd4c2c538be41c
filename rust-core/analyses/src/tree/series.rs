// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A call tree as a series: what each node counted in each interval of its thread.
//!
//! An interval ends at the first check point (module `replay`) after a number of bytecodes, or with
//! the thread. The changes of a node add up to its figures in the tree.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use jportal_flow::{Analysis, Enough, Event, ThreadInfo};
use jportal_plain::table::{Align, percent, table};
use jportal_units::{Tid, Tsc};
use serde::Serialize;

use super::build::Numbered;
use super::replay::{Change, Live, NodeId, Profiler, Replay, ReplayThread};
use super::report::CallTree;
use super::{TooManyNodes, TreeAnalysis};
use crate::hot::least_note;

/// Maximum number of changes that are kept: 24 bytes each.
const MOST_CHANGES: u64 = 1 << 26;

/// Why there is no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesError {
    /// The tree is too large.
    #[error(transparent)]
    Nodes(#[from] TooManyNodes),
    /// The series is too long.
    #[error("the series has more than {limit} changes of nodes; choose longer intervals (--every)")]
    Changes {
        /// The limit.
        limit: u64,
    },
}

/// What a node counted in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeChange {
    /// The node's number in the tree.
    pub node: u32,
    /// Activations that began. Less than 0 if more of the interval before turned out to have ended
    /// before their first bytecode than began in this one.
    pub invocations: i64,
    /// Bytecodes executed in the node itself.
    pub bytecodes: u64,
}

/// What a thread counted in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesInterval {
    /// The thread: a place in the tree's list of threads.
    pub thread: usize,
    /// Number of the interval in its thread, from 1.
    pub number: u64,
    /// Bytecodes that the thread had executed when the interval ended.
    pub end: u64,
    /// The nodes that counted something, by number.
    pub changes: Vec<NodeChange>,
}

impl SeriesInterval {
    /// Bytecodes executed in the interval.
    pub fn bytecodes(&self) -> u64 {
        self.changes.iter().map(|c| c.bytecodes).sum()
    }
    /// Activations that began in the interval, see [`NodeChange::invocations`].
    pub fn invocations(&self) -> i64 {
        self.changes.iter().map(|c| c.invocations).sum()
    }
}

/// A call tree with the changes of its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The whole tree.
    #[serde(flatten)]
    pub tree: CallTree,
    /// Smallest number of bytecodes of an interval that is not the last one of its thread.
    pub every: u32,
    /// The intervals, by thread and in order. Those in which nothing was counted are left out.
    pub intervals: Vec<SeriesInterval>,
}

/// The change of a node as a row. The names of the fields are those of the columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesRow<'a> {
    /// `name (tid n)`.
    pub thread: &'a str,
    /// Number of the interval in its thread, from 1.
    pub interval: u64,
    /// Bytecodes that the thread had executed when the interval ended.
    pub end: u64,
    /// Number of the node.
    pub node: u32,
    /// Number of the parent; empty for a root.
    pub parent: Option<u32>,
    /// `class.name(descriptor)`, or a text in parentheses.
    pub method: &'a str,
    /// Loader of the class; empty for the boot loader.
    pub loader: &'a str,
    /// Activations that began in the interval.
    pub invocations: i64,
    /// Bytecodes executed in the node itself in the interval.
    pub bytecodes: u64,
}

/// Keeps the changes of one thread.
#[derive(Debug)]
pub struct RecordedThread {
    key: (Tid, Tsc),
    /// Bytecodes so far.
    done: u64,
    /// The end of each interval, and the changes in it.
    intervals: Vec<(u64, Vec<Change>)>,
}

#[derive(Debug)]
struct ChangeRecorder {
    every: u32,
    kept: AtomicU64,
    most: u64,
    ended: Vec<RecordedThread>,
}

impl Profiler for ChangeRecorder {
    type Thread = RecordedThread;

    fn register(&self, thread: &ThreadInfo, _: &mut Live<'_>) -> (RecordedThread, u32) {
        let key = (thread.tid, thread.started);
        (RecordedThread { key, done: 0, intervals: Vec::new() }, self.every)
    }
    fn report(&self, own: &mut RecordedThread, tree: &mut Live<'_>, _: NodeId) -> u32 {
        let mut changes = tree.take_changes();
        own.done += changes.iter().map(|c| c.bytecodes).sum::<u64>();
        changes.retain(|c| (c.invocations, c.bytecodes) != (0, 0));
        changes.shrink_to_fit();
        let new = changes.len() as u64;
        if new > 0 && self.kept.fetch_add(new, Ordering::Relaxed) + new <= self.most {
            own.intervals.push((own.done, changes));
        }
        self.every
    }
    fn end(&mut self, own: RecordedThread) {
        self.ended.push(own);
    }
}

/// Builds call trees with the changes of their nodes.
#[derive(Debug)]
pub struct SeriesAnalysis(Replay<ChangeRecorder>);

impl SeriesAnalysis {
    /// Divides the execution of each thread into intervals of at least `every` bytecodes. The
    /// threads of the tree must not be merged, and it must have no buckets.
    pub fn new(tree: TreeAnalysis, every: u32) -> Self {
        Self::with_room(tree, every, MOST_CHANGES)
    }
    fn with_room(tree: TreeAnalysis, every: u32, most: u64) -> Self {
        let (kept, ended) = Default::default();
        Self(Replay::new(tree, ChangeRecorder { every, kept, most, ended }))
    }
    /// The series of all threads.
    ///
    /// # Errors
    /// If the tree needs more than the allowed number of nodes, or the series is too long.
    pub fn series(&self) -> Result<Series, SeriesError> {
        let Replay { tree, profiler } = &self.0;
        let Numbered { tree, numbers } = tree.numbered()?;
        if profiler.kept.load(Ordering::Relaxed) > profiler.most {
            return Err(SeriesError::Changes { limit: profiler.most });
        }
        let recorded: HashMap<(Tid, Tsc), &RecordedThread> =
            profiler.ended.iter().map(|thread| (thread.key, thread)).collect();
        let mut intervals = Vec::new();
        for (at, (key, numbers)) in numbers.iter().enumerate() {
            let of_thread = recorded.get(key).map_or(&[][..], |thread| &thread.intervals);
            for (number, (end, changes)) in (1..).zip(of_thread) {
                let changes = renumbered(changes, numbers);
                intervals.push(SeriesInterval { thread: at, number, end: *end, changes });
            }
        }
        Ok(Series { tree, every: profiler.every, intervals })
    }
}

/// The changes by the numbers of the tree. Those of nodes that became one are added up.
fn renumbered(changes: &[Change], numbers: &[u32]) -> Vec<NodeChange> {
    let new = |c: &Change| {
        let node = *numbers.get(c.node.index())?;
        Some(NodeChange { node, invocations: c.invocations, bytecodes: c.bytecodes })
    };
    let mut all: Vec<NodeChange> = changes.iter().filter_map(new).collect();
    all.sort_by_key(|c| c.node);
    all.dedup_by(|next, kept| {
        let same = next.node == kept.node;
        if same {
            kept.invocations += next.invocations;
            kept.bytecodes += next.bytecodes;
        }
        same
    });
    all
}

impl Analysis for SeriesAnalysis {
    type Thread = ReplayThread<RecordedThread>;

    fn begin(&self, info: &ThreadInfo) -> Self::Thread {
        self.0.begin(info)
    }
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> std::ops::ControlFlow<Enough> {
        self.0.events(thread, events)
    }
    fn merge(&mut self, thread: Self::Thread) {
        self.0.merge(thread);
    }
}

impl Series {
    /// Calls `row` with each change, by thread, interval and node. Ends with the first error that
    /// it returns.
    ///
    /// # Errors
    /// Those of `row`.
    pub fn rows<E>(&self, mut row: impl FnMut(&SeriesRow<'_>) -> Result<(), E>) -> Result<(), E> {
        let name =
            |t: &super::ThreadTree| t.tid.map_or(t.name.clone(), |tid| format!("{} (tid {tid})", t.name));
        let names: Vec<String> = self.tree.threads.iter().map(name).collect();
        for interval in &self.intervals {
            for change in &interval.changes {
                let Some(node) = self.tree.nodes.get(change.node as usize) else { continue };
                row(&SeriesRow {
                    thread: names.get(interval.thread).map_or("", String::as_str),
                    interval: interval.number,
                    end: interval.end,
                    node: change.node,
                    parent: node.parent,
                    method: &node.method,
                    loader: &node.loader,
                    invocations: change.invocations,
                    bytecodes: change.bytecodes,
                })?;
            }
        }
        Ok(())
    }
    /// A table for each thread: its intervals, each with the node that executed most.
    pub fn text(&self) -> String {
        let columns = [
            ("interval", Align::Right),
            ("end", Align::Right),
            ("bytecodes", Align::Right),
            ("calls", Align::Right),
            ("nodes", Align::Right),
            ("share", Align::Right),
            ("most in", Align::Left),
        ];
        let mut text = String::new();
        let mut rest = &self.intervals[..];
        for (at, thread) in self.tree.threads.iter().enumerate() {
            let (own, others) = rest.split_at(rest.partition_point(|interval| interval.thread <= at));
            rest = others;
            let (name, tid) = (jportal_plain::line(&thread.name), thread.tid.unwrap_or_default());
            let exact = if thread.exact { "exact" } else { "not exact" };
            text.push_str(&format!(
                "thread \"{name}\" (tid {tid}), {exact}, every {} bytecodes\n",
                self.every
            ));
            let rows: Vec<_> = own.iter().map(|interval| self.row(interval)).collect();
            text.push_str(&table(&columns, &rows));
        }
        text + &least_note(&self.tree.inexact, self.tree.exact)
    }
    fn row(&self, interval: &SeriesInterval) -> Vec<String> {
        // Of nodes that executed the same number, the first.
        let most = interval.changes.iter().max_by_key(|c| (c.bytecodes, std::cmp::Reverse(c.node)));
        let method = most.and_then(|c| self.tree.nodes.get(c.node as usize)).map_or("", |node| &node.method);
        let all = interval.bytecodes();
        vec![
            interval.number.to_string(),
            interval.end.to_string(),
            all.to_string(),
            interval.invocations().to_string(),
            interval.changes.len().to_string(),
            percent(most.map_or(0, |c| c.bytecodes), all),
            method.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run_tests::{RandomFlow, in_runs, methods};
    use crate::testing::{feed, gap};
    use crate::tree::examples::foo;
    use crate::tree::testing::executed;
    use crate::tree::{Options, TreeAnalysis};
    use std::sync::Arc;

    fn tree(methods: &Arc<jportal_bytecode::MethodTable>) -> TreeAnalysis {
        TreeAnalysis::new(Arc::clone(methods), Arc::default(), Options::default())
    }

    /// Invocations and bytecodes by node.
    fn sums(series: &Series) -> BTreeMap<u32, (i64, u64)> {
        let mut sums: BTreeMap<u32, (i64, u64)> = BTreeMap::new();
        for change in series.intervals.iter().flat_map(|interval| &interval.changes) {
            let sum = sums.entry(change.node).or_default();
            *sum = (sum.0 + change.invocations, sum.1 + change.bytecodes);
        }
        sums.retain(|_, sum| *sum != (0, 0));
        sums
    }

    #[test]
    fn changes_add_up_to_the_tree() {
        for (seed, every) in (0..60).flat_map(|seed| [1, 10, 1_000_000].map(|every| (seed, every))) {
            let mut flow = RandomFlow::random(seed);
            (0..6).for_each(|_| flow.caller());
            let mut whole = tree(&methods());
            let mut series = SeriesAnalysis::new(tree(&methods()), every);
            for tid in [3, 2] {
                feed(&mut whole, tid, &flow.events);
                feed(&mut series, tid, &in_runs(&methods(), &flow.events));
            }
            let (whole, series) = (whole.tree().unwrap(), series.series().unwrap());
            assert_eq!(series.tree, whole, "seed {seed}");
            let nodes = whole.nodes.iter();
            let counted = nodes.map(|n| (n.id, (n.invocations.total() as i64, n.bytecodes.total())));
            let counted: BTreeMap<_, _> = counted.filter(|(_, sum)| *sum != (0, 0)).collect();
            assert_eq!(sums(&series), counted, "seed {seed}, every {every}");
            for pair in series.intervals.windows(2).filter(|p| p[0].thread == p[1].thread) {
                assert_eq!(pair[1].end - pair[1].bytecodes(), pair[0].end, "seed {seed}");
                assert!(pair[0].bytecodes() >= every.into(), "seed {seed}");
            }
        }
    }

    #[test]
    fn rows_and_text_of_intervals() {
        let program = foo();
        let (events, _) = executed(&program, 0);
        let mut analysis = SeriesAnalysis::new(tree(&program), 100);
        feed(&mut analysis, 7, &events);
        feed(&mut analysis, 8, &[gap(true)]);
        let series = analysis.series().unwrap();
        assert_eq!(series.intervals.iter().map(SeriesInterval::bytecodes).sum::<u64>(), 625);
        assert_eq!(series.intervals.last().map(|i| (i.thread, i.number, i.end)), Some((0, 7, 625)));
        let mut rows = Vec::new();
        series
            .rows(|row| {
                rows.push((row.thread.to_owned(), row.interval, row.method.to_owned(), row.bytecodes));
                Ok::<_, ()>(())
            })
            .unwrap();
        let main = ("t7 (tid 7)".to_owned(), 1, "Foo.main([Ljava/lang/String;)V".to_owned(), 4);
        assert!(rows.contains(&main), "{rows:?}");
        let text = series.text();
        assert!(text.starts_with("thread \"t7\" (tid 7), exact, every 100 bytecodes\n"), "{text}");
        let row = text.lines().find(|l| l.trim_start().starts_with("6 ")).unwrap();
        assert!(row.ends_with("  Foo.g(I)V"), "{text}");
        assert!(text.contains("thread \"t8\" (tid 8), not exact"), "{text}");
    }

    #[test]
    fn a_series_that_is_too_long_is_refused() {
        let program = foo();
        let (events, _) = executed(&program, 0);
        let mut analysis = SeriesAnalysis::with_room(tree(&program), 1, 20);
        feed(&mut analysis, 7, &events);
        let refused = analysis.series().unwrap_err();
        assert_eq!(refused, SeriesError::Changes { limit: 20 });
        assert!(refused.to_string().contains("--every"), "{refused}");
    }
}
