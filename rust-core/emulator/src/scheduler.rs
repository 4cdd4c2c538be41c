// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Guest threads on virtual cores.
//!
//! A thread that wants to execute inside the range takes a core: a free one, else the one that
//! switched longest ago, without its owner's help. It never waits for another guest thread without
//! bound: QEMU's exclusive sections wait for every thread, and a thread parked in a callback for
//! the one that wants such a section would wait for ever. It does let a core's thread have a time
//! slice, so that cores do not change hands at every block; a short one, because the waiting
//! thread's block was translated before: if its code changes meanwhile, the old code runs.
//!
//! The thread that loses its core keeps the state in which its block is not resolved yet
//! ([`Core::detach`]) and ends that stay at its next event ([`Scheduler::end_stay`]).

use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Mutex, MutexGuard};

use crate::block::Block;
use crate::clock;
use crate::config::Config;
use crate::core::{Core, Unresolved};
use crate::random::Random;
use crate::range::Filter;
use crate::seat::{Claimed, Inside, Seats, ThreadNumber};

/// See [`Scheduler::needs`].
const READING: u64 = 1;

/// A thread's need of a core, from some moment on. A stay on a core may begin with that moment though it is recorded later.
#[derive(Debug)]
pub struct Need<'a> {
    slot: &'a AtomicU64,
    /// TSC from which on.
    pub since: u64,
}

impl Drop for Need<'_> {
    fn drop(&mut self) {
        self.slot.store(0, Release);
    }
}

/// A thread waits for no more than this many slices.
const PATIENCE: u64 = 4;

/// What a thread without a core may know about one: hints, read without holding the core.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Hint {
    /// TSC of the last switch.
    switched: AtomicU64,
    /// Its thread executes inside the range.
    inside: AtomicBool,
}

/// What came of taking a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The thread has one.
    Core,
    /// Nothing is traced any more; the unresolved block is forgotten.
    Nothing,
    /// The thread lost a core in the middle of its block just now: [`Scheduler::end_stay`] first.
    OpenStay,
}

/// A guest thread's place in the scheme.
#[derive(Debug)]
pub struct Tenant {
    /// Its number.
    pub number: ThreadNumber,
    /// OS thread id; 0 until first needed.
    pub tid: u32,
    /// The core it had last; it may have lost it.
    core: usize,
    /// Blocks until it gives its core away.
    budget: u64,
    random: Random,
}

impl Tenant {
    /// A thread without a core.
    pub fn new(number: ThreadNumber, config: &Config) -> Tenant {
        Tenant {
            number,
            tid: 0,
            core: 0,
            budget: 0,
            random: Random::new(config.seed ^ u64::from(number).rotate_left(20)),
        }
    }

    /// Counts one block; true when the quantum is over.
    #[inline]
    pub fn spend(&mut self) -> bool {
        self.budget = self.budget.wrapping_sub(1);
        self.budget == 0
    }
}

/// The virtual cores.
#[derive(Debug)]
pub struct Scheduler {
    seats: Seats<Core>,
    hints: Box<[Hint]>,
    /// Per thread: the stay that it has to end.
    stays: Box<[Mutex<Option<Box<Core>>>]>,
    /// Per thread: TSC at which its latest stay on a core ended.
    left: Box<[AtomicU64]>,
    /// Per thread: TSC from which on it needs a core that it does not have, 0 if it does not, [`READING`] for not known yet.
    needs: Box<[AtomicU64]>,
    /// Behind the greatest number of a thread that ever needed one.
    needing: AtomicUsize,
    quantum: u64,
    slice: u64,
}

impl Scheduler {
    /// `cores` for threads numbered up to `threads`; `khz` is the TSC's frequency.
    pub fn new(config: &Config, cores: Vec<Core>, threads: usize, khz: u64) -> Scheduler {
        Scheduler {
            hints: cores.iter().map(|_| Hint::default()).collect(),
            seats: Seats::new(cores, threads),
            stays: (0..=threads).map(|_| Mutex::new(None)).collect(),
            left: (0..=threads).map(|_| AtomicU64::new(0)).collect(),
            needs: (0..=threads).map(|_| AtomicU64::new(0)).collect(),
            needing: AtomicUsize::new(0),
            quantum: config.quantum,
            slice: config.slice.saturating_mul(khz) / 1000,
        }
    }

