// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Follows the flows of all threads and judges JFR's samples.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{Blocks, MethodTable};
use jportal_flow::{Analysis, Enough, Entry, Event, EventKind, Exit, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId};

use super::read::{BEFORE_FIRST, JfrFrame, JfrFrameType, JfrSample, JfrSamples};
use super::report::{JfrReport, JfrVerdict, JfrWhere, JudgedSample};
use super::search::{CallSite, Nearest, StackHashes, StackSearch};
use super::time::WallClock;
use crate::stacks::compare::{Compared, Comparer, Loaders, MethodNames, NAMED, TrueFrame};
use crate::stacks::log::{LoggedMethods, StackApi, TakenFrame, TakenStack};
use crate::stacks::true_stack::TrueStack;

/// How samples are judged.
#[derive(Clone, Debug)]
pub struct JfrOptions {
    /// The clocks of JFR and of the capture.
    pub clock: WallClock,
    /// How far from a sample's time its stack may be, in milliseconds.
    pub window_ms: f64,
    /// Maximum number of findings.
    pub findings: usize,
}

/// Judges the samples of JFR by the flow.
#[derive(Debug)]
pub struct JfrAnalysis {
    shared: JfrContext,
    /// Whether a flow of the sample's thread was found.
    claimed: Mutex<Vec<bool>>,
    judged: Vec<JudgedSample>,
}

/// What all threads need.
#[derive(Debug)]
struct JfrContext {
    methods: Arc<MethodTable>,
    /// By method of the capture: the index among the sampled ones.
    numbers: Vec<Option<u32>>,
    names: MethodNames,
    samples: JfrSamples,
    /// By sample.
    times: Vec<u64>,
    options: JfrOptions,
    /// The window in ticks.
    window: u64,
}

impl JfrContext {
    /// The number of a method in hashes: its index among the sampled ones, else one of its own.
    fn number(&self, method: MethodId) -> u64 {
        let number = self.numbers.get(method.get() as usize).copied().flatten();
        number.map_or(1 << 32 | u64::from(method.get()), u64::from)
    }
}

impl JfrAnalysis {
    /// Judges `samples`.
    pub fn new(methods: Arc<MethodTable>, samples: JfrSamples, options: JfrOptions) -> Self {
        let logged = LoggedMethods::numbered(NAMED, samples.methods.iter().cloned());
        let names = MethodNames::new(&logged, &methods);
        let by_name: HashMap<(&str, &str, &str), u32> = (0..)
            .zip(samples.methods.iter())
            .map(|(n, m)| ((&*m.class, &*m.name, &*m.descriptor), n))
            .collect();
        let number = |m: &jportal_bytecode::Method| {
            by_name.get(&(m.class_name.as_ref(), m.name.as_ref(), m.signature.as_ref())).copied()
        };
        let numbers = methods.iter().map(number).collect();
        drop(by_name);
        let times: Vec<u64> = samples.all.iter().map(|s| options.clock.tsc(s.unix_ns)).collect();
        let (claimed, window) = (vec![false; times.len()].into(), options.clock.ticks(options.window_ms));
        let shared = JfrContext { methods, numbers, names, samples, times, options, window };
        Self { shared, claimed, judged: Vec::new() }
    }
    /// The report. The flows must have ended.
    pub fn finish(self) -> JfrReport {
        let claimed = self.claimed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (shared, mut judged) = (self.shared, self.judged);
        for (n, _) in claimed.iter().enumerate().filter(|(_, claimed)| !**claimed) {
            judged.push(JudgedSample::not_judged(n, "the capture has no flow of the thread"));
        }
        judged.sort_by_key(|j| j.sample);
        let (samples, methods, options) = (&shared.samples, &shared.methods, &shared.options);
        JfrReport::new(&judged, (samples, &shared.names, methods), options)
    }
}

/// The nearest thing to a sample's stack around the time of the sample.
#[derive(Debug)]
struct Closest {
    /// Number of the sample in the thread.
    sample: usize,
    /// Number of outermost frames that the sample and the present stack share.
    shared: usize,
    /// Of `frames`: shared frames, whether the top methods are equal, difference of the depths.
    best: Option<(usize, bool, Reverse<usize>)>,
    frames: Vec<TrueFrame>,
}

