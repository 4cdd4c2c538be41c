// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on metrics.

use std::collections::BTreeMap;

use jportal_bytecode::{Instruction, Method};
use jportal_flow::Tally;
use jportal_plain::table::{Align, table};
use jportal_units::{Bci, Tsc};
use serde::Serialize;

use super::kind::OpcodeKind;
use super::{Life, MetricsAnalysis};
use crate::hidden::{Inexact, counted};
use crate::polymorphism::{Totals, ratio};

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// A number of things.
    Count(u64),
    /// A ratio or a density.
    Ratio(f64),
    /// Numbers of things by class of size.
    Bins([u64; 3]),
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Whether all events of the threads shown are known: nothing is missing, inferred or lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Executed bytecodes.
    pub bytecodes: Tally,
    /// Values by name: `size.run`; with the prefix `app` of the last part, `size.appRun`, for the
    /// application's classes.
    pub metrics: BTreeMap<String, Figure>,
    /// Names of metrics whose values are lower bounds even of an exact flow, with the reason.
    pub at_least: BTreeMap<String, &'static str>,
    /// Names of metrics without a value, with the reason.
    pub unavailable: BTreeMap<String, &'static str>,
}

/// Metrics that need data which a capture does not have.
const UNAVAILABLE: [(&str, &str); 5] = [
    ("data.byteArrayDensity", "baload and bastore are for byte and for boolean"),
    ("memory.byteAllocationDensity", "a branch trace has no sizes of objects"),
    ("concurrency.contendedLockDensity", "a branch trace does not say whether a lock was free"),
    ("polymorphism.receiverArity.bin", "a branch trace has no classes of receivers"),
    ("polymorphism.receiverArityCalls.bin", "a branch trace has no classes of receivers"),
];

const NO_RECEIVERS: &str = "by the classes of targets: receivers of one target may be of many classes";
const NO_ENDS: &str = "a thread counts from its start to the last time that its flow states";
const NO_FIELDS: &str = "the capture has no types of fields";
const NO_BYTECODES: &str = "no bytecode of these classes was executed";
const NO_CONTROL: &str = "no conditional of these classes was executed";
const NO_CALLS: &str = "no virtual call of these classes was made";
const NO_TIMES: &str = "the flow of a thread has no times";

/// Figures under construction.
#[derive(Default)]
struct Values {
    metrics: BTreeMap<String, Figure>,
    at_least: BTreeMap<String, &'static str>,
    unavailable: BTreeMap<String, &'static str>,
    application: bool,
}

impl Values {
    /// The name for the classes in question: `size.appHot.percentile` for `size.hot.percentile`.
    fn name(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((group, rest)) if self.application => {
                let (head, tail) = rest.split_at(1);
                format!("{group}.app{}{tail}", head.to_uppercase())
            }
            _ => name.to_owned(),
        }
    }
    fn count(&mut self, name: &str, n: u64) {
        self.metrics.insert(self.name(name), Figure::Count(n));
    }
    fn ratio(&mut self, name: &str, value: Option<f64>, otherwise: &'static str) {
        let name = self.name(name);
        match value {
            Some(value) => drop(self.metrics.insert(name, Figure::Ratio(value))),
            None => drop(self.unavailable.insert(name, otherwise)),
        }
    }
}

/// Sums over instructions.
#[derive(Default)]
struct Sums {
    loaded: u64,
    /// Numbers of executions of each executed instruction.
    run: Vec<u64>,
    bytecodes: u64,
    control: u64,
    control_executed: u64,
    changing: u64,
    changes: u64,
    locked: u64,
    /// Executions by kind.
    kinds: [u64; KINDS.len()],
    /// Accesses of fields that hold references.
    reference_fields: u64,
    /// A method was executed of which it is not known which fields it accesses.
    unknown_fields: bool,
}

/// Kinds with a density.
const KINDS: [(OpcodeKind, &str); 9] = [
    (OpcodeKind::Array, "data.arrayDensity"),
    (OpcodeKind::CharArray, "data.charArrayDensity"),
    (OpcodeKind::NumArray, "data.numArrayDensity"),
    (OpcodeKind::ByteArray, "data.byteOrBooleanArrayDensity"),
    (OpcodeKind::RefArray, "data.refArrayDensity"),
    (OpcodeKind::Float, "data.floatDensity"),
    (OpcodeKind::Field, "pointer.fieldAccessDensity"),
    (OpcodeKind::Allocation, "memory.objectAllocationDensity"),
    (OpcodeKind::Lock, "concurrency.lockDensity"),
];

