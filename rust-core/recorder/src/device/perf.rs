// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Intel PT through `perf_event_open`, and the sideband alone on machines without PT.
//!
//! Order of steps, all on the thread that creates the VM, when every thread of the recorder
//! exists and no other thread does: for each core the PT event, its data ring, its AUX ring,
//! and the sideband's event with its output set to the same ring; when the code cache is known,
//! the filters; finally the events are enabled, the sideband's first.
//!
//! A full AUX ring turns off the event *of the thread that ran*, and of threads that came later
//! (`perf_aux_output_begin`, `event_sched_out`); the kernel never turns them on again. So after
//! each loss, and on a timer, every event is enabled again ([`Device::keep_running`]). After a
//! loss it is disabled first, because Linux up to 6.15 leaves an overrun event active but
//! stopped, and an enable alone skips such an event.
//!
//! A thread's events are a copy of those of the thread that created it. Between two threads
//! whose events are such copies the kernel switches by exchanging the events, and PT continues
//! (`perf_event_context_sched_out`): no AUX record marks where one thread ends and the other
//! begins. A thread that opens an event of its own, even for a moment, is no longer treated as
//! a copy (`find_get_context`, `unclone_ctx`). So each thread opens one when it begins, and
//! from then on its AUX records are its own.
//!
//! If the VM is already running ([`RecordingConfig::attach`]), the existing threads have inherited
//! nothing. Each gets its own events on each core, whose output goes to the rings of that core,
//! as `perf record -p` does it ([`attach`]).

mod attach;
mod clock;
mod filter;
mod open;

use super::Device;
use crate::config::RecordingConfig;
use crate::error::Error;
use crate::log::{Level, Log};
use crate::sys::rdtsc;
use attach::Ahead;
use clock::Span;
use jportal_capture::header::{packet_flags, return_pops, sources};
use jportal_capture::{FilterRange, PtConfig, TimeConversion};
use jportal_perf_abi::Refusal;
use jportal_perf_abi::attr;
use jportal_perf_abi::kernel::{Control, Kernel, Place, Thread};
use jportal_perf_abi::machine::Machine;
use jportal_perf_abi::pmu::{PtPackets, PtPmu};
use jportal_perf_abi::record::{SAMPLE_TYPE, map_times};
use jportal_perf_abi::refusal::Request;
use jportal_perf_abi::ring::{CoreConsumer, PerfTime};
use open::{CoreEvents, EventPlan, OpenEvent, Opened};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often all events are enabled again, because the kernel may have turned some off without
/// a record.
const REARM: Duration = Duration::from_millis(20);
/// Every `OFTEN` threads that have events on a core lengthen the interval by another [`REARM`].
const OFTEN: usize = 32;

/// The events of a recording.
pub struct Perf {
    host: Host,
    /// The PT PMU and its packets; `None`: the sideband alone.
    pt: Option<(PtPmu, PtPackets)>,
    /// Requested bytes of each core's largest ring; 0: as much as the limit on locked memory
    /// allows.
    requested: u64,
    /// Flight recorder: bytes to keep of each core. The AUX rings are then mapped read-only.
    keep: Option<u64>,
    opened: OnceLock<Opened>,
    /// Threads that exist before the recording are traced, too.
    attach: bool,
    /// Events of threads that exist, until `enable`.
    ahead: Mutex<Option<Ahead>>,
    /// Ids of the recorder's threads.
    own_threads: OnceLock<Vec<u32>>,
    /// Tracing is wanted: set by `enable`, cleared by `disable`.
    enabled: AtomicBool,
    /// PT is off between `pause` and `resume`.
    paused: AtomicBool,
    /// Every PT event has been disabled, and none is to be enabled before `enable` or `resume`.
    quiet: AtomicBool,
    /// A deadline has interrupted `disable_until`.
    unfinished: AtomicBool,
    rearmed: AtomicU64,
    restarted: AtomicU64,
    /// Number of threads that opened an event of their own, and of those that failed to.
    own: AtomicU64,
    copies: AtomicU64,
}

/// The kernel and the machine on which the events are opened.
struct Host {
    kernel: Arc<dyn Kernel>,
    machine: Machine,
    log: Log,
}

impl Host {
    fn refusal(&self, request: Request, error: &io::Error) -> Refusal {
        Refusal::new(request, error, &self.machine, self.kernel.locked_memory_limit())
    }
}

