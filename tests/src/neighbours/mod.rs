// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! HotSpot's own tests as programs to record: chosen at random, run by jtreg under the emulated
//! unit, and checked.
//!
//! jtreg builds and runs the tests in its usual way, but with a JDK that has a
//! [stand-in](stand_in) for `java`. The stand-in records each VM that runs the main class of a
//! test, decodes and checks the capture with `jportal`, and writes the result to a file of JSON
//! lines. It exits with the program's exit status, so jtreg judges the test as it would judge an
//! unrecorded run.

pub mod choose;
pub mod harness;
pub mod stand_in;
pub mod verdict;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// Appends a line to a file of JSON lines, in one write, because several processes may append to
/// it.
///
/// # Errors
/// If it cannot be written.
pub fn append(file: &Path, value: &Value) -> Result<()> {
    let mut out = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(out.write_all(format!("{value}\n").as_bytes())?)
}

/// The lines of such a file; none if it does not exist. Skips the torn last line of a writer that
/// was killed.
///
/// # Errors
/// If it cannot be read.
pub fn lines(file: &Path) -> Result<Vec<Value>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", file.display()).into()),
    };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The compilers that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompilerMode {
    /// The VM's default.
    Tiered,
    /// C2 alone.
    C2,
}

impl CompilerMode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiered => "tiered",
            Self::C2 => "c2",
        }
    }

    /// The VM options of the mode.
    pub const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Tiered => &[],
            Self::C2 => &["-XX:-TieredCompilation"],
        }
    }
}

impl std::str::FromStr for CompilerMode {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = [Self::Tiered, Self::C2].into_iter().find(|mode| mode.name() == name);
        known.ok_or_else(|| format!("no mode {name:?}; known: tiered, c2").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lines");
        assert!(lines(&file).unwrap().is_empty());
        append(&file, &serde_json::json!({"a": 1})).unwrap();
        append(&file, &serde_json::json!({"a": 2})).unwrap();
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"a\":").unwrap();
        assert_eq!(lines(&file).unwrap().iter().filter_map(|l| l["a"].as_u64()).collect::<Vec<_>>(), [1, 2]);
    }
}
