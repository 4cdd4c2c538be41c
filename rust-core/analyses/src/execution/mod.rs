// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which share of the threads' execution is decoded, projected, recovered or lost.
//!
//! Shares are counted in bytecodes:
//!
//! | share | its bytecodes |
//! |---|---|
//! | `decoded`, `projected`, `recovered` | those of the flow with this provenance |
//! | `orphans` | those of which only the opcode was captured |
//! | `lost` | those that gaps hide. They cannot be counted, so they are estimated |
//!
//! The time of a gap is known, and so are the times at which its thread was on the gap's core
//! (its *visits*). Their intersection gives the ticks that the gap hides. A gap lasts from the
//! last known time before it to the first known time after it. If the gap does not state these
//! times, it begins at the flow's last time, and ends at the flow's next time or when the
//! thread left the core. No tick is counted twice. The estimate assumes that bytecodes in a gap
//! are as dense as in the captured trace around it: on either side twice as much of the
//! thread's captured time as the gap hides, but at least 2²² ticks and at most 2³⁰ (module
//! `density`). The share of time alone would be wrong. A thread spends much of its time in the
//! VM and in native code, where nothing is traced, and buffers fill up while much is traced.
//!
//! The five shares add up to 1. The shares of all threads together are computed from the sums
//! of their bytecodes. A thread without a known bytecode has no shares and adds nothing,
//! because it is not known whether it executed any (the VM's own threads do not). The number of
//! these threads and the ticks that their gaps hide are reported separately.
//!
//! Not part of the shares: whether a fill is right (its confidence estimates that); what the
//! decoder missed at gaps that take no time (contradictions), and after gaps until frames were
//! known again; unresolved stretches, which are counted.

mod density;
mod visits;

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_flow::{Event, EventKind, FlowConsumer, FlowSink, Gap, Orphan, Tally, ThreadInfo};
use jportal_units::{StreamOffset, Tsc};
use serde::Serialize;

use self::density::Density;
pub use self::visits::{OnCore, Visits};
use jportal_plain::table::{Align, table};

/// A thread, identified by OS thread id and start.
type Key = (u32, u64);

/// Core, position in its stream, first and last time.
type Identity = ((u32, StreamOffset), (Option<Tsc>, Option<Tsc>));

/// A gap and its hidden execution.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hidden {
    place: (u32, StreamOffset),
    times: (Option<Tsc>, Option<Tsc>),
    bytes: u64,
    ticks: u64,
    bytecodes: f64,
}

impl Hidden {
    fn new(gap: &Gap) -> Self {
        let bytes = gap.bytes.unwrap_or(0);
        let place = (gap.core.get(), gap.offset);
        Self { place, times: (gap.since, gap.until), bytes, ticks: 0, bytecodes: 0.0 }
    }
    const fn identity(&self) -> Identity {
        (self.place, self.times)
    }
}

/// The content of a thread's flow, gathered while the flow passes to another consumer.
#[derive(Clone, Debug, Default)]
struct Told {
    key: Key,
    name: String,
    bytecodes: Tally,
    orphans: u64,
    unresolved: u64,
    gaps: Vec<Hidden>,
}

/// Reads flows while they pass to another consumer. Keeps 64 bytes per gap.
pub struct Listener<'c> {
    visits: Arc<Visits>,
    all: Arc<Mutex<Vec<Told>>>,
    to: &'c mut dyn FlowConsumer,
}

