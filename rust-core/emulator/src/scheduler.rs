// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Assigns guest threads to virtual cores.
//!
//! A thread that is to execute inside the range takes a core: a free one, otherwise the one
//! that switched longest ago. The owner does not take part in that. The thread never waits for
//! another guest thread without bound: an exclusive section of QEMU waits for every thread, so
//! a thread that waited in a callback for the thread that wants such a section would wait for
//! ever. The thread does leave the owner of the core a time slice, so that cores do not change
//! hands at every block. The slice is short, because the block of the waiting thread is already
//! translated: if its code changes meanwhile, the old code runs.
//!
//! The thread that loses its core keeps the state in which its block is not resolved yet
//! ([`Core::detach`]). It ends that stay at its next event ([`Scheduler::end_stay`]).

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

/// Value in [`Scheduler::needs`] while the thread is reading the clock.
const READING: u64 = 1;

/// A thread's need for a core, until the value is dropped. A stay on a core may begin when the
/// need began, although it is recorded later.
#[derive(Debug)]
pub struct Need<'a> {
    slot: &'a AtomicU64,
    /// TSC at which the need began.
    pub since: u64,
}

impl Drop for Need<'_> {
    fn drop(&mut self) {
        self.slot.store(0, Release);
    }
}

/// Maximum number of slices that a thread waits for a core.
const PATIENCE: u64 = 4;

/// Hints about a core for threads that do not hold it. They read them without holding it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Hint {
    /// TSC of the last switch.
    switched: AtomicU64,
    /// The core's thread executes inside the range.
    inside: AtomicBool,
}

/// The result of taking a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The thread has a core.
    Core,
    /// Tracing is off, and the unresolved block is forgotten.
    Nothing,
    /// The thread has just lost a core in the middle of its block. Call [`Scheduler::end_stay`]
    /// first.
    OpenStay,
}

/// A guest thread as the scheduler sees it.
#[derive(Debug)]
pub struct Tenant {
    /// Number of the thread.
    pub number: ThreadNumber,
    /// OS thread id; 0 until first needed.
    pub tid: u32,
    /// The core that the thread had last. It may have lost that core.
    core: usize,
    /// Number of blocks until the thread gives its core up.
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
    /// Per thread: the detached stay that it has to end.
    stays: Box<[Mutex<Option<Box<Core>>>]>,
    /// Per thread: TSC at which its latest stay on a core ended.
    left: Box<[AtomicU64]>,
    /// Per thread: the TSC since which it has needed a core that it does not have; 0 if it
    /// needs none; [`READING`] while it is reading the clock.
    needs: Box<[AtomicU64]>,
    /// One more than the greatest number of a thread that ever needed a core.
    needing: AtomicUsize,
    quantum: u64,
    slice: u64,
}

impl Scheduler {
    /// A scheduler of `cores` for threads numbered up to `threads`; `khz` is the TSC's
    /// frequency.
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

    /// The core of `tenant`, if the tenant still has it.
    #[inline]
    pub fn enter(&self, tenant: &Tenant) -> Option<Inside<'_, Core>> {
        self.seats.enter(tenant.core, tenant.number)
    }

    /// Records for other threads whether the tenant's thread executes inside the range.
    #[inline]
    pub fn hint(&self, tenant: &Tenant, inside: bool) {
        self.hints[tenant.core].inside.store(inside, Relaxed);
    }

    /// Records that the tenant's thread needs a core from now on, until the value is dropped.
    #[cold]
    pub fn need(&self, tenant: &Tenant) -> Need<'_> {
        let slot = &self.needs[tenant.number as usize];
        self.needing.fetch_max(tenant.number as usize + 1, Relaxed);
        slot.store(READING, Relaxed);
        // The store comes before the read of the clock. If [`Scheduler::settled`] misses the
        // store, it has read its clock before this thread does.
        fence(SeqCst);
        let since = clock::tsc();
        slot.store(since, Release);
        Need { slot, since }
    }

    /// The TSC up to which everything is recorded: no stay on a core that begins before it is
    /// still to come. `None` while a thread is reading the clock, which leaves that TSC
    /// unknown.
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

    /// Takes a core for `tenant`, which has needed one since `since`, and switches the thread
    /// in. The stay begins at `since`, or just after the thread's stay on its previous core if
    /// that is later. So the stays of a thread do not overlap, even if the clock was read
    /// before one of them was ended.
    ///
    /// `is_stale` says whether memory differs from the bytes that a block was translated from.
    /// It is called here for the block with which the thread enters the core, while no other
    /// thread can take the core away: what the unit reports about an entry belongs to the stay
    /// that begins with the entry.
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
            // A thread that took this thread's core held the right to claim until now.
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

    /// The thread on `core`, if any, loses it to another thread, which has needed one since
    /// `since`.
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

    /// If the thread lost its core in the middle of a block: calls `event` with the detached
    /// state, which learns from it how the block ended, and ends the stay. Returns whether
    /// there was such a stay.
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

    /// Ends the stays that were detached before `tsc`, as interrupted before their unresolved
    /// block. Their threads have had no event since, and the later sections of the streams must
    /// not wait longer.
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

    /// The thread gives up its core: its quantum is over, it may block, or it ends. If it has
    /// lost its core in the middle of a block, that stay is ended.
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

    /// Takes every core from its thread and calls `each` with it. Ends all detached stays.
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
