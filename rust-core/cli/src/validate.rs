// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal validate`.

use std::sync::Arc;

use anyhow::Result;
use jportal::flow::SingleBytecodes;
use jportal::validate::debug_info::{DebugInfoReport, ReportLimits, StateCollector};

use crate::args::DebugInfoArgs;
use crate::output::{ResultKind, put};
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("validate-debug-info", Some("findings"));

pub(crate) fn debug_info(args: &DebugInfoArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let collector = StateCollector::default();
    let query = decode::query(&args.decode, &capture)?.observers(Arc::new(collector.clone()));
    let answer = query.run(SingleBytecodes)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let recording = capture.recording();
    let limits = ReportLimits {
        findings: args.findings,
        methods: args.top,
        places: args.places.clone(),
        capture: args.decode.capture.display().to_string(),
    };
    let instructions = |code, blocks: &[(u32, u32)]| recording.instructions(code, blocks);
    let report = DebugInfoReport::new(recording.image(), &collector.finish(), &instructions, &limits);
    put(&args.decode.format, KIND, &report, || Ok(report.text()))?;
    if report.all.places == 0 {
        say("no compiled code was judged: did any run, and was it compiled with path markers?");
        return Ok(CommandOutcome::Findings);
    }
    Ok(if report.is_clean() { CommandOutcome::Done } else { CommandOutcome::Findings })
}
