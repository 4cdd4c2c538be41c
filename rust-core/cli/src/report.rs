// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report`.

use std::sync::Arc;

use anyhow::Result;
use jportal_analyses::calls::CallsConsumer;
use jportal_analyses::coverage::CoverageConsumer;
use jportal_analyses::hot::HotConsumer;
use jportal_analyses::names::Naming;
use jportal_analyses::{Execution, Inlined};
use jportal_bytecode::Method;
use jportal_reconstruct::DecodeSummary;
use serde::Serialize;

use crate::args::{Classes, ReportArgs, ReportKind};
use crate::decode::is_application;
use crate::infer::{Inference, decode_inferred};
use crate::{Outcome, decode, put_json, put_text};

pub(crate) fn report(args: &ReportArgs) -> Result<Outcome> {
    let reader = decode::open(&args.decode.capture)?;
    let recording = decode::recording(&reader)?;
    let methods = Arc::new(recording.methods().clone());
    let (calls, complete) = recording.inlined_calls();
    let inlined = Arc::new(Inlined::new(&methods, calls, complete));
    let naming = Naming { stable: args.stable_names, merge_versions: args.merge_versions };
    let wanted = |m: &Method| is_wanted(args, m);
    let exclude = decode::excluded(&args.exclude);
    let khz = reader.header().tsc_khz;
    match args.kind {
        ReportKind::Coverage => {
            let mut consumer = CoverageConsumer::new(methods, inlined).excluding(exclude).naming(naming);
            let (summary, inferred) = decode_inferred(&args.decode, &args.infer, &recording, &mut consumer)?;
            let report = consumer.report(wanted);
            let hint = if report.classes.is_empty() { "no class fits; try --classes all\n" } else { "" };
            show(args, &report, &format!("{}{hint}", report.text(args.methods)), &summary, &inferred, khz)?;
        }
        ReportKind::HotMethods => {
            let mut consumer = HotConsumer::new(methods, inlined).excluding(exclude).naming(naming);
            let (summary, inferred) = decode_inferred(&args.decode, &args.infer, &recording, &mut consumer)?;
            let report = consumer.report(args.top, wanted);
            show(args, &report, &report.text(), &summary, &inferred, khz)?;
        }
        ReportKind::Calls => {
            let mut consumer = CallsConsumer::new(methods, inlined).excluding(exclude).naming(naming);
            let (summary, inferred) = decode_inferred(&args.decode, &args.infer, &recording, &mut consumer)?;
            let report = consumer.report(args.top, wanted);
            show(args, &report, &report.text(), &summary, &inferred, khz)?;
        }
    }
    Ok(Outcome::Done)
}

fn is_wanted(args: &ReportArgs, method: &Method) -> bool {
    let default = if args.kind == ReportKind::Coverage { Classes::App } else { Classes::All };
    let named = || {
        let name = method.class_name.replace('/', ".");
        args.class.iter().any(|prefix| name.starts_with(prefix.as_str()))
    };
    if !args.class.is_empty() && !named() {
        return false;
    }
    // A class that was requested by name may be of any loader.
    let classes = args.classes.unwrap_or(if args.class.is_empty() { default } else { Classes::All });
    classes == Classes::All || is_application(method)
}

/// A report together with the shares of the execution that it is based on.
#[derive(Serialize)]
struct WithExecution<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    execution: &'a Execution,
}

fn show(
    args: &ReportArgs,
    report: &impl Serialize,
    text: &str,
    summary: &DecodeSummary,
    inferred: &Inference,
    tsc_khz: u64,
) -> Result<()> {
    if args.decode.json {
        return put_json(&WithExecution { report, execution: &inferred.execution });
    }
    put_text(text)?;
    put_text(&format!("\n{}", inferred.execution.text(tsc_khz)))?;
    let (native, reconstruct) = (summary.native.errors, summary.contradictions());
    if native + reconstruct > 0 || summary.completeness() < 1.0 {
        put_text(&format!(
            "{:.2}% of the recorded trace was decoded; {native} machine-flow errors, {reconstruct} contradictions\n",
            100.0 * summary.completeness()
        ))?;
    }
    if let Some(c) = &inferred.recovery {
        let (filled, all, left) = (c.total.gaps_filled, c.total.gaps, c.total.gaps_left());
        put_text(&format!("{filled} of {all} gaps were filled ({}), {left} are left\n", c.method))?;
    }
    Ok(())
}
