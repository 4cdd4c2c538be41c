// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal export perf-data` and `jportal import`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;

use anyhow::{Context, Result};
use jportal_perf_data::{DATA_FILE, Exported};
use serde_json::json;

use crate::args::{ImportArgs, PerfDataArgs};
use crate::output::{ResultKind, put};
use crate::progress::ProgressLine;
use crate::{CommandOutcome, decode};

const EXPORTED: ResultKind = ResultKind::new("export-perf-data", None);
const IMPORTED: ResultKind = ResultKind::new("import", None);

pub(crate) fn perf_data(args: &PerfDataArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.capture)?;
    let recording = capture.recording();
    let mut line = ProgressLine::new("exporting");
    let done = jportal_perf_data::export(recording, &args.output, &mut |done, all| line.update(done, all));
    drop(line);
    let done = done.with_context(|| format!("{}", args.capture.display()))?;
    put(&args.format, EXPORTED, &as_json(args, &done), || as_text(args, &done))?;
    let exact = done.misplaced == 0 && done.misattributed == 0 && done.stale == 0;
    Ok(if exact { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn as_json(args: &PerfDataArgs, done: &Exported) -> serde_json::Value {
    json!({
        "file": args.output.join(DATA_FILE).display().to_string(),
        "cores": done.cores, "trace_bytes": done.trace_bytes,
        "inserted_tsc_packets": done.inserted, "left_out_cyc_packets": done.cycles,
        "mappings": done.mappings, "code_bytes": done.code_bytes,
        "misplaced_changes": done.misplaced, "misattributed_switches": done.misattributed,
        "stale_blocks": done.stale, "gaps": done.gaps,
    })
}

fn as_text(args: &PerfDataArgs, done: &Exported) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "file          {}",
        jportal_plain::line(&args.output.join(DATA_FILE).display().to_string())
    )?;
    writeln!(text, "trace         {} bytes of {} cores", done.trace_bytes, done.cores)?;
    writeln!(text, "code          {} mappings, {} bytes", done.mappings, done.code_bytes)?;
    writeln!(
        text,
        "timing        {} TSC packets put in, {} CYC packets left out",
        done.inserted, done.cycles
    )?;
    let wrong = [
        (done.misplaced, "changes of code that perf will see too early or too late"),
        (done.misattributed, "switches at which perf takes branches of one thread for another's"),
        (done.stale, "blocks that ran when their code was no longer in memory, which perf cannot know"),
        (done.gaps, "gaps in the trace"),
    ];
    for (n, what) in wrong.into_iter().filter(|w| w.0 > 0) {
        writeln!(text, "not exact     {n} {what}")?;
    }
    Ok(text)
}

pub(crate) fn import(args: &ImportArgs) -> Result<CommandOutcome> {
    let metadata = decode::open_file(&args.metadata)?;
    let data = File::open(&args.data).with_context(|| args.data.display().to_string())?;
    let mut line = ProgressLine::new("importing");
    let done = jportal_perf_data::import(BufReader::new(data), &metadata, &args.output, &mut |done, all| {
        line.update(done, all)
    });
    drop(line);
    let done = done.with_context(|| args.data.display().to_string())?;
    let result = json!({
        "file": args.output.display().to_string(),
        "cores": done.cores, "trace_bytes": done.trace_bytes,
        "records": done.records, "left_out_records": done.left_out,
    });
    put(&args.format, IMPORTED, &result, || {
        let mut text = String::new();
        writeln!(text, "file          {}", jportal_plain::line(&args.output.display().to_string()))?;
        writeln!(text, "trace         {} bytes of {} cores", done.trace_bytes, done.cores)?;
        writeln!(text, "records       {}, and {} left out", done.records, done.left_out)?;
        Ok(text)
    })?;
    Ok(CommandOutcome::Done)
}
