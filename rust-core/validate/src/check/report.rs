// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The checker of a whole recording and what it reports.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use jportal_bytecode::MethodTable;
use jportal_flow::{Analysis, Enough, Event, ThreadInfo};
use serde::Serialize;

use crate::check::callee::Declared;
use crate::check::code::Codes;
use crate::check::finding::Finding;
use crate::check::rule::{Reset, Rule};
use crate::check::walk::Walk;

/// Options of the checker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckOptions {
    /// The number of findings to keep. All findings are counted.
    pub keep: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { keep: 20 }
    }
}

/// Counts of one thread, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckFigures {
    /// Events received.
    pub events: u64,
    /// Bytecodes whose place was checked.
    pub steps: u64,
    /// Frames entered by a call of Java code whose site and callee were checked.
    pub calls: u64,
    /// Frames left by return or unwinding.
    pub exits: u64,
    /// Handlers entered.
    pub catches: u64,
    rules: [u64; Rule::ALL.len()],
    resets: [u64; Reset::ALL.len()],
}

impl CheckFigures {
    /// Events that break `rule`.
    pub fn broken(&self, rule: Rule) -> u64 {
        self.rules[rule as usize]
    }
    /// Resets of that cause.
    pub fn reset(&self, reset: Reset) -> u64 {
        self.resets[reset as usize]
    }
    /// Findings of all rules.
    pub fn findings(&self) -> u64 {
        self.rules.iter().sum()
    }
    pub(crate) fn count_broken(&mut self, rule: Rule) {
        self.rules[rule as usize] += 1;
    }
    pub(crate) fn count_reset(&mut self, reset: Reset) {
        self.resets[reset as usize] += 1;
    }
    fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.steps += other.steps;
        self.calls += other.calls;
        self.exits += other.exits;
        self.catches += other.catches;
        self.rules.iter_mut().zip(other.rules).for_each(|(a, b)| *a += b);
        self.resets.iter_mut().zip(other.resets).for_each(|(a, b)| *a += b);
    }
}

/// What was checked and found, over all threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Threads whose flow has ended.
    pub threads: u64,
    /// Events received.
    pub events: u64,
    /// Bytecodes whose place was checked.
    pub steps: u64,
    /// Calls checked.
    pub calls: u64,
    /// Frames left by return or unwinding.
    pub exits: u64,
    /// Handlers entered.
    pub catches: u64,
    /// Total number of findings.
    pub findings: u64,
    /// Findings by rule. Rules that hold are omitted.
    pub by_rule: BTreeMap<&'static str, u64>,
    /// Places where less could be checked, by cause. Causes that did not occur are omitted.
    pub resets: BTreeMap<&'static str, u64>,
    /// The first findings, by thread and event.
    pub first: Vec<Finding>,
}

impl Report {
    /// Whether no rule was broken.
    pub const fn is_clean(&self) -> bool {
        self.findings == 0
    }
    /// A summary of a few lines, followed by the first findings.
    pub fn text(&self) -> String {
        let list = |all: &BTreeMap<&str, u64>| {
            let items: Vec<String> = all.iter().map(|(name, n)| format!("{n} {name}")).collect();
            if items.is_empty() { "none".to_owned() } else { items.join(", ") }
        };
        let mut text = format!(
            "checked       {} events of {} threads: {} bytecodes, {} calls, {} exits, {} handlers\n",
            self.events, self.threads, self.steps, self.calls, self.exits, self.catches
        );
        text.push_str(&format!("not checked   {}\n", list(&self.resets)));
        text.push_str(&format!("findings      {}\n", list(&self.by_rule)));
        self.first.iter().for_each(|f| text.push_str(&f.text()));
        let rest = self.findings - self.first.len() as u64;
        if rest > 0 {
            text.push_str(&format!("and {rest} more findings\n"));
        }
        text
    }
}

/// What the walks of all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) methods: Arc<MethodTable>,
    pub(crate) codes: Codes,
    pub(crate) declared: Declared,
    pub(crate) options: CheckOptions,
}

#[derive(Debug, Default)]
struct Total {
    threads: u64,
    figures: CheckFigures,
    findings: Vec<Finding>,
}

/// Checks the flows of all threads of a recording.
#[derive(Debug)]
pub struct Checker {
    shared: Arc<Shared>,
    total: Total,
}

impl Checker {
    /// A checker for the methods of one recording.
    pub fn new(methods: Arc<MethodTable>, options: CheckOptions) -> Self {
        let (codes, declared) = (Codes::new(&methods), Declared::new(&methods));
        let shared = Arc::new(Shared { methods, codes, declared, options });
        Self { shared, total: Total::default() }
    }
    /// The total over the threads whose flow has ended.
    pub fn report(&self) -> Report {
        let total = &self.total;
        let f = &total.figures;
        let mut first = total.findings.clone();
        first.sort_by_key(|f| (f.started, f.tid, f.event));
        first.truncate(self.shared.options.keep);
        let rules = Rule::ALL.iter().map(|r| (r.name(), f.broken(*r)));
        let resets = Reset::ALL.iter().map(|r| (r.name(), f.reset(*r)));
        Report {
            threads: total.threads,
            events: f.events,
            steps: f.steps,
            calls: f.calls,
            exits: f.exits,
            catches: f.catches,
            findings: f.findings(),
            by_rule: rules.filter(|r| r.1 > 0).collect(),
            resets: resets.filter(|r| r.1 > 0).collect(),
            first,
        }
    }
}

impl Analysis for Checker {
    type Thread = CheckedThread;

    fn begin(&self, info: &ThreadInfo) -> CheckedThread {
        CheckedThread(Walk::new(Arc::clone(&self.shared), info.clone()))
    }
    fn events(&self, thread: &mut CheckedThread, events: &[Event]) -> ControlFlow<Enough> {
        events.iter().for_each(|e| thread.0.event(e));
        ControlFlow::Continue(())
    }
    fn merge(&mut self, mut thread: CheckedThread) {
        let (figures, findings) = thread.0.end();
        self.total.threads += 1;
        self.total.figures.merge(&figures);
        self.total.findings.extend(findings);
    }
    fn takes_runs(&self) -> bool {
        false
    }
}

/// One thread that is checked.
#[derive(Debug)]
pub struct CheckedThread(Walk);
