// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One virtual core: its PT unit, its rings, and the thread that runs on it.
//!
//! Only the thread that holds the core calls these methods (see [`crate::seat`]). The
//! *unresolved block* is the block that began last and whose end is not known yet; it belongs
//! to the thread. PacketEn, pending outcomes, last IP, PSB distance and return stack belong to
//! the core's unit. A *stay* is the time from a thread's switch to a core to its switch away.
//!
//! A thread may lose its core in the middle of a block. Only the thread's next callback shows
//! how that block ended, and the callback may come much later if the host does not run the
//! thread. QEMU executes the block as it was translated, even if its code changes meanwhile, so
//! the end of the block must not be encoded with a later time. [`Core::detach`] solves this:
//! the state that knows the unresolved block remains with the thread and keeps its section of
//! the stream open, while a successor with a fresh unit serves the next thread. A block that ends
//! in an indirect branch is the exception ([`Core::end_with`]): it is encoded with the later time,
//! and if memory differs from it by then, its bytes are recorded, too ([`Core::stale`]).

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::block::Block;
use crate::clock::{self, Absence, translation};
use crate::config::{Config, OnFull, Timing};
use crate::counts::{Board, CoreCounts, Past};
use crate::injection::Injection;
use crate::outlet::{Flow, Outlet, Section};
use crate::resolve::{Arrival, BlockOutcome, completed_then, resolve};
use crate::truth::{self, Entry};
use crate::unit::{Sent, Unit, timing};

/// The block that a thread has begun and whose end is not known yet.
pub type Unresolved = Option<&'static Block>;

/// Number of blocks between two checks for room while output is off.
const RESUME_INTERVAL: u64 = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutputState {
    /// Packets are sent.
    On,
    /// An injected overflow swallows the packets of this many more blocks.
    Overflow(u64),
    /// The ring is full.
    Off,
}

/// A virtual core.
#[derive(Debug)]
pub struct Core {
    config: Config,
    pid: u32,
    section: Section,
    unit: Unit,
    outlet: Arc<Mutex<Outlet>>,
    chunk: usize,
    state: OutputState,
    running: Option<u32>,
    /// Start of the unresolved block of the running thread, 0 outside the range.
    inside: u64,
    started: HashSet<u32>,
    injection: Injection,
    counts: CoreCounts,
    anomalies: Vec<String>,
    off_blocks: u64,
    /// Entries of the record of executed blocks that have not been passed to the outlet; `None`
    /// if no record is kept.
    truth: Option<Vec<Entry>>,
    switched: u64,
    /// Position of the unit before the last TIP.PGE.
    entered_at: u64,
    /// The latest time of a record.
    latest: u64,
    board: Arc<Board>,
    /// [`CoreCounts::blocks`] and [`CoreCounts::anomalies`] as last published on the board.
    published: (u64, u64),
    /// TSC at which the core was given to another thread; only in a detached state.
    detached: Option<u64>,
    /// See [`Core::take_resumed`].
    resumed: Unresolved,
    /// Time for which the running thread had no processor of the host, since
    /// [`Core::count_absence`].
    absence: Absence,
}

fn lock(outlet: &Mutex<Outlet>) -> MutexGuard<'_, Outlet> {
    outlet.lock().unwrap_or_else(|e| e.into_inner())
}

impl Core {
    /// Core `number` of process `pid`, without a thread.
    pub fn new(config: &Config, number: u32, pid: u32, outlet: Arc<Mutex<Outlet>>) -> Core {
        let region = lock(&outlet).region();
        Core {
            config: config.clone(),
            pid,
            section: 0,
            unit: Unit::new(config),
            chunk: (region / 4).clamp(256, 4096) as usize,
            outlet,
            state: OutputState::On,
            running: None,
            inside: 0,
            started: HashSet::new(),
            injection: Injection::new(config, number),
            counts: CoreCounts::default(),
            anomalies: Vec::new(),
            off_blocks: 0,
            truth: config.truth.is_some().then(Vec::new),
            switched: 0,
            entered_at: 0,
            latest: 0,
            board: Arc::default(),
            published: (0, 0),
            detached: None,
            resumed: None,
            absence: Absence::new(config.tsc_khz),
        }
    }

