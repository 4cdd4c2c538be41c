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

/// The names of all tests below a folder, each with its file. In `subjects!` and similar macros
/// a test is a name before a string.
fn tests_in(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                let end = |c: char| !c.is_alphanumeric() && c != '_';
                if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
                    found.push((path.clone(), rest.split(end).next().unwrap_or_default().to_owned()));
                } else if let Some((name, _)) = line.split_once(" = \"").filter(|_| line.ends_with(';')) {
                    found.push((path.clone(), name.to_owned()));
                }
                is_test = line.starts_with("#[test]") || is_test && line.starts_with("#[");
            }
        }
    }
}

/// The spans of code of a cell.
fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// What is wrong with the names of tests in a cell. A name is `CRATE::TEST` or `CRATE::FILE::TEST`.
fn unknown_tests(cell: &str) -> Vec<String> {
    let is_known = |span: &&str| {
        let parts: Vec<&str> = span.split("::").collect();
        let folder = match parts[0] {
            "e2e" => root().join("tests/tests/e2e"),
            name => root().join("rust-core").join(name),
        };
        let mut tests = Vec::new();
        tests_in(&folder, &mut tests);
        let file = (parts.len() == 3).then(|| format!("{}.rs", parts[1]));
        let is_in = |path: &Path| file.as_ref().is_none_or(|file| path.ends_with(file));
        parts.len() > 1 && tests.iter().any(|(path, name)| name == parts[parts.len() - 1] && is_in(path))
    };
    spans(cell).filter(|span| !is_known(span)).map(|span| format!("no test {span}")).collect()
}

/// What is wrong with the commands in a cell. Each is words and options without values.
fn unknown_commands(cell: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for span in spans(cell) {
        let (options, words): (Vec<&str>, Vec<&str>) =
            span.split_whitespace().partition(|word| word.starts_with("--"));
        let output = Command::new(env!("CARGO_BIN_EXE_jportal")).args(&words).arg("--help").output().unwrap();
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() || !help.contains(&format!("Usage: jportal {}", words.join(" "))) {
            wrong.push(format!("no command {span}"));
        }
        let has =
            |option: &&str| help.split(|c: char| !c.is_alphanumeric() && c != '-').any(|w| w == *option);
        wrong.extend(
            options.iter().filter(|o| !has(o)).map(|o| format!("no option {o} of {}", words.join(" "))),
        );
    }
    wrong
}

#[test]
fn the_table_of_clients_names_commands_and_tests_that_exist() {
    assert_eq!(unknown_tests("`cli::links_lead_to_files`, `cli::documents::links_lead_to_files`"), [""; 0]);
    assert_eq!(unknown_tests("`e2e::equality::javac`"), ["no test e2e::equality::javac"]);
    assert_eq!(unknown_commands("`report nothing`, `report paths --cuts`").len(), 2);

    let text = std::fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let mut wrong = Vec::new();
    let mut rows = Vec::new();
    for (n, line, _) in lines(&text) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &["", row, command, test, status, ""] = cells.as_slice() else { continue };
        if row == "row" || row.starts_with('-') {
            continue;
        }
        rows.push(row.split(' ').next().unwrap_or_default());
        let mut faults = [unknown_commands(command), unknown_tests(test)].concat();
        let (word, reason) = status.split_once(": ").unwrap_or((status, ""));
        let is_sound = match word {
            "yes" => !command.is_empty() && !test.is_empty(),
            "part" => !test.is_empty() && !reason.is_empty(),
            "no" => test.is_empty() && !reason.is_empty(),
            _ => false,
        };
        faults.extend((!is_sound).then(|| format!("the status {status} does not fit the row")));
        wrong.extend(faults.into_iter().map(|fault| format!("{n}: {row}: {fault}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for section in ["2c", "2d", "3c", "4c", "4d", "6d", "9"] {
        assert!(rows.contains(&section), "no row of section {section}");
    }
    let examples: Vec<String> = (1..=10).map(|n| format!("E{n}")).collect();
    assert_eq!(rows.iter().filter(|row| row.starts_with('E')).copied().collect::<Vec<_>>(), examples);
}
