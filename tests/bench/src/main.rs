//! Decoding speed on a capture, beside libipt and iptr-decoder.
//!
//! usage: jportal-bench [--json] [--only NAME] CAPTURE
//!
//! Everything runs in one thread, on the capture's own trace in memory; processor time, the best
//! of several rounds. Peak memory and the whole decode are measured by `scripts/bench` through the command.

mod native;
mod packets;
mod trace;

use anyhow::{Context, Result, bail};
use jportal_capture::CaptureReader;
use jportal_reconstruct::Recording;
use std::path::PathBuf;
use std::time::Duration;

/// One measurement.
pub struct Row {
    /// Name.
    pub what: &'static str,
    /// Trace decoded.
    pub bytes: u64,
    /// Processor time.
    pub time: Duration,
    /// What was counted, to see that the work was done: packets or instructions, and errors.
    pub counts: Vec<(&'static str, u64)>,
}

impl Row {
    fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.time.as_secs_f64()
    }
}

/// Processor time of this thread, which other load on the machine does not stretch.
fn cpu_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("processor time")?;
    let ns = text.split(' ').next().and_then(|n| n.parse().ok()).context("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(ns))
}

/// Shortest of some rounds.
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

fn main() -> Result<()> {
    let mut json = false;
    let mut only = None;
    let mut path = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(a) = arguments.next() {
        match a.as_str() {
            "--json" => json = true,
            "--only" => only = arguments.next(),
            _ if path.is_none() && !a.starts_with('-') => path = Some(PathBuf::from(a)),
            _ => bail!("usage: jportal-bench [--json] [--only NAME] CAPTURE"),
        }
    }
    let path = path.context("usage: jportal-bench [--json] [--only NAME] CAPTURE")?;
    let reader = CaptureReader::open(&path).with_context(|| format!("{}", path.display()))?;
    let recording = Recording::open(&reader)?;
    let traces = trace::load(&recording)?;
    let wanted = |name: &str| only.as_deref().is_none_or(|o| o == name);
    let mut rows = Vec::new();
    if wanted("packets") {
        packets::measure(&traces, &mut rows)?;
    }
    if wanted("native") {
        native::measure(&recording, &traces, &mut rows)?;
    }
    print(&rows, json);
    Ok(())
}

fn print(rows: &[Row], json: bool) {
    if json {
        let all: Vec<_> = rows
            .iter()
            .map(|r| {
                let counts: serde_json::Map<_, _> =
                    r.counts.iter().map(|&(k, v)| (k.to_owned(), v.into())).collect();
                serde_json::json!({"what": r.what, "bytes": r.bytes, "seconds": r.time.as_secs_f64(),
                    "mb_per_s": r.rate(), "counts": counts})
            })
            .collect();
        println!("{}", serde_json::Value::Array(all));
        return;
    }
    for r in rows {
        let counts: Vec<String> = r.counts.iter().map(|(k, v)| format!("{v} {k}")).collect();
        println!("{:<44} {:>9.1} MB/s  {}", r.what, r.rate(), counts.join(", "));
    }
}
