// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Assigns each stretch to a lane: one machine with its sink per thread.

use crate::automaton::Automaton;
use crate::batch::Batch;
use crate::crew::{Crew, LaneWork};
use crate::machine::{Machine, Shared, StreamPlace, ThreadCounters};
use crate::needs::Needs;
use crate::states::{StateObservers, States};
use crate::stretches::{Blind, Stretch};
use crate::summary::ThreadSummary;
use crate::watch::Watcher;
use hashbrown::HashMap;
use jportal_flow::{FlowConsumer, FlowSink, Gap, GapReason, ThreadInfo};
use jportal_units::{Tid, Tsc};
use jportal_vm_image::Threads;

/// The number of events passed to a sink at once.
const FLUSH: usize = 2048;
/// The number of events that may wait for the end of a batch.
const MOST: usize = 1 << 16;

/// One thread's flow, and what is left of it after its end.
pub(crate) struct Lane<'a> {
    info: ThreadInfo,
    /// `None` after its end.
    flow: Option<Box<LaneFlow<'a>>>,
    /// The machine's counters at the end.
    counters: ThreadCounters,
}

/// One thread's machine with its sink.
struct LaneFlow<'a> {
    machine: Machine<'a>,
    sink: Option<Box<dyn FlowSink + Send>>,
    info: ThreadInfo,
    /// Its sink has enough. Who else needs to know it.
    enough: bool,
    needs: Option<&'a Needs>,
    /// Work was left out since the last work.
    cut: bool,
}

/// Passes the machine's events to its sink.
fn hand_on(machine: &mut Machine<'_>, sink: Option<&mut (dyn FlowSink + Send + 'static)>) {
    if machine.out.is_empty() {
        return;
    }
    if let Some(states) = &mut machine.states {
        states.pass_on(machine.out.len());
    }
    if let Some(sink) = sink {
        sink.take(&mut machine.out);
    }
    machine.out.clear();
}

impl Lane<'_> {
    /// Does the next work. The machine uses the automaton for it. A watcher of this thread sees the
    /// resulting events.
    pub(crate) fn work(
        &mut self,
        work: &LaneWork,
        automaton: &mut Box<Automaton>,
        watcher: Option<&mut Watcher>,
    ) {
        match (work, &mut self.flow) {
            (LaneWork::End, _) => self.end_flow(),
            (_, Some(flow)) => flow.work(work, automaton, watcher),
            (_, None) => debug_assert!(false, "work after the end"),
        }
    }
    /// Whether the thread has open frames.
    pub(crate) fn has_open_frames(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| !flow.machine.stack.is_empty())
    }
    fn end_flow(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.counters = flow.end();
        }
    }
    /// Ends the flow unless it has ended. `pt_bytes`: the bytes of PT that were recorded for the
    /// thread.
    fn end(mut self, pt_bytes: u64) -> ThreadSummary {
        self.end_flow();
        ThreadSummary { info: self.info, counters: self.counters, pt_bytes }
    }
}