impl Perf {
    /// Intel PT through its PMU.
    ///
    /// # Errors
    /// When the kernel lacks a feature that every PT has, or does not report its cores.
    pub fn intel_pt(kernel: Arc<dyn Kernel>, config: &RecordingConfig, pmu: PtPmu) -> Result<Self, Error> {
        let packets = pmu.packets()?;
        Self::new(kernel, config, Some((pmu, packets)))
    }

    /// The sideband alone, without PT.
    ///
    /// # Errors
    /// When the kernel does not report its cores.
    pub fn sideband(kernel: Arc<dyn Kernel>, config: &RecordingConfig) -> Result<Self, Error> {
        Self::new(kernel, config, None)
    }

    fn new(
        kernel: Arc<dyn Kernel>,
        config: &RecordingConfig,
        pt: Option<(PtPmu, PtPackets)>,
    ) -> Result<Self, Error> {
        let machine = Machine::read(kernel.root());
        if machine.possible.is_empty() {
            return Err(Error::NoCores);
        }
        let keep = (pt.is_some() && config.snapshot_bytes != 0).then_some(config.snapshot_bytes);
        Ok(Self {
            host: Host { kernel, machine, log: config.log.clone() },
            pt,
            requested: if keep.is_some() { config.snapshot_bytes } else { config.buffer_bytes },
            keep,
            opened: OnceLock::new(),
            attach: config.attach,
            ahead: Mutex::new(None),
            own_threads: OnceLock::new(),
            enabled: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            quiet: AtomicBool::new(true),
            unfinished: AtomicBool::new(false),
            rearmed: AtomicU64::new(0),
            restarted: AtomicU64::new(0),
            own: AtomicU64::new(0),
            copies: AtomicU64::new(0),
        })
    }

    fn cores(&self) -> &[CoreEvents] {
        self.opened.get().map_or(&[], |o| &o.cores)
    }

    fn core(&self, core: u32) -> Option<&CoreEvents> {
        self.cores().iter().find(|c| c.core == core)
    }

    /// Enables the sideband first, so that the thread is known for everything that PT records.
    fn enable_all(&self) -> Result<(), Error> {
        for c in self.cores() {
            for event in c.sidebands().chain(c.pts()) {
                let enabled = event.control(Control::Enable);
                enabled.map_err(|e| self.host.refusal(Request::Enable { core: c.core }, &e))?;
            }
        }
        Ok(())
    }

    /// Disables the events of the cores that are not off. Makes only system calls, so that it may
    /// run in a signal handler.
    fn disable_all(&self, deadline: Option<Instant>) {
        self.enabled.store(false, SeqCst);
        if self.cores().iter().all(|c| Self::disable_core(c, deadline)) {
            self.quiet.store(true, SeqCst);
        } else {
            self.unfinished.store(true, SeqCst);
        }
    }

    /// Disables PT first, so that the sideband covers all of the trace. Errors are ignored: a
    /// core that is gone cannot be disabled and need not be. Returns whether the core is off.
    fn disable_core(c: &CoreEvents, deadline: Option<Instant>) -> bool {
        if c.off.load(SeqCst) {
            return true;
        }
        for event in c.pts().chain(c.sidebands()) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            let _ = event.control(Control::Disable);
        }
        c.off.store(true, SeqCst);
        true
    }

    fn set_on(&self) {
        for c in self.cores() {
            c.off.store(false, SeqCst);
        }
    }

    /// Controls the PT events of all cores. Errors are ignored: a core that is gone needs no
    /// control.
    fn control_pt(&self, request: Control<'_>) {
        for event in self.cores().iter().flat_map(CoreEvents::pts) {
            let _ = event.control(request);
        }
    }

    /// Pauses PT alone: the sideband keeps recording which threads run.
    fn pause_pt(&self, deadline: Option<Instant>) {
        self.paused.store(true, SeqCst);
        for event in self.cores().iter().flat_map(CoreEvents::pts) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            let _ = event.control(Control::Disable);
        }
        self.quiet.store(true, SeqCst);
    }

    /// [`Device::filters_files_only`] before any event is open.
    pub(super) fn would_filter_files_only(&self) -> bool {
        let Some((pmu, _)) = &self.pt else { return false };
        let pt = open::one_pt(&self.host, self.pt.as_ref());
        pt.is_ok_and(|pt| pt.is_some_and(|pt| filter::needs_file(&self.host, pmu, &pt)))
    }

    /// Number of threads that existed before the recording and for which events were opened.
    fn attached(&self) -> u64 {
        self.cores().first().map_or(0, |c| c.opened_for() as u64 - 1)
    }

    /// The settings with which the opener's events were opened.
    fn plan<'a>(&'a self, opened: &Opened) -> EventPlan<'a> {
        let pt = self.pt.as_ref().zip(opened.packets).map(|((pmu, _), packets)| (pmu, packets));
        EventPlan { pt, common: opened.common, sizes: opened.sizes, overwrite: self.keep.is_some() }
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn detail(&self) -> String {
        let Some(o) = self.opened.get() else { return String::new() };
        let children = if o.common.threads_only { "" } else { ", forked children until their exec too" };
        let clock = match o.time {
            Some(_) => "perf's clock by the kernel's relation",
            None => "CLOCK_MONOTONIC_RAW, calibrated",
        };
        format!("{} of {} cores{children}; times: {clock}", o.cores.len(), self.host.machine.possible.len())
    }
}

