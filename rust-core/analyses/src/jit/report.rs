// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on the JIT compilers' decisions.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use jportal_bytecode::{Instruction, Method};
use jportal_flow::{CodeStop, Tally, Tier};
use jportal_units::{Bci, MethodId, Tsc};
use serde::Serialize;

use super::JitAnalysis;
use super::compilation::{CodeState, Compilation, reason_and_action};
use super::count::{CodeCounts, TargetCalls};
use super::join::LogJoin;
use super::log::{CompilationLog, LogBranch, LogCall, LogTask};
use crate::blocks::{BlocksOptions, BranchWay, Level};
use crate::hidden::{Account, Inexact, Missing};
use crate::names::{Name, Names, Version};
use crate::polymorphism::outcome::Site;

/// Deoptimisations for one reason at one bytecode from which on they are a storm.
const STORM: u64 = 10;
/// Compilations of one method at one level from which on they are a loop.
const LOOP: usize = 3;

/// Turns times of a trace into milliseconds since the recording began.
#[derive(Clone, Copy, Debug)]
pub struct CodeClock {
    /// When the recording began.
    pub start: Tsc,
    /// Ticks in a millisecond; 0 if unknown.
    pub khz: u64,
}

impl CodeClock {
    fn since_start(self, tsc: Tsc) -> Option<f64> {
        self.milliseconds(tsc.get().saturating_sub(self.start.get()))
    }
    fn milliseconds(self, ticks: u64) -> Option<f64> {
        // Microseconds are exact enough.
        (self.khz > 0).then(|| (1000.0 * ticks as f64 / self.khz as f64).round() / 1000.0)
    }
}

/// What the report contains.
#[derive(Clone, Copy, Debug)]
pub struct JitOptions<'l> {
    /// Maximum number of rows of each list.
    pub top: usize,
    /// The clock.
    pub clock: CodeClock,
    /// The flow is that of all threads, from the recording's beginning to its end.
    pub whole: bool,
    /// HotSpot's log of the same run.
    pub log: Option<&'l CompilationLog>,
}

/// How the life of code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeEnd {
    /// It could still be entered when the recording ended.
    InUse,
    /// A later compilation took its place.
    Replaced,
    /// It had an uncommon trap whose action is to make it not entrant.
    Trapped,
    /// It became not entrant for a reason that the recording does not have: a dependency that was
    /// broken, a full code cache, a debugger.
    Invalidated,
    /// A class that it needs was unloaded.
    Unloaded,
}

/// One compilation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NMethodRow {
    /// HotSpot's number.
    pub compile_id: u32,
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// `C1`, `C2` or `native`.
    pub compiler: &'static str,
    /// `CompLevel`.
    pub level: u8,
    /// Where it is entered by on-stack replacement.
    pub osr_bci: Option<u16>,
    /// Bytes of code.
    pub size: u64,
    /// When it was installed, in milliseconds since the recording began.
    pub installed_ms: Option<f64>,
    /// When it became not entrant.
    pub not_entrant_ms: Option<f64>,
    /// How it ended.
    pub end: CodeEnd,
    /// The compilation that took its place.
    pub replaced_by: Option<u32>,
    /// Calls of it.
    pub calls: u64,
    /// Entries by on-stack replacement.
    pub osr_entries: u64,
    /// Frames of it that were found where the trace began or resumed.
    pub found: u64,
    /// Bytecodes that it executed, those of inlined methods included.
    pub bytecodes: Tally,
    /// Time on cores, in milliseconds; what lies between two times is shared by bytecodes.
    pub time_ms: Option<f64>,
    /// Frames of it that were deoptimised.
    pub deoptimisations: u64,
    /// Calls that were inlined into it.
    pub inlined: usize,
    /// Bytecode blocks of which it has instructions; `null` without path markers.
    pub blocks: Option<usize>,
    /// Of these, those that were executed.
    pub reached: usize,
    /// Of these, those of which the flow does not say it.
    pub unknown: usize,
    /// Unresolved stretches in it.
    pub unresolved: u64,
    /// Whether the figures are complete.
    pub exact: bool,
    /// What HotSpot's log says of its compilation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<LogTask>,
}