impl MetricsAnalysis {
    /// All metrics.
    pub fn report(&self) -> Metrics {
        let mut values = Values::default();
        values.unavailable.extend(UNAVAILABLE.map(|(name, why)| (name.to_owned(), why)));
        let mut inexact = Inexact::default();
        for application in [false, true] {
            values.application = application;
            let wanted = |m: &Method| !application || self.is_application(m);
            self.sums(wanted).add_to(&mut values);
            let calls = self.calls.report(0, wanted);
            add_calls(&mut values, &calls.totals);
            self.add_threads(&mut values);
            inexact = calls.inexact;
        }
        let exact = !inexact.is_lossy() && inexact.stretches() == 0;
        let Values { metrics, at_least, unavailable, .. } = values;
        Metrics { exact, inexact, bytecodes: self.bytecodes, metrics, at_least, unavailable }
    }
    fn is_application(&self, method: &Method) -> bool {
        self.application.get(method.id.get() as usize).is_some_and(|app| *app)
    }
    fn sums(&self, wanted: impl Fn(&Method) -> bool) -> Sums {
        let mut sums = Sums::default();
        for method in self.methods.iter().filter(|m| wanted(m)) {
            let Some(shape) = self.shapes.get(&self.methods, method.id) else { continue };
            sums.loaded += shape.starts.len() as u64;
            let Some(counts) = self.counts.get(method.id) else { continue };
            sums.changing += counts.changing(shape);
            sums.changes += counts.changes;
            sums.locked += counts.locked;
            for (bci, opcode, n) in counts.instructions(method, shape) {
                sums.unknown_fields |= method.constants.is_none();
                if OpcodeKind::Field.has(opcode) {
                    match holds_reference(method, bci) {
                        Some(reference) => sums.reference_fields += if reference { n } else { 0 },
                        None => sums.unknown_fields = true,
                    }
                }
                sums.run.push(n);
                sums.bytecodes += n;
                for ((kind, _), sum) in KINDS.iter().zip(&mut sums.kinds) {
                    *sum += if kind.has(opcode) { n } else { 0 };
                }
                if OpcodeKind::Control.has(opcode) {
                    sums.control += 1;
                    sums.control_executed += n;
                }
            }
        }
        sums
    }
    fn add_threads(&self, values: &mut Values) {
        let lives: Vec<&Life> =
            self.lives.iter().filter(|l| l.executed[usize::from(values.application)]).collect();
        values.count("concurrency.threads", lives.len() as u64);
        let name = "concurrency.threadDensity";
        let spans: Option<Vec<(Tsc, Tsc)>> = lives.iter().map(|l| l.started.zip(l.last)).collect();
        match spans {
            Some(spans) => {
                values.count(name, most_at_once(&spans));
                values.at_least.insert(values.name(name), NO_ENDS);
            }
            None => drop(values.unavailable.insert(values.name(name), NO_TIMES)),
        }
    }
}

/// Whether the field that the instruction at `bci` accesses holds a reference. `None`: not known.
fn holds_reference(method: &Method, bci: Bci) -> Option<bool> {
    let instruction = Instruction::at(&method.code, bci.get().into()).ok()?;
    method.constant_of(&instruction)?.is_reference()
}

/// The greatest number of spans that have a time in common.
fn most_at_once(spans: &[(Tsc, Tsc)]) -> u64 {
    // At the same time, beginnings come before ends.
    let mut edges: Vec<(Tsc, bool)> = spans.iter().flat_map(|s| [(s.0, false), (s.1, true)]).collect();
    edges.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, ends) in edges {
        now = if ends { now.saturating_sub(1) } else { now + 1 };
        most = most.max(now);
    }
    most
}

