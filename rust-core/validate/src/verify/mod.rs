// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Verification: compares the probes that the flow passes with the probes that really ran.
//!
//! The oracle agent inserts a probe at every bytecode block and logs, per OS thread, which ids
//! were hit. The exported bytecodes contain the same ids, so every execution of a probe call in
//! the flow has one. `align` describes how the two sequences are compared.

mod align;
mod log;
mod place;
mod probes;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Tally, ThreadInfo, UnresolvedCounts};
use jportal_plain::line;
use jportal_plain::table::{Align, percent, table};
use jportal_units::{Tid, Tsc};
use serde::Serialize;

use crate::circumstance::{
    ByTier, Groups, Hidden, MismatchGroup, UnresolvedGroup, group, mismatch_groups, mismatch_text,
    unresolved_groups, unresolved_text,
};
use align::{Aligner, AlignmentFigures, Disagreement};
pub use log::{LogError, ProbeLog};
pub(crate) use log::{LogHeader, read_full};
pub use probes::Probes;
pub(crate) use probes::is_probe;
use probes::{HitFinder, Passed};

/// A probe, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbePlace {
    /// Its id.
    pub id: u32,
    /// Its method; `None` if the capture has no method with this probe.
    pub method: Option<String>,
    /// The bci of the probe call.
    pub bci: Option<u16>,
    /// Source line.
    pub line: Option<u16>,
}

/// The first place at which a thread's flow and log disagree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// OS thread id.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// Number of the log entry, from 0.
    pub log_index: u64,
    /// Number of the event in the thread's flow, from 0; `None` after its end.
    pub event: Option<u64>,
    /// The event to inspect: `event`, or the last one that agreed.
    pub look_at: Option<u64>,
    /// Start (TSC) of the Java thread whose flow contains `event`.
    pub started: u64,
    /// The probe in the log; `None` after the end of the log.
    pub expected: Option<ProbePlace>,
    /// The probe in the flow; `None` after its end.
    pub found: Option<ProbePlace>,
}

/// The verdict on one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadVerdict {
    /// OS thread id.
    pub tid: u32,
    /// Name; the first one if several Java threads shared the OS thread; empty if the flow has
    /// no name.
    pub name: String,
    /// Probes that ran.
    pub probes: u64,
    /// Probes in the flow.
    pub flow_probes: u64,
    /// Probes of the flow that ran, in order.
    pub matched: u64,
    /// The same by provenance.
    pub matched_by: Tally,
    /// Probes that ran and are not in the flow, and that no gap explains.
    pub missing: u64,
    /// Probes in the flow that did not run.
    pub extra: u64,
    /// Probes that ran and were lost in gaps.
    pub lost_in_gaps: u64,
    /// Probes that ran before the recording began or after it ended ([`Verifier::of_part`]).
    pub outside: u64,
    /// Probes that ran on unresolved stretches of the flow.
    pub unresolved: u64,
    /// Gaps of the flow.
    pub gaps: u64,
    /// Places of disagreement, gaps excluded.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatch: Option<Mismatch>,
    /// Probes by the tier that executed them.
    pub tiers: ByTier,
    /// Why the log could not be read to its end.
    pub log_error: Option<String>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Probes that ran, all threads.
    pub probes: u64,
    /// Probes of the flow that ran, in order.
    pub matched: u64,
    /// The same by provenance.
    pub matched_by: Tally,
    /// Sum over the threads, like the next five.
    pub missing: u64,
    /// See [`ThreadVerdict::extra`].
    pub extra: u64,
    /// See [`ThreadVerdict::lost_in_gaps`].
    pub lost_in_gaps: u64,
    /// See [`ThreadVerdict::outside`].
    pub outside: u64,
    /// See [`ThreadVerdict::unresolved`].
    pub unresolved: u64,
    /// See [`ThreadVerdict::mismatches`].
    pub mismatches: u64,
    /// Probes in the capture's bytecodes.
    pub known_probes: usize,
    /// No mismatch: everything in the flow is true, though the flow may lack something.
    pub exact: bool,
    /// Exact, every probe matched except those outside, and at least one probe matched.
    pub complete: bool,
    /// The first mismatch of the thread with the lowest id that has one.
    pub first_mismatch: Option<Mismatch>,
    /// Probes by the tier that executed them, all threads.
    pub tiers: ByTier,
    /// Unresolved stretches by tier and cause, most hidden probes first.
    pub unresolved_by_cause: Vec<UnresolvedGroup>,
    /// The mismatches in groups, most places first.
    pub mismatch_groups: Vec<MismatchGroup>,
    /// Threads with probes in the log or in the flow.
    pub threads: Vec<ThreadVerdict>,
}

