// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report`.

use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::Inlined;
use jportal::analyses::calls::CallsAnalysis;
use jportal::analyses::coverage::CoverageAnalysis;
use jportal::analyses::hot::HotAnalysis;
use jportal::analyses::names::Naming;
use jportal::analyses::select::is_application;
use jportal::{Analysis, Answer, Capture, Exclude, Execution, Method, MethodTable};
use serde::Serialize;

use crate::args::{Classes, CommonArgs, CoverageArgs, ReportCommand, ScopeArgs, TopArgs};
use crate::output::{Kind, put_text, put_value};
use crate::{Outcome, decode};

pub(crate) fn report(command: &ReportCommand) -> Result<Outcome> {
    match command {
        ReportCommand::Coverage(args) => coverage(args),
        ReportCommand::HotMethods(args) => hot_methods(args),
        ReportCommand::Calls(args) => calls(args),
    }
}

fn coverage(args: &CoverageArgs) -> Result<Outcome> {
    const KIND: Kind = Kind::new("report-coverage", Some("classes"));
    let common = &args.common;
    let subject = Subject::open(common)?;
    let analysis = CoverageAnalysis::new(subject.methods(), subject.inlined());
    let answer = subject.run(analysis.excluding(subject.exclude()).naming(subject.naming()))?;
    let report = answer.analysis.report(|m| common.scope.selects(m, Classes::App));
    let hint = if report.classes.is_empty() { "no class fits; try --classes all\n" } else { "" };
    let text = format!("{}{hint}", report.text(args.methods));
    subject.show(KIND, &report, &text, &answer)
}

fn hot_methods(args: &TopArgs) -> Result<Outcome> {
    const KIND: Kind = Kind::new("report-hot-methods", Some("methods"));
    let common = &args.common;
    let subject = Subject::open(common)?;
    let analysis = HotAnalysis::new(subject.methods(), subject.inlined());
    let answer = subject.run(analysis.excluding(subject.exclude()).naming(subject.naming()))?;
    let report = answer.analysis.report(args.top, |m| common.scope.selects(m, Classes::All));
    subject.show(KIND, &report, &report.text(), &answer)
}

fn calls(args: &TopArgs) -> Result<Outcome> {
    const KIND: Kind = Kind::new("report-calls", Some("calls"));
    let common = &args.common;
    let subject = Subject::open(common)?;
    let analysis = CallsAnalysis::new(subject.methods(), subject.inlined());
    let answer = subject.run(analysis.excluding(subject.exclude()).naming(subject.naming()))?;
    let report = answer.analysis.report(args.top, |m| common.scope.selects(m, Classes::All));
    subject.show(KIND, &report, &report.text(), &answer)
}

/// A capture, and the arguments that say what to report of it.
struct Subject<'a> {
    capture: Capture,
    args: &'a CommonArgs,
}

impl ScopeArgs {
    /// Whether a method is selected. `default` applies if no class was requested by name: such a
    /// class may be of any loader.
    pub(crate) fn selects(&self, method: &Method, default: Classes) -> bool {
        if !self.class.is_empty() && !self.class.iter().any(|pattern| pattern.selects(method)) {
            return false;
        }
        let classes = self.classes.unwrap_or(if self.class.is_empty() { default } else { Classes::All });
        classes == Classes::All || is_application(method)
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

impl<'a> Subject<'a> {
    fn open(args: &'a CommonArgs) -> Result<Self> {
        Ok(Self { capture: decode::open(&args.decode.capture)?, args })
    }
    fn methods(&self) -> Arc<MethodTable> {
        Arc::new(self.capture.methods().clone())
    }
    fn inlined(&self) -> Arc<Inlined> {
        Arc::new(self.capture.inlined())
    }
    fn exclude(&self) -> Exclude {
        decode::excluded(&self.args.exclude)
    }
    const fn naming(&self) -> Naming {
        Naming { stable: self.args.stable_names, merge_versions: self.args.merge_versions }
    }
    /// Decodes what the arguments select, and runs an analysis.
    fn run<A: Analysis>(&self, analysis: A) -> Result<Answer<A>> {
        let CommonArgs { decode, range, infer, .. } = self.args;
        let answer = decode::query_part(decode, range, infer, &self.capture)?.run(analysis)?;
        decode::remark(decode, &self.capture, &answer)?;
        Ok(answer)
    }
    /// Prints a report with what limits it.
    fn show<A>(
        &self,
        kind: Kind,
        report: &impl Serialize,
        text: &str,
        answer: &Answer<A>,
    ) -> Result<Outcome> {
        let Answer { summary, execution, filled, .. } = answer;
        if self.args.decode.format.is_for_programs() {
            let value = serde_json::to_value(WithExecution { report, execution: execution.as_ref() })?;
            put_value(&self.args.decode.format, kind, value)?;
            return Ok(Outcome::Done);
        }
        put_text(text)?;
        if let Some(execution) = execution {
            put_text(&format!("\n{}", execution.text(self.capture.recording().reader().header().tsc_khz)))?;
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
        Ok(Outcome::Done)
    }
}
