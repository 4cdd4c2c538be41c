// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The command `jportal`: records Java programs and shows what they executed.
//!
//! This crate handles arguments, files, progress and exit statuses. The computations are in the
//! crates below it. Exit status: 0 success, 1 findings or a failed check, 2 wrong usage or
//! input. `jportal record` ends as the traced program ends.

mod accuracy;
mod args;
mod check;
mod decode;
mod degrade;
mod diff;
mod doctor;
mod exchange;
mod export;
mod files;
mod info;
mod look;
mod manual;
mod messages;
mod output;
mod presence;
mod print;
mod profiles;
mod progress;
mod range;
mod replay;
mod report;
mod run;
mod sections;
mod sys;
mod validate;
mod verify;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command, DevCommand, ValidateCommand};
use messages::say;

/// The result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandOutcome {
    /// Success, without findings.
    Done,
    /// Findings, or a failed check.
    Findings,
}

/// Shows the help, or what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    // An error is ignored: there is no other way to report it.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    // A status of `record` that is not the program's must differ from all of the program's.
    if records(std::env::args_os().skip(1)) { ExitCode::from(run::FAILED) } else { ExitCode::from(2) }
}

/// Whether these arguments, which are wrong, are those of `record`. Options and their values may
/// precede the name of a command.
fn records(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let all = Cli::command();
    let named = arguments.find_map(|word| {
        let word = word.into_string().ok()?;
        all.find_subcommand(&word).map(clap::Command::get_name)
    });
    named == Some("record")
}

fn main() -> ExitCode {
    sys::see_children_end();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    messages::set_up(&cli);
    // `run` must end as the traced program ends, even if no one reads our messages any more.
    // `replay` writes to a profiler, and reports how it ended.
    if !matches!(cli.command, Command::Record(_) | Command::Replay(_)) {
        sys::die_of_broken_pipes();
    }
    let result = match &cli.command {
        Command::Record(a) => return run::run(a),
        Command::Info(a) => info::info(a),
        Command::Print(a) => print::print(a),
        Command::Report(a) => report::report(a),
        Command::Verify(a) => verify::verify(a),
        Command::Accuracy(a) => accuracy::accuracy(a),
        Command::Degrade(a) => degrade::degrade(a),
        Command::View(a) => view::view(a),
        Command::Replay(a) => replay::replay(a),
        Command::Diff(a) => diff::diff(a),
        Command::Validate(ValidateCommand::DebugInfo(a)) => validate::debug_info(a),
        Command::Validate(ValidateCommand::Stacks(a)) => validate::stacks(a),
        Command::Export(a) => export::export(a),
        Command::Import(a) => exchange::import(a),
        Command::Doctor(a) => doctor::doctor(a),
        Command::Completions(a) => manual::completions(a),
        Command::Man(a) => manual::man(a),
        Command::Dev(DevCommand::Verify(a)) => verify::verify(a),
        Command::Dev(DevCommand::Accuracy(a)) => accuracy::accuracy(a),
        Command::Dev(DevCommand::Degrade(a)) => degrade::degrade(a),
        Command::Dev(DevCommand::BlocksAround(a)) => print::blocks_around(a),
        Command::Dev(DevCommand::Pages(a)) => manual::pages(a),
    };
    match result {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Findings) => ExitCode::from(1),
        Err(e) => {
            say(&format!("error: {}", message(&e)));
            ExitCode::from(2)
        }
    }
}

/// The error and its causes in one line. A cause that the text before it already contains is
/// left out.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        before if before.contains(&cause) => text,
        before => format!("{before}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let cause = jportal::file::Error::NotACapture { found: b"JHDRabcd".to_vec() };
        let path = "a.jportal".into();
        let error = anyhow::Error::new(jportal::Error::Open { path, source: cause }).context("diff");
        let text = message(&error);
        assert!(text.starts_with("diff: a.jportal: not a capture"), "{text}");
        assert_eq!(text.matches("not a capture").count(), 1, "{text}");
    }

    #[test]
    fn the_arguments_of_record_are_known_though_they_are_wrong() {
        let records = |line: &str| records(line.split(' ').map(OsString::from));
        for line in ["record --no", "run --no", "--color always run --no", "-v record", "--no record"] {
            assert!(records(line), "{line}");
        }
        for line in ["info record", "--no", "report --color record"] {
            assert!(!records(line), "{line}");
        }
    }
}