    /// Whether the running thread should keep its state when it loses the core.
    pub fn should_detach(&self) -> bool {
        self.config.mode == OnFull::Stall && self.state == OutputState::On && self.inside != 0
    }

    /// Makes room for another thread: `self` becomes the core's next section, without a thread
    /// and with a fresh unit. Returns the state of the thread that loses the core. The caller
    /// must call [`Core::finish`] on that state after the thread's next event, or when it stops
    /// waiting for one.
    ///
    /// `at` is the TSC at which the other thread needed a core.
    pub fn detach(&mut self, at: u64) -> Box<Core> {
        let now = self.not_before_the_block(at);
        let mut injection = self.injection.clone();
        injection.rebase(self.unit.position());
        let successor = Core {
            config: self.config.clone(),
            pid: self.pid,
            section: lock(&self.outlet).open_section(),
            unit: Unit::new(&self.config),
            outlet: Arc::clone(&self.outlet),
            chunk: self.chunk,
            state: OutputState::On,
            running: None,
            inside: 0,
            started: std::mem::take(&mut self.started),
            injection,
            counts: CoreCounts::default(),
            anomalies: Vec::new(),
            off_blocks: 0,
            truth: self.truth.is_some().then(Vec::new),
            switched: now,
            entered_at: 0,
            latest: now,
            board: Arc::clone(&self.board),
            published: (0, 0),
            detached: None,
            resumed: None,
            absence: Absence::new(self.config.tsc_khz),
        };
        let mut old = Box::new(std::mem::replace(self, successor));
        old.detached = Some(now);
        old.unit.limit_clock(now);
        old
    }

    /// Ends a detached stay and closes its section of the stream.
    pub fn finish(mut self: Box<Self>) {
        self.switch_out(true);
        self.publish();
        lock(&self.outlet).close_section(self.section);
        let mut past = self.past();
        past.counts.add(&self.counts);
        past.sent.add(&self.unit.sent());
        past.anomalies.append(&mut self.anomalies.clone());
    }

    /// TSC at which this state was detached; `None` if it is attached to a core.
    pub fn detached(&self) -> Option<u64> {
        self.detached
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.board.past.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// `at`, or the time of the latest packet or record written so far if that is later.
    fn not_before(&self, at: u64) -> u64 {
        at.max(self.latest).max(self.unit.latest())
    }

    /// As [`Core::not_before`], but not before the running thread began its last block: the
    /// code that the thread executed existed by then and may not have existed at `at`.
    fn not_before_the_block(&self, at: u64) -> u64 {
        self.not_before(at).max(self.unit.looked())
    }

    /// The current TSC. In a detached state, the time of its detachment.
    fn now(&self) -> u64 {
        self.detached.unwrap_or_else(clock::tsc)
    }

    /// The published counters.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Counters of this core, closed sections included.
    pub fn counts(&self) -> CoreCounts {
        let mut sum = self.counts;
        sum.add(&self.past().counts);
        sum
    }

    /// Packets that this core has sent, closed sections included.
    pub fn sent(&self) -> Sent {
        let mut sum = self.unit.sent();
        sum.add(&self.past().sent);
        sum
    }

    /// TSC at which a thread last entered or left the core.
    pub fn switched(&self) -> u64 {
        self.switched
    }

    /// The latest time of a record.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the descriptions of the first anomalies and empties the list.
    pub fn take_anomalies(&mut self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.past().anomalies);
        all.append(&mut self.anomalies);
        all
    }

    /// Writes out the record of executed blocks.
    pub fn flush_truth(&mut self) -> std::io::Result<()> {
        self.pass_truth();
        lock(&self.outlet).flush_truth()
    }

    fn pass_truth(&mut self) {
        if let Some(entries) = &mut self.truth {
            let entries = std::mem::take(entries);
            lock(&self.outlet).truth(self.section, entries);
        }
    }

    fn note(&mut self, entry: Entry) {
        if let Some(entries) = &mut self.truth {
            entries.push(entry);
        }
    }

