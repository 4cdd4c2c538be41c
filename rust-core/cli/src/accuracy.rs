// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal accuracy`: how much of the actual execution the flow of a capture with lost trace
//! shows.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use jportal::file::{CaptureReader, Header};
use jportal::reconstruct::{Recording, ThreadSummary};
use jportal::units::MethodId;
use jportal::validate::accuracy::{Flows, Storage, TraceBytes, compare};
use jportal::{DecodeSummary, Method};

use crate::args::{AccuracyArgs, DecodeArgs};
use crate::output::{ResultKind, put};
use crate::progress::ProgressLine;
use crate::{CommandOutcome, decode, say};

const KIND: ResultKind = ResultKind::new("accuracy", Some("threads"));

/// Bytes of a thread's flow that are kept in memory before a temporary file is created.
const IN_MEMORY: usize = 1 << 20;

pub(crate) fn accuracy(args: &AccuracyArgs) -> Result<CommandOutcome> {
    let truth_args = DecodeArgs { capture: args.truth.clone(), ..args.decode.clone() };
    let truth_capture = decode::open(&truth_args.capture)?;
    let capture = decode::open(&args.decode.capture)?;
    same_headers(truth_capture.recording().reader(), capture.recording().reader())?;
    same_methods(truth_capture.recording(), capture.recording())?;
    loss_free(truth_capture.recording())?;

    // The truth is loss-free, so nothing is placed or filled in it.
    let flows = Flows::of_truth(truth_capture.methods(), storage)?;
    let truth = decode::query(&truth_args, &truth_capture)?.run(flows)?;
    decode::remark(&truth_args, &truth_capture, &truth)?;
    loss_free_flow(&args.truth, &truth.summary)?;
    let truth_bytes = trace_bytes(&truth.summary, &truth_args);
    drop(truth_capture);

    let flows = Flows::of_capture(capture.methods(), storage)?;
    let tested = decode::query_inferred(&args.decode, &args.infer, &capture)?.run(flows)?;
    decode::remark(&args.decode, &capture, &tested)?;
    let bytes = trace_bytes(&tested.summary, &args.decode);

    let mut line = ProgressLine::counting("comparing", "million bytecodes");
    let (truth, tested) = ((truth.analysis, &truth_bytes), (tested.analysis, &bytes));
    let accuracy = compare(truth, tested, capture.methods(), &mut |n, all| line.update(n, all))?;
    drop(line);
    put(&args.decode.format, KIND, &accuracy, || Ok(accuracy.text()))?;
    if accuracy.total.truth == 0 {
        say("nothing was compared: the truth has no bytecode");
        return Ok(CommandOutcome::Findings);
    }
    Ok(if accuracy.decoded_is_right() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// An unnamed file, which disappears however the command ends.
fn storage() -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(tempfile::spooled_tempfile(IN_MEMORY)))
}

/// The PT bytes of the threads that were decoded.
fn trace_bytes(summary: &DecodeSummary, args: &DecodeArgs) -> TraceBytes {
    let threads: BTreeMap<(u32, u64), u64> =
        summary.threads.iter().map(|t| ((t.info.tid.get(), t.info.started.get()), t.pt_bytes)).collect();
    let selected = |t: &&ThreadSummary| {
        args.threads.iter().any(|want| *want == t.info.name || *want == t.info.tid.get().to_string())
    };
    let total = match args.threads.is_empty() {
        true => summary.pt_bytes,
        false => summary.threads.iter().filter(selected).map(|t| t.pt_bytes).sum(),
    };
    TraceBytes { total, threads }
}

/// A property of the run from the header, as text.
type Fact = fn(&Header) -> String;