impl std::fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl<'c> Listener<'c> {
    /// A listener that passes the flows on to `to`.
    pub fn new(visits: Arc<Visits>, to: &'c mut dyn FlowConsumer) -> Self {
        Self { visits, all: Arc::default(), to }
    }
    /// What the listener has gathered.
    pub fn heard(&self) -> Heard {
        Heard(self.all.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// What a [`Listener`] gathered of the threads that have ended.
#[derive(Clone, Debug)]
pub struct Heard(Vec<Told>);

impl FlowConsumer for Listener<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let own =
            Told { key: (info.tid.get(), info.started.get()), name: info.name.clone(), ..Told::default() };
        Box::new(ListenerSink {
            visits: Arc::clone(&self.visits),
            all: Arc::clone(&self.all),
            own,
            counted: HashMap::new(),
            hidden: 0,
            now: 0,
            open: None,
            density: Density::default(),
            to: self.to.thread(info),
        })
    }
    fn takes_runs(&self) -> bool {
        self.to.takes_runs()
    }
    fn takes_code(&self) -> bool {
        self.to.takes_code()
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
}

struct ListenerSink {
    visits: Arc<Visits>,
    all: Arc<Mutex<Vec<Told>>>,
    own: Told,
    /// By core: the time up to which gaps have been counted.
    counted: HashMap<u32, u64>,
    /// Ticks hidden by gaps.
    hidden: u64,
    /// The last time in the flow.
    now: u64,
    /// When the last gap began, if the gap does not state its own end.
    open: Option<u64>,
    density: Density,
    to: Box<dyn FlowSink + Send>,
}

impl ListenerSink {
    fn gap(&mut self, gap: &Gap) {
        let since = gap.since.map_or(self.now, Tsc::get);
        self.close(since);
        self.own.gaps.push(Hidden::new(gap));
        match gap.until {
            Some(until) => self.hide(since, until.get()),
            None => self.open = Some(since),
        }
    }
    /// The open gap ended by `until`, or earlier when the thread left the core.
    fn close(&mut self, until: u64) {
        let (Some(since), Some(gap)) = (self.open.take(), self.own.gaps.last()) else { return };
        if let Some(left) = self.visits.end(self.own.key, gap.place.0, since) {
            self.hide(since, left.min(until));
        }
    }
    /// Counts the ticks that the last gap hides between `since` and `until`.
    fn hide(&mut self, since: u64, until: u64) {
        let number = self.own.gaps.len();
        let Some(gap) = self.own.gaps.last_mut() else { return };
        let counted = self.counted.entry(gap.place.0).or_default();
        let since = since.max(*counted);
        if since < until {
            let at = self.visits.ticks(self.own.key, since).saturating_sub(self.hidden);
            gap.ticks = self.visits.between(self.own.key, gap.place.0, since, until);
            self.hidden = self.hidden.saturating_add(gap.ticks);
            *counted = until;
            self.density.ask(number - 1, at, gap.ticks);
        }
    }
    fn time(&mut self, now: u64) {
        self.now = now;
        self.close(now);
        self.mark(now);
    }
    fn mark(&mut self, until: u64) {
        let own = &mut self.own;
        let seen = own.bytecodes.decoded + own.bytecodes.projected + own.orphans;
        let captured = self.visits.ticks(own.key, until).saturating_sub(self.hidden);
        self.density.mark(captured, seen, |gap, n| own.gaps[gap].bytecodes = n);
    }
    fn hear(&mut self, events: &[Event]) {
        for e in events {
            match &e.kind {
                EventKind::Bytecode { .. } => self.own.bytecodes.add(e.provenance),
                EventKind::Run { len, .. } => self.own.bytecodes.add_all(e.provenance, (*len).into()),
                EventKind::Orphan(Orphan::Bytecode { .. }) => self.own.orphans += 1,
                EventKind::Unresolved { .. } => self.own.unresolved += 1,
                EventKind::Gap(gap) => self.gap(gap),
                EventKind::Time(tsc) => self.time(tsc.get()),
                _ => {}
            }
        }
    }
}

impl FlowSink for ListenerSink {
    fn events(&mut self, events: &[Event]) {
        self.hear(events);
        self.to.events(events);
    }
    fn take(&mut self, events: &mut Vec<Event>) {
        self.hear(events);
        self.to.take(events);
    }
    fn has_enough(&self) -> bool {
        self.to.has_enough()
    }
    fn end(mut self: Box<Self>) {
        self.close(u64::MAX);
        self.mark(u64::MAX);
        let own = &mut self.own;
        self.density.end(|gap, n| own.gaps[gap].bytecodes = n);
        self.to.end();
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(self.own);
    }
}

/// Shares of the execution, which add up to 1. [The module](self) defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Captured, and decoded with positions.
    pub decoded: f64,
    /// Captured, and placed (`--project`).
    pub projected: f64,
    /// Captured, but only opcodes are known.
    pub orphans: f64,
    /// Lost, and filled (`--recover`).
    pub recovered: f64,
    /// Lost. An estimate.
    pub lost: f64,
}

impl Shares {
    const NAMES: [&'static str; 5] = ["decoded", "projected", "orphans", "recovered", "lost"];

    const fn all(&self) -> [f64; 5] {
        [self.decoded, self.projected, self.orphans, self.recovered, self.lost]
    }
}

/// Ticks (TSC) of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ticks {
    /// Ticks on a core.
    pub on_core: u64,
    /// Ticks on a core that the remaining gaps hide.
    pub lost: u64,
    /// Ticks on a core that were hidden by gaps that are filled.
    pub recovered: u64,
}

impl Ticks {
    /// Times in a damaged capture may be anything.
    fn add(&mut self, other: Self) {
        self.on_core = self.on_core.saturating_add(other.on_core);
        self.lost = self.lost.saturating_add(other.lost);
        self.recovered = self.recovered.saturating_add(other.recovered);
    }
}

/// What is known of the execution of one thread, or of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Known {
    /// Ticks on a core and in gaps.
    pub ticks: Ticks,
    /// Gaps that remain.
    pub gaps: u64,
    /// Bytes of recorded trace in these gaps, where the gaps state them.
    pub skipped_bytes: u64,
    /// Bytecodes of known position.
    pub bytecodes: Tally,
    /// Bytecodes of which only the opcode is known.
    pub orphans: u64,
    /// Bytecodes that the gaps hide, estimated.
    pub lost: u64,
    /// Unresolved stretches.
    pub unresolved: u64,
    /// Shares of the execution. `None` if no bytecode is known.
    pub shares: Option<Shares>,
}

