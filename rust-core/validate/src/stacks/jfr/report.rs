// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The result: how many of JFR's stacks existed, and when.

use std::collections::BTreeMap;

use jportal_bytecode::MethodTable;
use jportal_plain::line;
use jportal_plain::table::{Align, table};
use serde::Serialize;

use super::judge::{JfrOptions, taken};
use super::read::{JFR_EVENTS, JfrSample, JfrSamples};
use crate::stacks::compare::{Compared, Detail, MethodNames, StackVerdict, TrueFrame};
use crate::stacks::report::{
    AROUND, ShownFrame, interval, part, rate, shown_taken, shown_truth, verdict_words, wilson,
};

/// What a sample of JFR turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JfrVerdict {
    /// In the window the thread had this stack, and in it the top frame began this bytecode.
    Equal,
    /// In the window the thread had this stack. The top frame began this bytecode at another time.
    OtherBytecode,
    /// The thread had this stack at another time.
    OtherTime,
    /// The thread had this stack, but in it the top frame never began this bytecode.
    WrongBytecode,
    /// The thread never had this stack.
    Impossible,
    /// The flow does not exclude that the thread had it.
    NotJudged,
}

impl JfrVerdict {
    /// All of them; the order of the columns of a table.
    pub const ALL: [Self; 6] = [
        Self::Equal,
        Self::OtherBytecode,
        Self::OtherTime,
        Self::WrongBytecode,
        Self::Impossible,
        Self::NotJudged,
    ];
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::OtherBytecode => "other-bytecode",
            Self::OtherTime => "other-time",
            Self::WrongBytecode => "wrong-bytecode",
            Self::Impossible => "impossible",
            Self::NotJudged => "not-judged",
        }
    }
    /// Whether such a stack never existed in the thread.
    pub const fn is_broken(self) -> bool {
        matches!(self, Self::WrongBytecode | Self::Impossible)
    }
}

/// In which frames a stack leaves what the thread had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JfrWhere {
    /// In the innermost frame of the machine: its bytecode, or methods inlined into it.
    Innermost,
    /// In a caller, or in which frames there are.
    Caller,
}

/// A judged sample.
#[derive(Debug)]
pub(super) struct JudgedSample {
    /// Index in the samples.
    pub(super) sample: usize,
    pub(super) verdict: JfrVerdict,
    pub(super) why: &'static str,
    /// Ticks between the sample and the nearest time at which the thread had its stack.
    pub(super) nearest: Option<u64>,
    pub(super) place: Option<JfrWhere>,
    /// The comparison with the most similar stack in the window.
    pub(super) compared: Option<Compared>,
    pub(super) truth: Vec<TrueFrame>,
}

impl JudgedSample {
    pub(super) fn new(sample: usize, verdict: JfrVerdict) -> Self {
        let (why, nearest, place, compared, truth) = ("", None, None, None, Vec::new());
        Self { sample, verdict, why, nearest, place, compared, truth }
    }
    pub(super) fn not_judged(sample: usize, why: &'static str) -> Self {
        Self { why, ..Self::new(sample, JfrVerdict::NotJudged) }
    }
}

/// Samples of one event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JfrRow {
    /// The event.
    pub event: &'static str,
    /// Samples with a stack.
    pub samples: u64,
    /// Samples that were judged.
    pub judged: u64,
    /// Samples whose stack never existed.
    pub broken: u64,
    /// The part of the judged ones that is broken; 0 if none was judged.
    pub rate: f64,
    /// Wilson's interval, 95 %, of that part: its ends.
    pub interval: [f64; 2],
    /// By verdict.
    pub verdicts: BTreeMap<JfrVerdict, u64>,
}

/// Samples by how JFR says that the innermost frame was executed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JfrFrameRow {
    /// `interpreted`, `compiled`, `inlined` or `native`.
    pub executed: &'static str,
    /// Samples that were judged.
    pub judged: u64,
    /// Samples whose stack never existed.
    pub broken: u64,
    /// As [`JfrRow::rate`].
    pub rate: f64,
    /// As [`JfrRow::interval`].
    pub interval: [f64; 2],
}

