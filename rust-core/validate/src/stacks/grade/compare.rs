// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares a profile with the exact call tree.

use hashbrown::{HashMap, HashSet};
use jportal_analyses::tree::CallTree;
use jportal_bytecode::MethodTable;

use super::correlation::rank_correlation;
use super::names::{FrameName, FrameSort, names_of};
use super::profile::{ProfileStack, StackProfile};
use super::report::{
    GradeReport, GradedCall, GradedMethod, LikenessRow, MethodShare, ProfileFigures, StackShares,
    UnknownMethod,
};
use super::tree::{Cost, NameNumbers, NameTree};

/// How much of a result is shown.
#[derive(Clone, Copy, Debug)]
pub struct GradeLimits {
    /// Maximum number of calls that never happened, and of unknown methods.
    pub calls: usize,
}

/// Number of the methods at the top that are compared.
pub(super) const TOP: usize = 10;

/// The numbers of the names in a profile that are methods of Java. `captured`: the names of the
/// capture's methods.
pub(super) fn java_names(
    profile: &StackProfile,
    captured: &HashSet<String>,
    names: &mut NameNumbers,
) -> Vec<Option<u32>> {
    let is_java = |name: &FrameName| match name.sort {
        FrameSort::Java => true,
        FrameSort::Other => false,
        FrameSort::Open => captured.contains(&name.method),
    };
    profile.names.iter().map(|n| is_java(n).then(|| names.number(n.method.clone()))).collect()
}

/// A profile by method: of the method itself, and with what it called.
#[derive(Debug, Default)]
pub(super) struct Weights {
    own: HashMap<u32, u64>,
    total: HashMap<u32, u64>,
}

impl Weights {
    /// Adds the stacks up. `each` gets each stack with a frame of Java: its frames of Java,
    /// outermost first, and each of them once.
    pub(super) fn of(
        profile: &StackProfile,
        numbers: &[Option<u32>],
        mut each: impl FnMut(&ProfileStack, &[u32], &HashSet<u32>),
    ) -> (ProfileFigures, Self) {
        let mut weights = Self::default();
        let mut figures = ProfileFigures {
            format: profile.format,
            weight: 0,
            stacks: 0,
            without_java: 0,
            frames_left_out: 0,
        };
        for stack in &profile.stacks {
            let frames: Vec<u32> = stack.frames.iter().filter_map(|f| numbers[*f as usize]).collect();
            figures.weight += stack.weight;
            figures.stacks += 1;
            figures.frames_left_out += (stack.frames.len() - frames.len()) as u64 * stack.weight;
            let Some(&top) = frames.last() else {
                figures.without_java += stack.weight;
                continue;
            };
            *weights.own.entry(top).or_default() += stack.weight;
            let once: HashSet<u32> = frames.iter().copied().collect();
            for &name in &once {
                *weights.total.entry(name).or_default() += stack.weight;
            }
            each(stack, &frames, &once);
        }
        (figures, weights)
    }
}

impl GradeReport {
    /// Compares `profile` with the tree of the same run. `methods`: those of the capture.
    pub fn new(profile: &StackProfile, tree: &CallTree, methods: &MethodTable, limits: GradeLimits) -> Self {
        let mut names = NameNumbers::default();
        let truth = NameTree::new(tree, &mut names);
        let captured = names_of(methods);
        let numbers = java_names(profile, &captured, &mut names);
        let mut stacks = StackShares::default();
        let mut covered = 0.0;
        let mut calls: HashMap<(u32, u32), u64> = HashMap::new();
        let mut unknown: HashMap<u32, u64> = HashMap::new();
        let mut with_call = 0;
        let (figures, weights) = Weights::of(profile, &numbers, |stack, frames, once| {
            let prefix = truth.prefix(frames, stack.truncated);
            stacks.add(prefix, frames.len(), stack.weight);
            covered += prefix as f64 / frames.len() as f64 * stack.weight as f64;
            for &name in once.iter().filter(|name| !truth.has(**name)) {
                *unknown.entry(name).or_default() += stack.weight;
            }
            let pairs: HashSet<(u32, u32)> = frames.windows(2).map(|w| (w[0], w[1])).collect();
            let never = pairs.into_iter().filter(|(caller, callee)| !truth.has_call(*caller, *callee));
            let mut has_one = false;
            for call in never {
                *calls.entry(call).or_default() += stack.weight;
                has_one = true;
            }
            with_call += if has_one { stack.weight } else { 0 };
        });
        let graded = figures.weight - figures.without_java;
        stacks.mean_prefix = if graded == 0 { 0.0 } else { covered / graded as f64 };
        let shares = MethodShares { names: &names, truth: (&truth.own, &truth.total), weights: &weights };
        let mut never: Vec<GradedCall> = calls
            .iter()
            .map(|((caller, callee), weight)| GradedCall {
                caller: names.name(*caller).to_owned(),
                callee: names.name(*callee).to_owned(),
                weight: *weight,
            })
            .collect();
        never.sort_by(|a, b| (b.weight, &a.caller, &a.callee).cmp(&(a.weight, &b.caller, &b.callee)));
        let mut unknown: Vec<UnknownMethod> = unknown
            .into_iter()
            .map(|(name, weight)| {
                let method = names.name(name).to_owned();
                UnknownMethod { captured: captured.contains(&method), method, weight }
            })
            .collect();
        unknown.sort_by(|a, b| (b.weight, &a.method).cmp(&(a.weight, &b.method)));
        let (calls, unknowns) = (never.len() as u64, unknown.len() as u64);
        never.truncate(limits.calls);
        unknown.truncate(limits.calls);
        Self {
            profile: figures,
            graded,
            exact: tree.exact,
            inexact: tree.inexact.clone(),
            impossible: graded - stacks.whole,
            impossible_rate: if graded == 0 { 0.0 } else { (graded - stacks.whole) as f64 / graded as f64 },
            stacks,
            with_impossible_call: with_call,
            impossible_calls: calls,
            calls: never,
            unknown_methods: unknowns,
            unknown,
            likeness: shares.likeness(),
            methods: shares.methods(),
        }
    }
}

