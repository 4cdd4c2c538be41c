// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which trace nothing needs: that of threads that are not selected, and of threads whose sinks
//! have enough.
//!
//! If threads are selected, the stretches of other OS threads are not needed from the start. All
//! threads that use the OS thread of a selected one are needed: they tell which of them a stretch
//! belongs to.
//!
//! A lane whose sink has enough says so, and the cores' streams skip the later stretches of its
//! thread. The last trace before another thread takes the same OS thread is not skipped: it tells
//! whether frames of the first one are still open then.
//!
//! A consumer of a part of the recording may do without what was on the stacks before. Then no
//! stretch before the part is needed.
//!
//! Threads that cannot run bytecodes never have enough, and each of their stretches may be alone in
//! a chunk. A consumer that wants the beginnings of flows leaves them out.

use crate::stretches::Stretch;
use hashbrown::HashMap;
use jportal_capture::schema::thread_flags;
use jportal_units::{Tid, Tsc};
use jportal_vm_image::{ThreadSpan, Threads};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The bytes of a thread's trace that are decoded before the next thread takes its OS thread. What
/// a Java thread runs at its end is a few method calls.
const TAIL: u64 = 64 << 10;

/// What the lanes of a decode still need.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The OS thread ids of the selected threads, in order; `None`: all threads are selected.
    selected: Option<Vec<u32>>,
    /// The OS thread ids that only threads of the VM have, which cannot run bytecodes, in order.
    vm_threads: Vec<u32>,
    /// Stretches closed before this time are not needed.
    since: Tsc,
    /// By OS thread id and start of a thread that is followed by another one on its OS thread:
    /// when its last needed stretches begin to be closed.
    tails: HashMap<(u32, u64), Tsc>,
    /// By OS thread id: stretches closed before this time are not needed.
    until: Mutex<HashMap<u32, Tsc>>,
    /// The number of threads that have enough.
    ended: AtomicUsize,
}

impl Needs {
    /// All of these threads is needed, and nothing else; everything if `None`.
    pub(crate) fn of(selected: Option<impl Iterator<Item = Tid>>) -> Self {
        let selected = selected.map(|tids| {
            let mut all: Vec<u32> = tids.map(|tid| tid.0).collect();
            all.sort_unstable();
            all
        });
        Self { selected, ..Self::default() }
    }
    /// The same without what was closed before a time.
    pub(crate) fn since(self, since: Option<Tsc>) -> Self {
        Self { since: since.unwrap_or(Tsc(0)), ..self }
    }
    /// The same without the threads that cannot run bytecodes.
    pub(crate) fn without_vm_threads(self, threads: &Threads) -> Self {
        let (mut no, mut yes) = (Vec::new(), Vec::new());
        for span in threads.iter() {
            if may_run_bytecodes(span) { &mut yes } else { &mut no }.push(span.tid.0);
        }
        no.retain(|tid| !yes.contains(tid));
        no.sort_unstable();
        Self { vm_threads: no, ..self }
    }
    /// Whether threads are left out because they cannot run bytecodes.
    pub(crate) const fn has_vm_threads(&self) -> bool {
        !self.vm_threads.is_empty()
    }
    /// Whether the OS thread is left out because it cannot run bytecodes.
    pub(crate) fn is_vm_thread(&self, tid: Tid) -> bool {
        self.vm_threads.binary_search(&tid.0).is_ok()
    }
    /// The same for lanes that say when their sinks have enough. `order`: all stretches in the
    /// order in which they were closed.
    pub(crate) fn until_enough(self, order: &[Stretch], threads: &Threads) -> Self {
        let mut spans: Vec<(u32, Tsc)> = threads.iter().map(|s| (s.tid.0, s.started)).collect();
        spans.sort_unstable();
        let pairs = spans.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let tail = |pair: &[(u32, Tsc)]| {
            let ((tid, started), next) = (pair[0], pair[1].1);
            let (mut bytes, mut from) = (0, next);
            for s in order.iter().rev().filter(|s| s.tid.0 == tid && s.closed < next) {
                if bytes >= TAIL {
                    break;
                }
                (bytes, from) = (bytes + s.to.0.saturating_sub(s.from.0), from.min(s.closed));
            }
            ((tid, started.0), from)
        };
        Self { tails: pairs.map(tail).collect(), ..self }
    }
    /// Nothing needs more of the thread, by id and start.
    pub(crate) fn has_enough(&self, tid: Tid, started: Tsc) {
        let until = self.tails.get(&(tid.0, started.0)).copied().unwrap_or(Tsc(u64::MAX));
        let mut all = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(tid.0).or_default();
        *known = until.max(*known);
        self.ended.fetch_add(1, Ordering::Release);
    }
    /// Whether nothing needs the trace of a stretch. An earlier answer `true` stays true.
    pub(crate) fn excludes(&self, stretch: &Stretch) -> bool {
        let tid = stretch.tid.0;
        self.selected.as_ref().is_some_and(|tids| tids.binary_search(&tid).is_err())
            || stretch.closed < self.since
            || self.is_vm_thread(stretch.tid)
            || self.ended() > 0 && {
                let all = self.until.lock().unwrap_or_else(PoisonError::into_inner);
                all.get(&tid).is_some_and(|until| stretch.closed < *until)
            }
    }
    /// The number of threads that have enough. While it stays the same, the answers of
    /// [`Self::excludes`] do, too.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }
}

