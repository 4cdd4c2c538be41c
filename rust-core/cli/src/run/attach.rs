// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal record --pid`: records a VM that runs already, with jcmd.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::child::ProgramEnd;
use super::{FAILED, keep_old, locate, report};
use crate::args::RunArgs;
use crate::messages::{detail, say};
use crate::sys::SignalWatch;

/// How often the process is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// Starts a recording in process `pid`, and stops it when we are interrupted, when the time is
/// over, or when the process ends.
pub(super) fn record(args: &RunArgs, pid: u32) -> Result<ProgramEnd> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        bail!("there is no process {pid}");
    }
    let jcmd = jcmd(&process, args.java.as_deref())?;
    let output = std::path::absolute(&args.output).context("the capture's path")?;
    let watch = SignalWatch::begin().context("cannot wait for signals")?;
    let kept = keep_old(&output)?;
    let start = ["JPortal.start".to_owned(), format!("file={}", output.display())];
    if let Err(e) = ask(&jcmd, &watch, pid, &start) {
        put_back(&kept);
        return Err(e);
    }
    if !args.quiet {
        let until = args.length.map_or_else(
            || "until it ends, or until ^C".to_owned(),
            |length| format!("for {:.1} s", length.as_secs_f64()),
        );
        say(&format!("recording process {pid} {until}"));
    }
    let begun = Instant::now();
    let is_over = || args.length.is_some_and(|length| begun.elapsed() >= length);
    while process.exists() && !is_over() {
        let left = args.length.map_or(INTERVAL, |length| length.saturating_sub(begun.elapsed()));
        if watch.next_within(left.min(INTERVAL)).context("cannot wait for signals")?.is_some_and(|a| a.ends())
        {
            break;
        }
    }
    if process.exists() {
        ask(&jcmd, &watch, pid, &["JPortal.stop".to_owned()])?;
    }
    Ok(ProgramEnd::Code(if report(args, &output) { 0 } else { FAILED }))
}

/// Undoes [`keep_old`]: the process may be recording to this very file.
fn put_back(kept: &[(PathBuf, PathBuf)]) {
    for (from, to) in kept {
        if std::fs::rename(to, from).is_err() {
            say(&format!("warning: the earlier {} is now {}", from.display(), to.display()));
        }
    }
}

/// The `jcmd` of the JDK that runs the process, or of `--java`.
fn jcmd(process: &Path, java: Option<&Path>) -> Result<PathBuf> {
    let beside = |java: &Path| java.parent().map(|bin| bin.join("jcmd")).filter(|jcmd| jcmd.is_file());
    // An emulated VM's executable is QEMU.
    let own = std::fs::read_link(process.join("exe")).ok();
    let own = own.filter(|exe| exe.ends_with("java")).and_then(|java| beside(&java));
    match own {
        Some(jcmd) if java.is_none() => Ok(jcmd),
        _ => beside(&locate::java(java)?).context("there is no jcmd beside java"),
    }
}

/// Sends a diagnostic command. Its answer must say that it was carried out.
fn ask(jcmd: &Path, watch: &SignalWatch, pid: u32, words: &[String]) -> Result<()> {
    let mut command = Command::new(jcmd);
    command.arg(pid.to_string()).args(words);
    watch.restore_in(&mut command);
    detail(|| format!("running {command:?}"));
    let out = command.output().with_context(|| format!("cannot run {}", jcmd.display()))?;
    let answer = String::from_utf8_lossy(&out.stdout);
    let done = out.status.success() && answer.contains("state: ");
    if !done {
        let errors = String::from_utf8_lossy(&out.stderr);
        let reason = format!("{} {}", answer.trim(), errors.trim());
        let reason = reason.trim();
        let known = !answer.contains("Unknown diagnostic command");
        let remedy = if known { "" } else { "; the VM was not started with -XX:+JPortal" };
        bail!("process {pid} does not take {}: {reason}{remedy}", words[0]);
    }
    detail(|| answer.trim().replace('\n', ", "));
    Ok(())
}
