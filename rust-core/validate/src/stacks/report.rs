// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The result: how many stacks of each interface were right.

use std::collections::BTreeMap;

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::Tier;
use jportal_plain::line;
use jportal_plain::table::{Align, table};
use serde::Serialize;

use super::compare::{Detail, MethodNames, StackVerdict, TrueFrame};
use super::judge::{FrameKind, StackCounts, StacksOptions};
use super::log::{StackApi, TakenStack};

/// Stacks of one interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackApiRow {
    /// The interface.
    pub api: StackApi,
    /// Stacks in the log.
    pub samples: u64,
    /// Stacks that were compared.
    pub judged: u64,
    /// Stacks that are wrong.
    pub broken: u64,
    /// The part of the judged ones that is wrong; 0 if none was judged.
    pub rate: f64,
    /// Wilson's interval, 95 %, of that part: its ends.
    pub interval: [f64; 2],
    /// By verdict.
    pub verdicts: BTreeMap<StackVerdict, u64>,
    /// By detail of the verdict, `VERDICT/DETAIL`.
    pub details: BTreeMap<String, u64>,
    /// Errors by their codes.
    pub errors: BTreeMap<i32, u64>,
}

/// Stacks of one interface by what executed the innermost Java frame.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackTierRow {
    /// The interface.
    pub api: StackApi,
    /// The tier of the innermost frame that is not native.
    pub tier: &'static str,
    /// Whether the frame is inlined.
    pub inlined: bool,
    /// Stacks that were compared.
    pub judged: u64,
    /// Stacks that are wrong.
    pub broken: u64,
    /// The part of the judged ones that is wrong.
    pub rate: f64,
    /// As [`StackApiRow::interval`].
    pub interval: [f64; 2],
}

/// Frames of the true stacks by what executed them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackFrameRow {
    /// The interface.
    pub api: StackApi,
    /// The tier.
    pub tier: &'static str,
    /// Whether the frames are inlined.
    pub inlined: bool,
    /// Frames that were compared. In a broken stack only those down to the first difference are.
    pub frames: u64,
    /// Of these, frames at which the flow does not know the bytecode.
    pub open: u64,
    /// First differences.
    pub wrong: u64,
}

/// Stacks that were not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackUnjudgedRow {
    /// The interface.
    pub api: StackApi,
    /// The reason.
    pub why: &'static str,
    /// Stacks.
    pub samples: u64,
}

/// Wrong stacks that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackGroupRow {
    /// The interface.
    pub api: StackApi,
    /// The verdict.
    pub verdict: StackVerdict,
    /// More about it.
    pub detail: Detail,
    /// The circumstances.
    pub tags: Vec<&'static str>,
    /// Stacks.
    pub samples: u64,
}

/// A frame, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownFrame {
    /// `class.name(descriptor)`; `None` if the interface gave no method.
    pub method: Option<String>,
    /// The bci, or what stands for it. `None`: the flow does not know it.
    pub location: Option<i32>,
    /// Source line.
    pub line: Option<u16>,
    /// The tier, of true frames only.
    pub tier: Option<&'static str>,
    /// Whether it is inlined, of true frames only.
    pub inlined: Option<bool>,
}

/// A wrong stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongStack {
    /// The interface.
    pub api: StackApi,
    /// The verdict.
    pub verdict: StackVerdict,
    /// More about it.
    pub detail: Detail,
    /// The circumstances.
    pub tags: Vec<&'static str>,
    /// OS thread id.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// Number of the call of `Probe.hit` in the thread, from 0.
    pub hit: u64,
    /// Number of the event in the thread's flow.
    pub event: u64,
    /// The first frame that differs, from 0, innermost first.
    pub at: u64,
    /// Number of frames that the interface gave.
    pub taken_depth: u64,
    /// Number of true frames.
    pub true_depth: u64,
    /// The frames around the difference that the interface gave.
    pub taken: Vec<ShownFrame>,
    /// The true frames around the difference.
    pub truth: Vec<ShownFrame>,
    /// The command that shows the machine blocks around the moment.
    pub see: String,
}

