// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares coverage with JaCoCo's, taken in another run of the same deterministic program.
//!
//! JaCoCo's instruction and branch counters follow from its probes (`rules`). The flow shows
//! which of these probes would have been hit. So the comparison has three parts: each probe of
//! each method; JaCoCo's published counters and the same arithmetic over the flow's probes,
//! method by method; and the flow's own counters, whose difference to JaCoCo's is attributed to
//! the rule that causes it. The arithmetic is also applied to JaCoCo's own probes. If the
//! result differs from JaCoCo's own counters, the arithmetic is wrong and the method counts as
//! different.

mod listing;
mod marks;
mod rules;
mod text;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jportal_bytecode::{Method, Shape};
use jportal_units::MethodId;
use serde::Serialize;

pub use listing::{Count, Counters, Listing, ListingError};
pub use marks::MarksAnalysis;

use listing::{ListedMethod, Operation, State};
use marks::{BEGUN, Marks, WENT_ON};
use rules::{JacocoSite, Treatment, filter, instruction_count, probes, replay};

/// Why the flow's own counters differ from JaCoCo's, in instructions and branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reasons {
    /// Left out by JaCoCo's filters (code that the Java compiler generated), or counted as one
    /// with others.
    pub filtered: Counters,
    /// Executed, but no later probe was hit: an exception left the block, or the program ended
    /// inside it.
    pub no_probe_behind: Counters,
    /// A later probe was hit, but the flow does not show how control got there (unresolved
    /// stretches).
    pub not_in_flow: Counters,
    /// A conditional whose target is the instruction that follows it: JaCoCo counts two ways,
    /// the flow has one.
    pub same_target: Counters,
}

/// Counts of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Probes {
    /// Compared.
    pub compared: u64,
    /// Probes that were hit in both.
    pub hit: u64,
    /// Hit in the flow only.
    pub flow_only: u64,
    /// Hit in JaCoCo's run only.
    pub jacoco_only: u64,
    /// Not compared: probes on the two ways of a conditional whose target is the instruction
    /// that follows it. A flow of bytecodes does not distinguish them.
    pub not_told: u64,
}

/// The figures of a method, a class or all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JacocoFigures {
    /// As JaCoCo publishes them.
    pub jacoco: Counters,
    /// JaCoCo's arithmetic over the probes that the flow passes.
    pub by_rule: Counters,
    /// The flow's own counters.
    pub flow: Counters,
    /// Counts of probes.
    pub probes: Probes,
    /// The difference between `flow` and `by_rule`, by reason.
    pub reasons: Reasons,
    /// Methods compared.
    pub methods: u64,
    /// Methods whose counters or probes differ.
    pub different: u64,
}

/// A method with a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JacocoDifference {
    /// Qualified name.
    pub method: String,
    /// Its figures.
    pub figures: JacocoFigures,
    /// The first probes that differ, for display.
    pub probes: Vec<String>,
    /// The arithmetic does not give JaCoCo's counters even from JaCoCo's probes.
    pub arithmetic: bool,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JacocoComparison {
    /// JaCoCo's version.
    pub version: String,
    /// Sum over the classes.
    pub total: JacocoFigures,
    /// By binary name.
    pub classes: BTreeMap<String, JacocoFigures>,
    /// Methods that differ; at most [`JacocoComparison::SHOWN`].
    pub differences: Vec<JacocoDifference>,
    /// Classes that were not compared, by reason.
    pub left_out: BTreeMap<String, Vec<String>>,
    /// Methods that were not compared, by reason.
    pub methods_left_out: BTreeMap<&'static str, u64>,
    /// Unresolved stretches of the flow.
    pub unresolved: u64,
}

/// All methods, by class and by name and signature: several loaders may have the same class.
type ByName<'m> = HashMap<&'m str, HashMap<(&'m str, &'m str), Vec<MethodId>>>;

impl JacocoComparison {
    /// Number of differing methods that are kept.
    pub const SHOWN: usize = 100;

    /// Compares the classes whose methods `wanted` accepts.
    pub fn new(flow: &MarksAnalysis, listing: &Listing, wanted: impl Fn(&Method) -> bool) -> Self {
        let mut ours = ByName::new();
        for m in flow.methods().iter().filter(|m| wanted(m)) {
            let class = ours.entry(&*m.class_name).or_default();
            class.entry((&*m.name, &*m.signature)).or_default().push(m.id);
        }
        let mut result =
            Self { version: listing.version.clone(), unresolved: flow.unresolved(), ..Self::default() };
        let mut best: BTreeMap<&str, &listing::ListedClass> = BTreeMap::new();
        for class in &listing.classes {
            let kept = best.entry(&class.name).or_insert(class);
            if kept.state == State::Other {
                *kept = class;
            }
        }
        for (name, methods) in &ours {
            match best.get(name) {
                None => result.leave_out(name, "no class file of it was given"),
                Some(class) => match &class.state {
                    State::Other => result.leave_out(name, "JaCoCo saw other bytes"),
                    State::Synthetic => {
                        result.leave_out(name, "made up by the compiler, JaCoCo leaves it out")
                    }
                    State::Failed(why) => result.leave_out(name, &format!("JaCoCo cannot analyse it: {why}")),
                    State::Ran | State::Silent => result.class(flow, name, methods, &class.methods),
                },
            }
        }
        result.left_out.values_mut().for_each(|names| names.sort_unstable());
        result.differences.sort_by(|a, b| a.method.cmp(&b.method));
        result
    }

