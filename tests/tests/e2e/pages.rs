// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The command lines of README and the book are run, each in the order of its page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use jportal_tests::Result;
use jportal_tests::pages::{self, CommandLine};
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::recording::LIMIT;
use jportal_tests::scratch::Scratch;

/// Command lines that are not run: how they begin, and why.
const NOT_RUN: [(&str, &str); 15] = [
    ("record --pid", "needs a VM that runs; flight.rs, live.rs and cli/tests/run.rs start one"),
    (
        "dev verify CAPTURE --oracle",
        "needs the oracle's log of the same run; programs.rs runs it on each program",
    ),
    ("dev verify CAPTURE --call-trace", "needs a plan of the baselines; baselines.rs runs it"),
    ("export witnesses", "needs a plan of the baselines; baselines.rs runs it"),
    ("dev verify CAPTURE --jacoco", "needs a run under JaCoCo's agent; jacoco.rs runs it"),
    ("validate debug-info", "needs compiled code; jit.rs and debug_info.rs run it"),
    ("record --emulate -o app.jportal -- -agentpath", "needs the stacks agent; stacks.rs runs it"),
    (
        "record --emulate -o app.jportal -- -XX:JPortalPrecision=exact",
        "needs the agent of the baselines; instrumented.rs runs it",
    ),
    ("report call-tree app.jportal --map", "needs the map of an agent; instrumented.rs runs it"),
    ("record --emulate --timing cyc", "needs the stacks agent; stacks.rs runs it"),
    ("validate stacks", "needs a log of the stacks agent; stacks.rs runs it"),
    ("replay", "needs a compiled profiler; profilers.rs runs it"),
    ("report hot-methods --by inclusive --compare", "needs profiles; stacks.rs takes them and runs it"),
    ("export FORMAT", "stands for all exports; docs/exports.md has a command line for each"),
    ("COMMAND --jobs N", "stands for all commands; jobs.rs runs them"),
];

/// Words of pages, and what the test writes in their place: the page or `""` for all, the word,
/// and the words that replace it.
const WORDS: [(&str, &str, &str); 16] = [
    ("", "CAPTURE", "app.jportal"),
    ("", "TRUTH", "app.jportal"),
    ("", "INT-CAPTURE", "app.jportal"),
    ("", "LOSSY", "lossy.jportal"),
    ("", "BEFORE", "old.jportal"),
    ("", "AFTER", "new.jportal"),
    ("", "OLD.json", "old.json"),
    ("", "EVENT", "100"),
    ("", "T", "main"),
    ("", "SHELL", "bash"),
    // The page's other command line exports what perf would have recorded.
    ("docs/perf.md", "perf.data", "DIR/perf.data"),
    // H2 is a minute of trace. The end-to-end test `h2` records it.
    ("README.md", "h2.jar:workloads.jar", "app.jar"),
    ("README.md", "H2Load", "com.example.Main"),
    ("README.md", "org.h2", "com.example"),
    ("docs/exports.md", "src/main/java", "sources"),
    ("docs/exports.md", "src/main/java/", "sources/"),
];

/// The captures that pages presume. A capture of another name comes from an earlier command line
/// of the page.
const PRESUMED: [&str; 4] = ["app.jportal", "old.jportal", "new.jportal", "metadata.jportal"];

/// A folder with `app.jar`, `app.jportal`, the sources, and a result in JSON.
struct Material {
    folder: Scratch,
    place: Installation,
}

impl Material {
    fn make(place: Installation) -> Self {
        let this = Self { folder: Scratch::new().unwrap(), place };
        let java = this.place.root.join("tests/tests/e2e/java");
        let files = ["Main", "Service", "Smoke", "Foo", "FooTest"]
            .map(|n| java.join(format!("com/example/{n}.java")));
        let path = |name: &str| this.folder.path().join(name);
        let files = files.into_iter().chain([java.join("Unknown.java")]);
        std::os::unix::fs::symlink(&java, path("sources")).unwrap();
        let tool = |name: &str| Command::new(this.place.java.with_file_name(name));
        let classes = path("classes");
        this.done(tool("javac").arg("-g").arg("-d").arg(&classes).args(files));
        std::fs::copy(this.place.programs.join("examples.jar"), path("app.jar")).unwrap();
        this.done(
            tool("jar").arg("--update").arg("--file").arg(path("app.jar")).arg("-C").arg(&classes).arg("."),
        );
        let mut record = this.place.run(&path("app.jportal"), &[]);
        this.done(record.arg("-Xint").arg("-cp").arg(path("app.jar")).arg("com.example.Main"));
        let report = ["report", "call-tree", "--format", "json", "app.jportal"].map(str::to_owned);
        this.run(&report, this.folder.path(), Some("old.json")).unwrap();
        this
    }

    fn done(&self, command: &mut Command) {
        let finished = process::run(command.current_dir(self.folder.path()), LIMIT).unwrap();
        assert!(finished.status.success(), "{command:?}: {}", finished.stderr);
    }

