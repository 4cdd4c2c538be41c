// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Opens the events of a recording and maps their rings.

use super::{Host, Level, Span};
use crate::error::Error;
use crate::window::check_window;
use jportal_perf_abi::attr::{self, Common};
use jportal_perf_abi::bindings::perf_event_attr;
use jportal_perf_abi::kernel::{Control, Event, FILES_SHARE, Kernel, Place, Thread};
use jportal_perf_abi::pmu::{PtPackets, PtPmu};
use jportal_perf_abi::refusal::{Cause, Request};
use jportal_perf_abi::ring::{CoreConsumer, CoreMemory, PerfTime};
use jportal_perf_abi::sizes::RingSizes;
use jportal_perf_abi::{PAGE_SIZE, Refusal};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// An open event, closed when it is dropped.
pub(super) struct OpenEvent {
    kernel: Arc<dyn Kernel>,
    event: AtomicI32,
}

/// The value of a closed event; not a valid descriptor.
const CLOSED: Event = -1;

impl OpenEvent {
    fn new(
        kernel: &Arc<dyn Kernel>,
        attr: &perf_event_attr,
        thread: Thread,
        place: Place,
    ) -> io::Result<Self> {
        let event = kernel.open(attr, thread, place)?;
        Ok(Self { kernel: Arc::clone(kernel), event: AtomicI32::new(event) })
    }

    pub(super) fn id(&self) -> Event {
        self.event.load(Acquire)
    }

    pub(super) fn control(&self, request: Control<'_>) -> io::Result<()> {
        match self.id() {
            CLOSED => Err(io::ErrorKind::NotConnected.into()),
            event => self.kernel.control(event, request),
        }
    }

    fn close(&self) {
        let event = self.event.swap(CLOSED, AcqRel);
        if event != CLOSED {
            self.kernel.close(event);
        }
    }
}

impl Drop for OpenEvent {
    fn drop(&mut self) {
        self.close();
    }
}

/// The events of one thread, which its children inherit, on one core.
pub(super) struct ThreadEvents {
    pub(super) pt: Option<OpenEvent>,
    pub(super) sideband: OpenEvent,
}

/// The events of one core.
pub(super) struct CoreEvents {
    pub(super) core: u32,
    /// Events of the thread that opened the recording; their rings are the core's.
    opener: ThreadEvents,
    /// Events of threads that existed before the recording.
    attached: OnceLock<Vec<ThreadEvents>>,
    pub(super) span: Mutex<Span>,
    /// Every event was disabled, and none is to be enabled again.
    pub(super) off: AtomicBool,
    rearmed: Mutex<Instant>,
}

impl CoreEvents {
    fn new(core: u32, opener: ThreadEvents, span: Span) -> Self {
        let (span, rearmed) = (Mutex::new(span), Mutex::new(Instant::now()));
        Self { core, opener, attached: OnceLock::new(), span, off: AtomicBool::new(true), rearmed }
    }

    /// The events of all threads. Async-signal-safe, as are [`Self::pts`] and
    /// [`Self::sidebands`].
    fn threads(&self) -> impl Iterator<Item = &ThreadEvents> {
        std::iter::once(&self.opener).chain(self.attached.get().into_iter().flatten())
    }

    /// The PT events of all threads.
    pub(super) fn pts(&self) -> impl Iterator<Item = &OpenEvent> {
        self.threads().filter_map(|t| t.pt.as_ref())
    }

    /// The sideband's events of all threads.
    pub(super) fn sidebands(&self) -> impl Iterator<Item = &OpenEvent> {
        self.threads().map(|t| &t.sideband)
    }

    /// Number of threads for which events were opened.
    pub(super) fn opened_for(&self) -> usize {
        1 + self.attached.get().map_or(0, Vec::len)
    }

    /// Adds the events of threads that existed before. To be called once.
    pub(super) fn attach(&self, threads: Vec<ThreadEvents>) {
        let _ = self.attached.set(threads);
    }

    /// The event that owns the core's rings.
    pub(super) fn output(&self) -> Event {
        self.opener.pt.as_ref().unwrap_or(&self.opener.sideband).id()
    }