/// The result of `jportal validate stacks`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StacksReport {
    /// Stacks in the log.
    pub samples: u64,
    /// Stacks that were compared.
    pub judged: u64,
    /// Stacks that are wrong.
    pub broken: u64,
    /// By interface.
    pub apis: Vec<StackApiRow>,
    /// By interface and tier of the innermost Java frame.
    pub tiers: Vec<StackTierRow>,
    /// By interface and tier of each frame.
    pub frames: Vec<StackFrameRow>,
    /// What was not judged, and why.
    pub not_judged: Vec<StackUnjudgedRow>,
    /// The wrong stacks in groups, the largest first.
    pub groups: Vec<StackGroupRow>,
    /// Wrong stacks, one of each group before a second one of any.
    pub findings: Vec<WrongStack>,
    /// Why logs could not be read to their ends.
    pub log_errors: Vec<String>,
}

/// Frames shown before and after a difference.
pub(crate) const AROUND: usize = 3;

fn around<T>(all: &[T], at: usize) -> &[T] {
    &all[at.saturating_sub(AROUND).min(all.len())..(at + AROUND + 1).min(all.len())]
}

pub(crate) fn shown_taken(names: &MethodNames, taken: &TakenStack, at: usize) -> Vec<ShownFrame> {
    let frame = |f: &super::log::TakenFrame| ShownFrame {
        method: names
            .logged(f.method)
            .map(|m| format!("{}.{}{}", m.class.replace('/', "."), m.name, m.descriptor)),
        location: Some(f.location),
        line: None,
        tier: None,
        inlined: None,
    };
    around(&taken.frames, at).iter().map(frame).collect()
}

pub(crate) fn shown_truth(methods: &MethodTable, truth: &[TrueFrame], at: usize) -> Vec<ShownFrame> {
    let frame = |f: &TrueFrame| {
        let method = methods.get(f.method);
        ShownFrame {
            method: method.map(Method::qualified_name),
            location: if f.tier == Tier::Native { Some(-1) } else { f.bci.map(|b| b.0.into()) },
            line: f.bci.and_then(|bci| method?.line_at(bci)),
            tier: Some(f.tier.name()),
            inlined: Some(f.inlined),
        }
    };
    around(truth, at).iter().map(frame).collect()
}

/// The ends of Wilson's score interval of 95 % for `part` of `all`.
pub(crate) fn wilson(part: u64, all: u64) -> [f64; 2] {
    /// The quantile of the normal distribution at 97.5 %.
    const Z: f64 = 1.959_963_984_540_054;
    if all == 0 {
        return [0.0, 1.0];
    }
    let (p, n) = (part as f64 / all as f64, all as f64);
    let scale = 1.0 / (1.0 + Z * Z / n);
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends the exact values are 0 and 1.
    let low = if part == 0 { 0.0 } else { scale * (middle - half) };
    let high = if part == all { 1.0 } else { scale * (middle + half) };
    [low, high]
}

