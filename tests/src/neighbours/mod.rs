// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! HotSpot's own tests as programs to record: chosen at random, run by jtreg under the emulated PT unit, and
//! checked.
//!
//! jtreg builds and runs the tests as always. The JDK that it is given has a [stand-in](stand_in) for `java`,
//! which records each VM that runs the main class of a test, has the capture decoded and checked, and writes
//! what it found to a file of JSON lines. The exit status is the program's, so jtreg judges it as it would
//! judge an unrecorded run.

pub mod choose;
pub mod harness;
pub mod stand_in;
pub mod verdict;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// Adds a line to a file of JSON lines, in one write: several processes may write to it.
///
/// # Errors
/// When it cannot be written.
pub fn append(file: &Path, value: &Value) -> Result<()> {
    let mut out = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(out.write_all(format!("{value}\n").as_bytes())?)
}

/// The lines of such a file; none if it is not there. What a killed writer left at its end is left out.
///
/// # Errors
/// When it cannot be read.
pub fn lines(file: &Path) -> Result<Vec<Value>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", file.display()).into()),
    };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// How the compilers are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As by default.
    Tiered,
    /// C2 alone.
    C2,
}

impl Mode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiered => "tiered",
            Self::C2 => "c2",
        }
    }

    /// Options of the VM.
    pub const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Tiered => &[],
            Self::C2 => &["-XX:-TieredCompilation"],
        }
    }
}

impl std::str::FromStr for Mode {
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