    /// Whether `interval` has passed since this was last true.
    pub(super) fn is_due(&self, interval: Duration) -> bool {
        let mut last = self.rearmed.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.elapsed() >= interval;
        if due {
            *last = Instant::now();
        }
        due
    }

    pub(super) fn close(&self) {
        for event in self.pts().chain(self.sidebands()) {
            event.close();
        }
    }
}

/// The result of opening all events.
pub(super) struct Opened {
    pub(super) cores: Vec<CoreEvents>,
    pub(super) common: Common,
    pub(super) packets: Option<PtPackets>,
    pub(super) time: Option<PerfTime>,
    pub(super) sizes: RingSizes,
    /// Id of the thread that opened the events.
    pub(super) opener: u32,
    /// Cores that the kernel reports as absent.
    absent: Vec<u32>,
    /// MTC and PSB periods were wanted, but the kernel refused them.
    reduced: bool,
}

impl Opened {
    /// Logs what a user should know about the events.
    pub(super) fn tell(&self, host: &Host) {
        let warn = |text: String| host.log.line(Level::Warning, &text);
        if !self.absent.is_empty() {
            warn(format!(
                "cores {:?} are not there (ENODEV): what runs on them later is not traced",
                self.absent
            ));
        }
        if !self.common.threads_only {
            let release = &host.machine.release;
            warn(format!(
                "Linux {release} has no inherit_thread (5.13 and later have): forked child processes are traced until their exec"
            ));
        }
        if self.reduced {
            warn("the kernel refuses the periods of MTC and PSB that its capabilities offer: recording without".into());
        }
        if self.time.is_none() {
            let text = "perf's clock has no fixed relation to the TSC here (a guest's clock, or an unstable TSC): calibrating";
            host.log.line(Level::Info, text);
        }
    }
}

/// What to open on every core.
pub(super) struct EventPlan<'a> {
    pub(super) pt: Option<(&'a PtPmu, PtPackets)>,
    pub(super) common: Common,
    pub(super) sizes: RingSizes,
    /// The AUX rings are mapped read-only.
    pub(super) overwrite: bool,
}

type Rings = Vec<(u32, CoreConsumer)>;

/// Opens everything. Rings whose size was not requested shrink until they fit.
pub(super) fn open(
    host: &Host,
    pt: Option<&(PtPmu, PtPackets)>,
    requested: u64,
    overwrite: bool,
) -> Result<(Opened, Rings), Error> {
    check_files(host, 1, pt.is_some())?;
    let time = perf_time(host)?;
    let mut sizes = match requested {
        0 => RingSizes::fitting(&host.machine, pt.is_some()),
        bytes => RingSizes::requested(bytes, pt.is_some()),
    };
    let (pt, common, reduced) = settings(host, pt, time.is_none(), sizes)?;
    if let Some((_, packets)) = pt.as_ref().filter(|_| overwrite) {
        check_window(requested, packets.psb_period)?;
    }
    loop {
        let plan = EventPlan { pt, common, sizes, overwrite };
        match open_cores(host, &plan) {
            Ok((cores, rings, absent)) => {
                let packets = plan.pt.map(|(_, packets)| packets);
                let opener = host.kernel.this_thread();
                let opened = Opened { cores, common, packets, time, sizes, opener, absent, reduced };
                return Ok((opened, rings));
            }
            Err(Error::Refused(r)) if requested == 0 && r.cause == Cause::LockedMemory => {
                let Some(smaller) = sizes.halved() else { return Err(r.into()) };
                let kib = smaller.all() / 1024;
                host.log.line(Level::Warning, &format!("{r}. Trying {kib} KiB per core"));
                sizes = smaller;
            }
            Err(e) => return Err(e),
        }
    }
}

/// Refuses to take more than the recorder's share of the process's file descriptors for the events
/// of `threads` threads on each core.
pub(super) fn check_files(host: &Host, threads: usize, has_pt: bool) -> Result<(), Error> {
    let cores = host.machine.possible.len();
    let needed = (threads * cores) as u64 * if has_pt { 2 } else { 1 };
    match host.kernel.open_files_limit() {
        Some(limit) if needed > limit / FILES_SHARE => {
            Err(Error::Descriptors { needed, limit, threads, cores })
        }
        _ => Ok(()),
    }
}

