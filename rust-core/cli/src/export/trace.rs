// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of sequences: call traces and block traces.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use jportal::ThreadInfo;
use jportal::analyses::call_trace::{CallTraceAnalysis, Sites, TraceSink};
use jportal::export::block_trace::{
    BlockTraceAnalysis, BlockTraceOptions, Format, write_classes, write_methods,
};
use jportal::export::call_trace::{TraceWriter, write_sites};

use super::decode::{SITES, TRACE};
use super::{ExportSummary, written};
use crate::args::{BlockFormat, BlockTraceArgs, CallTraceFilesArgs, Classes};
use crate::files::Folder;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

const NO_SWITCHES: &str =
    "the capture has no records of when threads came to cores and left them; leave out --switches";

/// The name of a thread's file, without its extension. The operating system reuses thread ids.
fn file_name(thread: &ThreadInfo) -> String {
    format!("t{}-{}", thread.tid.get(), thread.started.get())
}

pub(super) fn call_trace(args: &CallTraceFilesArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let folder = Folder::create(&args.output)?;
    let subject = Subject::of(common)?;
    let scope = |m: &jportal::Method| common.scope.selects(m, Classes::App);
    let sites = Arc::new(Sites::new(Arc::clone(&subject.methods), common.naming.get(), scope)?);
    let cannot = || format!("cannot write to {}", args.output.display());
    write_sites(&sites, &mut folder.file(SITES).with_context(cannot)?).with_context(cannot)?;
    let (deflate, times, to) = (args.deflate, args.times, folder);
    let open = move |thread: &ThreadInfo| {
        let file = to.growing(&format!("{}.{TRACE}", file_name(thread)))?;
        Ok(Some(Box::new(TraceWriter::new(file, thread, deflate, times)?) as Box<dyn TraceSink>))
    };
    let analysis = CallTraceAnalysis::new(sites, Arc::clone(&subject.inlined), open);
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).times(args.times);
    let answer = subject.run(common, analysis)?;
    if let Some(e) = answer.analysis.error() {
        return Err(e).with_context(cannot);
    }
    let report = answer.analysis.report();
    let (output, exact) = (&*args.output, report.exact);
    written(common, &ExportSummary { format: "call-trace", output, exact, report: Some(&report) })
}

impl From<BlockFormat> for Format {
    fn from(format: BlockFormat) -> Self {
        match format {
            BlockFormat::Jbi32 => Self::Jbi32,
            BlockFormat::Jbi64 => Self::Jbi64,
        }
    }
}

pub(super) fn block_trace(args: &BlockTraceArgs) -> Result<CommandOutcome> {
    let common = &args.common;
    let folder = Folder::create(&args.output)?;
    let subject = Subject::of(common)?;
    let cannot = || format!("cannot write to {}", args.output.display());
    let mut index = folder.file("methods.csv").with_context(cannot)?;
    write_methods(&subject.methods, &mut index).with_context(cannot)?;
    let mut index = folder.file("classes.csv").with_context(cannot)?;
    write_classes(subject.methods.classes(), &mut index).with_context(cannot)?;
    let options = BlockTraceOptions {
        format: args.numbers.into(),
        zlib: args.deflate,
        unwinds: args.unwinds,
        natives: args.natives,
        times: args.times,
        exclude: decode::excluded(&common.exclude),
        ..BlockTraceOptions::default()
    };
    let open = move |thread: &ThreadInfo| {
        let file = folder.growing(&format!("{}.events", file_name(thread)))?;
        Ok(Box::new(file) as Box<dyn std::io::Write + Send>)
    };
    let scope = |m: &jportal::Method| common.scope.selects(m, Classes::All);
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let mut analysis = BlockTraceAnalysis::new(methods, inlined, options, scope, open)?;
    if args.switches {
        let switches = subject.capture.switches();
        ensure!(!switches.are_unknown(), NO_SWITCHES);
        analysis = analysis.switches(switches);
    }
    let report = subject.run(common, analysis)?.analysis.finish().with_context(cannot)?;
    let (output, exact) = (&*args.output, report.exact);
    written(common, &ExportSummary { format: "block-trace", output, exact, report: Some(&report) })
}