pub(crate) fn rate(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

impl StacksReport {
    pub(crate) fn new(counts: StackCounts, options: &StacksOptions) -> Self {
        let apis: Vec<StackApiRow> =
            options.apis.iter().filter_map(|api| StackApiRow::new(*api, &counts)).collect();
        let tier = |(&(api, (tier, inlined)), &(judged, broken)): (&(StackApi, FrameKind), &(u64, u64))| {
            StackTierRow {
                api,
                tier: tier.name(),
                inlined,
                judged,
                broken,
                rate: rate(broken, judged),
                interval: wilson(broken, judged),
            }
        };
        let frame = |(&(api, (tier, inlined)), &(frames, open, wrong)): (
            &(StackApi, FrameKind),
            &(u64, u64, u64),
        )| StackFrameRow { api, tier: tier.name(), inlined, frames, open, wrong };
        let unjudged = |(&(api, why), &samples)| StackUnjudgedRow { api, why, samples };
        let mut groups: Vec<StackGroupRow> = counts
            .groups
            .iter()
            .map(|(key, (samples, _))| {
                let (api, verdict, detail, tags) = key.clone();
                StackGroupRow { api, verdict, detail, tags, samples: *samples }
            })
            .collect();
        groups.sort_by_key(|g| std::cmp::Reverse(g.samples));
        let sum = |f: fn(&StackApiRow) -> u64| apis.iter().map(f).sum();
        Self {
            samples: sum(|a| a.samples),
            judged: sum(|a| a.judged),
            broken: sum(|a| a.broken),
            tiers: counts.by_top.iter().map(tier).collect(),
            frames: counts.frames.iter().map(frame).collect(),
            not_judged: counts.not_judged.iter().map(unjudged).collect(),
            groups,
            findings: spread(counts.findings, options.findings),
            log_errors: counts.log_errors,
            apis,
        }
    }

    /// Whether the interfaces break no more than this part of the judged stacks.
    pub fn is_within(&self, allowed: f64) -> bool {
        self.apis.iter().all(|a| a.rate <= allowed)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} stacks were taken, {} judged, {} are broken\n\n",
            self.samples, self.judged, self.broken
        );
        text += &self.api_table();
        text += &self.tier_table();
        text += &self.frame_table();
        if !self.not_judged.is_empty() {
            text += "\nnot judged:\n";
            for row in &self.not_judged {
                text += &format!("  {:>8} {:<9} {}\n", row.samples, row.api.name(), row.why);
            }
        }
        if !self.groups.is_empty() {
            text += "\nbroken:\n";
            for g in &self.groups {
                let what = verdict_words(g.verdict, g.detail);
                text += &format!("  {:>8} {:<9} {what}: {}\n", g.samples, g.api.name(), g.tags.join(", "));
            }
        }
        self.findings.iter().for_each(|f| text += &f.text());
        self.log_errors.iter().for_each(|e| text += &format!("\n{}\n", line(e)));
        text
    }

    fn api_table(&self) -> String {
        let seen: Vec<StackVerdict> = StackVerdict::ALL
            .into_iter()
            .filter(|v| {
                matches!(v, StackVerdict::Equal | StackVerdict::Error)
                    || self.apis.iter().any(|a| a.verdicts.contains_key(v))
            })
            .collect();
        let mut columns = vec![("api", Align::Left), ("samples", Align::Right), ("judged", Align::Right)];
        columns.extend(seen.iter().map(|v| (v.name(), Align::Right)));
        columns.extend([("broken", Align::Right), ("95 %", Align::Right)]);
        let row = |a: &StackApiRow| {
            let mut cells = vec![a.api.name().to_owned(), a.samples.to_string(), a.judged.to_string()];
            cells.extend(seen.iter().map(|v| a.verdicts.get(v).copied().unwrap_or(0).to_string()));
            cells.push(part(a.rate));
            cells.push(interval(a.interval, a.judged));
            cells
        };
        table(&columns, &self.apis.iter().map(row).collect::<Vec<_>>())
    }

    fn tier_table(&self) -> String {
        let columns = [
            ("api", Align::Left),
            ("innermost Java frame", Align::Left),
            ("judged", Align::Right),
            ("broken", Align::Right),
            ("", Align::Right),
            ("95 %", Align::Right),
        ];
        let row = |r: &StackTierRow| {
            let numbers = [r.judged.to_string(), r.broken.to_string(), part(r.rate)];
            let words = [r.api.name().to_owned(), kind_words(r.tier, r.inlined)];
            [&words[..], &numbers, &[interval(r.interval, r.judged)]].concat()
        };
        format!("\n{}", table(&columns, &self.tiers.iter().map(row).collect::<Vec<_>>()))
    }

    fn frame_table(&self) -> String {
        let columns = [
            ("api", Align::Left),
            ("frames executed by", Align::Left),
            ("compared", Align::Right),
            ("bci not known", Align::Right),
            ("wrong", Align::Right),
        ];
        let row = |r: &StackFrameRow| {
            let numbers = [r.frames, r.open, r.wrong].map(|n| n.to_string());
            [&[r.api.name().to_owned(), kind_words(r.tier, r.inlined)][..], &numbers].concat()
        };
        format!("\n{}", table(&columns, &self.frames.iter().map(row).collect::<Vec<_>>()))
    }
}

