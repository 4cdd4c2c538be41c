// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The compared part of a flow: bytecodes of the selected methods, unresolved stretches and
//! gaps.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Cause, Event, EventKind, FlowConsumer, FlowSink, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};

use crate::circumstance::{Behind, Circumstances};
use crate::stack::Stack;

/// One step of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
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
    pub(crate) steps: Vec<Step>,
}

/// Sends the steps of one thread to the comparison.
#[derive(Debug)]
pub struct StepsConsumer {
    thread: String,
    keys: Arc<Vec<Option<u64>>>,
    to: SyncSender<Steps>,
}

impl StepsConsumer {
    /// Sends the steps of the first thread called `thread` in methods that `wanted` accepts to
    /// `to`.
    pub fn new(
        methods: &MethodTable,
        wanted: impl Fn(&Method) -> bool,
        thread: &str,
        to: SyncSender<Steps>,
    ) -> Self {
        let key = |m: &Method| wanted(m).then(|| key(m));
        Self { thread: thread.into(), keys: Arc::new(methods.iter().map(key).collect()), to }
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

impl FlowConsumer for StepsConsumer {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        if info.name != self.thread {
            return Box::new(Ignored);
        }
        // Only one thread is compared, even if another one of that name follows.
        self.thread.push('\0');
        Box::new(StepsSink {
            keys: Arc::clone(&self.keys),
            to: self.to.clone(),
            tid: info.tid.get(),
            started: info.started.get(),
            events: 0,
            circumstances: Circumstances::default(),
            stack: Stack::default(),
        })
    }
}

struct Ignored;

impl FlowSink for Ignored {
    fn events(&mut self, _: &[Event]) {}
    fn end(self: Box<Self>) {}
}

struct StepsSink {
    keys: Arc<Vec<Option<u64>>>,
    to: SyncSender<Steps>,
    tid: u32,
    started: u64,
    events: u64,
    circumstances: Circumstances,
    stack: Stack,
}

impl StepsSink {
    fn key(&self, method: MethodId) -> Option<u64> {
        self.keys.get(method.0 as usize).copied().flatten()
    }
    fn step(&mut self, e: &Event) -> Option<Step> {
        let event = self.events;
        self.events += 1;
        self.circumstances.see(&e.kind);
        self.stack.follow(&e.kind);
        match e.kind {
            EventKind::Bytecode { method, bci, tier } => {
                let key = self.key(method)?;
                let behind = self.circumstances.take();
                Some(Step::Bytecode(Executed { key, method, bci, tier, behind, event }))
            }
            EventKind::Unresolved { method, callers, .. } => {
                // Bytecodes that a caller may have executed are hidden, too.
                let callers = self.stack.methods(callers.into()).skip(1);
                [method].into_iter().chain(callers).find_map(|m| self.key(m))?;
                self.circumstances.take_hole().map(|(tier, cause)| Step::Unresolved(tier, cause))
            }
            EventKind::Gap(_) => Some(Step::Gap),
            _ => None,
        }
    }
}

impl FlowSink for StepsSink {
    fn events(&mut self, events: &[Event]) {
        let steps = events.iter().filter_map(|e| self.step(e)).collect();
        // The receiver is gone if the comparison has ended.
        let _ = self.to.send(Steps { tid: self.tid, started: self.started, steps });
    }
    fn end(self: Box<Self>) {}
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
            let mut consumer = StepsConsumer::new(&methods(), |m| &*m.name == "f", "t7", to);
            feed(&mut consumer, 7, &events);
            let steps = from.try_iter().flat_map(|s| s.steps);
            steps.filter(|s| matches!(s, Step::Unresolved(..))).count()
        };
        // Only `f` is compared, which called `g`.
        assert_eq!((holes(0), holes(1)), (0, 1));
    }
}