impl Known {
    /// Computes the figures. `decoded`: the same thread before gaps were filled.
    fn of(told: &Told, decoded: &Told, visits: &Visits) -> Self {
        let mut known = Self {
            gaps: told.gaps.len() as u64,
            bytecodes: told.bytecodes,
            orphans: told.orphans,
            unresolved: told.unresolved,
            ..Self::default()
        };
        known.ticks.on_core = visits.ticks(told.key, u64::MAX);
        // A gap that was not filled has the same identity in both flows. A new gap takes no
        // time.
        let mut left: HashMap<Identity, u32> = HashMap::new();
        told.gaps.iter().for_each(|g| *left.entry(g.identity()).or_default() += 1);
        let mut lost = 0.0;
        for gap in &decoded.gaps {
            match left.get_mut(&gap.identity()).filter(|n| **n > 0) {
                Some(n) => {
                    *n -= 1;
                    known.ticks.lost = known.ticks.lost.saturating_add(gap.ticks);
                    known.skipped_bytes = known.skipped_bytes.saturating_add(gap.bytes);
                    lost += gap.bytecodes;
                }
                None => {
                    known.ticks.recovered = known.ticks.recovered.saturating_add(gap.ticks);
                }
            }
        }
        known.lost = lost.round() as u64;
        known.shares = known.divided();
        known
    }
    fn divided(&self) -> Option<Shares> {
        let known = self.bytecodes.total() + self.orphans;
        let part = |n: u64| n as f64 / known.saturating_add(self.lost) as f64;
        (known > 0).then(|| Shares {
            decoded: part(self.bytecodes.decoded),
            projected: part(self.bytecodes.projected),
            orphans: part(self.orphans),
            recovered: part(self.bytecodes.recovered),
            lost: part(self.lost),
        })
    }
    fn add(&mut self, other: &Self) {
        self.ticks.add(other.ticks);
        self.gaps += other.gaps;
        self.skipped_bytes = self.skipped_bytes.saturating_add(other.skipped_bytes);
        self.bytecodes.merge(&other.bytecodes);
        self.orphans += other.orphans;
        self.lost = self.lost.saturating_add(other.lost);
        self.unresolved += other.unresolved;
    }
    fn cells(&self, tsc_khz: u64) -> Vec<String> {
        let shares = self.shares.map_or([const { String::new() }; 5], |s| s.all().map(percent));
        let time = |ticks: u64| match tsc_khz {
            0 => format!("{ticks} ticks"),
            khz => format!("{:.3} s", ticks as f64 / (khz as f64 * 1e3)),
        };
        let times = [
            time(self.ticks.on_core),
            time(self.ticks.lost),
            self.gaps.to_string(),
            self.unresolved.to_string(),
        ];
        shares.into_iter().chain(times).collect()
    }
}