/// Reads the relation of perf's clock and the TSC from the control page of an event that counts
/// nothing.
fn perf_time(host: &Host) -> Result<Option<PerfTime>, Error> {
    let refused = |request| move |e| host.refusal(request, &e);
    let core = host.machine.possible.first().copied().unwrap_or(0);
    let probe = OpenEvent::new(&host.kernel, &attr::probe(), Thread::Calling, Place::Anywhere);
    let probe = probe.map_err(refused(Request::OpenSideband { core }))?;
    let page = host.kernel.map(probe.id(), 0, PAGE_SIZE);
    let page = page.map_err(refused(Request::MapData { core, all: PAGE_SIZE as u64 }))?;
    Ok(PerfTime::read(&page))
}

type Settings<'a> = (Option<(&'a PtPmu, PtPackets)>, Common, bool);

/// The PT event of the first present core, without rings, for trying what the kernel accepts.
pub(super) fn one_pt(host: &Host, pt: Option<&(PtPmu, PtPackets)>) -> Result<Option<OpenEvent>, Error> {
    let sizes = RingSizes::fitting(&host.machine, pt.is_some());
    let (pt, common, _) = settings(host, pt, false, sizes)?;
    let plan = EventPlan { pt, common, sizes, overwrite: false };
    let mut there = host.machine.possible.iter().map(|core| open_pt(host, &plan, Thread::Calling, *core));
    there.find(|opened| !matches!(opened, Err(r) if r.cause == Cause::NoCore)).map_or(Ok(None), |o| Ok(o?))
}

/// The part of the wanted settings that this kernel accepts, tried on the first present core.
/// The cause of `EINVAL` may be `inherit_thread`, which older kernels do not know, or a period
/// of PT's packets.
fn settings<'a>(
    host: &Host,
    pt: Option<&'a (PtPmu, PtPackets)>,
    raw_clock: bool,
    sizes: RingSizes,
) -> Result<Settings<'a>, Error> {
    let wanted = pt.map(|(pmu, packets)| (pmu, *packets));
    let plain = match pt {
        Some((pmu, packets)) => {
            Some(pmu.plain_packets()?).filter(|plain| plain != packets).map(|plain| (pmu, plain))
        }
        None => None,
    };
    let tries = [(wanted, false)].into_iter().chain(plain.map(|p| (Some(p), true)));
    let mut first = None;
    for (pt, reduced) in tries {
        for threads_only in [true, false] {
            let common = Common { threads_only, raw_clock };
            match try_settings(host, &EventPlan { pt, common, sizes, overwrite: false }) {
                Ok(()) => return Ok((pt, common, reduced)),
                Err(r) if r.cause == Cause::Configuration => first.get_or_insert(r),
                Err(r) => return Err(r.into()),
            };
        }
    }
    Err(first.map_or(Error::NoCores, Error::Refused))
}

fn try_settings(host: &Host, plan: &EventPlan<'_>) -> Result<(), Refusal> {
    let mut absent = None;
    for &core in &host.machine.possible {
        match open_pt(host, plan, Thread::Calling, core)
            .and_then(|_| open_sideband(host, plan, Thread::Calling, core))
        {
            Ok(_) => return Ok(()),
            Err(r) if r.cause == Cause::NoCore => absent = Some(r),
            Err(r) => return Err(r),
        }
    }
    absent.map_or(Ok(()), Err)
}

/// The PT event of a thread on a core, or `None` if no PT is wanted.
pub(super) fn open_pt(
    host: &Host,
    plan: &EventPlan<'_>,
    thread: Thread,
    core: u32,
) -> Result<Option<OpenEvent>, Refusal> {
    let Some((pmu, packets)) = &plan.pt else { return Ok(None) };
    let attr = attr::pt(pmu.kind, packets.config, plan.sizes.aux, plan.common);
    let opened = OpenEvent::new(&host.kernel, &attr, thread, Place::Core(core));
    opened.map(Some).map_err(|e| host.refusal(Request::OpenPt { core, config: packets.config }, &e))
}

