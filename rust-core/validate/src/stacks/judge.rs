// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows the flows of all threads and judges the stacks that were taken in them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jportal_bytecode::MethodTable;
use jportal_flow::{Analysis, CodeStep, Enough, Entry, Event, EventKind, Exit, Stack, ThreadInfo, Tier};
use jportal_units::{MethodId, Tid, Tsc};

use super::anytime::AnytimeCounts;
use super::compare::{Compared, Comparer, Detail, Loaders, MethodNames, StackVerdict, TrueFrame, normalise};
use super::log::{LoggedMethods, StackApi, StackLog, TakenStack};
use super::report::{StacksReport, WrongStack, shown_taken, shown_truth};
use crate::verify::{exit_of, is_log_of, is_probe};

/// How the report is made.
#[derive(Clone, Debug)]
pub struct StacksOptions {
    /// Maximum number of findings.
    pub findings: usize,
    /// The capture, as in commands that a finding shows.
    pub capture: String,
    /// The interfaces to judge.
    pub apis: Vec<StackApi>,
    /// Stacks taken at any moment are judged in the same decode. The analysis then takes no runs,
    /// so that events have the numbers of single bytecodes.
    pub anytime: bool,
}

/// The properties by which broken stacks are grouped.
pub(crate) type StackGroupKey = (StackApi, StackVerdict, Detail, Vec<&'static str>);

/// The tier of a frame, and whether it is inlined.
pub(crate) type FrameKind = (Tier, bool);

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct StackCounts {
    pub(crate) verdicts: BTreeMap<(StackApi, StackVerdict, Detail), u64>,
    pub(crate) errors: BTreeMap<(StackApi, i32), u64>,
    pub(crate) not_judged: BTreeMap<(StackApi, &'static str), u64>,
    /// By the innermost Java frame: judged, broken.
    pub(crate) by_top: BTreeMap<(StackApi, FrameKind), (u64, u64)>,
    /// Compared frames, those without a known location, wrong ones.
    pub(crate) frames: BTreeMap<(StackApi, FrameKind), (u64, u64, u64)>,
    pub(crate) groups: BTreeMap<StackGroupKey, (u64, usize)>,
    pub(crate) findings: Vec<WrongStack>,
    pub(crate) log_errors: Vec<String>,
}

/// Where a broken stack was taken, and what names its frames.
pub(crate) struct WrongStackPlace<'a> {
    pub(crate) tid: u32,
    pub(crate) thread: &'a str,
    /// Number of the event in the thread's flow.
    pub(crate) event: u64,
    pub(crate) names: &'a MethodNames,
    pub(crate) methods: &'a MethodTable,
    pub(crate) capture: &'a str,
}

/// The stacks and the flows of one OS thread.
#[derive(Debug)]
struct StackLane {
    tid: u32,
    name: String,
    started: Tsc,
    log: Option<StackLog>,
    stack: Stack,
    /// Of the frames of `stack`, outermost first.
    kinds: Vec<FrameKind>,
    /// Calls of `Probe.hit` so far.
    hits: u64,
    /// The last event was the entry of `Probe.hit`.
    is_hit: bool,
    /// Why the number of calls is not known any more.
    lost: Option<&'static str>,
    /// Events so far, each bytecode counted as one.
    events: u64,
    /// The number of the event after the last deoptimisation and the last OSR.
    deoptimised: Option<u64>,
    replaced: Option<u64>,
    loaders: Loaders,
    counts: StackCounts,
}

/// Number of events within which a deoptimisation is a circumstance of a sample.
const NEAR: u64 = 100;
/// Findings kept for one group. The report shows one of each group before a second one of any.
const KEPT: u64 = 8;

type SharedLane = Arc<Mutex<StackLane>>;

fn locked(lane: &SharedLane) -> MutexGuard<'_, StackLane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Judges stacks by the flow.
///
/// A log is of an OS thread, a flow of a Java thread: the main thread's OS thread appears again as
/// `DestroyJavaVM`. Flows that share an OS thread must be given in order.
#[derive(Debug)]
pub struct StacksAnalysis {
    shared: JudgeContext,
    exits: Vec<(Tid, Tsc)>,
    open: Mutex<OpenLogs>,
}

#[derive(Debug)]
struct JudgeContext {
    methods: Arc<MethodTable>,
    names: MethodNames,
    options: StacksOptions,
    /// `Probe.hit`.
    probes: Vec<MethodId>,
}

#[derive(Debug, Default)]
struct OpenLogs {
    logs: Vec<StackLog>,
    lanes: Vec<SharedLane>,
}

impl StacksAnalysis {
    /// `logs`: all logs of the run. `exits`: the ends of threads, as the VM recorded them.
    pub fn new(
        methods: Arc<MethodTable>,
        logged: &LoggedMethods,
        mut logs: Vec<StackLog>,
        exits: Vec<(Tid, Tsc)>,
        options: StacksOptions,
    ) -> Self {
        logs.sort_by_key(|l| (l.tid, l.first_tsc));
        let names = MethodNames::new(logged, &methods);
        let probes = methods.iter().filter(|m| is_probe(m)).map(|m| m.id).collect();
        let shared = JudgeContext { methods, names, options, probes };
        Self { shared, exits, open: Mutex::new(OpenLogs { logs, lanes: Vec::new() }) }
    }

    /// The lane of a thread: its own if it has a log, else that of its OS thread.
    fn lane(&self, info: &ThreadInfo) -> SharedLane {
        let exit = exit_of(&self.exits, info);
        let is_own = |l: &StackLog| is_log_of((l.tid, l.first_tsc), info, exit, false);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let log = open.logs.iter().position(is_own).map(|i| open.logs.remove(i));
        let tid = info.tid.get();
        let known = open.lanes.iter().rev().find(|lane| locked(lane).tid == tid).map(Arc::clone);
        if let (None, Some(lane)) = (&log, known) {
            return lane;
        }
        let lane = Arc::new(Mutex::new(StackLane {
            tid,
            name: info.name.clone(),
            started: info.started,
            log,
            stack: Stack::default(),
            kinds: Vec::new(),
            hits: 0,
            is_hit: false,
            lost: None,
            events: 0,
            deoptimised: None,
            replaced: None,
            loaders: Loaders::default(),
            counts: StackCounts::default(),
        }));
        open.lanes.push(Arc::clone(&lane));
        lane
    }

    /// The report. Stacks without a flow are not judged.
    pub fn finish(self) -> StacksReport {
        self.finish_with(AnytimeCounts::default())
    }

    /// The report, with what was counted of stacks taken at any moment.
    pub fn finish_with(self, anytime: AnytimeCounts) -> StacksReport {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut counts = StackCounts::default();
        // The threads' states, which share the lanes, have been merged.
        for lane in open.lanes.into_iter().filter_map(Arc::into_inner) {
            let mut lane = lane.into_inner().unwrap_or_else(PoisonError::into_inner);
            lane.settle(&self.shared, None);
            if let Some(log) = &mut lane.log {
                let why = lane.lost.unwrap_or("the flow ends before the call");
                lane.counts.drop_rest(&self.shared.options, log, why);
            }
            counts.add(lane.counts);
        }
        for mut log in open.logs {
            counts.drop_rest(&self.shared.options, &mut log, "the capture has no flow of the thread");
        }
        counts.add(anytime.0);
        StacksReport::new(counts, &self.shared.options)
    }
}

impl StackCounts {
    /// Counts the rest of a log as not judged.
    fn drop_rest(&mut self, options: &StacksOptions, log: &mut StackLog, why: &'static str) {
        while let Some(taken) = log.take() {
            if options.apis.contains(&taken.api) {
                self.not_judged(taken.api, why);
            }
        }
        self.log_errors.extend(log.error().map(|e| format!("the log of thread {}: {e}", log.tid)));
    }
    pub(crate) fn error(&mut self, api: StackApi, code: i32) {
        *self.errors.entry((api, code)).or_default() += 1;
        *self.verdicts.entry((api, StackVerdict::Error, Detail::None)).or_default() += 1;
    }
    pub(crate) fn not_judged(&mut self, api: StackApi, why: &'static str) {
        *self.not_judged.entry((api, why)).or_default() += 1;
        *self.verdicts.entry((api, StackVerdict::NotJudged, Detail::None)).or_default() += 1;
    }
    pub(crate) fn count(&mut self, api: StackApi, compared: Compared, truth: &[TrueFrame]) {
        let Compared { verdict, detail, at } = compared;
        let broken = verdict.is_broken();
        *self.verdicts.entry((api, verdict, detail)).or_default() += 1;
        if let Some(top) = truth.iter().find(|f| f.tier != Tier::Native) {
            let counts = self.by_top.entry((api, (top.tier, top.inlined))).or_default();
            *counts = (counts.0 + 1, counts.1 + u64::from(broken));
        }
        // Beyond the first difference, nothing says which frame belongs to which. Of an imprecise
        // stack only the frames below the innermost one of the machine are compared, and of an
        // unpredictable one none.
        let (from, to) = match verdict {
            StackVerdict::Imprecise => {
                (truth.iter().position(|f| !f.inlined).map_or(0, |i| i + 1), truth.len())
            }
            StackVerdict::Unpredictable => (0, 0),
            _ if broken => (0, at + 1),
            _ => (0, truth.len()),
        };
        for (i, f) in truth.iter().enumerate().take(to).skip(from) {
            let open = f.tier != Tier::Native && f.bci.is_none();
            let counts = self.frames.entry((api, (f.tier, f.inlined))).or_default();
            let wrong = broken && i == at;
            *counts = (counts.0 + 1, counts.1 + u64::from(open), counts.2 + u64::from(wrong));
        }
    }
    /// Counts a broken stack in its group. Keeps it as a finding unless the group has enough.
    pub(crate) fn find(
        &mut self,
        place: &WrongStackPlace<'_>,
        (taken, truth): (&TakenStack, &[TrueFrame]),
        compared: Compared,
        tags: Vec<&'static str>,
    ) {
        let &WrongStackPlace { tid, thread, event, names, methods, capture } = place;
        let key = (taken.api, compared.verdict, compared.detail, tags.clone());
        let next = self.findings.len();
        let group = self.groups.entry(key).or_insert((0, next));
        group.0 += 1;
        if group.0 > KEPT {
            return;
        }
        self.findings.push(WrongStack {
            api: taken.api,
            verdict: compared.verdict,
            detail: compared.detail,
            tags,
            tid,
            thread: thread.to_owned(),
            hit: taken.hit,
            event,
            at: compared.at as u64,
            taken_depth: taken.frames.len() as u64,
            true_depth: truth.len() as u64,
            taken: shown_taken(names, taken, compared.at),
            truth: shown_truth(methods, truth, compared.at),
            see: format!("jportal dev blocks-around {capture} {event} --thread {tid}"),
        });
    }
    fn add(&mut self, other: Self) {
        fn sum<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
            from.into_iter().for_each(|(key, n)| *to.entry(key).or_default() += n);
        }
        sum(&mut self.verdicts, other.verdicts);
        sum(&mut self.errors, other.errors);
        sum(&mut self.not_judged, other.not_judged);
        for (key, (judged, broken)) in other.by_top {
            let all = self.by_top.entry(key).or_default();
            *all = (all.0 + judged, all.1 + broken);
        }
        for (key, (compared, open, wrong)) in other.frames {
            let all = self.frames.entry(key).or_default();
            *all = (all.0 + compared, all.1 + open, all.2 + wrong);
        }
        let before = self.findings.len();
        for (key, (n, first)) in other.groups {
            self.groups.entry(key).or_insert((0, before + first)).0 += n;
        }
        self.findings.extend(other.findings);
        self.log_errors.extend(other.log_errors);
    }
}

