// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Assigns each stretch to a machine: one machine per thread, with its sink.

use crate::batch::Batch;
use crate::machine::{Machine, Shared, StreamPlace};
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

/// One thread's machine with its sink.
pub(crate) struct Lane<'a> {
    machine: Machine<'a>,
    sink: Option<Box<dyn FlowSink + Send>>,
    info: ThreadInfo,
    pt_bytes: u64,
}

/// Passes the machine's events to its sink.
fn hand_on(machine: &mut Machine<'_>, sink: Option<&mut (dyn FlowSink + Send + 'static)>) {
    if machine.out.is_empty() {
        return;
    }
    if let Some(sink) = sink {
        sink.take(&mut machine.out);
    }
    machine.out.clear();
}

impl Lane<'_> {
    /// Takes a batch of the thread's `stretch`. A watcher of this thread sees the resulting
    /// events.
    pub(crate) fn take(&mut self, stretch: &Stretch, batch: &Batch, watcher: Option<&mut Watcher>) {
        let machine = &mut self.machine;
        machine.place = StreamPlace { core: stretch.core, offset: batch.offset };
        match watcher.filter(|w| w.wants(&self.info)) {
            None => {
                for item in &batch.items {
                    machine.item(item);
                    // One item may yield thousands of events.
                    if machine.out.len() >= MOST {
                        hand_on(machine, self.sink.as_deref_mut());
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
    pub(crate) fn blind(&mut self, blind: &Blind) {
        let known = |t: Tsc| Some(t).filter(|t| t.0 != 0 && t.0 != u64::MAX);
        self.machine.lose(Gap {
            reason: GapReason::Sideband,
            core: blind.core,
            offset: blind.offset,
            address: None,
            since: known(blind.since),
            until: known(blind.until),
            bytes: None,
            stack_lost: true,
        });
        self.flush();
    }
    /// Counts bytes of PT that were recorded for the thread.
    pub(crate) const fn add_bytes(&mut self, bytes: u64) {
        self.pt_bytes += bytes;
    }
    fn flush(&mut self) {
        hand_on(&mut self.machine, self.sink.as_deref_mut());
    }
    fn end(mut self) -> ThreadSummary {
        self.machine.finish();
        self.flush();
        if let Some(sink) = self.sink.take() {
            sink.end();
        }
        ThreadSummary { info: self.info, counters: self.machine.counters, pt_bytes: self.pt_bytes }
    }
}

/// The machines of all threads.
pub(crate) struct Lanes<'a, 'c> {
    shared: &'a Shared<'a>,
    only: Option<&'c [(Tid, Tsc)]>,
    consumer: &'c mut dyn FlowConsumer,
    /// By OS thread id and start, because the OS reuses ids.
    open: HashMap<(u32, u64), Lane<'a>>,
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
        Self { shared, only, consumer, open: HashMap::new(), closed: HashMap::new() }
    }
    /// Whether the consumer needs no more events.
    pub(crate) fn have_enough(&self) -> bool {
        self.consumer.has_enough()
    }
    /// The lane of the stretch's thread. If two Java threads used one OS thread in turn (`main`
    /// and `DestroyJavaVM`), a stretch in which both ran goes to the first.
    pub(crate) fn of(&mut self, stretch: &Stretch) -> &mut Lane<'a> {
        let free = self.closed.insert(stretch.core.0, stretch.closed).unwrap_or(Tsc(0));
        let since = free.max(stretch.switched_in.unwrap_or(Tsc(0)));
        let threads = &self.shared.image.threads;
        let mut info =
            info(threads, stretch.tid, time_of_thread(threads, stretch.tid, since, stretch.closed));
        if let Some(unfinished) = self.unfinished_before(&info) {
            info = unfinished;
        }
        self.lane(info)
    }
    /// The lane of the thread that had `tid` at time `tsc`.
    pub(crate) fn at(&mut self, tid: Tid, tsc: Tsc) -> &mut Lane<'a> {
        self.lane(info(&self.shared.image.threads, tid, tsc))
    }
    fn lane(&mut self, info: ThreadInfo) -> &mut Lane<'a> {
        let key = (info.tid.0, info.started.0);
        let (shared, only, consumer) = (self.shared, self.only, &mut *self.consumer);
        self.open.entry(key).or_insert_with(|| {
            let wanted = only.is_none_or(|them| them.contains(&(info.tid, info.started)));
            let sink = wanted.then(|| consumer.thread(&info));
            let mut machine = Machine::new(shared);
            machine.runs = consumer.takes_runs();
            Lane { machine, sink, info, pt_bytes: 0 }
        })
    }
    /// The thread that used the OS thread before `info`'s, if `info`'s thread has not run yet
    /// and the earlier one still has open frames. A thread ends only when all its frames have
    /// returned, whatever the times say.
    fn unfinished_before(&self, info: &ThreadInfo) -> Option<ThreadInfo> {
        if self.open.contains_key(&(info.tid.0, info.started.0)) {
            return None;
        }
        let earlier = Tsc(info.started.0.checked_sub(1)?);
        let span = self.shared.image.threads.at(info.tid, earlier).filter(|s| s.started < info.started)?;
        let lane = self.open.get(&(info.tid.0, span.started.0))?;
        (!lane.machine.stack.is_empty()).then(|| lane.info.clone())
    }
    /// Ends all flows, in order of the threads' start, which is also the order of the
    /// summaries.
    pub(crate) fn end(self) -> Vec<ThreadSummary> {
        let mut lanes: Vec<Lane<'_>> = self.open.into_values().collect();
        lanes.sort_by_key(|lane| (lane.info.started, lane.info.tid));
        lanes.into_iter().map(Lane::end).collect()
    }
}