    /// Thread `tid` enters the core. It is inside the range if it has an unresolved block.
    ///
    /// The thread's first start on this core clears the unit's byte counter, as the kernel does
    /// (`pt_config`), so the stay begins with a PSB+. Later starts restate only the time.
    ///
    /// `at` is the TSC at which the thread needed a core. QEMU had chosen the thread's block by
    /// then, whatever has happened to the code since. The stay therefore begins at `at`, unless
    /// packets or records with a later time exist.
    pub fn switch_in(&mut self, tid: u32, unresolved: &mut Unresolved, at: u64) {
        debug_assert!(self.running.is_none() && !self.unit.enabled());
        self.running = Some(tid);
        self.switched = clock::tsc();
        if self.config.timing != Timing::Tsc {
            self.count_absence();
        }
        let at = self.not_before(at);
        self.latest = at;
        let first = self.started.insert(tid);
        let lost = self.state != OutputState::On;
        if lost && lock(&self.outlet).resume(clock::tsc()) {
            self.recovered();
        }
        self.note(Entry::SwitchIn(tid));
        if self.state == OutputState::On {
            self.unit.start(first || lost, at);
        }
        lock(&self.outlet).switch_in(self.section, self.pid, tid, at, first);
        match *unresolved {
            Some(b) if self.state == OutputState::On => self.enter(b.start),
            _ => *unresolved = None,
        }
        // The time from the beginning of the stay to the present does not count as a jump of
        // the clock.
        self.unit.look();
        self.unit.take_jump();
    }

    /// Interrupts the running thread before `block`, which has begun, and resumes it at once.
    /// The block thereby becomes an entry into the range: [`Core::stale`] can report a block
    /// only there.
    pub fn enter_anew(&mut self, unresolved: &mut Unresolved, block: &Block) {
        if let (Some(tid), OutputState::On) = (self.running, self.state) {
            debug_assert_eq!(self.inside, block.start);
            self.switch_out(false);
            self.switch_in(tid, unresolved, self.latest);
        }
    }

    /// Records that memory differs from `block`, with which the running thread entered the
    /// range. QEMU chose the block before the code changed, for example because the thread had
    /// to wait for the core or because the host suspended the thread.
    pub fn stale(&mut self, block: &Block) {
        if let (Some(tid), OutputState::On) = (self.running, self.state) {
            self.counts.stale += 1;
            let (at, tsc) = (self.entered_at, self.latest);
            lock(&self.outlet).stale(self.section, at, block.start, block.bytes(), tid, tsc);
        }
    }

    /// The running thread, if any, leaves the core. Inside the range it is interrupted before
    /// the first instruction of its unresolved block: the block has begun, but nothing of it is
    /// encoded yet.
    pub fn switch_out(&mut self, preempted: bool) {
        self.switch_out_at(preempted, self.now());
    }

    /// The running thread, if any, loses the core to another thread, which needed one at `at`.
    pub fn evict(&mut self, at: u64) {
        self.switch_out_at(true, self.not_before_the_block(at));
    }

    /// Tracing ends. When it begins again, each thread's first start has a PSB+ and an
    /// ITRACE_START record, as with new events of the kernel.
    pub fn forget_threads(&mut self) {
        self.started.clear();
    }

    /// As [`Core::switch_out`], at time `at` unless something later has been written.
    fn switch_out_at(&mut self, preempted: bool, at: u64) {
        let Some(tid) = self.running.take() else { return };
        if let OutputState::Overflow(_) = self.state {
            self.end_overflow((self.inside != 0).then_some(self.inside));
        }
        if self.unit.enabled() {
            self.unit.interrupt(self.inside);
        }
        self.inside = 0;
        self.counts.preemptions += u64::from(preempted);
        let at = self.not_before(at);
        self.flush(tid, at);
        self.switched = clock::tsc();
        self.latest = at;
        lock(&self.outlet).switch_out(self.section, tid, at, preempted);
        self.mark(truth::SWITCH_OUT, self.unit.position());
        self.pass_truth();
    }