/// Samples that were not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JfrUnjudgedRow {
    /// The reason.
    pub why: &'static str,
    /// Samples.
    pub samples: u64,
}

/// Broken samples that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct JfrGroupRow {
    /// The verdict.
    pub verdict: JfrVerdict,
    /// Where the stack leaves what the thread had. `None`: it is truncated.
    #[serde(rename = "where")]
    pub place: Option<JfrWhere>,
    /// How JFR says that the innermost frame was executed.
    pub executed: &'static str,
    /// Samples.
    pub samples: u64,
}

/// How far from a sample's time the thread had its stack, in milliseconds: of the samples whose
/// stack existed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JfrDistances {
    /// Samples.
    pub samples: u64,
    /// Half of them are nearer.
    pub median_ms: f64,
    /// 95 % of them are nearer.
    pub p95_ms: f64,
    /// The farthest.
    pub max_ms: f64,
}

/// A broken sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WrongSample {
    /// The event.
    pub event: &'static str,
    /// The verdict.
    pub verdict: JfrVerdict,
    /// Where the stack leaves what the thread had. `None`: it is truncated.
    #[serde(rename = "where")]
    pub place: Option<JfrWhere>,
    /// The comparison with the most similar stack of the window. `None`: the thread had none.
    pub compared: Option<StackVerdict>,
    /// More about the comparison.
    pub detail: Option<Detail>,
    /// OS thread id.
    pub tid: u32,
    /// Thread name.
    pub thread: String,
    /// Number of the sample among those with a stack, from 0.
    pub sample: u64,
    /// JFR's time, milliseconds since the recording of the capture began.
    pub ms: f64,
    /// The first frame that differs, from 0, innermost first.
    pub at: u64,
    /// Number of frames that JFR gave.
    pub taken_depth: u64,
    /// Number of frames of the similar stack.
    pub true_depth: u64,
    /// The frames around the difference that JFR gave.
    pub taken: Vec<ShownFrame>,
    /// Those of the similar stack.
    pub truth: Vec<ShownFrame>,
}

/// The result of `jportal validate stacks --jfr`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JfrReport {
    /// Samples with a stack.
    pub samples: u64,
    /// Samples that were judged.
    pub judged: u64,
    /// Samples whose stack never existed.
    pub broken: u64,
    /// How far from a sample's time its stack may be, in milliseconds.
    pub window_ms: f64,
    /// How far the stacks were. `None`: no stack existed.
    pub distances: Option<JfrDistances>,
    /// By event.
    pub events: Vec<JfrRow>,
    /// By what executed the innermost frame.
    pub frames: Vec<JfrFrameRow>,
    /// What was not judged, and why.
    pub not_judged: Vec<JfrUnjudgedRow>,
    /// The broken samples in groups, the largest first.
    pub groups: Vec<JfrGroupRow>,
    /// Broken samples, one of each group before a second one of any.
    pub findings: Vec<WrongSample>,
}

