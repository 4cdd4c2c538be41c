//! `jportal verify`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jportal_check::Report;
use jportal_report::verify::{ProbeLog, Verdict, Verifier};
use jportal_units::{Tid, Tsc};

use crate::args::VerifyArgs;
use crate::check::Checked;
use crate::{Outcome, decode, put_json, put_text, say};

pub(crate) fn verify(args: &VerifyArgs) -> Result<Outcome> {
    let reader = decode::open(&args.decode.capture)?;
    let mut logs = open_logs(&args.oracle)?;
    let recording = decode::recording(&reader)?;
    check_process(&args.oracle, reader.header().pid)?;
    if !args.decode.threads.is_empty() {
        // The logs of threads that are not looked at must not count as missing.
        let threads = &recording.image().threads;
        let named = |tid: u32| {
            let tid_text = tid.to_string();
            threads.iter().any(|t| t.tid.get() == tid && args.decode.threads.contains(&t.name))
                || args.decode.threads.contains(&tid_text)
        };
        logs.retain(|l| named(l.tid));
    }
    let exits: Vec<(Tid, Tsc)> =
        recording.image().threads.iter().filter_map(|t| Some((t.tid, t.exited?))).collect();
    let mut verifier = Verifier::new(Arc::new(recording.methods().clone()), logs, exits);
    let mut checked = Checked::new(&args.check, &recording, &mut verifier);
    decode::decode(&args.decode, &recording, &mut checked)?;
    let check = checked.report();
    let verdict = verifier.finish();
    show(args.decode.json, &verdict, check.as_ref())?;
    if verdict.probes == 0 {
        say("the oracle logged no probe; was the program run with the agent?");
        return Ok(Outcome::Findings);
    }
    let clean = check.is_none_or(|c| c.is_clean());
    let passed = if args.allow_gaps { verdict.exact } else { verdict.complete };
    Ok(if passed && clean { Outcome::Done } else { Outcome::Findings })
}

fn show(json: bool, verdict: &Verdict, check: Option<&Report>) -> Result<()> {
    if json {
        let mut all = serde_json::to_value(verdict)?;
        if let Some(check) = check {
            all["check"] = serde_json::to_value(check)?;
        }
        return put_json(&all);
    }
    put_text(&verdict.text())?;
    check.map_or(Ok(()), |c| put_text(&c.text()))
}

fn open_logs(dir: &Path) -> Result<Vec<ProbeLog>> {
    let mut logs = Vec::new();
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot read the oracle log {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "probes") {
            continue;
        }
        let open = || -> Result<ProbeLog> {
            let file = BufReader::with_capacity(1 << 16, File::open(&path)?);
            Ok(ProbeLog::open(Box::new(file))?)
        };
        logs.push(open().with_context(|| format!("{}", path.display()))?);
    }
    if let Ok(reason) = std::fs::read_to_string(dir.join("error.txt")) {
        say(&format!("warning: the oracle log is incomplete: {}", reason.trim()));
    }
    Ok(logs)
}

/// A log of another process says nothing about this capture.
fn check_process(dir: &Path, pid: u32) -> Result<()> {
    let Ok(facts) = std::fs::read_to_string(dir.join("agent.tsv")) else { return Ok(()) };
    let logged = facts.lines().find_map(|l| l.strip_prefix("pid\t")?.trim().parse::<u32>().ok());
    match logged {
        Some(other) if other != pid => {
            bail!("the oracle log is of process {other}, the capture of process {pid}: not the same run")
        }
        _ => Ok(()),
    }
}
