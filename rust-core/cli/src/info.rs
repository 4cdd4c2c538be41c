// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal info`.

use std::collections::BTreeMap;

use anyhow::Result;
use jportal::analyses::{ThreadTotals, Threads};
use jportal::file::header::sources;
use jportal::file::{CaptureReader, Counter, Damage, Header};
use jportal::infer::place;
use jportal::infer::replay::Summary as Completed;
use jportal::reconstruct::Recording;
use jportal::units::Core;
use jportal::validate::check::{Checker, Report};
use jportal::{Answer, DecodeSummary, Execution, Warning};
use jportal_plain::line;
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::check::checker;
use crate::output::{ResultKind, put_text, put_value};
use crate::presence::Presence;
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("info", Some("threads"));

/// The result of decoding the trace.
struct Decoded {
    threads: Vec<ThreadTotals>,
    gaps: u64,
    gaps_by_reason: BTreeMap<&'static str, u64>,
    native_flow: u64,
    first_native_errors: Vec<String>,
    reconstruct: u64,
    unresolved: u64,
    orphans: u64,
    projected: u64,
    bytecodes: u64,
    overflows: u64,
    truncations: u64,
    unattributed_bytes: u64,
    not_asked_bytes: u64,
    asked_bytes: u64,
    completeness: f64,
    execution: Option<Execution>,
    projection: Option<place::Summary>,
    recovery: Option<Completed>,
    check: Option<Report>,
}

pub(crate) fn info(args: &InfoArgs) -> Result<CommandOutcome> {
    let capture = decode::open(&args.decode.capture)?;
    let recording = capture.recording();
    let damaged = if args.check.check { recording.reader().check_heads()? } else { Vec::new() };
    decode::warn(&damaged.iter().copied().map(Warning::Damaged).collect::<Vec<_>>());
    // A sideband-only capture has no trace to decode. It says only when threads ran on which
    // core.
    let presence =
        (recording.reader().header().pt.source == sources::SIDEBAND).then(|| Presence::of(recording));
    let decoded = if args.no_decode || presence.is_some() {
        None
    } else {
        let query = decode::query_part(&args.decode, &args.range, &args.infer, &capture)?;
        let answer = query.run((Threads::default(), checker(&args.check, &capture)))?;
        decode::remark(&args.decode, &capture, &answer)?;
        let Answer { analysis: (threads, checker), summary, execution, placed, filled, .. } = answer;
        let check = checker.as_ref().map(Checker::report);
        let gathered = gather(&threads, &summary);
        Some(Decoded { check, projection: placed, recovery: filled, execution, ..gathered })
    };
    let clean = decoded
        .as_ref()
        .is_none_or(|d| d.check.as_ref().is_none_or(|c| c.is_clean() && d.failures().is_empty()));
    if args.decode.format.is_for_programs() {
        let mut all = as_json(recording, decoded, &damaged);
        if let Some(presence) = presence {
            all["presence"] = json!(presence);
        }
        put_value(&args.decode.format, KIND, &all)?;
    } else {
        put_text(&as_text(recording, decoded.as_ref(), presence.as_ref()))?;
    }
    Ok(if clean { CommandOutcome::Done } else { CommandOutcome::Findings })
}

impl Decoded {
    /// Reasons why a check fails although no event is impossible: where the decoder could not
    /// follow the trace, there are no events.
    fn failures(&self) -> Vec<String> {
        let errors = [(self.native_flow, "of the machine flow"), (self.reconstruct, "of the reconstruction")];
        let errors = errors.into_iter().filter(|e| e.0 > 0).map(|(n, of)| format!("{n} errors {of}"));
        let asked = self.asked_bytes;
        let nothing = self.bytecodes == 0 && asked > 0;
        let nothing = nothing.then(|| format!("no bytecode in {asked} bytes of trace"));
        errors.chain(nothing).collect()
    }
}

