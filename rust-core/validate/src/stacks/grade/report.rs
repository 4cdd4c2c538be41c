// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The result: how much of a profile is true.

use jportal_analyses::Inexact;
use jportal_plain::line;
use jportal_plain::table::{Align, percent, table};
use serde::Serialize;

/// What the profile has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileFigures {
    /// `collapsed` or `jfr`.
    pub format: &'static str,
    /// The weights of all stacks: samples, if each sample counts one.
    pub weight: u64,
    /// Stacks that differ.
    pub stacks: u64,
    /// Weight of the stacks without a frame of Java.
    pub without_java: u64,
    /// Frames that are no methods of Java, by weight. The others of their stacks are compared.
    pub frames_left_out: u64,
}

/// How much of the stacks the exact call tree has, outermost frames first; weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StackShares {
    /// The whole stack.
    pub whole: u64,
    /// All frames but the innermost one.
    pub callers: u64,
    /// Fewer frames, but the outermost one.
    pub outer: u64,
    /// Not even the outermost frame.
    pub nothing: u64,
    /// The mean share of a stack's frames that are there.
    pub mean_prefix: f64,
}

impl StackShares {
    pub(super) const fn add(&mut self, prefix: usize, frames: usize, weight: u64) {
        let class = match prefix {
            _ if prefix == frames => &mut self.whole,
            0 => &mut self.nothing,
            _ if prefix + 1 == frames => &mut self.callers,
            _ => &mut self.outer,
        };
        *class += weight;
    }
}

/// A call of the profile that never happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GradedCall {
    /// `class.name` of the caller.
    pub caller: String,
    /// `class.name` of the callee.
    pub callee: String,
    /// Weight of the stacks that have it.
    pub weight: u64,
}

/// A method of the profile that was never executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownMethod {
    /// `class.name`.
    pub method: String,
    /// Whether the capture describes a method of that name.
    pub captured: bool,
    /// Weight of the stacks that have it.
    pub weight: u64,
}

/// How much a profile and a measure of the truth have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LikenessRow {
    /// `self`: what the methods themselves cost. `total`: with what they called.
    pub of: &'static str,
    /// `bytecodes` executed, or `time` on a core.
    pub measure: &'static str,
    /// The sum, over all methods, of the smaller one of both shares.
    pub overlap: f64,
    /// Methods at the top of the truth, at most ten.
    pub top: u64,
    /// Those of them that are at the top of the profile, too.
    pub common: u64,
    /// Spearman's rank correlation, -1 to 1, over the methods that either of them has. `None`:
    /// there are fewer than two, or all have equal shares.
    pub correlation: Option<f64>,
}

/// A method's share of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MethodShare {
    /// The share.
    pub share: f64,
    /// The rank, if it is among the first ten.
    pub rank: Option<u64>,
}

/// A method that is at the top of the profile or of the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GradedMethod {
    /// `class.name`.
    pub method: String,
    /// Weight of the stacks in which it is innermost.
    pub weight: u64,
    /// In the profile.
    pub profile: Option<MethodShare>,
    /// Of the bytecodes. `None`: none was executed.
    pub bytecodes: Option<MethodShare>,
    /// Of the time on a core. `None`: that is not known.
    pub time: Option<MethodShare>,
}

/// The result of `jportal validate stacks --grade`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GradeReport {
    /// What the profile has.
    pub profile: ProfileFigures,
    /// Weight of the stacks that were compared.
    pub graded: u64,
    /// Whether the tree is complete. If not, a stack that it lacks may have existed.
    pub exact: bool,
    /// Why the tree is not complete.
    pub inexact: Inexact,
    /// How much of the stacks the tree has.
    pub stacks: StackShares,
    /// Weight of the stacks that the tree does not have as a whole.
    pub impossible: u64,
    /// Their share of what was compared.
    pub impossible_rate: f64,
    /// Weight of the stacks in which a call never happened, in whatever context.
    pub with_impossible_call: u64,
    /// Number of the calls that never happened.
    pub impossible_calls: u64,
    /// These calls, the heaviest first.
    pub calls: Vec<GradedCall>,
    /// Number of methods that were never executed.
    pub unknown_methods: u64,
    /// These methods, the heaviest first.
    pub unknown: Vec<UnknownMethod>,
    /// The profile beside the truth.
    pub likeness: Vec<LikenessRow>,
    /// The methods at the top of the profile, then those at the top of the truth only.
    pub methods: Vec<GradedMethod>,
}

