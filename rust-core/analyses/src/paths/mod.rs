// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Paths: how often each acyclic path of each method was executed.
//!
//! A path begins at the method's entry, after a back edge, or at an exception handler. It is
//! *completed* at a back edge, a return or an `athrow`. It is *cut* when an exception leaves a
//! block before its end, and where the flow leaves open what the frame executed. Calls do not end
//! a path; neither do OSR and deoptimisation. Module `numbering` says how paths are numbered.
//!
//! What a frame executes in an unknown path belongs to no path. The next path begins where the
//! flow shows it: after a back edge, at a handler, or at a block to which nothing else leads. So
//! every path counted was executed, and counts are lower bounds where something is missing.
//!
//! Memory is bounded by the distinct paths that were executed.

#[cfg(test)]
pub(crate) mod examples;
mod frames;
#[cfg(test)]
pub(crate) mod machine;
mod number;
mod numbering;
#[cfg(test)]
mod numbering_tests;
mod register;
mod report;
#[cfg(test)]
mod tests;
mod text;

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use jportal_bytecode::{BytecodeError, MethodTable, Shapes};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exclude, Exit, Provenance, Tally, ThreadInfo};
use jportal_units::{Bci, MethodId};

pub(crate) use self::frames::{Activation, Frames};
pub use self::numbering::{Begin, End, LIMIT, Numbering, Path};
pub use self::register::Reason;
use self::register::{PathOutcome, Register};
pub use self::report::{CutRow, HotPath, MethodPaths, PathRow, Paths, Show};
pub use self::text::CSV_HEAD;
use crate::hidden::{Follower, Hidden, Inlined};
use crate::names::Naming;

/// The numberings of all methods. Each is computed on first use.
#[derive(Debug)]
pub struct Numberings {
    all: Box<[OnceLock<Result<Numbering, BytecodeError>>]>,
}

impl Numberings {
    /// For the methods of one recording.
    pub fn new(methods: &MethodTable) -> Self {
        Self { all: (0..methods.len()).map(|_| OnceLock::new()).collect() }
    }
    /// The numbering of a method; `None` if there is no such method.
    ///
    /// # Errors
    /// If the method's bytecodes are malformed.
    pub fn get(&self, methods: &MethodTable, id: MethodId) -> Option<Result<&Numbering, &BytecodeError>> {
        let method = methods.get(id)?;
        Some(self.all.get(id.get() as usize)?.get_or_init(|| Numbering::of(method)).as_ref())
    }
}

/// A path without an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct CutKey {
    method: MethodId,
    /// The sum of the values of its edges; `None` if its beginning is unknown, too.
    prefix: Option<u64>,
    /// The last bytecode; the first one if the beginning is unknown.
    bci: Bci,
    reason: Reason,
}

/// How often a path was cut.
#[derive(Clone, Copy, Debug, Default)]
struct CutCount {
    times: Tally,
    bytecodes: u64,
}

/// What was counted.
#[derive(Debug, Default)]
struct PathCounts {
    completed: HashMap<(MethodId, u64), Tally>,
    cut: HashMap<CutKey, CutCount>,
    bytecodes: Tally,
    /// Bytecodes that were executed again after a deoptimisation.
    again: u64,
}

impl PathCounts {
    fn add(&mut self, method: MethodId, outcome: PathOutcome) {
        let (key, provenance, bytecodes) = match outcome {
            PathOutcome::Completed(id, open) => {
                self.completed.entry((method, id)).or_default().add(open.provenance);
                return;
            }
            PathOutcome::Again(_) => {
                self.again += 1;
                return;
            }
            PathOutcome::Cut(open, bci, reason) => {
                (CutKey { method, prefix: Some(open.prefix), bci, reason }, open.provenance, open.bytecodes)
            }
            PathOutcome::Part(part) => {
                let Some((bci, provenance)) = part.seen else { return };
                (CutKey { method, prefix: None, bci, reason: part.reason }, provenance, part.bytecodes)
            }
        };
        let cut = self.cut.entry(key).or_default();
        cut.times.add(provenance);
        cut.bytecodes += bytecodes;
    }
    /// Bytecodes that fit no frame, or whose code cannot be parsed.
    fn stray(&mut self, method: MethodId, bci: Bci, provenance: Provenance, bytecodes: u64) {
        let key = CutKey { method, prefix: None, bci, reason: Reason::Break };
        let cut = self.cut.entry(key).or_default();
        cut.times.add(provenance);
        cut.bytecodes += bytecodes;
    }
    fn merge(&mut self, other: Self) {
        for (key, tally) in other.completed {
            self.completed.entry(key).or_default().merge(&tally);
        }
        for (key, cut) in other.cut {
            let into = self.cut.entry(key).or_default();
            into.times.merge(&cut.times);
            into.bytecodes += cut.bytecodes;
        }
        self.bytecodes.merge(&other.bytecodes);
        self.again += other.again;
    }
}

/// Counts paths.
#[derive(Debug)]
pub struct PathsAnalysis {
    methods: Arc<MethodTable>,
    inlined: Arc<Inlined>,
    shapes: Shapes,
    numberings: Numberings,
    /// Of methods without a numbering.
    none: Numbering,
    counts: PathCounts,
    hidden: Hidden,
    exclude: Exclude,
    naming: Naming,
}

