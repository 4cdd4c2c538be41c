// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The command `jportal`: records Java programs and shows what they executed.
//!
//! This crate holds arguments, files, progress and exit statuses; what the commands compute
//! lives in the crates below it. Exit status: 0 done, 1 findings or a failed check, 2 bad
//! usage or input. `jportal run` ends as the traced program ends.

mod accuracy;
mod args;
mod check;
mod decode;
mod degrade;
mod doctor;
mod exchange;
mod infer;
mod info;
mod look;
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

/// What a command found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Done, nothing to complain about.
    Done,
    /// Findings, or a check that failed.
    Findings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // `run` ends as the traced program ends, whoever still reads our messages.
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

/// A message of ours, on one line: to stderr, marked, so that it cannot be taken for the traced program's.
fn say(text: &str) {
    use std::io::Write;
    // There is no one to tell that no one listens.
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

/// Text to stdout. What others named stands on its lines escaped (`plain`); whatever else controls a terminal is here.
fn put_text(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    std::io::stdout().lock().write_all(jportal_plain::lines(text).as_bytes())?;
    Ok(())
}
