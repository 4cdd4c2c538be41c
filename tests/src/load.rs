// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Recordings on a busy machine: many threads, busy processes beside them, and a recorded process
//! that is stopped and continued at random. The capture must be as exact as on an idle machine.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use crate::Result;
use crate::place::Installation;
use crate::process::{self, Finished, Running};
use crate::recording::LIMIT;
use crate::scratch::Scratch;

/// Processes that compute in an endless loop beside a recording. They end when this is dropped.
#[derive(Debug)]
pub struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts `count` processes.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(count: usize) -> Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..count {
            // The process ends when it has another parent: the kernel reparents it when its
            // parent ends.
            let work = "p=$PPID; while [ \"$(ps -o ppid= -p $$ | tr -d ' ')\" = \"$p\" ]; do \
                        i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; done";
            let child = Command::new("sh").args(["-c", work]).stdin(Stdio::null()).spawn()?;
            all.0.push(child);
        }
        Ok(all)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has already ended needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One way to record a program with many threads.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Threads of the program.
    pub threads: u32,
    /// Rounds of each thread.
    pub rounds: u32,
    /// Virtual cores.
    pub cores: u32,
    /// Timing packets, as `jportal run --timing` names them.
    pub timing: &'static str,
    /// Flags of `java`.
    pub flags: &'static [&'static str],
    /// Whether the oracle logs probes.
    pub oracle: bool,
    /// If set, the whole process is stopped and continued at random moments of this seed.
    pub stops: Option<u64>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads, {} cores, {}", self.threads, self.cores, self.timing)?;
        let is_list = |flag: &&&str| flag.starts_with("-XX:CompileCommand");
        self.flags.iter().filter(|flag| !is_list(flag)).try_for_each(|flag| write!(f, " {flag}"))?;
        f.write_str(if self.flags.iter().any(|flag| is_list(&flag)) { " of some packages" } else { "" })?;
        f.write_str(if self.oracle { ", oracle" } else { "" })?;
        f.write_str(if self.stops.is_some() { ", stopped and continued" } else { "" })
    }
}

/// The contents of an exact recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes of trace.
    pub trace: u64,
    /// Bytecodes in the flow.
    pub bytecodes: u64,
    /// Probes in the oracle's log; all of them match.
    pub probes: u64,
    /// How often the process was stopped.
    pub stopped: u64,
}

const THREADS: [u32; 4] = [8, 16, 32, 64];
const CORES: [u32; 3] = [3, 8, 16];
const TIMINGS: [&str; 3] = ["tsc", "mtc", "cyc"];
/// Flags that apply `-Xcomp` to the program and the classes that it uses most. This takes a third
/// of the time of `-Xcomp` for everything that the JDK executes at its start.
macro_rules! compile_some {
    ($collector:literal) => {
        &[
            $collector,
            "-Xcomp",
            "-XX:CompileCommand=quiet",
            "-XX:CompileCommand=compileonly,programs.*::*",
            "-XX:CompileCommand=compileonly,java.util.*::*",
            "-XX:CompileCommand=compileonly,java.lang.String*::*",
        ]
    };
}
const FLAGS: [&[&str]; 7] = [
    &["-XX:+UseG1GC"],
    &["-XX:+UseParallelGC"],
    &["-XX:+UseZGC"],
    compile_some!("-XX:+UseG1GC"),
    compile_some!("-XX:+UseParallelGC"),
    compile_some!("-XX:+UseZGC"),
    &["-XX:+UseG1GC", "-Xcomp"],
];
/// The number of combinations of all of the above, with and without oracle, with and without stops.
const COMBINATIONS: u64 = (THREADS.len() * CORES.len() * TIMINGS.len() * FLAGS.len() * 4) as u64;
/// The step from one trial to the next. It has no divisor in common with the number of
/// combinations, so all combinations occur, and consecutive trials differ in most of their
/// choices.
const STRIDE: u64 = 349;

impl Trial {
    /// The `number`th trial. Trials repeat after `COMBINATIONS`. `work` is the number of rounds
    /// of all threads together.
    pub fn numbered(number: u64, work: u32) -> Self {
        let mut rest = number.wrapping_mul(STRIDE) % COMBINATIONS;
        let mut choose = |choices: usize| {
            let choice = (rest % choices as u64) as usize;
            rest /= choices as u64;
            choice
        };
        let threads = THREADS[choose(THREADS.len())];
        let flags = FLAGS[choose(FLAGS.len())];
        let timing = TIMINGS[choose(TIMINGS.len())];
        let oracle = choose(2) == 1;
        let stops = choose(2) == 1;
        let cores = CORES[choose(CORES.len())];
        let stops = stops.then_some(number);
        Self { threads, rounds: (work / threads).max(1), cores, timing, flags, oracle, stops }
    }