    /// Whether every compared probe and every compared counter is the same.
    pub fn equal(&self) -> bool {
        self.total.methods > 0 && self.total.different == 0
    }

    fn leave_out(&mut self, class: &str, why: &str) {
        self.left_out.entry(why.to_owned()).or_default().push(class.replace('/', "."));
    }

    fn class(
        &mut self,
        flow: &MarksAnalysis,
        name: &str,
        ours: &HashMap<(&str, &str), Vec<MethodId>>,
        theirs: &[ListedMethod],
    ) {
        let mut sum = JacocoFigures::default();
        for listed in theirs {
            let Some(operations) = &listed.operations else {
                *self.methods_left_out.entry("with subroutines, which JaCoCo rewrites").or_default() += 1;
                continue;
            };
            let count = instruction_count(operations);
            if count == 0 {
                continue;
            }
            let ids = ours.get(&(&*listed.name, &*listed.descriptor)).map_or(&[][..], Vec::as_slice);
            let same = ids.iter().filter_map(|id| Some((*id, flow.shape(*id)?)));
            let same: Vec<(MethodId, &Shape)> = same.filter(|(_, s)| s.starts.len() == count).collect();
            let Some(&(_, shape)) = same.first() else {
                *self.methods_left_out.entry("not in the capture, or with other bytecodes").or_default() += 1;
                continue;
            };
            let marks = same.iter().filter_map(|(id, _)| flow.marks(*id)).reduce(|mut a, b| {
                a.bcis.iter_mut().zip(&b.bcis).for_each(|(a, b)| *a |= b);
                a.ways.iter_mut().zip(&b.ways).for_each(|(a, b)| *a |= b);
                a
            });
            let view = MethodMarks { shape, marks: marks.unwrap_or_default() };
            let (figures, difference) = compare(&view, listed, operations);
            sum.add(&figures);
            if let Some((probes, arithmetic)) = difference.filter(|_| self.differences.len() < Self::SHOWN) {
                let method = format!("{}.{}{}", name.replace('/', "."), listed.name, listed.descriptor);
                self.differences.push(JacocoDifference { method, figures, probes, arithmetic });
            }
        }
        self.total.add(&sum);
        self.classes.insert(name.replace('/', "."), sum);
    }
}

impl JacocoFigures {
    fn add(&mut self, other: &Self) {
        self.jacoco.add(&other.jacoco);
        self.by_rule.add(&other.by_rule);
        self.flow.add(&other.flow);
        let (p, q) = (&mut self.probes, &other.probes);
        p.compared += q.compared;
        p.hit += q.hit;
        p.flow_only += q.flow_only;
        p.jacoco_only += q.jacoco_only;
        p.not_told += q.not_told;
        let (r, s) = (&mut self.reasons, &other.reasons);
        r.filtered.add(&s.filtered);
        r.no_probe_behind.add(&s.no_probe_behind);
        r.not_in_flow.add(&s.not_in_flow);
        r.same_target.add(&s.same_target);
        self.methods += other.methods;
        self.different += other.different;
    }
}

/// The flow's marks of one method, by number of instruction.
struct MethodMarks<'a> {
    shape: &'a Shape,
    marks: Marks,
}

