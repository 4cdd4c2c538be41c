// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shell completions and man pages, generated from the command line's own definition.

use std::io::Write;

use anyhow::Context;
use clap::CommandFactory;

use crate::Outcome;
use crate::args::{Cli, CompletionsArgs, ManArgs};

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    // `generate` panics if its output fails; a buffer does not.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jportal", &mut script);
    std::io::stdout().lock().write_all(&script).context("cannot write to stdout")?;
    Ok(Outcome::Done)
}

/// Writes `jportal.1` and a page for each subcommand.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<Outcome> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(Outcome::Done)
}
