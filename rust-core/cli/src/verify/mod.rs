// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal verify`.

mod call_trace;
mod jacoco;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result, anyhow, bail};
use jportal::analyses::select::is_application;
use jportal::reconstruct::Watch;
use jportal::validate::against::{StepsAnalysis, compare};
use jportal::validate::check::{Checker, Report};
use jportal::validate::verify::{ProbeLog, Verdict, Verifier};
use jportal::{Capture, Method, Tid, Tsc};

use crate::args::{FormatArgs, VerifyArgs};
use crate::check::checker;
use crate::look::Look;
use crate::output::{ResultKind, put_text, put_value};
use crate::{CommandOutcome, decode, say};

const ORACLE: ResultKind = ResultKind::new("verify-oracle", Some("threads"));
const AGAINST: ResultKind = ResultKind::new("verify-against", None);

pub(crate) fn verify(args: &VerifyArgs) -> Result<CommandOutcome> {
    match (&args.oracle, &args.against, &args.jacoco, &args.call_trace) {
        (Some(oracle), ..) => with_oracle(args, oracle),
        (_, Some(reference), ..) => against(args, reference),
        (.., Some(exec), _) => jacoco::verify(args, exec),
        (.., Some(folder)) => call_trace::verify(args, folder),
        (None, None, None, None) => {
            bail!("nothing to verify with: --oracle, --against, --jacoco or --call-trace is needed")
        }
    }
}

/// Whether the arguments select the method's class.
fn is_wanted(args: &VerifyArgs, method: &Method) -> bool {
    if args.class.is_empty() {
        return is_application(method);
    }
    args.class.iter().any(|pattern| pattern.selects(method))
}

/// Compares the thread named by `--thread` (default `main`) with the same thread of another
/// recording.
fn against(args: &VerifyArgs, reference: &Path) -> Result<CommandOutcome> {
    let thread = match &args.decode.threads[..] {
        [] => "main",
        [one] => one,
        _ => bail!("--against compares one thread; name one with --thread"),
    };
    let (ours, theirs) = (decode::open(&args.decode.capture)?, decode::open(reference)?);
    let wanted = |m: &Method| is_wanted(args, m);
    const BATCHES: usize = 16;
    let comparison = std::thread::scope(|scope| {
        let start = |capture| {
            let (to, from) = sync_channel(BATCHES);
            let capture: &Capture = capture;
            let steps = StepsAnalysis::new(capture.methods(), wanted, thread, to);
            // The analysis moves into the decoder's thread and ends with it, so that the receiver
            // sees the end.
            let decoded = scope.spawn(move || {
                let answer = decode::query(&args.decode, capture)?.run(steps)?;
                decode::remark(&args.decode, capture, &answer)
            });
            (from, decoded)
        };
        let (tested, ours_decoded) = start(&ours);
        let (reference, theirs_decoded) = start(&theirs);
        let comparison = compare((reference, theirs.methods()), (tested, ours.methods()));
        for decoded in [ours_decoded, theirs_decoded] {
            decoded.join().map_err(|_| anyhow!("a decoder panicked"))??;
        }
        anyhow::Ok(comparison)
    })?;
    let look = match comparison
        .first
        .as_ref()
        .and_then(|d| Some(Watch { tid: Tid(d.tid), started: Tsc(d.started), event: d.look_at? }))
    {
        Some(watch) => Some(Look::at(&args.decode, &ours, watch)?),
        None => None,
    };
    if args.decode.format.is_for_programs() {
        let mut all = serde_json::to_value(&comparison)?;
        if let Some(look) = &look {
            all["first"]["machine"] = look.json();
        }
        put_value(&args.decode.format, AGAINST, &all)?;
    } else {
        put_text(&comparison.text())?;
        look.as_ref().map_or(Ok(()), |l| put_text(&l.text()))?;
    }
    if comparison.matched == 0 {
        say("no bytecode was compared: is there such a thread, and are there such classes?");
        return Ok(CommandOutcome::Findings);
    }
    let passed = if args.allow_gaps { comparison.agrees() } else { comparison.equal() };
    Ok(if passed { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn with_oracle(args: &VerifyArgs, oracle: &Path) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let mut logs = open_logs(oracle)?;
    let recording = capture.recording();
    check_process(oracle, recording.reader().header().pid)?;
    if !args.decode.threads.is_empty() {
        // The logs of threads that were not selected must not count as missing.
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
    if args.part {
        verifier = verifier.of_part();
    }
    let analysis = (verifier, checker(&args.check, &capture));
    let answer = decode::query(&args.decode, &capture)?.run(analysis)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let (verifier, checker) = answer.analysis;
    let (summary, check) = (answer.summary, checker.as_ref().map(Checker::report));
    let verdict = verifier.finish();
    let look = match verdict
        .first_mismatch
        .as_ref()
        .and_then(|m| Some(Watch { tid: Tid(m.tid), started: Tsc(m.started), event: m.look_at? }))
    {
        Some(watch) => Some(Look::at(&args.decode, &capture, watch)?),
        None => None,
    };
    let errors = Errors { native_flow: summary.native.errors, reconstruct: summary.contradictions() };
    show(&args.decode.format, &verdict, errors, look.as_ref(), check.as_ref())?;
    if verdict.probes == 0 {
        say("the oracle logged no probe; was the program run with the agent?");
        return Ok(CommandOutcome::Findings);
    }
    let clean = check.is_none_or(|c| c.is_clean());
    // A decoder that contradicts itself is wrong, even if no probe lies at the contradiction.
    let sound = errors.native_flow + errors.reconstruct == 0;
    let passed = if args.allow_gaps { verdict.exact } else { verdict.complete && sound };
    Ok(if passed && clean { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Number of places where the decoder contradicts itself. The flow has a gap there.
#[derive(Clone, Copy, serde::Serialize)]
struct Errors {
    native_flow: u64,
    reconstruct: u64,
}

fn show(
    format: &FormatArgs,
    verdict: &Verdict,
    errors: Errors,
    look: Option<&Look>,
    check: Option<&Report>,
) -> Result<()> {
    if format.is_for_programs() {
        let mut all = serde_json::to_value(verdict)?;
        all["errors"] = serde_json::to_value(errors)?;
        if let Some(look) = look {
            all["first_mismatch"]["machine"] = look.json();
        }
        if let Some(check) = check {
            all["check"] = serde_json::to_value(check)?;
        }
        return put_value(format, ORACLE, &all);
    }
    put_text(&verdict.text())?;
    let Errors { native_flow, reconstruct } = errors;
    if native_flow + reconstruct > 0 {
        put_text(&format!(
            "{native_flow} machine-flow errors and {reconstruct} contradictions in the flow\n"
        ))?;
    }
    look.map_or(Ok(()), |l| put_text(&l.text()))?;
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

/// Refuses a log of another process, which is not about this capture.
pub(crate) fn check_process(dir: &Path, pid: u32) -> Result<()> {
    let Ok(facts) = std::fs::read_to_string(dir.join("agent.tsv")) else { return Ok(()) };
    let logged = facts.lines().find_map(|l| l.strip_prefix("pid\t")?.trim().parse::<u32>().ok());
    match logged {
        Some(other) if other != pid => {
            bail!("the log is of process {other}, the capture of process {pid}: not the same run")
        }
        _ => Ok(()),
    }
}