impl Device for Perf {
    fn config(&self) -> PtConfig {
        let opened = self.opened.get();
        let cores = opened.map_or(self.host.machine.possible.len(), |o| o.cores.len());
        let common = PtConfig {
            source: sources::SIDEBAND,
            cores: cores as u32,
            sample_type: SAMPLE_TYPE,
            detail: self.detail().as_str().into(),
            ..PtConfig::default()
        };
        let Some((pmu, wanted)) = &self.pt else { return common };
        let packets = opened.and_then(|o| o.packets).unwrap_or(*wanted);
        let mtc = if packets.mtc_period.is_some() { packet_flags::MTC } else { 0 };
        PtConfig {
            source: sources::PERF,
            packets: packet_flags::TSC | mtc,
            return_pop: return_pops::ALWAYS,
            mtc_period: packets.mtc_period.unwrap_or(0),
            psb_period: packets.psb_period,
            tsc_ctc_numerator: pmu.tsc_ctc.0,
            tsc_ctc_denominator: pmu.tsc_ctc.1,
            nominal_ratio: u8::try_from(pmu.max_nonturbo_ratio).unwrap_or(0),
            perf_config: packets.config,
            aux_bytes: opened.map_or(0, |o| o.sizes.aux),
            ..common
        }
    }

    fn cpu(&self) -> Option<super::Cpu> {
        None
    }

    /// The TSC frequency follows from the kernel's relation of TSC and nanoseconds.
    fn tsc_khz(&self) -> u64 {
        let time = self.opened.get().and_then(|o| o.time);
        time.map_or(0, |t| {
            (((1_000_000u128 << t.shift) + u128::from(t.mult) / 2) / u128::from(t.mult)) as u64
        })
    }

    fn time(&self) -> TimeConversion {
        let time = self.opened.get().and_then(|o| o.time);
        time.map_or_else(TimeConversion::default, |PerfTime { shift, mult, zero }| TimeConversion {
            valid: 1,
            shift,
            mult,
            zero,
        })
    }

    fn rings(&self, own: &[u32]) -> Result<Vec<(u32, CoreConsumer)>, Error> {
        let _ = self.own_threads.set(own.to_vec());
        let (opened, rings) = open::open(&self.host, self.pt.as_ref(), self.requested, self.keep.is_some())?;
        opened.tell(&self.host);
        if self.attach {
            *self.ahead() = attach::ahead(&self.host, &opened, &self.plan(&opened), own)?;
        }
        // Cannot fail: `rings` is called only once.
        let _ = self.opened.set(opened);
        Ok(rings)
    }

    fn filters_files_only(&self) -> bool {
        let Some((pmu, _)) = &self.pt else { return false };
        let first = self.cores().first().and_then(|c| c.pts().next());
        first.is_some_and(|pt| filter::needs_file(&self.host, pmu, pt))
    }

    fn enable(&self, low: u64, high: u64, file: Option<RawFd>) -> Result<Vec<FilterRange>, Error> {
        if let Some(opened) = self.opened.get().filter(|_| self.attach) {
            let own = self.own_threads.get().map_or(&[][..], Vec::as_slice);
            let earlier = self.ahead().take();
            attach::all(&self.host, opened, &self.plan(opened), own, earlier)?;
        }
        let filter = match &self.pt {
            Some((pmu, _)) => filter::set(&self.host, pmu, self.cores(), (low, high), file)?,
            None => Vec::new(),
        };
        self.set_on();
        self.quiet.store(false, SeqCst);
        self.enabled.store(true, SeqCst);
        self.enable_all().inspect_err(|_| self.disable())?;
        if !self.enabled.load(SeqCst) {
            // `disable` was called meanwhile.
            self.set_on();
            self.disable();
        }
        Ok(filter)
    }