impl StackLane {
    /// The flow of another Java thread of the OS thread begins.
    fn begin_again(&mut self, shared: &JudgeContext, started: Tsc) {
        self.settle(shared, None);
        (self.started, self.events) = (started, 0);
        (self.stack, self.kinds) = Default::default();
        (self.deoptimised, self.replaced) = (None, None);
    }

    fn event(&mut self, shared: &JudgeContext, e: &Event) {
        if self.is_hit && !matches!(e.kind, EventKind::Time(_) | EventKind::Code(_)) {
            self.settle(shared, Some(&e.kind));
        }
        match &e.kind {
            EventKind::Enter { method, tier, entry } => {
                self.stack.follow(&e.kind);
                self.kinds.push((*tier, matches!(tier, Tier::C1 | Tier::C2)));
                match entry {
                    Entry::Deoptimisation => self.deoptimised = Some(self.events + 1),
                    Entry::Osr => self.replaced = Some(self.events + 1),
                    Entry::Found if self.hits == 0 && self.stack.depth() == 1 => {
                        self.lost.get_or_insert("the thread began before the recording");
                    }
                    Entry::Call | Entry::Upcall | Entry::Found => {}
                }
                self.is_hit =
                    *tier == Tier::Native && *entry == Entry::Call && shared.probes.contains(method);
            }
            EventKind::Leave { .. } => {
                self.stack.follow(&e.kind);
                self.kinds.pop();
            }
            EventKind::Code(CodeStep::Entered(_)) => {
                if let Some(top) = self.kinds.last_mut() {
                    top.1 = false;
                }
            }
            EventKind::Gap(gap) => {
                self.stack.follow(&e.kind);
                self.lost.get_or_insert("a gap in the thread's flow comes before");
                if gap.stack_lost {
                    self.kinds.clear();
                }
            }
            EventKind::Orphan(_) => {
                self.lost.get_or_insert("a gap in the thread's flow comes before");
            }
            kind => {
                self.stack.follow(kind);
                // A frame whose entry was not seen.
                if self.kinds.is_empty()
                    && let EventKind::Bytecode { tier, .. } | EventKind::Run { tier, .. } = kind
                {
                    self.kinds.push((*tier, false));
                }
            }
        }
        self.events += match &e.kind {
            EventKind::Code(_) => 0,
            kind => kind.bytecodes().max(1),
        };
    }