/// What is compared by method.
pub(super) struct MethodShares<'a> {
    pub(super) names: &'a NameNumbers,
    /// By number of the name: of the method itself, and with what it called.
    pub(super) truth: (&'a [Cost], &'a [Cost]),
    pub(super) weights: &'a Weights,
}

/// Shares by method, of one measure.
pub(super) type ByMethod = HashMap<u32, f64>;

/// Each part of the sum of all. Empty if the sum is 0.
fn parts(all: impl Iterator<Item = (u32, u64)>) -> ByMethod {
    let all: Vec<(u32, u64)> = all.filter(|(_, n)| *n > 0).collect();
    let sum: f64 = all.iter().map(|(_, n)| *n as f64).sum();
    all.into_iter().map(|(name, n)| (name, n as f64 / sum)).collect()
}

/// The methods with the largest shares; of equal ones, the first by name.
fn top(all: &ByMethod, names: &NameNumbers) -> Vec<u32> {
    let mut ranked: Vec<(u32, f64)> = all.iter().map(|(name, share)| (*name, *share)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| names.name(a.0).cmp(names.name(b.0))));
    ranked.into_iter().take(TOP).map(|(name, _)| name).collect()
}

impl MethodShares<'_> {
    fn profile(&self, total: bool) -> ByMethod {
        let weights = if total { &self.weights.total } else { &self.weights.own };
        parts(weights.iter().map(|(name, n)| (*name, *n)))
    }
    fn exact(&self, total: bool, of: Measure) -> ByMethod {
        let costs = if total { self.truth.1 } else { self.truth.0 };
        parts((0..).zip(costs.iter().map(of)))
    }
    /// The profile beside both truths, by the methods' own share and by the total one.
    pub(super) fn likeness(&self) -> Vec<LikenessRow> {
        let mut rows = Vec::new();
        for (of, total) in [("self", false), ("total", true)] {
            let profile = self.profile(total);
            for (measure, get) in measures() {
                let exact = self.exact(total, get);
                if exact.is_empty() || profile.is_empty() {
                    continue;
                }
                let both = exact.iter().filter_map(|(name, share)| Some(share.min(*profile.get(name)?)));
                let (mine, theirs) = (top(&profile, self.names), top(&exact, self.names));
                rows.push(LikenessRow {
                    of,
                    measure,
                    overlap: both.sum(),
                    top: theirs.len() as u64,
                    common: theirs.iter().filter(|name| mine.contains(name)).count() as u64,
                    correlation: rank_correlation(&profile, &exact),
                });
            }
        }
        rows
    }
    /// The methods that are at the top of the profile or of a truth, by their own share.
    pub(super) fn methods(&self) -> Vec<GradedMethod> {
        let profile = self.profile(false);
        let ranked = top(&profile, self.names);
        let exact = measures().map(|(_, get)| self.exact(false, get));
        let tops = exact.each_ref().map(|all| top(all, self.names));
        let mut all = ranked.clone();
        for name in tops.iter().flatten() {
            if !all.contains(name) {
                all.push(*name);
            }
        }
        let share = |shares: &ByMethod, ranks: &[u32], name: u32| {
            (!shares.is_empty()).then(|| MethodShare {
                share: shares.get(&name).copied().unwrap_or(0.0),
                rank: ranks.iter().position(|n| *n == name).map(|at| at as u64 + 1),
            })
        };
        let [bytecodes, time] = &exact;
        let [by_bytecodes, by_time] = &tops;
        let row = |name: u32| GradedMethod {
            method: self.names.name(name).to_owned(),
            weight: self.weights.own.get(&name).copied().unwrap_or(0),
            profile: share(&profile, &ranked, name),
            bytecodes: share(bytecodes, by_bytecodes, name),
            time: share(time, by_time, name),
        };
        all.into_iter().map(row).collect()
    }
}

/// A measure of what a method cost.
type Measure = fn(&Cost) -> u64;

/// The measures of the truth, by name.
fn measures() -> [(&'static str, Measure); 2] {
    [("bytecodes", |cost| cost.bytecodes), ("time", |cost| cost.ticks)]
}