impl Sums {
    /// The least number of instructions with 90 % of all executions.
    fn hot(&mut self) -> u64 {
        self.run.sort_unstable_by_key(|n| u64::MAX - n);
        let mut sum: u128 = 0;
        let enough = |sum: u128| 10 * sum >= 9 * u128::from(self.bytecodes);
        let mut hot = 0;
        for n in &self.run {
            if enough(sum) {
                break;
            }
            sum += u128::from(*n);
            hot += 1;
        }
        hot
    }
    fn add_to(mut self, values: &mut Values) {
        let (run, hot) = (self.run.len() as u64, self.hot());
        values.count("size.load", self.loaded);
        values.count("size.run", run);
        values.count("size.hot", hot);
        values.ratio("size.hot.percentile", ratio(hot, run), NO_BYTECODES);
        values.ratio("structure.controlDensity", ratio(self.control, run), NO_BYTECODES);
        values.ratio("structure.changingControlDensity", ratio(self.changing, run), NO_BYTECODES);
        let rate = ratio(self.changes, self.control_executed);
        values.ratio("structure.changingControlRate", rate, NO_CONTROL);
        for ((kind, name), n) in KINDS.iter().zip(self.kinds) {
            let n = if *kind == OpcodeKind::Lock { n + self.locked } else { n };
            values.ratio(name, ratio(n, self.bytecodes).map(|r| 1000.0 * r), NO_BYTECODES);
        }
        let fields = ratio(self.reference_fields, self.bytecodes).map(|r| 1000.0 * r);
        let (fields, why) = if self.unknown_fields { (None, NO_FIELDS) } else { (fields, NO_BYTECODES) };
        values.ratio("pointer.refFieldAccessDensity", fields, why);
    }
}

fn add_calls(values: &mut Values, totals: &Totals) {
    values.count("polymorphism.callSites", totals.call_sites);
    for (name, bins) in [
        ("polymorphism.targetArity.bin", totals.target_arity),
        ("polymorphism.targetArityCalls.bin", totals.target_arity_calls),
    ] {
        values.metrics.insert(values.name(name), Figure::Bins(bins));
    }
    values.ratio("polymorphism.invokeDensity", totals.invoke_density, NO_BYTECODES);
    let least = totals.at_least;
    for (name, value, bound) in [
        ("polymorphism.targetPolyDensity", totals.target_poly_density, false),
        ("polymorphism.targetPolyDensityCalls", totals.target_poly_density_calls, false),
        ("polymorphism.targetCacheMissRate", totals.target_cache_miss_rate, false),
        ("polymorphism.receiverPolyDensity", least.receiver_poly_density, true),
        ("polymorphism.receiverPolyDensityCalls", least.receiver_poly_density_calls, true),
        ("polymorphism.receiverCacheMissRate", least.receiver_cache_miss_rate, true),
    ] {
        values.ratio(name, value, NO_CALLS);
        if bound && value.is_some() {
            values.at_least.insert(values.name(name), NO_RECEIVERS);
        }
    }
}

impl Metrics {
    /// The report as a table, and what is unavailable.
    pub fn text(&self) -> String {
        let shown = |name: &String, figure: &Figure| {
            let least = if self.at_least.contains_key(name) { "≥ " } else { "" };
            match figure {
                Figure::Count(n) => format!("{least}{n}"),
                Figure::Ratio(r) => format!("{least}{r:.4}"),
                Figure::Bins([a, b, c]) => format!("{a} / {b} / {c}"),
            }
        };
        let rows = self.metrics.iter().map(|(name, figure)| vec![name.clone(), shown(name, figure)]);
        let columns = [("metric", Align::Left), ("value", Align::Right)];
        let mut text = table(&columns, &rows.collect::<Vec<_>>());
        for (title, of) in [("lower bounds", &self.at_least), ("unavailable", &self.unavailable)] {
            if !of.is_empty() {
                let rows = of.iter().map(|(name, why)| vec![name.clone(), (*why).to_owned()]);
                let columns = [(title, Align::Left), ("", Align::Left)];
                text.push_str(&format!("\n{}", table(&columns, &rows.collect::<Vec<_>>())));
            }
        }
        if !self.exact {
            let why = [self.inexact.blind_text(), self.inexact.stretches_text()];
            let inferred = self.inexact.projected + self.inexact.recovered;
            let inferred = if inferred > 0 { counted(inferred, "inferred event") } else { String::new() };
            let why: Vec<String> = why.into_iter().chain([inferred]).filter(|w| !w.is_empty()).collect();
            text.push_str(&format!(
                "\nthe flow is not complete ({}): numbers are lower bounds, ratios are of what was seen\n",
                why.join(", ")
            ));
        }
        text
    }
}