/// A thread and what is known of its execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadExecution {
    /// OS thread id.
    pub tid: u32,
    /// TSC of its start.
    pub started: u64,
    /// Name.
    pub name: String,
    /// What is known of its execution.
    #[serde(flatten)]
    pub known: Known,
}

/// Threads of which no bytecode is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// Number of such threads.
    pub threads: u64,
    /// Their ticks on a core and in gaps.
    pub ticks: Ticks,
}

/// Which share of the threads' execution is known, and how. [The module](self) defines it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Execution {
    /// All threads with a known bytecode, together.
    pub total: Known,
    /// The other threads, together.
    pub silent: Silent,
    /// Each thread, by start and id.
    pub threads: Vec<ThreadExecution>,
}

impl Execution {
    /// `decoded`: what a listener gathered before gaps were filled. `shown`: what it gathered
    /// of the flows that are shown. Both are the same if no gaps were filled.
    pub fn new(visits: &Visits, decoded: &Heard, shown: &Heard) -> Self {
        let before: HashMap<Key, &Told> = decoded.0.iter().map(|t| (t.key, t)).collect();
        let mut all = Self::default();
        for told in &shown.0 {
            let known = Known::of(told, before.get(&told.key).copied().unwrap_or(told), visits);
            if known.shares.is_some() {
                all.total.add(&known);
            } else {
                all.silent.threads += 1;
                all.silent.ticks.add(known.ticks);
            }
            let (tid, started) = told.key;
            all.threads.push(ThreadExecution { tid, started, name: told.name.clone(), known });
        }
        all.threads.sort_by_key(|t| (t.started, t.tid));
        all.total.shares = all.total.divided();
        all
    }
    /// A table: all threads together, then each thread with a known bytecode.
    pub fn text(&self, tsc_khz: u64) -> String {
        let right = |name| (name, Align::Right);
        let mut columns = vec![("execution", Align::Left)];
        columns.extend(Shares::NAMES.map(right));
        columns.extend(["on a core", "in gaps", "gaps", "unresolved"].map(right));
        let row = |name: String, known: &Known| [vec![name], known.cells(tsc_khz)].concat();
        let known = self.threads.iter().filter(|t| t.known.shares.is_some());
        let threads = known.map(|t| row(format!("{} {}", t.tid, t.name), &t.known));
        let rows: Vec<_> = [row("all".into(), &self.total)].into_iter().chain(threads).collect();
        table(&columns, &rows)
    }
}