/// Bytecodes and time of a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierRow {
    /// Its name.
    pub tier: String,
    /// Compilations.
    pub compilations: u64,
    /// Of these, those that ran.
    pub ran: u64,
    /// Bytecodes.
    pub bytecodes: u64,
    /// Time on cores in milliseconds.
    pub time_ms: Option<f64>,
}

/// A target of a call site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRow {
    /// `class.name(descriptor)`; `null` for calls without a frame.
    pub method: Option<String>,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Number of calls.
    pub calls: Tally,
    /// Of them, those by compiled code.
    pub compiled: u64,
    /// Of them, those whose callee ran in the caller's code.
    pub inlined: u64,
    /// Of them, those of which that is not known.
    pub undecided: u64,
    /// The compilations that inlined it here.
    pub inlined_by: Vec<u32>,
}

/// A call site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JitSite {
    /// The caller: `class.name(descriptor)`.
    pub caller: String,
    /// The caller's version, if its method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The calling bytecode.
    pub bci: u16,
    /// Its source line.
    pub line: Option<u16>,
    /// Its name.
    pub opcode: &'static str,
    /// Number of calls, those without a frame included.
    pub calls: Tally,
    /// Calls by compiled code.
    pub compiled: u64,
    /// Calls whose callee ran in the caller's code.
    pub inlined: u64,
    /// Invokes of which the flow does not say whether they called.
    pub unknown: u64,
    /// Whether all calls and targets are known.
    pub exact: bool,
    /// What may be missing in places that the flow marks as unknown.
    #[serde(skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// Targets, most frequent first; then those that were inlined but never called.
    pub targets: Vec<CallRow>,
    /// What the compilers decided, by HotSpot's log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<LogCall>,
}

/// One way of a branch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TakenWay {
    /// The bytecode to which it leads.
    pub to: u16,
    /// How often it was taken.
    pub times: Tally,
    /// Whether the count is complete.
    pub exact: bool,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BranchRow {
    /// `class.name(descriptor)`.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The branch.
    pub bci: u16,
    /// Its source line.
    pub line: Option<u16>,
    /// How often one of its ways was taken.
    pub times: u64,
    /// The share of the most frequent way, 0 to 1; `null` if no way was taken.
    pub bias: Option<f64>,
    /// Whether all counts are complete.
    pub exact: bool,
    /// Its ways.
    pub ways: Vec<TakenWay>,
    /// The compilations that have an uncommon trap in place of one of the ways (`unstable_if`).
    pub pruned_by: Vec<u32>,
    /// The profile that compilations used, by HotSpot's log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<LogBranch>,
}

/// Deoptimisations of one compilation at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeoptRow {
    /// The compilation.
    pub compile_id: u32,
    /// Its level.
    pub level: u8,
    /// Whether it is one for on-stack replacement.
    pub osr: bool,
    /// The compilation's method.
    pub nmethod: String,
    /// The innermost method: `class.name(descriptor)`.
    pub method: String,
    /// The bytecode at which the interpreter took over; `null` before the first one.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// `uncommon-trap`: the code called for it. `invalid-code`: a call returned to code that was
    /// not valid any more. `stopped`: at a safepoint poll or a fault. `other`, or `unknown`.
    pub kind: &'static str,
    /// The reason that the compiler gave, as HotSpot names it; `null` if the code does not say it.
    pub reason: Option<&'static str>,
    /// What HotSpot does then.
    pub action: Option<&'static str>,
    /// Offset in the code: the call's return address, or the instruction.
    pub offset: Option<u32>,
    /// How often.
    pub times: u64,
    /// The first and the last, in milliseconds since the recording began: not later than this by
    /// more than the flow's step of time.
    pub first_ms: Option<f64>,
    /// See `first_ms`.
    pub last_ms: Option<f64>,
}

/// A method that was compiled again and again at one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopRow {
    /// `class.name(descriptor)`.
    pub method: String,
    /// `CompLevel`.
    pub level: u8,
    /// Where it is entered by on-stack replacement.
    pub osr_bci: Option<u16>,
    /// The compilations, in order.
    pub compilations: Vec<u32>,
}