impl LaneFlow<'_> {
    fn work(&mut self, work: &LaneWork, automaton: &mut Box<Automaton>, watcher: Option<&mut Watcher>) {
        std::mem::swap(&mut self.machine.automaton, automaton);
        match work {
            LaneWork::Batch(stretch, batch) if batch.skipped => self.skip(stretch),
            LaneWork::Batch(stretch, batch) => self.take(stretch, batch, watcher),
            LaneWork::Blind(blind) => self.blind(blind),
            LaneWork::End => {}
        }
        // States have no meaning without their automaton.
        self.machine.unfold();
        std::mem::swap(&mut self.machine.automaton, automaton);
    }
    /// A stretch was left out, because the sink has enough or because of its time: which frames are
    /// open is not known.
    fn skip(&mut self, stretch: &Stretch) {
        if !std::mem::replace(&mut self.cut, true) {
            self.lose(Gap {
                reason: GapReason::LeftOut,
                core: stretch.core,
                offset: stretch.from,
                address: None,
                since: Some(self.machine.now).filter(|now| now.0 != 0),
                until: None,
                bytes: None,
                stack_lost: true,
            });
        }
    }
    fn take(&mut self, stretch: &Stretch, batch: &Batch, watcher: Option<&mut Watcher>) {
        self.cut = false;
        let machine = &mut self.machine;
        machine.place = StreamPlace { core: stretch.core, offset: batch.offset };
        match watcher.filter(|w| w.wants(&self.info)) {
            None => {
                for item in &batch.items {
                    machine.item(item);
                    // One item may yield thousands of events.
                    if machine.out.len() >= MOST {
                        hand_on(machine, self.sink.as_deref_mut().filter(|_| !self.enough));
                    }
                }
            }
            Some(watcher) => {
                for item in &batch.items {
                    let before = machine.out.len();
                    machine.item(item);
                    watcher.step(machine.place, machine.now, item, &machine.out[before..]);
                }
            }
        }
        if self.machine.out.len() >= FLUSH || batch.last {
            self.flush();
        }
    }
    /// The thread may have run where records are missing.
    fn blind(&mut self, blind: &Blind) {
        let known = |t: Tsc| Some(t).filter(|t| t.0 != 0 && t.0 != u64::MAX);
        self.lose(Gap {
            reason: GapReason::Sideband,
            core: blind.core,
            offset: blind.offset,
            address: None,
            since: known(blind.since),
            until: known(blind.until),
            bytes: None,
            stack_lost: true,
        });
    }
    fn lose(&mut self, gap: Gap) {
        self.machine.lose(gap);
        self.flush();
    }
    fn flush(&mut self) {
        hand_on(&mut self.machine, self.sink.as_deref_mut().filter(|_| !self.enough));
        if let Some(needs) = self.needs.filter(|_| !self.enough)
            && self.sink.as_ref().is_some_and(|sink| sink.has_enough())
        {
            self.enough = true;
            needs.has_enough(self.info.tid, self.info.started);
        }
    }
    fn end(mut self) -> ThreadCounters {
        self.machine.finish();
        self.flush();
        if let Some(states) = self.machine.states.take() {
            states.end();
        }
        if let Some(sink) = self.sink.take() {
            sink.end();
        }
        self.machine.counters
    }
}

/// A lane as the driver knows it.
struct LaneFacts {
    pt_bytes: u64,
    /// The consumer sees the lane's events.
    selected: bool,
    /// The lane's events are needed, or tell whether the thread has open frames when another
    /// thread takes its OS thread.
    needed: bool,
}

/// The lanes of all threads. A crew runs them.
pub(crate) struct Lanes<'a, 'c> {
    shared: &'a Shared<'a>,
    only: Option<&'c [(Tid, Tsc)]>,
    consumer: &'c mut dyn FlowConsumer,
    observers: Option<&'c dyn StateObservers>,
    needs: Option<&'a Needs>,
    known: Vec<LaneFacts>,
    /// The numbers of the lanes by OS thread id and start, because the OS reuses ids.
    numbers: HashMap<(u32, u64), usize>,
    /// The numbers of the lanes that have not ended, by OS thread id.
    open: HashMap<u32, Vec<usize>>,
    /// When each core's last stretch was closed.
    closed: HashMap<u32, Tsc>,
}