/// At most `most` findings, one of each group before a second one of any.
fn spread(all: Vec<WrongStack>, most: usize) -> Vec<WrongStack> {
    let mut seen: BTreeMap<_, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, WrongStack)> = all
        .into_iter()
        .map(|f| {
            let rank = seen.entry((f.api, f.verdict, f.detail, f.tags.clone())).or_default();
            *rank += 1;
            (*rank, f)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(most).map(|(_, f)| f).collect()
}

pub(crate) fn part(rate: f64) -> String {
    format!("{:.4}%", 100.0 * rate)
}

pub(crate) fn interval([low, high]: [f64; 2], judged: u64) -> String {
    if judged == 0 { "-".to_owned() } else { format!("{:.4}–{:.4}%", 100.0 * low, 100.0 * high) }
}

fn kind_words(tier: &str, inlined: bool) -> String {
    if inlined { format!("{tier}, inlined") } else { tier.to_owned() }
}

pub(crate) fn verdict_words(verdict: StackVerdict, detail: Detail) -> String {
    match detail {
        Detail::None => verdict.name().to_owned(),
        more => format!("{} ({})", verdict.name(), more.name()),
    }
}

impl StackApiRow {
    /// `None` if the log has no stack of the interface.
    fn new(api: StackApi, counts: &StackCounts) -> Option<Self> {
        let mut row = Self {
            api,
            samples: 0,
            judged: 0,
            broken: 0,
            rate: 0.0,
            interval: [0.0, 1.0],
            verdicts: BTreeMap::new(),
            details: BTreeMap::new(),
            errors: BTreeMap::new(),
        };
        for (&(of, verdict, detail), &n) in &counts.verdicts {
            if of != api {
                continue;
            }
            row.samples += n;
            row.judged += if verdict.is_judged() { n } else { 0 };
            row.broken += if verdict.is_broken() { n } else { 0 };
            *row.verdicts.entry(verdict).or_default() += n;
            if detail != Detail::None {
                row.details.insert(format!("{}/{}", verdict.name(), detail.name()), n);
            }
        }
        for (&(of, code), &n) in &counts.errors {
            if of == api {
                row.errors.insert(code, n);
            }
        }
        row.rate = rate(row.broken, row.judged);
        row.interval = wilson(row.broken, row.judged);
        (row.samples > 0).then_some(row)
    }
}

impl WrongStack {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{}: {} of thread {} ({}), call {} of Probe.hit, event {}: {}\n",
            verdict_words(self.verdict, self.detail),
            self.api.name(),
            self.tid,
            line(&self.thread),
            self.hit,
            self.event,
            self.tags.join(", ")
        );
        text += &format!(
            "  frame {} differs; {} frames were given, {} are true\n",
            self.at, self.taken_depth, self.true_depth
        );
        let first = self.at.saturating_sub(AROUND as u64);
        for (name, frames) in [("given", &self.taken), ("true", &self.truth)] {
            for (i, f) in (first..).zip(frames) {
                let mark = if i == self.at { "=>" } else { "  " };
                text += &format!("  {mark} {name:<5} {i:>4}  {}\n", f.text());
            }
        }
        text + &format!("  see {}\n", line(&self.see))
    }
}

impl ShownFrame {
    pub(crate) fn text(&self) -> String {
        let method = self.method.as_deref().unwrap_or("no method");
        let at = self.location.map_or_else(|| "?".to_owned(), |l| l.to_string());
        let mut text = format!("{} @{at}", line(method));
        if let Some(n) = self.line {
            text += &format!(" (line {n})");
        }
        if let Some(tier) = self.tier {
            text += &format!(" {}", kind_words(tier, self.inlined == Some(true)));
        }
        text
    }
}
