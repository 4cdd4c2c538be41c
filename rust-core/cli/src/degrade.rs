// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal degrade`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use jportal::file::CaptureReader;
use jportal_degrade::capture::share;
use jportal_degrade::overflow::Overflow;
use jportal_degrade::{
    Amount, CoreTruth, Degraded, GapTruth, LossSettings, LostRecords, Plan, Reason, Shape, SidebandTruth,
};
use serde_json::{Value, json};

use crate::args::DegradeArgs;
use crate::output::{ResultKind, put};
use crate::progress::ProgressLine;
use crate::{CommandOutcome, decode};

const KIND: ResultKind = ResultKind::new("degrade", None);
/// The file of `--truth`.
const TRUTH: ResultKind = ResultKind::new("degrade-truth", None);

pub(crate) fn degrade(args: &DegradeArgs) -> Result<CommandOutcome> {
    let reader = decode::open_file(&args.capture)?;
    let settings = settings(args);
    let mut line = ProgressLine::new("degrading");
    let mut progress = |done, all| line.update(done, all);
    let plan =
        Plan::make(&reader, settings, &mut progress).with_context(|| args.capture.display().to_string())?;
    let degraded =
        plan.write(&args.output, &mut progress).with_context(|| args.output.display().to_string())?;
    drop(line);
    let names = names(&reader);
    if let Some(file) = &args.truth {
        let text = serde_json::to_vec_pretty(&TRUTH.document(&as_json(args, &names, &degraded, true)))?;
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    let result = as_json(args, &names, &degraded, false);
    put(&args.format, KIND, &result, || as_text(args, &names, &degraded))?;
    Ok(CommandOutcome::Done)
}

fn settings(args: &DegradeArgs) -> LossSettings {
    let bandwidth = args.drain_bandwidth.map(|n| Amount::Bandwidth(n as f64));
    let places = args.every.map(Shape::Every);
    let places = places.or(args.at_switches.then_some(Shape::Switches));
    let places = places.or(args.without_ends.then_some(Shape::Ends)).map(Amount::Places);
    LossSettings {
        aux: args.aux,
        drain: args.loss.map(Amount::Share).or(bandwidth).or(places),
        timer_ms: args.timer,
        overflow: args.overflow.map(|(every, swallow)| Overflow { every, swallow }),
        sideband: args.lost_records.map(|(every, records)| LostRecords { every, records }),
        seed: args.seed,
    }
}

/// The VM's name of a thread.
fn thread_name(names: &Names, tid: u32) -> String {
    names.iter().find(|n| n.0 == tid).map(|n| n.1.clone()).unwrap_or_default()
}

type Names = Vec<(u32, String)>;

fn names(reader: &CaptureReader) -> Names {
    use jportal::file::Record;
    let started = |record| match record {
        Ok(jportal::file::Stamped { record: Record::ThreadStarted(t), .. }) => {
            Some((t.tid, t.name.text().into_owned()))
        }
        _ => None,
    };
    reader.metadata().filter_map(started).collect()
}

fn reason(gap: &GapTruth) -> &'static str {
    match gap.reason {
        Reason::Truncated => "truncated",
        Reason::Start => "start",
        Reason::Overflow { .. } => "overflow",
        _ => "other",
    }
}

fn gap_json(gap: &GapTruth) -> Value {
    let threads: Vec<_> = gap.threads.iter().map(|(t, n)| json!({"tid": t.get(), "bytes": n})).collect();
    let mut all = json!({
        "reason": reason(gap), "from": gap.from.get(), "to": gap.to.get(), "place": gap.place.get(),
        "bytes": gap.bytes(), "since": gap.since.get(), "until": gap.until.map(|t| t.get()), "threads": threads,
    });
    if let Reason::Overflow { fup } = gap.reason {
        all["fup"] = fup.into();
    }
    all
}

fn lost_records(core: &CoreTruth) -> u64 {
    core.sideband.iter().map(|s| s.records).sum()
}

