// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report: verdicts by group, findings, samples.

use std::collections::BTreeMap;

use jportal_capture::schema::compilers;
use jportal_plain::line;
use jportal_reconstruct::{CallTarget, RanBlock, ReachedState, StateKind};
use jportal_units::{Bci, CodeId};
use jportal_vm_image::{CodeVersion, NMethod, VmImage};
use serde::Serialize;

use super::collect::{FirstSeen, Occurrences, Reached};
use super::judge::{Judge, Judged, StateGroup, StateVerdict};
use super::place::FramePosition;
use super::samples::{SampleCounts, samples};

/// Places and executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateCounts {
    /// Places in code: an nmethod and an offset. A place has its worst verdict.
    pub places: u64,
    /// Times that control reached them.
    pub executions: u64,
}

/// The verdicts on the states of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct StateRow {
    /// `C1` or `C2`.
    pub compiler: &'static str,
    /// The kind.
    pub kind: StateGroup,
    /// The opcode of the state's innermost bytecode; `None` in rows for all opcodes and before
    /// the first bytecode.
    pub opcode: Option<&'static str>,
    /// All of them.
    pub all: StateCounts,
    /// By verdict.
    pub verdicts: BTreeMap<StateVerdict, StateCounts>,
}

/// A frame of a state.
#[derive(Clone, Debug, Serialize)]
pub struct StateFrame {
    /// `class.name(descriptor)`.
    pub method: String,
    /// -1 before the first bytecode.
    pub bci: i32,
    /// Source line.
    pub line: Option<u16>,
    /// The bytecode there.
    pub opcode: Option<&'static str>,
}

/// A state that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct StateFinding {
    /// The verdict.
    pub verdict: StateVerdict,
    /// What is wrong.
    pub why: String,
    /// The kind of state.
    pub kind: StateGroup,
    /// `C1` or `C2`.
    pub compiler: &'static str,
    /// The number that `-XX:+PrintCompilation` shows.
    pub compile_id: u32,
    /// The nmethod's method.
    pub method: String,
    /// Address of the nmethod's code.
    pub code: String,
    /// Offset of the place in it.
    pub offset: u32,
    /// How often control reached it so.
    pub executions: u64,
    /// What debug info says, innermost frame first.
    pub debug_info: Vec<StateFrame>,
    /// The reexecute bit.
    pub reexecute: bool,
    /// The block where markers put control, innermost frame first: its first bytecode.
    pub control: Vec<StateFrame>,
    /// What control did.
    pub did: String,
    /// The first time.
    pub first: FirstSeen,
    /// A command that shows the machine blocks around it.
    pub see: String,
}

/// A place in a class that was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct StatePlace {
    /// The worst verdict.
    pub verdict: StateVerdict,
    /// The kind of state.
    pub kind: StateGroup,
    /// `C1` or `C2`.
    pub compiler: &'static str,
    /// The number that `-XX:+PrintCompilation` shows.
    pub compile_id: u32,
    /// The bci at which an OSR compile is entered.
    pub osr_bci: Option<u16>,
    /// The nmethod's method.
    pub method: String,
    /// Offset of the place in its code.
    pub offset: u32,
    /// How often control reached it.
    pub executions: u64,
    /// What debug info says, innermost frame first; where it says nothing, the block where markers
    /// put control.
    pub frames: Vec<StateFrame>,
    /// Why it was not judged, or what is wrong.
    pub why: String,
}

/// Why states were not judged.
#[derive(Clone, Debug, Serialize)]
pub struct UnjudgedRow {
    /// The reason.
    pub why: String,
    #[serde(flatten)]
    counts: StateCounts,
}

/// An nmethod with debug info or path markers that no compiler can have made rightly: a frame that
/// is inlined where no invoke stands, a bci after the end of a method. None of its code is judged.
#[derive(Clone, Debug, Serialize)]
pub struct ImpossibleCode {
    /// What is wrong.
    pub why: String,
    /// `C1` or `C2`.
    pub compiler: &'static str,
    /// The number that `-XX:+PrintCompilation` shows.
    pub compile_id: u32,
    /// The nmethod's method.
    pub method: String,
    /// Address of the nmethod's code.
    pub code: String,
}