    /// A record is in its ring before its thread can run elsewhere. One millisecond is
    /// subtracted for the error of the relation of the clocks, be it the kernel's or calibrated.
    fn complete_until(&self) -> u64 {
        let calibrated = |c: &CoreEvents| c.span.lock().unwrap_or_else(PoisonError::into_inner).millisecond();
        let slack = match self.tsc_khz() {
            0 => self.cores().iter().map(calibrated).max().unwrap_or(0),
            khz => khz,
        };
        rdtsc().saturating_sub(slack)
    }

    fn keeps(&self) -> Option<u64> {
        self.keep
    }

    fn pause(&self) {
        self.pause_pt(None);
    }

    /// Looks at the clock between two events.
    fn pause_until(&self, deadline: Instant) {
        self.pause_pt(Some(deadline));
    }

    fn resume(&self) {
        if !self.enabled.load(SeqCst) {
            return;
        }
        self.quiet.store(false, SeqCst);
        self.paused.store(false, SeqCst);
        self.control_pt(Control::Enable);
        if !self.enabled.load(SeqCst) {
            // `disable` was called meanwhile.
            self.control_pt(Control::Disable);
            self.quiet.store(true, SeqCst);
        }
    }

    fn disable(&self) {
        self.disable_all(None);
    }

    /// Looks at the clock between two events.
    fn disable_until(&self, deadline: Instant) {
        self.disable_all(Some(deadline));
    }

    /// A disable returns when no core runs the event any more and its last AUX record is
    /// written.
    fn is_quiet(&self) -> bool {
        self.quiet.load(SeqCst)
    }

    fn failure(&self) -> Option<Error> {
        None
    }

    fn thread_started(&self) {
        if self.pt.is_none() || self.cores().is_empty() {
            return;
        }
        let kernel = &self.host.kernel;
        match kernel.open(&attr::probe(), Thread::Calling, Place::Anywhere) {
            Ok(event) => {
                kernel.close(event);
                self.own.fetch_add(1, Relaxed);
            }
            Err(e) if self.copies.fetch_add(1, Relaxed) == 0 => {
                let text = format!(
                    "a thread cannot open an event of its own ({e}): what it runs may be attributed to other threads"
                );
                self.host.log.line(Level::Warning, &text);
            }
            Err(_) => {}
        }
    }

    fn translate(&self, core: u32, records: &mut [u8]) {
        let Some(opened) = self.opened.get() else { return };
        if let Some(time) = opened.time {
            return map_times(records, |ns| clock::by_kernel(time, ns));
        }
        let Some(c) = self.core(core) else { return };
        let mut span = c.span.lock().unwrap_or_else(PoisonError::into_inner);
        span.advance(self.host.kernel.moment());
        map_times(records, |ns| span.tsc(ns));
    }

    fn keep_running(&self, core: u32, full: bool) {
        let Some(c) = self.core(core) else { return };
        if self.unfinished.load(SeqCst) {
            Self::disable_core(c, None);
            if self.cores().iter().all(|c| c.off.load(SeqCst)) {
                self.quiet.store(true, SeqCst);
            }
            return;
        }
        let traces = || self.enabled.load(SeqCst) && !self.paused.load(SeqCst);
        let interval = REARM * (c.opened_for() / OFTEN + 1) as u32;
        if !traces() || !(full || c.is_due(interval)) {
            return;
        }
        let all = |events: &mut dyn Iterator<Item = &OpenEvent>, request: Control<'_>| {
            for event in events {
                let _ = event.control(request);
            }
        };
        if full && self.pt.is_some() {
            all(&mut c.pts(), Control::Disable);
            self.restarted.fetch_add(1, Relaxed);
        }
        all(&mut c.sidebands().chain(c.pts()), Control::Enable);
        self.rearmed.fetch_add(1, Relaxed);
        if !traces() {
            // Stopped meanwhile: the disable may have come before this enable, so disable
            // again.
            all(&mut c.pts(), Control::Disable);
            if !self.enabled.load(SeqCst) {
                all(&mut c.sidebands(), Control::Disable);
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let possible = self.host.machine.possible.len() as u64;
        vec![
            ("cores_opened", self.cores().len() as u64),
            ("cores_possible", possible),
            ("rearmed", self.rearmed.load(Relaxed)),
            ("restarted", self.restarted.load(Relaxed)),
            ("threads_attached", self.attached()),
            ("threads_own", self.own.load(Relaxed)),
            ("threads_copies", self.copies.load(Relaxed)),
        ]
    }

    fn finish(&self) {
        self.enabled.store(false, SeqCst);
        drop(self.ahead().take());
        for c in self.cores() {
            c.close();
        }
    }
}
