// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The `main` function that the binaries of this crate share.

use std::process::ExitCode;

use crate::Result;

/// Runs the tool, or prints `usage` if the user asks for help. Exit status: 0 if `run` returns
/// `true`, 1 if it returns `false`, 2 if it fails.
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
