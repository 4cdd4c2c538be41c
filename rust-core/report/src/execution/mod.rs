// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which part of what the threads did is decoded, projected, recovered, lost.
//!
//! A share is one of bytecodes:
//!
//! | share | its bytecodes |
//! |---|---|
//! | `decoded`, `projected`, `recovered` | those of the flow that are known so |
//! | `orphans` | those of which the opcode was captured and nothing else is known |
//! | `lost` | those that the gaps hide. They cannot be counted; they are estimated |
//!
//! It is known when a gap was, and when its thread was on the gap's core (its *visits*): both together are the ticks that the gap
//! hides. A gap lasts from the last time known before to the first known after; where it does not
//! say these, from the flow's last time, and to its next one or until the thread left. No tick is counted twice. The gap is
//! taken to be as dense as what was captured around it: twice as much of the thread's captured time on either side as the gap hides,
//! but at least 2²² ticks and at most 2³⁰ (module `density`). Times alone would not do: a thread spends a large part of its time in
//! the VM and in native code, where nothing is traced, and buffers run full where much is.
//!
//! The five shares are 1 together. Those of all threads are of the sums of their bytecodes. A thread of which no bytecode is known has
//! no shares and adds nothing: whether it executed any nobody knows (the VM's own threads do not); how many there are and what
//! their gaps hide stands beside it.
//!
//! Not in the shares: whether a fill is right (its confidence says); what the decoder missed at gaps that take no time
//! (contradictions) and behind gaps until it knew frames again; unresolved stretches, which are counted.

mod density;
mod visits;

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_flow::{Event, EventKind, FlowConsumer, FlowSink, Gap, Orphan, ThreadInfo};
use jportal_units::{StreamOffset, Tsc};
use serde::Serialize;

use self::density::Density;
pub use self::visits::Visits;
use crate::table::{Align, table};
use crate::tally::Tally;

/// A thread, by OS thread id and start.
type Key = (u32, u64);

/// Core, place in its stream, first and last time.
type Identity = ((u32, StreamOffset), (Option<Tsc>, Option<Tsc>));

/// A gap, and what it hides.
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

/// What a thread's flow says, gathered on its way to another consumer.
#[derive(Clone, Debug, Default)]
struct Told {
    key: Key,
    name: String,
    bytecodes: Tally,
    orphans: u64,
    unresolved: u64,
    gaps: Vec<Hidden>,
}