/// A thread whose samples are searched for.
#[derive(Debug)]
pub struct JfrThread {
    /// Indices of its samples, in order of time, and the hashes of each.
    samples: Vec<(usize, StackHashes)>,
    truth: TrueStack,
    hashes: StackHashes,
    search: StackSearch,
    /// The stack has changed since the last look.
    changed: bool,
    /// The fewest frames since the last look.
    low: usize,
    /// Why the flow does not exclude that another stack existed.
    lost: Option<&'static str>,
    /// Hashes of outermost frames of samples, and whether the thread had them.
    outermost: HashMap<u64, bool>,
    /// Hashes of stacks, of those in `outermost`, on top of which the flow does not know what ran.
    hidden: HashSet<u64>,
    /// The methods of which that is so, in any stack.
    hidden_methods: HashSet<u64>,
    /// Methods that called something at a position that is not known.
    vague: HashSet<u64>,
    /// Whether a bytecode begins there.
    begins: HashMap<(MethodId, u16), bool>,
    /// The samples whose window includes the present, and the first one after them.
    open: Vec<Closest>,
    next: usize,
    done: Vec<Closest>,
}

impl JfrThread {
    fn new(shared: &JfrContext, info: &ThreadInfo, own: Vec<usize>) -> Self {
        let all = &shared.samples.all;
        let search = StackSearch::new(own.iter().map(|&s| (shared.times[s], &all[s])), info.started.get());
        let samples: Vec<_> = own.into_iter().map(|s| (s, StackHashes::of(&all[s]))).collect();
        let whole = samples.iter().filter(|(s, _)| !all[*s].truncated);
        let outermost =
            whole.flat_map(|(_, hashes)| hashes.all().iter().map(|hash| (*hash, false))).collect();
        Self {
            samples,
            truth: TrueStack::default(),
            hashes: StackHashes::default(),
            search,
            changed: false,
            low: 0,
            lost: None,
            outermost,
            hidden: HashSet::new(),
            hidden_methods: HashSet::new(),
            vague: HashSet::new(),
            begins: HashMap::new(),
            open: Vec::new(),
            next: 0,
            done: Vec::new(),
        }
    }

    fn event(&mut self, shared: &JfrContext, kind: &EventKind) {
        // A frame that continues as another kind of frame is popped and pushed: the stacks in
        // between did not exist.
        let replaces = matches!(
            kind,
            EventKind::Leave { exit: Exit::Replaced, .. }
                | EventKind::Enter { entry: Entry::Osr | Entry::Deoptimisation, .. }
                | EventKind::Code(_)
        );
        if self.changed && !replaces {
            self.look(shared);
        }
        match kind {
            EventKind::Enter { method, entry, .. } => {
                let site = self.site(shared);
                self.truth.follow(kind);
                self.push(shared, *method, site);
                if *entry == Entry::Found {
                    self.lost.get_or_insert("a frame is older than the trace");
                }
            }
            EventKind::Leave { .. } => {
                self.truth.follow(kind);
                self.shrink();
            }
            EventKind::Bytecode { method, bci, .. } => self.ran(shared, kind, *method, (*bci, *bci)),
            EventKind::Run { method, first, last, .. } => self.ran(shared, kind, *method, (*first, *last)),
            EventKind::Time(now) => self.at(shared, now.get()),
            EventKind::Unresolved { callers, .. } => self.unresolved(usize::from(*callers)),
            EventKind::Gap(_) => {
                self.lost.get_or_insert("the thread's flow has a gap");
                self.truth.follow(kind);
                self.shrink();
            }
            EventKind::Orphan(_) => _ = self.lost.get_or_insert("the thread's flow has a gap"),
            EventKind::Catch { .. } | EventKind::Code(_) => self.truth.follow(kind),
        }
    }

