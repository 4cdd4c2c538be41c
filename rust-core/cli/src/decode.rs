// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Opening and decoding captures, shared by all commands that decode.

use std::path::Path;

use anyhow::{Context, Result, bail};
use jportal_analyses::Exclude;
use jportal_bytecode::Method;
use jportal_capture::ring_file::{Recovery, recover};
use jportal_capture::{CaptureReader, Damage};
use jportal_flow::FlowConsumer;
use jportal_reconstruct::{
    DecodeOptions, DecodeSummary, MachineDecoder, MachineStep, Positions, Recording, Watch,
};
use jportal_units::{Tid, Tsc};

use crate::args::{self, DecodeArgs, ExcludeArgs, Known};
use crate::progress::ProgressLine;
use crate::say;

/// Opens a capture. If the VM died, completes the capture from its ring file first. Warns on
/// stderr of anything that is missing.
pub(crate) fn open(path: &Path) -> Result<CaptureReader> {
    complete(path);
    let reader = CaptureReader::open(path).with_context(|| format!("{}", path.display()))?;
    for warning in warnings(&reader) {
        say(&format!("warning: {warning}"));
    }
    Ok(reader)
}

/// Recovers what is left in the ring file of a dead VM.
pub(crate) fn complete(path: &Path) {
    match recover(path) {
        Ok(Recovery::Done { bytes, crashed }) => {
            let how = if crashed { "crashed" } else { "was killed" };
            say(&format!("the VM {how}; {bytes} bytes of metadata were recovered from its ring file"));
        }
        Ok(Recovery::Live) => {
            say("warning: the VM is still writing to this capture; its end is not there yet")
        }
        Ok(Recovery::NotNeeded) => {}
        // The caller that opens the capture next reports that it cannot be opened.
        Err(_) if !path.exists() => {}
        Err(e) => say(&format!("warning: the ring file cannot be used: {e}")),
    }
}

/// The parts that are missing in a capture, as text.
pub(crate) fn warnings(reader: &CaptureReader) -> Vec<String> {
    let c = reader.completeness();
    let mut all = Vec::new();
    if let Some(end) = c.end.as_ref().filter(|e| e.reason == jportal_capture::EndReason::Failed) {
        all.push(format!("the recorder gave up: {}", end.text));
    }
    if c.end.is_none() {
        all.push("the capture was cut off: the VM died, or is still running".to_owned());
    }
    if let Some(torn) = c.torn {
        all.push(format!("the last chunk, at byte {}, is incomplete ({} bytes)", torn.place, torn.bytes));
    }
    for Damage { from, to, kind } in c.damaged.iter().take(5) {
        all.push(format!("bytes {from} to {to} are damaged ({kind:?})"));
    }
    if c.damaged.len() > 5 {
        all.push(format!("and {} more damaged places", c.damaged.len() - 5));
    }
    if c.unknown_chunks > 0 {
        all.push(format!("{} chunks are of kinds this version does not know", c.unknown_chunks));
    }
    all
}

/// Reads the metadata.
pub(crate) fn recording(reader: &CaptureReader) -> Result<Recording<'_>> {
    let recording = Recording::open(reader).with_context(|| format!("{}", reader.path().display()))?;
    let damaged = recording.damaged_records();
    if damaged > 0 {
        say(&format!(
            "warning: {damaged} metadata records cannot be read (damaged, or of a VM of another version): what depends on them is wrong"
        ));
    }
    let undescribed = recording.undescribed_bytes();
    if undescribed > 0 {
        say(&format!(
            "warning: the last {undescribed} bytes of trace are not decoded: the capture was cut off, and metadata that they need may be missing"
        ));
    }
    let (damaged, disordered) = (recording.damaged_sideband(), recording.disordered_sideband());
    if damaged + disordered > 0 {
        say(&format!(
            "warning: the records of who ran when are damaged: {damaged} places are gaps, {disordered} times were out of order"
        ));
    }
    let flawed = recording.image().codes().iter().filter_map(|c| Some((c, c.nmethod()?.flaw.as_ref()?)));
    let flawed: Vec<String> = flawed.map(|(c, flaw)| format!("{}: {flaw}", c.describe())).collect();
    for flaw in flawed.iter().take(5) {
        say(&format!("warning: {flaw}; wherever it runs there is a gap"));
    }
    if flawed.len() > 5 {
        say(&format!("warning: and {} more compiled methods are damaged", flawed.len() - 5));
    }
    Ok(recording)
}