impl GradeReport {
    /// Whether no more than this part of the profile is impossible.
    pub fn is_within(&self, allowed: f64) -> bool {
        self.impossible_rate <= allowed
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}", profile_text(&self.profile), self.stack_table());
        text += &format!(
            "mean share of a stack's frames, from the outermost one, that exist: {}\n",
            share(self.stacks.mean_prefix)
        );
        if !self.exact {
            text += "the call tree is not exact: what it lacks may have existed\n";
        }
        if self.impossible_calls > 0 {
            text += &format!(
                "\n{} calls never happened; stacks with a weight of {} have one:\n",
                self.impossible_calls, self.with_impossible_call
            );
            for call in &self.calls {
                text += &format!("  {:>8} {} -> {}\n", call.weight, line(&call.caller), line(&call.callee));
            }
        }
        if self.unknown_methods > 0 {
            text += &format!("\n{} methods were never executed:\n", self.unknown_methods);
            for unknown in &self.unknown {
                let what = if unknown.captured { "" } else { " (the capture does not have it)" };
                text += &format!("  {:>8} {}{what}\n", unknown.weight, line(&unknown.method));
            }
        }
        text + &format!("\n{}\n{}", likeness_table(&self.likeness), method_table(&self.methods))
    }

    fn stack_table(&self) -> String {
        let columns =
            [("of the stacks exist", Align::Left), ("weight", Align::Right), ("share", Align::Right)];
        let StackShares { whole, callers, outer, nothing, .. } = self.stacks;
        let rows = [
            ("all frames", whole),
            ("all but the innermost frame", callers),
            ("fewer", outer),
            ("none", nothing),
        ];
        let row = |(what, n): (&str, u64)| vec![what.to_owned(), n.to_string(), percent(n, self.graded)];
        table(&columns, &rows.map(row))
    }
}

/// What the profile has, as text.
pub(super) fn profile_text(profile: &ProfileFigures) -> String {
    let ProfileFigures { format, weight, stacks, without_java, frames_left_out } = profile;
    let mut text = format!("profile ({format}): weight {weight}, {stacks} stacks\n");
    if *without_java > 0 {
        text += &format!("  {without_java} have no frame of Java, and are not graded\n");
    }
    if *frames_left_out > 0 {
        text += &format!("  {frames_left_out} frames are no methods of Java, and are left out\n");
    }
    text
}

pub(super) fn likeness_table(likeness: &[LikenessRow]) -> String {
    let columns = [
        ("compared with", Align::Left),
        ("overlap", Align::Right),
        ("first ten in common", Align::Right),
        ("rank correlation", Align::Right),
    ];
    let row = |r: &LikenessRow| {
        let common = format!("{} of {}", r.common, r.top);
        let correlation = r.correlation.map_or_else(|| "-".to_owned(), |c| format!("{c:.2}"));
        vec![format!("{}, {}", r.measure, r.of), share(r.overlap), common, correlation]
    };
    table(&columns, &likeness.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn method_table(methods: &[GradedMethod]) -> String {
    let columns = [
        ("profile", Align::Right),
        ("", Align::Right),
        ("bytecodes", Align::Right),
        ("", Align::Right),
        ("time", Align::Right),
        ("", Align::Right),
        ("method", Align::Left),
    ];
    let row = |m: &GradedMethod| {
        let cells = |of: Option<MethodShare>| match of {
            Some(MethodShare { share: s, rank }) => {
                [share(s), rank.map_or_else(String::new, |rank| format!("#{rank}"))]
            }
            None => ["-".to_owned(), String::new()],
        };
        let mut all: Vec<String> = [m.profile, m.bytecodes, m.time].into_iter().flat_map(cells).collect();
        all.push(m.method.clone());
        all
    };
    table(&columns, &methods.iter().map(row).collect::<Vec<_>>())
}

fn share(of: f64) -> String {
    format!("{:.1}%", 100.0 * of)
}