    fn push(&mut self, shared: &JfrContext, method: MethodId, site: CallSite) {
        self.hashes.truncate(self.truth.depth().saturating_sub(1));
        self.hashes.push(shared.number(method), site);
        if let Some(existed) = self.outermost.get_mut(&self.hashes.whole()) {
            *existed = true;
        }
        self.changed = true;
    }
    fn shrink(&mut self) {
        self.hashes.truncate(self.truth.depth());
        self.low = self.low.min(self.hashes.depth());
        self.changed = true;
    }
    /// Where the top frame calls.
    fn site(&mut self, shared: &JfrContext) -> CallSite {
        let Some((top, tier)) = self.truth.top() else { return CallSite::Bottom };
        match (tier, top.bci) {
            (Tier::Native, _) => CallSite::Native,
            (_, Some(bci)) => CallSite::At(bci.get()),
            (_, None) => {
                self.vague.insert(shared.number(top.method));
                CallSite::Unknown
            }
        }
    }
    /// What the top frame began last. `None`: it is native, or there is none.
    fn bci(&self) -> Option<u16> {
        let (top, _) = self.truth.top().filter(|(_, tier)| *tier != Tier::Native)?;
        Some(top.bci.map_or(BEFORE_FIRST, Bci::get))
    }
    fn ran(&mut self, shared: &JfrContext, kind: &EventKind, method: MethodId, (first, last): (Bci, Bci)) {
        self.truth.follow(kind);
        if self.hashes.depth() < self.truth.depth() {
            self.push(shared, method, CallSite::Unknown);
            self.lost.get_or_insert("a frame is older than the trace");
            self.look(shared);
        }
        let begins = &mut self.begins;
        let begins =
            |bci| *begins.entry((method, bci)).or_insert_with(|| is_bytecode(&shared.methods, method, bci));
        self.search.ran(first.get(), last.get(), begins);
    }
    fn unresolved(&mut self, callers: usize) {
        let depth = self.hashes.depth();
        for depth in depth.saturating_sub(callers)..=depth {
            let Some(hash) = depth.checked_sub(1).and_then(|at| self.hashes.all().get(at)) else { continue };
            if self.outermost.contains_key(hash) {
                self.hidden.insert(*hash);
            }
        }
        self.hidden_methods.extend(self.hashes.top());
    }
    fn at(&mut self, shared: &JfrContext, now: u64) {
        let bci = self.bci();
        self.search.at(now, bci);
        let time = |sample: usize| shared.times[sample];
        let mut opened = false;
        while let Some((sample, _)) =
            self.samples.get(self.next).filter(|s| time(s.0) <= now.saturating_add(shared.window))
        {
            if !shared.samples.all[*sample].truncated {
                self.open.push(Closest { sample: self.next, shared: 0, best: None, frames: Vec::new() });
                opened = true;
            }
            self.next += 1;
        }
        if opened {
            self.compare(shared);
        }
        let samples = &self.samples;
        let is_over = |c: &mut Closest| time(samples[c.sample].0).saturating_add(shared.window) < now;
        self.done.extend(self.open.extract_if(.., is_over));
    }
    /// The stack has settled.
    fn look(&mut self, shared: &JfrContext) {
        self.changed = false;
        self.search.is_now(&self.hashes, self.bci());
        self.compare(shared);
    }
    /// Compares the stack with the samples around the present time.
    fn compare(&mut self, shared: &JfrContext) {
        let (depth, low) = (self.hashes.depth(), std::mem::replace(&mut self.low, self.hashes.depth()));
        for open in &mut self.open {
            let wanted = self.samples[open.sample].1.all();
            open.shared = open.shared.min(low);
            let more = wanted.iter().zip(self.hashes.all()).skip(open.shared).take_while(|(a, b)| a == b);
            open.shared += more.count();
            let sample = &shared.samples.all[self.samples[open.sample].0].frames;
            let same_top = sample.first().map(|f| u64::from(f.method)) == self.hashes.top();
            let likeness = (open.shared, same_top, Reverse(depth.abs_diff(sample.len())));
            if open.best.is_none_or(|best| likeness > best) {
                open.best = Some(likeness);
                open.frames = self.truth.frames();
            }
        }
    }

