// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the moments of a thread's flow at which stacks were taken by a signal or from another
//! thread.
//!
//! Such a stack has a time. A signal handler also knows the instruction that it interrupted. The
//! thread was in a pause then ([`Pause`]): interrupted at that instruction, or outside of the code
//! cache. All pauses that fit are kept, so nothing is guessed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jportal_flow::ThreadInfo;
use jportal_reconstruct::{Pause, RanBlock, ReachedState, StateObserver, StateObservers};
use jportal_units::{Address, AddressRange, Tid, Tsc};

use super::log::{StackApi, StackLog, TakenStack};
use crate::verify::{exit_of, is_log_of};

/// Pauses kept for one stack. Where more fit, none is looked at.
const MOST_PAUSES: usize = 64;
/// Neighbours kept on each side.
const MOST_NEAR: usize = 32;

/// The times of the emulated unit are those of its virtual cores: a thread that waits for a
/// processor, or for QEMU to translate code, is reported to wait at another moment. A stack that
/// contradicts the pauses that fit its time is not broken if a pause within this many ticks
/// explains it. (10 ms at 2 GHz.)
const NEAR: u64 = 20_000_000;

/// Where the address of the interrupted instruction fits, or where no pause fits the time exactly,
/// the time of the pause may differ by this many ticks: the time at which a thread resumes is known
/// by the last packet with a time.
const SLACK: u64 = 1 << 16;

/// A stack and the pauses in which it may have been taken.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) taken: TakenStack,
    /// Indexes of the thread's pauses that fit.
    pub(crate) pauses: Vec<usize>,
    /// There were more than are kept.
    pub(crate) more: bool,
    /// Pauses before and after them, the last ones before and the first ones after.
    pub(crate) near: VecDeque<usize>,
    /// Pauses after the moment.
    after: usize,
    /// The signal interrupted code of the code cache.
    pub(crate) inside: bool,
}

impl Moment {
    /// When the stack was taken: from, to.
    fn times(&self) -> (Tsc, Tsc) {
        match self.taken.api {
            StackApi::GstOther => (Tsc(self.taken.tsc), Tsc(self.taken.pc)),
            _ => (Tsc(self.taken.tsc), Tsc(self.taken.tsc)),
        }
    }
    /// Adds a pause that begins early enough, and ends late enough. Returns whether it is kept.
    fn add(&mut self, number: usize, (begins, ends): (bool, bool)) -> bool {
        if begins && ends {
            self.more |= self.pauses.len() == MOST_PAUSES;
            if !self.more {
                self.pauses.push(number);
            }
            return !self.more;
        }
        if !ends {
            if self.near.len() == MOST_NEAR {
                self.near.pop_front();
            }
            self.near.push_back(number);
            return true;
        }
        self.after += 1;
        if self.after <= MOST_NEAR {
            self.near.push_back(number);
        }
        self.after <= MOST_NEAR
    }
    /// The pauses in which the stack may have been taken: those that fit its time, or if there is
    /// none, those that nearly do.
    pub(crate) fn fitting(&self, pauses: &[Pause]) -> Vec<usize> {
        if !self.pauses.is_empty() {
            return self.pauses.clone();
        }
        let (from, to) = self.times();
        let fits =
            |p: &Pause| p.since.0.saturating_sub(SLACK) <= to.0 && p.until.0.saturating_add(SLACK) >= from.0;
        self.near.iter().copied().filter(|&i| pauses.get(i).is_some_and(fits)).collect()
    }
    /// Whether the stack may have been taken in a pause before `ip`.
    fn may_be_at(&self, ip: Option<Address>) -> bool {
        match (self.taken.api, ip) {
            (StackApi::AsgctAsync, Some(ip)) => ip == Address(self.taken.pc),
            (StackApi::AsgctAsync, None) => !self.inside,
            // A thread that is interrupted in its own code does not stop for another one.
            (_, ip) => ip.is_none(),
        }
    }
}

/// The stacks of one thread and what is known of its pauses.
#[derive(Debug)]
pub(crate) struct ThreadMoments {
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) moments: Vec<Moment>,
    pub(crate) pauses: Vec<Pause>,
    /// The capture has a flow of the thread.
    pub(crate) seen: bool,
    pub(crate) log_error: Option<String>,
}