/// Decodes the threads that the arguments select.
pub(crate) fn decode(
    args: &DecodeArgs,
    recording: &Recording<'_>,
    consumer: &mut dyn FlowConsumer,
) -> Result<DecodeSummary> {
    let options = options(args, recording)?;
    let mut line = ProgressLine::new("decoding");
    let result = recording.decode(&options, consumer, &mut |done, all| line.update(done, all));
    drop(line);
    let summary = result.with_context(|| format!("{}", args.capture.display()))?;
    for &(tid, started) in options.only.iter().flatten() {
        if !summary.threads.iter().any(|t| (t.info.tid, t.info.started) == (tid, started)) {
            say(&format!(
                "nothing in the trace is known to be of thread {} that began at {}",
                tid.0, started.0
            ));
        }
    }
    Ok(summary)
}

/// The provenances that the arguments exclude.
pub(crate) fn excluded(args: &ExcludeArgs) -> Exclude {
    let is = |what| args.exclude.contains(&what);
    Exclude {
        decoded: is(Known::Decoded),
        projected: is(Known::Projected),
        recovered: is(Known::Recovered),
        lost: is(Known::Lost),
    }
}

/// The machine flow around an event of a thread's flow.
pub(crate) fn steps_around(
    args: &DecodeArgs,
    recording: &Recording<'_>,
    watch: Watch,
) -> Result<Vec<MachineStep>> {
    let mut line = ProgressLine::new("decoding");
    let options = options(args, recording)?;
    let result = recording.steps_around(watch, &options, &mut |done, all| line.update(done, all));
    drop(line);
    result.with_context(|| format!("{}", args.capture.display()))
}

fn options(args: &DecodeArgs, recording: &Recording<'_>) -> Result<DecodeOptions> {
    Ok(DecodeOptions {
        native_decoder: match args.native_decoder {
            args::MachineDecoder::Own => MachineDecoder::Own,
            args::MachineDecoder::Libipt => MachineDecoder::Libipt,
        },
        positions: match args.positions {
            args::Positions::Markers => Positions::Markers,
            args::Positions::DebugInfo => Positions::DebugInfo,
        },
        only: select(recording, &args.threads)?,
    })
}

/// The threads that `wanted` names; `None` for all.
fn select(recording: &Recording<'_>, wanted: &[String]) -> Result<Option<Vec<(Tid, Tsc)>>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    threads(recording, wanted).map(Some)
}

/// The threads that `wanted` names: the id and start of each.
pub(crate) fn threads(recording: &Recording<'_>, wanted: &[String]) -> Result<Vec<(Tid, Tsc)>> {
    let mut chosen = Vec::new();
    for want in wanted {
        let tid: Option<u32> = want.parse().ok();
        let threads = &recording.image().threads;
        let before = chosen.len();
        let named = threads.iter().filter(|t| Some(t.tid.get()) == tid || t.name == *want);
        chosen.extend(named.map(|t| (t.tid, t.started)));
        if chosen.len() == before {
            let names: Vec<_> =
                threads.iter().take(20).map(|t| format!("\"{}\" ({})", t.name, t.tid.get())).collect();
            bail!("no thread is called {want:?}; there are {}", names.join(", "));
        }
    }
    Ok(chosen)
}

/// Whether a method belongs to the application: not to the boot or the platform loader, and not
/// to the oracle agent.
pub(crate) fn is_application(method: &Method) -> bool {
    !method.loader.is_empty()
        && !method.loader.contains("PlatformClassLoader")
        && !method.class_name.starts_with("jportal/oracle/")
}
