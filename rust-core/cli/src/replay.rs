// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal replay`: runs a profiler in Java on a flow.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use jportal::analyses::Inexact;
use jportal::analyses::tree::{Replay, TreeAnalysis};
use jportal::export::Error as ExportError;
use jportal::export::profiler::{RemoteProfiler, ReplayTotals, reason};
use serde::Serialize;

use crate::args::{Classes, Format, ReplayArgs};
use crate::messages::detail;
use crate::output::{ResultKind, put_value};
use crate::report::Subject;
use crate::run::locate;
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("replay", None);

/// How long a java whose stream is closed may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result: how much the profiler saw.
#[derive(Serialize)]
struct ReplayResult<'a> {
    profiler: &'a str,
    #[serde(flatten)]
    totals: ReplayTotals,
    exact: bool,
    inexact: &'a Inexact,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<CommandOutcome> {
    if matches!(args.decode.format.get(), Format::Jsonl | Format::Csv) {
        bail!("a replay has no rows; use --format json or text");
    }
    let (java, jar) = (locate::plain_java(args.java.as_deref())?, locate::replay_jar()?);
    check_class_path(args)?;
    let subject = Subject::open(&args.decode.capture)?;
    let (mut process, stream) = ProfilerProcess::start(args, &java, &jar)?;
    match drive(args, &subject, stream) {
        Ok((totals, exact, inexact)) => {
            let status = process.wait()?;
            if !status.success() {
                bail!("{} finished, but java then ended with {status}", args.profiler);
            }
            let ReplayTotals { threads, reports } = totals;
            if exact {
                say(&format!("{} saw {threads} threads in {reports} reports, exact", args.profiler));
            } else {
                let why = reason(exact, &inexact);
                say(&format!("warning: not exact, counts may be too low: {why}"));
                say(&format!("{} saw {threads} threads in {reports} reports", args.profiler));
            }
            if args.decode.format.is_for_programs() {
                let result = ReplayResult { profiler: &args.profiler, totals, exact, inexact: &inexact };
                put_value(&args.decode.format, KIND, &result)?;
            }
            Ok(CommandOutcome::Done)
        }
        Err(error) => Err(process.explain(error, &args.profiler)),
    }
}

/// Decodes, and calls the profiler meanwhile.
fn drive(args: &ReplayArgs, subject: &Subject, stream: UnixStream) -> Result<(ReplayTotals, bool, Inexact)> {
    let profiler = RemoteProfiler::start(stream.try_clone()?, stream).map_err(|error| match error {
        ExportError::ProfilerGone => anyhow!(NotReady),
        other => other.into(),
    })?;
    let (methods, inlined) = (subject.methods.clone(), subject.inlined.clone());
    let tree = TreeAnalysis::new(methods, inlined, args.options())
        .within(|m| args.scope.selects(m, Classes::App))
        .excluding(decode::excluded(&args.exclude));
    let query = decode::query_part(&args.decode, &args.range, &args.infer, &subject.capture)?;
    let answer = query.run(Replay::new(tree, profiler))?;
    decode::remark(&args.decode, &subject.capture, &answer)?;
    let (profiler, tree) = answer.analysis.finish();
    // A tree that has become too large ends the decode early. The profiler must not take what it
    // saw for the whole.
    let (exact, inexact) = tree.exactness()?;
    let totals = profiler.finish(exact, &reason(exact, &inexact))?;
    Ok((totals, exact, inexact))
}

/// The java has ended before it could load anything.
#[derive(Debug, thiserror::Error)]
#[error("java cannot run jportal-replay.jar, which needs Java 17 or newer (--java): its messages are above")]
struct NotReady;

/// Java leaves out parts of a class path that do not exist. A misspelt one would only show as a
/// class that is not found.
fn check_class_path(args: &ReplayArgs) -> Result<()> {
    for part in std::env::split_paths(&args.classpath) {
        // `folder/*` stands for all jars of a folder.
        let place: PathBuf = if part.ends_with("*") { part.with_file_name("") } else { part.clone() };
        if part.as_os_str().is_empty() || !place.exists() && !place.as_os_str().is_empty() {
            bail!("--classpath {}: there is no {:?}", args.classpath.display(), part.display().to_string());
        }
    }
    Ok(())
}

/// The java that runs the profiler. It is killed when this is dropped.
struct ProfilerProcess(Child);

impl ProfilerProcess {
    /// Starts it. Its standard input is the other end of the stream.
    fn start(args: &ReplayArgs, java: &Path, jar: &Path) -> Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair().context("no stream to java")?;
        let mut classes = jar.as_os_str().to_owned();
        classes.push(":");
        classes.push(&args.classpath);
        let mut command = Command::new(java);
        command.args(&args.java_args).arg("-cp").arg(classes).arg("jportal.replay.Main").arg(&args.profiler);
        command.args(&args.mid_factory).stdin(Stdio::from(OwnedFd::from(theirs)));
        detail(|| format!("starting {command:?}"));
        let child = command.spawn().with_context(|| format!("cannot run {}", java.display()))?;
        // The command keeps their end, without which the stream would not close with the child.
        drop(command);
        Ok((Self(child), ours))
    }
    fn wait(&mut self) -> Result<ExitStatus> {
        self.0.wait().context("java cannot be waited for")
    }
    /// Adds to an error how the java ended.
    fn explain(&mut self, error: anyhow::Error, profiler: &str) -> anyhow::Error {
        let is_gone = matches!(error.downcast_ref(), Some(ExportError::ProfilerGone));
        if !is_gone && !error.is::<NotReady>() {
            return error;
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.0.try_wait() {
                return match is_gone {
                    true => anyhow!("java ended early ({status}): {profiler} did not see all of the capture"),
                    false => error.context(format!("java ended with {status}")),
                };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        error.context("java closed its stream, and did not end")
    }
}

impl Drop for ProfilerProcess {
    fn drop(&mut self) {
        // Errors say that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_fits_its_schema() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/replay.json");
        let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let inexact = Inexact { gaps: 3, unresolved: [("empty-loop", 2)].into(), ..Inexact::default() };
        let totals = ReplayTotals { threads: 1, reports: 2 };
        let result = ReplayResult { profiler: "a.B", totals, exact: false, inexact: &inexact };
        let mut value = serde_json::to_value(KIND.document(&result)).unwrap();
        assert!(jsonschema::is_valid(&schema, &value), "{value}");
        value["reports"] = (-1).into();
        assert!(!jsonschema::is_valid(&schema, &value), "{value}");
    }
}
