// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What profilers wrote: `jportal validate stacks --jfr` and `--grade`, and `jportal report
//! hot-methods --compare`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use jportal::analyses::names::Naming;
use jportal::analyses::tree::{Options, TreeAnalysis};
use jportal::export::profile::PprofStacks;
use jportal::validate::stacks::grade::{GradeLimits, GradeReport, StackProfile};
use jportal::validate::stacks::jfr::{JFR_EVENTS, JfrAnalysis, JfrOptions, JfrSamples, WallClock};

use crate::args::StacksArgs;
use crate::messages::detail;
use crate::output::{ResultKind, put};
use crate::report::Subject;
use crate::run::locate;
use crate::{CommandOutcome, decode, say};

const JFR: ResultKind = ResultKind::new("validate-stacks-jfr", Some("events"));
const GRADE: ResultKind = ResultKind::new("grade", Some("methods"));

/// How to record JFR's samples beside the trace.
const RECORD: &str = "give java -XX:StartFlightRecording=filename=FILE,settings=profile when you record";

/// The first bytes of a recording of JFR.
const JFR_MAGIC: &[u8] = b"FLR\0";

/// The first bytes of a pprof profile: it is compressed with gzip.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Prints all frames that JFR stores: `-XX:FlightRecorderOptions=stackdepth` is at most that.
const MOST_FRAMES: &str = "2048";

pub(crate) fn jfr(args: &StacksArgs, file: &Path) -> Result<CommandOutcome> {
    if !(args.window >= 0.0 && args.window.is_finite()) {
        bail!("--window {}: give a number of milliseconds", args.window);
    }
    let Some(Input::Jfr(mut samples)) = read(args.jfr_tool.as_deref(), file)? else {
        bail!("{}: neither a recording of JFR nor what `jfr print --json` printed", file.display());
    };
    let capture = decode::open(&args.decode.capture)?;
    let header = capture.recording().reader().header();
    let tsc_khz = decode::tsc_khz(header)?;
    if header.start_unix_ns == 0 {
        bail!("the capture does not say when it began, so JFR's times say nothing of it");
    }
    let names = &args.decode.threads;
    samples.retain(|tid, name| names.is_empty() || names.iter().any(|n| n == name || *n == tid.to_string()));
    let clock = WallClock { start_tsc: header.start_tsc, start_unix_ns: header.start_unix_ns, tsc_khz };
    let options = JfrOptions { clock, window_ms: args.window, findings: args.findings };
    let analysis = JfrAnalysis::new(Arc::new(capture.methods().clone()), samples, options);
    let answer = decode::query(&args.decode, &capture)?.run(analysis)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let report = answer.analysis.finish();
    put(&args.decode.format, JFR, &report, || Ok(report.text()))?;
    if report.judged == 0 {
        say(&format!("no stack was judged: is it a recording of the same run? {RECORD}"));
        return Ok(CommandOutcome::Findings);
    }
    Ok(outcome(report.is_within(args.allow)))
}

pub(crate) fn grade(args: &StacksArgs, file: &Path) -> Result<CommandOutcome> {
    if !args.decode.threads.is_empty() {
        bail!("--thread has no effect on --grade: profiles are of all threads");
    }
    let profile = profile(args.jfr_tool.as_deref(), file)?;
    let subject = Subject::open(&args.decode.capture)?;
    let (methods, inlined) = (Arc::clone(&subject.methods), Arc::clone(&subject.inlined));
    let analysis = TreeAnalysis::new(methods, inlined, Options { merged: true, ..Options::default() })
        .naming(Naming { stable: true, merge_versions: true })
        .timed_by(subject.capture.clock());
    let answer = decode::query(&args.decode, &subject.capture)?.run(analysis)?;
    decode::remark(&args.decode, &subject.capture, &answer)?;
    let tree = answer.analysis.tree()?;
    let report = GradeReport::new(&profile, &tree, &subject.methods, GradeLimits { calls: args.findings });
    put(&args.decode.format, GRADE, &report, || Ok(report.text()))?;
    if report.graded == 0 {
        say("no stack has a frame of Java: is it a profile of the same run?");
        return Ok(CommandOutcome::Findings);
    }
    Ok(outcome(report.is_within(args.allow)))
}