#[derive(Debug)]
struct ProbeContext {
    methods: Arc<MethodTable>,
    probes: Probes,
}

/// The probes of one OS thread: those passed by the flow and those in the log.
#[derive(Debug)]
struct Lane {
    tid: u32,
    name: String,
    /// The thread was still running when the recording ended.
    cut_off: bool,
    /// A gap dropped the frames that were on the stack.
    frames_lost: bool,
    hits: HitFinder,
    aligner: Aligner,
    /// The flows of the OS thread: start of the Java thread, and number of its first event.
    flows: Vec<(Tsc, u64)>,
}

/// The sums that are not sums of the threads' figures.
#[derive(Debug, Default)]
struct VerifierSums {
    unresolved: UnresolvedCounts,
    hidden: Hidden,
    groups: Groups<Mismatch>,
}

type SharedLane = Arc<Mutex<Lane>>;

fn locked(lane: &SharedLane) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares the flows of all threads with their logs.
///
/// The log is per OS thread, the flow per Java thread: the main thread's OS thread appears
/// again as `DestroyJavaVM`. Flows that share an OS thread must be given in order.
#[derive(Debug)]
pub struct Verifier {
    shared: ProbeContext,
    exits: Vec<(Tid, Tsc)>,
    part: bool,
    open: Mutex<LaneAssignment>,
}

/// The logs without a lane, and the lanes.
#[derive(Debug)]
struct LaneAssignment {
    logs: Vec<ProbeLog>,
    lanes: Vec<(u32, SharedLane)>,
}

/// When the thread ended, by the ends that the VM recorded; `None` if it was still running at the
/// end of the recording.
pub(crate) fn exit_of(exits: &[(Tid, Tsc)], info: &ThreadInfo) -> Option<Tsc> {
    let own = exits.iter().filter(|(tid, at)| *tid == info.tid && *at >= info.started);
    own.map(|(_, at)| *at).min()
}

/// Whether a log, by its thread id and first time, is of the thread: begun within the thread's
/// life, or before the recording of it if `part`. The kernel gives a thread id to several threads
/// in turn.
pub(crate) fn is_log_of(
    (tid, first_tsc): (u32, u64),
    info: &ThreadInfo,
    exit: Option<Tsc>,
    part: bool,
) -> bool {
    tid == info.tid.get()
        && (part || first_tsc >= info.started.get())
        && exit.is_none_or(|at| first_tsc <= at.get())
}

impl Verifier {
    /// `logs`: all logs of the run. `exits`: the ends of threads, as the VM recorded them.
    pub fn new(methods: Arc<MethodTable>, mut logs: Vec<ProbeLog>, exits: Vec<(Tid, Tsc)>) -> Self {
        let probes = Probes::find(&methods);
        logs.sort_by_key(|l| (l.tid, l.first_tsc));
        let open = Mutex::new(LaneAssignment { logs, lanes: Vec::new() });
        Self { shared: ProbeContext { methods, probes }, exits, part: false, open }
    }

    /// The recording covers a part of the run: probes before and after it are not missing, and
    /// threads may have begun before it.
    #[must_use]
    pub fn of_part(self) -> Self {
        Self { part: true, ..self }
    }