/// Many deoptimisations at one bytecode for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StormRow {
    /// The innermost method: `class.name(descriptor)`.
    pub method: String,
    /// The bytecode.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// The reason, as HotSpot names it; `null` if it is not known.
    pub reason: Option<&'static str>,
    /// How many.
    pub times: u64,
    /// The compilations, each with its number of them.
    pub compilations: BTreeMap<u32, u64>,
}

/// A block of C2's code that ran, which was not executed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UntakenBlock {
    /// The compilation.
    pub compile_id: u32,
    /// The compilation's method.
    pub nmethod: String,
    /// The block's method: `class.name(descriptor)`.
    pub method: String,
    /// Number of frames around it in the code.
    pub depth: usize,
    /// The block's first bytecode.
    pub bci: u16,
    /// Its source line.
    pub line: Option<u16>,
}

/// Figures of the whole recording, whatever methods were requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JitTotals {
    /// Compilations, native wrappers included.
    pub compilations: usize,
    /// Of these, those for on-stack replacement.
    pub osr: usize,
    /// Those of which something ran.
    pub ran: usize,
    /// Those that became not entrant.
    pub not_entrant: usize,
    /// Deoptimised compiled frames. Frames inlined into each other are one.
    pub deoptimisations: u64,
    /// Bytecodes of compiled frames whose code is not known.
    pub unknown_code: u64,
    /// Frames of code that the recording does not describe.
    pub undescribed: u64,
    /// Changes of state of code that the recording does not describe.
    pub stray_states: u64,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Jit {
    /// Whether the figures are complete: nothing is missing, inferred or lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Figures of the whole recording.
    pub totals: JitTotals,
    /// Bytecodes and time by tier, of the whole recording.
    pub tiers: Vec<TierRow>,
    /// Compilations of the requested methods, most bytecodes first.
    pub nmethods: Vec<NMethodRow>,
    /// Number of compilations of the requested methods.
    pub all_nmethods: usize,
    /// Call sites of the requested methods, most calls first.
    pub sites: Vec<JitSite>,
    /// Number of call sites of the requested methods.
    pub all_sites: usize,
    /// Branches of the requested methods, most executions first.
    pub branches: Vec<BranchRow>,
    /// Number of branches of the requested methods.
    pub all_branches: usize,
    /// Deoptimisations of code of the requested methods, most frequent first.
    pub deoptimisations: Vec<DeoptRow>,
    /// Number of places of deoptimisations.
    pub all_deoptimisations: usize,
    /// Compilations of the requested methods of which nothing ran, the largest first.
    pub never_ran: Vec<u32>,
    /// Number of these.
    pub all_never_ran: usize,
    /// Whether it is certain that nothing of them ran.
    pub never_ran_is_certain: bool,
    /// Methods that were compiled three times or more at one level.
    pub loops: Vec<LoopRow>,
    /// Ten or more deoptimisations at one bytecode for one reason.
    pub storms: Vec<StormRow>,
    /// Blocks of C2's code that were not executed, of the code with the most bytecodes.
    pub untaken: Vec<UntakenBlock>,
    /// Number of these.
    pub all_untaken: usize,
    /// The comparison with HotSpot's log, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogJoin>,
}

/// Keeps the first `top` rows; returns how many there were.
fn keep<T>(rows: &mut Vec<T>, top: usize) -> usize {
    let all = rows.len();
    rows.truncate(top);
    all
}

/// The parts of a report that its lists share.
struct JitWriter<'a> {
    of: &'a JitAnalysis,
    names: Names<'a>,
    options: JitOptions<'a>,
    lossy: bool,
    nothing: CodeCounts,
}

