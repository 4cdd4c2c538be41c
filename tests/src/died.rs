// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! VMs that die at random moments while they record. The capture must be whole, and its flow must
//! be the beginning of the execution.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::Result;
use crate::oracle::{self, ProbeFile};
use crate::place::Installation;
use crate::process::{self, Finished};
use crate::recording::LIMIT;
use crate::scratch::Scratch;

/// How a VM ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// SIGKILL: the VM executes no more code.
    Kill,
    /// SIGABRT, as `abort()` raises it; the VM has no handler for it.
    Abort,
    /// SIGTERM: the VM's signal thread calls `java.lang.Shutdown.exit`, as `System.exit` does.
    Exit,
    /// SIGSEGV at an arbitrary instruction: for the VM a fatal error, with a report (`hs_err`).
    Fatal,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Kill, Self::Abort, Self::Exit, Self::Fatal];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Abort => "abort",
            Self::Exit => "exit",
            Self::Fatal => "fatal",
        }
    }

    const fn signal(self) -> i32 {
        match self {
            Self::Kill => libc::SIGKILL,
            Self::Abort => libc::SIGABRT,
            Self::Exit => libc::SIGTERM,
            Self::Fatal => libc::SIGSEGV,
        }
    }

    /// The signal that the VM dies of, if any, and the text that the capture's end record must
    /// contain.
    const fn end(self) -> (Option<i32>, &'static str) {
        match self {
            Self::Kill => (Some(libc::SIGKILL), "killed"),
            Self::Abort => (Some(libc::SIGABRT), "killed"),
            Self::Exit => (None, ""),
            Self::Fatal => (Some(libc::SIGABRT), "crashed"),
        }
    }
}

/// The contents of the capture of a VM that died.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Probes in the flow: the first ones of the log, in order.
    pub probes: u64,
    /// Later probes of the log. They were hit, but their trace was still in the unit's buffers.
    pub behind: u64,
    /// Bytes of trace.
    pub trace: u64,
    /// Gaps of the flow. If there are any, the flow is the beginning of the execution up to the
    /// first gap, and parts of the rest.
    pub gaps: u64,
}

/// Records a program that never ends under the emulated unit, lets the VM die `after` the first
/// probe, and checks the capture.
///
/// # Errors
/// If a check fails. The message names the way and the moment, and the files of the run are kept.
pub fn die(place: &Installation, way: Way, after: Duration) -> Result<Left> {
    let told =
        |e: String| -> crate::Error { format!("{} after {} ms: {e}", way.name(), after.as_millis()).into() };
    let folder = Scratch::new()?;
    let death = Death { place, folder: folder.path() };
    let left = death.run(way, after).and_then(|finished| {
        let judged = death.judge(way, &finished);
        judged.map_err(|e| format!("{e}; {:.600}", finished.stderr).into())
    });
    left.map_err(|e| told(format!("{e}; its files are in {}", folder.keep().display())))
}

struct Death<'a> {
    place: &'a Installation,
    folder: &'a Path,
}