    /// The lane of a thread: its own if it has a log, else that of its OS thread.
    fn lane(&self, info: &ThreadInfo) -> SharedLane {
        let exit = exit_of(&self.exits, info);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |l: &ProbeLog| is_log_of((l.tid, l.first_tsc), info, exit, self.part);
        let log = open.logs.iter().position(is_own).map(|i| open.logs.remove(i));
        let tid = info.tid.get();
        let known = open.lanes.iter().rev().find(|(t, _)| *t == tid).map(|(_, lane)| Arc::clone(lane));
        if let (None, Some(lane)) = (&log, known) {
            locked(&lane).cut_off = exit.is_none();
            return lane;
        }
        let lane = Arc::new(Mutex::new(Lane {
            tid,
            name: info.name.clone(),
            cut_off: exit.is_none(),
            frames_lost: self.part,
            hits: HitFinder::default(),
            aligner: if self.part { Aligner::of_part(log) } else { Aligner::new(log) },
            flows: Vec::new(),
        }));
        open.lanes.push((tid, Arc::clone(&lane)));
        lane
    }

    /// The verdict. Logs of threads without a flow count as missing.
    pub fn finish(self) -> Verdict {
        let (mut threads, mut sums) = (Vec::new(), VerifierSums::default());
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The threads' states, which share the lanes, have been merged.
        for lane in open.lanes.into_iter().filter_map(|(_, lane)| Arc::into_inner(lane)) {
            let lane = lane.into_inner().unwrap_or_else(PoisonError::into_inner);
            threads.extend(lane.finish(&self.shared, &mut sums));
        }
        for log in open.logs {
            let tid = log.tid;
            let aligner = if self.part { Aligner::of_part(Some(log)) } else { Aligner::new(Some(log)) };
            let outcome = aligner.finish(false);
            threads.extend(self.shared.verdict_on(tid, String::new(), &[], &outcome, &mut sums));
        }
        threads.sort_by_key(|t| t.tid);
        self.shared.verdict(threads, &sums)
    }
}

impl Lane {
    fn events(&mut self, shared: &ProbeContext, started: Tsc, events: &[Event]) {
        if self.flows.last().is_none_or(|f| f.0 != started) {
            let open = self.hits.end();
            self.passed(open);
            self.flows.push((started, self.hits.events()));
        }
        for e in events {
            let passed = self.hits.event(&shared.probes, e);
            self.passed(passed);
            match &e.kind {
                EventKind::Gap(gap) => {
                    self.frames_lost |= gap.stack_lost;
                    self.aligner.gap();
                }
                // The return into a frame that an earlier gap dropped: the events in it between
                // the call and this point were lost in the gap.
                EventKind::Enter { entry: Entry::Found, .. } if self.frames_lost => self.aligner.hole(),
                _ => {}
            }
        }
    }
    #[inline]
    fn passed(&mut self, passed: Option<Passed>) {
        match passed {
            None => {}
            Some(Passed::Hit(hit)) => self.aligner.hit(hit),
            Some(Passed::Perhaps(hit)) => self.aligner.perhaps(hit),
        }
    }
    fn finish(mut self, shared: &ProbeContext, sums: &mut VerifierSums) -> Option<ThreadVerdict> {
        let open = self.hits.end();
        self.passed(open);
        let outcome = self.aligner.finish(self.cut_off);
        sums.unresolved.merge(&self.hits.circumstances.unresolved);
        shared.verdict_on(self.tid, self.name, &self.flows, &outcome, sums)
    }
}

/// A thread's place among the lanes.
#[derive(Debug)]
pub struct VerifiedThread {
    lane: SharedLane,
    started: Tsc,
}

impl Analysis for Verifier {
    type Thread = VerifiedThread;

