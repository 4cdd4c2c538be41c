// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Child processes with a time limit, their output, and their peak memory.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// The exit status, output and resources of a process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
    /// Largest resident set of the process in KiB, sampled until some milliseconds before its
    /// end. The kernel's figure for a child (`ru_maxrss`) is at least the size of the process
    /// that started it, so it is used only for a process that ended before the first sample.
    pub peak_kib: u64,
    /// Elapsed time.
    pub elapsed: Duration,
}

impl Finished {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output as JSON.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.stdout).map_err(|e| {
            format!(
                "no JSON: {e}; {}; stdout: {:.300}; stderr: {:.600}",
                self.status,
                self.text(),
                self.stderr
            )
            .into()
        })
    }

    /// Whether standard error reports a Rust panic, or the process died of SIGSEGV, SIGABRT,
    /// SIGBUS or SIGILL.
    pub fn crashed(&self) -> bool {
        self.stderr.contains("panicked at")
            || matches!(
                self.status.signal(),
                Some(libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS | libc::SIGILL)
            )
    }
}

/// A running process whose output goes to files. It and its children are killed when this is
/// dropped, so that a failing test leaves no process running.
#[derive(Debug)]
pub struct Running {
    child: Child,
    reaped: bool,
    started: Instant,
    folder: tempfile::TempDir,
}

/// Starts `command` with empty standard input.
///
/// # Errors
/// If it cannot be started.
pub fn start(command: &mut Command) -> Result<Running> {
    let folder = tempfile::tempdir()?;
    command
        .stdin(Stdio::null())
        .stdout(File::create(folder.path().join("stdout"))?)
        .stderr(File::create(folder.path().join("stderr"))?);
    let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
    Ok(Running { child, reaped: false, started: Instant::now(), folder })
}

/// Runs `command` to its end. Kills it after `limit`, and fails.
///
/// # Errors
/// If it cannot be started or takes longer than `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    start(command)?.wait(limit)
}

/// The peak memory of a process that ended before the first sample, from the kernel's figure.
/// That figure starts with the peak memory of this process at the fork. Up to that value it says
/// nothing, and the result is 0.
fn own_kib(accounted: u64) -> u64 {
    let ours = largest_kib(std::process::id()).unwrap_or(0);
    if accounted > ours { accounted } else { 0 }
}

/// Runs `command` to its end, or kills it after `limit`. Its output goes where `command` says.
/// Returns its exit status and its largest resident set in KiB.
///
/// # Errors
/// If it cannot be started.
pub fn run_quietly(command: &mut Command, limit: Duration) -> Result<(ExitStatus, u64)> {
    let started = Instant::now();
    let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
    let id = child.id();
    let mut seen = 0;
    loop {
        seen = largest_kib(id).unwrap_or(0).max(seen);
        if let Some((status, accounted)) = wait4(id, false)? {
            return Ok((status, if seen == 0 { own_kib(accounted) } else { seen }));
        }
        if started.elapsed() > limit {
            send(id, libc::SIGKILL)?;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Running {
    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first child of the process; for `jportal run`, the recorded process.
    pub fn child_process(&self) -> Option<u32> {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        largest_kib(self.id()).is_none()
    }

    /// Standard output so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stdout(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.file("stdout"))?).into_owned())
    }

    /// Waits until standard output contains `text`.
    ///
    /// # Errors
    /// If it does not within `limit`, or the process ends without it.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<()> {
        self.wait_until(&format!("{text:?} in its output"), limit, || Ok(self.stdout()?.contains(text)))
    }

    /// Waits until `happened` returns true. `what` names the condition.
    ///
    /// # Errors
    /// If it does not within `limit`, or the process ends without it.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut happened: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        loop {
            // Look for the end first: the condition may become true immediately before it.
            let has_ended = self.has_ended();
            if happened()? {
                return Ok(());
            }
            if has_ended {
                return Err(format!("it ended without {what}: {:.2000}", self.stderr()).into());
            }
            if self.started.elapsed() > limit {
                return Err(format!("no {what} within {limit:?}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If it is not reached within `limit` of the start; the process is then killed.
    pub fn wait(mut self, limit: Duration) -> Result<Finished> {
        let mut seen = None;
        loop {
            seen = largest_kib(self.child.id()).or(seen);
            if let Some((status, accounted)) = wait4(self.child.id(), false)? {
                self.reaped = true;
                return self.finished(status, seen.unwrap_or(accounted));
            }
            if self.started.elapsed() > limit {
                self.kill();
                return Err(format!("killed after {limit:?}; stderr: {:.2000}", self.stderr()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process and its children. `jportal run` cannot end its child when it is itself
    /// killed.
    fn kill(&mut self) {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for id in children.split_whitespace().filter_map(|id| id.parse().ok()).chain([id]) {
            // A process that has ended in the meantime needs no signal.
            let _ = send(id, libc::SIGKILL);
        }
        self.reaped = wait4(id, true).is_ok();
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.file("stderr")).unwrap_or_default()).into_owned()
    }

    fn finished(&self, status: ExitStatus, peak_kib: u64) -> Result<Finished> {
        Ok(Finished {
            status,
            stdout: std::fs::read(self.file("stdout"))?,
            stderr: self.stderr(),
            peak_kib,
            elapsed: self.started.elapsed(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
        }
    }
}

/// The largest resident set of the running process `id` since it was executed (`VmHWM` in
/// proc(5)). `None` if it does not run.
pub fn largest_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Reaps the child `id`. Returns its exit status and peak memory, or `None` if it still runs and
/// `block` is false.
fn wait4(id: u32, block: bool) -> Result<Option<(ExitStatus, u64)>> {
    let pid = libc::pid_t::try_from(id)?;
    let mut status = 0;
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let options = if block { 0 } else { libc::WNOHANG };
    // SAFETY: both pointers are to live locals; the child was spawned by us and not reaped yet.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
    match reaped {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error().into()),
        _ => Ok(Some((ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss)?))),
    }
}

/// Sends `signal` to the process `id`.
///
/// # Errors
/// If the kernel refuses.
pub fn send(id: u32, signal: i32) -> Result<()> {
    let pid = libc::pid_t::try_from(id)?;
    // SAFETY: kill takes plain numbers.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Size of a file in bytes; 0 if it does not exist.
pub fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_process_that_has_ended_is_reported() {
        let running = start(Command::new("sh").args(["-c", "echo early; echo why >&2"])).unwrap();
        running.wait_for("early", Duration::from_secs(60)).unwrap();
        let told = running.wait_for("never", Duration::from_secs(60)).unwrap_err().to_string();
        assert!(told.contains("ended without") && told.contains("why"), "{told}");
        running.wait(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn what_is_dropped_runs_no_more_nor_what_it_started() {
        let running = start(Command::new("sh").args(["-c", "sleep 600 & echo $!; wait"])).unwrap();
        running.wait_for("\n", Duration::from_secs(60)).unwrap();
        let ids = [running.id(), running.stdout().unwrap().trim().parse().unwrap()];
        assert!(ids.iter().all(|id| largest_kib(*id).is_some()));
        drop(running);
        let begun = Instant::now();
        while ids.iter().any(|id| largest_kib(*id).is_some()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "one of {ids:?} runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_childs_memory_is_its_own() {
        let large = vec![1u8; 200 << 20];
        let mut command = std::process::Command::new("sleep");
        let finished = run(command.arg("0.1"), Duration::from_secs(30)).unwrap();
        assert!((1..50 << 10).contains(&finished.peak_kib), "{} KiB", finished.peak_kib);
        assert_eq!(large[large.len() / 2], 1);
    }
}