impl<'a, 'c> Lanes<'a, 'c> {
    /// Lanes without any thread. The consumer sees the threads in `only`, or all.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        only: Option<&'c [(Tid, Tsc)]>,
        consumer: &'c mut dyn FlowConsumer,
    ) -> Self {
        let (known, numbers, open, closed) = Default::default();
        Self { shared, only, consumer, observers: None, needs: None, known, numbers, open, closed }
    }
    /// The same, with observers of the compiled code of the consumer's threads.
    pub(crate) fn observed_by(self, observers: Option<&'c dyn StateObservers>) -> Self {
        Self { observers, ..self }
    }
    /// The same. The lanes whose sinks have enough report it.
    pub(crate) fn reporting_to(self, needs: Option<&'a Needs>) -> Self {
        Self { needs, ..self }
    }
    /// What the lanes still need, if somebody wants to know.
    pub(crate) const fn needs(&self) -> Option<&'a Needs> {
        self.needs
    }
    /// Whether the consumer needs no more events.
    pub(crate) fn have_enough(&self) -> bool {
        self.consumer.has_enough()
    }
    /// The lane of the stretch's thread. If two Java threads used one OS thread in turn (`main`
    /// and `DestroyJavaVM`), a stretch in which both ran goes to the first.
    pub(crate) fn of(&mut self, stretch: &Stretch, crew: &mut impl Crew<'a>) -> usize {
        let free = self.closed.insert(stretch.core.0, stretch.closed).unwrap_or(Tsc(0));
        let since = free.max(stretch.switched_in.unwrap_or(Tsc(0)));
        let threads = &self.shared.image.threads;
        let time = time_of_thread(threads, stretch.tid, since, stretch.closed);
        if let Some(&lane) = self.numbers.get(&key(threads, stretch.tid, time)) {
            return lane;
        }
        let info = info(threads, stretch.tid, time);
        match self.unfinished_before(&info, crew) {
            Some(lane) => lane,
            None => self.lane(info, crew),
        }
    }
    /// The lane of the thread that had `tid` at time `tsc`.
    pub(crate) fn at(&mut self, tid: Tid, tsc: Tsc, crew: &mut impl Crew<'a>) -> usize {
        self.lane(info(&self.shared.image.threads, tid, tsc), crew)
    }
    /// Gives a lane its next work, unless nothing needs its events.
    pub(crate) fn give(&self, lane: usize, work: LaneWork, crew: &mut impl Crew<'a>) {
        if self.known[lane].needed {
            crew.give(lane, work);
        }
    }
    /// Ends the lanes of all threads that used an OS thread. They get no work after this. What a
    /// lane keeps then does not depend on its trace, nor on the program.
    pub(crate) fn end_all_of(&mut self, tid: Tid, crew: &mut impl Crew<'a>) {
        for lane in self.open.remove(&tid.0).into_iter().flatten() {
            crew.give(lane, LaneWork::End);
        }
    }
    /// Whether the consumer sees the lane's events.
    pub(crate) fn is_selected(&self, lane: usize) -> bool {
        self.known[lane].selected
    }
    /// Counts bytes of PT that were recorded for the lane's thread.
    pub(crate) fn add_bytes(&mut self, lane: usize, bytes: u64) {
        self.known[lane].pt_bytes += bytes;
    }
    fn lane(&mut self, info: ThreadInfo, crew: &mut impl Crew<'a>) -> usize {
        let number = *self.numbers.entry((info.tid.0, info.started.0)).or_insert(self.known.len());
        if number == self.known.len() {
            let wanted = self.only.is_none_or(|them| them.contains(&(info.tid, info.started)));
            let sink = wanted.then(|| self.consumer.thread(&info));
            let mut machine = Machine::new(self.shared);
            machine.runs = self.consumer.takes_runs();
            machine.codes = self.consumer.takes_code();
            let observers = self.observers.filter(|_| wanted);
            machine.states = observers.map(|o| Box::new(States::new(o.thread(&info))));
            // The automaton keeps neither what code runs nor the states that observers ask for.
            machine.automatic &= !machine.codes && machine.states.is_none();
            let needed = self.only.is_none_or(|them| them.iter().any(|(tid, _)| *tid == info.tid));
            self.known.push(LaneFacts { pt_bytes: 0, selected: wanted, needed });
            self.open.entry(info.tid.0).or_default().push(number);
            // The flow of a thread that runs no bytecodes stays empty.
            let enough = self.needs.is_some_and(|needs| needs.is_vm_thread(info.tid));
            let (thread, needs) = (info.clone(), self.needs);
            let flow = LaneFlow { machine, sink, info: thread, enough, needs, cut: false };
            crew.add(Lane { info, flow: Some(Box::new(flow)), counters: ThreadCounters::default() });
        }
        number
    }
    /// The lane of the thread that used the OS thread before `info`'s, if the earlier one still
    /// has open frames. A thread ends only when all its frames have returned, whatever the times
    /// say. `info`'s thread has not run yet.
    fn unfinished_before(&self, info: &ThreadInfo, crew: &mut impl Crew<'a>) -> Option<usize> {
        let earlier = Tsc(info.started.0.checked_sub(1)?);
        let span = self.shared.image.threads.at(info.tid, earlier).filter(|s| s.started < info.started)?;
        let lane = *self.numbers.get(&(info.tid.0, span.started.0))?;
        crew.has_open_frames(lane).then_some(lane)
    }
    /// Ends the flows that have not ended, in order of the threads' start, which is also the order
    /// of the summaries.
    pub(crate) fn end(self, crew: &mut impl Crew<'a>) -> Vec<ThreadSummary> {
        let mut all: Vec<(Lane<'_>, u64)> =
            crew.finish().into_iter().zip(self.known.iter().map(|k| k.pt_bytes)).collect();
        all.sort_by_key(|(lane, _)| (lane.info.started, lane.info.tid));
        all.into_iter().map(|(lane, pt_bytes)| lane.end(pt_bytes)).collect()
    }
}