    /// The thread begins `block`, inside the range. Returns whether the unit's bytes were
    /// flushed.
    #[inline]
    pub fn begin_block(&mut self, unresolved: &mut Unresolved, block: &'static Block) -> bool {
        self.counts.blocks += 1;
        self.unit.look();
        if self.state != OutputState::On && !self.begin_lossy(unresolved, block) {
            return false;
        }
        let mut jump = self.unit.take_jump();
        if unresolved.is_some_and(|before| before.kind.reads_target())
            && let Some(since) = jump.take()
        {
            self.held_up(unresolved, since);
            self.resumed = *unresolved;
            if self.state != OutputState::On && !self.begin_lossy(unresolved, block) {
                return false;
            }
        }
        match *unresolved {
            Some(before) if block.restart || self.injection.inside() => {
                let arrival = Arrival::Block { restart: block.restart };
                self.ended(before, block.start, true, arrival);
            }
            Some(before) => self.completed(before, block.start),
            None => self.enter(block.start),
        }
        if self.unit.psb_if_due(block.start) {
            self.psb_sent();
        }
        *unresolved = Some(block);
        self.inside = block.start;
        if self.injection.any() {
            self.inject(block.start);
        }
        if let Some(since) = jump {
            self.held_up(unresolved, since);
        }
        if self.unit.bytes().len() < self.chunk {
            return false;
        }
        self.flush_inside(unresolved);
        true
    }

    /// A detached stay ends because its thread begins `block`. Returns whether the stay has the
    /// end of the unresolved block; if not, the thread must enter its next core with that block.
    ///
    /// An indirect branch may have read its target after the core was lost. Code may have been
    /// installed there in the meantime, which nothing in this stay could execute.
    pub fn end_with(&mut self, unresolved: &mut Unresolved, block: &'static Block) -> bool {
        debug_assert!(self.detached.is_some());
        if unresolved.is_some_and(|before| before.kind.reads_target()) {
            return false;
        }
        self.begin_block(unresolved, block);
        true
    }

    /// The block with which the thread entered the range again because it was held up in it, if
    /// there is one since the last call. Memory may differ from it: see [`Core::stale`].
    #[inline]
    pub fn take_resumed(&mut self) -> Unresolved {
        self.resumed.take()
    }

    /// Restarts the measurement of absence and of translation time.
    fn count_absence(&mut self) {
        self.absence.begin();
        translation::forget();
    }

    /// The clock has jumped since the event at `since`. If the host did not run the guest's
    /// code during the jump, the thread is recorded as having had no core for that time, so
    /// that the time of a stay is time in which the thread executed. A kernel would have
    /// switched the thread out as well. Time in QEMU's translator counts like time without a
    /// processor.
    ///
    /// The thread is interrupted before its unresolved block and resumes at once. A detached stay
    /// ends there instead. If the thread was held up in a block that ends in an indirect branch,
    /// that block must still be unresolved: the target may have been read after the jump, and its
    /// code be younger. Other blocks end in the same way before and after it.
    #[cold]
    #[inline(never)]
    fn held_up(&mut self, unresolved: &mut Unresolved, since: u64) {
        let (Some(tid), OutputState::On) = (self.running, self.state) else { return };
        let absent = self.absence.so_far() + translation::since(since);
        if absent < timing::held_up(self.config.tsc_khz) {
            return self.count_absence();
        }
        let began = since.max(clock::tsc().saturating_sub(absent));
        if let Some(end) = &mut self.detached {
            *end = began.min(*end);
            return;
        }
        let now = self.now();
        self.counts.held_up += 1;
        self.switch_out_at(true, began);
        self.switch_in(tid, unresolved, now);
    }

    /// The thread leaves the range for `to`.
    pub fn leave(&mut self, unresolved: &mut Unresolved, to: u64) {
        let Some(before) = unresolved.take() else { return };
        self.unit.look();
        match self.state {
            OutputState::On => self.ended(before, to, false, Arrival::Block { restart: false }),
            OutputState::Overflow(_) => self.end_overflow(None),
            OutputState::Off => {}
        }
        self.inside = 0;
    }

