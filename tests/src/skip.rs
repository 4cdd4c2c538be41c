// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Counts skipped tests: each prints a line and, if `JPORTAL_SKIPS` names a file, appends a line
//! to it. `scripts/test` shows that file and the number of its lines.

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
