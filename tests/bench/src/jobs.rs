// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How a decode divides its work over threads: the processor time of each thread, for several
//! numbers of jobs. A machine with few processors shows this as well as one with many. What the
//! decode would take on the latter is at least the time of its busiest thread.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The numbers of jobs that are measured.
const JOBS: [usize; 3] = [1, 2, 16];
/// The time between two looks at the threads. What a thread uses after the last look is missing.
const SAMPLE: Duration = Duration::from_millis(5);

/// One decode.
pub struct Division {
    /// Its number of jobs.
    pub jobs: usize,
    /// Elapsed time.
    pub wall: Duration,
    /// Processor time of the thread that opens the capture, routes the trace and ends the flows.
    pub driver: Duration,
    /// Part of that before the first worker began; zero without workers. It is serial.
    pub opening: Duration,
    /// Processor time of each worker, longest first.
    pub workers: Vec<Duration>,
}

impl Division {
    /// Processor time of all threads.
    pub fn sum(&self) -> Duration {
        self.driver + self.workers.iter().sum::<Duration>()
    }
    /// Processor time of the busiest worker; with one job, of the only thread.
    pub fn longest(&self) -> Duration {
        self.workers.first().copied().unwrap_or(self.driver)
    }
}

/// Measures `jportal info` on `capture`.
pub fn measure(jportal: &Path, capture: &Path) -> Result<Vec<Division>> {
    JOBS.iter().map(|jobs| divided(jportal, capture, *jobs)).collect()
}

fn divided(jportal: &Path, capture: &Path, jobs: usize) -> Result<Division> {
    let mut command = Command::new(jportal);
    command.arg("info").arg(capture).args(["--jobs", &jobs.to_string()]);
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = output.with_context(|| format!("{command:?}"))?;
    let (id, mut times, mut opening) = (child.id(), BTreeMap::new(), Duration::ZERO);
    let status = loop {
        for (thread, time) in processor_times(id) {
            times.insert(thread, time);
        }
        if times.len() <= 1 {
            opening = times.get(&id).copied().unwrap_or_default();
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(SAMPLE);
    };
    // Status 1 says that something is wrong with the recording.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("{command:?} ended with {status}");
    }
    let driver = times.remove(&id).context("the command's threads were not seen")?;
    let mut workers: Vec<Duration> = times.into_values().collect();
    workers.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
    if workers.is_empty() {
        // The decode follows on the same thread.
        opening = Duration::ZERO;
    }
    Ok(Division { jobs, wall: begun.elapsed(), driver, opening, workers })
}

/// The processor times of the threads of a process, by thread id.
fn processor_times(process: u32) -> impl Iterator<Item = (u32, Duration)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = text.split(' ').next()?.parse().ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, Duration::from_nanos(ns)))
    })
}
