// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal export`.

mod coverage;
mod decode;
mod facts;
mod graph;
mod profile;
mod tables;
mod timeline;
mod trace;
pub(crate) mod witnesses;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::args::{CallTraceArgs, CommonArgs, DecodeArgs, ExportCommand};
use crate::messages::say;
use crate::output::{ResultKind, put_value};
use crate::{CommandOutcome, exchange};

const KIND: ResultKind = ResultKind::new("export", None);

pub(crate) fn export(command: &ExportCommand) -> Result<CommandOutcome> {
    match command {
        ExportCommand::Collapsed(args) => profile::collapsed(args),
        ExportCommand::Pprof(args) => profile::pprof(args),
        ExportCommand::Speedscope(args) => profile::speedscope(args),
        ExportCommand::Otlp(args) => profile::otlp(args),
        ExportCommand::Lcov(args) => coverage::lcov(args),
        ExportCommand::Jacoco(args) => coverage::jacoco(args),
        ExportCommand::Cobertura(args) => coverage::cobertura(args),
        ExportCommand::CallTrace(CallTraceArgs::Decode(path)) => decode::call_trace(path),
        ExportCommand::CallTrace(CallTraceArgs::Write(args)) => trace::call_trace(args),
        ExportCommand::Witnesses(args) => witnesses::witnesses(args),
        ExportCommand::Dot(args) => graph::dot(args),
        ExportCommand::Graphml(args) => graph::graphml(args),
        ExportCommand::BlockTrace(args) => trace::block_trace(args),
        ExportCommand::Static(args) => facts::facts(args),
        ExportCommand::Perfetto(args) => timeline::perfetto(args),
        ExportCommand::Firefox(args) => timeline::firefox(args),
        ExportCommand::Parquet(args) => tables::parquet(args),
        ExportCommand::PerfData(args) => exchange::perf_data(args),
    }
}

/// What an export wrote.
pub(crate) struct ExportSummary<'a, R> {
    pub(crate) format: &'static str,
    pub(crate) output: &'a Path,
    /// Whether nothing is missing, inferred or lost.
    pub(crate) exact: bool,
    /// Figures of what was written.
    pub(crate) report: Option<&'a R>,
}

/// Reports what was written: as JSON if requested, otherwise as a remark on stderr, because stdout
/// may be the output.
pub(crate) fn written<R: Serialize>(
    args: &CommonArgs,
    written: &ExportSummary<'_, R>,
) -> Result<CommandOutcome> {
    report_written(&args.decode, written)
}

/// The same for a command without the arguments of reports.
fn report_written<R: Serialize>(args: &DecodeArgs, written: &ExportSummary<'_, R>) -> Result<CommandOutcome> {
    let ExportSummary { format, output, exact, report } = written;
    if args.format.is_for_programs() && *output != Path::new("-") {
        let mut value = json!({ "format": format, "output": output.display().to_string(), "exact": exact });
        if let Some(report) = report {
            value["report"] = serde_json::to_value(report)?;
        }
        put_value(&args.format, KIND, &value)?;
    } else if !exact {
        say("the output is not exact: trace was lost, or the flow does not say what ran; it says where");
    }
    Ok(CommandOutcome::Done)
}
