// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares two recordings of one deterministic program, one of them interpreted, with `jportal
//! verify --against`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::process::{self, Finished};

/// The VM's promise about paths (`-XX:JPortalPrecision`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Every bytecode is known.
    Exact,
    /// Nothing is wrong, but some stretches are unresolved.
    Default,
}

impl Precision {
    /// The value of the VM's flag.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Default => "default",
        }
    }

    /// The flag to pass to `java`.
    pub fn flag(self) -> String {
        format!("-XX:JPortalPrecision={}", self.name())
    }
}

/// The result of a comparison.
#[derive(Debug, Default, Clone)]
pub struct RunComparison {
    /// Bytecodes equal in both flows.
    pub matched: u64,
    /// Equal bytecodes that C1 executed.
    pub c1: u64,
    /// Equal bytecodes that C2 executed.
    pub c2: u64,
    /// Bytecodes that only one of the flows has and that no gap or unresolved stretch hides.
    pub wrong: u64,
    /// Unresolved stretches of the tested flow.
    pub unresolved: u64,
    /// Bytecodes of the reference that an unresolved stretch or a gap of the tested flow hides.
    pub hidden: u64,
    /// Unresolved stretches by cause.
    pub causes: BTreeMap<String, u64>,
    /// The first error, if any.
    pub failure: Option<String>,
    /// The exit status of `verify`.
    pub code: Option<i32>,
}

impl RunComparison {
    /// Equal bytecodes that compiled code executed.
    pub const fn compiled(&self) -> u64 {
        self.c1 + self.c2
    }

    /// Adds the figures of another comparison.
    pub fn add(&mut self, other: &Self) {
        self.matched += other.matched;
        self.c1 += other.c1;
        self.c2 += other.c2;
        self.wrong += other.wrong;
        self.unresolved += other.unresolved;
        self.hidden += other.hidden;
        for (cause, stretches) in &other.causes {
            *self.causes.entry(cause.clone()).or_default() += stretches;
        }
    }
}

impl fmt::Display for RunComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = if self.matched == 0 { 0.0 } else { self.compiled() as f64 / self.matched as f64 };
        let Self { matched, unresolved, hidden, .. } = self;
        write!(f, "{matched} bytecodes, {:.1} % compiled, ", 100.0 * share)?;
        write!(f, "{unresolved} unresolved, {hidden} hidden: ")?;
        match &self.failure {
            None => write!(f, "ok"),
            Some(failure) => write!(f, "FAILED: {}", failure.lines().next().unwrap_or_default()),
        }
    }
}

/// Compares the main threads of `tested` and `reference` with the command `jportal`, in the
/// methods of the application's classes. A difference is reported in the result, not as an
/// error.
///
/// # Errors
/// If `verify` cannot be started or takes longer than `limit`.
pub fn compare(
    jportal: &Path,
    (tested, precision): (&Path, Precision),
    reference: &Path,
    limit: Duration,
) -> Result<RunComparison> {
    let mut command = Command::new(jportal);
    command.args(["verify", "--json"]).arg(tested).arg("--against").arg(reference);
    let finished = process::run(&mut command, limit)?;
    let Ok(report) = finished.json() else {
        let failure = format!("verify: {}\n{}", finished.status, finished.stderr);
        let code = finished.status.code();
        return Ok(RunComparison { failure: Some(failure), code, ..RunComparison::default() });
    };
    Ok(judge(&report, &finished, precision))
}