/// Whether a thread may run bytecodes. Of the compiler threads, those of C1 and C2 cannot: HotSpot
/// lets only a compiler that is written in Java call Java (`CompilerThread::can_call_java`).
fn may_run_bytecodes(span: &ThreadSpan) -> bool {
    let has = |flag| span.flags & flag != 0;
    let own = || ["C1 CompilerThread", "C2 CompilerThread"].iter().any(|name| span.name.starts_with(name));
    match has(thread_flags::JAVA) || span.java_tid != 0 {
        true => !(has(thread_flags::COMPILER) && own()),
        false => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_capture::schema::{Record, Stamped, ThreadExited, ThreadStarted};
    use jportal_vm_image::Builder;

    use crate::testing::{NoCode, stretch};

    #[test]
    fn what_ended_before_a_part_is_not_needed() {
        let needs = Needs::of(None::<std::iter::Empty<Tid>>).since(Some(Tsc(60)));
        let excluded = [50, 59, 60, 70].map(|closed| needs.excludes(&stretch(7, 0, 1, closed)));
        assert_eq!(excluded, [true, true, false, false]);
        let all = Needs::of(None::<std::iter::Empty<Tid>>).since(None);
        assert!(!all.excludes(&stretch(7, 0, 1, 0)));
    }

    #[test]
    fn the_end_of_a_thread_is_needed_if_another_one_takes_its_os_thread() {
        let mut b = Builder::default();
        let mut put = |tsc, record| b.record(Stamped { tsc, record }, &mut NoCode);
        let started = |tid| Record::ThreadStarted(ThreadStarted { tid, ..Default::default() });
        put(10, started(7));
        put(20, started(8));
        put(100, Record::ThreadExited(ThreadExited { tid: 7, ..Default::default() }));
        put(120, started(7));
        let image = b.finish();
        let order = [
            stretch(7, 0, TAIL, 50),
            stretch(7, TAIL, 2 * TAIL - 1, 60),
            stretch(8, 2 * TAIL - 1, 3 * TAIL, 70),
            stretch(7, 3 * TAIL, 3 * TAIL + 10, 110),
            stretch(7, 3 * TAIL + 10, 3 * TAIL + 20, 130),
        ];
        let all = Needs::of(None::<std::iter::Empty<Tid>>);
        let needs = all.until_enough(&order, &image.threads);
        let excluded = || order.each_ref().map(|s| needs.excludes(s));
        assert_eq!(excluded(), [false; 5]);
        needs.has_enough(Tid(8), Tsc(20));
        assert_eq!(excluded(), [false, false, true, false, false]);
        // Its last MB of trace begins in the second stretch.
        needs.has_enough(Tid(7), Tsc(10));
        assert_eq!(excluded(), [true, false, true, false, false]);
        needs.has_enough(Tid(7), Tsc(120));
        assert_eq!(excluded(), [true; 5]);
        // Of a selection, only the OS thread counts.
        let needs = Needs::of(Some([Tid(9), Tid(7)].into_iter())).until_enough(&order, &image.threads);
        assert_eq!(order.each_ref().map(|s| needs.excludes(s)), [false, false, true, false, false]);
        needs.has_enough(Tid(7), Tsc(10));
        assert_eq!(order.each_ref().map(|s| needs.excludes(s)), [true, false, true, false, false]);
        let nothing = Needs::of(Some(std::iter::empty()));
        assert!(order.iter().all(|s| nothing.excludes(s)));
    }

    #[test]
    fn threads_that_cannot_run_bytecodes_are_known_by_what_the_vm_says() {
        use thread_flags::{COMPILER, JAVA, MAIN};
        // The OS thread ids that are left out, of threads that follow each other.
        let left_out = |threads: &[(u32, u32, u64, &str)]| -> Vec<u32> {
            let mut b = Builder::default();
            for (tsc, &(tid, flags, java_tid, name)) in (10..).step_by(10).zip(threads) {
                let started = ThreadStarted { tid, flags, java_tid, name: name.into() };
                b.record(Stamped { tsc, record: Record::ThreadStarted(started) }, &mut NoCode);
                let exited = ThreadExited { tid, ..Default::default() };
                b.record(Stamped { tsc: tsc + 5, record: Record::ThreadExited(exited) }, &mut NoCode);
            }
            let needs = Needs::of(None::<std::iter::Empty<Tid>>).without_vm_threads(&b.finish().threads);
            (1..9).filter(|tid| needs.excludes(&stretch(*tid, 0, 10, 50))).collect()
        };
        let threads = [
            (1, JAVA | MAIN, 1, "main"),
            (2, 0, 0, "VM Thread"),
            (3, JAVA | COMPILER, 7, "C1 CompilerThread0"),
            (4, JAVA | COMPILER, 8, "C2 CompilerThread12"),
            (5, JAVA | COMPILER, 9, "JVMCI CompilerThread0"),
            (6, JAVA, 10, "C1 CompilerThread0"),
        ];
        assert_eq!(left_out(&threads), [2, 3, 4]);
        // A Java thread takes the OS thread of a thread of the VM.
        assert_eq!(left_out(&[threads[1], (2, JAVA, 11, "late"), threads[2]]), [3]);
    }
}
