// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts what compiled code did, thread by thread.

use hashbrown::{HashMap, HashSet};
use jportal_flow::{CodeStep, CodeStop, Entry, Event, EventKind, Exit, Tally, ThreadInfo, Tier};
use jportal_units::{Bci, MethodId, Tsc};

use super::JitAnalysis;
use crate::blocks::CountsThread;
use crate::polymorphism::outcome::{InvokeOutcome, Invokes, Site};
use crate::tree::TimeShares;

/// What executed a frame: the index of a compilation, or [`UNKNOWN`] and a tier.
pub(super) type Executor = u32;

/// The executor of frames of a tier whose code is not known, and of the interpreter.
const UNKNOWN: Executor = 1 << 31;

const fn unknown(tier: Tier) -> Executor {
    UNKNOWN | tier as Executor
}

/// Figures of one compilation.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeCounts {
    /// Calls of it.
    pub(super) calls: u64,
    /// Entries by on-stack replacement.
    pub(super) osr: u64,
    /// Frames of it that were on the stack when the trace began or resumed.
    pub(super) found: u64,
    pub(super) bytecodes: Tally,
    /// Time on cores, in ticks.
    pub(super) ticks: u64,
    pub(super) unresolved: u64,
    /// By block of the compilation: it was executed.
    pub(super) reached: Vec<bool>,
    /// Frames of which unresolved stretches hide a part.
    pub(super) hazy: HashSet<u32>,
    /// A part of any frame may be hidden.
    pub(super) hazy_all: bool,
}

impl CodeCounts {
    pub(super) fn ran(&self) -> bool {
        self.calls + self.osr + self.found + self.bytecodes.total() > 0
    }
    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.osr += other.osr;
        self.found += other.found;
        self.bytecodes.merge(&other.bytecodes);
        self.ticks += other.ticks;
        self.unresolved += other.unresolved;
        if self.reached.is_empty() {
            self.reached = other.reached;
        } else {
            self.reached.iter_mut().zip(other.reached).for_each(|(a, b)| *a |= b);
        }
        self.hazy.extend(other.hazy);
        self.hazy_all |= other.hazy_all;
    }
}

/// Calls at a site of one target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TargetCalls {
    pub(super) calls: Tally,
    /// Of them, those by compiled code.
    pub(super) compiled: u64,
    /// Of them, those whose callee ran in the caller's code.
    pub(super) inlined: u64,
    /// Of them, those of which that is not known.
    pub(super) undecided: u64,
}

/// A place at which frames were deoptimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DeoptPlace {
    pub(super) compilation: u32,
    pub(super) stop: Option<CodeStop>,
    /// The innermost method.
    pub(super) method: Option<MethodId>,
    /// The bytecode at which the interpreter took over; `None` before the first one.
    pub(super) bci: Option<Bci>,
}

/// How often, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeoptCount {
    pub(super) times: u64,
    pub(super) first: Option<Tsc>,
    pub(super) last: Option<Tsc>,
}

/// What all threads did, or one.
#[derive(Debug, Default)]
pub(super) struct JitCounted {
    pub(super) codes: HashMap<u32, CodeCounts>,
    pub(super) sites: HashMap<(Site, Option<MethodId>), TargetCalls>,
    /// Invokes of which the flow does not say whether they called.
    pub(super) unknown_calls: HashMap<Site, u64>,
    pub(super) deopts: HashMap<DeoptPlace, DeoptCount>,
    /// Bytecodes and ticks of frames whose code is not known, by tier; of the interpreter, all.
    pub(super) others: [(u64, u64); 4],
    /// Steps of code that the recording does not describe.
    pub(super) undescribed: u64,
}

impl JitCounted {
    pub(super) fn merge(&mut self, other: Self) {
        for (index, counts) in other.codes {
            self.codes.entry(index).or_default().merge(counts);
        }
        for (key, calls) in other.sites {
            let sum = self.sites.entry(key).or_default();
            sum.calls.merge(&calls.calls);
            sum.compiled += calls.compiled;
            sum.inlined += calls.inlined;
            sum.undecided += calls.undecided;
        }
        for (site, n) in other.unknown_calls {
            *self.unknown_calls.entry(site).or_default() += n;
        }
        for (place, count) in other.deopts {
            let sum = self.deopts.entry(place).or_default();
            sum.times += count.times;
            sum.first = sum.first.into_iter().chain(count.first).min();
            sum.last = sum.last.max(count.last);
        }
        for (sum, other) in self.others.iter_mut().zip(other.others) {
            *sum = (sum.0 + other.0, sum.1 + other.1);
        }
        self.undescribed += other.undescribed;
    }
    fn spend(&mut self, executor: Executor, ticks: u64) {
        if executor < UNKNOWN {
            self.codes.entry(executor).or_default().ticks += ticks;
        } else if let Some(sum) = self.others.get_mut((executor & 3) as usize) {
            sum.1 += ticks;
        }
    }
}