    /// Puts what a command line reads into the folder of its page, unless it is there. The paths of
    /// these files are added to `supplied`.
    fn supply(&self, words: &[String], folder: &Path, supplied: &mut BTreeSet<PathBuf>) {
        let output = output(words);
        for (n, word) in words.iter().enumerate() {
            let to = folder.join(word);
            let from = match word.as_str() {
                _ if Some(n) == output || to.exists() => continue,
                capture if PRESUMED.contains(&capture) => "app.jportal",
                "app.jar" | "old.json" => word,
                "sources" | "sources/" => {
                    std::os::unix::fs::symlink(self.folder.path().join("sources"), &to).unwrap();
                    continue;
                }
                _ => continue,
            };
            std::fs::copy(self.folder.path().join(from), &to).unwrap();
            supplied.insert(to);
        }
    }

    /// Runs `jportal` in a folder. The exit status must be 0, but for an inexact export, and
    /// what it writes must be there.
    fn run(&self, words: &[String], folder: &Path, to: Option<&str>) -> Result<()> {
        let mut command = Command::new(&self.place.jportal);
        let finished = process::run(command.args(words).current_dir(folder), LIMIT)?;
        let status = finished.status;
        // A change of code may come at a time that perf cannot express (docs/perf.md).
        let is_inexact = words.starts_with(&["export".to_owned(), "perf-data".to_owned()])
            && status.code() == Some(1)
            && finished.text().contains("not exact");
        if !status.success() && !is_inexact || finished.crashed() {
            return Err(format!("{status}: {}", finished.stderr).into());
        }
        if let Some(name) = to {
            std::fs::write(folder.join(name), &finished.stdout)?;
        }
        let Some(name) = output(words).map(|at| words[at].as_str()).or(to) else {
            let printed = !finished.stdout.is_empty();
            return if printed {
                Ok(())
            } else {
                Err(format!("printed nothing: {}", finished.stderr).into())
            };
        };
        let path = folder.join(name);
        let has_content =
            if path.is_dir() { path.read_dir()?.next().is_some() } else { process::size(&path) > 0 };
        if has_content { Ok(()) } else { Err(format!("{name} is missing or empty").into()) }
    }
}

/// The place of the word that names the output.
fn output(words: &[String]) -> Option<usize> {
    if words[0] == "man" || words.starts_with(&["dev".to_owned(), "pages".to_owned()]) {
        return Some(words.len() - 1);
    }
    words.iter().take_while(|w| *w != "--").position(|w| w == "-o" || w == "--output").map(|at| at + 1)
}

/// The words that the test gives to the command. Adds those of [`WORDS`] that it replaced.
fn replaced(line: &CommandLine, used: &mut BTreeSet<&'static str>) -> Vec<String> {
    let mut replacement = |word: &String| {
        let found =
            WORDS.iter().find(|(page, from, _)| (page.is_empty() || line.page == *page) && word == from);
        found.map(|(_, from, to)| {
            used.insert(from);
            (*to).to_owned()
        })
    };
    line.words.iter().map(|word| replacement(word).unwrap_or_else(|| word.clone())).collect()
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn command_lines_of_pages_run() {
    let Some(place) = place::installed("command_lines_of_pages_run") else { return };
    let lines = pages::command_lines(&place.root).unwrap();
    let material = Material::make(place);
    let (mut used, mut listed, mut done) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut supplied, mut failed) = (BTreeSet::new(), Vec::new());
    for line in &lines {
        let written = line.words.join(" ");
        if let Some((begin, reason)) = NOT_RUN.iter().find(|(begin, _)| written.starts_with(begin)) {
            println!("{}:{}: not run: jportal {written}: {reason}", line.page, line.line);
            listed.insert(*begin);
            continue;
        }
        let folder = material.folder.path().join(line.page.replace('/', "-"));
        std::fs::create_dir_all(&folder).unwrap();
        let words = replaced(line, &mut used);
        // A command line that only prints what every page has need not run for each page.
        let is_own = |path: PathBuf| path.is_file() && !supplied.contains(&path);
        let reads_own = words.iter().any(|word| is_own(folder.join(word)));
        let writes = output(&words).is_some() || line.to.is_some();
        if !writes && !reads_own && !done.insert(words.clone()) {
            continue;
        }
        println!("{}:{}: jportal {}", line.page, line.line, words.join(" "));
        material.supply(&words, &folder, &mut supplied);
        let started = std::time::Instant::now();
        if let Err(error) = material.run(&words, &folder, line.to.as_deref()) {
            failed.push(format!("{}:{}: jportal {}: {error}", line.page, line.line, words.join(" ")));
        }
        if let Some(at) = output(&words) {
            supplied.remove(&folder.join(&words[at]));
        }
        println!("    {:.1} s", started.elapsed().as_secs_f64());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(listed.len(), NOT_RUN.len(), "stale reasons: only {listed:?} begin command lines");
    assert_eq!(used.len(), WORDS.len(), "stale words: only {used:?} are in command lines");
}
