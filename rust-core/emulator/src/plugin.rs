// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The actions at each of QEMU's callbacks, independent of QEMU's interface.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, Release},
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jportal_perf_abi::emulated::EmulatedUnit;

use crate::block::{Block, InsnBytes};
use crate::clock;
use crate::config::{Config, OnFull};
use crate::core::{Core, Unresolved};
use crate::counts::Board;
use crate::error::Error;
use crate::guest::{self, Guest};
use crate::log::Log;
use crate::outlet::Outlet;
use crate::range::Filter;
use crate::scheduler::{Scheduler, Taken, Tenant};
use crate::setup;
use crate::signals::{GuestMemory, Prologue, StackAccess, prologue, read_frame};
use crate::truth::{CodeLog, CoreLog};

/// Maximum number of threads alive at one time (QEMU reuses vCPU indices).
pub const MAX_THREADS: usize = 8192;

/// One guest thread.
#[derive(Debug)]
struct GuestThread {
    tenant: Tenant,
    unresolved: Unresolved,
    /// A signal handler was entered and its frame has not been read yet.
    awaits_frame: bool,
    /// The thread has returned from the kernel since it last executed inside the range.
    from_kernel: bool,
    /// The thread has just translated the block that begins next.
    translated: bool,
}

thread_local! {
    /// The vCPU that the calling thread runs; `u32::MAX` before its first callback.
    static VCPU: Cell<u32> = const { Cell::new(u32::MAX) };
}

#[derive(Debug)]
struct Slot(UnsafeCell<Option<GuestThread>>);

// SAFETY: only the host thread that runs a vCPU uses the vCPU's slot. QEMU creates the vCPU
// before that thread starts and ends it in that thread.
unsafe impl Sync for Slot {}