pub(super) fn open_sideband(
    host: &Host,
    plan: &EventPlan<'_>,
    thread: Thread,
    core: u32,
) -> Result<OpenEvent, Refusal> {
    let attr = attr::sideband(plan.sizes.data, plan.common);
    let opened = OpenEvent::new(&host.kernel, &attr, thread, Place::Core(core));
    opened.map_err(|e| host.refusal(Request::OpenSideband { core }, &e))
}

/// Opens the events of all present cores; also returns the absent cores.
fn open_cores(host: &Host, plan: &EventPlan<'_>) -> Result<(Vec<CoreEvents>, Rings, Vec<u32>), Error> {
    let (mut cores, mut rings, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    let mut gone = None;
    for &core in &host.machine.possible {
        match open_core(host, plan, core) {
            Ok((events, consumer)) => {
                cores.push(events);
                rings.push((core, consumer));
            }
            Err(Error::Refused(r)) if r.cause == Cause::NoCore => {
                absent.push(core);
                gone = Some(r);
            }
            Err(e) => return Err(e),
        }
    }
    match gone {
        Some(refusal) if cores.is_empty() => Err(refusal.into()),
        _ => Ok((cores, rings, absent)),
    }
}

fn open_core(host: &Host, plan: &EventPlan<'_>, core: u32) -> Result<(CoreEvents, CoreConsumer), Error> {
    let pt = open_pt(host, plan, Thread::Calling, core)?;
    let (memory, sideband) = match &pt {
        Some(pt) => {
            let memory = map(host, plan, core, pt)?;
            let sideband = open_sideband(host, plan, Thread::Calling, core)?;
            redirect(host, core, &sideband, pt.id())?;
            (memory, sideband)
        }
        None => {
            let sideband = open_sideband(host, plan, Thread::Calling, core)?;
            (map(host, plan, core, &sideband)?, sideband)
        }
    };
    let events = CoreEvents::new(core, ThreadEvents { pt, sideband }, Span::new(host.kernel.moment()));
    Ok((events, memory.consumer()))
}

/// Redirects the output of `event` to the ring of `output`.
pub(super) fn redirect(host: &Host, core: u32, event: &OpenEvent, output: Event) -> Result<(), Refusal> {
    let redirected = event.control(Control::SetOutput(output));
    redirected.map_err(|e| host.refusal(Request::SetOutput { core }, &e))
}

/// Maps control page and data ring and then, with PT, the AUX ring, whose offset must be
/// written to the control page first.
fn map(host: &Host, plan: &EventPlan<'_>, core: u32, event: &OpenEvent) -> Result<CoreMemory, Error> {
    let sizes = plan.sizes;
    let all = sizes.all() * host.machine.possible.len() as u64;
    let first = PAGE_SIZE + sizes.data as usize;
    let both = host.kernel.map(event.id(), 0, first);
    let both = both.map_err(|e| host.refusal(Request::MapData { core, all }, &e))?;
    let missing = || jportal_perf_abi::Error::Configuration {
        field: "mapping",
        value: 0,
        rule: "as long as asked for",
    };
    let page = both.part(0, PAGE_SIZE).ok_or_else(missing)?;
    let data = both.part(PAGE_SIZE, sizes.data as usize).ok_or_else(missing)?;
    if plan.pt.is_none() {
        return Ok(CoreMemory::without_aux(page, data)?);
    }
    let offset = CoreMemory::announce_aux(&page, sizes.data, sizes.aux);
    let len = sizes.aux as usize;
    let aux = if plan.overwrite {
        host.kernel.map_read_only(event.id(), offset, len)
    } else {
        host.kernel.map(event.id(), offset, len)
    };
    let aux = aux.map_err(|e| host.refusal(Request::MapAux { core, bytes: sizes.aux, all }, &e))?;
    Ok(CoreMemory::new(page, data, aux)?)
}
