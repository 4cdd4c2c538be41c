// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What the binaries of this crate share.

use std::process::ExitCode;

use crate::Result;

/// Runs the tool, or prints `usage` if that is what the user asks for. Exit status: 0 when `run` returns `true`, 1 when it
/// returns `false`, 2 when it fails.
pub fn main(usage: &str, run: impl FnOnce() -> Result<bool>) -> ExitCode {
    if std::env::args().any(|a| a == "--help" || a == "-h") {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