    /// The thread is in `Probe.hit`, and `next` follows: judges what was taken there.
    fn settle(&mut self, shared: &JudgeContext, next: Option<&EventKind>) {
        if !std::mem::take(&mut self.is_hit) {
            return;
        }
        if let Some(EventKind::Leave { exit: Exit::Unwind, .. }) = next {
            // The stack had no room for the native method, so the call did not get in.
            return;
        }
        let hit = self.hits;
        self.hits += 1;
        while let Some(taken) = self.log.as_ref().and_then(StackLog::peek) {
            if taken.hit > hit {
                break;
            }
            let Some(mut taken) = self.log.as_mut().and_then(StackLog::take) else { break };
            if shared.options.apis.contains(&taken.api) {
                self.judge(shared, &mut taken);
            }
        }
    }

    /// The true frames, innermost first.
    fn truth(&self) -> Vec<TrueFrame> {
        let kinds = self.kinds.iter().rev().copied();
        let frame = |(f, (tier, inlined)): (jportal_flow::Frame, FrameKind)| TrueFrame {
            method: f.method,
            bci: f.bci.filter(|_| tier != Tier::Native),
            tier,
            inlined,
            found: f.found,
        };
        self.stack.frames().zip(kinds).map(frame).collect()
    }

    fn judge(&mut self, shared: &JudgeContext, taken: &mut TakenStack) {
        let api = taken.api;
        if let Some(why) = self.lost {
            return self.counts.not_judged(api, why);
        }
        if taken.frames.is_empty() {
            return self.counts.error(api, taken.error);
        }
        let mut truth = self.truth();
        normalise(&shared.names, &shared.methods, taken, &mut truth);
        if taken.truncated {
            truth.truncate(taken.frames.len());
        }
        if self.kinds.len() != self.stack.depth() {
            return self.counts.not_judged(api, "the thread's stack is too deep");
        }
        if truth.iter().any(|f| f.found) {
            return self.counts.not_judged(api, "a frame is older than the trace");
        }
        let (names, methods) = (&shared.names, &*shared.methods);
        let compared = Comparer { names, methods, loaders: &mut self.loaders }.compare(taken, &truth);
        self.counts.count(api, compared, &truth);
        if compared.verdict.is_broken() {
            self.find(shared, taken, &truth, compared);
        }
    }

