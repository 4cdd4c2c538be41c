// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Analyses: questions about a flow, thread by thread, with one answer.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use crate::{Event, FlowConsumer, FlowSink, ThreadInfo};

/// Why an analysis needs no more events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enough {
    /// It has all that it needs of this thread.
    OfThread,
    /// It has all that it needs. The decode may end early.
    OfAll,
}

/// A question about the flows of all threads.
///
/// The flow of each thread has a state of its own. The driver may run the flows of several
/// threads at the same time, so the states share nothing but `&self`. When the decode has ended,
/// the states are merged, in order of the threads' start. An analysis whose states may be merged
/// in any order [says so](Analysis::merges_in_any_order), and gets each state as soon as its thread
/// has ended. Its memory then grows with the threads that live at the same time.
///
/// An analysis sees no files and no threads of the operating system.
///
/// ```
/// use jportal_flow::{Analysis, Enough, Event, ThreadInfo, run};
/// use std::ops::ControlFlow;
///
/// /// Counts the executed bytecodes of all threads.
/// #[derive(Default)]
/// struct Bytecodes(u64);
///
/// impl Analysis for Bytecodes {
///     type Thread = u64;
///     fn begin(&self, _: &ThreadInfo) -> u64 {
///         0
///     }
///     fn events(&self, count: &mut u64, events: &[Event]) -> ControlFlow<Enough> {
///         *count += events.iter().map(|e| e.kind.bytecodes()).sum::<u64>();
///         ControlFlow::Continue(())
///     }
///     fn merge(&mut self, count: u64) {
///         self.0 += count;
///     }
/// }
///
/// let (counted, ()) = run(Bytecodes::default(), |_consumer| {});
/// assert_eq!(counted.0, 0);
/// ```
pub trait Analysis: Send + Sync + 'static {
    /// The state of one thread's flow.
    type Thread: Send + 'static;

    /// A thread's flow begins.
    fn begin(&self, thread: &ThreadInfo) -> Self::Thread;

    /// The next events of a thread, in order. After a `Break`, the thread's flow is not passed
    /// on any further.
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough>;

    /// A thread's flow is complete, or the analysis had enough of it.
    fn merge(&mut self, thread: Self::Thread);

    /// Whether events may be [runs](crate::EventKind::Run) of bytecodes. An analysis that
    /// returns `false` gets every bytecode as an event of its own.
    fn takes_runs(&self) -> bool {
        true
    }

    /// Whether the analysis needs [steps of code](crate::EventKind::Code). One that does not
    /// may receive them if it runs beside one that does.
    fn takes_code(&self) -> bool {
        false
    }

    /// Whether the answer does not depend on the order in which states are merged, as with sums.
    fn merges_in_any_order(&self) -> bool {
        false
    }
}

/// The state of an analysis for one thread, with what it said last.
#[derive(Debug)]
pub struct Member<T> {
    state: T,
    enough: Option<Enough>,
}

fn begin<A: Analysis>(analysis: &A, thread: &ThreadInfo) -> Member<A::Thread> {
    Member { state: analysis.begin(thread), enough: None }
}

fn pass<A: Analysis>(analysis: &A, member: &mut Member<A::Thread>, events: &[Event]) {
    if member.enough.is_none()
        && let ControlFlow::Break(enough) = analysis.events(&mut member.state, events)
    {
        member.enough = Some(enough);
    }
}

/// Two analyses of the same flow. They need no more events when neither does.
impl<A: Analysis, B: Analysis> Analysis for (A, B) {
    type Thread = (Member<A::Thread>, Member<B::Thread>);

    fn begin(&self, thread: &ThreadInfo) -> Self::Thread {
        (begin(&self.0, thread), begin(&self.1, thread))
    }
    fn events(&self, (a, b): &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        pass(&self.0, a, events);
        pass(&self.1, b, events);
        match (a.enough, b.enough) {
            (None, _) | (_, None) => ControlFlow::Continue(()),
            (Some(Enough::OfAll), Some(Enough::OfAll)) => ControlFlow::Break(Enough::OfAll),
            _ => ControlFlow::Break(Enough::OfThread),
        }
    }
    fn merge(&mut self, (a, b): Self::Thread) {
        self.0.merge(a.state);
        self.1.merge(b.state);
    }
    fn takes_runs(&self) -> bool {
        self.0.takes_runs() && self.1.takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.0.takes_code() || self.1.takes_code()
    }
    fn merges_in_any_order(&self) -> bool {
        self.0.merges_in_any_order() && self.1.merges_in_any_order()
    }
}

