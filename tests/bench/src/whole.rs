// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The whole decoding, from packets to what people ask, through the `jportal` command.

use crate::child::{Used, run};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

const ROUNDS: usize = 3;

/// The commands that are measured: name and arguments. All of them decode with one thread.
const COMMANDS: &[(&str, &[&str])] = &[
    ("jportal info", &["info", "--json"]),
    ("jportal report hot-methods", &["report", "hot-methods"]),
    ("jportal report coverage", &["report", "coverage"]),
    ("jportal report calls", &["report", "calls"]),
    ("jportal print --level call", &["print", "--level", "call"]),
];

/// The figures of one capture, as `jportal info` counts them.
pub struct Contents {
    /// Bytes of trace.
    pub pt_bytes: u64,
    /// Decoded bytecodes.
    pub bytecodes: u64,
    /// Cores of the capture.
    pub cores: u64,
    /// Errors of the machine flow and of the reconstruction.
    pub errors: u64,
}

/// The best run of one command.
pub struct Whole {
    /// The command.
    pub what: &'static str,
    /// What it used.
    pub used: Used,
}

/// Runs each command `ROUNDS` times on `capture`.
pub fn measure(jportal: &Path, capture: &Path) -> Result<(Contents, Vec<Whole>)> {
    let all: Result<Vec<Whole>> = COMMANDS.iter().map(|c| best(jportal, c, capture)).collect();
    let all = all?;
    let stdout = all.first().map_or("", |info| &info.used.stdout);
    let info: serde_json::Value = serde_json::from_str(stdout).context("jportal info --json")?;
    let number = |v: &serde_json::Value| v.as_u64().unwrap_or(0);
    let contents = Contents {
        pt_bytes: number(&info["pt_bytes"]),
        bytecodes: number(&info["bytecodes"]),
        cores: number(&info["cores"]),
        errors: number(&info["errors"]["native_flow"]) + number(&info["errors"]["reconstruct"]),
    };
    Ok((contents, all))
}

fn best(
    jportal: &Path,
    &(what, arguments): &(&'static str, &'static [&'static str]),
    capture: &Path,
) -> Result<Whole> {
    let mut best: Option<Used> = None;
    for _ in 0..ROUNDS {
        let mut command = Command::new(jportal);
        command.args(arguments).arg(capture).args(["--jobs", "1"]);
        // What is printed may be larger than memory.
        let output = if arguments[0] == "print" { Stdio::null() } else { Stdio::piped() };
        let used = run(&mut command, output)?;
        if best.as_ref().is_none_or(|b| used.cpu < b.cpu) {
            best = Some(used);
        }
    }
    Ok(Whole { what, used: best.context("no rounds")? })
}
