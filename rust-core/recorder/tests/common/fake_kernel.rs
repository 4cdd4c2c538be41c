// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A fake kernel for tests. It applies the rules of `kernel/events` on which a recording
//! depends, refuses the calls that a test selects, and notes every call.

use jportal_perf_abi::PAGE_SIZE;
use jportal_perf_abi::bindings::perf_event_attr;
use jportal_perf_abi::kernel::{Control, Event, Kernel, Linux, Moment, Place, Thread};
use jportal_perf_abi::memory::Block;
use jportal_perf_abi::record::{Body, aux_flags};
use jportal_perf_abi::ring::{CoreMemory, CoreProducer, PerfTime};
use jportal_perf_abi::testing::{MACHINE, SKYLAKE_PMU, write_tree};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Type of the PT PMU in [`SKYLAKE_PMU`].
const PT: u32 = 8;

/// The thread that opens the events.
const OPENER: u32 = 50;

/// A system call, in the form that the tests compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelCall {
    OpenPt(u32),
    OpenSideband(u32),
    /// For another thread: its id, and the core.
    AttachPt(u32, u32),
    AttachSideband(u32, u32),
    Probe,
    MapData(u32),
    MapAux(u32),
    MapAuxReadOnly(u32),
    SetOutput(u32),
    SetFilter(u32, String),
    /// The core, and whether the event is PT's.
    Enable(u32, bool),
    Disable(u32, bool),
    Close,
}

/// A call that a test can have refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusableCall {
    OpenPt,
    OpenSideband,
    AttachPt,
    AttachSideband,
    Probe,
    MapData,
    MapAux,
    SetOutput,
    PlainFilter,
    FileFilter,
    Enable,
}

/// A refusal, and where it applies.
#[derive(Debug, Clone, Copy)]
pub struct Refuse {
    pub at: RefusableCall,
    pub errno: i32,
    /// On this core, or `None` for all.
    pub core: Option<u32>,
}

/// Differences of an older kernel or another processor.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub knows_inherit_thread: bool,
    pub knows_plain_filters: bool,
    /// Bits of `config` that the kernel accepts.
    pub config: u64,
    /// Number of bytes that may be mapped.
    pub locked: u64,
    /// The relation of perf's clock and the TSC, if there is one.
    pub time: Option<PerfTime>,
    /// Number of files that may be open.
    pub files: u64,
}

impl Default for Rules {
    fn default() -> Self {
        let time = Some(PerfTime { shift: 31, mult: 0x3333_3333, zero: 1_000 });
        Self {
            knows_inherit_thread: true,
            knows_plain_filters: true,
            config: u64::MAX,
            locked: u64::MAX,
            time,
            files: 1 << 16,
        }
    }
}

struct Opened {
    attr: perf_event_attr,
    core: Option<u32>,
    /// The traced thread, if it is not the one that opened the event.
    thread: Option<u32>,
    data: Option<Block>,
    aux: Option<Block>,
    output: Option<Event>,
    enabled: bool,
    mapped: u64,
}

#[derive(Default)]
struct KernelState {
    events: HashMap<Event, Opened>,
    calls: Vec<KernelCall>,
    refuse: Vec<Refuse>,
    next: Event,
    /// Threads of the process other than those that call.
    threads: BTreeSet<u32>,
    /// Changes of `threads`: the number of events of other threads to be opened first, and the
    /// thread that then comes or goes.
    changes: Vec<(usize, u32)>,
}

/// An action in the middle of a call.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// The fake kernel; see the module's description.
pub struct FakeKernel {
    root: tempfile::TempDir,
    rules: Rules,
    state: Mutex<KernelState>,
    before_enable: Mutex<Option<Meanwhile>>,
    /// How long it takes to disable an event.
    disable_takes: Mutex<Duration>,
}