/// A broken sample's group: verdict, place, and how the innermost frame was executed.
type GroupKey = (JfrVerdict, Option<JfrWhere>, &'static str);

impl JfrReport {
    pub(super) fn new(
        judged: &[JudgedSample],
        (samples, names, methods): (&JfrSamples, &MethodNames, &MethodTable),
        options: &JfrOptions,
    ) -> Self {
        let mut rows: BTreeMap<usize, BTreeMap<JfrVerdict, u64>> = BTreeMap::new();
        let mut tops: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        let mut not_judged: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut groups: BTreeMap<GroupKey, u64> = BTreeMap::new();
        let mut broken: Vec<(u64, &JudgedSample)> = Vec::new();
        for one in judged {
            let sample = &samples.all[one.sample];
            *rows.entry(sample.event).or_default().entry(one.verdict).or_default() += 1;
            if one.verdict == JfrVerdict::NotJudged {
                *not_judged.entry(one.why).or_default() += 1;
                continue;
            }
            let Some(top) = sample.frames.first() else { continue };
            let counts = tops.entry(top.kind).or_default();
            *counts = (counts.0 + 1, counts.1 + u64::from(one.verdict.is_broken()));
            if one.verdict.is_broken() {
                let group = groups.entry((one.verdict, one.place, top.kind.name())).or_default();
                broken.push((*group, one));
                *group += 1;
            }
        }
        broken.sort_by_key(|(rank, _)| *rank);
        let finding =
            |(_, one): &(u64, &JudgedSample)| WrongSample::new(one, (samples, names, methods), options);
        let events: Vec<JfrRow> = rows.into_iter().map(|(event, all)| JfrRow::new(event, all)).collect();
        let frame = |(kind, (judged, broken)): (super::read::JfrFrameType, (u64, u64))| JfrFrameRow {
            executed: kind.name(),
            judged,
            broken,
            rate: rate(broken, judged),
            interval: wilson(broken, judged),
        };
        let group = |((verdict, place, executed), samples)| JfrGroupRow { verdict, place, executed, samples };
        let mut groups: Vec<JfrGroupRow> = groups.into_iter().map(group).collect();
        groups.sort_by_key(|g| std::cmp::Reverse(g.samples));
        let sum = |f: fn(&JfrRow) -> u64| events.iter().map(f).sum();
        Self {
            samples: sum(|r| r.samples),
            judged: sum(|r| r.judged),
            broken: sum(|r| r.broken),
            window_ms: options.window_ms,
            distances: JfrDistances::new(judged, options),
            frames: tops.into_iter().map(frame).collect(),
            not_judged: not_judged
                .into_iter()
                .map(|(why, samples)| JfrUnjudgedRow { why, samples })
                .collect(),
            groups,
            findings: broken.iter().take(options.findings).map(finding).collect(),
            events,
        }
    }

    /// Whether no more than this part of the judged samples is broken.
    pub fn is_within(&self, allowed: f64) -> bool {
        rate(self.broken, self.judged) <= allowed
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} stacks were taken by JFR, {} judged, {} are broken: they never existed in their threads\n",
            self.samples, self.judged, self.broken
        );
        if let Some(d) = self.distances {
            text += &format!(
                "the thread had the stack within {:.3} ms of JFR's time (median), {:.3} ms (95 %), {:.3} ms (all); \
                 the window is {} ms on either side\n",
                d.median_ms, d.p95_ms, d.max_ms, self.window_ms
            );
        }
        text += &format!("\n{}\n{}", self.event_table(), self.frame_table());
        if !self.not_judged.is_empty() {
            text += "\nnot judged:\n";
            self.not_judged.iter().for_each(|r| text += &format!("  {:>8} {}\n", r.samples, r.why));
        }
        if !self.groups.is_empty() {
            text += "\nbroken:\n";
            for g in &self.groups {
                let what = words(g.verdict, g.place);
                text += &format!("  {:>8} {what}, innermost frame {}\n", g.samples, g.executed);
            }
        }
        self.findings.iter().for_each(|f| text += &f.text());
        text
    }

    fn event_table(&self) -> String {
        let mut columns = vec![("event", Align::Left), ("samples", Align::Right), ("judged", Align::Right)];
        columns.extend(JfrVerdict::ALL.iter().map(|v| (v.name(), Align::Right)));
        columns.extend([("broken", Align::Right), ("95 %", Align::Right)]);
        let row = |r: &JfrRow| {
            let mut cells = vec![r.event.to_owned(), r.samples.to_string(), r.judged.to_string()];
            cells.extend(JfrVerdict::ALL.iter().map(|v| r.verdicts.get(v).copied().unwrap_or(0).to_string()));
            cells.extend([part(r.rate), interval(r.interval, r.judged)]);
            cells
        };
        table(&columns, &self.events.iter().map(row).collect::<Vec<_>>())
    }

    fn frame_table(&self) -> String {
        let columns = [
            ("innermost frame", Align::Left),
            ("judged", Align::Right),
            ("broken", Align::Right),
            ("", Align::Right),
            ("95 %", Align::Right),
        ];
        let row = |r: &JfrFrameRow| {
            let numbers = [r.judged.to_string(), r.broken.to_string(), part(r.rate)];
            [&[r.executed.to_owned()][..], &numbers, &[interval(r.interval, r.judged)]].concat()
        };
        table(&columns, &self.frames.iter().map(row).collect::<Vec<_>>())
    }
}

