// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Skipped tests are counted: each prints a line and, when `JPORTAL_SKIPS` names a file, adds one to it.
//! `scripts/test` shows that file and its length.

use std::fs::OpenOptions;
use std::io::Write;

/// Counts `test` as skipped.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(path) = std::env::var_os("JPORTAL_SKIPS") {
        let line = format!("{test}: {reason}\n");
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(line.as_bytes()));
        assert!(written.is_ok(), "cannot count the skip in {}", path.to_string_lossy());
    }
}
