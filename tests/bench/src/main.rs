// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decoding speed on a capture, compared with libipt and iptr-decoder, and the cost of recording
//! to the VM.
//!
//! usage: jportal-bench decode [--json] CAPTURE...
//!        jportal-bench jobs [--json] CAPTURE...
//!        jportal-bench vm [--json] ROOT [ROUNDS [VM...]]
//!
//! `scripts/bench` makes the captures and calls both. Times are processor times, which other load
//! on the machine affects less than elapsed time. The best of several rounds counts.

mod child;
mod jobs;
mod native;
mod packets;
mod trace;
mod vm;
mod whole;

use anyhow::{Context, Result, bail};
use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use whole::{Contents, Whole};

/// The measurement of one decoder.
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// Bytes of trace decoded.
    pub bytes: u64,
    /// Processor time.
    pub time: Duration,
    /// Counts that show that the work was done: packets or instructions, and errors.
    pub counts: Vec<(&'static str, u64)>,
}

impl Row {
    fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.time.as_secs_f64()
    }
}

/// Processor time of this thread.
pub fn cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("processor time")?;
    let ns = text.split(' ').next().and_then(|n| n.parse().ok()).context("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(ns))
}

/// The shortest processor time of several rounds, and the result of that round.
pub fn best<T>(rounds: usize, mut work: impl FnMut() -> Result<T>) -> Result<(Duration, T)> {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..rounds.max(1) {
        let start = cpu_time()?;
        let result = work()?;
        let time = cpu_time()?.saturating_sub(start);
        if best.as_ref().is_none_or(|b| time < b.0) {
            best = Some((time, result));
        }
    }
    best.context("no rounds")
}

const USAGE: &str =
    "usage: jportal-bench decode|jobs [--json] CAPTURE... | jportal-bench vm [--json] ROOT [ROUNDS [VM...]]";

fn main() -> Result<()> {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with('-'));
    let json = match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--json"] => true,
        _ => bail!(USAGE),
    };
    match words.split_first().map(|(w, rest)| (w.as_str(), rest)) {
        Some(("decode", captures)) if !captures.is_empty() => {
            let all: Result<Vec<Value>> = captures.iter().map(|c| decode(Path::new(c), json)).collect();
            let all = all?;
            if json {
                println!("{}", Value::Array(all));
            }
        }
        Some(("jobs", captures)) if !captures.is_empty() => {
            let all: Result<Vec<Value>> = captures.iter().map(|c| division(Path::new(c), json)).collect();
            let all = all?;
            if json {
                println!("{}", Value::Array(all));
            }
        }
        Some(("vm", [root, rest @ ..])) => {
            let rounds = rest.first().map_or(Ok(5), |r| r.parse()).context(USAGE)?;
            vm_cost(&PathBuf::from(root), rounds, rest.get(1..).unwrap_or_default(), json)?;
        }
        _ => bail!(USAGE),
    }
    Ok(())
}

/// The command that is measured.
fn command() -> PathBuf {
    std::env::var_os("JPORTAL").map_or_else(|| PathBuf::from("build/bin/jportal"), PathBuf::from)
}

/// Measures how decodes of a capture divide their work over threads.
fn division(path: &Path, json: bool) -> Result<Value> {
    let all = jobs::measure(&command(), path)?;
    if !json {
        println!("{}", path.display());
        for d in &all {
            let [wall, sum, driver, opening, longest] =
                [d.wall, d.sum(), d.driver, d.opening, d.longest()].map(|t| t.as_secs_f64());
            print!("  --jobs {:<3} {wall:.1} s on the clock; processor time: {sum:.1} s in all", d.jobs);
            if !d.workers.is_empty() {
                let part = sum / longest;
                print!(", longest worker {longest:.2} s (1/{part:.1}), driver {driver:.2} s");
                print!(", of which opening {opening:.2} s");
            }
            println!();
        }
    }
    let rows: Vec<Value> = all.iter().map(division_json).collect();
    Ok(json!({"capture": path.display().to_string(), "jobs": rows}))
}

fn division_json(d: &jobs::Division) -> Value {
    let workers: Vec<f64> = d.workers.iter().map(std::time::Duration::as_secs_f64).collect();
    json!({"jobs": d.jobs, "wall_s": d.wall.as_secs_f64(), "cpu_s": d.sum().as_secs_f64(),
        "driver_s": d.driver.as_secs_f64(), "opening_s": d.opening.as_secs_f64(), "workers_s": workers})
}

