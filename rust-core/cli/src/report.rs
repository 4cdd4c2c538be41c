// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report`.

use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::calls::CallsAnalysis;
use jportal::analyses::coverage::CoverageAnalysis;
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::names::Naming;
use jportal::analyses::select::is_application;
use jportal::{Analysis, Answer, Capture, Execution, Method};
use serde::Serialize;

use crate::args::{Classes, ReportArgs, ReportKind};
use crate::output::{Kind, put_text, put_value};
use crate::{Outcome, decode};

pub(crate) fn report(args: &ReportArgs) -> Result<Outcome> {
    let capture = decode::open(&args.decode.capture)?;
    let methods = Arc::new(capture.methods().clone());
    let inlined = Arc::new(capture.inlined());
    let naming = Naming { stable: args.stable_names, merge_versions: args.merge_versions };
    let wanted = |m: &Method| is_wanted(args, m);
    let exclude = decode::excluded(&args.exclude);
    match args.kind {
        ReportKind::Coverage => {
            let analysis = CoverageAnalysis::new(methods, inlined).excluding(exclude).naming(naming);
            let answer = run(args, &capture, analysis)?;
            let report = answer.analysis.report(wanted);
            let hint = if report.classes.is_empty() { "no class fits; try --classes all\n" } else { "" };
            show(args, &report, &format!("{}{hint}", report.text(args.methods)), &capture, &answer)?;
        }
        ReportKind::HotMethods => {
            let analysis = HotAnalysis::new(methods, inlined).excluding(exclude).naming(naming);
            let answer = run(args, &capture, analysis)?;
            let report = answer.analysis.report(args.top, wanted);
            show(args, &report, &report.text(), &capture, &answer)?;
        }
        ReportKind::Calls => {
            let analysis = CallsAnalysis::new(methods, inlined).excluding(exclude).naming(naming);
            let answer = run(args, &capture, analysis)?;
            let report = answer.analysis.report(args.top, wanted);
            show(args, &report, &report.text(), &capture, &answer)?;
        }
    }
    Ok(Outcome::Done)
}

fn run<A: Analysis>(args: &ReportArgs, capture: &Capture, analysis: A) -> Result<Answer<A>> {
    let answer = decode::query_part(&args.decode, &args.range, &args.infer, capture)?.run(analysis)?;
    decode::remark(&args.decode, capture, &answer)?;
    Ok(answer)
}

fn is_wanted(args: &ReportArgs, method: &Method) -> bool {
    let default = if args.kind == ReportKind::Coverage { Classes::App } else { Classes::All };
    if !args.class.is_empty() && !args.class.iter().any(|pattern| pattern.selects(method)) {
        return false;
    }
    // A class that was requested by name may be of any loader.
    let classes = args.classes.unwrap_or(if args.class.is_empty() { default } else { Classes::All });
    classes == Classes::All || is_application(method)
}

/// The kind of result of a report.
const fn kind(report: ReportKind) -> Kind {
    match report {
        ReportKind::Coverage => Kind::new("report-coverage", Some("classes")),
        ReportKind::HotMethods => Kind::new("report-hot-methods", Some("methods")),
        ReportKind::Calls => Kind::new("report-calls", Some("calls")),
    }
}

/// A report together with the shares of the execution that it is based on.
#[derive(Serialize)]
struct WithExecution<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<&'a Execution>,
}

fn show<A>(
    args: &ReportArgs,
    report: &impl Serialize,
    text: &str,
    capture: &Capture,
    answer: &Answer<A>,
) -> Result<()> {
    let Answer { summary, execution, filled, .. } = answer;
    if args.decode.format.is_for_programs() {
        let value = serde_json::to_value(WithExecution { report, execution: execution.as_ref() })?;
        return put_value(&args.decode.format, kind(args.kind), value);
    }
    put_text(text)?;
    if let Some(execution) = execution {
        put_text(&format!("\n{}", execution.text(capture.recording().reader().header().tsc_khz)))?;
    }
    let (native, reconstruct) = (summary.native.errors, summary.contradictions());
    if native + reconstruct > 0 || summary.completeness() < 1.0 {
        put_text(&format!(
            "{:.2}% of the recorded trace was decoded; {native} machine-flow errors, {reconstruct} contradictions\n",
            100.0 * summary.completeness()
        ))?;
    }
    if let Some(c) = filled {
        let (filled, all, left) = (c.total.gaps_filled, c.total.gaps, c.total.gaps_left());
        put_text(&format!("{filled} of {all} gaps were filled ({}), {left} are left\n", c.method))?;
    }
    Ok(())
}
