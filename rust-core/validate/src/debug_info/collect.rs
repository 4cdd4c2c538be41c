// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts what compiled code reached, by place and by where markers put control.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_flow::ThreadInfo;
use jportal_reconstruct::{RanBlock, ReachedState, StateObserver, StateObservers};
use serde::Serialize;

/// Where something is seen first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FirstSeen {
    /// OS thread id.
    pub tid: u32,
    /// Name of the thread.
    pub thread: String,
    /// TSC at the thread's start. The OS reuses ids.
    #[serde(skip)]
    pub started: u64,
    /// Number of the next event in the thread's flow.
    pub event: u64,
}

/// How often something happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occurrences {
    pub times: u64,
    /// The thread (an index) and event at which it happened first.
    pub first: (u32, u64),
}

/// What the compiled code of all threads reached.
#[derive(Debug, Default)]
pub struct Reached {
    pub(crate) states: HashMap<ReachedState, Occurrences>,
    pub(crate) blocks: HashMap<RanBlock, Occurrences>,
    threads: Vec<FirstSeen>,
}

impl Reached {
    /// A thread and an event of it.
    pub(crate) fn seen(&self, (thread, event): (u32, u64)) -> FirstSeen {
        let thread = self.threads.get(thread as usize).cloned().unwrap_or_default();
        FirstSeen { event, ..thread }
    }
    fn add<K: Eq + std::hash::Hash>(
        to: &mut HashMap<K, Occurrences>,
        from: HashMap<K, (u64, u64)>,
        thread: u32,
    ) {
        for (key, (times, event)) in from {
            let all = to.entry(key).or_insert(Occurrences { times: 0, first: (thread, event) });
            all.times += times;
            all.first = all.first.min((thread, event));
        }
    }
}

/// Collects what compiled code reaches.
#[derive(Clone, Debug, Default)]
pub struct StateCollector {
    reached: Arc<Mutex<Reached>>,
}

impl StateCollector {
    /// All that was collected. The decode must have ended.
    pub fn finish(self) -> Reached {
        std::mem::take(&mut *self.reached.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StateObservers for StateCollector {
    fn thread(&self, info: &ThreadInfo) -> Box<dyn StateObserver> {
        let thread = FirstSeen {
            tid: info.tid.get(),
            thread: info.name.clone(),
            started: info.started.get(),
            event: 0,
        };
        let (states, blocks) = Default::default();
        Box::new(ThreadStates { thread, all: Arc::clone(&self.reached), states, blocks })
    }
}

/// The same of one thread: how often, and the first event.
#[derive(Debug)]
struct ThreadStates {
    thread: FirstSeen,
    all: Arc<Mutex<Reached>>,
    states: HashMap<ReachedState, (u64, u64)>,
    blocks: HashMap<RanBlock, (u64, u64)>,
}

impl StateObserver for ThreadStates {
    fn reached(&mut self, state: &ReachedState, event: u64) {
        self.states.entry(*state).or_insert((0, event)).0 += 1;
    }
    fn ran(&mut self, block: &RanBlock, event: u64) {
        self.blocks.entry(*block).or_insert((0, event)).0 += 1;
    }
    fn end(self: Box<Self>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // The threads end in the order of their start, whatever the number of jobs.
        let number = all.threads.len() as u32;
        all.threads.push(self.thread);
        let Reached { states, blocks, .. } = &mut *all;
        Reached::add(states, self.states, number);
        Reached::add(blocks, self.blocks, number);
    }
}