fn gather(threads: &Threads, s: &DecodeSummary) -> Decoded {
    let threads = threads.totals();
    let mut gaps_by_reason = BTreeMap::new();
    for (&reason, n) in threads.iter().flat_map(|t| &t.gaps) {
        *gaps_by_reason.entry(reason).or_default() += n;
    }
    let first = s.native.first_errors.iter().map(|(core, gap)| format!("{core}: {gap:?}"));
    Decoded {
        gaps: gaps_by_reason.values().sum(),
        gaps_by_reason,
        native_flow: s.native.errors,
        first_native_errors: first.collect(),
        reconstruct: s.contradictions(),
        unresolved: threads.iter().map(|t| t.unresolved).sum(),
        orphans: threads.iter().map(|t| t.orphans).sum(),
        projected: threads.iter().map(|t| t.bytecodes.projected).sum(),
        bytecodes: threads.iter().map(|t| t.bytecodes.total()).sum(),
        overflows: s.native.overflows,
        truncations: s.native.truncations,
        unattributed_bytes: s.unattributed_bytes,
        not_asked_bytes: s.not_asked_bytes,
        asked_bytes: s.asked_bytes(),
        completeness: s.completeness(),
        execution: None,
        recovery: None,
        check: None,
        projection: None,
        threads,
    }
}

/// The threads as the VM reported them, for a capture that is not decoded.
fn reported_threads(recording: &Recording) -> Vec<Value> {
    let threads = &recording.image().threads;
    threads
        .iter()
        .map(|t| {
            json!({"tid": t.tid.get(), "name": t.name, "java_tid": t.java_tid,
                   "started": t.started.get(), "exited": t.exited.map(|e| e.get())})
        })
        .collect()
}

/// `more` is the damage that only a check has found.
fn as_json(recording: &Recording, decoded: Option<Decoded>, more: &[Damage]) -> Value {
    let reader = recording.reader();
    let c = reader.completeness();
    let mut all = json!({
        "file": reader.path().display().to_string(),
        "bytes": reader.file_len(),
        "cores": reader.cores().len(),
        "core_streams": streams(reader),
        "pt_bytes": recording.pt_bytes(),
        "metadata_bytes": reader.metadata_bytes(),
        "methods": recording.methods().len(),
        "code_versions": recording.image().codes().len(),
        "header": header_json(reader.header()),
        "capture": {
            "whole": c.is_whole() && more.is_empty(),
            "end": c.end.as_ref().map(|e| e.reason.name()),
            "end_text": c.end.as_ref().map(|e| e.text.text()),
            "counters": c.end.as_ref().map(|e| counters(&e.counters)),
            "torn": c.torn.map(|t| json!({"place": t.place, "bytes": t.bytes})),
            "unknown_chunks": c.unknown_chunks,
            "damaged": c.damaged.iter().chain(more).map(|d| json!({"from": d.from, "to": d.to})).collect::<Vec<_>>(),
            "losses": reader.losses().len(),
        },
        "metadata": {
            "damaged_records": recording.damaged_records(),
            "oddities": recording.image().oddity_count,
            "notices": recording.image().notices,
            "refused_code": recording.refused_code(),
            "lost_sideband_records": recording.lost_records(),
            "stale_blocks": stale_blocks(recording),
        },
        "threads": reported_threads(recording),
    });
    if let Some(d) = decoded {
        let failures = d.failures();
        all["threads"] = json!(d.threads);
        all["gaps"] = d.gaps.into();
        all["gaps_by_reason"] = json!(d.gaps_by_reason);
        all["errors"] = json!({"native_flow": d.native_flow, "reconstruct": d.reconstruct,
                               "first_native_flow": d.first_native_errors});
        all["unresolved"] = d.unresolved.into();
        all["orphans"] = d.orphans.into();
        all["projected"] = d.projected.into();
        if let Some(projection) = d.projection {
            all["projection"] = json!(projection);
        }
        all["bytecodes"] = d.bytecodes.into();
        all["overflows"] = d.overflows.into();
        all["truncations"] = d.truncations.into();
        all["unattributed_bytes"] = d.unattributed_bytes.into();
        all["not_asked_bytes"] = d.not_asked_bytes.into();
        all["completeness"] = d.completeness.into();
        if let Some(execution) = d.execution {
            all["execution"] = json!(execution);
        }
        if let Some(recovery) = d.recovery {
            all["recovery"] = json!(recovery);
        }
        if let Some(check) = d.check {
            all["check"] = json!(check);
            all["check"]["failures"] = json!(failures);
        }
    }
    all
}

/// Blocks that the emulated unit reports as executed with outdated bytes.
fn stale_blocks(recording: &Recording) -> usize {
    recording.cores().map(|core| recording.stale_blocks(core).len()).sum()
}

fn counters(all: &[Counter]) -> BTreeMap<String, u64> {
    all.iter().map(|c| (c.name.text().into_owned(), c.value)).collect()
}

