//! `jportal run`: starts the program under the recording VM and gets out of its way.
//!
//! The program keeps stdin, stdout and stderr, gets the signals sent to us, and we end as it
//! ends, by exit status or by signal. Our own words go to stderr and can be silenced.

mod child;
pub(crate) mod emulate;
pub(crate) mod locate;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use jportal_capture::CaptureReader;

use crate::args::RunArgs;
use crate::{decode, say};
use child::End;

/// Runs it; the exit code is the program's.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    match record(args) {
        Ok(End::Code(code)) => ExitCode::from(code),
        Ok(End::Signal(signal)) => {
            crate::sys::die_by(signal);
            // A signal that does not kill us: what a shell would say.
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Err(e) => {
            say(&format!("error: {e:#}"));
            ExitCode::from(2)
        }
    }
}

fn record(args: &RunArgs) -> Result<End> {
    let java = locate::java(args.java.as_deref())?;
    let output = std::path::absolute(&args.output).context("the capture's path")?;
    if !args.quiet {
        say(source_message(args.emulate));
    }
    let unit = emulate::Unit::prepare(args)?;
    let mut command = unit.command(&java);
    command.args(java_flags(args, &output)).args(&args.java_args);
    let outcome = child::run(&mut command).with_context(|| format!("cannot run {}", java.display()))?;
    drop(unit);
    after(args, &output, outcome.pid);
    Ok(outcome.end)
}

fn source_message(emulate: bool) -> &'static str {
    match (locate::has_intel_pt(), emulate) {
        (true, true) => "recording with the emulated PT unit, as asked for",
        (true, false) => {
            "Intel PT is present, but its source is not in this build yet: recording with the emulated PT unit"
        }
        (false, _) => {
            "no Intel PT on this machine: recording with the emulated PT unit (slower, no root needed)"
        }
    }
}

fn java_flags(args: &RunArgs, output: &Path) -> Vec<OsString> {
    let mut file = OsString::from("-XX:JPortalFile=");
    file.push(output);
    // The VM logs to stdout by default, which is the program's: what the recorder has to say goes to stderr.
    let mut flags = vec![
        "-XX:+JPortal".into(),
        "-XX:JPortalSource=emulated".into(),
        "-Xlog:jportal*=off:stdout".into(),
        "-Xlog:jportal*=error:stderr".into(),
        file,
    ];
    // The unit has its size from us; the VM is told so that the two agree. Its flag takes no
    // smaller buffers.
    if let Some(size) = args.aux.filter(|&n| n >= 64 << 10) {
        flags.push(format!("-XX:JPortalBufferSize={size}").into());
    }
    flags
}

/// Says what became of the capture.
fn after(args: &RunArgs, output: &Path, pid: u32) {
    let path = expand(output, pid);
    if !path.exists() {
        say(&format!("warning: no capture was written to {}", path.display()));
        return;
    }
    decode::complete(&path);
    match CaptureReader::open(&path) {
        Ok(reader) => {
            for warning in decode::warnings(&reader) {
                say(&format!("warning: {warning}"));
            }
            if !args.quiet {
                let pt: u64 = reader.cores().iter().map(|&c| reader.pt_bytes(c)).sum();
                let mb = |n: u64| n as f64 / 1e6;
                let (all, pt) = (mb(reader.file_len()), mb(pt));
                say(&format!("{}: {all:.1} MB, {pt:.1} MB of it PT; see jportal info", path.display()));
            }
        }
        Err(e) => say(&format!("warning: {}: {e}", path.display())),
    }
}

/// The VM replaces `%p` in the name of the capture by its process id, which is that of
/// the child: QEMU's guest has its host's.
fn expand(output: &Path, pid: u32) -> PathBuf {
    match output.to_str() {
        Some(text) => text.replace("%p", &pid.to_string()).into(),
        None => output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_id_in_the_name() {
        assert_eq!(expand(Path::new("/tmp/a%p.jportal"), 42), Path::new("/tmp/a42.jportal"));
    }
}
