// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The command `jportal`: records Java programs and shows what they executed.
//!
//! This crate handles arguments, files, progress and exit statuses. The computations are in the
//! crates below it. Exit status: 0 success, 1 findings or a failed check, 2 wrong usage or
//! input. `jportal run` ends as the traced program ends.

mod accuracy;
mod args;
mod check;
mod decode;
mod degrade;
mod doctor;
mod exchange;
mod info;
mod look;
mod manual;
mod presence;
mod print;
mod progress;
mod report;
mod run;
mod sys;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// The result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Success, without findings.
    Done,
    /// Findings, or a failed check.
    Findings,
}

fn main() -> ExitCode {
    sys::see_children_end();
    let cli = Cli::parse();
    // `run` must end as the traced program ends, even if no one reads our messages any more.
    if !matches!(cli.command, Command::Run(_)) {
        sys::die_of_broken_pipes();
    }
    let result = match &cli.command {
        Command::Run(a) => return run::run(a),
        Command::Info(a) => info::info(a),
        Command::Print(a) => print::print(a),
        Command::Report(a) => report::report(a),
        Command::Verify(a) => verify::verify(a),
        Command::Accuracy(a) => accuracy::accuracy(a),
        Command::Degrade(a) => degrade::degrade(a),
        Command::Export(a) => exchange::export(a),
        Command::Import(a) => exchange::import(a),
        Command::Doctor(a) => doctor::doctor(a),
        Command::Completions(a) => manual::completions(a),
        Command::Man(a) => manual::man(a),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(e) => {
            say(&format!("error: {e:#}"));
            ExitCode::from(2)
        }
    }
}

/// Prints a message of ours as one line to stderr. The prefix distinguishes it from the traced
/// program's output.
fn say(text: &str) {
    use std::io::Write;
    // An error is ignored: there is no other way to report it.
    let _ = writeln!(std::io::stderr().lock(), "jportal: {}", jportal_plain::line(text.trim_end()));
}

/// Pretty JSON to stdout.
fn put_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Prints text to stdout. Names from the capture are already escaped in their lines (`plain`).
/// This escapes all other control characters.
fn put_text(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    std::io::stdout().lock().write_all(jportal_plain::lines(text).as_bytes())?;
    Ok(())
}