/// An analysis that may be absent. The absent one needs no events.
impl<A: Analysis> Analysis for Option<A> {
    type Thread = Option<A::Thread>;

    fn begin(&self, thread: &ThreadInfo) -> Self::Thread {
        self.as_ref().map(|a| a.begin(thread))
    }
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        match (self, thread) {
            (Some(analysis), Some(state)) => analysis.events(state, events),
            _ => ControlFlow::Break(Enough::OfAll),
        }
    }
    fn merge(&mut self, thread: Self::Thread) {
        if let (Some(analysis), Some(state)) = (self, thread) {
            analysis.merge(state);
        }
    }
    fn takes_runs(&self) -> bool {
        self.as_ref().is_none_or(Analysis::takes_runs)
    }
    fn takes_code(&self) -> bool {
        self.as_ref().is_some_and(Analysis::takes_code)
    }
    fn merges_in_any_order(&self) -> bool {
        self.as_ref().is_none_or(Analysis::merges_in_any_order)
    }
}

/// Wants no event of the flow, for a run beside which something else looks at the decode. It takes
/// no runs, so each bytecode is an event of its own, as in `dev blocks-around`.
#[derive(Debug)]
pub struct SingleBytecodes;

impl Analysis for SingleBytecodes {
    type Thread = ();
    fn begin(&self, _: &ThreadInfo) {}
    fn events(&self, (): &mut (), _: &[Event]) -> ControlFlow<Enough> {
        ControlFlow::Continue(())
    }
    fn merge(&mut self, (): ()) {}
    fn takes_runs(&self) -> bool {
        false
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}

/// Runs an analysis on the flows that `producer` passes to its consumer. Returns the analysis,
/// with the states of all threads merged, and what `producer` returned. Threads whose sink was
/// dropped without its end are not merged.
///
/// # Panics
/// If `producer` keeps a sink of the consumer.
pub fn run<A: Analysis, T>(analysis: A, producer: impl FnOnce(&mut dyn FlowConsumer) -> T) -> (A, T) {
    run_on(None, analysis, producer)
}

/// As [`run`], for a known number of threads: when the analysis has enough of that many threads, it
/// has enough of all.
///
/// # Panics
/// As [`run`].
pub fn run_on<A: Analysis, T>(
    threads: Option<usize>,
    analysis: A,
    producer: impl FnOnce(&mut dyn FlowConsumer) -> T,
) -> (A, T) {
    let wanted = Arc::new(Wanted {
        threads: AtomicUsize::new(threads.unwrap_or(usize::MAX)),
        all: AtomicBool::new(true),
    });
    let shared = Arc::new(SharedAnalysis { analysis: RwLock::new(analysis), ended: Mutex::default() });
    let mut consumer = Consumer { shared, begun: 0, wanted };
    let result = producer(&mut consumer);
    let shared = Arc::into_inner(consumer.shared).expect("no sink outlives the producer");
    let SharedAnalysis { analysis, ended } = shared;
    let mut analysis = analysis.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(number, info, _)| (info.started, info.tid, *number));
    ended.into_iter().for_each(|(.., state)| analysis.merge(state));
    (analysis, result)
}

/// An analysis, and the states that it has not merged.
struct SharedAnalysis<A: Analysis> {
    /// Written only to merge a state.
    analysis: RwLock<A>,
    /// Threads whose flow has ended: number of the sink, thread, state.
    ended: Mutex<Vec<(usize, ThreadInfo, A::Thread)>>,
}

