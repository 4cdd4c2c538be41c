// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The commands by section, for `jportal --help`.

use clap::Subcommand;

use crate::args::Command;

/// The sections with their commands.
pub(crate) const SECTIONS: &[(&str, &[&str])] = &[
    ("Record", &["record", "doctor"]),
    ("Look", &["info", "print", "report", "view", "replay"]),
    ("Compare", &["diff"]),
    ("Validate the JVM", &["validate"]),
    ("Exchange", &["export", "import"]),
    ("Install", &["completions", "man"]),
    ("For developers of JPortal", &["dev"]),
];

/// The sections as text, each command with its first sentence.
pub(crate) fn text() -> String {
    let all = Command::augment_subcommands(clap::Command::new("jportal"));
    let mut text = String::new();
    for (title, names) in SECTIONS {
        text.push_str(&format!("\n{title}:\n"));
        for name in *names {
            let command = all.find_subcommand(name);
            let about = command.and_then(clap::Command::get_about).map(ToString::to_string);
            text.push_str(&format!("  {name:<12} {}\n", about.unwrap_or_default()));
        }
    }
    text + "\n`jportal COMMAND --help` explains a command."
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn each_visible_command_is_in_one_section() {
        let listed: Vec<&str> = SECTIONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let all = Cli::command();
        let mut visible: Vec<&str> =
            all.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
        visible.retain(|name| *name != "help");
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        visible.sort_unstable();
        assert_eq!(sorted, visible);
        assert!(text().contains("\nLook:\n  info "), "{}", text());
    }
}
