// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The whole decode to bytecode flow, through the command.

use crate::child::run;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 3;

/// One capture decoded by `jportal info`.
pub struct Whole {
    pub pt_bytes: u64,
    pub bytecodes: u64,
    pub cores: u64,
    pub errors: u64,
    pub cpu: Duration,
    pub wall: Duration,
    pub peak: u64,
}

/// Decodes `capture` some times; the best round.
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