/// Refuses recordings whose headers show that they are of different runs.
fn same_headers(truth: &CaptureReader, capture: &CaptureReader) -> Result<()> {
    let (a, b) = (truth.header(), capture.header());
    let names = format!("{} (TRUTH) and {} (CAPTURE)", truth.path().display(), capture.path().display());
    if truth.version() != capture.version() {
        let ((a, b), (c, d)) = (truth.version(), capture.version());
        bail!(
            "{names} have formats {a}.{b} and {c}.{d}: record the run again and make both with one version of JPortal"
        );
    }
    let facts: [(&str, Fact); 9] = [
        ("process id", |h| h.pid.to_string()),
        ("TSC at the start", |h| h.start_tsc.to_string()),
        ("time of the start (ns since 1970)", |h| h.start_unix_ns.to_string()),
        ("TSC frequency in kHz", |h| h.tsc_khz.to_string()),
        ("VM", |h| h.vm_version.to_string()),
        ("flags", |h| h.vm_flags.to_string()),
        ("command", |h| h.java_command.to_string()),
        ("code cache", |h| format!("{:#x} to {:#x}", h.code_cache_low, h.code_cache_high)),
        ("PT source", |h| h.pt.source_name().to_owned()),
    ];
    for (what, fact) in facts {
        if fact(a) != fact(b) {
            bail!(
                "{names} are not of the same run: {what} {:?} and {:?}; make CAPTURE from TRUTH with jportal degrade",
                fact(a),
                fact(b)
            );
        }
    }
    Ok(())
}

/// Refuses recordings whose method ids mean different methods.
fn same_methods(truth: &Recording, capture: &Recording) -> Result<()> {
    let same = |(a, b): &(&Method, &Method)| {
        (&a.class_name, &a.name, &a.signature, &a.code) == (&b.class_name, &b.name, &b.signature, &b.code)
    };
    let (ours, theirs) = (capture.methods(), truth.methods());
    let other = theirs.iter().zip(ours.iter()).position(|pair| !same(&pair));
    if let Some(n) = other.or((theirs.len() != ours.len()).then(|| theirs.len().min(ours.len()))) {
        let id = MethodId(n as u32);
        let name = |r: &Recording| r.methods().get(id).map_or("none".into(), Method::qualified_name);
        bail!(
            "the metadata of TRUTH and CAPTURE differ, method {n} is {} and {}: they must be whole and of the same run",
            name(truth),
            name(capture)
        );
    }
    Ok(())
}

/// Advice for the user when TRUTH is not loss-free.
const NOT_TRUE: &str = "record TRUTH without loss (jportal run --on-full stall)";

/// Refuses a truth that is known to have lost something. Runs before the truth is decoded.
fn loss_free(truth: &Recording) -> Result<()> {
    let reader = truth.reader();
    let path = reader.path().display();
    if !reader.completeness().is_whole() {
        bail!("{path} (TRUTH) is cut off or damaged; {NOT_TRUE}");
    }
    if let Some(note) = reader.losses().first() {
        bail!(
            "{path} (TRUTH) has lost trace on core {} at byte {} of the stream; {NOT_TRUE}",
            note.core,
            note.offset
        );
    }
    for core in truth.cores() {
        if let Some(s) = truth.stretches(core).iter().find(|s| s.truncated) {
            bail!(
                "{path} (TRUTH) has lost trace on {core} after byte {} of the stream; {NOT_TRUE}",
                s.to.get()
            );
        }
    }
    if truth.lost_records() > 0 {
        bail!("{path} (TRUTH) has lost {} records of its sideband; {NOT_TRUE}", truth.lost_records());
    }
    Ok(())
}

/// Refuses a truth whose trace shows losses. Warns of places that cannot be decoded.
fn loss_free_flow(path: &Path, summary: &DecodeSummary) -> Result<()> {
    let n = &summary.native;
    if n.overflows + n.truncations > 0 {
        bail!(
            "{} (TRUTH) has lost trace: {} overflows and {} truncations; {NOT_TRUE}",
            path.display(),
            n.overflows,
            n.truncations
        );
    }
    let gaps = n.errors + summary.contradictions();
    if gaps > 0 {
        say(&format!(
            "warning: {gaps} places of the truth cannot be decoded; what the capture tells there counts as wrong"
        ));
    }
    Ok(())
}
