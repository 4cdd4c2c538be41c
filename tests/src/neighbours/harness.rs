// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! jtreg: lists the tests, and runs them with a JDK whose `java` is the stand-in.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::CompilerMode;
use super::stand_in::StandInSettings;
use crate::{Result, process};

/// Which `java` runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Recorded under the emulated unit.
    Recorded,
    /// Under the same QEMU, without recording.
    Qemu,
    /// The JDK itself.
    Plain,
}

impl Way {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Qemu => "qemu",
            Self::Plain => "plain",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = [Self::Recorded, Self::Qemu, Self::Plain].into_iter().find(|way| way.name() == name);
        known.ok_or_else(|| format!("no way {name:?}").into())
    }
}

/// How a test ended, according to jtreg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The test passed.
    Passed,
    /// The test failed.
    Failed,
    /// The test could not be run: it did not compile, for example.
    Error,
}

/// jtreg and the paths that it needs.
#[derive(Debug, Clone)]
pub struct Harness {
    /// The command.
    pub jtreg: PathBuf,
    /// The `java` that runs jtreg itself. Debian's is used, so that a fault of the VM under test
    /// cannot hide itself.
    pub java: PathBuf,
    /// Home of the recording JDK.
    pub jdk: PathBuf,
    /// `test/hotspot/jtreg` of an OpenJDK tree.
    pub tests: PathBuf,
    /// Folder for all output.
    pub out: PathBuf,
    /// Tests that run at the same time.
    pub jobs: usize,
}

/// Time limit for listing the tests.
const LIMIT: Duration = Duration::from_secs(3600);

impl Harness {
    /// The tests below `folders` that are on no problem list, as jtreg names them.
    ///
    /// # Errors
    /// If jtreg lists no test.
    pub fn list(&self, folders: &[String]) -> Result<Vec<String>> {
        let mut command = self.jtreg(&self.jdk, "list");
        command.arg("-l").args(folders.iter().map(|folder| self.tests.join(folder)));
        let finished = process::run(&mut command, LIMIT)?;
        let text = finished.text();
        let is_test = |line: &&str| line.contains(".java") && !line.contains(' ');
        let tests: Vec<String> = text.lines().filter(is_test).map(str::to_owned).collect();
        if tests.is_empty() {
            return Err(format!("jtreg names no test: {text:.2000} {:.2000}", finished.stderr).into());
        }
        Ok(tests)
    }

    /// Runs `tests` and calls `each` with the result of a test as soon as it has ended. jtreg
    /// does not run or report a test whose requirements are not met.
    ///
    /// # Errors
    /// If jtreg cannot be run, and the errors of `each`.
    pub fn run(
        &self,
        tests: &[String],
        mode: CompilerMode,
        way: Way,
        mut each: impl FnMut(&str, Ended) -> Result<()>,
    ) -> Result<()> {
        let jdk = if way == Way::Plain { self.jdk.clone() } else { self.stand_in(mode, way)? };
        let name = format!("{}-{}", mode.name(), way.name());
        let mut command = self.jtreg(&jdk, &name);
        // The stand-in limits the program's time; jtreg's own limit must be longer.
        command.args(["-othervm", "-timeoutFactor:20", "-verbose:summary"]);
        command.arg(format!("-concurrency:{}", self.jobs));
        command.args(mode.flags().iter().map(|flag| format!("-vmoption:{flag}")));
        command.args(tests.iter().map(|test| self.tests.join(test)));
        let log = self.out.join(format!("{name}.log"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", self.jtreg.display()))?;
        let mut has_results = false;
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let line = line?;
            has_results |= line.starts_with("Test results:");
            if let Some((test, ended)) = ended(&line) {
                each(&test, ended)?;
            }
            writeln!(File::options().append(true).open(&log)?, "{line}")?;
        }
        child.wait()?;
        if has_results {
            Ok(())
        } else {
            Err(format!("jtreg gives no results; see {}", log.display()).into())
        }
    }

    fn jtreg(&self, jdk: &Path, name: &str) -> Command {
        let mut command = Command::new(&self.jtreg);
        command.env("JTREG_JAVA", &self.java);
        for (option, value) in [
            ("-jdk", jdk.to_owned()),
            ("-w", self.out.join(name)),
            ("-r", self.out.join(format!("{name}-report"))),
            ("-exclude", self.tests.join("ProblemList.txt")),
        ] {
            let mut all = std::ffi::OsString::from(format!("{option}:"));
            all.push(value);
            command.arg(all);
        }
        command.args(["-automatic", "-ignore:quiet"]);
        command
    }

    /// Creates a JDK home that links to `jdk`, except for its `java`.
    fn stand_in(&self, mode: CompilerMode, way: Way) -> Result<PathBuf> {
        let home = self.out.join(format!("jdk-{}-{}", mode.name(), way.name()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(home.join("bin"))?;
        link_all(&self.jdk, &home, "bin")?;
        link_all(&self.jdk.join("bin"), &home.join("bin"), "java")?;
        let script = format!(
            "#!/bin/sh\nexec {} --as-java {} {} {} \"$@\"\n",
            quoted(&std::env::current_exe()?),
            quoted(&self.out.join(StandInSettings::FILE)),
            mode.name(),
            way.name()
        );
        let java = home.join("bin/java");
        std::fs::write(&java, script)?;
        std::fs::set_permissions(&java, std::fs::Permissions::from_mode(0o755))?;
        Ok(home)
    }
}

/// Links all entries of `from` but one into `to`.
fn link_all(from: &Path, to: &Path, but: &str) -> Result<()> {
    for entry in std::fs::read_dir(from).map_err(|e| format!("{}: {e}", from.display()))? {
        let entry = entry?;
        if entry.file_name() != but {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Quotes a path as a word for the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Parses a line of jtreg's summary.
fn ended(line: &str) -> Option<(String, Ended)> {
    let (word, rest) = line.split_once(": ")?;
    let ended = match word {
        "Passed" => Ended::Passed,
        "FAILED" => Ended::Failed,
        "Error" => Ended::Error,
        _ => return None,
    };
    let test = rest.split_whitespace().next()?;
    test.contains(".java").then(|| (test.to_owned(), ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_summary() {
        assert_eq!(ended("Passed: a/B.java"), Some(("a/B.java".into(), Ended::Passed)));
        assert_eq!(ended("FAILED: a/B.java#id1"), Some(("a/B.java#id1".into(), Ended::Failed)));
        assert_eq!(ended("Error:  a/B.java"), Some(("a/B.java".into(), Ended::Error)));
        assert_eq!(ended("Error: Some tests failed or other problems occurred."), None);
        assert_eq!(ended("Test results: passed: 2"), None);
    }

    #[test]
    fn all_but_one_are_links() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for path in [&from, &to] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(from.join("java"), "").unwrap();
        std::fs::write(from.join("javac"), "").unwrap();
        link_all(&from, &to, "java").unwrap();
        assert!(to.join("javac").is_symlink() && !to.join("java").exists());
        assert_eq!(quoted(Path::new("/a'b")), "'/a'\\''b'");
    }
}