/// Listens to flows on their way to another consumer. Keeps 64 bytes a gap.
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
    /// In front of `to`.
    pub fn new(visits: Arc<Visits>, to: &'c mut dyn FlowConsumer) -> Self {
        Self { visits, all: Arc::default(), to }
    }
    /// What was heard.
    pub fn heard(&self) -> Heard {
        Heard(self.all.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// What a [`Listener`] heard of the threads that have ended.
#[derive(Clone, Debug)]
pub struct Heard(Vec<Told>);

impl FlowConsumer for Listener<'_> {
    fn thread(&mut self, info: &ThreadInfo) -> Box<dyn FlowSink + Send> {
        let own =
            Told { key: (info.tid.get(), info.started.get()), name: info.name.clone(), ..Told::default() };
        Box::new(Sink {
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
}

struct Sink {
    visits: Arc<Visits>,
    all: Arc<Mutex<Vec<Told>>>,
    own: Told,
    /// By core: up to when gaps have been counted.
    counted: HashMap<u32, u64>,
    /// Ticks that gaps have hidden.
    hidden: u64,
    /// The last time told.
    now: u64,
    /// The last gap began then, and does not say itself when it was over.
    open: Option<u64>,
    density: Density,
    to: Box<dyn FlowSink + Send>,
}

impl Sink {
    fn gap(&mut self, gap: &Gap) {
        let since = gap.since.map_or(self.now, Tsc::get);
        self.close(since);
        self.own.gaps.push(Hidden::new(gap));
        match gap.until {
            Some(until) => self.hide(since, until.get()),
            None => self.open = Some(since),
        }
    }
    /// The open gap was over by `until`, or when the thread left.
    fn close(&mut self, until: u64) {
        let (Some(since), Some(gap)) = (self.open.take(), self.own.gaps.last()) else { return };
        if let Some(left) = self.visits.end(self.own.key, gap.place.0, since) {
            self.hide(since, left.min(until));
        }
    }
    /// The last gap was from `since` to `until`.
    fn hide(&mut self, since: u64, until: u64) {
        let number = self.own.gaps.len();
        let Some(gap) = self.own.gaps.last_mut() else { return };
        let counted = self.counted.entry(gap.place.0).or_default();
        let since = since.max(*counted);
        if since < until {
            let at = self.visits.ticks(self.own.key, since).saturating_sub(self.hidden);
            gap.ticks = self.visits.between(self.own.key, gap.place.0, since, until);
            self.hidden += gap.ticks;
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

impl FlowSink for Sink {
    fn events(&mut self, events: &[Event]) {
        self.hear(events);
        self.to.events(events);
    }
    fn take(&mut self, events: &mut Vec<Event>) {
        self.hear(events);
        self.to.take(events);
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

/// Parts of what ran, 1 together. [The module](self) says of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Captured, and decoded with positions.
    pub decoded: f64,
    /// Captured; positions were found by projection.
    pub projected: f64,
    /// Captured, but only opcodes are known.
    pub orphans: f64,
    /// Lost, and filled in.
    pub recovered: f64,
    /// Lost; an estimate.
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
    /// On a core.
    pub on_core: u64,
    /// Those of them that gaps hide.
    pub lost: u64,
    /// Those of them that gaps hid which are filled.
    pub recovered: u64,
}

impl Ticks {
    fn add(&mut self, other: Self) {
        self.on_core += other.on_core;
        self.lost += other.lost;
        self.recovered += other.recovered;
    }
}

/// What is known of what one thread did, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Known {
    /// Time.
    pub ticks: Ticks,
    /// Gaps that are left.
    pub gaps: u64,
    /// Bytes of recorded trace in them, as far as they tell.
    pub skipped_bytes: u64,
    /// Bytecodes of known position.
    pub bytecodes: Tally,
    /// Bytecodes of which only the opcode is known.
    pub orphans: u64,
    /// Bytecodes that the gaps hide, estimated.
    pub lost: u64,
    /// Stretches of compiled code whose bytecodes are not known.
    pub unresolved: u64,
    /// Parts of what ran; `None` where no bytecode is known.
    pub shares: Option<Shares>,
}

impl Known {
    /// `decoded`: the same thread before gaps were filled.
    fn of(told: &Told, decoded: &Told, visits: &Visits) -> Self {
        let mut known = Self {
            gaps: told.gaps.len() as u64,
            bytecodes: told.bytecodes,
            orphans: told.orphans,
            unresolved: told.unresolved,
            ..Self::default()
        };
        known.ticks.on_core = visits.ticks(told.key, u64::MAX);
        // What is not filled comes out as it went in; what is new takes no time.
        let mut left: HashMap<Identity, u32> = HashMap::new();
        told.gaps.iter().for_each(|g| *left.entry(g.identity()).or_default() += 1);
        let mut lost = 0.0;
        for gap in &decoded.gaps {
            match left.get_mut(&gap.identity()).filter(|n| **n > 0) {
                Some(n) => {
                    *n -= 1;
                    known.ticks.lost += gap.ticks;
                    known.skipped_bytes += gap.bytes;
                    lost += gap.bytecodes;
                }
                None => known.ticks.recovered += gap.ticks,
            }
        }
        known.lost = lost.round() as u64;
        known.shares = known.divided();
        known
    }
    fn divided(&self) -> Option<Shares> {
        let known = self.bytecodes.total() + self.orphans;
        let part = |n: u64| n as f64 / (known + self.lost) as f64;
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
        self.skipped_bytes += other.skipped_bytes;
        self.bytecodes.merge(&other.bytecodes);
        self.orphans += other.orphans;
        self.lost += other.lost;
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

/// A thread, and what is known of what it did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadExecution {
    /// OS thread id.
    pub tid: u32,
    /// TSC of its start.
    pub started: u64,
    /// Name.
    pub name: String,
    /// What is known.
    #[serde(flatten)]
    pub known: Known,
}

/// Threads of which no bytecode is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// So many.
    pub threads: u64,
    /// Time.
    pub ticks: Ticks,
}

/// Which part of what the threads did is known, and how. [The module](self) defines it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Execution {
    /// All threads of which a bytecode is known.
    pub total: Known,
    /// The others.
    pub silent: Silent,
    /// Each thread, by start and id.
    pub threads: Vec<ThreadExecution>,
}

impl Execution {
    /// `decoded`: what was heard before gaps were filled, `shown`: what was heard of the flows that are shown; the same where
    /// none were filled.
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
    /// A table: all, then each thread of which a bytecode is known.
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

/// In per cent; only what is nothing and only what is all is shown as such.
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
    use crate::testing::{bytecode, feed, projected, recovered};
    use jportal_flow::GapReason;
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
    /// Thread 7 is on core 0 from 100 to 200 and from 400 to 500, on core 1 from 200 to 300; thread 8 on core 0 from 200 to 400.
    fn visits() -> Arc<Visits> {
        let mut v = Visits::default();
        for (tid, core, came, left) in
            [(7, 0, 100, 200), (8, 0, 200, 400), (7, 0, 400, 500), (7, 1, 200, 300)]
        {
            v.add((tid, Tsc(0)), Core(core), (Tsc(came), Tsc(left)));
        }
        Arc::new(v)
    }
    fn heard(flows: &[(u32, &[Event])]) -> Heard {
        let mut nothing = crate::Threads::default();
        let mut listener = Listener::new(visits(), &mut nothing);
        flows.iter().for_each(|(tid, events)| feed(&mut listener, *tid, events));
        let heard = listener.heard();
        assert_eq!(nothing.totals().len(), flows.len(), "the consumer behind hears it, too");
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
        // Thread 8 was there from 200 to 400, and what thread 7 did on core 1 is known.
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
        // Four bytecodes in the 210 ticks that were captured: one in the 60 that were not.
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
        // Thread 8 may have done nothing.
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
