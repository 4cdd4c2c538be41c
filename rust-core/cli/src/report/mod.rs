// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal report`.

mod blocks;
mod coverage;
mod hot;
mod jit;
mod latency;
mod paths;
mod sites;
pub(crate) mod tree;

use std::sync::Arc;

use anyhow::{Result, bail};
use jportal::analyses::Inlined;
use jportal::analyses::calls::CallsAnalysis;
use jportal::analyses::names::Naming;
use jportal::analyses::select::is_application;
use jportal::{Analysis, Answer, Capture, Execution, Method, MethodTable};
use serde::Serialize;

use crate::args::{Classes, CommonArgs, Format, NamingArgs, ReportCommand, ScopeArgs, TopArgs};
use crate::output::{ResultKind, put_text, put_value};
use crate::{CommandOutcome, decode};

pub(crate) fn report(command: &ReportCommand) -> Result<CommandOutcome> {
    match command {
        ReportCommand::Coverage(args) => coverage::coverage(args),
        ReportCommand::HotMethods(args) => hot::hot_methods(args),
        ReportCommand::Calls(args) => calls(args),
        ReportCommand::CallTree(args) => tree::call_tree(args),
        ReportCommand::Blocks(args) => blocks::blocks(args),
        ReportCommand::Paths(args) => paths::paths(args),
        ReportCommand::Polymorphism(args) => sites::polymorphism(args),
        ReportCommand::Natives(args) => sites::natives(args),
        ReportCommand::Metrics(args) => sites::metrics(args),
        ReportCommand::Latency(args) => latency::latency(args),
        ReportCommand::Jit(args) => jit::jit(args),
    }
}

/// A capture with what every analysis needs of it.
pub(crate) struct Subject {
    pub(crate) capture: Capture,
    pub(crate) methods: Arc<MethodTable>,
    pub(crate) inlined: Arc<Inlined>,
}

impl Subject {
    /// Opens a capture.
    pub(crate) fn open(path: &std::path::Path) -> Result<Self> {
        Ok(Self::new(decode::open(path)?))
    }
    /// Opens the capture that the arguments name.
    pub(crate) fn of(args: &CommonArgs) -> Result<Self> {
        let capture = decode::open(&args.decode.capture)?;
        Ok(Self::new(match &args.map {
            Some(path) => decode::restored(capture, path)?,
            None => capture,
        }))
    }
    fn new(capture: Capture) -> Self {
        let (methods, inlined) = (Arc::new(capture.methods().clone()), Arc::new(capture.inlined()));
        Self { capture, methods, inlined }
    }
    /// The name of the capture's file.
    pub(crate) fn name(&self) -> String {
        self.capture.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
    /// How long the recording took in nanoseconds: until the last time at which a thread was on a
    /// core. `None` if that is not known, or the speed of the clock.
    pub(crate) fn duration(&self) -> Option<u64> {
        let recording = self.capture.recording();
        let header = recording.reader().header();
        let last = recording.visits().map(|(.., visit)| visit.left.get()).max()?;
        let ticks = u128::from(last.checked_sub(header.start_tsc)?);
        u64::try_from((ticks * 1_000_000).checked_div(header.tsc_khz.into())?).ok()
    }
    /// Decodes what the arguments select, and runs an analysis.
    pub(crate) fn run<A: Analysis>(&self, args: &CommonArgs, analysis: A) -> Result<Answer<A>> {
        let query = decode::query_part(&args.decode, &args.range, &args.infer, &self.capture)?;
        let answer = query.run(analysis)?;
        decode::remark(&args.decode, &self.capture, &answer)?;
        Ok(answer)
    }
}

fn calls(args: &TopArgs) -> Result<CommandOutcome> {
    const KIND: ResultKind = ResultKind::new("report-calls", Some("calls"));
    let common = &args.common;
    let subject = Subject::of(common)?;
    let analysis = CallsAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let report = answer.analysis.report(args.top, |m| common.scope.selects(m, Classes::All));
    show(common, KIND, &report, || report.text(), &subject.capture, &answer)
}

impl NamingArgs {
    /// The naming for analyses.
    pub(crate) const fn get(self) -> Naming {
        Naming { stable: self.stable_names, merge_versions: self.merge_versions }
    }
}

impl ScopeArgs {
    /// Refuses to select classes where the result is always of all classes. `remedy` says what to
    /// do.
    pub(crate) fn refuse(&self, remedy: &str) -> Result<()> {
        match (self.class.is_empty(), self.classes) {
            (true, None | Some(Classes::All)) => Ok(()),
            (false, _) => bail!("--class has no effect here: {remedy}"),
            (true, Some(Classes::App)) => bail!("--classes app has no effect here: {remedy}"),
        }
    }
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

/// Whether rows are to be printed one by one.
fn is_csv(args: &CommonArgs) -> bool {
    args.decode.format.get() == Format::Csv
}

/// A report together with the shares of the execution that it is based on.
#[derive(Serialize)]
struct WithExecution<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<&'a Execution>,
}

/// Prints a report with what limits it.
fn show<A>(
    args: &CommonArgs,
    kind: ResultKind,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
    capture: &Capture,
    answer: &Answer<A>,
) -> Result<CommandOutcome> {
    let Answer { summary, execution, filled, .. } = answer;
    if args.decode.format.is_for_programs() {
        let value = WithExecution { report, execution: execution.as_ref() };
        put_value(&args.decode.format, kind, &value)?;
        return Ok(CommandOutcome::Done);
    }
    put_text(&text())?;
    if let Some(execution) = execution {
        put_text(&format!("\n{}", execution.text(capture.recording().reader().header().tsc_khz)))?;
    }
    let (native, reconstruct) = (summary.native.errors, summary.contradictions());
    if native + reconstruct > 0 || summary.completeness() < 1.0 {
        put_text(&format!(
            "{}; {native} machine-flow errors, {reconstruct} contradictions\n",
            decode::share_decoded(summary)
        ))?;
    }
    if let Some(c) = filled {
        let (filled, all, left) = (c.total.gaps_filled, c.total.gaps, c.total.gaps_left());
        put_text(&format!("{filled} of {all} gaps were filled ({}), {left} are left\n", c.method))?;
    }
    Ok(CommandOutcome::Done)
}
