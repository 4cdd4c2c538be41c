// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The compared part of a flow: bytecodes of the selected methods, unresolved stretches and
//! gaps.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Analysis, Cause, Enough, Event, EventKind, Stack, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};

use crate::circumstance::{Behind, Circumstances};

/// One step of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ComparisonStep {
    Bytecode(Executed),
    /// A stretch of compiled code that several paths fit.
    Unresolved(Tier, Cause),
    /// A gap.
    Gap,
}

/// A bytecode that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Executed {
    /// Identifies the method in both recordings.
    pub(crate) key: u64,
    /// Identifies the method in its own recording.
    pub(crate) method: MethodId,
    pub(crate) bci: Bci,
    pub(crate) tier: Tier,
    /// The circumstances in the flow between the previous compared bytecode and this one.
    pub(crate) behind: Behind,
    /// Number of the event in the thread's flow.
    pub(crate) event: u64,
}

/// Steps of one thread on their way to [`compare`](super::compare).
#[derive(Clone, Debug, Default)]
pub struct Steps {
    pub(crate) tid: u32,
    /// When the thread started.
    pub(crate) started: u64,
    pub(crate) steps: Vec<ComparisonStep>,
}

/// Sends the steps of one thread to the comparison.
#[derive(Debug)]
pub struct StepsAnalysis {
    thread: String,
    /// A thread of that name has begun. Only one is compared, even if another one follows.
    begun: AtomicBool,
    keys: Vec<Option<u64>>,
    to: SyncSender<Steps>,
}

impl StepsAnalysis {
    /// Sends the steps of the first thread called `thread` in methods that `wanted` accepts to
    /// `to`.
    pub fn new(
        methods: &MethodTable,
        wanted: impl Fn(&Method) -> bool,
        thread: &str,
        to: SyncSender<Steps>,
    ) -> Self {
        let key = |m: &Method| wanted(m).then(|| key(m));
        Self {
            thread: thread.into(),
            begun: AtomicBool::new(false),
            keys: methods.iter().map(key).collect(),
            to,
        }
    }
}

/// Hashes class, name and signature. The name of a hidden class ends in an address, which
/// differs between runs and is left out.
fn key(m: &Method) -> u64 {
    let class =
        m.class_name.split_once("/0x").or(m.class_name.split_once("+0x")).map_or(&*m.class_name, |n| n.0);
    let mut hasher = DefaultHasher::new();
    (class, &m.name, &m.signature).hash(&mut hasher);
    hasher.finish()
}

impl Analysis for StepsAnalysis {
    /// `None` for a thread that is not compared.
    type Thread = Option<StepsThread>;

    fn begin(&self, info: &ThreadInfo) -> Option<StepsThread> {
        let wanted = info.name == self.thread && !self.begun.swap(true, Ordering::Relaxed);
        wanted.then(|| StepsThread {
            tid: info.tid.get(),
            started: info.started.get(),
            events: 0,
            circumstances: Circumstances::default(),
            stack: Stack::default(),
        })
    }
    fn events(&self, thread: &mut Option<StepsThread>, events: &[Event]) -> ControlFlow<Enough> {
        let Some(thread) = thread else { return ControlFlow::Break(Enough::OfThread) };
        let steps = events.iter().filter_map(|e| thread.step(&self.keys, e)).collect();
        let steps = Steps { tid: thread.tid, started: thread.started, steps };
        match self.to.send(steps) {
            Ok(()) => ControlFlow::Continue(()),
            // The comparison has ended.
            Err(_) => ControlFlow::Break(Enough::OfAll),
        }
    }
    fn merge(&mut self, _: Option<StepsThread>) {}
    fn takes_runs(&self) -> bool {
        false
    }
}

/// The compared thread.
#[derive(Debug)]
pub struct StepsThread {
    tid: u32,
    started: u64,
    events: u64,
    circumstances: Circumstances,
    stack: Stack,
}

impl StepsThread {
    fn step(&mut self, keys: &[Option<u64>], e: &Event) -> Option<ComparisonStep> {
        let key_of = |method: MethodId| keys.get(method.0 as usize).copied().flatten();
        let event = self.events;
        self.events += 1;
        self.circumstances.see(&e.kind);
        self.stack.follow(&e.kind);
        match e.kind {
            EventKind::Bytecode { method, bci, tier } => {
                let key = key_of(method)?;
                let behind = self.circumstances.take();
                Some(ComparisonStep::Bytecode(Executed { key, method, bci, tier, behind, event }))
            }
            EventKind::Unresolved { method, callers, .. } => {
                // Bytecodes that a caller may have executed are hidden, too.
                let callers = self.stack.methods(callers.into()).skip(1);
                [method].into_iter().chain(callers).find_map(key_of)?;
                self.circumstances.take_hole().map(|(tier, cause)| ComparisonStep::Unresolved(tier, cause))
            }
            EventKind::Gap(_) => Some(ComparisonStep::Gap),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, enter, feed, methods};
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_lost_loop_hides_what_the_callers_did() {
        let holes = |callers| {
            let (to, from) = sync_channel(10);
            let lost = EventKind::Unresolved {
                method: MethodId(1),
                from: None,
                to: Some(Bci(5)),
                cause: Cause::EmptyLoop,
                callers,
            };
            let events = [enter(0), bytecode(0, 0), enter(1), Event::decoded(lost), bytecode(1, 5)];
            let mut consumer = StepsAnalysis::new(&methods(), |m| &*m.name == "f", "t7", to);
            feed(&mut consumer, 7, &events);
            let steps = from.try_iter().flat_map(|s| s.steps);
            steps.filter(|s| matches!(s, ComparisonStep::Unresolved(..))).count()
        };
        // Only `f` is compared, which called `g`.
        assert_eq!((holes(0), holes(1)), (0, 1));
    }
}
