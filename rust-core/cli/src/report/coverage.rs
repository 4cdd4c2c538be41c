// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report coverage`.

use std::sync::Arc;

use anyhow::Result;
use jportal::Method;
use jportal::analyses::blocks::State;
use jportal::analyses::coverage::split::{Covers, SplitAnalysis};
use jportal::analyses::coverage::{CoverageAnalysis, CoverageOptions};

use super::{Subject, is_csv, show};
use crate::args::{Classes, CoverageArgs};
use crate::output::{ResultKind, put, put_csv};
use crate::{CommandOutcome, decode};

const COVERAGE: ResultKind = ResultKind::new("report-coverage", Some("classes"));
const UNCOVERED: ResultKind = ResultKind::new("report-uncovered", Some("classes"));
const SPLIT: ResultKind = ResultKind::new("report-coverage-split", Some("buckets"));
const COVERS: ResultKind = ResultKind::new("report-which-covers", Some("buckets"));

pub(super) fn coverage(args: &CoverageArgs) -> Result<CommandOutcome> {
    if args.split.is_requested() {
        return split(args);
    }
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = CoverageAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let options = CoverageOptions {
        counts: args.counts || args.uncovered,
        exception_branches: args.exception_branches,
    };
    let report = answer.analysis.report_with(options, |m| common.scope.selects(m, Classes::App));
    let hint = if report.classes.is_empty() { "no class fits; try --classes all\n" } else { "" };
    if args.uncovered {
        let uncovered = report.uncovered();
        let text = || uncovered.text() + hint;
        return show(common, UNCOVERED, &uncovered, text, &subject.capture, &answer);
    }
    let text = || (if args.counts { report.counts_text() } else { report.text(args.methods) }) + hint;
    show(common, COVERAGE, &report, text, &subject.capture, &answer)
}

fn split(args: &CoverageArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let subject = Subject::of(common)?;
    let begins = |m: &Method| args.split.begins(m);
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = SplitAnalysis::new(methods, inlined, begins);
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let report = answer.analysis.report(|m| common.scope.selects(m, Classes::App));
    let Some((file, line)) = &args.which_covers else {
        if is_csv(common) {
            put_csv(|to| report.rows().try_for_each(|row| to.serialize(row)))?;
            return Ok(CommandOutcome::Done);
        }
        return show(common, SPLIT, &report, || report.text(), &subject.capture, &answer);
    };
    let buckets = report.which_covers(file, *line);
    let value = serde_json::json!({ "file": file, "line": line, "buckets": buckets });
    put(&common.decode.format, COVERS, &value, || {
        let rows: String = buckets.iter().map(covers).collect();
        let none = format!("no activation executed line {line} of {file}\n");
        Ok(if rows.is_empty() { none } else { rows })
    })?;
    Ok(CommandOutcome::Done)
}

/// A line for an activation that executed the line, or may have.
fn covers(c: &Covers<'_>) -> String {
    let [bucket, class] = [c.bucket, c.class].map(jportal_plain::line);
    match c.state {
        State::Executed => format!("{bucket} executed it {} times, in {class}\n", c.times.text()),
        _ => format!("{bucket} may have executed it, in {class}\n"),
    }
}