/// What a profiler would be shown of one method's nmethods.
#[derive(Clone, Debug, Serialize)]
pub struct SampleRow {
    /// The outermost method.
    pub method: String,
    /// `C1` or `C2`.
    pub compiler: &'static str,
    #[serde(flatten)]
    counts: SampleCounts,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct DebugInfoReport {
    /// All states.
    pub all: StateCounts,
    /// All states by verdict.
    pub verdicts: BTreeMap<StateVerdict, StateCounts>,
    /// By compiler and kind.
    pub kinds: Vec<StateRow>,
    /// By compiler, kind and opcode.
    pub opcodes: Vec<StateRow>,
    /// States that were not judged, by reason.
    pub not_judged: Vec<UnjudgedRow>,
    /// The number of wrong places, by verdict at a place.
    pub found: u64,
    /// The wrong places, those that ran most often first; at most as many as were asked for.
    pub findings: Vec<StateFinding>,
    /// The nmethods whose debug info is impossible, whether they ran or not.
    pub impossible: Vec<ImpossibleCode>,
    /// All places whose innermost frame is in the class of [`ReportLimits::places`].
    pub places: Vec<StatePlace>,
    /// Whether some nmethod has the additional positions of `-XX:+DebugNonSafepoints`.
    pub debug_non_safepoints: bool,
    /// What a profiler would be shown, by compiler.
    pub samples: BTreeMap<&'static str, SampleCounts>,
    /// The same by method, those with the most wrong instructions first.
    pub sampled_methods: Vec<SampleRow>,
}

/// How to make a report.
#[derive(Clone, Debug)]
pub struct ReportLimits {
    /// The most findings.
    pub findings: usize,
    /// The most methods in the table of samples.
    pub methods: usize,
    /// The class of which all places are listed, and its nested classes.
    pub places: Option<String>,
    /// The capture, as the commands in findings name it.
    pub capture: String,
}

/// A place in code with its kind.
type PlaceKey = (CodeId, u32, StateGroup);

/// The verdicts on one place.
#[derive(Debug)]
struct PlaceVerdicts {
    opcode: Option<&'static str>,
    worst: StateVerdict,
    executions: BTreeMap<StateVerdict, u64>,
    /// If the place is to be listed: its frames, outermost first, and the reason of `worst`.
    listed: Option<(Vec<FramePosition>, String)>,
}

/// Whether the innermost frame is in the class `wanted` or in one nested in it.
fn is_listed(image: &VmImage, frames: &[FramePosition], wanted: Option<&str>) -> bool {
    let (Some(wanted), Some(last)) = (wanted, frames.last()) else { return false };
    let Some(method) = image.table().get(last.method) else { return false };
    let dotted = wanted.replace('/', ".");
    let class = method.class_name.replace('/', ".");
    class.strip_prefix(&dotted).is_some_and(|rest| rest.is_empty() || rest.starts_with('$'))
}

const fn compiler(n: &NMethod) -> &'static str {
    match n.compiler {
        compilers::C1 => "C1",
        _ => "C2",
    }
}

/// The offsets of the instructions in blocks of an nmethod, each block from its first offset to
/// the one after its last instruction.
pub type Instructions<'i> = dyn Fn(CodeId, &[(u32, u32)]) -> Vec<Vec<u32>> + 'i;

