// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Coverage per activation of chosen methods, such as tests or requests.
//!
//! Each outermost activation of a chosen method is a *bucket* `name#n` (module `buckets`). What a
//! thread with buckets executes outside of them belongs to `(none)`. Threads without buckets belong
//! to `(other threads)`.
//!
//! The counts of a bucket are summed up by line when it ends, so memory is bounded by the lines
//! covered in each bucket. After [`SplitAnalysis::limit`] buckets of a thread, the activations
//! that follow share the bucket `(further)`.

mod report;
#[cfg(test)]
mod split_tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Analysis, Enough, Event, Exclude, Tally, ThreadInfo};
use jportal_units::MethodId;

use crate::blocks::{Code, ExecutionCounter, Facts, MethodCounts, Table};
use crate::buckets::{self, BucketEnd, BucketMethods, CurrentBucket};
use crate::hidden::{Hidden, Inlined};
use crate::names::Naming;

pub use self::report::{Bucket, BucketThread, Covers, Split, SplitCell, SplitLine, SplitRow};

/// What a bucket executed of one line of a method.
#[derive(Clone, Copy, Debug)]
struct Cell {
    method: MethodId,
    /// `None`: bytecodes without a line.
    line: Option<u16>,
    /// The greatest count of its bytecodes.
    times: Tally,
    /// Bytecodes executed.
    bytecodes: Tally,
}

/// A bucket that ended.
#[derive(Debug)]
struct EndedBucket {
    /// The method whose activation it is.
    method: MethodId,
    /// Beginning and end were seen.
    complete: bool,
    cells: Box<[Cell]>,
    hidden: Hidden,
}

/// What is not in a bucket of its own.
#[derive(Debug, Default)]
struct Rest {
    table: Table,
    hidden: Hidden,
    /// Number of activations.
    activations: u64,
}

/// The buckets of one thread.
#[derive(Debug)]
struct ThreadBuckets {
    thread: ThreadInfo,
    buckets: Vec<EndedBucket>,
}

/// Collects coverage per bucket from the flows of all threads.
#[derive(Debug)]
pub struct SplitAnalysis {
    code: Code,
    begins: BucketMethods,
    exclude: Exclude,
    naming: Naming,
    limit: usize,
    threads: Vec<ThreadBuckets>,
    outside: Rest,
    others: Rest,
    further: Rest,
}

impl SplitAnalysis {
    /// Buckets of one thread, unless [`Self::limit`] says otherwise.
    pub const LIMIT: usize = buckets::LIMIT;

    /// For the methods of one recording. The outermost activations of the methods that `begins`
    /// accepts are buckets. `inlined` says which methods the compilers inlined where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>, begins: impl Fn(&Method) -> bool) -> Self {
        let begins = BucketMethods::new(&methods, begins);
        let (exclude, naming, threads) = Default::default();
        let (outside, others, further) = Default::default();
        let (code, limit) = (Code::new(methods, inlined), Self::LIMIT);
        Self { code, begins, exclude, naming, limit, threads, outside, others, further }
    }
    /// The same analysis without events of some provenances.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    /// The same analysis with at most this many buckets of a thread.
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// The state of one thread.
#[derive(Debug)]
pub struct SplitThread {
    thread: ThreadInfo,
    /// Counts into the open bucket, or outside of all.
    counter: ExecutionCounter,
    /// The other table: outside of all buckets while one is open, otherwise an empty one.
    idle: Table,
    current: CurrentBucket,
    buckets: Vec<EndedBucket>,
    outside: Hidden,
    further: Rest,
}

impl SplitThread {
    fn begin(&mut self) {
        self.outside.merge(self.counter.follower.take());
        std::mem::swap(&mut self.counter.table, &mut self.idle);
    }
    fn end(&mut self, code: &Code, limit: usize, BucketEnd { method, complete }: BucketEnd) {
        let hidden = self.counter.follower.take();
        std::mem::swap(&mut self.counter.table, &mut self.idle);
        if self.buckets.len() >= limit {
            self.further.hidden.merge(hidden);
            self.further.table.merge(std::mem::take(&mut self.idle));
            self.further.activations += 1;
            return;
        }
        let mut cells = Vec::new();
        self.idle.throws.clear();
        for (method, counts) in self.idle.drain() {
            add_cells(code, method, &counts, &mut cells);
        }
        self.buckets.push(EndedBucket { method, complete, cells: cells.into(), hidden });
    }
}

/// Adds the counts of a method by line.
fn add_cells(code: &Code, method: MethodId, counts: &MethodCounts, cells: &mut Vec<Cell>) {
    let Some(parts) = code.parts(method) else { return };
    let facts = Facts::of(&parts, Some(counts), None);
    let mut without_line = facts.bytecodes();
    for (line, of) in facts.lines(&parts).into_iter().filter(|(_, of)| of.times.total() > 0) {
        without_line = less(without_line, of.executions);
        cells.push(Cell { method, line: Some(line), times: of.times, bytecodes: of.executions });
    }
    if without_line.total() > 0 {
        cells.push(Cell { method, line: None, times: Tally::default(), bytecodes: without_line });
    }
}

const fn less(a: Tally, b: Tally) -> Tally {
    Tally {
        decoded: a.decoded - b.decoded,
        projected: a.projected - b.projected,
        recovered: a.recovered - b.recovered,
    }
}

impl SplitAnalysis {
    fn event(&self, own: &mut SplitThread, event: &Event) {
        let depth = |own: &SplitThread| own.counter.follower.stack().depth();
        let boundary = own.current.before(&self.begins, &event.kind, depth(own));
        if let Some(ended) = boundary.ended {
            own.end(&self.code, self.limit, ended);
        }
        if boundary.begins {
            own.begin();
        }
        own.counter.event(&self.code, event, self.exclude);
        if let Some(ended) = own.current.after(&event.kind, depth(own)) {
            own.end(&self.code, self.limit, ended);
        }
    }
}

impl Analysis for SplitAnalysis {
    type Thread = SplitThread;

    fn begin(&self, thread: &ThreadInfo) -> SplitThread {
        let (counter, idle, current, outside, further) = Default::default();
        let (thread, buckets) = (thread.clone(), Vec::new());
        SplitThread { thread, counter, idle, current, buckets, outside, further }
    }
    fn events(&self, thread: &mut SplitThread, events: &[Event]) -> ControlFlow<Enough> {
        events.iter().for_each(|event| self.event(thread, event));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: SplitThread) {
        if let Some(ended) = thread.current.end() {
            thread.end(&self.code, self.limit, ended);
        }
        let SplitThread { thread, counter, buckets, mut outside, further, .. } = thread;
        outside.merge(counter.follower.end());
        let rest = if buckets.is_empty() { &mut self.others } else { &mut self.outside };
        rest.table.merge(counter.table);
        rest.hidden.merge(outside);
        self.further.table.merge(further.table);
        self.further.hidden.merge(further.hidden);
        self.further.activations += further.activations;
        if !buckets.is_empty() {
            self.threads.push(ThreadBuckets { thread, buckets });
        }
    }
}