impl MethodMarks<'_> {
    fn mark(&self, at: usize) -> u8 {
        let bci = self.shape.starts.get(at).map_or(usize::MAX, |b| usize::from(b.get()));
        self.marks.bcis.get(bci).copied().unwrap_or(0)
    }
    fn began(&self, at: usize) -> bool {
        self.mark(at) & BEGUN != 0
    }
    /// Whether control passed from one instruction to the other; `None` if `from` is not a
    /// branch.
    fn went(&self, from: usize, to: usize) -> Option<bool> {
        let (from, to) = (*self.shape.starts.get(from)?, *self.shape.starts.get(to)?);
        let slot = self.shape.slot(from, to)?;
        Some(self.marks.ways.get(slot).copied().unwrap_or(false))
    }
    /// Ways out of a branch, and the ways taken; zero for other instructions.
    fn ways(&self, at: usize) -> Count {
        let branch = self.shape.starts.get(at).and_then(|bci| self.shape.branch(*bci));
        branch.map_or(Count::default(), |b| {
            let (from, n) = (b.slot, b.successors.len());
            let taken = self.marks.ways.iter().skip(from).take(n).filter(|w| **w).count();
            Count { covered: taken as u64, present: n as u64 }
        })
    }
    /// Whether the flow passed the site; `None` if the flow cannot tell.
    fn hit(&self, site: JacocoSite) -> Option<bool> {
        match site {
            JacocoSite::Before(at) => Some(self.began(at)),
            JacocoSite::Behind(at) | JacocoSite::Way(at, _) if self.has_one_way(at) => {
                (!self.began(at)).then_some(false)
            }
            JacocoSite::Behind(at) => Some(self.went(at, at + 1).unwrap_or(self.mark(at) & WENT_ON != 0)),
            // A goto has one way only.
            JacocoSite::Way(at, to) => Some(self.went(at, to).unwrap_or_else(|| self.began(at))),
        }
    }
    fn has_one_way(&self, at: usize) -> bool {
        self.shape.starts.get(at).is_some_and(|bci| self.shape.one_way.binary_search(bci).is_ok())
    }
    fn describe(&self, site: JacocoSite) -> String {
        let bci = |at: usize| self.shape.starts.get(at).map_or_else(|| "end".into(), ToString::to_string);
        match site {
            JacocoSite::Before(at) => format!("before @{}", bci(at)),
            JacocoSite::Behind(at) => format!("between @{} and @{}", bci(at), bci(at + 1)),
            JacocoSite::Way(at, to) => format!("on the way from @{} to @{}", bci(at), bci(to)),
        }
    }
}

/// The figures of a method. If something differs, also the probes that differ, and whether the
/// arithmetic is wrong.
fn compare(
    view: &MethodMarks<'_>,
    listed: &ListedMethod,
    operations: &[Operation],
) -> (JacocoFigures, Option<(Vec<String>, bool)>) {
    const NAMED: usize = 5;
    let mut figures = JacocoFigures { methods: 1, ..JacocoFigures::default() };
    let mut named = Vec::new();
    for (site, probe) in probes(operations) {
        let p = &mut figures.probes;
        let Some(ours) = view.hit(site) else {
            p.not_told += 1;
            continue;
        };
        p.compared += 1;
        p.hit += u64::from(ours && probe.hit);
        p.flow_only += u64::from(ours && !probe.hit);
        p.jacoco_only += u64::from(!ours && probe.hit);
        if ours != probe.hit && named.len() < NAMED {
            let who = if ours { "the flow" } else { "JaCoCo" };
            named.push(format!("only {who} passed {}", view.describe(site)));
        }
    }
    let theirs = filter(replay(operations, |_, p| p.hit), &listed.filters);
    let ours = replay(operations, |site, p| view.hit(site).unwrap_or(p.hit));
    let ours = filter(ours, &listed.filters);
    figures.jacoco = listed.counters.unwrap_or_default();
    figures.by_rule = ours.counters().unwrap_or_default();
    reasons(view, &ours, &mut figures);
    let arithmetic = theirs.counters() != listed.counters;
    let equal = named.is_empty() && !arithmetic && figures.jacoco == figures.by_rule;
    figures.different = u64::from(!equal);
    (figures, (!equal).then_some((named, arithmetic)))
}

/// Adds the flow's own counters, and the reasons for their difference to those by JaCoCo's
/// rules.
fn reasons(view: &MethodMarks<'_>, ours: &rules::Filtered, figures: &mut JacocoFigures) {
    for (at, instruction) in ours.instructions.iter().enumerate() {
        let began = Count { covered: u64::from(view.began(at)), present: 1 };
        let flow = Counters { instructions: began, branches: view.ways(at) };
        figures.flow.add(&flow);
        let r = &mut figures.reasons;
        let rule = instruction.counters();
        match ours.treatment[at] {
            Treatment::LeftOut => r.filtered.add(&flow),
            Treatment::Changed => r.filtered.add(&distance(&flow, &rule)),
            Treatment::Kept => {
                r.no_probe_behind.instructions.covered += surplus(flow.instructions, rule.instructions);
                r.not_in_flow.instructions.covered += surplus(rule.instructions, flow.instructions);
                if rule.branches.present == flow.branches.present {
                    r.no_probe_behind.branches.covered += surplus(flow.branches, rule.branches);
                    r.not_in_flow.branches.covered += surplus(rule.branches, flow.branches);
                } else {
                    let d = distance(&flow, &rule);
                    r.same_target.branches.add(d.branches);
                }
            }
        }
    }
}

/// How many more are covered in `a` than in `b`.
fn surplus(a: Count, b: Count) -> u64 {
    a.covered.saturating_sub(b.covered)
}

fn distance(a: &Counters, b: &Counters) -> Counters {
    let of = |a: Count, b: Count| Count {
        covered: a.covered.abs_diff(b.covered),
        present: a.present.abs_diff(b.present),
    };
    Counters { instructions: of(a.instructions, b.instructions), branches: of(a.branches, b.branches) }
}

#[cfg(test)]
#[path = "jacoco_tests.rs"]
mod tests;