    fn begin(&self, info: &ThreadInfo) -> VerifiedThread {
        VerifiedThread { lane: self.lane(info), started: info.started }
    }
    fn events(&self, thread: &mut VerifiedThread, events: &[Event]) -> ControlFlow<Enough> {
        locked(&thread.lane).events(&self.shared, thread.started, events);
        ControlFlow::Continue(())
    }
    fn merge(&mut self, _: VerifiedThread) {}
    fn takes_runs(&self) -> bool {
        false
    }
}

impl ProbeContext {
    fn place(&self, id: u32) -> ProbePlace {
        let place = self.probes.place(id);
        let method = place.and_then(|(m, _)| self.methods.get(m));
        ProbePlace {
            id,
            method: method.map(Method::qualified_name),
            bci: place.map(|(_, bci)| bci.get()),
            line: place.and_then(|(_, bci)| method?.line_at(bci)),
        }
    }
    fn mismatch(&self, tid: u32, name: &str, flows: &[(Tsc, u64)], d: &Disagreement) -> Mismatch {
        // Events are numbered anew in each flow of an OS thread.
        let look_at = d.event.or(d.agreed);
        let of = flows.iter().rev().find(|f| look_at.is_some_and(|e| e >= f.1));
        let (started, first) = of.map_or((Tsc(0), 0), |f| *f);
        let own = |event: u64| event.checked_sub(first);
        Mismatch {
            tid,
            thread: name.to_owned(),
            log_index: d.log_index,
            event: d.event.and_then(own),
            look_at: look_at.and_then(own),
            started: started.get(),
            expected: d.expected.map(|id| self.place(id)),
            found: d.found.map(|id| self.place(id)),
        }
    }
    /// `None` for a thread without probes.
    fn verdict_on(
        &self,
        tid: u32,
        name: String,
        flows: &[(Tsc, u64)],
        o: &AlignmentFigures,
        sums: &mut VerifierSums,
    ) -> Option<ThreadVerdict> {
        if o.log == 0 && o.flow == 0 && o.error.is_none() {
            return None;
        }
        for (&key, n) in &o.hidden {
            *sums.hidden.entry(key).or_default() += n;
        }
        for (&key, g) in &o.groups {
            let first = self.mismatch(tid, &name, flows, &g.first);
            group(&mut sums.groups, key, (g.missing, g.extra), first);
            if let Some(sum) = sums.groups.get_mut(&key) {
                sum.places += g.places - 1;
            }
        }
        Some(ThreadVerdict {
            tid,
            probes: o.log,
            flow_probes: o.flow,
            matched: o.matched.total(),
            matched_by: o.matched,
            missing: o.missing,
            extra: o.extra,
            lost_in_gaps: o.lost,
            outside: o.outside,
            unresolved: o.unresolved,
            gaps: o.gaps,
            mismatches: o.mismatches,
            first_mismatch: o.first.map(|d| self.mismatch(tid, &name, flows, &d)),
            tiers: o.tiers,
            log_error: o.error.clone(),
            name,
        })
    }
    fn verdict(&self, threads: Vec<ThreadVerdict>, sums: &VerifierSums) -> Verdict {
        let sum = |f: fn(&ThreadVerdict) -> u64| threads.iter().map(f).sum::<u64>();
        let mut matched_by = Tally::default();
        let mut tiers = ByTier::default();
        for t in &threads {
            matched_by.merge(&t.matched_by);
            tiers.merge(&t.tiers);
        }
        let mismatches = sum(|t| t.mismatches);
        let probes = sum(|t| t.probes);
        let exact = mismatches == 0 && threads.iter().all(|t| t.log_error.is_none());
        Verdict {
            probes,
            matched: sum(|t| t.matched),
            matched_by,
            missing: sum(|t| t.missing),
            extra: sum(|t| t.extra),
            lost_in_gaps: sum(|t| t.lost_in_gaps),
            outside: sum(|t| t.outside),
            unresolved: sum(|t| t.unresolved),
            mismatches,
            known_probes: self.probes.len(),
            exact,
            complete: exact && sum(|t| t.matched) > 0 && sum(|t| t.matched + t.outside) == probes,
            first_mismatch: threads.iter().find_map(|t| t.first_mismatch.clone()),
            tiers,
            unresolved_by_cause: unresolved_groups(&sums.unresolved, &sums.hidden),
            mismatch_groups: mismatch_groups(&sums.groups, mismatch_words),
            threads,
        }
    }
}