fn decode(path: &Path, json: bool) -> Result<Value> {
    let reader = CaptureReader::open(path).with_context(|| format!("{}", path.display()))?;
    let recording = Recording::open(reader)?;
    let traces = trace::load(&recording)?;
    let mut rows = Vec::new();
    packets::measure(&traces, &mut rows)?;
    native::measure(&recording, &traces, &mut rows)?;
    drop(traces);
    let (contents, whole) = whole::measure(&command(), path)?;
    if !json {
        print_decode(path, &rows, &contents, &whole);
    }
    let blocks = blocks(&rows);
    let rows: Vec<Value> = rows.iter().map(row_json).collect();
    Ok(json!({"capture": path.display().to_string(), "decoders": rows, "contents": contents_json(&contents),
        "commands": whole.iter().map(|w| whole_json(w, &contents, blocks)).collect::<Vec<_>>()}))
}

fn row_json(r: &Row) -> Value {
    let counts: serde_json::Map<_, _> = r.counts.iter().map(|&(k, v)| (k.to_owned(), v.into())).collect();
    json!({"what": r.what, "bytes": r.bytes, "cpu_s": r.time.as_secs_f64(), "mb_per_s": r.rate(), "counts": counts})
}

/// The machine blocks of the capture.
fn blocks(rows: &[Row]) -> u64 {
    let all = rows.iter().flat_map(|r| &r.counts);
    all.filter(|(what, _)| *what == "blocks").map(|(_, n)| *n).next().unwrap_or(0)
}

fn contents_json(c: &Contents) -> Value {
    json!({"pt_bytes": c.pt_bytes, "bytecodes": c.bytecodes, "cores": c.cores, "errors": c.errors})
}

fn whole_json(w: &Whole, c: &Contents, blocks: u64) -> Value {
    let cpu = w.used.cpu.as_secs_f64();
    json!({"what": w.what, "cpu_s": cpu, "wall_s": w.used.wall.as_secs_f64(), "peak_bytes": w.used.peak,
        "mb_per_cpu_s": c.pt_bytes as f64 / 1e6 / cpu, "bytecodes_per_cpu_s": c.bytecodes as f64 / cpu,
        "ns_per_block": cpu * 1e9 / blocks.max(1) as f64})
}

fn print_decode(path: &Path, rows: &[Row], contents: &Contents, whole: &[Whole]) {
    let (megabytes, blocks) = (contents.pt_bytes as f64 / 1e6, blocks(rows));
    println!(
        "{} ({megabytes:.1} MB of PT, {blocks} blocks, {} bytecodes, {} errors)",
        path.display(),
        contents.bytecodes,
        contents.errors
    );
    for (i, r) in rows.iter().enumerate() {
        // The first row of each kind is JPortal's; the others are compared with it.
        let kind = |r: &Row| r.what.split(':').next().unwrap_or_default().to_owned();
        let ours = rows[..=i].iter().find(|o| kind(o) == kind(r)).map_or(1.0, Row::rate);
        let counts: Vec<String> = r.counts.iter().map(|(k, v)| format!("{v} {k}")).collect();
        println!("  {:<54}{:>8.1} MB/s {:>6.2}x  {}", r.what, r.rate(), r.rate() / ours, counts.join(", "));
    }
    // The packet decoder is the measure of the others.
    let packets = rows.first().map_or(f64::NAN, Row::rate);
    for w in whole {
        let cpu = w.used.cpu.as_secs_f64();
        println!(
            "  {:<54}{:>8.1} MB/s  1/{:<5.1} {:.1} M bytecodes/s, {:.1} ns per block, peak {} MB",
            w.what,
            megabytes / cpu,
            packets / (megabytes / cpu),
            contents.bytecodes as f64 / 1e6 / cpu,
            cpu * 1e9 / blocks.max(1) as f64,
            w.used.peak >> 20
        );
    }
}

fn vm_cost(root: &Path, rounds: usize, vms: &[String], json: bool) -> Result<()> {
    let work = tempfile::tempdir()?;
    let costs = vm::measure(root, work.path(), rounds, vms)?;
    if json {
        let all: Vec<Value> = costs.iter().map(cost_json).collect();
        println!("{}", Value::Array(all));
        return Ok(());
    }
    println!("VM cost: the best of {rounds} rounds; ratios to the first VM");
    for c in &costs {
        let (what, unit) = vm::MEASURES[c.measure];
        let all: Vec<String> = (c.figures.iter())
            .map(|(vm, x)| format!("{vm} {x:.3} {unit} ({:.3})", x / c.figures[0].1))
            .collect();
        println!("  {:<6} {what:<36} {}", c.program, all.join("  "));
    }
    Ok(())
}

fn cost_json(c: &vm::Cost) -> Value {
    let figures: serde_json::Map<_, _> = c.figures.iter().map(|&(vm, x)| (vm.to_owned(), x.into())).collect();
    let (what, unit) = vm::MEASURES[c.measure];
    json!({"program": c.program, "measure": what, "unit": unit, "figures": figures})
}