impl PathsAnalysis {
    /// For the methods of one recording. `inlined` says which methods the compilers inlined
    /// where.
    pub fn new(methods: Arc<MethodTable>, inlined: Arc<Inlined>) -> Self {
        let (shapes, numberings) = (Shapes::new(&methods), Numberings::new(&methods));
        let (none, counts, hidden, exclude, naming) = Default::default();
        Self { methods, inlined, shapes, numberings, none, counts, hidden, exclude, naming }
    }
    /// The same analysis without events of some provenances. A path with such an event is cut.
    pub fn excluding(self, exclude: Exclude) -> Self {
        Self { exclude, ..self }
    }
    /// The same analysis with a different naming of methods.
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }
    fn numbering(&self, method: MethodId) -> &Numbering {
        self.numberings.get(&self.methods, method).and_then(Result::ok).unwrap_or(&self.none)
    }
    /// The path of an activation is not known any further.
    fn end(&self, counts: &mut PathCounts, mut frame: Activation<Register>, reason: Reason) {
        self.cut(counts, &mut frame, reason);
    }
    fn cut(&self, counts: &mut PathCounts, frame: &mut Activation<Register>, reason: Reason) {
        let method = frame.method;
        frame.state.end(self.numbering(method), reason, |outcome| counts.add(method, outcome));
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct PathsThread {
    frames: Frames<Register>,
    counts: PathCounts,
    follower: Follower,
}

impl PathsThread {
    fn execute(&mut self, to: &PathsAnalysis, (method, first, last): (MethodId, Bci, Bci), event: &Event) {
        let (counts, provenance, bytecodes) = (&mut self.counts, event.provenance, event.kind.bytecodes());
        let frame = self.frames.at(method, || Register::unknown(Reason::Found));
        if to.exclude.hides(provenance) {
            if let Some(frame) = frame {
                to.cut(counts, frame, Reason::Excluded);
            }
            return;
        }
        counts.bytecodes.add_all(provenance, bytecodes);
        let numbering = to.numbering(method);
        let range = numbering.index_of(first).zip(numbering.index_of(last));
        match (frame, range) {
            (Some(frame), Some(range)) if range.0 <= range.1 => {
                let mut out = |outcome| counts.add(method, outcome);
                frame.state.execute(numbering, range, provenance, &mut out);
            }
            _ => counts.stray(method, first, provenance, bytecodes),
        }
    }
    fn enter(&mut self, to: &PathsAnalysis, method: MethodId, entry: Entry) {
        let counts = &mut self.counts;
        let new = || match entry {
            Entry::Call | Entry::Upcall => Register::entered(),
            Entry::Found | Entry::Osr | Entry::Deoptimisation => Register::unknown(Reason::Found),
        };
        self.frames.enter((method, entry), new, |lost| to.end(counts, lost, Reason::Lost));
        if let Some(top) = self.frames.top().filter(|_| entry == Entry::Deoptimisation) {
            top.state.resume();
        }
    }
    fn leave(&mut self, to: &PathsAnalysis, exit: Exit) {
        let counts = &mut self.counts;
        let popped = self.frames.leave(exit, |lost| to.end(counts, lost, Reason::Lost));
        if let Some(frame) = popped {
            let reason = match exit {
                Exit::Unwind => Reason::Exception,
                Exit::PopFrame => Reason::PopFrame,
                Exit::EarlyReturn => Reason::EarlyReturn,
                // A return bytecode has ended the path.
                Exit::Return => Reason::Break,
                Exit::Lost | Exit::Unknown | Exit::Replaced => Reason::Lost,
            };
            to.end(counts, frame, reason);
        }
        if let Some(caller) = self.frames.top().filter(|_| exit == Exit::PopFrame) {
            caller.state.resume();
        }
    }
    fn event(&mut self, to: &PathsAnalysis, event: &Event) {
        let counts = &mut self.counts;
        match &event.kind {
            EventKind::Bytecode { method, bci, .. } => self.execute(to, (*method, *bci, *bci), event),
            EventKind::Run { method, first, last, .. } => self.execute(to, (*method, *first, *last), event),
            EventKind::Enter { method, entry, .. } => self.enter(to, *method, *entry),
            EventKind::Leave { exit, .. } => self.leave(to, *exit),
            EventKind::Catch { method, bci } => {
                if let Some(top) = self.frames.at(*method, || Register::unknown(Reason::Found)) {
                    let out = |outcome| counts.add(*method, outcome);
                    top.state.catch(to.numbering(*method), *bci, out);
                }
            }
            EventKind::Unresolved { method, callers, .. } => {
                if let Some(top) = self.frames.at(*method, || Register::unknown(Reason::Unresolved)) {
                    to.cut(counts, top, Reason::Unresolved);
                }
                for caller in self.frames.below((*callers).into()) {
                    to.cut(counts, caller, Reason::Unresolved);
                }
            }
            EventKind::Gap(gap) if gap.stack_lost => {
                self.frames.lose(|lost| to.end(counts, lost, Reason::Gap));
            }
            EventKind::Gap(_) => {
                if let Some(top) = self.frames.top() {
                    to.cut(counts, top, Reason::Gap);
                }
            }
            EventKind::Orphan(_) | EventKind::Time(_) | EventKind::Code(_) => {}
        }
    }
}

impl Analysis for PathsAnalysis {
    type Thread = PathsThread;

    fn begin(&self, _: &ThreadInfo) -> PathsThread {
        PathsThread::default()
    }
    fn events(&self, thread: &mut PathsThread, events: &[Event]) -> ControlFlow<Enough> {
        for event in events {
            thread.follower.event((&self.methods, &self.shapes), event, self.exclude);
            thread.event(self, event);
        }
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: PathsThread) {
        let counts = &mut thread.counts;
        thread.frames.lose(|open| self.end(counts, open, Reason::End));
        self.counts.merge(thread.counts);
        self.hidden.merge(thread.follower.end());
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