impl JitAnalysis {
    /// The report over the methods that `wanted` accepts.
    pub fn report(&self, options: JitOptions<'_>, wanted: impl Fn(&Method) -> bool) -> Jit {
        let inexact = self.counts.hidden.inexact.clone();
        let names = Names::new(&self.methods, self.naming);
        let lossy = inexact.is_lossy();
        let writer = JitWriter { of: self, names, options, lossy, nothing: CodeCounts::default() };
        let is_wanted = |id: Option<MethodId>| match id {
            Some(id) => self.methods.get(id).is_some_and(&wanted),
            None => true,
        };
        let top = options.top;
        let mut chosen: Vec<u32> = (0..self.compilations.all().len() as u32).collect();
        chosen.retain(|&i| self.compilations.get(i).is_some_and(|c| is_wanted(c.method)));
        chosen.sort_by_key(|&i| (u64::MAX - writer.counts(i).bytecodes.total(), i));
        let mut deoptimisations = writer.deoptimisations(&is_wanted);
        let storms = storms(&deoptimisations);
        let log = options
            .log
            .map(|log| LogJoin::new(self, log, &writer.deoptimisations(&|_| true), &writer.names, top));
        let all_deoptimisations = keep(&mut deoptimisations, top);
        let mut sites = writer.sites(&wanted);
        let all_sites = keep(&mut sites, top);
        let mut branches = writer.branches(&wanted);
        let all_branches = keep(&mut branches, top);
        let (untaken, all_untaken) = writer.untaken(&chosen);
        let never = |i: &&u32| !writer.counts(**i).ran();
        let mut never_ran: Vec<u32> = chosen.iter().filter(never).copied().collect();
        never_ran.sort_by_key(|&i| (u64::MAX - self.compilations.get(i).map_or(0, |c| c.size), i));
        let all_never_ran = keep(&mut never_ran, top);
        let id = |i: u32| self.compilations.get(i).map(|c| c.compile_id);
        let totals = writer.totals();
        Jit {
            exact: !lossy && inexact.stretches() == 0 && totals.unknown_code == 0,
            never_ran_is_certain: options.whole && !inexact.is_blind() && totals.unknown_code == 0,
            inexact,
            tiers: writer.tiers(),
            nmethods: chosen.iter().take(top).filter_map(|&i| writer.nmethod(i)).collect(),
            all_nmethods: chosen.len(),
            sites,
            all_sites,
            branches,
            all_branches,
            deoptimisations,
            all_deoptimisations,
            never_ran: never_ran.into_iter().filter_map(id).collect(),
            all_never_ran,
            loops: writer.loops(&is_wanted),
            storms,
            untaken,
            all_untaken,
            log,
            totals,
        }
    }
}

/// Sums of deoptimisations by place and reason that are many.
fn storms(rows: &[DeoptRow]) -> Vec<StormRow> {
    let mut sums: BTreeMap<(&str, Option<u16>, Option<&str>), StormRow> = BTreeMap::new();
    for row in rows {
        let storm = sums.entry((&row.method, row.bci, row.reason)).or_insert_with(|| StormRow {
            method: row.method.clone(),
            bci: row.bci,
            line: row.line,
            reason: row.reason,
            times: 0,
            compilations: BTreeMap::new(),
        });
        storm.times += row.times;
        *storm.compilations.entry(row.compile_id).or_default() += row.times;
    }
    let mut storms: Vec<StormRow> = sums.into_values().filter(|s| s.times >= STORM).collect();
    storms.sort_by_key(|s| u64::MAX - s.times);
    storms
}

