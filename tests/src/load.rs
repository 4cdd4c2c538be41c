//! Recordings on a machine that has more to do: many threads, busy processes beside them, and a process that is stopped and continued
//! at random. What the capture holds must be as exact as at rest.

use std::fmt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::place::Place;
use crate::process::{self, Finished, Running};
use crate::recording::LIMIT;
use crate::scratch::Scratch;

/// Processes that compute without end beside a recording; they end when this is dropped.
#[derive(Debug)]
pub struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts `count` of them.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start(count: usize) -> Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..count {
            // It ends with its parent: the kernel reparents it then.
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
            // One that has ended already needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One way to record a crowd of threads.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Threads of the program.
    pub threads: u32,
    /// Rounds of each.
    pub rounds: u32,
    /// Virtual cores.
    pub cores: u32,
    /// Timing packets, as `jportal run --timing` names them.
    pub timing: &'static str,
    /// Flags of `java`.
    pub flags: &'static [&'static str],
    /// With the oracle's probes.
    pub oracle: bool,
    /// The whole process is stopped and continued at random moments of this seed.
    pub stops: Option<u64>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads, {} cores, {}", self.threads, self.cores, self.timing)?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))?;
        f.write_str(if self.oracle { ", oracle" } else { "" })?;
        f.write_str(if self.stops.is_some() { ", stopped and continued" } else { "" })
    }
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes of trace.
    pub trace: u64,
    /// Bytecodes of the flow.
    pub bytecodes: u64,
    /// Probes of the oracle, all of them matched.
    pub probes: u64,
    /// How often the process was stopped.
    pub stopped: u64,
}

const COLLECTORS: [&str; 3] = ["-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseZGC"];
const TIERED: [&[&str]; 3] = [&[COLLECTORS[0]], &[COLLECTORS[1]], &[COLLECTORS[2]]];
const COMPILED: [&[&str]; 3] =
    [&[COLLECTORS[0], "-Xcomp"], &[COLLECTORS[1], "-Xcomp"], &[COLLECTORS[2], "-Xcomp"]];

impl Trial {
    /// The `number`th trial; they repeat after 108. The number of threads decides on the oracle (16, 64) and on stops (32, 64).
    pub fn numbered(number: u64, rounds: u32) -> Self {
        let pick = |choices: u64, stride: u64| (number / stride % choices) as usize;
        let threads = [8, 16, 32, 64][pick(4, 1)];
        let flags = if pick(4, 3) == 3 { COMPILED } else { TIERED }[(number % 3) as usize];
        let timing = ["tsc", "mtc", "cyc"][(number / 3 % 3) as usize];
        Self {
            threads,
            rounds,
            cores: [3, 8, 16][(number / 9 % 3) as usize],
            timing,
            flags,
            oracle: number % 2 == 1,
            stops: (number / 2 % 2 == 1).then_some(number),
        }
    }

    /// Records and judges.
    ///
    /// # Errors
    /// What is not exact; the files of this run are kept then.
    pub fn run(&self, place: &Place) -> Result<Held> {
        let folder = Scratch::new()?;
        let capture = folder.path().join("crowd.jportal");
        let log = folder.path().join("oracle");
        let held = self.record(place, &capture, &log).and_then(|(finished, stopped)| {
            let held = self.judge(place, &capture, &log, &finished)?;
            Ok(Held { stopped, ..held })
        });
        held.map_err(|e| format!("{self}: {e}; its files are in {}", folder.keep().display()).into())
    }

    fn record(&self, place: &Place, capture: &Path, log: &Path) -> Result<(Finished, u64)> {
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

    fn judge(&self, place: &Place, capture: &Path, log: &Path, finished: &Finished) -> Result<Held> {
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

fn jportal(place: &Place, words: &[&str], capture: &Path) -> Result<Value> {
    process::run(Command::new(&place.jportal).args(words).arg(capture), LIMIT)?.json()
}

fn number(report: &Value, pointer: &str) -> Result<u64> {
    let found = report.pointer(pointer).and_then(Value::as_u64);
    found.ok_or_else(|| format!("no {pointer} in {:.600}", report.to_string()).into())
}

/// Stops the recorded process for 0.1 to 1 s and lets it run for as long, again and again until it ends. Returns how often.
fn stop_and_continue(running: &Running, seed: u64) -> Result<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |from: u64, to: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_millis(from + state % (to - from))
    };
    let begun = Instant::now();
    let mut stopped = 0;
    while begun.elapsed() < LIMIT && !running.has_ended() {
        std::thread::sleep(random(100, 1500));
        // The first children look at what the machine has and end at once.
        let Some(id) = running.child_process() else { continue };
        if process::send(id, libc::SIGSTOP).is_ok() {
            stopped += 1;
            std::thread::sleep(random(100, 1000));
            // One that has been killed meanwhile needs no signal.
            let _ = process::send(id, libc::SIGCONT);
        }
    }
    Ok(stopped)
}