const fn outcome(is_clean: bool) -> CommandOutcome {
    if is_clean { CommandOutcome::Done } else { CommandOutcome::Findings }
}

/// What a profiler wrote.
enum Input {
    Jfr(JfrSamples),
    Collapsed(BufReader<File>),
    Pprof(BufReader<File>),
}

/// The profile in a file of any format.
pub(crate) fn profile(jfr_tool: Option<&Path>, file: &Path) -> Result<StackProfile> {
    let context = || format!("{}", file.display());
    let profile = match read(jfr_tool, file)? {
        Some(Input::Jfr(samples)) => StackProfile::of_jfr(&samples),
        Some(Input::Collapsed(file)) => StackProfile::read_collapsed(file),
        Some(Input::Pprof(file)) => {
            let stacks = PprofStacks::read(file).with_context(context)?;
            StackProfile::of_stacks("pprof", stacks.stacks())
        }
        None => bail!("{} is empty", file.display()),
    };
    profile.with_context(context)
}

/// Reads a file of JFR, and opens any other. `None`: it is empty.
fn read(jfr_tool: Option<&Path>, path: &Path) -> Result<Option<Input>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let begin = file.fill_buf().with_context(|| format!("cannot read {}", path.display()))?;
    let samples = if begin.starts_with(JFR_MAGIC) {
        printed(jfr_tool, path)?
    } else if begin.starts_with(GZIP_MAGIC) {
        return Ok(Some(Input::Pprof(file)));
    } else {
        match begin.iter().find(|b| !b.is_ascii_whitespace()) {
            None => return Ok(None),
            Some(b'{') => JfrSamples::read(file).with_context(|| format!("{}", path.display()))?,
            Some(_) => return Ok(Some(Input::Collapsed(file))),
        }
    };
    samples.remarks().iter().for_each(|remark| say(&format!("warning: {remark}")));
    if samples.is_empty() {
        say(&format!("{} has no sample with a stack; {RECORD}", path.display()));
    }
    Ok(Some(Input::Jfr(samples)))
}

/// Has the JDK's `jfr` print a recording, and reads that.
fn printed(jfr_tool: Option<&Path>, path: &Path) -> Result<JfrSamples> {
    let tool = locate::jfr_tool(jfr_tool)?;
    let mut command = Command::new(&tool);
    command.args(["print", "--json", "--stack-depth", MOST_FRAMES, "--events", &JFR_EVENTS.join(",")]);
    // The tool refuses other names.
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let named = folder.path().join("recording.jfr");
    let whole = std::path::absolute(path).with_context(|| format!("no path to {}", path.display()))?;
    std::os::unix::fs::symlink(whole, &named).context("cannot make a link in a temporary folder")?;
    command.arg(named).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    detail(|| format!("runs {command:?}"));
    let mut child = command.spawn().with_context(|| format!("cannot run {}", tool.display()))?;
    let stdout = child.stdout.take().context("the output of jfr")?;
    let result = read_printed(&mut child, stdout);
    result.with_context(|| format!("{} cannot print {}", tool.display(), path.display()))
}

/// Reads the output of `jfr`. If the tool fails, what it said is the error.
fn read_printed(child: &mut Child, stdout: ChildStdout) -> Result<JfrSamples> {
    let mut stderr = child.stderr.take().context("the messages of jfr")?;
    let messages = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was said before an error is all that there is.
        _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let samples = JfrSamples::read(&mut stdout);
    // A tool that still writes would wait for its reader.
    _ = std::io::copy(&mut stdout, &mut std::io::sink());
    let status = child.wait().context("waiting for jfr")?;
    let messages = messages.join().map_err(|_| anyhow!("the messages of jfr were not read"))?;
    if !status.success() {
        let said = messages.lines().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
        bail!("{status}: {said}");
    }
    Ok(samples?)
}