impl<A: Analysis> SharedAnalysis<A> {
    fn read(&self) -> RwLockReadGuard<'_, A> {
        // An analysis that panics while it merges ends the decode: the driver passes the panic on.
        self.analysis.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn end(&self, number: usize, info: ThreadInfo, state: A::Thread) {
        if self.read().merges_in_any_order() {
            self.analysis.write().unwrap_or_else(PoisonError::into_inner).merge(state);
        } else {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((number, info, state));
        }
    }
}

/// What an analysis still needs.
struct Wanted {
    /// Number of threads; one less for each thread of which it has enough.
    threads: AtomicUsize,
    /// It has not said that it has enough of all.
    all: AtomicBool,
}

impl Wanted {
    fn has_enough(&self, enough: Enough) {
        if enough == Enough::OfAll || self.threads.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.store(false, Ordering::Relaxed);
        }
    }
}

/// Passes flows to an analysis.
struct Consumer<A: Analysis> {
    shared: Arc<SharedAnalysis<A>>,
    begun: usize,
    wanted: Arc<Wanted>,
}

impl<A: Analysis> FlowConsumer for Consumer<A> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let number = self.begun;
        self.begun += 1;
        Box::new(MemberSink {
            number,
            info: info.clone(),
            member: begin(&*self.shared.read(), info),
            shared: Arc::clone(&self.shared),
            wanted: Arc::clone(&self.wanted),
        })
    }
    fn takes_runs(&self) -> bool {
        self.shared.read().takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.shared.read().takes_code()
    }
    fn has_enough(&self) -> bool {
        !self.wanted.all.load(Ordering::Relaxed)
    }
}

/// One thread of a [`Consumer`].
struct MemberSink<A: Analysis> {
    shared: Arc<SharedAnalysis<A>>,
    number: usize,
    info: ThreadInfo,
    member: Member<A::Thread>,
    wanted: Arc<Wanted>,
}