impl Death<'_> {
    fn capture(&self) -> PathBuf {
        self.folder.join("died.jportal")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("oracle")
    }

    fn run(&self, way: Way, after: Duration) -> Result<Finished> {
        let Installation { oracle: agent, programs, .. } = self.place;
        let mut command = self.place.run(&self.capture(), &[]);
        command.arg("-XX:JPortalPrecision=exact");
        command.arg(format!("-XX:ErrorFile={}", self.folder.join("hs_err.log").display()));
        command.arg(format!("-XX:ReplayDataFile={}", self.folder.join("replay.log").display()));
        command.arg(format!("-javaagent:{}=out={}", agent.display(), self.log().display()));
        command.arg("-cp").arg(programs.join("programs.jar")).args(["programs.Library", "1000000"]);
        let running = process::start(&mut command)?;
        // The program has started when it hits the first probe.
        let begun = || Ok(ProbeFile::find(&self.log())?.map_or(Ok(0), |log| log.passed())? > 0);
        running.wait_until("a probe in the log", LIMIT, begun)?;
        std::thread::sleep(after);
        process::send(oracle::pid(&self.log())?, way.signal())?;
        running.wait(LIMIT)
    }

    fn judge(&self, way: Way, finished: &Finished) -> Result<Left> {
        let (signal, told) = way.end();
        let code = signal.map_or(128 + way.signal(), |signal| 128 + signal);
        if finished.status.code() != Some(code) && (signal.is_none() || finished.status.signal() != signal) {
            return Err(format!("jportal run ended with {}", finished.status).into());
        }
        if (way == Way::Fatal) != self.folder.join("hs_err.log").exists() {
            return Err("an error report where there should be none, or none".into());
        }
        let info = self.jportal(&["info", "--check", "--json"], None, 0)?;
        let end = info.pointer("/capture/end_text").and_then(Value::as_str).unwrap_or_default();
        let whole = info.pointer("/capture/whole").and_then(Value::as_bool);
        if whole != Some(true) || !end.contains(told) {
            return Err(format!("the capture's end: {}", info["capture"]).into());
        }
        for nothing in ["/errors/native_flow", "/errors/reconstruct", "/check/findings", "/capture/losses"] {
            if number(&info, nothing)? != 0 {
                return Err(format!("{nothing} of {}, {}", info["errors"], info["check"]).into());
            }
        }
        // Trace that a core had not handed over is lost. If the thread then ran on a core that
        // had handed over its trace, the flow has a gap.
        let (gaps, by) =
            (number(&info, "/gaps")?, |reason: &str| info["gaps_by_reason"][reason].as_u64().unwrap_or(0));
        if gaps != by("truncated") + by("sideband") {
            return Err(format!("gaps: {}", info["gaps_by_reason"]).into());
        }
        // The flow must be exactly the beginning of the log: count its probes, then compare with
        // that many entries of the log.
        let part = self.jportal(&["verify", "--part", "--allow-gaps", "--json"], Some(&self.log()), 0)?;
        let (probes, behind) = (number(&part, "/matched")?, number(&part, "/outside")?);
        if gaps > 0 {
            return Ok(Left { probes, behind, trace: number(&info, "/pt_bytes")?, gaps });
        }
        let strict = self.jportal(&["verify", "--json"], Some(&self.beginning(probes)?), 0)?;
        if number(&strict, "/matched")? != probes || strict["exact"] != Value::Bool(true) {
            return Err(format!("not the first {probes} probes: {:.600}", strict.to_string()).into());
        }
        if let Some(less) = probes.checked_sub(3).filter(|n| *n > 0) {
            // With three probes fewer in the log, `verify` must report a difference. Fewer than
            // three may not show: the flow may end at a call of a probe without the callee, which
            // is a hit in doubt, and the thread may have died before it logged the last probe.
            self.jportal(&["verify", "--json"], Some(&self.beginning(less)?), 1)?;
        }
        Ok(Left { probes, behind, trace: number(&info, "/pt_bytes")?, gaps })
    }

    /// Copies the log with the first `probes` entries of its only thread.
    fn beginning(&self, probes: u64) -> Result<PathBuf> {
        let folder = self.folder.join(format!("first-{probes}"));
        let log = ProbeFile::find(&self.log())?.ok_or("the log is gone")?;
        log.copy(std::slice::from_ref(&(0..probes)), &folder)?;
        Ok(folder)
    }

    fn jportal(&self, words: &[&str], oracle: Option<&Path>, status: i32) -> Result<Value> {
        let mut command = Command::new(&self.place.jportal);
        command.args(words);
        if let Some(oracle) = oracle {
            command.arg("--oracle").arg(oracle);
        }
        let finished = process::run(command.arg(self.capture()), LIMIT)?;
        if finished.status.code() != Some(status) {
            let (text, error) = (finished.text(), &finished.stderr);
            return Err(format!("jportal {words:?}: {}: {text:.600} {error:.300}", finished.status).into());
        }
        finished.json()
    }
}

fn number(report: &Value, pointer: &str) -> Result<u64> {
    let found = report.pointer(pointer).and_then(Value::as_u64);
    found.ok_or_else(|| format!("no {pointer} in {:.600}", report.to_string()).into())
}

/// The random moments of a seed, as durations of less than two seconds, without end.
pub fn moments(seed: u64) -> impl Iterator<Item = Duration> {
    let mut random = Rng::with_seed(seed);
    std::iter::repeat_with(move || Duration::from_millis(random.u64(..2000)))
}