    /// Judges the samples. The flow has ended.
    fn judge(mut self, shared: &JfrContext) -> Vec<JudgedSample> {
        if self.changed {
            self.look(shared);
        }
        // What the thread had last, it has until it ends.
        self.at(shared, u64::MAX);
        let mut closest: HashMap<usize, Closest> = HashMap::new();
        closest.extend(self.done.drain(..).chain(self.open.drain(..)).map(|c| (c.sample, c)));
        let nearest = self.search.results(self.samples.len());
        let own = nearest.into_iter().enumerate();
        own.map(|(n, nearest)| self.verdict(shared, (n, nearest), closest.remove(&n))).collect()
    }
    fn verdict(
        &self,
        shared: &JfrContext,
        (n, nearest): (usize, Nearest),
        closest: Option<Closest>,
    ) -> JudgedSample {
        let (index, hashes) = &self.samples[n];
        let sample = &shared.samples.all[*index];
        let is_near = |ticks: Option<u64>| ticks.is_some_and(|ticks| ticks <= shared.window);
        let verdict = match nearest {
            Nearest { bytecode, .. } if is_near(bytecode) => JfrVerdict::Equal,
            Nearest { stack: None, .. } => JfrVerdict::Impossible,
            Nearest { bytecode: None, .. } => JfrVerdict::WrongBytecode,
            Nearest { stack, .. } if is_near(stack) => JfrVerdict::OtherBytecode,
            _ => JfrVerdict::OtherTime,
        };
        let mut judged = JudgedSample { nearest: nearest.stack, ..JudgedSample::new(*index, verdict) };
        if !verdict.is_broken() {
            return judged;
        }
        if let Some(why) = self.lost.or_else(|| self.open_question(sample, hashes)) {
            return JudgedSample::not_judged(*index, why);
        }
        judged.place = self.place(sample, hashes, verdict);
        if let Some(Closest { frames, .. }) = closest {
            judged.compared = Some(compared(shared, sample, &frames));
            judged.truth = frames;
        }
        judged
    }
    /// Why the flow does not exclude the stack.
    fn open_question(&self, sample: &JfrSample, hashes: &StackHashes) -> Option<&'static str> {
        let method = |f: &JfrFrame| u64::from(f.method);
        // What is not resolved hides frames of inlined methods, no others.
        let innermost = innermost_of_machine(sample);
        let hidden = match sample.truncated {
            true => sample.frames.iter().take(innermost).any(|f| self.hidden_methods.contains(&method(f))),
            false => hashes.all()[hashes.depth() - innermost..].iter().any(|hash| self.hidden.contains(hash)),
        };
        if hidden {
            return Some("compiled code may have had it in bytecodes that are not resolved");
        }
        let is_vague = sample.frames.iter().skip(1).any(|f| self.vague.contains(&method(f)));
        is_vague.then_some("the position of a caller is not known")
    }
    /// Where the stack leaves what the thread had. `None`: it is truncated.
    fn place(&self, sample: &JfrSample, hashes: &StackHashes, verdict: JfrVerdict) -> Option<JfrWhere> {
        if verdict == JfrVerdict::WrongBytecode {
            return Some(JfrWhere::Innermost);
        }
        if sample.truncated {
            return None;
        }
        let existed = hashes.all().iter().take_while(|hash| self.outermost.get(*hash) == Some(&true)).count();
        let outer = sample.frames.len() + 1 - innermost_of_machine(sample);
        Some(if existed >= outer { JfrWhere::Innermost } else { JfrWhere::Caller })
    }
}

/// Number of frames of the innermost frame of the machine: those of inlined methods, and their
/// outermost caller.
fn innermost_of_machine(sample: &JfrSample) -> usize {
    let inlined = sample.frames.iter().take_while(|f| f.kind == JfrFrameType::Inlined).count();
    (inlined + 1).min(sample.frames.len())
}

/// Whether a bytecode of the method begins there.
fn is_bytecode(methods: &MethodTable, method: MethodId, bci: u16) -> bool {
    let blocks = methods.get(method).and_then(|m| Blocks::of(m).ok());
    blocks.is_none_or(|b| b.instruction_starts().binary_search(&Bci(bci)).is_ok())
}

/// The sample as the comparer takes it.
pub(super) fn taken(sample: &JfrSample) -> TakenStack {
    let frames = sample.frames.iter().map(|f| TakenFrame {
        method: NAMED | u64::from(f.method),
        location: if f.kind == JfrFrameType::Native { -1 } else { f.bci.into() },
    });
    TakenStack {
        // JFR's stacks are compared as those of GetStackTrace.
        api: StackApi::GstOther,
        truncated: sample.truncated,
        hit: sample.number,
        tsc: 0,
        pc: 0,
        error: 0,
        frames: frames.collect(),
    }
}

fn compared(shared: &JfrContext, sample: &JfrSample, truth: &[TrueFrame]) -> Compared {
    let (names, methods, mut loaders) = (&shared.names, &*shared.methods, Loaders::default());
    let mut comparer = Comparer { names, methods, loaders: &mut loaders };
    comparer.compare(&taken(sample), truth)
}

impl Analysis for JfrAnalysis {
    type Thread = JfrThread;

    fn begin(&self, info: &ThreadInfo) -> JfrThread {
        let shared = &self.shared;
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |s: &JfrSample| {
            s.tid == info.tid.get() && (s.java_tid == info.java_tid || s.java_tid == 0 || info.java_tid == 0)
        };
        let all = shared.samples.all.iter().enumerate();
        let mut own: Vec<usize> = all.filter(|(n, s)| !claimed[*n] && is_own(s)).map(|(n, _)| n).collect();
        own.iter().for_each(|n| claimed[*n] = true);
        own.sort_by_key(|n| shared.times[*n]);
        JfrThread::new(shared, info, own)
    }
    fn events(&self, thread: &mut JfrThread, events: &[Event]) -> ControlFlow<Enough> {
        if thread.samples.is_empty() {
            return ControlFlow::Break(Enough::OfThread);
        }
        events.iter().for_each(|e| thread.event(&self.shared, &e.kind));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, thread: JfrThread) {
        self.judged.extend(thread.judge(&self.shared));
    }
    fn takes_code(&self) -> bool {
        true
    }
    fn merges_in_any_order(&self) -> bool {
        true
    }
}
