// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The documents: links lead to files, command lines are accepted. `tests/src/house.rs` holds their
//! sentences to the rules.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README and its siblings, and the pages of the book.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in ["docs", "docs/notes"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|e| e.unwrap().path());
        paths.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    paths.sort();
    paths.into_iter().map(|p| (p.clone(), std::fs::read_to_string(&p).unwrap())).collect()
}

/// The lines of a document with their numbers, and whether each is inside a fence.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fenced = false;
    text.lines().enumerate().map(move |(n, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (n + 1, line, fenced || is_fence)
    })
}

#[test]
fn links_lead_to_files() {
    let mut broken = Vec::new();
    for (path, text) in documents() {
        for (n, line, fenced) in lines(&text) {
            if fenced {
                continue;
            }
            for part in line.split("](").skip(1) {
                let target = part.split(')').next().unwrap_or("").split('#').next().unwrap_or("");
                let is_local = !target.is_empty() && !target.contains("://");
                if is_local && !path.parent().unwrap().join(target).exists() {
                    broken.push(format!("{}:{n}: {target}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn each_page_is_in_the_summary() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for (path, _) in documents() {
        let Ok(page) = path.strip_prefix(root().join("docs")) else { continue };
        let page = page.to_str().unwrap();
        assert!(page == "SUMMARY.md" || summary.contains(&format!("({page})")), "{page} is in no list");
    }
}

/// The arguments of each `jportal` command in a fence.
fn commands(text: &str) -> Vec<Vec<String>> {
    let command = |line: &str| {
        let line = line.trim_start_matches("$ ").split(" #").next()?.split(" > ").next()?.trim();
        let rest = line.strip_prefix("build/bin/jportal ").or_else(|| line.strip_prefix("jportal "))?;
        // Output of the command itself begins with "jportal: ".
        Some(rest.split_whitespace().map(str::to_owned).collect())
    };
    lines(text).filter(|l| l.2).filter_map(|(_, line, _)| command(line)).collect()
}

#[test]
fn command_lines_are_accepted() {
    let scratch = tempfile::tempdir().unwrap();
    let mut count = 0;
    for (path, text) in documents() {
        for arguments in commands(&text) {
            // No file is there, and no JDK: a command that understands its arguments says so.
            let mut command = Command::new(env!("CARGO_BIN_EXE_jportal"));
            let output = command.args(&arguments).current_dir(scratch.path());
            let output = output.env("JPORTAL_JAVA_HOME", "/nonexistent").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let place = path.display();
            assert!(!said.contains("try '--help'"), "{place}: {arguments:?}: {said}");
            let done = output.status.success() || arguments[0] == "doctor";
            assert!(done || said.contains("error: "), "{place}: {arguments:?}: {said}");
            count += 1;
        }
    }
    assert!(count >= 15, "{count} commands in the documents");
}

#[test]
fn the_readme_is_one_page() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.lines().count() <= 150);
    let first_screen: String = text.lines().take(40).collect::<Vec<_>>().join(" ");
    assert!(first_screen.contains("has never run on real Intel PT hardware"));
}
