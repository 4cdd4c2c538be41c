// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Child processes with a time limit, their output, and their peak memory.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
    /// Largest resident set of the process in KiB, as seen up to some milliseconds before its end. What the kernel accounts for a
    /// child (`ru_maxrss`) has the size of the process that started it for a floor, so it is taken only of one that was never seen.
    pub peak_kib: u64,
    /// Wall time.
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
    /// When it is none.
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

    /// Whether a Rust panic was reported on standard error, or the process died of SIGSEGV or SIGABRT.
    pub fn crashed(&self) -> bool {
        self.stderr.contains("panicked at")
            || matches!(
                self.status.signal(),
                Some(libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS | libc::SIGILL)
            )
    }
}

/// A running process whose output goes to files. It is killed with its children when this is dropped: a test that fails leaves
/// nothing behind that runs for ever.
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
/// When it cannot be started.
pub fn start(command: &mut Command) -> Result<Running> {
    let folder = tempfile::tempdir()?;
    command
        .stdin(Stdio::null())
        .stdout(File::create(folder.path().join("stdout"))?)
        .stderr(File::create(folder.path().join("stderr"))?);
    let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
    Ok(Running { child, reaped: false, started: Instant::now(), folder })
}

/// Runs `command` to its end, or kills it after `limit` and fails.
///
/// # Errors
/// When it cannot be started or takes longer than `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    start(command)?.wait(limit)
}

/// What a process had that ended before it was looked at, of the maximum that the kernel accounts to it: that begins with what this
/// process had when it forked, so up to there it says nothing, and is 0.
fn own_kib(accounted: u64) -> u64 {
    let ours = largest_kib(std::process::id()).unwrap_or(0);
    if accounted > ours { accounted } else { 0 }
}

/// Runs `command`, whose output goes where it says, to its end, or kills it after `limit`: its status, and its largest
/// resident set in KiB.
///
/// # Errors
/// When it cannot be started.
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

    /// The process that it has started itself: of `jportal run`, the one that is recorded.
    pub fn child_process(&self) -> Option<u32> {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        largest_kib(self.id()).is_none()
    }

    /// What it has written to standard output so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stdout(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.file("stdout"))?).into_owned())
    }

    /// Waits until standard output holds `text`.
    ///
    /// # Errors
    /// When it does not within `limit`, or ends without it.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<()> {
        self.wait_until(&format!("{text:?} in its output"), limit, || Ok(self.stdout()?.contains(text)))
    }

    /// Waits until `happened`, which `what` names.
    ///
    /// # Errors
    /// When it does not within `limit`, or the process ends without it.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut happened: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        loop {
            // In this order: it may happen last of all.
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
    /// When it takes longer than `limit` since the start; the process is killed.
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

    /// Ends it, and what it has started itself: `jportal run` is killed before it can do so.
    fn kill(&mut self) {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for id in children.split_whitespace().filter_map(|id| id.parse().ok()).chain([id]) {
            // Whoever has ended meanwhile needs no signal.
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

/// The largest resident set that the running process `id` has had since it was executed (`VmHWM` in proc(5)).
fn largest_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Reaps the child `id`: its status and peak memory, or `None` while it runs (unless `block`).
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
/// When the kernel refuses.
pub fn send(id: u32, signal: i32) -> Result<()> {
    let pid = libc::pid_t::try_from(id)?;
    // SAFETY: kill takes plain numbers.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Bytes of a file, 0 when it does not exist.
pub fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_process_that_has_ended_is_told() {
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