/// A percentage. Only exactly nothing is shown as 0 % and only exactly all as 100 %.
fn percent(share: f64) -> String {
    let hundredths = (1e4 * share).round();
    let hundredths = match share {
        0.0 | 1.0 => hundredths,
        _ => hundredths.clamp(1.0, 9_999.0),
    };
    format!("{:.2}%", hundredths / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytecode, pass, projected, recovered};
    use jportal_flow::GapReason;
    use jportal_flow::run;
    use jportal_units::Core;

    fn gap(core: u32, since: Option<u64>, until: Option<u64>) -> Event {
        Event::decoded(EventKind::Gap(Box::new(Gap {
            reason: GapReason::Truncated,
            core: Core(core),
            offset: StreamOffset(0),
            address: None,
            since: since.map(Tsc),
            until: until.map(Tsc),
            bytes: Some(3),
            stack_lost: true,
        })))
    }
    fn orphan() -> Event {
        Event::decoded(EventKind::Orphan(Orphan::Bytecode { opcode: 0, taken: None }))
    }
    /// Thread 7 is on core 0 from 100 to 200 and from 400 to 500, and on core 1 from 200 to
    /// 300. Thread 8 is on core 0 from 200 to 400.
    fn visits() -> Arc<Visits> {
        let mut v = Visits::default();
        for (tid, core, came, left) in
            [(7, 0, 100, 200), (8, 0, 200, 400), (7, 0, 400, 500), (7, 1, 200, 300)]
        {
            v.add((tid, Tsc(0)), Core(core), (Tsc(came), Tsc(left)));
        }
        Arc::new(v)
    }
    /// Found by fuzzing: the times in a damaged capture may be anything.
    #[test]
    fn times_without_an_end_add_up_to_the_largest() {
        let mut v = Visits::default();
        for (tid, core) in [(7, 0), (7, 1), (8, 2)] {
            for (came, left) in [(1, u64::MAX - 10), (u64::MAX - 5, u64::MAX)] {
                v.add((tid, Tsc(0)), Core(core), (Tsc(came), Tsc(left)));
            }
        }
        assert_eq!(v.ticks((7, 0), u64::MAX), u64::MAX);
        assert_eq!(v.ticks((8, 0), u64::MAX), u64::MAX - 6);
        let mut sum = Ticks { on_core: 3, lost: u64::MAX, recovered: 1 };
        sum.add(Ticks { on_core: u64::MAX, lost: u64::MAX, recovered: 1 });
        assert_eq!(sum, Ticks { on_core: u64::MAX, lost: u64::MAX, recovered: 2 });
    }

    fn heard(flows: &[(u32, &[Event])]) -> Heard {
        let (threads, heard) = run(crate::Threads::default(), |to| {
            let mut listener = Listener::new(visits(), to);
            flows.iter().for_each(|(tid, events)| pass(&mut listener, *tid, events));
            listener.heard()
        });
        assert_eq!(threads.totals().len(), flows.len(), "the next consumer receives the flows, too");
        heard
    }
    fn of(flows: &[(u32, &[Event])]) -> Execution {
        let heard = heard(flows);
        Execution::new(&visits(), &heard, &heard)
    }
    fn lost(gaps: &[Event]) -> u64 {
        of(&[(7, &[gaps, &[bytecode(0, 0)]].concat())]).threads[0].known.ticks.lost
    }

    #[test]
    fn a_gap_hides_what_its_thread_did_on_its_core() {
        assert_eq!(lost(&[]), 0);
        assert_eq!(lost(&[gap(0, Some(150), Some(160))]), 10);
        // Thread 8 was on core 0 from 200 to 400, and what thread 7 did on core 1 is known.
        assert_eq!(lost(&[gap(0, Some(150), Some(450))]), 100);
        assert_eq!(lost(&[gap(0, None, Some(150))]), 50);
        assert_eq!(lost(&[gap(0, Some(450), None)]), 50);
        assert_eq!(lost(&[gap(0, Some(150), None)]), 50, "then it left");
        let time = |tsc| Event::decoded(EventKind::Time(Tsc(tsc)));
        assert_eq!(lost(&[gap(0, Some(150), None), time(170), time(180)]), 20);
        assert_eq!(lost(&[gap(0, Some(150), None), time(440)]), 50);
        assert_eq!(lost(&[gap(0, Some(150), None), gap(0, Some(160), Some(170))]), 20);
        assert_eq!(lost(&[time(190), gap(0, None, Some(450))]), 60, "nothing was hidden before");
        assert_eq!(lost(&[gap(0, Some(250), Some(260))]), 0);
        assert_eq!(lost(&[gap(0, Some(150), Some(150))]), 0);
        assert_eq!(lost(&[gap(5, Some(0), None)]), 0, "a core on which it never was");
    }

    #[test]
    fn no_time_is_counted_twice() {
        let (a, b) = (gap(0, Some(110), Some(150)), gap(0, Some(140), Some(160)));
        assert_eq!(lost(&[a.clone(), b.clone()]), 50);
        assert_eq!(lost(&[a.clone(), a.clone()]), 40);
        assert_eq!(lost(&[a, gap(1, Some(290), Some(300)), b]), 60);
    }

    #[test]
    fn the_shares_are_one_together() {
        let time = |tsc| Event::decoded(EventKind::Time(Tsc(tsc)));
        let filled = gap(1, Some(200), Some(230));
        let seen = [bytecode(0, 0), bytecode(0, 1), projected(bytecode(0, 5)), orphan()];
        let left = gap(0, Some(130), Some(190));
        let decoded = [&[time(100)][..], &seen, &[left.clone(), time(190), filled]].concat();
        let shown = [&[time(100)][..], &seen, &[left, time(190), recovered(bytecode(0, 0))]].concat();
        let (decoded, shown) = (heard(&[(7, &decoded)]), heard(&[(7, &shown)]));
        let all = Execution::new(&visits(), &decoded, &shown);
        let known = all.threads[0].known;
        assert_eq!(known.ticks, Ticks { on_core: 300, lost: 60, recovered: 30 });
        // Four bytecodes in the 210 captured ticks: one in the 60 ticks that were lost.
        assert_eq!((known.lost, known.skipped_bytes, known.gaps), (1, 3, 1));
        assert_eq!(known.shares.unwrap().all(), [2, 1, 1, 1, 1].map(|n| f64::from(n) / 6.0));
        assert_eq!(all.total, known, "of one thread");
        let before = Execution::new(&visits(), &decoded, &decoded).total;
        assert_eq!((before.ticks.lost, before.ticks.recovered, before.gaps), (90, 0, 2));
    }

    #[test]
    fn all_are_those_that_did_something_known() {
        let all = of(&[(7, &[bytecode(0, 0)]), (8, &[bytecode(0, 0), gap(0, Some(200), Some(300))])]);
        assert_eq!((all.total.lost, all.total.ticks.lost), (1, 100), "as much as in the other half");
        assert_eq!(all.total.shares.unwrap().lost, 1.0 / 3.0);
        // Thread 8 may have executed nothing.
        let all = of(&[(7, &[bytecode(0, 0)]), (8, &[gap(0, Some(0), Some(400))])]);
        assert_eq!(all.total.shares.unwrap().all(), [1.0, 0.0, 0.0, 0.0, 0.0]);
        let ticks = Ticks { on_core: 200, lost: 200, recovered: 0 };
        assert_eq!(all.silent, Silent { threads: 1, ticks });
        let text = all.text(1);
        assert!(text.contains("100.00%") && text.contains("7 t7") && !text.contains("8 t8"), "{text}");
        let nothing = of(&[]);
        assert_eq!((nothing.total.shares, nothing.text(0).lines().count()), (None, 2));
    }

    #[test]
    fn nearly_all_is_not_all() {
        let shown = [0.0, 1e-9, 0.123_456, 0.999_999, 1.0].map(percent);
        assert_eq!(shown, ["0.00%", "0.01%", "12.35%", "99.99%", "100.00%"]);
    }
}