/// A frame of a thread.
#[derive(Clone, Copy, Debug)]
struct TieredFrame {
    method: MethodId,
    tier: Tier,
    entry: Entry,
    /// The compilation that executes it.
    code: Option<u32>,
    /// The frame of the compilation's inline chains.
    context: Option<u32>,
    last: Option<Bci>,
}

impl TieredFrame {
    fn executor(&self) -> Executor {
        self.code.unwrap_or(unknown(self.tier))
    }
}

/// Maximum number of frames kept, far more than a Java thread's stack can hold.
const MAX_DEPTH: usize = 1 << 20;

/// Where a call is and what it calls, and whether the callee was inlined.
type PendingCall = ((Site, Option<MethodId>), Option<bool>);

/// One thread.
#[derive(Debug)]
pub struct JitThread {
    info: ThreadInfo,
    frames: Vec<TieredFrame>,
    /// The popped frames that continue as another kind of frame.
    replaced: Vec<TieredFrame>,
    invokes: Invokes,
    /// The last call, while it is not known whether its callee was inlined.
    called: Option<PendingCall>,
    time: TimeShares,
    now: Option<Tsc>,
    pub(super) counts: CountsThread,
    pub(super) counted: JitCounted,
}

impl JitThread {
    pub(super) fn new(info: ThreadInfo) -> Self {
        Self {
            info,
            frames: Vec::new(),
            replaced: Vec::new(),
            invokes: Invokes::default(),
            called: None,
            time: TimeShares::default(),
            now: None,
            counts: CountsThread::default(),
            counted: JitCounted::default(),
        }
    }
    pub(super) fn event(&mut self, of: &JitAnalysis, event: &Event) {
        let hidden = of.exclude.hides(event.provenance);
        self.settle_call(&event.kind);
        self.invokes(of, event, hidden);
        match &event.kind {
            EventKind::Bytecode { method, bci, tier } => {
                self.executed(of, (*method, *tier), (*bci, *bci), event, hidden);
            }
            EventKind::Run { method, first, last, tier, .. } => {
                self.executed(of, (*method, *tier), (*first, *last), event, hidden);
            }
            EventKind::Enter { method, tier, entry } => self.enter(of, (*method, *tier, *entry), hidden),
            EventKind::Leave { exit, .. } => {
                let frame = self.frames.pop();
                match exit {
                    Exit::Replaced => self.replaced.extend(frame),
                    _ => self.replaced.clear(),
                }
            }
            EventKind::Code(CodeStep::Entered(code)) => match of.compilations.index_of(*code) {
                Some(index) => self.entered(index, hidden),
                None => self.counted.undescribed += 1,
            },
            EventKind::Code(CodeStep::Deoptimised { code, stop }) => match of.compilations.index_of(*code) {
                Some(index) if !hidden => self.deoptimised(index, *stop),
                Some(_) => {}
                None => self.counted.undescribed += 1,
            },
            EventKind::Unresolved { callers, .. } => self.unresolved((*callers).into()),
            EventKind::Time(tsc) => self.tick(of, *tsc),
            EventKind::Gap(gap) => {
                self.time.forget();
                if gap.stack_lost {
                    self.frames.clear();
                    self.replaced.clear();
                }
            }
            EventKind::Catch { .. } | EventKind::Orphan(_) => {}
        }
    }
    /// The thread's flow has ended.
    pub(super) fn end(&mut self, of: &JitAnalysis) {
        let unknown = &mut self.counted.unknown_calls;
        self.invokes.end(|outcome| {
            if let InvokeOutcome::Unknown(site) = outcome {
                *unknown.entry(of.first(site)).or_default() += 1;
            }
        });
    }
    fn tick(&mut self, of: &JitAnalysis, tsc: Tsc) {
        self.now = Some(tsc);
        let Some(clock) = &of.on_core else { return };
        let top = self.frames.last().map_or(unknown(Tier::Interpreter), TieredFrame::executor);
        let counted = &mut self.counted;
        self.time.at(clock(&self.info, tsc), top, |executor, ticks| counted.spend(executor, ticks));
    }
    fn invokes(&mut self, of: &JitAnalysis, event: &Event, hidden: bool) {
        let (counted, called) = (&mut self.counted, &mut self.called);
        self.invokes.event((&of.methods, &of.shapes), event, |outcome, provenance| match outcome {
            _ if hidden => {}
            InvokeOutcome::Called { site: Some(site), callee, .. } => {
                let key = (of.first(site), Some(of.first.of(callee)));
                counted.sites.entry(key).or_default().calls.add(provenance);
                *called = Some((key, None));
            }
            InvokeOutcome::Silent(site) => {
                counted.sites.entry((of.first(site), None)).or_default().calls.add(provenance);
            }
            InvokeOutcome::Unknown(site) => {
                *counted.unknown_calls.entry(of.first(site)).or_default() += 1;
            }
            InvokeOutcome::Called { site: None, .. }
            | InvokeOutcome::NotCalled(_)
            | InvokeOutcome::Upcall { .. }
            | InvokeOutcome::Unstarted(_) => {}
        });
    }
    /// The event after a call says whether the callee has code of its own.
    fn settle_call(&mut self, next: &EventKind) {
        let Some((key, inlined)) = self.called.take() else { return };
        let own_code = matches!(next, EventKind::Code(CodeStep::Entered(_)));
        let calls = self.counted.sites.entry(key).or_default();
        match inlined.filter(|_| !own_code) {
            _ if own_code => {}
            Some(true) => calls.inlined += 1,
            Some(false) => {}
            None => calls.undecided += 1,
        }
    }
    fn enter(&mut self, of: &JitAnalysis, (method, tier, entry): (MethodId, Tier, Entry), hidden: bool) {
        let caller = self.frames.last().copied();
        let compiled = |tier| matches!(tier, Tier::C1 | Tier::C2);
        // The frame is inlined, unless a step of code follows.
        let inlined = matches!(entry, Entry::Call | Entry::Found) && compiled(tier);
        let around = caller.filter(|c| inlined && c.tier == tier);
        let code = around.and_then(|c| c.code);
        let context = around.and_then(|c| of.compilations.callee(c.code?, c.context?, c.last?, method));
        let kept = match entry {
            Entry::Osr | Entry::Deoptimisation => self.replaced.pop().filter(|f| f.method == method),
            Entry::Call | Entry::Upcall | Entry::Found => None,
        };
        if kept.is_none() {
            self.replaced.clear();
        }
        if let Some(calls) = self.called.as_mut().filter(|_| entry == Entry::Call && !hidden) {
            let by_code = caller.is_some_and(|c| compiled(c.tier));
            self.counted.sites.entry(calls.0).or_default().compiled += u64::from(by_code);
            calls.1 = if compiled(tier) { code.map(|_| true) } else { Some(false) };
        }
        if self.frames.len() == MAX_DEPTH {
            self.frames.clear();
        }
        let last = kept.and_then(|f| f.last);
        self.frames.push(TieredFrame { method, tier, entry, code, context, last });
        let executor = self.frames.last().map_or(unknown(tier), TieredFrame::executor);
        self.time.add(executor, 1);
    }
    /// The frame on top is one of the compilation, and not inlined.
    fn entered(&mut self, index: u32, hidden: bool) {
        let Some(top) = self.frames.last_mut() else { return };
        (top.code, top.context) = (Some(index), Some(0));
        if hidden {
            return;
        }
        let counts = self.counted.codes.entry(index).or_default();
        match top.entry {
            Entry::Call | Entry::Upcall | Entry::Deoptimisation => counts.calls += 1,
            Entry::Osr => counts.osr += 1,
            Entry::Found => counts.found += 1,
        }
    }
    fn deoptimised(&mut self, compilation: u32, stop: Option<CodeStop>) {
        let top = self.frames.last();
        let place =
            DeoptPlace { compilation, stop, method: top.map(|f| f.method), bci: top.and_then(|f| f.last) };
        let count = self.counted.deopts.entry(place).or_default();
        count.times += 1;
        count.first = count.first.or(self.now);
        count.last = self.now.or(count.last);
    }
    fn unresolved(&mut self, callers: usize) {
        let lowest = self.frames.len().saturating_sub(callers + 1);
        let Some(frame) = self.frames.get(lowest) else { return };
        let (Some(code), context) = (frame.code, frame.context) else { return };
        let counts = self.counted.codes.entry(code).or_default();
        counts.unresolved += 1;
        match context {
            Some(context) => drop(counts.hazy.insert(context)),
            None => counts.hazy_all = true,
        }
    }
    fn executed(
        &mut self,
        of: &JitAnalysis,
        (method, tier): (MethodId, Tier),
        (first, last): (Bci, Bci),
        event: &Event,
        hidden: bool,
    ) {
        if self.frames.is_empty() {
            let (entry, code, context) = (Entry::Found, None, None);
            self.frames.push(TieredFrame { method, tier, entry, code, context, last: None });
        }
        let Some(top) = self.frames.last_mut() else { return };
        let (code, context) = match top.method == method && top.tier == tier {
            true => {
                top.last = Some(last);
                (top.code, top.context)
            }
            false => (None, None),
        };
        if hidden {
            return;
        }
        let n = event.kind.bytecodes();
        self.time.add(code.unwrap_or(unknown(tier)), n);
        let Some(code) = code else {
            if let Some(sum) = self.counted.others.get_mut(tier as usize) {
                sum.0 += n;
            }
            return;
        };
        let counts = self.counted.codes.entry(code).or_default();
        counts.bytecodes.add_all(event.provenance, n);
        let blocks = of.compilations.get(code).and_then(|c| c.blocks.as_deref()).unwrap_or_default();
        if blocks.is_empty() {
            return;
        }
        let Some(context) = context else {
            counts.hazy_all = true;
            return;
        };
        if counts.reached.is_empty() {
            counts.reached = vec![false; blocks.len()];
        }
        let from = blocks.partition_point(|b| *b < (context, first.get()));
        let until = (context, last.get());
        for (block, reached) in blocks.iter().zip(&mut counts.reached).skip(from) {
            if *block > until {
                break;
            }
            *reached = true;
        }
    }
}
