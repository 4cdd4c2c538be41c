// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal record`: starts the program under the recording VM and otherwise stays out of its way.
//!
//! The program keeps stdin, stdout and stderr and receives the signals that are sent to us. The
//! command ends as the program ends, by exit status or by signal. Our own messages go to stderr
//! and can be silenced.

mod attach;
mod child;
pub(crate) mod emulate;
pub(crate) mod locate;
mod name;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use jportal::file::{self, ring_file};

use crate::args::RunArgs;
use crate::decode;
use crate::messages::{detail, say};
use child::ProgramEnd;

/// Runs the program. The exit code is the program's.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    match record(args) {
        Ok(ProgramEnd::Code(code)) => ExitCode::from(code),
        Ok(ProgramEnd::Signal(signal)) => {
            crate::sys::die_by(signal);
            // The signal did not kill us, so use the exit status that a shell would use.
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Err(e) => {
            say(&format!("error: {e:#}"));
            ExitCode::from(status(&e))
        }
    }
}

/// The exit status when the command itself fails.
pub(crate) const FAILED: u8 = 125;
/// The exit status when `java` cannot be run.
const NOT_RUN: u8 = 126;
/// The exit status when there is no `java`.
const NOT_FOUND: u8 = 127;

/// `java` could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {}", java.display())]
struct NotStarted {
    java: PathBuf,
    source: std::io::Error,
}

/// The exit status for an error, as those of `env` and `nohup`.
fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<NotStarted>() {
        Some(e) if e.source.kind() == std::io::ErrorKind::NotFound => NOT_FOUND,
        Some(_) => NOT_RUN,
        None if error.downcast_ref::<locate::NoJava>().is_some() => NOT_FOUND,
        None => FAILED,
    }
}

fn record(args: &RunArgs) -> Result<ProgramEnd> {
    if let Some(pid) = args.pid {
        return attach::record(args, pid);
    }
    let (named, java_args) = program(&args.java_args);
    if let (Some(named), Some(java)) = (named, &args.java) {
        bail!("--java {} and {}: give one of them", java.display(), named.display());
    }
    let java = locate::java(args.java.as_deref().or(named))?;
    let output = std::path::absolute(&args.output).context("the capture's path")?;
    let source = TraceSource::choose(args.emulate, locate::has_intel_pt());
    if !args.quiet {
        say(source.message(args.emulate));
    }
    // The unit's shared memory exists as long as `unit` does.
    let (unit, mut command) = match source {
        TraceSource::Emulated => {
            let unit = emulate::PreparedUnit::prepare(args)?;
            let command = unit.command(&java);
            (Some(unit), command)
        }
        TraceSource::Perf => {
            needs_no_unit(args)?;
            (None, Command::new(&java))
        }
    };
    command.args(java_flags(args, &output, source)).args(java_args);
    keep_old(&output)?;
    detail(|| format!("running {command:?}"));
    let since = SystemTime::now();
    let outcome = child::run(&mut command).map_err(|source| NotStarted { java, source })?;
    drop(unit);
    after(args, &output, name::find(&output, outcome.pid, since));
    Ok(outcome.end)
}

/// The path of `java`, if the program's first word is one, and the arguments of `java`.
fn program(all: &[OsString]) -> (Option<&Path>, &[OsString]) {
    let Some((first, rest)) = all.split_first() else { return (None, all) };
    let path = Path::new(first);
    if first == "java" && !rest.is_empty() {
        (None, rest)
    } else if path.components().count() > 1 && path.ends_with("java") && path.is_file() {
        (Some(path), rest)
    } else {
        (None, all)
    }
}

/// Keeps an earlier capture, and its ring file, as `NAME.old`. Returns the old and the new name of
/// each. A name with a pattern is a new one in each run. What is no file, such as a directory or a
/// device, stays where it is. Fails if a running VM writes to one of the captures.
fn keep_old(output: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut old = output.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    // The VM itself reports what else is wrong with them.
    for capture in [output, &old] {
        if ring_file::is_live(capture).is_ok_and(|live| live) {
            return Err(file::Error::Live { path: capture.to_owned() }.into());
        }
    }
    let rings = (ring_file::path_of(output), ring_file::path_of(&old));
    let mut kept = vec![(output.to_owned(), old), rings];
    kept.retain(|(from, _)| std::fs::symlink_metadata(from).is_ok_and(|m| m.is_file()));
    for (from, to) in &kept {
        let renamed = std::fs::rename(from, to);
        renamed.with_context(|| format!("cannot rename the earlier {}", from.display()))?;
        detail(|| format!("the earlier {} is now {}", from.display(), to.display()));
    }
    Ok(kept)
}

/// The source of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceSource {
    Perf,
    Emulated,
}

impl TraceSource {
    fn choose(emulate: bool, present: bool) -> Self {
        if present && !emulate { Self::Perf } else { Self::Emulated }
    }

    /// The name in `-XX:JPortalSource`.
    fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Emulated => "emulated",
        }
    }

    fn message(self, asked_for: bool) -> &'static str {
        match (self, asked_for) {
            (Self::Perf, _) => "recording with Intel PT (--emulate: with the emulated PT unit)",
            (Self::Emulated, true) => "recording with the emulated PT unit, as asked for",
            (Self::Emulated, false) => {
                "no Intel PT on this machine: recording with the emulated PT unit (slower, no root needed)"
            }
        }
    }
}