    /// A signal handler begins. `rip` is the interrupted instruction, `within` says whether it
    /// lies in the range, and `fault` whether it raised the signal.
    pub fn signal(&mut self, unresolved: &mut Unresolved, rip: u64, fault: bool, within: bool) {
        self.unit.look();
        match (self.state, unresolved.take()) {
            (OutputState::On, Some(before)) => {
                let arrival = if fault { Arrival::Fault } else { Arrival::Interrupt };
                self.counts.faults += u64::from(fault);
                self.counts.interrupts += u64::from(!fault);
                self.ended(before, rip, within, arrival);
                if self.unit.enabled() {
                    self.unit.interrupt(rip);
                }
            }
            // A branch had reached the range, but no instruction was executed in it.
            (OutputState::On, None) if within => {
                self.counts.at_entry += 1;
                self.enter(rip);
                self.unit.interrupt(rip);
            }
            (OutputState::Overflow(_), _) => self.end_overflow(None),
            _ => {}
        }
        self.inside = 0;
    }

    /// Gives up the unresolved block because it cannot be determined how it ended. An anomaly.
    pub fn abandon(&mut self, unresolved: &mut Unresolved) {
        if let (OutputState::On, Some(block)) = (self.state, unresolved.take()) {
            self.unexplained(block, 0, false, Arrival::Interrupt);
        }
        self.inside = 0;
    }

    /// The common case: `block` has ended and the next block is inside the range. Rare outcomes
    /// take the slow path, [`Core::ended`].
    #[inline(always)]
    fn completed(&mut self, block: &'static Block, next: u64) {
        completed_then(block, next, |outcome| match outcome {
            BlockOutcome::Unexplained | BlockOutcome::RepeatAgain | BlockOutcome::Syscall => {
                self.ended(block, next, true, Arrival::Block { restart: false });
            }
            _ => {
                if self.truth.is_some() {
                    self.retired(block, outcome);
                }
                self.send(block, next, outcome);
            }
        });
    }

    /// Resolves how `block` ended and sends the packets for it. Afterwards PacketEn says
    /// whether `next` is traced.
    #[inline(never)]
    fn ended(&mut self, block: &Block, next: u64, within: bool, arrival: Arrival) {
        let outcome = resolve(block, next, arrival);
        if self.injection.inside() {
            self.inject_inside(block, outcome);
        }
        if self.truth.is_some() {
            self.retired(block, outcome);
        }
        match outcome {
            BlockOutcome::Cut(_) => self.counts.cuts += 1,
            BlockOutcome::Syscall => {
                self.unit.syscall();
                if within && matches!(arrival, Arrival::Block { .. }) {
                    self.unit.enter(next);
                }
            }
            BlockOutcome::Unexplained => self.unexplained(block, next, within, arrival),
            BlockOutcome::RepeatAgain => {}
            _ if !within => self.unit.leave(next),
            _ => self.send(block, next, outcome),
        }
    }

    /// Sends the packets of a branch that stays inside the range.
    #[inline(always)]
    fn send(&mut self, block: &Block, next: u64, outcome: BlockOutcome) {
        match outcome {
            BlockOutcome::Conditional { taken } => self.unit.conditional(taken),
            BlockOutcome::Call => self.unit.call(block.end),
            BlockOutcome::IndirectJump => self.unit.indirect(next),
            BlockOutcome::IndirectCall => {
                self.unit.indirect(next);
                self.unit.call(block.end);
            }
            BlockOutcome::Return => self.unit.ret(next),
            _ => {}
        }
    }

    #[cold]
    #[inline(never)]
    fn retired(&mut self, block: &Block, outcome: BlockOutcome) {
        let n = match outcome {
            BlockOutcome::Cut(n) => n,
            BlockOutcome::RepeatAgain => block.len() - 1,
            BlockOutcome::Unexplained => 0,
            _ => block.len(),
        };
        if n > 0 {
            self.note(Entry::Retired { id: block.id, n: n as u32 });
        }
    }

    /// Counts an anomaly and keeps the stream decodable: sends an interrupt before `block` and,
    /// if execution continues inside the range, an entry at `next`.
    #[cold]
    fn unexplained(&mut self, block: &Block, next: u64, within: bool, arrival: Arrival) {
        self.counts.anomalies += 1;
        if self.anomalies.len() < 20 {
            self.anomalies.push(format!(
                "tid {:?} {arrival:?}: {:?} block {:#x}..{:#x} last {:#x} target {:#x} ({} instructions) then {next:#x}, in range: {within}",
                self.running, block.kind, block.start, block.end, block.last, block.target, block.len()
            ));
        }
        self.unit.interrupt(block.start);
        if within && matches!(arrival, Arrival::Block { .. }) {
            self.unit.enter(next);
        }
    }