impl DebugInfoReport {
    /// Judges what was reached.
    pub fn new(
        image: &VmImage,
        reached: &Reached,
        instructions: &Instructions<'_>,
        limits: &ReportLimits,
    ) -> Self {
        let mut judge = Judge::new(image);
        let (mut places, mut why_not, mut wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut states: Vec<_> = reached.states.iter().collect();
        states.sort_by_key(|s| s.0);
        for (state, times) in states {
            let Some(judged) = judge.state(state) else { continue };
            let key: PlaceKey = (state.code, state.offset, judged.group);
            let opcode = judged.opcode.map(jportal_bytecode::Opcode::name);
            let place = places.entry(key).or_insert_with(|| PlaceVerdicts {
                opcode,
                worst: judged.verdict,
                executions: BTreeMap::new(),
                listed: None,
            });
            let frames = if judged.state.is_empty() { &judged.control } else { &judged.state };
            if (place.listed.is_none() || judged.verdict > place.worst)
                && is_listed(image, frames, limits.places.as_deref())
            {
                place.listed = Some((frames.clone(), judged.why.clone()));
            }
            // The order of verdicts puts what was not judged before what is wrong.
            place.worst = place.worst.max(judged.verdict);
            *place.executions.entry(judged.verdict).or_default() += times.times;
            if judged.verdict == StateVerdict::NotJudged {
                let row: &mut (std::collections::BTreeSet<PlaceKey>, u64) =
                    why_not.entry(judged.why.clone()).or_default();
                row.0.insert(key);
                row.1 += times.times;
            }
            if judged.verdict.is_wrong() {
                wrong.push((*state, times.clone(), judged));
            }
        }
        let row = |(why, (places, executions)): (String, (std::collections::BTreeSet<PlaceKey>, u64))| {
            let counts = StateCounts { places: places.len() as u64, executions };
            UnjudgedRow { why, counts }
        };
        let mut not_judged: Vec<UnjudgedRow> = why_not.into_iter().map(row).collect();
        not_judged.sort_by_key(|r| std::cmp::Reverse(r.counts.executions));
        let (samples, sampled_methods) = sample(&mut judge, reached, instructions, limits.methods);
        let nmethods = image.codes().iter().filter_map(|c| c.nmethod());
        let mut report = Self {
            all: StateCounts::default(),
            verdicts: BTreeMap::new(),
            kinds: Vec::new(),
            opcodes: Vec::new(),
            not_judged,
            found: 0,
            findings: Vec::new(),
            impossible: image.codes().iter().filter_map(|version| impossible(image, version)).collect(),
            places: Vec::new(),
            // C1's code has one for its handlers, without a scope, in any case.
            debug_non_safepoints: nmethods
                .into_iter()
                .any(|n| n.approximate.iter().any(|p| p.scope.is_some())),
            samples,
            sampled_methods,
        };
        report.count(image, &places);
        report.places = places.iter().filter_map(|(key, place)| listed(image, *key, place)).collect();
        report.find(image, reached, wrong, limits);
        report
    }
    fn count(&mut self, image: &VmImage, places: &BTreeMap<PlaceKey, PlaceVerdicts>) {
        let (mut kinds, mut opcodes) = (BTreeMap::new(), BTreeMap::new());
        for (&(code, _, kind), place) in places {
            let Some(n) = image.code(code).and_then(|v| v.nmethod()) else { continue };
            let compiler = compiler(n);
            let empty = |opcode| StateRow {
                compiler,
                kind,
                opcode,
                all: StateCounts::default(),
                verdicts: BTreeMap::new(),
            };
            let of_kind = kinds.entry((compiler, kind)).or_insert_with(|| empty(None));
            let of_opcode =
                opcodes.entry((compiler, kind, place.opcode)).or_insert_with(|| empty(place.opcode));
            let tables = [
                (&mut self.all, &mut self.verdicts),
                (&mut of_kind.all, &mut of_kind.verdicts),
                (&mut of_opcode.all, &mut of_opcode.verdicts),
            ];
            for (all, verdicts) in tables {
                all.places += 1;
                verdicts.entry(place.worst).or_default().places += 1;
                for (&verdict, times) in &place.executions {
                    all.executions += times;
                    verdicts.entry(verdict).or_default().executions += times;
                }
            }
        }
        self.kinds = kinds.into_values().collect();
        self.opcodes = opcodes.into_values().collect();
    }
    /// Makes the findings: one for each place and verdict.
    fn find(
        &mut self,
        image: &VmImage,
        reached: &Reached,
        wrong: Vec<(ReachedState, Occurrences, Judged)>,
        limits: &ReportLimits,
    ) {
        let mut all: BTreeMap<_, (ReachedState, Occurrences, Judged)> = BTreeMap::new();
        for (state, times, judged) in wrong {
            let key = (state.code, state.offset, judged.group, judged.verdict);
            match all.get_mut(&key) {
                Some(known) => {
                    known.1.times += times.times;
                    known.1.first = known.1.first.min(times.first);
                }
                None => {
                    all.insert(key, (state, times, judged));
                }
            }
        }
        self.found = all.len() as u64;
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by_key(|f| std::cmp::Reverse(f.1.times));
        all.truncate(limits.findings);
        let made = all.iter().filter_map(|f| finding(image, reached, f, &limits.capture));
        self.findings = made.collect();
    }
    /// Whether nothing is wrong.
    pub const fn is_clean(&self) -> bool {
        self.found == 0 && self.impossible.is_empty()
    }
}

fn impossible(image: &VmImage, version: &CodeVersion) -> Option<ImpossibleCode> {
    let n = version.nmethod()?;
    Some(ImpossibleCode {
        why: n.flaw.as_ref()?.to_string(),
        compiler: compiler(n),
        compile_id: n.compile_id,
        method: name(image, n.method),
        code: version.range.start.to_string(),
    })
}

fn finding(
    image: &VmImage,
    reached: &Reached,
    (state, times, judged): &(ReachedState, Occurrences, Judged),
    capture: &str,
) -> Option<StateFinding> {
    let version = image.code(state.code)?;
    let n = version.nmethod()?;
    let first = reached.seen(times.first);
    Some(StateFinding {
        verdict: judged.verdict,
        why: judged.why.clone(),
        kind: judged.group,
        compiler: compiler(n),
        compile_id: n.compile_id,
        method: name(image, n.method),
        code: version.range.start.to_string(),
        offset: state.offset,
        executions: times.times,
        debug_info: frames(image, &judged.state),
        reexecute: judged.reexecute,
        control: frames(image, &judged.control),
        did: did(image, state.kind),
        see: format!("jportal dev blocks-around {capture} {} --thread {}", first.event, first.tid),
        first,
    })
}

fn listed(image: &VmImage, (code, offset, kind): PlaceKey, place: &PlaceVerdicts) -> Option<StatePlace> {
    let (state, why) = place.listed.as_ref()?;
    let n = image.code(code)?.nmethod()?;
    Some(StatePlace {
        verdict: place.worst,
        kind,
        compiler: compiler(n),
        compile_id: n.compile_id,
        osr_bci: n.osr_bci,
        method: name(image, n.method),
        offset,
        executions: place.executions.values().sum(),
        frames: frames(image, state),
        why: why.clone(),
    })
}

fn name(image: &VmImage, method: Option<jportal_units::MethodId>) -> String {
    let method = method.and_then(|m| image.table().get(m));
    method.map_or_else(|| "an unknown method".to_owned(), jportal_bytecode::Method::qualified_name)
}

fn frames(image: &VmImage, chain: &[FramePosition]) -> Vec<StateFrame> {
    let frame = |p: &FramePosition| {
        let method = image.table().get(p.method);
        let at = p.bci.and_then(|bci| {
            let code = &method?.code;
            jportal_bytecode::Instruction::at(code, bci.into()).ok()
        });
        StateFrame {
            method: name(image, Some(p.method)),
            bci: p.bci.map_or(-1, i32::from),
            line: method.and_then(|m| m.line_at(Bci(p.bci.unwrap_or(0)))),
            opcode: at.map(|i| i.opcode.name()),
        }
    };
    chain.iter().rev().map(frame).collect()
}

/// What control did at the state, in words.
fn did(image: &VmImage, kind: StateKind) -> String {
    match kind {
        StateKind::Call(CallTarget::Java(m)) => format!("called {}", name(image, Some(m))),
        StateKind::Call(CallTarget::Stub(code)) => {
            format!("called {}", image.code(code).map_or_else(|| "a stub".to_owned(), |c| c.describe()))
        }
        StateKind::Call(CallTarget::Outside) => "called code outside of the code cache".to_owned(),
        StateKind::Call(CallTarget::Unknown) => "called something; trace is missing after it".to_owned(),
        StateKind::Inside => "executed the instruction".to_owned(),
        StateKind::Stopped(_) => "stopped at the instruction".to_owned(),
        StateKind::Resumed { again: true, .. } => {
            "was deoptimised; the interpreter executed the bytecode again".to_owned()
        }
        StateKind::Resumed { .. } => "was deoptimised; the interpreter executed the next bytecode".to_owned(),
        StateKind::Handler(at) => format!("caught an exception of the call with the handler at +{at}"),
    }
}

fn sample(
    judge: &mut Judge<'_>,
    reached: &Reached,
    instructions: &Instructions<'_>,
    most: usize,
) -> (BTreeMap<&'static str, SampleCounts>, Vec<SampleRow>) {
    let mut by_code: BTreeMap<CodeId, Vec<(&RanBlock, u64)>> = BTreeMap::new();
    for (block, times) in &reached.blocks {
        by_code.entry(block.code).or_default().push((block, times.times));
    }
    let mut methods: BTreeMap<(Option<jportal_units::MethodId>, &'static str), SampleCounts> =
        BTreeMap::new();
    for (code, blocks) in by_code {
        let Some(n) = judge.image.code(code).and_then(|v| v.nmethod()) else { continue };
        let ranges: Vec<(u32, u32)> = blocks.iter().map(|(b, _)| (b.from, b.to)).collect();
        let counts = methods.entry((n.method, compiler(n))).or_default();
        for ((block, times), offsets) in blocks.iter().zip(instructions(code, &ranges)) {
            counts.add(&samples(&mut judge.layouts, n, block, &offsets, *times));
        }
    }
    let mut all: BTreeMap<&'static str, SampleCounts> = BTreeMap::new();
    for ((_, compiler), counts) in &methods {
        all.entry(compiler).or_default().add(counts);
    }
    let row =
        |((method, compiler), counts)| SampleRow { method: name(judge.image, method), compiler, counts };
    let mut rows: Vec<SampleRow> = methods.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.counts.wrong().cmp(&a.counts.wrong()).then_with(|| a.method.cmp(&b.method)));
    rows.truncate(most);
    (all, rows)
}

/// `part` of `all` in percent.
fn percent(part: u64, all: u64) -> String {
    match all {
        0 => "-".to_owned(),
        all => format!("{:.2}%", 100.0 * part as f64 / all as f64),
    }
}

impl DebugInfoReport {
    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} places of compiled code that need debug info were reached {} times\n\n",
            self.all.places, self.all.executions
        );
        text += &self.table();
        if !self.not_judged.is_empty() {
            text += "\nnot judged:\n";
            for row in &self.not_judged {
                let StateCounts { places, executions } = row.counts;
                text += &format!("  {places:>8} places {executions:>14} times  {}\n", line(&row.why));
            }
        }
        if self.found > 0 {
            let shown = self.findings.len() as u64;
            text += &format!("\n{} places are wrong", self.found);
            text += if shown < self.found { "; those that ran most often:\n" } else { ":\n" };
            self.findings.iter().for_each(|f| text += &f.text());
        }
        if !self.impossible.is_empty() {
            text += "\nimpossible debug info; none of this code is judged:\n";
            self.impossible.iter().for_each(|code| text += &code.text());
        }
        if !self.places.is_empty() {
            text += "\nplaces:\n";
            self.places.iter().for_each(|p| text += &p.text());
        }
        text + &self.sample_text()
    }
    fn table(&self) -> String {
        let mut text = format!("{:<3} {:<18} {:>10} {:>14}", "", "kind", "places", "executions");
        let seen: Vec<StateVerdict> =
            StateVerdict::ALL.into_iter().filter(|v| self.verdicts.contains_key(v)).collect();
        for verdict in &seen {
            text += &format!(" {:>24}", verdict.name());
        }
        text.push('\n');
        let mut row = |name: (&str, &str), all: StateCounts, verdicts: &BTreeMap<_, StateCounts>| {
            text += &format!("{:<3} {:<18} {:>10} {:>14}", name.0, name.1, all.places, all.executions);
            for verdict in &seen {
                let counts = verdicts.get(verdict).copied().unwrap_or_default();
                let cell = format!("{} / {}", counts.places, counts.executions);
                text += &format!(" {cell:>24}");
            }
            text.push('\n');
        };
        for r in &self.kinds {
            row((r.compiler, r.kind.name()), r.all, &r.verdicts);
        }
        row(("all", ""), self.all, &self.verdicts);
        text + "each cell: places / executions\n"
    }
    fn sample_text(&self) -> String {
        let with = if self.debug_non_safepoints { "with" } else { "without" };
        let mut text = format!(
            "\nIf each executed instruction of compiled code were a sample ({with} the positions of -XX:+DebugNonSafepoints):\n"
        );
        let heading = ["instructions", "judged", "wrong", "line", "frames", "method", "no info"];
        text += &format!("{:<3}", "");
        heading.iter().for_each(|h| text += &format!(" {h:>14}"));
        text.push('\n');
        let row = |c: &SampleCounts| {
            let share = |part| percent(part, c.judged());
            let cells = [
                c.instructions.to_string(),
                percent(c.judged(), c.instructions),
                share(c.wrong()),
                share(c.wrong_line),
                share(c.wrong_frames),
                share(c.wrong_method),
                percent(c.no_debug_info, c.instructions),
            ];
            cells.iter().map(|c| format!(" {c:>14}")).collect::<String>()
        };
        for (compiler, counts) in &self.samples {
            text += &format!("{compiler:<3}{}\n", row(counts));
        }
        for r in &self.sampled_methods {
            text += &format!("{:<3}{}  {}\n", r.compiler, row(&r.counts), line(&r.method));
        }
        text
    }
}