fn words(verdict: JfrVerdict, place: Option<JfrWhere>) -> String {
    let place = match place {
        Some(JfrWhere::Innermost) => " in the innermost frame of the machine",
        Some(JfrWhere::Caller) => " in a caller",
        None => "",
    };
    format!("{}{place}", verdict.name())
}

impl JfrRow {
    fn new(event: usize, verdicts: BTreeMap<JfrVerdict, u64>) -> Self {
        let sum = |f: fn(JfrVerdict) -> bool| verdicts.iter().filter(|(v, _)| f(**v)).map(|(_, n)| n).sum();
        let (samples, judged) = (sum(|_| true), sum(|v| v != JfrVerdict::NotJudged));
        let broken = sum(JfrVerdict::is_broken);
        let (rate, interval) = (rate(broken, judged), wilson(broken, judged));
        Self { event: JFR_EVENTS[event], samples, judged, broken, rate, interval, verdicts }
    }
}

impl JfrDistances {
    fn new(judged: &[JudgedSample], options: &JfrOptions) -> Option<Self> {
        let mut all: Vec<u64> = judged.iter().filter_map(|j| j.nearest).collect();
        all.sort_unstable();
        let last = all.len().checked_sub(1)?;
        let ms = |at: usize| options.clock.ms(all[at]);
        Some(Self {
            samples: all.len() as u64,
            median_ms: ms(last / 2),
            p95_ms: ms(last * 95 / 100),
            max_ms: ms(last),
        })
    }
}

impl WrongSample {
    fn new(
        one: &JudgedSample,
        (samples, names, methods): (&JfrSamples, &MethodNames, &MethodTable),
        options: &JfrOptions,
    ) -> Self {
        let sample: &JfrSample = &samples.all[one.sample];
        // Of a wrong bytecode, the similar stack may have begun none yet.
        let at = match one.verdict {
            JfrVerdict::WrongBytecode => 0,
            _ => one.compared.map_or(0, |c| c.at),
        };
        let since = i128::from(sample.unix_ns) - i128::from(options.clock.start_unix_ns);
        Self {
            event: JFR_EVENTS[sample.event],
            verdict: one.verdict,
            place: one.place,
            compared: one.compared.map(|c| c.verdict),
            detail: one.compared.map(|c| c.detail),
            tid: sample.tid,
            thread: samples.threads[sample.thread].to_string(),
            sample: sample.number,
            ms: since as f64 / 1e6,
            at: at as u64,
            taken_depth: sample.frames.len() as u64,
            true_depth: one.truth.len() as u64,
            taken: shown_taken(names, &taken(sample), at),
            truth: shown_truth(methods, &one.truth, at),
        }
    }
    fn text(&self) -> String {
        let mut text = format!(
            "\n{}: sample {} of {}, thread {} ({}), at {:.3} ms\n",
            words(self.verdict, self.place),
            self.sample,
            self.event,
            self.tid,
            line(&self.thread),
            self.ms
        );
        match (self.compared, self.detail) {
            (Some(verdict), Some(detail)) => {
                text += &format!(
                    "  the most similar stack in the window: {}; frame {} differs; {} frames were given, that one has {}\n",
                    verdict_words(verdict, detail),
                    self.at,
                    self.taken_depth,
                    self.true_depth
                );
            }
            _ => {
                text += &format!(
                    "  {} frames were given; no stack of the window was compared\n",
                    self.taken_depth
                )
            }
        }
        let first = self.at.saturating_sub(AROUND as u64);
        for (name, frames) in [("JFR", &self.taken), ("flow", &self.truth)] {
            for (i, f) in (first..).zip(frames) {
                let mark = if i == self.at { "=>" } else { "  " };
                text += &format!("  {mark} {name:<5} {i:>4}  {}\n", f.text());
            }
        }
        text
    }
}
