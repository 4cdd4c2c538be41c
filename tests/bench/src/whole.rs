// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The whole decoding to bytecode flow, through the `jportal` command.

use crate::child::run;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 3;

/// The figures of one run of `jportal info`.
pub struct Whole {
    /// Bytes of trace.
    pub pt_bytes: u64,
    /// Decoded bytecodes.
    pub bytecodes: u64,
    /// Cores of the capture.
    pub cores: u64,
    /// Errors of the machine flow and of the reconstruction.
    pub errors: u64,
    /// User and system time.
    pub cpu: Duration,
    /// Elapsed time.
    pub wall: Duration,
    /// Largest resident set, bytes.
    pub peak: u64,
}

/// Decodes `capture` `ROUNDS` times and returns the best round.
pub fn measure(jportal: &Path, capture: &Path) -> Result<Whole> {
    let mut best: Option<Whole> = None;
    for _ in 0..ROUNDS {
        let used = run(Command::new(jportal).args(["info", "--json"]).arg(capture))?;
        let info: serde_json::Value = serde_json::from_str(&used.stdout).context("jportal info --json")?;
        let number = |v: &serde_json::Value| v.as_u64().unwrap_or(0);
        let whole = Whole {
            pt_bytes: number(&info["pt_bytes"]),
            bytecodes: number(&info["bytecodes"]),
            cores: number(&info["cores"]),
            errors: number(&info["errors"]["native_flow"]) + number(&info["errors"]["reconstruct"]),
            cpu: used.cpu,
            wall: used.wall,
            peak: used.peak,
        };
        if best.as_ref().is_none_or(|b| whole.cpu < b.cpu) {
            best = Some(whole);
        }
    }
    best.context("no rounds")
}