    fn enter(&mut self, ip: u64) {
        self.entered_at = self.unit.position();
        self.unit.enter(ip);
        self.inside = ip;
    }

    fn mark(&mut self, marker: u32, position: u64) {
        self.note(Entry::Mark { marker, position });
    }

    #[cold]
    fn psb_sent(&mut self) {
        let position = self.unit.last_psb();
        self.mark(truth::PSB, position);
    }

    /// Passes the unit's bytes to the outlet; `None` if output has stopped.
    fn flush(&mut self, tid: u32, now: u64) -> Option<()> {
        self.publish();
        if self.unit.bytes().is_empty() {
            return Some(());
        }
        let mut outlet = lock(&self.outlet);
        let flow = outlet.write(self.section, self.unit.bytes(), tid, now);
        let position = outlet.position();
        drop(outlet);
        self.pass_truth();
        if flow == Flow::Taken {
            self.unit.clear();
            return Some(());
        }
        self.unit.stop(position);
        if self.state != OutputState::Off {
            self.state = OutputState::Off;
            self.mark(truth::TRUNCATED, position);
        }
        None
    }

    fn publish(&mut self) {
        let (blocks, anomalies) = (self.counts.blocks, self.counts.anomalies);
        self.board.blocks.fetch_add(blocks - self.published.0, Relaxed);
        self.board.anomalies.fetch_add(anomalies - self.published.1, Relaxed);
        self.published = (blocks, anomalies);
    }

    #[cold]
    #[inline(never)]
    fn flush_inside(&mut self, unresolved: &mut Unresolved) {
        let tid = self.running.unwrap_or_default();
        let now = self.not_before(self.now());
        self.latest = now;
        if self.flush(tid, now).is_none() {
            *unresolved = None;
            self.inside = 0;
        }
    }

    /// Begins a block while packets are being lost. Returns whether packets are sent again and
    /// the caller must begin the block as usual.
    #[cold]
    fn begin_lossy(&mut self, unresolved: &mut Unresolved, block: &'static Block) -> bool {
        match self.state {
            OutputState::On => true,
            OutputState::Overflow(left) if left > 1 => {
                self.state = OutputState::Overflow(left - 1);
                *unresolved = Some(block);
                self.inside = block.start;
                false
            }
            OutputState::Overflow(_) => {
                self.end_overflow(Some(block.start));
                *unresolved = Some(block);
                self.inside = block.start;
                false
            }
            OutputState::Off => {
                *unresolved = None;
                self.inside = 0;
                self.off_blocks += 1;
                if !self.off_blocks.is_multiple_of(RESUME_INTERVAL)
                    || !lock(&self.outlet).resume(clock::tsc())
                {
                    return false;
                }
                self.recovered();
                self.unit.start(true, clock::tsc());
                true
            }
        }
    }

    fn recovered(&mut self) {
        self.state = OutputState::On;
        let position = lock(&self.outlet).position();
        self.mark(truth::RECOVERED, position);
    }

    fn end_overflow(&mut self, ip: Option<u64>) {
        self.state = OutputState::On;
        let position = self.unit.position();
        self.mark(truth::RECOVERED, position);
        self.unit.end_overflow(ip);
    }

    #[cold]
    fn inject(&mut self, ip: u64) {
        if self.injection.interrupts_now() {
            self.unit.interrupt(ip);
            self.unit.enter(ip);
        }
        if let Some(blocks) = self.injection.overflows_now(self.unit.position()) {
            self.state = OutputState::Overflow(blocks);
            self.unit.begin_overflow();
            self.note(Entry::Lost);
        }
    }

    /// Injects an interrupt before some instruction of the block that has just executed. Not if
    /// the block was cut short, because execution may not have reached that instruction.
    #[cold]
    fn inject_inside(&mut self, block: &Block, outcome: BlockOutcome) {
        if matches!(outcome, BlockOutcome::Cut(_) | BlockOutcome::Unexplained) {
            return;
        }
        if let Some(n) = self.injection.interrupts_inside(block.len()) {
            let at = block.address(n);
            self.unit.interrupt(at);
            self.unit.enter(at);
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
