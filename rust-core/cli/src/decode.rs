// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Opening and decoding captures, shared by all commands that decode.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use jportal::file::{CaptureReader, Header};
use jportal::{Answer, Capture, DecodeSummary, Exclude, Query, Warning};

use crate::args::{self, DecodeArgs, EventProvenance, ExcludeArgs, InferArgs, JobsArgs, RangeArgs};
use crate::messages::detail;
use crate::progress::ProgressLine;
use crate::{range, say};

/// Opens a capture. Reports on stderr what is missing.
pub(crate) fn open(path: &Path) -> Result<Capture> {
    let begun = Instant::now();
    let capture = Capture::open(path)?;
    detail(|| {
        let (methods, codes) = (capture.methods().len(), capture.recording().image().codes().len());
        let seconds = begun.elapsed().as_secs_f64();
        format!("read the metadata in {seconds:.2} s: {methods} methods, {codes} versions of code")
    });
    warn(capture.warnings());
    Ok(capture)
}

/// Shows methods as they were before an agent instrumented them. The map is in a file.
pub(crate) fn restored(capture: Capture, map: &Path) -> Result<Capture> {
    let text = std::fs::read_to_string(map).with_context(|| format!("{}", map.display()))?;
    capture.restored(&text).with_context(|| format!("{}", map.display()))
}

/// Opens a capture without its metadata. Reports on stderr what is missing.
pub(crate) fn open_file(path: &Path) -> Result<CaptureReader> {
    let (reader, warnings) = jportal::open_file(path)?;
    warn(&warnings);
    Ok(reader)
}

/// Reports warnings, of each kind at most five.
pub(crate) fn warn(warnings: &[Warning]) {
    const SHOWN: usize = 5;
    let kind = std::mem::discriminant::<Warning>;
    for group in warnings.chunk_by(|a, b| kind(a) == kind(b)) {
        for warning in group.iter().take(SHOWN) {
            match warning {
                Warning::Recovered { .. } => say(&warning.to_string()),
                _ => say(&format!("warning: {warning}")),
            }
        }
        if let Some(more) = group.len().checked_sub(SHOWN).filter(|n| *n > 0) {
            say(&format!("warning: and {more} more of this kind"));
        }
    }
}

/// A query for the threads that the arguments select, with a progress line, which places and
/// fills nothing.
pub(crate) fn query<'c>(args: &DecodeArgs, capture: &'c Capture) -> Result<Query<'c>> {
    let mut line = ProgressLine::new("decoding");
    let (begun, mut reported) = (Instant::now(), false);
    let query = capture.query().threads(&args.threads)?;
    Ok(args
        .jobs
        .apply(query)
        .machine_decoder(args.native_decoder.into())
        .positions(args.positions.into())
        .place(jportal::Place::Nothing)
        .progress(move |done, all| {
            line.update(done, all);
            // Stretches without trace may follow the last byte.
            if done == all && !std::mem::replace(&mut reported, true) {
                let seconds = begun.elapsed().as_secs_f64();
                detail(|| format!("decoded {:.1} MB of trace in {seconds:.2} s", all as f64 / 1e6));
            }
        }))
}

/// A query that also places and fills, as the arguments say.
pub(crate) fn query_inferred<'c>(
    args: &DecodeArgs,
    infer: &InferArgs,
    capture: &'c Capture,
) -> Result<Query<'c>> {
    Ok(query(args, capture)?.place(infer.project().into()).fill(infer.recover().into()))
}

/// A query for a part of the recording that also places and fills, as the arguments say.
pub(crate) fn query_part<'c>(
    args: &DecodeArgs,
    range: &RangeArgs,
    infer: &InferArgs,
    capture: &'c Capture,
) -> Result<Query<'c>> {
    let (from, to) = range::bounds(range, capture)?;
    let query = query_inferred(args, infer, capture)?.between(from, to);
    Ok(if range.cold { query.cold() } else { query })
}

/// Reports on stderr what limits an answer.
pub(crate) fn remark<A>(args: &DecodeArgs, capture: &Capture, answer: &Answer<A>) -> Result<()> {
    for want in &args.threads {
        for (tid, started) in capture.threads(want)? {
            if !answer.summary.threads.iter().any(|t| (t.info.tid, t.info.started) == (tid, started)) {
                say(&format!(
                    "nothing in the trace is known to be of thread {} that began at {}",
                    tid.0, started.0
                ));
            }
        }
    }
    if let Some(filled) = answer.filled.as_ref().filter(|f| f.not_learned > 0) {
        say(&format!(
            "warning: gaps were filled from the first {} bytecodes of the capture; {} more were not learned from",
            filled.learned, filled.not_learned
        ));
    }
    Ok(())
}

/// The share of the trace that was decoded, in words.
pub(crate) fn share_decoded(summary: &DecodeSummary) -> String {
    let of = match summary.not_asked_bytes {
        0 => "recorded trace",
        _ => "trace that was asked for",
    };
    format!("{:.2}% of the {of} was decoded", 100.0 * summary.completeness())
}

/// Ticks of the TSC per millisecond.
pub(crate) fn tsc_khz(header: &Header) -> Result<u64> {
    match header.tsc_khz {
        0 => bail!("the capture does not say how fast its clock is, so nothing can be said in seconds"),
        khz => Ok(khz),
    }
}

/// The provenances that the arguments exclude.
pub(crate) fn excluded(args: &ExcludeArgs) -> Exclude {
    let is = |what| args.exclude.contains(&what);
    Exclude {
        decoded: is(EventProvenance::Decoded),
        projected: is(EventProvenance::Projected),
        recovered: is(EventProvenance::Recovered),
        lost: is(EventProvenance::Lost),
    }
}

impl JobsArgs {
    /// A query on that many threads.
    pub(crate) fn apply(self, query: Query<'_>) -> Query<'_> {
        match self.jobs {
            Some(jobs) => query.jobs(jobs),
            None => query,
        }
    }
}

impl From<args::MachineDecoder> for jportal::MachineDecoder {
    fn from(decoder: args::MachineDecoder) -> Self {
        match decoder {
            args::MachineDecoder::Own => Self::Own,
            args::MachineDecoder::Libipt => Self::Libipt,
        }
    }
}

impl From<args::Positions> for jportal::Positions {
    fn from(positions: args::Positions) -> Self {
        match positions {
            args::Positions::Markers => Self::Markers,
            args::Positions::DebugInfo => Self::DebugInfo,
        }
    }
}

impl From<args::Project> for jportal::Place {
    fn from(project: args::Project) -> Self {
        match project {
            args::Project::None => Self::Nothing,
            args::Project::Enumerate => Self::Enumerate,
            args::Project::Guided => Self::Guided,
            args::Project::Indexed => Self::Indexed,
        }
    }
}

impl From<args::Recover> for jportal::Fill {
    fn from(recover: args::Recover) -> Self {
        match recover {
            args::Recover::None => Self::Nothing,
            args::Recover::Basic => Self::Basic,
            args::Recover::Tiered => Self::Tiered,
            args::Recover::Follow => Self::Follow,
        }
    }
}