impl<'a> JitWriter<'a> {
    fn counts(&self, index: u32) -> &CodeCounts {
        self.of.counted.codes.get(&index).unwrap_or(&self.nothing)
    }
    fn name(&self, method: Option<MethodId>) -> Name {
        // An id that no method has is named as unknown.
        self.names.get(method.unwrap_or(MethodId(u32::MAX)))
    }
    fn line(&self, method: Option<MethodId>, bci: Option<u16>) -> Option<u16> {
        self.of.methods.get(method?)?.line_at(Bci(bci?))
    }
    fn totals(&self) -> JitTotals {
        let all = self.of.compilations.all();
        let counted = &self.of.counted;
        let unknown = [Tier::C1, Tier::C2].map(|tier| counted.others[tier as usize].0);
        JitTotals {
            compilations: all.len(),
            osr: all.iter().filter(|c| c.osr_bci.is_some()).count(),
            ran: counted.codes.values().filter(|c| c.ran()).count(),
            not_entrant: all.iter().filter(|c| c.not_entrant().is_some()).count(),
            deoptimisations: counted.deopts.values().map(|d| d.times).sum(),
            unknown_code: unknown.iter().sum(),
            undescribed: counted.undescribed,
            stray_states: self.of.compilations.stray_states(),
        }
    }
    fn tiers(&self) -> Vec<TierRow> {
        let row = |tier: &str| TierRow {
            tier: tier.to_owned(),
            compilations: 0,
            ran: 0,
            bytecodes: 0,
            time_ms: None,
        };
        let timed = self.of.on_core.is_some();
        let time = |ticks| self.options.clock.milliseconds(ticks).filter(|_| timed);
        let mut levels: BTreeMap<(Tier, u8), (TierRow, u64)> = BTreeMap::new();
        for (index, c) in (0..).zip(self.of.compilations.all()) {
            let name = match c.tier {
                Tier::Native => "native wrapper".to_owned(),
                tier => format!("{} level {}", tier.name(), c.level),
            };
            let (row, ticks) = levels.entry((c.tier, c.level)).or_insert_with(|| (row(&name), 0));
            let counts = self.counts(index);
            row.compilations += 1;
            row.ran += u64::from(counts.ran());
            row.bytecodes += counts.bytecodes.total();
            *ticks += counts.ticks;
        }
        let of = |tier: Tier| self.of.counted.others[tier as usize];
        let (bytecodes, ticks) = of(Tier::Interpreter);
        let mut rows = vec![TierRow { bytecodes, time_ms: time(ticks), ..row("interpreter") }];
        rows.extend(levels.into_values().map(|(row, ticks)| TierRow { time_ms: time(ticks), ..row }));
        for (tier, name) in
            [(Tier::C1, "C1, code unknown"), (Tier::C2, "C2, code unknown"), (Tier::Native, "native")]
        {
            let (bytecodes, ticks) = of(tier);
            if bytecodes + ticks > 0 {
                rows.push(TierRow { bytecodes, time_ms: time(ticks), ..row(name) });
            }
        }
        rows
    }
    fn nmethod(&self, index: u32) -> Option<NMethodRow> {
        let c = self.of.compilations.get(index)?;
        let counts = self.counts(index);
        let clock = self.options.clock;
        let name = self.name(c.method);
        let (reached, unknown) = self.blocks(c, counts);
        let deopts = self.of.counted.deopts.iter().filter(|(place, _)| place.compilation == index);
        let (end, replaced_by) = self.end(index, c);
        let task = self.options.log.and_then(|log| log.tasks.get(&(c.compile_id, c.osr_bci.is_some())));
        Some(NMethodRow {
            compile_id: c.compile_id,
            method: name.qualified(),
            version: name.version,
            compiler: c.tier.name(),
            level: c.level,
            osr_bci: c.osr_bci,
            size: c.size,
            installed_ms: clock.since_start(c.installed),
            not_entrant_ms: c.not_entrant().and_then(|t| clock.since_start(t)),
            end,
            replaced_by,
            calls: counts.calls,
            osr_entries: counts.osr,
            found: counts.found,
            bytecodes: counts.bytecodes,
            time_ms: self.of.on_core.as_ref().and_then(|_| clock.milliseconds(counts.ticks)),
            deoptimisations: deopts.map(|d| d.1.times).sum(),
            inlined: c.frames.iter().filter(|f| f.parent.is_some()).count(),
            blocks: c.blocks.as_ref().map(Vec::len),
            reached,
            unknown,
            unresolved: counts.unresolved,
            exact: !self.lossy && counts.unresolved == 0,
            task: task.cloned(),
        })
    }
    /// How many blocks were executed, and of how many that is not known.
    fn blocks(&self, c: &Compilation, counts: &CodeCounts) -> (usize, usize) {
        let blocks = c.blocks.as_deref().unwrap_or_default();
        let reached = counts.reached.iter().filter(|r| **r).count();
        let hazy = self.hazy(c, counts);
        let unreached = |at: usize| !counts.reached.get(at).copied().unwrap_or(false);
        let unknown = (0..).zip(blocks).filter(|(at, b)| unreached(*at) && hazy(b.0)).count();
        (reached, unknown)
    }
    /// Whether executions in a frame may be hidden.
    fn hazy<'c>(&self, c: &'c Compilation, counts: &'c CodeCounts) -> impl Fn(u32) -> bool + 'c {
        let blind = self.of.counts.hidden.inexact.is_blind();
        move |context| {
            let up = |at: &u32| c.frames.get(*at as usize).and_then(|f| f.parent);
            let mut chain = std::iter::successors(Some(context), up);
            blind || counts.hazy_all || chain.any(|at| counts.hazy.contains(&at))
        }
    }
    fn end(&self, index: u32, c: &Compilation) -> (CodeEnd, Option<u32>) {
        let Some((_, state)) = c.states.first() else { return (CodeEnd::InUse, None) };
        if *state == CodeState::Unloaded {
            return (CodeEnd::Unloaded, None);
        }
        if let Some(next) = self.of.compilations.successor(index) {
            return (CodeEnd::Replaced, Some(next.compile_id));
        }
        let ends =
            |action: &str| matches!(action, "reinterpret" | "make_not_entrant" | "make_not_compilable");
        let trapped = self
            .of
            .counted
            .deopts
            .keys()
            .filter(|place| place.compilation == index)
            .any(|place| self.trap(c, place.stop).is_some_and(|(_, action)| ends(action)));
        (if trapped { CodeEnd::Trapped } else { CodeEnd::Invalidated }, None)
    }
    /// Reason and action of the trap at which code was left.
    fn trap(&self, c: &Compilation, stop: Option<CodeStop>) -> Option<(&'static str, &'static str)> {
        let Some(CodeStop::Call(returns)) = stop else { return None };
        Some(reason_and_action(c.trap(returns)?.request?))
    }
    fn deoptimisations(&self, wanted: &impl Fn(Option<MethodId>) -> bool) -> Vec<DeoptRow> {
        let mut rows = Vec::new();
        for (place, count) in &self.of.counted.deopts {
            let Some(c) = self.of.compilations.get(place.compilation) else { continue };
            if !wanted(c.method) && !wanted(place.method) {
                continue;
            }
            let (kind, offset) = match place.stop {
                Some(CodeStop::Call(returns)) if c.trap(returns).is_some() => {
                    ("uncommon-trap", Some(returns))
                }
                Some(CodeStop::Call(returns)) => ("invalid-code", Some(returns)),
                Some(CodeStop::Before(at)) => ("stopped", Some(at)),
                Some(CodeStop::Other(at)) => ("other", Some(at)),
                None => ("unknown", None),
            };
            let trap = self.trap(c, place.stop);
            let bci = place.bci.map(Bci::get);
            let clock = self.options.clock;
            rows.push(DeoptRow {
                compile_id: c.compile_id,
                level: c.level,
                osr: c.osr_bci.is_some(),
                nmethod: self.name(c.method).qualified(),
                method: self.name(place.method).qualified(),
                bci,
                line: self.line(place.method, bci),
                kind,
                reason: trap.map(|t| t.0),
                action: trap.map(|t| t.1),
                offset,
                times: count.times,
                first_ms: count.first.and_then(|t| clock.since_start(t)),
                last_ms: count.last.and_then(|t| clock.since_start(t)),
            });
        }
        rows.sort_by_key(|r| (u64::MAX - r.times, r.compile_id, r.osr, r.offset, r.bci));
        rows
    }
    fn loops(&self, wanted: &impl Fn(Option<MethodId>) -> bool) -> Vec<LoopRow> {
        let mut all: BTreeMap<(Option<MethodId>, u8, Option<u16>), Vec<u32>> = BTreeMap::new();
        for c in self.of.compilations.all() {
            let compiled = c.tier != Tier::Native && c.method.is_some() && wanted(c.method);
            if compiled {
                all.entry((c.method, c.level, c.osr_bci)).or_default().push(c.compile_id);
            }
        }
        let row =
            |((method, level, osr_bci), compilations): ((Option<MethodId>, u8, Option<u16>), Vec<u32>)| {
                LoopRow { method: self.name(method).qualified(), level, osr_bci, compilations }
            };
        let mut rows: Vec<LoopRow> = all.into_iter().filter(|(_, c)| c.len() >= LOOP).map(row).collect();
        rows.sort_by_key(|r| usize::MAX - r.compilations.len());
        rows
    }
    /// The first blocks of C2's code that were not executed, and how many there are.
    fn untaken(&self, chosen: &[u32]) -> (Vec<UntakenBlock>, usize) {
        let (mut rows, mut all) = (Vec::new(), 0);
        for &index in chosen {
            let Some(c) = self.of.compilations.get(index).filter(|c| c.tier == Tier::C2) else { continue };
            let counts = self.counts(index);
            let (Some(blocks), true) = (&c.blocks, counts.ran()) else { continue };
            let hazy = self.hazy(c, counts);
            for (at, &(context, bci)) in blocks.iter().enumerate() {
                if counts.reached.get(at).copied().unwrap_or(false) || hazy(context) {
                    continue;
                }
                all += 1;
                if rows.len() < self.options.top {
                    let frame = c.frames.get(context as usize);
                    let up = |at: &u32| c.frames.get(*at as usize).and_then(|f| f.parent);
                    rows.push(UntakenBlock {
                        compile_id: c.compile_id,
                        nmethod: self.name(c.method).qualified(),
                        method: self.name(frame.and_then(|f| f.method)).qualified(),
                        depth: std::iter::successors(Some(context), up).count() - 1,
                        bci,
                        line: self.line(frame.and_then(|f| f.method), Some(bci)),
                    });
                }
            }
        }
        (rows, all)
    }
    /// By site and callee, the compilations that inlined it.
    fn inlined(&self) -> HashMap<Site, BTreeMap<MethodId, Vec<u32>>> {
        let mut all: HashMap<Site, BTreeMap<MethodId, Vec<u32>>> = HashMap::new();
        for c in self.of.compilations.all() {
            let mut seen = HashSet::new();
            for frame in &c.frames {
                let caller = frame.parent.and_then(|p| c.frames.get(p as usize)?.method);
                let (Some(caller), Some(callee)) = (caller, frame.method) else { continue };
                let site = self.of.first((caller, Bci(frame.call_bci)));
                let callee = self.of.first.of(callee);
                if seen.insert((site, callee)) {
                    all.entry(site).or_default().entry(callee).or_default().push(c.compile_id);
                }
            }
        }
        all
    }
    fn sites(&self, wanted: &impl Fn(&Method) -> bool) -> Vec<JitSite> {
        let of = self.of;
        let mut missing: HashMap<Site, Missing> = HashMap::new();
        for ((caller, bci, _), hidden) in Account::new(&of.methods, &of.inlined).of_calls(&of.counts.hidden) {
            if !hidden.calls.is_none() {
                // Calls without a frame are counted as such.
                let hidden = Missing { silent_calls: 0, ..hidden };
                missing.entry(of.first((caller, bci))).or_default().merge(&hidden);
            }
        }
        let mut inlined = self.inlined();
        let mut all: HashMap<Site, Vec<(Option<MethodId>, TargetCalls)>> = HashMap::new();
        for ((site, target), calls) in &of.counted.sites {
            all.entry(*site).or_default().push((*target, *calls));
        }
        all.retain(|site, _| of.methods.get(site.0).is_some_and(wanted));
        let mut rows: Vec<(Site, JitSite)> = Vec::new();
        for (site, mut targets) in all {
            targets.sort_by_key(|(target, calls)| (u64::MAX - calls.calls.total(), *target));
            let mut by = inlined.remove(&site).unwrap_or_default();
            let mut target_row = |target: Option<MethodId>, calls: TargetCalls| {
                let name = target.map(|t| self.names.get(t));
                CallRow {
                    method: name.as_ref().map(Name::qualified),
                    version: name.and_then(|n| n.version),
                    calls: calls.calls,
                    compiled: calls.compiled,
                    inlined: calls.inlined,
                    undecided: calls.undecided,
                    inlined_by: target.and_then(|t| by.remove(&t)).unwrap_or_default(),
                }
            };
            let mut targets: Vec<CallRow> =
                targets.into_iter().map(|(target, calls)| target_row(target, calls)).collect();
            let never_called: Vec<MethodId> = by.keys().copied().collect();
            for target in never_called {
                let name = self.names.get(target);
                targets.push(CallRow {
                    method: Some(name.qualified()),
                    version: name.version,
                    calls: Tally::default(),
                    compiled: 0,
                    inlined: 0,
                    undecided: 0,
                    inlined_by: by.remove(&target).unwrap_or_default(),
                });
            }
            let hidden = missing.remove(&site).unwrap_or_default();
            rows.push((site, self.site(site, targets, hidden)));
        }
        rows.sort_by_key(|(site, row)| (u64::MAX - row.calls.total(), *site));
        rows.into_iter().map(|(_, row)| row).collect()
    }
    fn site(&self, site: Site, targets: Vec<CallRow>, missing: Missing) -> JitSite {
        let (caller, method) = (self.names.get(site.0), self.of.methods.get(site.0));
        let instruction = method.and_then(|m| Instruction::at(&m.code, site.1.get().into()).ok());
        let mut calls = Tally::default();
        targets.iter().for_each(|t| calls.merge(&t.calls));
        let unknown = self.of.counted.unknown_calls.get(&site).copied().unwrap_or(0);
        let silent = targets.iter().any(|t| t.method.is_none());
        let place = (caller.qualified(), site.1.get());
        let decisions = self.options.log.and_then(|log| log.calls.get(&place)).cloned().unwrap_or_default();
        JitSite {
            caller: place.0,
            version: caller.version,
            bci: place.1,
            line: method.and_then(|m| m.line_at(site.1)),
            opcode: instruction.map_or("?", |i| i.opcode.name()),
            calls,
            compiled: targets.iter().map(|t| t.compiled).sum(),
            inlined: targets.iter().map(|t| t.inlined).sum(),
            unknown,
            exact: !self.lossy && missing.is_none() && unknown == 0 && !silent,
            missing,
            targets,
            decisions,
        }
    }
    fn branches(&self, wanted: &impl Fn(&Method) -> bool) -> Vec<BranchRow> {
        let mut pruned: HashMap<(String, u16), Vec<u32>> = HashMap::new();
        for c in self.of.compilations.all() {
            for trap in &c.traps {
                let (Some(request), Some((method, bci))) = (trap.request, trap.position) else { continue };
                if reason_and_action(request).0.starts_with("unstable") {
                    let by = pruned.entry((self.names.get(method).qualified(), bci)).or_default();
                    if by.last() != Some(&c.compile_id) {
                        by.push(c.compile_id);
                    }
                }
            }
        }
        let options = BlocksOptions { level: Level::Blocks, top: None, idle: false };
        let blocks = self.of.counts.blocks(options, wanted);
        let mut rows = Vec::new();
        for class in &blocks.classes {
            for method in &class.methods {
                for ways in method.ways.chunk_by(|a, b| a.bci == b.bci) {
                    let place = (format!("{}.{}", class.class, method.name), ways[0].bci);
                    let pruned_by = pruned.get(&place).cloned().unwrap_or_default();
                    let log = self.options.log.and_then(|log| log.branches.get(&place));
                    let row = branch(place.0, method.version, ways);
                    let profile = log.cloned().unwrap_or_default();
                    rows.push(BranchRow { pruned_by, profile, ..row });
                }
            }
        }
        // Blocks are in order of class, method and bci, which stays among equals.
        rows.sort_by_key(|r| u64::MAX - r.times);
        rows
    }
}

fn branch(method: String, version: Option<Version>, ways: &[BranchWay]) -> BranchRow {
    let times: u64 = ways.iter().map(|w| w.times.total()).sum();
    let most = ways.iter().map(|w| w.times.total()).max().unwrap_or(0);
    let (profile, pruned_by) = Default::default();
    BranchRow {
        method,
        version,
        bci: ways[0].bci,
        line: ways[0].line,
        times,
        bias: (times > 0).then(|| most as f64 / times as f64),
        exact: ways.iter().all(|w| w.exact),
        ways: ways.iter().map(|w| TakenWay { to: w.to, times: w.times, exact: w.exact }).collect(),
        pruned_by,
        profile,
    }
}