/// A time at which the thread that began the activity between `since` and `closed` was alive.
fn time_of_thread(threads: &Threads, tid: Tid, since: Tsc, closed: Tsc) -> Tsc {
    let began_inside = threads.at(tid, closed).is_some_and(|span| span.started > since);
    let before = threads.at(tid, since).filter(|span| span.exited.is_none_or(|e| e >= since));
    if began_inside && before.is_some() { since } else { closed }
}

/// Identifies the thread that had `tid` at a time: its id and its start.
fn key(threads: &Threads, tid: Tid, when: Tsc) -> (u32, u64) {
    (tid.0, threads.at(tid, when).map_or(0, |span| span.started.0))
}

fn info(threads: &Threads, tid: Tid, when: Tsc) -> ThreadInfo {
    match threads.at(tid, when) {
        Some(span) => {
            ThreadInfo { tid, java_tid: span.java_tid, name: span.name.clone(), started: span.started }
        }
        None => ThreadInfo { tid, java_tid: 0, name: String::new(), started: Tsc(0) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::{Alone, Pool, Workers};
    use crate::driver::Positions;
    use crate::frame::Frame;
    use crate::testing::NoCode;
    use jportal_capture::codec::Str;
    use jportal_capture::schema::{Record, Stamped, ThreadExited, ThreadStarted};
    use jportal_flow::{Event, EventKind};
    use jportal_machine_flow::CodeHistory;
    use jportal_units::{Address, AddressRange, Core, StreamOffset};
    use jportal_vm_image::{Builder, VmImage};
    use std::sync::{Arc, Mutex};

    const MAIN: u32 = 7;

    /// `main` lives from 10 to 100. `DestroyJavaVM` follows it on the same OS thread from 120
    /// to 200. `other` lives from 30 on.
    fn image() -> VmImage {
        let mut b = Builder::default();
        let mut put = |tsc, record| b.record(Stamped { tsc, record }, &mut NoCode);
        let started = |tid, java_tid, name: &str| {
            Record::ThreadStarted(ThreadStarted {
                tid,
                java_tid,
                name: Str::from(name),
                ..Default::default()
            })
        };
        let exited = |tid| Record::ThreadExited(ThreadExited { tid, ..Default::default() });
        put(10, started(MAIN, 1, "main"));
        put(30, started(9, 2, "other"));
        put(100, exited(MAIN));
        put(120, started(MAIN, 3, "DestroyJavaVM"));
        put(200, exited(MAIN));
        b.finish()
    }

    #[derive(Default)]
    struct ThreadNames(Vec<String>);
    struct Nothing;
    impl FlowSink for Nothing {
        fn events(&mut self, _: &[Event]) {}
        fn end(self: Box<Self>) {}
    }
    impl FlowConsumer for ThreadNames {
        fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
            self.0.push(info.name.clone());
            Box::new(Nothing)
        }
    }

    /// The names of the threads that get the stretches (core, thread, end time), in turn, and
    /// the names of the threads that the consumer saw.
    fn turns(stretches: &[(u32, u32, u64)], only: Option<&[(Tid, Tsc)]>) -> (Vec<String>, Vec<String>) {
        let all: Vec<_> = stretches.iter().map(|&(core, tid, closed)| (core, tid, None, closed)).collect();
        turns_between(&all, only)
    }

    /// The same for stretches whose start may be known: (core, thread, start time, end time).
    fn turns_between(
        stretches: &[(u32, u32, Option<u64>, u64)],
        only: Option<&[(Tid, Tsc)]>,
    ) -> (Vec<String>, Vec<String>) {
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut seen = ThreadNames::default();
        let mut lanes = Lanes::new(&shared, only, &mut seen);
        let mut crew = Alone::new(HashMap::new(), None);
        let names = stretches.iter().map(|&(core, tid, since, closed)| {
            let at = StreamOffset(0);
            let (core, tid, closed) = (Core(core), Tid(tid), Tsc(closed));
            let stretch = Stretch {
                core,
                tid,
                from: at,
                to: at,
                closed,
                switched_in: since.map(Tsc),
                truncated: false,
                came: None,
                blind: None,
            };
            let lane = lanes.of(&stretch, &mut crew);
            crew.lane_mut(lane).info.name.clone()
        });
        let names = names.collect();
        lanes.end(&mut crew);
        (names, seen.0)
    }

    #[test]
    fn two_threads_of_one_os_thread() {
        // Each in stretches of its own.
        assert_eq!(
            turns(&[(0, MAIN, 90), (0, MAIN, 110), (0, MAIN, 150)], None).0,
            ["main", "main", "DestroyJavaVM"]
        );
        // Both in one stretch: it belongs to the first.
        assert_eq!(
            turns(&[(0, MAIN, 90), (0, MAIN, 150), (0, MAIN, 190)], None).0,
            ["main", "main", "DestroyJavaVM"]
        );
        // Another thread had the core until `main` ended.
        assert_eq!(
            turns(&[(0, MAIN, 90), (0, 9, 110), (0, MAIN, 150)], None).0,
            ["main", "other", "DestroyJavaVM"]
        );
        // The switch to the core came later, whichever thread had it before.
        let later = [(0, MAIN, None, 90), (0, MAIN, Some(130), 150)];
        assert_eq!(turns_between(&later, None).0, ["main", "DestroyJavaVM"]);
        // Another core's activity at that time says nothing.
        assert_eq!(turns(&[(0, MAIN, 90), (1, 9, 110), (0, MAIN, 150)], None).0, ["main", "other", "main"]);
    }

    #[test]
    fn a_thread_with_open_frames_has_not_ended() {
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut seen = ThreadNames::default();
        let mut lanes = Lanes::new(&shared, None, &mut seen);
        let mut crew = Alone::new(HashMap::new(), None);
        let at = StreamOffset(0);
        let stretch = |closed| Stretch {
            core: Core(0),
            tid: Tid(MAIN),
            from: at,
            to: at,
            closed: Tsc(closed),
            switched_in: None,
            truncated: false,
            came: None,
            blind: None,
        };
        let open = Frame::Upcall { outcome: Default::default(), throwing: false };
        let first = lanes.of(&stretch(110), &mut crew);
        crew.lane_mut(first).flow.as_mut().unwrap().machine.stack.push(open);
        // By time, the next stretch belongs to `DestroyJavaVM` entirely.
        assert_eq!(lanes.of(&stretch(150), &mut crew), first);
        assert_eq!(crew.lane_mut(first).info.name, "main");
        crew.lane_mut(first).flow.as_mut().unwrap().machine.stack.clear();
        let second = lanes.of(&stretch(160), &mut crew);
        assert_eq!(crew.lane_mut(second).info.name, "DestroyJavaVM");
        // A thread that has begun stays.
        assert_eq!(lanes.of(&stretch(170), &mut crew), second);
    }

    /// Notes the threads whose flows have ended.
    #[derive(Default)]
    struct EndOrder(Arc<Mutex<Vec<u32>>>);
    struct EndRecorder(u32, Arc<Mutex<Vec<u32>>>);
    impl FlowSink for EndRecorder {
        fn events(&mut self, _: &[Event]) {}
        fn end(self: Box<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    impl FlowConsumer for EndOrder {
        fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
            Box::new(EndRecorder(info.tid.0, Arc::clone(&self.0)))
        }
    }

    #[test]
    fn flows_end_in_order_of_start() {
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut ends = EndOrder::default();
        let mut lanes = Lanes::new(&shared, None, &mut ends);
        let mut crew = Alone::new(HashMap::new(), None);
        // The start of a thread that the VM did not report is not known.
        for tid in [9, MAIN, 35, 31, 38, 33, 30, 37, 32, 36, 39, 34] {
            lanes.at(Tid(tid), Tsc(50), &mut crew);
        }
        let summaries = lanes.end(&mut crew);
        let expected = [30, 31, 32, 33, 34, 35, 36, 37, 38, 39, MAIN, 9];
        assert_eq!(*ends.0.lock().unwrap(), expected);
        assert_eq!(summaries.iter().map(|s| s.info.tid.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_flow_ends_with_the_last_work_of_its_os_thread() {
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut ends = EndOrder::default();
        let ended = Arc::clone(&ends.0);
        let mut lanes = Lanes::new(&shared, None, &mut ends);
        let workers = Workers::new(Vec::new());
        std::thread::scope(|scope| {
            let mut pool = Pool(&workers);
            scope.spawn(|| workers.run());
            // Two threads that used one OS thread, and another one.
            let [main, other, next] =
                [(MAIN, 50), (9, 50), (MAIN, 150)].map(|(tid, at)| lanes.at(Tid(tid), Tsc(at), &mut pool));
            lanes.add_bytes(main, 5);
            for (lane, offset) in [(main, 1), (other, 2), (next, 3)] {
                lanes.give(lane, blind(offset), &mut pool);
            }
            lanes.end_all_of(Tid(MAIN), &mut pool);
            // The answer comes when all work before it is done.
            assert!(!pool.has_open_frames(main) && !pool.has_open_frames(next));
            let mut early = ended.lock().unwrap().clone();
            early.sort_unstable();
            assert_eq!(early, [MAIN, MAIN]);
            lanes.give(other, blind(4), &mut pool);
            let summaries = lanes.end(&mut pool);
            let all = summaries.iter().map(|s| (s.info.name.as_str(), s.pt_bytes));
            let expected = [("main", 5), ("other", 0), ("DestroyJavaVM", 0)];
            assert_eq!(all.collect::<Vec<_>>(), expected);
        });
        assert_eq!(ended.lock().unwrap().last(), Some(&9));
        // The machine has gone, its counters stay.
        let mut lanes = Lanes::new(&shared, None, &mut ends);
        let mut crew = Alone::new(HashMap::new(), None);
        let lane = lanes.at(Tid(9), Tsc(50), &mut crew);
        crew.lane_mut(lane).flow.as_mut().unwrap().machine.counters.blocks = 3;
        lanes.end_all_of(Tid(9), &mut crew);
        assert!(crew.lane_mut(lane).flow.is_none());
        assert_eq!(lanes.end(&mut crew)[0].counters.blocks, 3);
    }

    /// A loss of records on a core, which becomes a gap.
    fn blind(offset: u64) -> LaneWork {
        let (since, until) = (Tsc(20), Tsc(30));
        LaneWork::Blind(Blind { core: Core(0), offset: StreamOffset(offset), since, until })
    }

    /// Runs `decode` with lanes whose sinks panic at the gap with offset `panics`. Returns the
    /// offsets of the gaps of each thread.
    fn in_pool(
        panics: u64,
        workers: usize,
        decode: impl for<'a> FnOnce(&mut Lanes<'a, '_>, &mut Pool<'_, 'a>),
    ) -> HashMap<u32, Vec<u64>> {
        #[derive(Default)]
        struct Gaps(Arc<Mutex<HashMap<u32, Vec<u64>>>>, u64);
        struct Notes(u32, Arc<Mutex<HashMap<u32, Vec<u64>>>>, u64);
        impl FlowSink for Notes {
            fn events(&mut self, events: &[Event]) {
                for e in events {
                    let EventKind::Gap(gap) = &e.kind else { continue };
                    assert_ne!(gap.offset.0, self.2, "a sink that panics");
                    self.1.lock().unwrap().entry(self.0).or_default().push(gap.offset.0);
                }
            }
            fn end(self: Box<Self>) {}
        }
        impl FlowConsumer for Gaps {
            fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
                Box::new(Notes(info.tid.0, Arc::clone(&self.0), self.1))
            }
        }
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut gaps = Gaps(Arc::default(), panics);
        let all = Arc::clone(&gaps.0);
        let mut lanes = Lanes::new(&shared, None, &mut gaps);
        let crew = Workers::new(Vec::new());
        std::thread::scope(|scope| {
            let mut pool = Pool(&crew);
            for _ in 0..workers {
                scope.spawn(|| crew.run());
            }
            decode(&mut lanes, &mut pool);
            lanes.end(&mut pool);
        });
        all.lock().unwrap().clone()
    }

    #[test]
    fn each_lane_of_a_pool_works_in_order() {
        for workers in [1, 3, 16] {
            let all = in_pool(u64::MAX, workers, |lanes, pool| {
                for offset in 0..2000 {
                    let lane = lanes.at(Tid(9 + offset as u32 % 7), Tsc(50), pool);
                    lanes.give(lane, blind(offset), pool);
                }
            });
            let expected = (0..7u64).map(|n| (9 + n as u32, (0..2000).filter(|o| o % 7 == n).collect()));
            assert_eq!(all, expected.collect(), "{workers}");
        }
    }

    #[test]
    fn a_panic_in_a_pool_is_passed_on() {
        let failed = std::panic::catch_unwind(|| {
            in_pool(1500, 2, |lanes, pool| {
                let lane = lanes.at(Tid(9), Tsc(50), pool);
                // More work than may be pending: nobody waits for a worker that has gone.
                (0..1 << 21).for_each(|offset| lanes.give(lane, blind(offset), pool));
            })
        });
        let panic = failed.unwrap_err();
        assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("a sink that panics")));
    }

    #[test]
    fn each_thread_has_one_lane_and_the_consumer_those_it_wants() {
        let stretches =
            [(0, MAIN, 50), (1, 9, 60), (0, MAIN, 90), (0, MAIN, 150), (1, 9, 160), (0, MAIN, 170)];
        assert_eq!(turns(&stretches, None).1, ["main", "other", "DestroyJavaVM"]);
        assert_eq!(turns(&stretches, Some(&[(Tid(9), Tsc(30))])).1, ["other"]);
        // Of two threads with the same id, only the wanted one.
        assert_eq!(turns(&stretches, Some(&[(Tid(MAIN), Tsc(10))])).1, ["main"]);
        // A thread that the VM did not report.
        assert_eq!(turns(&[(0, 77, 20)], None).1, [""]);
    }
}
