// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports of call graphs.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use jportal::analyses::calls::{CallGraph, CallsAnalysis};
use jportal::export::Error;
use jportal::export::call_graph::{write_dot, write_graphml};

use super::{ExportSummary, written};
use crate::args::{Classes, GraphArgs};
use crate::files::OutputFile;
use crate::report::Subject;
use crate::{CommandOutcome, decode};

/// Collects calls, and writes their graph.
fn write(
    format: &'static str,
    args: &GraphArgs,
    content: impl FnOnce(&CallGraph, &str, &mut dyn Write) -> Result<(), Error>,
) -> Result<CommandOutcome> {
    let common = &args.common;
    let target = OutputFile::create(&args.file.output)?;
    let subject = Subject::of(common)?;
    let analysis = CallsAnalysis::new(Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = analysis.excluding(decode::excluded(&common.exclude)).naming(common.naming.get());
    let answer = subject.run(common, analysis)?;
    let mut graph = answer.analysis.graph(|m| common.scope.selects(m, Classes::All));
    if let Some(top) = args.top {
        graph = graph.top(top);
    }
    target.fill(|out| content(&graph, &subject.name(), out))?;
    let (output, exact) = (&*args.file.output, graph.exact);
    written(common, &ExportSummary::<()> { format, output, exact, report: None })
}

pub(super) fn dot(args: &GraphArgs) -> Result<CommandOutcome> {
    write("dot", args, write_dot)
}

pub(super) fn graphml(args: &GraphArgs) -> Result<CommandOutcome> {
    write("graphml", args, write_graphml)
}