fn judge(report: &Value, finished: &Finished, precision: Precision) -> RunComparison {
    let mut outcome = figures(report);
    let count = |name: &str| report.get(name).and_then(Value::as_u64);
    let parts = report.get("first").is_some_and(|first| !first.is_null());
    let failure = match (count("matched"), count("unresolved"), count("gaps")) {
        (None, ..) | (_, None, _) | (.., None) => Some("verify's report lacks its figures"),
        (Some(0), ..) => Some("nothing was compared"),
        _ if parts => Some("the flows part"),
        (.., Some(1..)) => Some("the flow has gaps"),
        (_, Some(1..), _) if precision == Precision::Exact => Some("unresolved stretches"),
        // `verify` summarises the same figures in its exit status.
        _ if precision == Precision::Exact && !finished.status.success() => Some("verify is not content"),
        _ => None,
    };
    let text = |failure: &str| {
        let pretty = serde_json::to_string_pretty(report).unwrap_or_default();
        format!("{failure}\n{pretty}\n{}", finished.stderr)
    };
    outcome.failure = failure.map(text);
    outcome.code = finished.status.code();
    outcome
}

/// Reads the figures of `verify`'s report. Figures that it lacks are 0.
fn figures(report: &Value) -> RunComparison {
    let at = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let mut outcome = RunComparison {
        matched: at("/matched"),
        c1: at("/tiers/c1/exact"),
        c2: at("/tiers/c2/exact"),
        wrong: at("/missing") + at("/extra"),
        unresolved: at("/unresolved"),
        hidden: at("/hidden"),
        ..RunComparison::default()
    };
    for group in report["unresolved_by_cause"].as_array().into_iter().flatten() {
        let (cause, stretches) = (group["cause"].as_str(), group["stretches"].as_u64());
        *outcome.causes.entry(cause.unwrap_or("?").to_owned()).or_default() += stretches.unwrap_or(0);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn judged(report: &Value, code: i32, precision: Precision) -> Option<String> {
        let (stdout, stderr) = (Vec::new(), String::new());
        let status = ExitStatus::from_raw(code << 8);
        let finished = Finished { status, stdout, stderr, peak_kib: 0, elapsed: Duration::ZERO };
        let failure = judge(report, &finished, precision).failure?;
        failure.lines().next().map(str::to_owned)
    }

    fn report() -> Value {
        json!({"matched": 9, "missing": 0, "extra": 0, "unresolved": 0, "hidden": 0, "gaps": 0, "first": null,
            "tiers": {"c1": {"exact": 2}, "c2": {"exact": 3}}, "unresolved_by_cause": []})
    }

    fn with(changes: &[(&str, Value)]) -> Value {
        let mut report = report();
        changes.iter().for_each(|(name, value)| report[*name] = value.clone());
        report
    }

    #[test]
    fn what_is_not_known_fails_exact_only() {
        let open = with(&[("unresolved", json!(1)), ("hidden", json!(4))]);
        assert_eq!(judged(&open, 1, Precision::Default), None);
        assert_eq!(judged(&open, 1, Precision::Exact).as_deref(), Some("unresolved stretches"));
        assert_eq!(judged(&report(), 0, Precision::Exact), None);
        assert_eq!(judged(&report(), 1, Precision::Exact).as_deref(), Some("verify is not content"));
    }

    #[test]
    fn what_is_wrong_or_was_not_compared_fails_either() {
        for precision in [Precision::Exact, Precision::Default] {
            let faulty = [
                ("first", json!({"at": 3})),
                ("matched", json!(0)),
                ("gaps", json!(1)),
                ("gaps", Value::Null),
            ];
            for change in faulty {
                let report = with(std::slice::from_ref(&change));
                assert!(judged(&report, 1, precision).is_some(), "{change:?}");
            }
        }
    }

    #[test]
    fn stretches_are_counted_by_cause() {
        let group = |tier, n| json!({"tier": tier, "cause": "empty-loop", "stretches": n, "hidden": 0});
        let mut outcome = figures(&with(&[("unresolved_by_cause", json!([group("C1", 1), group("C2", 4)]))]));
        outcome.add(&outcome.clone());
        assert_eq!(outcome.causes, BTreeMap::from([("empty-loop".to_owned(), 10)]));
        assert_eq!((outcome.matched, outcome.compiled()), (18, 10));
    }
}