    /// Records the program and checks the capture.
    ///
    /// # Errors
    /// If something is not exact. The files of the run are then kept.
    pub fn run(&self, place: &Installation) -> Result<Held> {
        let folder = Scratch::new()?;
        let capture = folder.path().join("crowd.jportal");
        let log = folder.path().join("oracle");
        let held = self.record(place, &capture, &log).and_then(|(finished, stopped)| {
            let held = self.judge(place, &capture, &log, &finished)?;
            Ok(Held { stopped, ..held })
        });
        held.map_err(|e| format!("{self}: {e}; its files are in {}", folder.keep().display()).into())
    }

    fn record(&self, place: &Installation, capture: &Path, log: &Path) -> Result<(Finished, u64)> {
        let cores = self.cores.to_string();
        let mut command = Command::new(&place.jportal);
        command.args(["run", "--emulate", "--cores", &cores, "--timing", self.timing, "--on-full", "stall"]);
        command.arg("--java").arg(&place.java).arg("-o").arg(capture).arg("--").args(self.flags);
        if self.oracle {
            command.arg(format!("-javaagent:{}=out={}", place.oracle.display(), log.display()));
        }
        command.arg("-cp").arg(place.programs.join("programs.jar"));
        command.args(["programs.Crowd", &self.threads.to_string(), &self.rounds.to_string()]);
        let running = process::start(&mut command)?;
        let stopped = self.stops.map_or(Ok(0), |seed| stop_and_continue(&running, seed))?;
        Ok((running.wait(LIMIT)?, stopped))
    }

    fn judge(&self, place: &Installation, capture: &Path, log: &Path, finished: &Finished) -> Result<Held> {
        if !finished.status.success() || !finished.text().contains("Crowd ") {
            return Err(
                format!("{}: {:.300} {:.600}", finished.status, finished.text(), finished.stderr).into()
            );
        }
        let info = jportal(place, &["info", "--check", "--json"], capture)?;
        for nothing in ["/errors/native_flow", "/errors/reconstruct", "/check/findings", "/gaps"] {
            if number(&info, nothing)? != 0 {
                let what = [&info["errors"], &info["gaps_by_reason"], &info["check"]["by_rule"]];
                return Err(format!("{nothing} is not 0: {what:?}").into());
            }
        }
        let mut held = Held {
            trace: number(&info, "/pt_bytes")?,
            bytecodes: number(&info, "/bytecodes")?,
            ..Held::default()
        };
        if self.oracle {
            let log = log.to_str().ok_or("the log's path is not UTF-8")?;
            let verdict = jportal(place, &["verify", "--json", "--oracle", log], capture)?;
            held.probes = number(&verdict, "/probes")?;
            let wrong = number(&verdict, "/mismatches")?;
            if wrong != 0 || held.probes == 0 {
                return Err(format!("{wrong} mismatches of {} probes", held.probes).into());
            }
        }
        Ok(held)
    }
}

fn jportal(place: &Installation, words: &[&str], capture: &Path) -> Result<Value> {
    process::run(Command::new(&place.jportal).args(words).arg(capture), LIMIT)?.json()
}

fn number(report: &Value, pointer: &str) -> Result<u64> {
    let found = report.pointer(pointer).and_then(Value::as_u64);
    found.ok_or_else(|| format!("no {pointer} in {:.600}", report.to_string()).into())
}

/// Repeatedly lets the recorded process run for 0.1 to 1.5 s and stops it for 0.1 to 1 s, until
/// it ends. Returns how often it was stopped.
fn stop_and_continue(running: &Running, seed: u64) -> Result<u64> {
    let mut random = Rng::with_seed(seed);
    let mut pause = |millis: Range<u64>| std::thread::sleep(Duration::from_millis(random.u64(millis)));
    let begun = Instant::now();
    let mut stopped = 0;
    while begun.elapsed() < LIMIT && !running.has_ended() {
        pause(100..1500);
        // The first children query the features of the machine and end at once.
        let Some(id) = running.child_process() else { continue };
        if process::send(id, libc::SIGSTOP).is_ok() {
            stopped += 1;
            pause(100..1000);
            // A process that was killed in the meantime needs no signal.
            let _ = process::send(id, libc::SIGCONT);
        }
    }
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn two_hundred_trials_hold_each_pair_of_choices() {
        let mut pairs = HashSet::new();
        let mut all = HashSet::new();
        for number in 0..COMBINATIONS {
            let t = Trial::numbered(number, 1000);
            let stops = t.stops.is_some();
            let choices = [
                t.threads.to_string(),
                t.flags.join(" "),
                t.timing.to_owned(),
                format!("oracle {}", t.oracle),
                format!("stops {stops}"),
                format!("{} cores", t.cores),
            ];
            if number < 200 {
                for (i, one) in choices.iter().enumerate() {
                    pairs.extend(choices[i + 1..].iter().map(|other| (one.clone(), other.clone())));
                }
            }
            all.insert(choices.join(", "));
        }
        let sizes = [THREADS.len(), FLAGS.len(), TIMINGS.len(), 2, 2, CORES.len()];
        let of_each = |i: usize| sizes[i] * sizes[i + 1..].iter().sum::<usize>();
        assert_eq!(pairs.len(), (0..sizes.len()).map(of_each).sum::<usize>());
        assert_eq!(all.len() as u64, COMBINATIONS);
    }
}
