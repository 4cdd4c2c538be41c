// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What methods cost with all that they call, and in time.

use std::hash::Hash;

use hashbrown::HashMap;
use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Entry, Event, EventKind, Provenance};
use jportal_units::{MethodId, Tsc};
use serde::{Deserialize, Serialize};

use crate::tree::TimeShares;

/// What a method cost in all its activations together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCost {
    /// Bytecodes executed in the method and in all that it called. An activation inside another
    /// one of the same method counts once.
    pub inclusive: u64,
    /// Whether `inclusive` is complete. Otherwise it is a lower bound.
    pub inclusive_exact: bool,
    /// Time on a core in the method itself, in ticks of the TSC. The time between two times of
    /// the flow is shared by the bytecodes executed in between; a call counts as one.
    pub ticks: u64,
}

/// How well the time of a recording is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSteps {
    /// Time on a core, in ticks of the TSC.
    pub ticks: u64,
    /// Number of steps from one time of a flow to the next.
    pub steps: u64,
}

impl TimeSteps {
    /// Mean length of a step in ticks, rounded down.
    pub const fn mean(self) -> u64 {
        match self.steps {
            0 => 0,
            steps => self.ticks / steps,
        }
    }
}

/// No group: a method that the recording does not have.
const NO_GROUP: u32 = u32::MAX;

/// Methods that count as one.
#[derive(Debug)]
pub(super) struct Groups {
    by_method: Vec<u32>,
    count: usize,
}

impl Groups {
    /// Methods with equal keys are a group.
    pub(super) fn new<K: Hash + Eq>(methods: &MethodTable, key: impl Fn(&Method) -> K) -> Self {
        let mut numbers: HashMap<K, u32> = HashMap::new();
        let mut by_method = vec![NO_GROUP; methods.len()];
        for m in methods.iter() {
            let next = numbers.len() as u32;
            by_method[m.id.get() as usize] = *numbers.entry(key(m)).or_insert(next);
        }
        Self { count: numbers.len(), by_method }
    }
    fn of(&self, method: MethodId) -> u32 {
        self.by_method.get(method.get() as usize).copied().unwrap_or(NO_GROUP)
    }
}

/// Sums by group.
#[derive(Debug, Default)]
pub(super) struct Costs {
    inclusive: Vec<u64>,
    /// Whether a sum is only a lower bound.
    open_ended: Vec<bool>,
    ticks: Vec<u64>,
    pub(super) time: TimeSteps,
}

impl Costs {
    fn with_room(groups: &Groups) -> Self {
        Self {
            inclusive: vec![0; groups.count],
            open_ended: vec![false; groups.count],
            ticks: vec![0; groups.count],
            time: TimeSteps::default(),
        }
    }
    pub(super) fn merge(&mut self, mut other: Self) {
        if self.inclusive.len() < other.inclusive.len() {
            std::mem::swap(self, &mut other);
        }
        self.inclusive.iter_mut().zip(&other.inclusive).for_each(|(a, b)| *a += b);
        self.open_ended.iter_mut().zip(&other.open_ended).for_each(|(a, b)| *a |= b);
        self.ticks.iter_mut().zip(&other.ticks).for_each(|(a, b)| *a += b);
        self.time.ticks += other.time.ticks;
        self.time.steps += other.time.steps;
    }
    /// The cost of the group to which `method` belongs.
    pub(super) fn of(&self, groups: &Groups, method: MethodId) -> MethodCost {
        let group = groups.of(method) as usize;
        MethodCost {
            inclusive: self.inclusive.get(group).copied().unwrap_or(0),
            inclusive_exact: !self.open_ended.get(group).copied().unwrap_or(false),
            ticks: self.ticks.get(group).copied().unwrap_or(0),
        }
    }
}

/// An activation that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenActivation {
    group: u32,
    /// Whether its group has no other activation below it on the stack.
    is_outermost: bool,
    /// Whether its beginning was seen.
    is_whole: bool,
    /// Bytecodes that the thread had executed when it began.
    executed: u64,
    /// Doubts at that time.
    doubts: u64,
}

/// The costs of one thread, while its flow is read.
#[derive(Debug, Default)]
pub(super) struct CostFollower {
    stack: Vec<OpenActivation>,
    /// Number of open activations by group.
    open: Vec<u32>,
    executed: u64,
    /// Places where something may be missing.
    doubts: u64,
    shares: TimeShares,
    costs: Costs,
}

impl CostFollower {
    pub(super) fn new(groups: &Groups) -> Self {
        Self { open: vec![0; groups.count], costs: Costs::with_room(groups), ..Self::default() }
    }
    /// `is_hidden`: bytecodes of the event's provenance do not count. `now` turns a time of the
    /// flow into time on a core.
    pub(super) fn event(
        &mut self,
        groups: &Groups,
        event: &Event,
        is_hidden: bool,
        now: impl Fn(Tsc) -> u64,
    ) {
        match event.kind {
            EventKind::Bytecode { method, .. } | EventKind::Run { method, .. } => {
                self.doubts += u64::from(is_hidden || event.provenance != Provenance::Decoded);
                if !is_hidden {
                    let bytecodes = event.kind.bytecodes();
                    self.executed += bytecodes;
                    self.shares.add(groups.of(method), bytecodes);
                }
            }
            EventKind::Enter { method, entry, .. } => self.enter(groups.of(method), entry),
            EventKind::Leave { .. } => self.leave(),
            EventKind::Time(time) => self.time(now(time)),
            EventKind::Unresolved { .. } | EventKind::Orphan(_) => self.doubts += 1,
            EventKind::Gap(ref gap) => {
                if let Some(since) = gap.since {
                    self.time(now(since));
                }
                self.shares.forget();
                self.doubts += 1;
                if gap.stack_lost {
                    self.leave_all();
                }
            }
            EventKind::Catch { .. } | EventKind::Code(_) => {}
        }
    }
    fn enter(&mut self, group: u32, entry: Entry) {
        let open = self.open.get_mut(group as usize);
        let is_outermost = open.is_some_and(|open| {
            *open += 1;
            *open == 1
        });
        self.stack.push(OpenActivation {
            group,
            is_outermost,
            is_whole: entry != Entry::Found,
            executed: self.executed,
            doubts: self.doubts,
        });
        self.shares.add(group, 1);
    }
    fn leave(&mut self) {
        let Some(left) = self.stack.pop() else { return };
        let group = left.group as usize;
        if let Some(open) = self.open.get_mut(group) {
            *open -= 1;
        }
        if left.is_outermost {
            self.costs.inclusive[group] += self.executed - left.executed;
            self.costs.open_ended[group] |= !left.is_whole || left.doubts != self.doubts;
        }
    }
    fn leave_all(&mut self) {
        while !self.stack.is_empty() {
            self.leave();
        }
    }
    fn time(&mut self, now: u64) {
        let top = self.stack.last().map_or(NO_GROUP, |top| top.group);
        let Costs { ticks, time, .. } = &mut self.costs;
        let before = time.ticks;
        self.shares.at(now, top, |group, spent| {
            time.ticks += spent;
            ticks.get_mut(group as usize).into_iter().for_each(|t| *t += spent);
        });
        time.steps += u64::from(time.ticks != before);
    }
    /// The thread has ended, or the recording. Activations that are open have cost what they cost
    /// so far.
    pub(super) fn end(mut self) -> Costs {
        self.leave_all();
        self.costs
    }
}