impl Verdict {
    /// A table of threads, the sums, and the first mismatch.
    pub fn text(&self) -> String {
        let row = |t: &ThreadVerdict| {
            let name = if t.name.is_empty() { "(not in the flow)" } else { &t.name };
            let mut cells = vec![t.tid.to_string(), name.to_owned()];
            cells.extend([t.probes, t.matched].map(|n| n.to_string()));
            cells.push(percent(t.matched, t.probes));
            cells.extend(
                [t.missing, t.extra, t.lost_in_gaps, t.unresolved, t.mismatches].map(|n| n.to_string()),
            );
            cells
        };
        let rows: Vec<_> = self.threads.iter().map(row).collect();
        let mut columns = vec![("tid", Align::Right), ("thread", Align::Left)];
        let figures =
            ["probes", "matched", "", "missing", "extra", "lost in gaps", "unresolved", "mismatches"];
        columns.extend(figures.map(|name| (name, Align::Right)));
        let mut text = table(&columns, &rows);
        text += &self.tiers.text("probes");
        text += &unresolved_text(&self.unresolved_by_cause, "probes");
        text += &mismatch_text(&self.mismatch_groups);
        let share = percent(self.matched, self.probes);
        text.push_str(&format!("{} of {} probes matched ({share})", self.matched, self.probes));
        let Tally { projected, recovered, .. } = self.matched_by;
        if projected + recovered > 0 {
            text.push_str(&format!(", {projected} of them projected, {recovered} recovered"));
        }
        if self.outside > 0 {
            text.push_str(&format!("; {} ran before or after the recording", self.outside));
        }
        text.push('\n');
        for t in &self.threads {
            if let Some(e) = &t.log_error {
                text.push_str(&format!("tid {}: {}\n", t.tid, line(e)));
            }
        }
        if let Some(m) = &self.first_mismatch {
            text.push_str(&first_mismatch_text(m));
        }
        text
    }
}

/// A short description of where a mismatch is.
fn mismatch_words(m: &Mismatch) -> String {
    let at = m.expected.as_ref().or(m.found.as_ref()).and_then(|p| {
        let method = p.method.as_ref()?;
        Some(format!(
            "{}{} @{}",
            method.split('(').next()?,
            if method.contains('(') { "(…)" } else { "" },
            p.bci?
        ))
    });
    format!("{}, tid {}, log entry {}", at.unwrap_or_else(|| "end".into()), m.tid, m.log_index)
}

fn first_mismatch_text(m: &Mismatch) -> String {
    let event =
        m.event.map_or_else(|| "behind the end of the flow".to_owned(), |e| format!("flow event {e}"));
    let place = |p: &Option<ProbePlace>, none: &str| match p {
        None => none.to_owned(),
        Some(ProbePlace { id, method: Some(method), bci: Some(bci), line }) => {
            let line = line.map(|l| format!(" line {l}")).unwrap_or_default();
            format!("probe {id}, {} @{bci}{line}", jportal_plain::line(method))
        }
        Some(p) => format!("probe {}, not in the capture's bytecodes", p.id),
    };
    format!(
        "first mismatch: thread \"{}\" (tid {}), log entry {}, {event}\n  ran:  {}\n  flow: {}\n",
        line(&m.thread),
        m.tid,
        m.log_index,
        place(&m.expected, "nothing (end of the log)"),
        place(&m.found, "nothing (end of the flow)")
    )
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