fn refused(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// A flag bit of an attribute.
fn flag(attr: &perf_event_attr, bit: usize) -> bool {
    attr._bitfield_1.get_bit(bit)
}

impl FakeKernel {
    /// A Skylake server of four possible cores, two of them online, with the files of `change`
    /// replaced.
    pub fn new(rules: Rules, change: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        write_tree(root.path(), MACHINE);
        write_tree(root.path(), SKYLAKE_PMU);
        write_tree(root.path(), change);
        Self {
            root,
            rules,
            state: Mutex::new(KernelState { next: 100, ..KernelState::default() }),
            before_enable: Mutex::new(None),
            disable_takes: Mutex::new(Duration::ZERO),
        }
    }

    /// Like [`FakeKernel::new`], but without PT.
    pub fn without_pt(rules: Rules) -> Self {
        let kernel = Self::new(rules, &[]);
        std::fs::remove_dir_all(kernel.root.path().join(jportal_perf_abi::pmu::DIRECTORY)).unwrap();
        kernel
    }

    fn state(&self) -> MutexGuard<'_, KernelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the calls `at` with `errno`, on one core or on all.
    pub fn refuse(&self, at: RefusableCall, errno: i32, core: Option<u32>) {
        self.state().refuse.push(Refuse { at, errno, core });
    }

    /// Runs `what` when the next event is about to be enabled.
    pub fn before_enable(&self, what: impl FnOnce() + Send + 'static) {
        *self.before_enable.lock().unwrap() = Some(Box::new(what));
    }

    /// From now on, it takes `time` to disable an event.
    pub fn disable_slowly(&self, time: Duration) {
        *self.disable_takes.lock().unwrap() = time;
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> Vec<KernelCall> {
        self.state().calls.clone()
    }

    /// Empties the list of calls.
    pub fn forget_calls(&self) {
        self.state().calls.clear();
    }

    /// Adds threads of the process to the one that opens the events.
    pub fn have_threads(&self, threads: &[u32]) {
        self.state().threads.extend(threads);
    }

    /// When the given number of further events of other threads have been opened, `thread`
    /// comes, or goes if it was there.
    pub fn change_thread(&self, behind: usize, thread: u32) {
        self.state().changes.push((behind, thread));
    }

    /// The threads that have an event on `core`, of PT or, if not `pt`, of the sideband: each
    /// as often as it has one. Also whether all of these events are enabled.
    pub fn attached(&self, core: u32, pt: bool) -> (Vec<u32>, bool) {
        let state = self.state();
        let of = |e: &&Opened| e.core == Some(core) && e.thread.is_some() && (e.attr.type_ == PT) == pt;
        let all: Vec<_> = state.events.values().filter(of).collect();
        let mut threads: Vec<u32> = all.iter().filter_map(|e| e.thread).collect();
        threads.sort_unstable();
        (threads, all.iter().all(|e| e.enabled))
    }

    /// Number of open events.
    pub fn open_events(&self) -> usize {
        self.state().events.len()
    }

    /// The attributes of the PT event of a core.
    pub fn pt_attr(&self, core: u32) -> perf_event_attr {
        let state = self.state();
        let found = state.events.values().find(|e| e.core == Some(core) && e.attr.type_ == PT);
        found.unwrap_or_else(|| panic!("core {core} has no PT event")).attr
    }

    /// The side of a core's rings that the kernel writes.
    pub fn producer(&self, core: u32) -> CoreProducer {
        let state = self.state();
        let of_core = |e: &&Opened| e.core == Some(core) && e.data.is_some();
        let event = state.events.values().find(of_core).unwrap_or_else(|| panic!("core {core} has no ring"));
        let all = event.data.as_ref().unwrap();
        let page = all.part(0, PAGE_SIZE).unwrap();
        let data = all.part(PAGE_SIZE, all.len() - PAGE_SIZE).unwrap();
        let memory = match &event.aux {
            Some(aux) => CoreMemory::new(page, data, aux.clone()),
            None => CoreMemory::without_aux(page, data),
        };
        memory.unwrap().producer(std::process::id(), core)
    }

    /// Whether PT is enabled on a core.
    pub fn is_on(&self, core: u32) -> bool {
        self.state().events.values().any(|e| e.core == Some(core) && e.attr.type_ == PT && e.enabled)
    }

    /// Acts as `perf_aux_output_end` does when the ring was full: TRUNCATED, and off until it
    /// is enabled again.
    pub fn overrun(&self, producer: &mut CoreProducer, core: u32, tid: u32, time: u64) {
        while producer.end_aux(tid, time, aux_flags::TRUNCATED).is_err() {
            std::thread::yield_now();
        }
        self.turn_off(core);
    }

    /// Acts as `perf_aux_output_begin` does when there is no room: off without any record.
    pub fn turn_off(&self, core: u32) {
        for e in self.state().events.values_mut().filter(|e| e.core == Some(core) && e.attr.type_ == PT) {
            e.enabled = false;
        }
    }

    /// Applies the changes of threads that are due when an event of another thread is opened.
    fn threads_change(state: &mut KernelState) {
        for (behind, thread) in std::mem::take(&mut state.changes) {
            match behind.checked_sub(1) {
                Some(behind) => state.changes.push((behind, thread)),
                None if state.threads.remove(&thread) => {}
                None => drop(state.threads.insert(thread)),
            }
        }
    }

    fn answer(state: &KernelState, at: RefusableCall, core: Option<u32>) -> io::Result<()> {
        let matching = |r: &&Refuse| r.at == at && (r.core.is_none() || r.core == core);
        state.refuse.iter().find(matching).map_or(Ok(()), |r| Err(refused(r.errno)))
    }

    /// The checks that `perf_event_open` makes on attributes.
    fn check_attr(&self, attr: &perf_event_attr) -> io::Result<()> {
        const INHERIT: usize = 1;
        const EXCLUDE_KERNEL: usize = 5;
        const INHERIT_THREAD: usize = 35;
        if attr.size != 112 {
            return Err(refused(libc::E2BIG));
        }
        if !flag(attr, EXCLUDE_KERNEL) {
            return Err(refused(libc::EACCES));
        }
        let threads = flag(attr, INHERIT_THREAD);
        let unknown = threads && (!flag(attr, INHERIT) || !self.rules.knows_inherit_thread);
        let config = attr.type_ == PT && attr.config & !self.rules.config != 0;
        if unknown || config { Err(refused(libc::EINVAL)) } else { Ok(()) }
    }

    fn locked(state: &KernelState) -> u64 {
        state.events.values().map(|e| e.mapped).sum()
    }
}

impl Kernel for FakeKernel {
    fn root(&self) -> &Path {
        self.root.path()
    }

    fn open(&self, attr: &perf_event_attr, thread: Thread, place: Place) -> io::Result<Event> {
        let core = match place {
            Place::Core(core) => Some(core),
            Place::Anywhere => None,
        };
        let mut state = self.state();
        let (at, call) = match (attr.type_, core, thread) {
            (PT, Some(core), Thread::Calling) => (RefusableCall::OpenPt, KernelCall::OpenPt(core)),
            (_, Some(core), Thread::Calling) => (RefusableCall::OpenSideband, KernelCall::OpenSideband(core)),
            (PT, Some(core), Thread::Of(tid)) => (RefusableCall::AttachPt, KernelCall::AttachPt(tid, core)),
            (_, Some(core), Thread::Of(tid)) => {
                (RefusableCall::AttachSideband, KernelCall::AttachSideband(tid, core))
            }
            (_, None, _) => (RefusableCall::Probe, KernelCall::Probe),
        };
        state.calls.push(call);
        Self::answer(&state, at, core)?;
        self.check_attr(attr)?;
        let thread = match thread {
            Thread::Calling => None,
            Thread::Of(tid) => {
                Self::threads_change(&mut state);
                if !state.threads.contains(&tid) {
                    return Err(refused(libc::ESRCH));
                }
                Some(tid)
            }
        };
        state.next += 1;
        let event = state.next;
        let opened = Opened {
            attr: *attr,
            core,
            thread,
            data: None,
            aux: None,
            output: None,
            enabled: false,
            mapped: 0,
        };
        state.events.insert(event, opened);
        Ok(event)
    }

    fn close(&self, event: Event) {
        let mut state = self.state();
        assert!(state.events.remove(&event).is_some(), "{event} is not open");
        state.calls.push(KernelCall::Close);
    }

    fn control(&self, event: Event, request: Control<'_>) -> io::Result<()> {
        if request == Control::Enable {
            let meanwhile = self.before_enable.lock().unwrap().take();
            meanwhile.into_iter().for_each(|what| what());
        }
        if request == Control::Disable {
            let time = *self.disable_takes.lock().unwrap();
            std::thread::sleep(time);
        }
        let mut state = self.state();
        let Some((core, pt)) = state.events.get(&event).map(|e| (e.core, e.attr.type_ == PT)) else {
            return Err(refused(libc::EBADF));
        };
        let at_core = core.unwrap_or(u32::MAX);
        let (at, call) = match request {
            Control::Enable => (Some(RefusableCall::Enable), KernelCall::Enable(at_core, pt)),
            Control::Disable => (None, KernelCall::Disable(at_core, pt)),
            Control::SetOutput(_) => (Some(RefusableCall::SetOutput), KernelCall::SetOutput(at_core)),
            Control::SetFilter(text) => {
                let text = text.to_str().unwrap().to_owned();
                let at =
                    if text.contains('@') { RefusableCall::FileFilter } else { RefusableCall::PlainFilter };
                (Some(at), KernelCall::SetFilter(at_core, text))
            }
        };
        state.calls.push(call);
        if let Some(at) = at {
            Self::answer(&state, at, core)?;
        }
        match request {
            Control::SetOutput(to) => {
                let target = state.events.get(&to).filter(|t| t.core == core && t.data.is_some());
                if target.is_none() || state.events[&event].data.is_some() {
                    return Err(refused(libc::EINVAL));
                }
                state.events.get_mut(&event).unwrap().output = Some(to);
            }
            Control::SetFilter(text)
                if !text.to_bytes().contains(&b'@') && !self.rules.knows_plain_filters =>
            {
                return Err(refused(libc::EINVAL));
            }
            Control::SetFilter(_) => {}
            Control::Enable | Control::Disable => {
                state.events.get_mut(&event).unwrap().enabled = matches!(request, Control::Enable);
            }
        }
        Ok(())
    }

    fn map(&self, event: Event, offset: u64, len: usize) -> io::Result<Block> {
        let mut state = self.state();
        let e = &state.events[&event];
        let (core, aux) = (e.core, offset != 0);
        if let Some(core) = core {
            state.calls.push(if aux { KernelCall::MapAux(core) } else { KernelCall::MapData(core) });
        }
        Self::answer(&state, if aux { RefusableCall::MapAux } else { RefusableCall::MapData }, core)?;
        let e = &state.events[&event];
        if aux {
            let announced =
                e.data.as_ref().map(|d| CoreMemory::announced_aux(&d.part(0, PAGE_SIZE).unwrap()));
            if announced != Some((offset, len as u64)) || !len.is_power_of_two() || e.attr.type_ != PT {
                return Err(refused(libc::EINVAL));
            }
        } else if len != PAGE_SIZE && !(len - PAGE_SIZE).is_power_of_two() {
            return Err(refused(libc::EINVAL));
        }
        if core.is_some() && Self::locked(&state) + len as u64 > self.rules.locked {
            return Err(refused(libc::EPERM));
        }
        let block = Block::anonymous(len).unwrap();
        if let (false, Some(time)) = (aux, self.rules.time) {
            time.write(&block);
        }
        let e = state.events.get_mut(&event).unwrap();
        e.mapped += len as u64;
        *(if aux { &mut e.aux } else { &mut e.data }) = Some(block.clone());
        Ok(block)
    }

    fn map_read_only(&self, event: Event, offset: u64, len: usize) -> io::Result<Block> {
        assert_ne!(offset, 0, "the control page must be writable");
        let block = self.map(event, offset, len)?;
        let mut state = self.state();
        let core = state.events[&event].core.unwrap();
        assert_eq!(state.calls.pop(), Some(KernelCall::MapAux(core)));
        state.calls.push(KernelCall::MapAuxReadOnly(core));
        Ok(block)
    }

    fn locked_memory_limit(&self) -> Option<u64> {
        Some(8 << 20)
    }

    fn open_files_limit(&self) -> Option<u64> {
        Some(self.rules.files)
    }

    fn this_thread(&self) -> u32 {
        OPENER
    }

    fn threads(&self) -> io::Result<Vec<u32>> {
        let mut all: Vec<u32> = self.state().threads.iter().copied().collect();
        all.push(OPENER);
        Ok(all)
    }

    fn moment(&self) -> Moment {
        Linux.moment()
    }
}

/// The body of a record of a switch to a core or from it.
pub fn switch(out: bool) -> Body {
    Body::Switch { out, preempted: false }
}
