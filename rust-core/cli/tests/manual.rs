// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shell completions and man pages.

use std::process::Command;

fn jportal(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_jportal")).args(arguments).output().unwrap()
}

#[test]
fn each_shell_has_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = jportal(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("accuracy"), "{shell}: {script:.300}");
    }
}

#[test]
fn each_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = jportal(&["man", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(jportal(&["--help"]).stdout).unwrap();
    // The commands stand in sections before the options.
    let commands = help.lines().take_while(|l| !l.starts_with('`')).filter_map(|l| l.strip_prefix("  "));
    let mut count = 0;
    for name in commands.filter_map(|l| l.split_whitespace().next()) {
        let page = std::fs::read_to_string(pages.join(format!("jportal-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page:.300}");
        count += 1;
    }
    assert!(count >= 10 && pages.join("jportal.1").exists(), "{help}");
}

#[test]
fn details_of_a_command_are_in_its_help() {
    let help =
        |command: &[&str]| String::from_utf8(jportal(&[command, &["--help"]].concat()).stdout).unwrap();
    let details: [(&[&str], &str); 3] =
        [(&["info"], "completeness"), (&["accuracy"], "PMD"), (&["export", "perf-data"], "OVF")];
    for (command, detail) in details {
        assert!(help(command).contains(detail), "{}", help(command));
    }
}