    /// The circumstances of a sample.
    fn tags(&self, shared: &JudgeContext, truth: &[TrueFrame]) -> Vec<&'static str> {
        let mut tags = tags_of(&shared.methods, truth);
        let near = |at: Option<u64>| at.is_some_and(|at| self.events - at <= NEAR);
        tags.extend(near(self.deoptimised).then_some("deoptimisation"));
        tags.extend(near(self.replaced).then_some("on-stack replacement"));
        tags
    }

    fn find(&mut self, shared: &JudgeContext, taken: &TakenStack, truth: &[TrueFrame], compared: Compared) {
        let tags = self.tags(shared, truth);
        let place = WrongStackPlace {
            tid: self.tid,
            thread: &self.name,
            event: self.events.saturating_sub(1),
            names: &shared.names,
            methods: &shared.methods,
            capture: &shared.options.capture,
        };
        self.counts.find(&place, (taken, truth), compared, tags);
    }
}

/// The circumstances of a sample that its frames show.
pub(crate) fn tags_of(methods: &MethodTable, truth: &[TrueFrame]) -> Vec<&'static str> {
    let mut tags = Vec::new();
    if let Some(top) = truth.iter().find(|f| f.tier != Tier::Native) {
        tags.push(top.tier.name());
        tags.extend(top.inlined.then_some("inlined"));
    }
    let is_handle = |f: &TrueFrame| {
        let method = methods.get(f.method);
        let class = method.and_then(|m| methods.classes().get(m.class));
        method.is_some_and(|m| m.class_name.starts_with("java/lang/invoke/"))
            || class.is_some_and(|c| c.hidden)
    };
    tags.extend(truth.iter().any(is_handle).then_some("method handle"));
    tags
}

/// A Java thread and what is known of its OS thread.
#[derive(Debug)]
pub struct JudgedThread {
    lane: SharedLane,
    started: Tsc,
}

impl Analysis for StacksAnalysis {
    type Thread = JudgedThread;

    fn begin(&self, info: &ThreadInfo) -> Self::Thread {
        JudgedThread { lane: self.lane(info), started: info.started }
    }
    fn events(&self, thread: &mut Self::Thread, events: &[Event]) -> ControlFlow<Enough> {
        let mut lane = locked(&thread.lane);
        if lane.started != thread.started {
            lane.begin_again(&self.shared, thread.started);
        }
        events.iter().for_each(|e| lane.event(&self.shared, e));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, _: Self::Thread) {}
    fn takes_code(&self) -> bool {
        true
    }
    fn takes_runs(&self) -> bool {
        !self.shared.options.anytime
    }
}
