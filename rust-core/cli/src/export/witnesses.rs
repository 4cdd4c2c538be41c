// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal export witnesses`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jportal::Capture;
use jportal::export::witness::{Plan, Program, WordLog, witnesses as analysis, write_log};
use serde::Serialize;

use super::{ExportSummary, report_written};
use crate::args::WitnessesArgs;
use crate::files::Folder;
use crate::{CommandOutcome, decode};

/// What was written.
#[derive(Serialize)]
struct Witnesses {
    threads: Vec<ThreadWitness>,
}

/// The witness of one thread.
#[derive(Serialize)]
struct ThreadWitness {
    tid: u32,
    name: String,
    file: String,
    words: usize,
    exact: bool,
}

/// Reads a plan, and finds its methods in a capture.
pub(crate) fn program(plan: &Path, capture: &Capture) -> Result<Arc<Program>> {
    let context = || format!("{}", plan.display());
    let read = Plan::read(BufReader::new(File::open(plan).with_context(context)?)).with_context(context)?;
    let program = Program::new(read, capture.methods());
    if program.known() == 0 {
        bail!(
            "{}: the capture has no method of the plan; make the plan from the classes that ran",
            plan.display()
        );
    }
    Ok(Arc::new(program))
}

pub(super) fn witnesses(args: &WitnessesArgs) -> Result<CommandOutcome> {
    let folder = Folder::create(&args.output)?;
    let mut capture = decode::open(&args.decode.capture)?;
    if let Some(map) = &args.map {
        capture = decode::restored(capture, map)?;
    }
    let program = program(&args.plan, &capture)?;
    let answer = decode::query(&args.decode, &capture)?.run(analysis(program))?;
    decode::remark(&args.decode, &capture, &answer)?;
    let cannot = || format!("cannot write to {}", args.output.display());
    let (mut threads, mut exact) = (Vec::new(), true);
    for (number, thread) in (0..).zip(answer.analysis.finish()) {
        let (tid, java_tid) = (thread.info.tid.get(), thread.info.java_tid);
        let file = format!("t{tid}-{}.words", thread.info.started.get());
        let log = WordLog { tid, number, java_tid, words: thread.of };
        write_log(&log, folder.file(&file).with_context(cannot)?).with_context(cannot)?;
        exact &= thread.is_exact;
        let (name, words) = (thread.info.name, log.words.len());
        threads.push(ThreadWitness { tid, name, file, words, exact: thread.is_exact });
    }
    let report = Witnesses { threads };
    let output = &*args.output;
    report_written(&args.decode, &ExportSummary { format: "witnesses", output, exact, report: Some(&report) })
}