impl ThreadMoments {
    fn new(mut log: StackLog, cache: AddressRange) -> Self {
        let mut moments = Vec::new();
        while let Some(taken) = log.take() {
            let inside = taken.api == StackApi::AsgctAsync && cache.contains(Address(taken.pc));
            let (pauses, near) = Default::default();
            moments.push(Moment { taken, pauses, more: false, near, after: 0, inside });
        }
        // The sampler and the signal handler write to the same file.
        moments.sort_by_key(|m| m.taken.tsc);
        let log_error = log.error().map(|e| format!("the log of thread {}: {e}", log.tid));
        let (tid, name) = (log.tid, String::new());
        Self { tid, name, moments, pauses: Vec::new(), seen: false, log_error }
    }
}

/// Finds the moments of stacks while the trace is decoded.
#[derive(Clone, Debug)]
pub struct MomentFinder {
    shared: Arc<FinderState>,
}

#[derive(Debug)]
struct FinderState {
    cache: AddressRange,
    exits: Vec<(Tid, Tsc)>,
    /// Logs of threads whose flow has not begun, and the threads whose flow has ended.
    open: Mutex<(Vec<StackLog>, Vec<ThreadMoments>)>,
}

impl MomentFinder {
    /// `logs`: all logs of stacks that were taken at any moment. `exits`: the ends of threads, as
    /// the VM recorded them. `cache`: the code cache.
    pub fn new(logs: Vec<StackLog>, exits: Vec<(Tid, Tsc)>, cache: AddressRange) -> Self {
        let open = Mutex::new((logs, Vec::new()));
        Self { shared: Arc::new(FinderState { cache, exits, open }) }
    }
    /// What was found. The decode must have ended.
    pub(crate) fn finish(self) -> Vec<ThreadMoments> {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (logs, mut threads) = std::mem::take(&mut *open);
        threads.extend(logs.into_iter().map(|log| ThreadMoments::new(log, self.shared.cache)));
        threads.sort_by_key(|t| (t.tid, t.moments.first().map(|m| m.taken.tsc)));
        threads
    }
}

impl StateObservers for MomentFinder {
    fn thread(&self, info: &ThreadInfo) -> Box<dyn StateObserver> {
        let exit = exit_of(&self.shared.exits, info);
        let is_own = |l: &StackLog| is_log_of((l.tid, l.first_tsc), info, exit, false);
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let log = open.0.iter().position(is_own).map(|i| open.0.remove(i));
        let found = log.map(|log| ThreadMoments {
            name: info.name.clone(),
            seen: true,
            ..ThreadMoments::new(log, self.shared.cache)
        });
        Box::new(ThreadFinder { shared: Arc::clone(&self.shared), found, next: 0 })
    }
}

/// The finder of one thread.
#[derive(Debug)]
struct ThreadFinder {
    shared: Arc<FinderState>,
    found: Option<ThreadMoments>,
    /// The first moment that is not before all pauses to come.
    next: usize,
}

impl StateObserver for ThreadFinder {
    fn reached(&mut self, _: &ReachedState, _: u64) {}
    fn ran(&mut self, _: &RanBlock, _: u64) {}
    fn wants(&mut self, since: Tsc, until: Tsc, ip: Option<Address>) -> bool {
        let Some(found) = &self.found else { return false };
        while found.moments.get(self.next).is_some_and(|m| m.times().1.0.saturating_add(NEAR) < since.0) {
            self.next += 1;
        }
        let end = until.0.saturating_add(NEAR);
        found.moments[self.next..].iter().take_while(|m| m.times().0.0 <= end).any(|m| m.may_be_at(ip))
    }
    fn paused(&mut self, pause: Pause) {
        let Some(found) = &mut self.found else { return };
        let number = found.pauses.len();
        let mut kept = false;
        let (end, begin) = (pause.until.0.saturating_add(NEAR), pause.since.0.saturating_sub(NEAR));
        // Pauses that ended late may be older than the moments skipped by now.
        let first = found.moments[..self.next].iter().rposition(|m| m.times().1.0 < begin);
        for moment in &mut found.moments[first.map_or(0, |i| i + 1)..] {
            let (from, to) = moment.times();
            if from.0 > end {
                break;
            }
            let slack = if moment.inside { SLACK } else { 0 };
            let begins = pause.since.0.saturating_sub(slack) <= to.0;
            let ends = pause.until.0.saturating_add(slack) >= from.0;
            kept |= moment.may_be_at(pause.ip) && moment.add(number, (begins, ends));
        }
        if kept {
            found.pauses.push(pause);
        }
    }
    fn end(self: Box<Self>) {
        if let Some(found) = self.found {
            self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).1.push(found);
        }
    }
}
