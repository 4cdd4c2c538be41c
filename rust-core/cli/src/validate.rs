// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal validate`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jportal::flow::SingleBytecodes;
use jportal::validate::debug_info::{DebugInfoReport, ReportLimits, StateCollector};
use jportal::validate::stacks::{
    AnytimeCounts, AnytimeJudge, LoggedMethods, MomentFinder, StackApi, StackLog, StacksAnalysis,
    StacksOptions,
};
use jportal::{Tid, Tsc};

use crate::args::{DebugInfoArgs, StackApiName, StacksArgs, StacksInput};
use crate::output::{ResultKind, put};
use crate::verify::check_process;
use crate::{CommandOutcome, decode, profiles, say};

const KIND: ResultKind = ResultKind::new("validate-debug-info", Some("findings"));
const STACKS: ResultKind = ResultKind::new("validate-stacks", Some("apis"));

pub(crate) fn debug_info(args: &DebugInfoArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let collector = StateCollector::default();
    let query = decode::query(&args.decode, &capture)?.observers(Arc::new(collector.clone()));
    let answer = query.run(SingleBytecodes)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let recording = capture.recording();
    let limits = ReportLimits {
        findings: args.findings,
        methods: args.top,
        places: args.places.clone(),
        capture: args.decode.capture.display().to_string(),
    };
    let instructions = |code, blocks: &[(u32, u32)]| recording.instructions(code, blocks);
    let report = DebugInfoReport::new(recording.image(), &collector.finish(), &instructions, &limits);
    put(&args.decode.format, KIND, &report, || Ok(report.text()))?;
    if report.all.places == 0 {
        say("no compiled code was judged: did any run, and was it compiled with path markers?");
        return Ok(CommandOutcome::Findings);
    }
    Ok(if report.is_clean() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

impl From<StackApiName> for StackApi {
    fn from(name: StackApiName) -> Self {
        match name {
            StackApiName::Gst => Self::Gst,
            StackApiName::Asgct => Self::Asgct,
            StackApiName::Walker => Self::Walker,
            StackApiName::Throwable => Self::Throwable,
            StackApiName::AsgctAsync => Self::AsgctAsync,
            StackApiName::GstOther => Self::GstOther,
        }
    }
}

pub(crate) fn stacks(args: &StacksArgs) -> Result<CommandOutcome> {
    if !(0.0..=1.0).contains(&args.allow) {
        bail!("--allow {}: give a part between 0 and 1", args.allow);
    }
    match &args.input {
        StacksInput { log: Some(log), .. } => logged_stacks(args, log),
        StacksInput { jfr: Some(file), .. } => profiles::jfr(args, file),
        StacksInput { grade: Some(file), .. } => profiles::grade(args, file),
        StacksInput { .. } => bail!("nothing to judge: give --log, --jfr or --grade"),
    }
}

fn logged_stacks(args: &StacksArgs, log: &Path) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let recording = capture.recording();
    let (logged, mut logs, mut anytime) = open_stacks(log)?;
    check_process(log, recording.reader().header().pid)?;
    let threads = &recording.image().threads;
    if !args.decode.threads.is_empty() {
        let names = &args.decode.threads;
        let is_wanted = |l: &StackLog| {
            names.contains(&l.tid.to_string())
                || threads.iter().any(|t| t.tid.get() == l.tid && names.contains(&t.name))
        };
        logs.retain(is_wanted);
        anytime.retain(is_wanted);
    }
    let exits: Vec<(Tid, Tsc)> = threads.iter().filter_map(|t| Some((t.tid, t.exited?))).collect();
    let apis: Vec<StackApi> = args.api.iter().map(|&name| name.into()).collect();
    let options = StacksOptions {
        findings: args.findings,
        capture: args.decode.capture.display().to_string(),
        apis: StackApi::ALL.into_iter().filter(|a| apis.is_empty() || apis.contains(a)).collect(),
        anytime: !anytime.is_empty(),
    };
    let methods = Arc::new(capture.methods().clone());
    let finder = MomentFinder::new(anytime, exits.clone(), recording.code_cache());
    let analysis = StacksAnalysis::new(methods, &logged, logs, exits, options.clone());
    let mut query = decode::query(&args.decode, &capture)?;
    if options.anytime {
        query = query.observers(Arc::new(finder.clone()));
    }
    let answer = query.run(analysis)?;
    decode::remark(&args.decode, &capture, &answer)?;
    let counts = if options.anytime {
        let depths = recording.stack_depths();
        AnytimeJudge::new(recording.image(), capture.methods(), &logged, depths, options).judge(finder)
    } else {
        AnytimeCounts::default()
    };
    let report = answer.analysis.finish_with(counts);
    put(&args.decode.format, STACKS, &report, || Ok(report.text()))?;
    if report.judged == 0 {
        say("no stack was judged: was the program run with the stacks agent?");
        return Ok(CommandOutcome::Findings);
    }
    let clean = report.is_within(args.allow) && report.log_errors.is_empty();
    Ok(if clean { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// The names of the methods, and the logs of all threads: of stacks taken in place, and of those
/// taken at any moment.
fn open_stacks(dir: &Path) -> Result<(LoggedMethods, Vec<StackLog>, Vec<StackLog>)> {
    let file = dir.join("methods.tsv");
    let open = || -> Result<LoggedMethods> { Ok(LoggedMethods::read(BufReader::new(File::open(&file)?))?) };
    let remedy = "give the directory that the stacks agent wrote";
    let logged = open().with_context(|| format!("{}: {remedy}", file.display()))?;
    let (mut in_place, mut anytime) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let logs = match path.extension().and_then(|e| e.to_str()) {
            Some("stacks") => &mut in_place,
            Some("async") => &mut anytime,
            _ => continue,
        };
        let open = || -> Result<StackLog> {
            let file = BufReader::with_capacity(1 << 16, File::open(&path)?);
            Ok(StackLog::open(Box::new(file))?)
        };
        logs.push(open().with_context(|| format!("{}", path.display()))?);
    }
    if let Ok(reason) = std::fs::read_to_string(dir.join("error.txt")) {
        say(&format!("warning: the log is incomplete: {}", reason.trim()));
    }
    Ok((logged, in_place, anytime))
}