impl<A: Analysis> FlowSink for MemberSink<A> {
    fn events(&mut self, events: &[Event]) {
        if self.member.enough.is_none() {
            pass(&*self.shared.read(), &mut self.member, events);
            if let Some(enough) = self.member.enough {
                self.wanted.has_enough(enough);
            }
        }
    }
    fn has_enough(&self) -> bool {
        self.member.enough.is_some()
    }
    fn end(self: Box<Self>) {
        self.shared.end(self.number, self.info, self.member.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;
    use crate::testing::{bytecode, thread};
    use jportal_units::Tsc;

    /// Keeps the times of each thread; has enough of a thread at 3, of all at 9.
    #[derive(Default)]
    struct KeptTimes(Vec<Vec<u64>>);

    impl Analysis for KeptTimes {
        type Thread = Vec<u64>;
        fn begin(&self, _: &ThreadInfo) -> Vec<u64> {
            Vec::new()
        }
        fn events(&self, kept: &mut Vec<u64>, events: &[Event]) -> ControlFlow<Enough> {
            kept.extend(events.iter().filter_map(|e| match e.kind {
                EventKind::Time(tsc) => Some(tsc.0),
                _ => None,
            }));
            match kept.last() {
                Some(3) => ControlFlow::Break(Enough::OfThread),
                Some(9) => ControlFlow::Break(Enough::OfAll),
                _ => ControlFlow::Continue(()),
            }
        }
        fn merge(&mut self, kept: Vec<u64>) {
            self.0.push(kept);
        }
    }

    fn at(time: u64) -> [Event; 1] {
        [Event::decoded(EventKind::Time(Tsc(time)))]
    }

    #[test]
    fn threads_are_merged_in_order_of_start() {
        let (times, ()) = run(KeptTimes::default(), |to| {
            let mut sinks = [30, 10, 20]
                .map(|started| to.thread(&ThreadInfo { started: Tsc(started), ..thread(started as u32) }));
            for (sink, time) in sinks.iter_mut().zip(1..) {
                sink.events(&at(time));
                sink.events(&[bytecode(0, 0)]);
            }
            sinks.into_iter().for_each(|sink| sink.end());
        });
        assert_eq!(times.0, [[2], [3], [1]]);
    }

    /// Counts events; the states that are alive at the same time.
    #[derive(Default)]
    struct LiveStates(u64, Arc<AtomicUsize>);
    struct LiveState(u64, Arc<AtomicUsize>);

    impl Drop for LiveState {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Analysis for LiveStates {
        type Thread = LiveState;
        fn begin(&self, _: &ThreadInfo) -> LiveState {
            self.1.fetch_add(1, Ordering::Relaxed);
            LiveState(0, Arc::clone(&self.1))
        }
        fn events(&self, state: &mut LiveState, events: &[Event]) -> ControlFlow<Enough> {
            state.0 += events.len() as u64;
            ControlFlow::Continue(())
        }
        fn merge(&mut self, state: LiveState) {
            self.0 += state.0;
        }
        fn merges_in_any_order(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_state_of_sums_does_not_outlive_its_thread() {
        let (counted, enough) = run((LiveStates::default(), LiveStates::default()), |to| {
            let mut first = to.thread(&thread(1));
            first.events(&at(1));
            for tid in 2..50 {
                let mut sink = to.thread(&thread(tid));
                sink.events(&at(1));
                sink.end();
            }
            first.events(&at(2));
            let enough = first.has_enough();
            first.end();
            enough
        });
        assert!(!enough);
        assert_eq!((counted.0.0, counted.1.0), (50, 50));
        let states = Arc::clone(&counted.0.1);
        let (_, most) = run(counted.0, |to| {
            let most = |tid| {
                let sink = to.thread(&thread(tid));
                let live = states.load(Ordering::Relaxed);
                sink.end();
                live
            };
            (1..9).map(most).max()
        });
        assert_eq!(most, Some(1));
        // Beside an analysis that needs the order, states wait.
        let (both, ()) = run((LiveStates::default(), KeptTimes::default()), |to| {
            [30, 10]
                .map(|started| to.thread(&ThreadInfo { started: Tsc(started), ..thread(started as u32) }))
                .into_iter()
                .zip(1..)
                .for_each(|(mut sink, time)| {
                    sink.events(&at(time));
                    sink.end();
                });
        });
        assert_eq!((both.0.0, both.1.0), (2, vec![vec![2], vec![1]]));
    }

    #[test]
    fn a_thread_that_is_enough_gets_no_more_events() {
        let (times, seen) = run(KeptTimes::default(), |to| {
            let mut seen = Vec::new();
            let (mut a, mut b) = (to.thread(&thread(1)), to.thread(&thread(2)));
            for time in [1, 3, 5, 9, 11] {
                a.events(&at(time));
                b.events(&at(time + 1));
                seen.push(to.has_enough());
            }
            b.events(&at(9));
            seen.push(to.has_enough());
            a.end();
            b.end();
            seen
        });
        assert_eq!(times.0, [vec![1, 3], vec![2, 4, 6, 10, 12, 9]]);
        assert_eq!(seen, [false, false, false, false, false, true]);
    }

    #[test]
    fn enough_of_all_selected_threads_is_enough() {
        let (_, seen) = run_on(Some(2), KeptTimes::default(), |to| {
            let mut seen = Vec::new();
            let (mut a, mut b) = (to.thread(&thread(1)), to.thread(&thread(2)));
            for sink in [&mut a, &mut b] {
                sink.events(&at(3));
                sink.events(&at(3));
                seen.push(to.has_enough());
            }
            seen
        });
        assert_eq!(seen, [false, true]);
    }

    #[test]
    fn two_analyses_have_enough_when_both_have() {
        let both = (KeptTimes::default(), Some(KeptTimes::default()));
        assert!(both.takes_runs());
        let (both, enough) = run(both, |to| {
            let mut sink = to.thread(&thread(1));
            sink.events(&at(9));
            let enough = to.has_enough();
            sink.end();
            enough
        });
        assert!(enough);
        assert_eq!((both.0.0, both.1.unwrap().0), (vec![vec![9]], vec![vec![9]]));
        assert!(!(KeptTimes::default(), SingleBytecodes).takes_runs());
        let (none, enough) = run(None::<SingleBytecodes>, |to| {
            assert!(to.takes_runs());
            to.thread(&thread(1)).events(&at(1));
            to.has_enough()
        });
        assert!(none.is_none() && enough);
    }
}