/// A time at which the thread that began the activity between `since` and `closed` was alive.
fn time_of_thread(threads: &Threads, tid: Tid, since: Tsc, closed: Tsc) -> Tsc {
    let began_inside = threads.at(tid, closed).is_some_and(|span| span.started > since);
    let before = threads.at(tid, since).filter(|span| span.exited.is_none_or(|e| e >= since));
    if began_inside && before.is_some() { since } else { closed }
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
    use crate::driver::Positions;
    use crate::frame::Frame;
    use crate::testing::NoCode;
    use jportal_capture::codec::Str;
    use jportal_capture::schema::{Record, Stamped, ThreadExited, ThreadStarted};
    use jportal_flow::Event;
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
            lanes.of(&stretch).info.name.clone()
        });
        let names = names.collect();
        lanes.end();
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
        lanes.of(&stretch(110)).machine.stack.push(open);
        // By time, the next stretch belongs to `DestroyJavaVM` entirely.
        let lane = lanes.of(&stretch(150));
        assert_eq!(lane.info.name, "main");
        lane.machine.stack.clear();
        let lane = lanes.of(&stretch(160));
        assert_eq!(lane.info.name, "DestroyJavaVM");
        // A thread that has begun stays.
        assert_eq!(lanes.of(&stretch(170)).info.name, "DestroyJavaVM");
    }

    #[test]
    fn flows_end_in_order_of_start() {
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
        let image = image();
        let history = CodeHistory::new(AddressRange::at(Address(0x1000), 0x1000)).unwrap();
        let shared = Shared::new(&image, &history, Positions::Markers, false);
        let mut ends = EndOrder::default();
        let mut lanes = Lanes::new(&shared, None, &mut ends);
        // The start of a thread that the VM did not report is not known.
        for tid in [9, MAIN, 35, 31, 38, 33, 30, 37, 32, 36, 39, 34] {
            lanes.at(Tid(tid), Tsc(50));
        }
        let summaries = lanes.end();
        let expected = [30, 31, 32, 33, 34, 35, 36, 37, 38, 39, MAIN, 9];
        assert_eq!(*ends.0.lock().unwrap(), expected);
        assert_eq!(summaries.iter().map(|s| s.info.tid.0).collect::<Vec<_>>(), expected);
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
