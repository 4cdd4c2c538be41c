// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Runs programs to their end and reports the resources that they used.

use anyhow::{Context, Result, bail};
use jportal_tests::process::largest_kib;
use std::io::Read;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The resources that a program used, and its output.
pub struct Used {
    /// Elapsed time.
    pub wall: Duration,
    /// User and system time of the program and the children it waited for.
    pub cpu: Duration,
    /// Largest resident set in bytes, sampled until some milliseconds before the end. The kernel's
    /// own figure is at least the size of the process that started the program.
    pub peak: u64,
    /// Everything that it wrote to standard output, if that was piped.
    pub stdout: String,
}

/// Runs `command`, whose standard output is `output`, to its end. Returns an error if it fails.
pub fn run(command: &mut Command, output: Stdio) -> Result<Used> {
    let name = format!("{command:?}");
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| name.clone())?;
    let id = child.id();
    let memory = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(kib) = largest_kib(id) {
            peak = kib;
            std::thread::sleep(Duration::from_millis(5));
        }
        peak * 1024
    });
    let mut stderr = child.stderr.take().context("no stderr")?;
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    let mut stdout = String::new();
    if let Some(mut from) = child.stdout.take() {
        from.read_to_string(&mut stdout)?;
    }
    let (status, usage) = wait(id)?;
    let wall = start.elapsed();
    let peak = memory.join().ok().context("the memory was not sampled")?;
    if status != 0 {
        let text = errors.join().ok().and_then(Result::ok).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(5).collect();
        bail!(
            "{name} ended with wait status {status:#x}\n{}",
            tail.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    Ok(Used { wall, cpu, peak, stdout })
}

/// Waits for a child; returns its wait status and resource usage.
fn wait(pid: u32) -> Result<(i32, libc::rusage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live, writable objects of the right types; an all-zero
    // `rusage` is valid, so it may be read even if the call wrote nothing.
    let (waited, usage) = unsafe {
        let waited = libc::wait4(pid as libc::pid_t, &mut status, 0, usage.as_mut_ptr());
        (waited, usage.assume_init())
    };
    if waited < 0 {
        return Err(std::io::Error::last_os_error()).context("wait4");
    }
    Ok((status, usage))
}
