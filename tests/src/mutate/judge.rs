// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs the commands on a changed capture, with limits on time and memory.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::process;

/// The resources that a command may use.
#[derive(Debug, Clone, Copy)]
pub struct ResourceLimits {
    /// Processor time in seconds.
    pub cpu_seconds: u64,
    /// Address space in bytes; allocations beyond it fail.
    pub address_space: u64,
    /// Resident memory in KiB, in addition to twice the command's peak on the untouched capture.
    pub more_kib: u64,
    /// Further resident memory in bytes for each byte by which the file has grown.
    pub per_byte: u64,
}

impl Default for ResourceLimits {
    /// 10 s of processor time for commands that need some hundredths of a second, 4 GiB of
    /// address space, 64 MiB of additional resident memory, and 64 bytes per byte of growth.
    fn default() -> Self {
        Self { cpu_seconds: 10, address_space: 4 << 30, more_kib: 64 << 10, per_byte: 64 }
    }
}

/// A command that behaved on a changed capture in a way that it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The command.
    pub command: &'static str,
    /// What it did.
    pub what: String,
}

/// The commands and their arguments. `C` is replaced by the changed capture, `B` by the untouched
/// one, and `O` by a folder.
const COMMANDS: &[(&str, &[&str])] = &[
    ("info --check", &["info", "--check", "C"]),
    ("info", &["info", "--json", "C"]),
    ("info --recover follow", &["info", "--recover", "follow", "C"]),
    ("info --positions debug-info", &["info", "--positions", "debug-info", "C"]),
    ("print", &["print", "--level", "bytecode", "C"]),
    ("print --json", &["print", "--json", "--level", "block", "--recover", "follow", "C"]),
    ("report coverage", &["report", "coverage", "--classes", "all", "--methods", "C"]),
    ("report hot-methods", &["report", "hot-methods", "C"]),
    ("report calls", &["report", "calls", "C"]),
    ("verify --against", &["verify", "--against", "B", "C"]),
    ("degrade", &["degrade", "--loss", "20%", "--overflow", "4k", "-o", "O/degraded", "C"]),
    ("export perf-data", &["export", "perf-data", "-o", "O/export", "C"]),
    ("accuracy", &["accuracy", "B", "C"]),
];

/// Runs commands on changed captures.
#[derive(Debug)]
pub struct Judge {
    jportal: PathBuf,
    base: PathBuf,
    base_bytes: u64,
    limits: ResourceLimits,
    /// Peak memory in KiB of each command on the untouched capture.
    peaks: Vec<u64>,
}

/// How a command ended.
struct CommandEnd {
    status: std::process::ExitStatus,
    stderr: String,
    peak_kib: u64,
}

impl Judge {
    /// Runs every command on the untouched capture at `base` to measure its peak memory.
    ///
    /// # Errors
    /// If a command cannot be run, or fails on the untouched capture.
    pub fn new(jportal: &Path, base: &Path, limits: ResourceLimits) -> Result<Self> {
        let base_bytes = process::size(base);
        let mut judge =
            Self { jportal: jportal.into(), base: base.into(), base_bytes, limits, peaks: Vec::new() };
        let folder = tempfile::tempdir()?;
        for (name, words) in COMMANDS {
            let ended = judge.run(words, base, folder.path())?;
            if let Some(what) = said_wrong(&ended) {
                return Err(format!("{name} on the untouched capture: {what}").into());
            }
            judge.peaks.push(ended.peak_kib);
        }
        Ok(judge)
    }

    /// The number of commands.
    pub const fn commands() -> usize {
        COMMANDS.len()
    }

    /// Runs commands on the changed capture at `path` and returns their failures. `wanted`
    /// selects the commands by index. They may write to `folder`.
    ///
    /// # Errors
    /// If a command cannot be run.
    pub fn judge(&self, path: &Path, folder: &Path, wanted: impl Fn(usize) -> bool) -> Result<Vec<Failure>> {
        let mut failures = Vec::new();
        let grown = process::size(path).saturating_sub(self.base_bytes);
        for (n, &(command, words)) in COMMANDS.iter().enumerate().filter(|(n, _)| wanted(*n)) {
            let ended = self.run(words, path, folder)?;
            let most = 2 * self.peaks[n] + self.limits.more_kib + grown * self.limits.per_byte / 1024;
            let what = said_wrong(&ended).or_else(|| {
                (ended.peak_kib > most)
                    .then(|| format!("{} KiB of memory, of {most} it may take", ended.peak_kib))
            });
            failures.extend(what.map(|what| Failure { command, what }));
        }
        Ok(failures)
    }

    fn run(&self, words: &[&str], path: &Path, folder: &Path) -> Result<CommandEnd> {
        let mut command = Command::new(&self.jportal);
        for word in words {
            match *word {
                "C" => command.arg(path),
                "B" => command.arg(&self.base),
                _ => match word.strip_prefix("O/") {
                    Some(name) => command.arg(folder.join(name)),
                    None => command.arg(word),
                },
            };
        }
        let stderr = folder.join("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr)?);
        // Each malloc arena reserves address space; many arenas would exhaust the limit.
        command.env("MALLOC_ARENA_MAX", "2");
        let limits = [
            (libc::RLIMIT_AS, self.limits.address_space),
            (libc::RLIMIT_CPU, self.limits.cpu_seconds),
            (libc::RLIMIT_CORE, 0),
        ];
        // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe.
        unsafe { command.pre_exec(move || limits.iter().try_for_each(|&(what, most)| limit(what, most))) };
        let finished = process::run_quietly(&mut command, Duration::from_secs(300))?;
        let text = std::fs::read(&stderr).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&text[..text.len().min(1 << 20)]).into_owned();
        Ok(CommandEnd { status: finished.0, stderr, peak_kib: finished.1 })
    }
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the pointer is to a live local.
    match unsafe { libc::setrlimit(what, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Describes a wrong exit status or message of a command; `None` if both are right.
fn said_wrong(ended: &CommandEnd) -> Option<String> {
    let panic = ended.stderr.lines().position(|line| line.contains("panicked at"));
    if let Some(at) = panic {
        let words: Vec<&str> = ended.stderr.lines().skip(at).take(2).collect();
        return Some(format!("panic: {}", words.join(" ")));
    }
    if let Some(signal) = ended.status.signal() {
        let what = match signal {
            libc::SIGXCPU | libc::SIGKILL => "took too long",
            libc::SIGABRT => "had no memory, or was aborted",
            _ => "crashed",
        };
        return Some(format!("{what} (signal {signal}): {:.300}", ended.stderr));
    }
    match ended.status.code() {
        Some(0 | 1) => None,
        Some(2) if ended.stderr.contains("error: ") => None,
        Some(2) => Some(format!("exit status 2 and no reason: {:.300}", ended.stderr)),
        code => Some(format!("exit status {code:?}: {:.300}", ended.stderr)),
    }
}