fn sideband_json(lost: &SidebandTruth) -> Value {
    json!({
        "records": lost.records, "from": lost.from.get(), "to": lost.to.get(),
        "since": lost.since.get(), "until": lost.until.get(), "threads": lost.threads,
    })
}

fn core_json(core: &CoreTruth, with_gaps: bool) -> Value {
    let count = |wanted| core.gaps.iter().filter(|&g| reason(g) == wanted).count();
    let mut all = json!({
        "core": core.core.get(), "bytes": core.bytes, "kept": core.kept, "inserted": core.inserted,
        "lost": core.lost(), "share": share(core.lost(), core.bytes), "drain_passes": core.passes,
        "stays": core.stays, "start": count("start"), "truncated": count("truncated"), "overflow": count("overflow"),
    });
    all["lost_records"] = lost_records(core).into();
    if with_gaps {
        all["sideband"] = core.sideband.iter().map(sideband_json).collect();
        all["gaps"] = core.gaps.iter().map(gap_json).collect();
    }
    all
}

fn as_json(args: &DegradeArgs, names: &Names, d: &Degraded, with_gaps: bool) -> Value {
    let threads = d.threads.iter().map(|(&tid, t)| {
        json!({"tid": tid, "name": thread_name(names, tid), "bytes": t.bytes, "lost": t.lost,
               "share": share(t.lost, t.bytes), "gaps": t.gaps})
    });
    json!({
        "capture": args.capture.display().to_string(), "output": args.output.display().to_string(),
        "seed": args.seed, "aux_bytes": d.aux,
        "bandwidth": d.bandwidth, "timer_ms": args.timer, "wanted_share": args.loss,
        "overflow": args.overflow.map(|(every, bytes)| json!({"every": every, "bytes": bytes})),
        "lost_every": args.lost_records.map(|(every, n)| json!({"every": every, "records": n})), "every": args.every, "at_switches": args.at_switches, "without_ends": args.without_ends,
        "bytes": d.bytes(), "lost": d.lost(), "share": d.share(),
        "cores": d.cores.iter().map(|c| core_json(c, with_gaps)).collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
    })
}

fn as_text(args: &DegradeArgs, names: &Names, d: &Degraded) -> Result<String> {
    let mut text = String::new();
    let percent = |part, all| 100.0 * share(part, all);
    writeln!(text, "AUX buffer    {} bytes per core", d.aux)?;
    if let Some(bandwidth) = d.bandwidth {
        writeln!(text, "drain         {:.3} MB/s per core, looks every {} ms", bandwidth / 1e6, args.timer)?;
    }
    write!(text, "lost          {} of {} bytes, {:.2}%", d.lost(), d.bytes(), 100.0 * d.share())?;
    match args.loss {
        Some(wanted) => writeln!(text, " (asked for {:.2}% by full buffers)", 100.0 * wanted)?,
        None => writeln!(text)?,
    }
    for c in &d.cores {
        let count = |wanted| c.gaps.iter().filter(|&g| reason(g) == wanted).count();
        let (truncated, overflows) = (count("truncated") + count("start"), count("overflow"));
        let share = percent(c.lost(), c.bytes);
        let (core, bytes) = (c.core, c.bytes);
        writeln!(
            text,
            "{core:<13} {share:6.2}% of {bytes} bytes, {truncated} truncated, {overflows} overflow"
        )?;
    }
    if args.lost_records.is_some() {
        let (records, times) =
            d.cores.iter().fold((0, 0), |(n, m), c| (n + lost_records(c), m + c.sideband.len()));
        writeln!(text, "sideband      {records} records lost at {times} times")?;
    }
    text.push_str("threads\n");
    for (&tid, t) in &d.threads {
        let (share, name) = (percent(t.lost, t.bytes), thread_name(names, tid));
        let name = jportal_plain::line(&name);
        writeln!(text, "{tid:>9}  {share:6.2}% of {:>12} bytes in {:>6} gaps  {name}", t.bytes, t.gaps)?;
    }
    Ok(text)
}