fn streams(reader: &CaptureReader) -> Vec<Value> {
    let one = |&core: &Core| {
        let sideband: u64 = reader.sideband(core).iter().map(|p| u64::from(p.len)).sum();
        json!({"core": core.get(), "pt_bytes": reader.pt_bytes(core), "sideband_bytes": sideband})
    };
    reader.cores().iter().map(one).collect()
}

fn header_json(h: &Header) -> Value {
    let filter: Vec<_> = h.pt.filter.iter().map(|f| json!({"low": f.low, "high": f.high})).collect();
    json!({
        "pid": h.pid,
        "vm_version": h.vm_version.text(),
        "vm_flags": h.vm_flags.text(),
        "java_command": h.java_command.text(),
        "os": h.os.text(),
        "start_tsc": h.start_tsc,
        "start_unix_ns": h.start_unix_ns,
        "tsc_khz": h.tsc_khz,
        "cpu": {"vendor": h.cpu_vendor.text(), "family": h.cpu_family, "model": h.cpu_model,
                "stepping": h.cpu_stepping},
        "code_cache": {"low": h.code_cache_low, "high": h.code_cache_high},
        "pt": {"source": h.pt.source_name(), "cores": h.pt.cores, "packets": packets(h),
               "psb_period": h.pt.psb_period, "mtc_period": h.pt.mtc_period,
               "aux_bytes": h.pt.aux_bytes, "filter": filter, "detail": h.pt.detail.text()},
    })
}

fn packets(h: &Header) -> Vec<&'static str> {
    use jportal::file::header::packet_flags as f;
    let all =
        [(f::TSC, "tsc"), (f::MTC, "mtc"), (f::CYC, "cyc"), (f::RETURN_COMPRESSION, "return-compression")];
    all.into_iter().filter(|(bit, _)| h.pt.has(*bit)).map(|(_, name)| name).collect()
}

fn as_text(recording: &Recording, decoded: Option<&Decoded>, presence: Option<&Presence>) -> String {
    let (reader, h) = (recording.reader(), recording.reader().header());
    let end = reader.completeness().end.as_ref();
    let mut rows: Vec<(&str, String)> = vec![
        ("file", format!("{}, {} bytes", reader.path().display(), reader.file_len())),
        ("ended", end.map_or("no: cut off".into(), |e| format!("{} {}", e.reason, e.text).trim_end().into())),
        ("VM", h.vm_version.to_string()),
        ("flags", h.vm_flags.to_string()),
        ("command", h.java_command.to_string()),
        ("machine", format!("{}, {} family {} model {}", h.os, h.cpu_vendor, h.cpu_family, h.cpu_model)),
        ("PT source", source(h)),
        ("cores", reader.cores().len().to_string()),
        ("PT", format!("{} bytes", recording.pt_bytes())),
        ("metadata", format!("{} bytes, {} methods", reader.metadata_bytes(), recording.methods().len())),
    ];
    rows.extend(recording.image().notices.iter().map(|n| ("notice", n.clone())));
    if recording.damaged_records() + recording.image().oddity_count > 0 {
        let (damaged, odd) = (recording.damaged_records(), recording.image().oddity_count);
        rows.push(("records", format!("{damaged} could not be read, {odd} contradict others")));
    }
    if stale_blocks(recording) > 0 {
        let n = stale_blocks(recording);
        rows.push((
            "stale blocks",
            format!("{n} (the emulated unit ran them as they had been before a patch)"),
        ));
    }
    if let Some(presence) = presence {
        rows.push(("sideband", presence.summary()));
    }
    let mut text = String::new();
    let mut threads = Vec::new();
    match decoded {
        Some(d) => {
            rows.extend(decoded_rows(d));
            threads.extend(d.threads.iter().map(|t| (t.tid, t.name.clone(), t.bytecodes.text())));
        }
        None => {
            let all = recording.image().threads.iter();
            threads.extend(all.map(|t| (t.tid.get(), t.name.clone(), String::new())));
        }
    }
    for (name, value) in rows.iter().filter(|r| !r.1.is_empty()) {
        text.push_str(&format!("{name:<13} {}\n", line(value)));
    }
    text.push_str("threads\n");
    if let Some(presence) = presence {
        return text + &presence.text(h.tsc_khz);
    }
    for (tid, name, bytecodes) in threads {
        text.push_str(&format!("{tid:>9}  {bytecodes:>14}  {}\n", line(&name)));
    }
    if let Some(d) = decoded {
        text.push_str(&d.execution.as_ref().map(|e| e.text(h.tsc_khz)).unwrap_or_default());
    }
    if let Some(recovery) = decoded.and_then(|d| d.recovery.as_ref()) {
        text.push_str(&recovery_text(recovery));
    }
    if let Some((d, check)) = decoded.and_then(|d| Some((d, d.check.as_ref()?))) {
        text.push_str(&check.text());
        let failures = d.failures();
        if !failures.is_empty() {
            text.push_str(&format!("failed        {}\n", failures.join(", ")));
        }
    }
    text
}