    /// The core of `tenant`, if it still has it.
    #[inline]
    pub fn enter(&self, tenant: &Tenant) -> Option<Inside<'_, Core>> {
        self.seats.enter(tenant.core, tenant.number)
    }

    /// Tells others whether the tenant's thread executes inside the range.
    #[inline]
    pub fn hint(&self, tenant: &Tenant, inside: bool) {
        self.hints[tenant.core].inside.store(inside, Relaxed);
    }

    /// The tenant's thread needs a core from now on, until the value is dropped.
    #[cold]
    pub fn need(&self, tenant: &Tenant) -> Need<'_> {
        let slot = &self.needs[tenant.number as usize];
        self.needing.fetch_max(tenant.number as usize + 1, Relaxed);
        slot.store(READING, Relaxed);
        // Before the clock is read: who reads it first and misses this has read an earlier time.
        fence(SeqCst);
        let since = clock::tsc();
        slot.store(since, Release);
        Need { slot, since }
    }

    /// Up to when everything has been recorded that ever will be: no stay on a core that begins before is still to come. `None`
    /// while that cannot be said.
    pub fn settled(&self) -> Option<u64> {
        let now = clock::tsc();
        fence(SeqCst);
        let mut needs = self.needs[..self.needing.load(Relaxed)].iter().map(|n| n.load(Acquire));
        needs.try_fold(now, |least, need| match need {
            0 => Some(least),
            READING => None,
            since => Some(least.min(since)),
        })
    }

    /// Finds a core for `tenant`, which needed one at `since`, and switches it in: then, or as soon as it has left the core
    /// it had before. A thread's stays follow one another also if the clock was read before one of them was ended.
    ///
    /// `is_stale`: whether other code stands in memory than a block was translated from. The block that the thread enters the core
    /// with is asked for here, while nobody else can take the core away again: what the unit says about an entry belongs to
    /// the stay that begins with it.
    #[cold]
    pub fn take(
        &self,
        tenant: &mut Tenant,
        unresolved: &mut Unresolved,
        filter: &Filter,
        since: u64,
        is_stale: impl Fn(&Block) -> bool,
    ) -> Taken {
        let deadline = since.saturating_add(self.slice.saturating_mul(PATIENCE));
        loop {
            let right = self.seats.claimant();
            if !filter.is_active() {
                *unresolved = None;
                return Taken::Nothing;
            }
            // Whoever took the core was at it until now.
            if self.stay(tenant.number).is_some() {
                return Taken::OpenStay;
            }
            let now = clock::tsc();
            let Some(i) = self.choose(now, now >= deadline) else {
                drop(right);
                std::thread::yield_now();
                continue;
            };
            let mut core = self.seats.claim(i, &right);
            let since = since.max(self.left(tenant.number) + 1);
            self.evict(&mut core, since);
            core.switch_in(tenant.tid, unresolved, since);
            if let Some(block) = unresolved.filter(|block| is_stale(block)) {
                core.stale(block);
            }
            tenant.core = i;
            tenant.budget = self.next_quantum(tenant);
            self.hints[i].switched.store(core.switched(), Relaxed);
            self.hints[i].inside.store(unresolved.is_some(), Relaxed);
            core.assign(tenant.number);
            return Taken::Core;
        }
    }

    /// The thread on `core`, if any, has it no more: another one needed it at `since`.
    fn evict(&self, core: &mut Claimed<'_, Core>, since: u64) {
        let Some(owner) = core.old_owner() else { return core.evict(since) };
        if core.should_detach() {
            let stay = core.detach(since);
            self.leaves(owner, stay.detached().unwrap_or(since));
            *self.stay(owner) = Some(stay);
        } else {
            core.evict(since);
            self.leaves(owner, core.latest());
        }
    }

    fn left(&self, thread: ThreadNumber) -> u64 {
        self.left[thread as usize].load(Relaxed)
    }

    fn leaves(&self, thread: ThreadNumber, at: u64) {
        self.left[thread as usize].store(at, Relaxed);
    }

    fn choose(&self, now: u64, force: bool) -> Option<usize> {
        let age = |i: &usize| self.hints[*i].switched.load(Relaxed);
        let all = 0..self.seats.len();
        all.clone().filter(|&i| self.seats.is_free(i)).min_by_key(age).or_else(|| {
            let ripe = |i: &usize| {
                force || !self.hints[*i].inside.load(Relaxed) || now.saturating_sub(age(i)) >= self.slice
            };
            all.filter(ripe).min_by_key(age)
        })
    }

    fn stay(&self, thread: ThreadNumber) -> MutexGuard<'_, Option<Box<Core>>> {
        self.stays[thread as usize].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// If the thread lost its core in the middle of a block: shows `event` the core's state of then,
    /// which learns how the block ended, and ends the stay. Whether it was so.
    #[cold]
    pub fn end_stay(&self, tenant: &Tenant, event: impl FnOnce(&mut Core)) -> bool {
        let stay = self.stay(tenant.number).take();
        match stay {
            Some(mut core) => {
                event(&mut core);
                core.finish();
                true
            }
            None => false,
        }
    }

    /// Ends stays that were detached before `tsc` as interrupted before their unresolved block: their
    /// threads have had no event since, and the streams must go on.
    pub fn end_stays_before(&self, tsc: u64) {
        for stay in &self.stays {
            let mut stay = stay.lock().unwrap_or_else(|e| e.into_inner());
            if let Some(core) = stay.take_if(|core| core.detached().is_some_and(|t| t < tsc)) {
                core.finish();
            }
        }
    }

    fn next_quantum(&self, tenant: &mut Tenant) -> u64 {
        match self.quantum {
            0 => 0,
            q => q / 2 + 1 + tenant.random.below(q),
        }
    }

    /// The thread gives up the core it holds, if any: its quantum is over, it may block, or it ends.
    pub fn release(&self, tenant: &Tenant) {
        if let Some(mut core) = self.enter(tenant) {
            core.switch_out(false);
            self.leaves(tenant.number, core.latest());
            let hint = &self.hints[tenant.core];
            hint.switched.store(core.switched(), Relaxed);
            hint.inside.store(false, Relaxed);
            core.release();
        } else {
            self.end_stay(tenant, |_| ());
        }
    }

    /// Takes every core from its thread and shows it to `each`; ends all stays.
    pub fn stop_all(&self, mut each: impl FnMut(usize, &mut Core)) {
        let right = self.seats.claimant();
        self.end_stays_before(u64::MAX);
        for i in 0..self.seats.len() {
            let mut core = self.seats.claim(i, &right);
            core.switch_out(false);
            core.forget_threads();
            self.hints[i].inside.store(false, Relaxed);
            each(i, &mut core);
        }
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
