// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal dev verify --call-trace`: expands logs of few sites to call traces, and compares these
//! with the flow's.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jportal::export::witness::{FirstSets, SiteTrace, WordLog, expand, traces};
use jportal_plain::line;
use serde::Serialize;

use crate::args::VerifyArgs;
use crate::export::witnesses::program;
use crate::output::{ResultKind, put};
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("verify-call-trace", Some("threads"));

/// The result.
#[derive(Serialize)]
struct LogComparison {
    /// Whether each log expands to the trace of its thread, and each thread with a trace has a log.
    equal: bool,
    /// Sites that are equal.
    sites: u64,
    /// Words of the logs.
    words: u64,
    threads: Vec<LogThread>,
}

/// One thread.
#[derive(Serialize)]
struct LogThread {
    tid: u32,
    name: String,
    /// Sites of the flow.
    sites: u64,
    /// Words of the log. `None`: there is no log.
    words: Option<u64>,
    /// Why they are not equal.
    difference: Option<String>,
    /// Whether nothing is missing in the flow.
    exact: bool,
}

pub(super) fn verify(args: &VerifyArgs, folder: &Path) -> Result<CommandOutcome> {
    let Some(plan) = &args.plan else { bail!("--call-trace needs --plan") };
    let mut logs = logs(folder)?;
    let mut capture = decode::open(&args.decode.capture)?;
    if let Some(map) = &args.map {
        capture = decode::restored(capture, map)?;
    }
    let program = program(plan, &capture)?;
    let answer = decode::query(&args.decode, &capture)?.run(traces(std::sync::Arc::clone(&program)))?;
    decode::remark(&args.decode, &capture, &answer)?;
    let firsts = FirstSets::new(&program);
    let mut threads = Vec::new();
    let mut all = 0;
    for thread in answer.analysis.finish() {
        let (tid, whole) = (thread.info.tid.get(), thread.of);
        // A thread id may be used again: the logs of one id are in the order of their threads.
        let log = logs.iter().position(|log| log.tid == tid).map(|at| logs.remove(at));
        let difference = match &log {
            None => Some("there is no log".to_owned()),
            Some(log) => match expand(&program, &firsts, &log.words) {
                Err(error) => Some(error.to_string()),
                Ok(expanded) => expanded.parts_from(&whole).map(|place| {
                    let (number, site) = place;
                    let name = |of: &SiteTrace| match of.trace(number).get(site) {
                        None => "nothing".to_owned(),
                        Some(site) => line(&program.name(*site)).into_owned(),
                    };
                    let (ours, theirs) = (name(&expanded), name(&whole));
                    format!("trace {number}, site {site}: the log has {ours}, the flow {theirs}")
                }),
            },
        };
        let sites = whole.len() as u64;
        all += if difference.is_none() { sites } else { 0 };
        let words = log.map(|log| log.words.len() as u64);
        let (name, exact) = (thread.info.name, thread.is_exact);
        threads.push(LogThread { tid, name, sites, words, difference, exact });
    }
    for log in logs.iter().filter(|log| !log.words.is_empty()) {
        let difference = Some("the flow has no such thread".to_owned());
        let (name, words) = (String::new(), Some(log.words.len() as u64));
        threads.push(LogThread { tid: log.tid, name, sites: 0, words, difference, exact: true });
    }
    let comparison = LogComparison {
        equal: threads.iter().all(|thread| thread.difference.is_none()),
        sites: all,
        words: threads.iter().filter_map(|thread| thread.words).sum(),
        threads,
    };
    put(&args.decode.format, KIND, &comparison, || Ok(comparison.text()))?;
    if comparison.sites == 0 {
        say("no site was compared: are these logs of this run, and is this their plan?");
    }
    let passed = comparison.equal && comparison.sites > 0;
    Ok(if passed { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// The logs of a directory, by number of their threads.
fn logs(folder: &Path) -> Result<Vec<WordLog>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut logs = Vec::new();
    for entry in entries {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|extension| extension == "words") {
            let context = || format!("{}", path.display());
            logs.push(WordLog::read(File::open(&path).with_context(context)?).with_context(context)?);
        }
    }
    if logs.is_empty() {
        bail!("{} has no log: no file with the extension words", folder.display());
    }
    logs.sort_by_key(|log| log.number);
    Ok(logs)
}

impl LogComparison {
    fn text(&self) -> String {
        let mut text = String::new();
        for thread in &self.threads {
            let words = thread.words.map_or_else(|| "no".to_owned(), |words| words.to_string());
            let what = thread.difference.as_deref().unwrap_or("equal");
            let name = line(&thread.name);
            text += &format!("thread {} {name}: {} sites, {words} words: {what}\n", thread.tid, thread.sites);
        }
        let verdict = if self.equal { "equal" } else { "different" };
        text + &format!("{verdict}: {} sites from {} words\n", self.sites, self.words)
    }
}