/// How a block's executions are reported.
#[derive(Clone, Copy, Debug)]
pub enum Hook {
    /// [`Plugin::inside`] with this block.
    Inside(&'static Block),
    /// [`Plugin::outside`] with the block's address.
    Outside(u64),
    /// [`Plugin::unsorted`]: translated before the range was known.
    Unsorted(&'static Block),
    /// [`Plugin::handler`]: the entry of a signal handler, at this address.
    Handler(u64),
}

/// An installed signal handler.
#[derive(Debug)]
struct Handler {
    entry: u64,
    prologue: Prologue,
}

/// The emulator in one process.
#[derive(Debug)]
pub struct Plugin {
    pub(crate) config: Config,
    pub(crate) shared: EmulatedUnit,
    pub(crate) filter: Filter,
    pub(crate) scheduler: Scheduler,
    pub(crate) outlets: Vec<Arc<Mutex<Outlet>>>,
    pub(crate) boards: Vec<Arc<Board>>,
    pub(crate) log: Log,
    pub(crate) queued: AtomicU64,
    pub(crate) peak: AtomicU64,
    /// The process is ending, or is a fork of the traced one.
    pub(crate) exiting: AtomicBool,
    threads: Box<[Slot]>,
    guest: Guest,
    handlers: Mutex<Vec<Handler>>,
    handler_count: AtomicUsize,
    code_log: Option<CodeLog>,
    undecodable: AtomicU64,
    handlers_inside: AtomicU64,
}

impl Plugin {
    /// Creates the shared file and all state that `config` requires.
    pub fn new(mut config: Config) -> Result<Plugin, Error> {
        let tsc_khz = clock::measure_tsc_khz();
        config.cbr = setup::bus_ratio(tsc_khz);
        config.tsc_khz = tsc_khz;
        let log = Log::open(config.log.as_deref())?;
        let shared = setup::create_shared(&config, tsc_khz)?;
        let pid = std::process::id();
        let code_log = config.truth.as_deref().map(CodeLog::create).transpose()?;
        let mut outlets = Vec::new();
        let mut cores = Vec::new();
        let mut boards = Vec::new();
        for n in 0..config.cores {
            let producer = shared.producer(n, pid)?;
            let truth = config.truth.as_deref().map(|d| CoreLog::create(d, n)).transpose()?;
            let mut outlet = Outlet::new(producer, config.mode, truth);
            if config.drain != 0 {
                outlet = outlet.with_drain(config.drain as f64 / (tsc_khz as f64 * 1000.0));
            }
            let outlet = Arc::new(Mutex::new(outlet));
            let core = Core::new(&config, n, pid, Arc::clone(&outlet));
            boards.push(core.board());
            cores.push(core);
            outlets.push(outlet);
        }
        let scheduler = Scheduler::new(&config, cores, MAX_THREADS, tsc_khz);
        let filter = Filter::default();
        if let Some((low, high)) = config.range {
            let _ = filter.set(low, high);
            filter.activate(true);
        }
        Ok(Plugin {
            config,
            shared,
            filter,
            scheduler,
            outlets,
            boards,
            log,
            queued: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            exiting: AtomicBool::new(false),
            threads: (0..MAX_THREADS).map(|_| Slot(UnsafeCell::new(None))).collect(),
            guest: Guest::locate(),
            handlers: Mutex::default(),
            handler_count: AtomicUsize::new(0),
            code_log,
            undecodable: AtomicU64::new(0),
            handlers_inside: AtomicU64::new(0),
        })
    }

    /// Counts of events at translation that should not happen: (undecodable blocks, handlers
    /// inside the range).
    pub(crate) fn translation_anomalies(&self) -> (u64, u64) {
        (self.undecodable.load(Relaxed), self.handlers_inside.load(Relaxed))
    }

    pub(crate) fn flush_code_log(&self) {
        if let Some(Err(e)) = self.code_log.as_ref().map(CodeLog::flush) {
            self.log.error(&format!("record of translated blocks: {e}"));
        }
    }

    /// The state of the thread that runs vCPU `index`.
    ///
    /// # Safety
    /// The caller runs on that vCPU's thread (or before it starts) and holds no other reference
    /// to its state.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn thread(&self, index: u32) -> Option<&mut GuestThread> {
        let slot = self.threads.get(index as usize)?;
        // SAFETY: the caller's promise makes the reference unique.
        let state = unsafe { &mut *slot.0.get() };
        match state {
            Some(_) => state.as_mut(),
            None => Some(state.insert(self.new_thread(index))),
        }
    }

    /// State for the calling thread, which runs vCPU `index`.
    #[cold]
    fn new_thread(&self, index: u32) -> GuestThread {
        VCPU.set(index);
        GuestThread {
            tenant: Tenant::new(index + 1, &self.config),
            unresolved: None,
            awaits_frame: false,
            from_kernel: true,
            translated: false,
        }
    }

    /// The calling thread translates a block.
    fn translates(&self) {
        clock::translation::told();
        // SAFETY: a callback on this thread set the number. The number is that of the thread's
        // vCPU until QEMU ends the vCPU, in this thread. Callbacks do not nest.
        if let Some(t) = unsafe { self.thread(VCPU.get()) } {
            t.translated = true;
        }
    }

    /// A block begins. If the thread has just translated it, the translation has ended.
    #[inline]
    fn begins(t: &mut GuestThread) {
        if t.translated {
            t.translated = false;
            clock::translation::ends();
        }
    }

    /// QEMU translates a block whose instructions are `insns`, in order. Returns how to report
    /// its executions, and which of its instructions are a handler's first stack access.
    pub fn translate(&self, insns: &[InsnBytes<'_>]) -> (Hook, Vec<StackAccess>) {
        let start = insns.first().map_or(0, |i| i.address);
        self.translates();
        if self.exiting.load(Relaxed) {
            // In a forked child, a lock may be held by a thread that does not exist in the
            // child.
            return (Hook::Outside(start), Vec::new());
        }
        let end = insns.last().map_or(0, |i| i.address + i.bytes.len() as u64);
        let known = self.filter.is_known();
        let within = self.filter.contains(start);
        let (handler, accesses) = self.handlers_in(start, end);
        if handler {
            if within {
                self.handlers_inside.fetch_add(1, Relaxed);
            }
            return (Hook::Handler(start), accesses);
        }
        if known && !within {
            return (Hook::Outside(start), accesses);
        }
        match Block::decode(insns) {
            Ok(mut block) => {
                block.id = self.log_block(&insns[..block.len()]);
                let block: &'static Block = Box::leak(Box::new(block));
                (if known { Hook::Inside(block) } else { Hook::Unsorted(block) }, accesses)
            }
            Err(e) => {
                if self.undecodable.fetch_add(1, Relaxed) < 10 {
                    self.log.error(&e.to_string());
                }
                (Hook::Outside(start), accesses)
            }
        }
    }

    fn log_block(&self, insns: &[InsnBytes<'_>]) -> u32 {
        match self.code_log.as_ref().map(|l| l.add(insns)) {
            Some(Ok(id)) => id,
            Some(Err(e)) => {
                self.log.error(&format!("record of translated blocks: {e}"));
                0
            }
            None => 0,
        }
    }

    fn handlers_in(&self, start: u64, end: u64) -> (bool, Vec<StackAccess>) {
        if self.handler_count.load(Relaxed) == 0 {
            return (false, Vec::new());
        }
        let handlers = self.handlers.lock().unwrap_or_else(|e| e.into_inner());
        let all = handlers.iter().flat_map(|h| &h.prologue.accesses);
        let accesses = all.filter(|a| (start..end).contains(&a.instruction)).copied().collect();
        (handlers.iter().any(|h| h.entry == start), accesses)
    }

    fn is_handler(&self, address: u64) -> bool {
        self.handlers.lock().unwrap_or_else(|e| e.into_inner()).iter().any(|h| h.entry == address)
    }

    /// A block inside the range begins on vCPU `index`.
    ///
    /// # Safety
    /// Called on that vCPU's thread, from a callback of QEMU.
    #[inline]
    pub unsafe fn inside(&self, index: u32, block: &'static Block) {
        // SAFETY: the caller's promise; callbacks do not nest.
        let Some(t) = (unsafe { self.thread(index) }) else { return };
        Self::begins(t);
        if !self.filter.is_active() {
            t.unresolved = None;
            return;
        }
        t.from_kernel = false;
        loop {
            if let Some(mut core) = self.scheduler.enter(&t.tenant) {
                let enters = t.unresolved.is_none();
                let flushed = core.begin_block(&mut t.unresolved, block);
                if enters {
                    self.scheduler.hint(&t.tenant, true);
                }
                // The time of the entry has been sent before these checks, so any later change of
                // the code also has a later time.
                if let Some(resumed) = core.take_resumed()
                    && self.is_stale(resumed)
                {
                    core.stale(resumed);
                }
                if self.is_stale(block) {
                    if !enters {
                        core.enter_anew(&mut t.unresolved, block);
                    }
                    core.stale(block);
                }
                drop(core);
                if t.tenant.spend() {
                    self.change_core(t);
                }
                if flushed {
                    self.press();
                }
                return;
            }
            if self.begin_elsewhere(t, block) {
                return;
            }
        }
    }

    /// The quantum is over. The thread is interrupted before the block that has begun, and
    /// resumes on the next core.
    #[cold]
    #[inline(never)]
    fn change_core(&self, t: &mut GuestThread) {
        let need = self.scheduler.need(&t.tenant);
        self.scheduler.release(&t.tenant);
        self.take_core(t, need.since);
    }

    /// The thread has no core. If it lost one in the middle of a block, `block` ends that stay,
    /// and the thread enters the next core with `block`, or with the block that it was in
    /// ([`Core::end_with`]). Returns whether nothing is left to do; if not, the caller must begin
    /// `block` on the new core.
    #[cold]
    #[inline(never)]
    fn begin_elsewhere(&self, t: &mut GuestThread, block: &'static Block) -> bool {
        let need = self.scheduler.need(&t.tenant);
        let mut ended = false;
        loop {
            let unresolved = &mut t.unresolved;
            self.scheduler.end_stay(&t.tenant, |core| ended |= core.end_with(unresolved, block));
            match self.take_core(t, need.since) {
                Taken::Core => return ended,
                Taken::Nothing => return true,
                Taken::OpenStay => {}
            }
        }
    }

    /// Takes a core for thread `t`. The thread enters it with the block that it has begun, if
    /// any.
    #[cold]
    fn take_core(&self, t: &mut GuestThread, since: u64) -> Taken {
        if t.tenant.tid == 0 {
            t.tenant.tid = guest::thread_id();
        }
        self.scheduler.take(&mut t.tenant, &mut t.unresolved, &self.filter, since, |b| self.is_stale(b))
    }

    /// Whether memory differs from the bytes that `block`, which is being executed, was
    /// translated from. This does not require that the thread had to wait: a write drops all
    /// blocks of its page (QEMU, `tb_invalidate_phys_page_fast`), but a thread inside a dropped
    /// block still continues to the blocks that it was linked to, dropped or not.
    #[inline]
    fn is_stale(&self, block: &Block) -> bool {
        // SAFETY: the calling thread is about to execute the translation of these bytes. A
        // guest that unmaps code while it runs would die by the same fault natively.
        unsafe { self.guest.differs(block.start, block.bytes()) }
    }

    /// Slows the calling thread while much trace is queued, so that the drain gets its share of
    /// the processor. Only for a moment, because the drain is a guest thread too.
    fn press(&self) {
        if self.config.mode == OnFull::Stall && self.queued.load(Relaxed) > self.config.limit / 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A block outside the range begins at `to` on vCPU `index`.
    ///
    /// # Safety
    /// As [`Plugin::inside`].
    #[inline]
    pub unsafe fn outside(&self, index: u32, to: u64) {
        // SAFETY: the caller's promise; callbacks do not nest.
        let Some(t) = (unsafe { self.thread(index) }) else { return };
        Self::begins(t);
        if t.unresolved.is_some() {
            self.leave(t, to);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave(&self, t: &mut GuestThread, to: u64) {
        if t.awaits_frame {
            return;
        }
        self.event(t, |core, unresolved| core.leave(unresolved, to));
    }

    /// Calls `what` with the core of thread `t`, which first takes a core if it has none.
    /// Afterwards the thread executes outside the range.
    fn event(&self, t: &mut GuestThread, mut what: impl FnMut(&mut Core, &mut Unresolved)) {
        let mut need = None;
        while self.filter.is_active() {
            if let Some(mut core) = self.scheduler.enter(&t.tenant) {
                what(&mut core, &mut t.unresolved);
                self.scheduler.hint(&t.tenant, false);
                break;
            }
            let since = need.get_or_insert_with(|| self.scheduler.need(&t.tenant)).since;
            let unresolved = &mut t.unresolved;
            if self.scheduler.end_stay(&t.tenant, |core| what(core, unresolved))
                || self.take_core(t, since) == Taken::Nothing
            {
                break;
            }
        }
        t.unresolved = None;
    }

    /// A block begins that was translated before the range was known.
    ///
    /// # Safety
    /// As [`Plugin::inside`].
    #[inline]
    pub unsafe fn unsorted(&self, index: u32, block: &'static Block) {
        if self.filter.contains(block.start) {
            // SAFETY: the caller's promise.
            unsafe { self.inside(index, block) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.outside(index, block.start) }
        }
    }

    /// A signal handler is entered. Nothing is decided before its frame has been read.
    ///
    /// # Safety
    /// As [`Plugin::inside`].
    pub unsafe fn handler(&self, index: u32) {
        // SAFETY: the caller's promise; callbacks do not nest.
        if let Some(t) = unsafe { self.thread(index) } {
            Self::begins(t);
            t.awaits_frame = true;
        }
    }

    /// A handler executes its first stack access. The signal frame is at guest address `frame`.
    ///
    /// # Safety
    /// As [`Plugin::inside`].
    pub unsafe fn frame(&self, index: u32, frame: u64) {
        // SAFETY: the caller's promise; callbacks do not nest.
        let Some(t) = (unsafe { self.thread(index) }) else { return };
        if !std::mem::take(&mut t.awaits_frame) || !self.filter.is_active() {
            return;
        }
        let Some(signal) = read_frame(&self.guest, frame, |a| self.is_handler(a)) else {
            return self.frame_missed(t, &format!("a signal handler has no frame at {frame:#x}"));
        };
        let within = self.filter.contains(signal.rip);
        // Without an unresolved block, the signal matters only if a branch had just reached the
        // range. A thread that comes from the kernel had not reached the range.
        if t.unresolved.is_none() && (t.from_kernel || !within) {
            return;
        }
        let (rip, fault) = (signal.rip, signal.fault);
        self.event(t, |core, unresolved| core.signal(unresolved, rip, fault, within));
    }

    /// The frame of a handler was not found, for the reason `why`. Where the signal interrupted
    /// the thread is unknown, which is an anomaly if the thread has an unresolved block.
    #[cold]
    fn frame_missed(&self, t: &mut GuestThread, why: &str) {
        t.awaits_frame = false;
        if t.unresolved.is_some() {
            self.log.error(why);
            self.event(t, |core, unresolved| core.abandon(unresolved));
        }
    }

    /// A system call begins.
    ///
    /// # Safety
    /// As [`Plugin::inside`].
    pub unsafe fn syscall(&self, index: u32, number: i64, second: u64) {
        if self.exiting.load(Relaxed) {
            return;
        }
        // SAFETY: the caller's promise; callbacks do not nest.
        let Some(t) = (unsafe { self.thread(index) }) else { return };
        t.from_kernel = true;
        if number == libc::SYS_rt_sigreturn && t.awaits_frame {
            self.frame_missed(t, "a signal handler returned, and QEMU reported no access to its stack");
        }
        if number == libc::SYS_rt_sigaction && second != 0 {
            self.install_handler(second);
        }
        if setup::may_block(number) && self.filter.is_active() {
            self.scheduler.release(&t.tenant);
        }
        if matches!(number, libc::SYS_execve | libc::SYS_execveat) && self.filter.is_active() {
            // If the call succeeds, all threads are gone. If it fails, the threads take cores
            // again.
            self.scheduler.stop_all(|_, core| {
                let _ = core.flush_truth();
            });
        }
    }

    /// The guest installs a signal handler. `action` is the address of the new
    /// `struct sigaction`, whose first word is the handler.
    fn install_handler(&self, action: u64) {
        let Some(entry) = self.guest.word(action) else { return };
        if entry <= libc::SIG_IGN as u64 {
            return;
        }
        let mut handlers = self.handlers.lock().unwrap_or_else(|e| e.into_inner());
        if handlers.iter().any(|h| h.entry == entry) {
            return;
        }
        let prologue = prologue(&self.guest, entry);
        self.log.line(&format!("signal handler {entry:#x}: {prologue:x?}"));
        handlers.push(Handler { entry, prologue });
        self.handler_count.store(handlers.len(), Release);
    }

    /// vCPU `index` is created or ends. QEMU reuses indices.
    ///
    /// # Safety
    /// Called by QEMU before the vCPU's thread starts, or on it at its end.
    pub unsafe fn reset_thread(&self, index: u32) {
        let Some(slot) = self.threads.get(index as usize) else {
            self.log.error(&format!("vCPU {index}: more than {MAX_THREADS} threads; it is not traced"));
            return;
        };
        // SAFETY: the caller's promise makes the reference unique.
        let state = unsafe { &mut *slot.0.get() };
        if let Some(t) = state.take() {
            self.scheduler.release(&t.tenant);
        }
        if VCPU.get() == index {
            VCPU.set(u32::MAX);
        }
    }

    /// This process is a fork of the traced one: it must leave the rings alone.
    pub fn forked(&self) {
        self.exiting.store(true, Release);
        self.filter.activate(false);
    }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