/// The source of the trace and its packets.
fn source(h: &Header) -> String {
    let packets = packets(h).join(" ");
    let detail = if h.pt.source == sources::EMULATED { String::new() } else { h.pt.detail.to_string() };
    let parts = [if packets.is_empty() { packets } else { format!("packets {packets}") }, detail];
    let parts = parts.into_iter().filter(|p| !p.is_empty()).map(|p| format!(", {p}"));
    parts.fold(h.pt.source_name().to_owned(), |all, part| all + &part)
}

/// The filled gaps: totals, then each thread that had a gap.
fn recovery_text(c: &Completed) -> String {
    let (t, s, w) = (&c.total, &c.seconds, &c.work);
    let rows = [
        ("method", c.method.to_owned()),
        ("bytecodes", format!("{} decoded, {} recovered", t.decoded, t.recovered)),
        (
            "gaps",
            format!(
                "{} of {} filled, {} left; {} inside of fills",
                t.gaps_filled,
                t.gaps,
                t.gaps_left(),
                t.broken
            ),
        ),
        (
            "frames",
            format!("{} fills led to wrong frames, {} stacks were given up", t.contradicted, t.given_up),
        ),
        ("learned", format!("{} bytecodes, {} more were not learned from", c.learned, c.not_learned)),
        ("rehearsed", format!("{} gaps, {} of them filled", c.rehearsed.0, c.rehearsed.1)),
        ("work", format!("{} places tried, {} bytecodes read, {} nodes visited", w.tried, w.read, w.visited)),
        (
            "time",
            format!(
                "{:.2} s filling, {:.2} s rehearsing, {:.2} s learning, {:.2} s replaying",
                s.filling, s.rehearsing, s.learning, s.replaying
            ),
        ),
    ];
    let mut text = "recovery\n".to_owned();
    for (name, value) in rows {
        text.push_str(&format!("  {name:<11} {value}\n"));
    }
    text.push_str("      tid         decoded       recovered        gaps filled        left  thread\n");
    for t in c.threads.iter().filter(|t| t.figures.gaps > 0) {
        let f = &t.figures;
        text.push_str(&format!(
            "{:>9}  {:>14}  {:>14}  {:>6} of {:>6}  {:>10}  {}\n",
            t.tid,
            f.decoded,
            f.recovered,
            f.gaps_filled,
            f.gaps,
            f.gaps_left(),
            line(&t.name)
        ));
    }
    text
}

fn decoded_rows(d: &Decoded) -> Vec<(&'static str, String)> {
    let gaps: Vec<String> = d.gaps_by_reason.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    let gaps = if gaps.is_empty() { "0".to_owned() } else { format!("{} ({})", d.gaps, gaps.join(", ")) };
    let orphans = match d.orphans {
        0 => String::new(),
        n => format!("{n} bytecodes of frames that were lost"),
    };
    let projected = match &d.projection {
        Some(p) if p.orphans > 0 => format!(
            "{} bytecodes of frames that were lost, {} of them with one place, {} with one of several",
            d.projected, p.certain, p.ambiguous
        ),
        _ => String::new(),
    };
    let (left_out, of) = match d.not_asked_bytes {
        0 => (String::new(), "recorded PT bytes".to_owned()),
        n => (
            format!("{n} bytes of PT that were not asked for"),
            format!("remaining {} bytes of PT", d.asked_bytes),
        ),
    };
    vec![
        ("bytecodes", d.bytecodes.to_string()),
        ("unresolved", format!("{} stretches of compiled code", d.unresolved)),
        ("projected", projected),
        ("orphans", orphans),
        ("gaps", gaps),
        ("errors", format!("{} machine flow, {} reconstruction", d.native_flow, d.reconstruct)),
        ("left out", left_out),
        ("completeness", format!("{:.2}% of the {of} were decoded", 100.0 * d.completeness)),
    ]
}