impl StateGroup {
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::RuntimeCall => "runtime-call",
            Self::Poll => "poll",
            Self::ImplicitException => "implicit-exception",
            Self::Trap => "trap",
            Self::Deoptimisation => "deoptimisation",
            Self::Handler => "handler",
            Self::Fault => "fault",
        }
    }
}

impl StateFinding {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{}: {} at +{} of {} (compile id {}, {}, {}), {} times: {}\n",
            self.verdict.name(),
            self.kind.name(),
            self.offset,
            line(&self.method),
            self.compile_id,
            self.compiler,
            self.code,
            self.executions,
            line(&self.why)
        );
        let chain = |frames: &[StateFrame]| match frames {
            [] => "nothing".to_owned(),
            some => some.iter().map(StateFrame::text).collect::<Vec<_>>().join(" in "),
        };
        let bit = if self.reexecute { ", reexecute" } else { "" };
        text += &format!("  debug info  {}{bit}\n", chain(&self.debug_info));
        text += &format!("  block       {}\n", chain(&self.control));
        text += &format!("  control     {}\n", line(&self.did));
        text + &format!("  see         {}\n", line(&self.see))
    }
}

impl ImpossibleCode {
    fn text(&self) -> String {
        format!(
            "  {} (compile id {}, {}, {}): {}\n",
            line(&self.method),
            self.compile_id,
            self.compiler,
            self.code,
            line(&self.why)
        )
    }
}

impl StatePlace {
    fn text(&self) -> String {
        let frames: Vec<String> = self.frames.iter().map(StateFrame::text).collect();
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", line(&self.why)) };
        format!(
            "{:<3} {:<18} {:<15} {:>12} times  compile id {:>5} +{:<5} {}{why}\n",
            self.compiler,
            self.kind.name(),
            self.verdict.name(),
            self.executions,
            self.compile_id,
            self.offset,
            frames.join(" in ")
        )
    }
}

impl StateFrame {
    fn text(&self) -> String {
        let opcode = self.opcode.map_or_else(String::new, |o| format!(" {o}"));
        format!("{} @{}{opcode}", line(&self.method), self.bci)
    }
}
