// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shell completions, man pages and the pages of the book, generated from the command line's own
//! definition.

use std::io::Write;

use anyhow::Context;
use clap::CommandFactory;

use crate::CommandOutcome;
use crate::args::{Cli, CompletionsArgs, ManArgs};

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<CommandOutcome> {
    // `generate` panics if its output fails; a buffer does not.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jportal", &mut script);
    std::io::stdout().lock().write_all(&script).context("cannot write to stdout")?;
    Ok(CommandOutcome::Done)
}

/// Writes `jportal.1` and a page for each subcommand.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<CommandOutcome> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(CommandOutcome::Done)
}

/// Writes a page of the book for each command.
pub(crate) fn pages(args: &ManArgs) -> anyhow::Result<CommandOutcome> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for (name, text) in all_pages() {
        let path = directory.join(format!("{name}.md"));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(CommandOutcome::Done)
}

/// The pages by command: the long help of each, and of the commands below it.
fn all_pages() -> Vec<(String, String)> {
    let mut cli = Cli::command().term_width(96);
    cli.build();
    let commands = cli.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    commands.map(|c| (c.get_name().to_owned(), page(c))).collect()
}

/// One page. Commands below a command have a heading each.
fn page(command: &clap::Command) -> String {
    let name = format!("jportal {}", command.get_name());
    let mut text = format!("# {name}\n\n{}", section(command));
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        text.push_str(&format!("\n## {name} {}\n\n{}", sub.get_name(), section(sub)));
    }
    text
}

fn section(command: &clap::Command) -> String {
    let help = command.clone().term_width(96).render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", help.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `jportal dev pages docs/commands` writes them.
    #[test]
    fn the_pages_of_the_book_are_current() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands");
        for (name, text) in all_pages() {
            let kept = std::fs::read_to_string(folder.join(format!("{name}.md"))).unwrap_or_default();
            assert!(kept == text, "docs/commands/{name}.md is old; run jportal dev pages docs/commands");
        }
    }
}