/// Refuses options that concern only the emulated unit.
fn needs_no_unit(args: &RunArgs) -> Result<()> {
    let given = [
        ("--cores", args.cores.is_some()),
        ("--on-full", args.on_full.is_some()),
        ("--timing", args.timing.is_some()),
        ("--drain-bandwidth", args.drain_bandwidth.is_some()),
        ("--return-compression", args.return_compression),
        ("--seed", args.seed.is_some()),
        ("--quantum", args.quantum.is_some()),
        ("--unit-option", !args.unit_options.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{option} is for the emulated PT unit: give --emulate as well"),
        None => Ok(()),
    }
}

/// Flags of `--reproducible`: compiled code executes the bytecodes that interpreted code does, and
/// exceptions of the VM have a stack trace in either.
const REPRODUCIBLE: [&str; 3] =
    ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow", "-XX:-OptimizeStringConcat"];

fn java_flags(args: &RunArgs, output: &Path, source: TraceSource) -> Vec<OsString> {
    let mut file = OsString::from("-XX:JPortalFile=");
    file.push(output);
    // The VM logs to stdout by default, which belongs to the program. The recorder's messages
    // go to stderr.
    let mut flags = vec![
        "-XX:+JPortal".into(),
        format!("-XX:JPortalSource={}", source.name()).into(),
        "-Xlog:jportal*=off:stdout".into(),
        // With perf, warnings are useful: they report what the kernel does not permit the
        // recording.
        if source == TraceSource::Perf {
            "-Xlog:jportal*=warning:stderr"
        } else {
            "-Xlog:jportal*=error:stderr"
        }
        .into(),
        file,
    ];
    if args.reproducible {
        flags.extend(REPRODUCIBLE.map(OsString::from));
    }
    // The plugin takes the buffer size from its own option, so the VM gets the same size. The
    // VM's flag accepts no smaller buffers.
    if let Some(size) = args.aux.filter(|&n| n >= 64 << 10) {
        flags.push(format!("-XX:JPortalBufferSize={size}").into());
    }
    flags
}

/// Reports the state of the capture. `written` is the file that the VM wrote.
fn after(args: &RunArgs, output: &Path, written: Option<PathBuf>) {
    match written {
        Some(path) => {
            report(args, &path);
        }
        None => say(&format!("warning: no capture was written to {}", output.display())),
    }
}

/// Reports the state of a capture, and returns whether it can be read.
fn report(args: &RunArgs, path: &Path) -> bool {
    let opened = decode::open_file(path);
    match &opened {
        Ok(reader) => {
            if !args.quiet {
                let pt: u64 = reader.cores().iter().map(|&c| reader.pt_bytes(c)).sum();
                let mb = |n: u64| n as f64 / 1e6;
                let (all, pt) = (mb(reader.file_len()), mb(pt));
                say(&format!("{}: {all:.1} MB, {pt:.1} MB of it PT; see jportal info", path.display()));
            }
        }
        Err(e) => say(&format!("warning: {e:#}")),
    }
    opened.is_ok()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Args};

    #[test]
    fn the_real_unit_is_taken_where_it_is() {
        for (emulate, present, source) in [
            (false, true, TraceSource::Perf),
            (true, true, TraceSource::Emulated),
            (false, false, TraceSource::Emulated),
            (true, false, TraceSource::Emulated),
        ] {
            assert_eq!(TraceSource::choose(emulate, present), source);
        }
        let parse = |options: &[&str]| match Cli::try_parse_from(
            ["jportal", "run"].iter().chain(options).chain(&["--", "Main"]),
        ) {
            Ok(Cli { command: Args::Record(args), .. }) => args,
            other => panic!("{other:?}"),
        };
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(program(&words(&["java", "-jar", "x"])), (None, &*words(&["-jar", "x"])));
        assert_eq!(program(&words(&["Main", "java"])), (None, &*words(&["Main", "java"])));
        let folder = tempfile::tempdir().unwrap();
        let java = folder.path().join("java");
        let given = words(&[java.to_str().unwrap(), "-jar", "x"]);
        assert_eq!(program(&given), (None, &*given), "no file, so it is a class");
        std::fs::write(&java, "").unwrap();
        assert_eq!(program(&given), (Some(&*java), &*words(&["-jar", "x"])));
        let flags = java_flags(&parse(&["--aux", "1m"]), Path::new("/a"), TraceSource::Perf);
        assert!(
            flags.iter().any(|f| f == "-XX:JPortalSource=perf")
                && flags.iter().any(|f| f == "-XX:JPortalBufferSize=1048576")
        );
        assert!(REPRODUCIBLE.iter().all(|flag| !flags.iter().any(|f| f == flag)));
        let flags = java_flags(&parse(&["--reproducible"]), Path::new("/a"), TraceSource::Emulated);
        assert!(REPRODUCIBLE.iter().all(|flag| flags.iter().any(|f| f == flag)));
        assert!(needs_no_unit(&parse(&["--aux", "1m"])).is_ok());
        for options in [
            &["--seed", "3"][..],
            &["--cores", "3"],
            &["--on-full", "stall"],
            &["--timing", "cyc"],
            &["--unit-option", "a=b"],
            &["--return-compression"],
        ] {
            let error = needs_no_unit(&parse(options)).unwrap_err().to_string();
            assert!(error.contains(options[0]) && error.contains("--emulate"), "{error}");
        }
    }
}
