// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The table of figures that `scripts/test` and `scripts/verify-all` print at the end.

use std::io::Write;

/// Prints a line, and appends it to the file that `JPORTAL_FIGURES` names, if it is set.
///
/// # Panics
/// If that file cannot be written.
pub fn figure(line: &str) {
    println!("{line}");
    if let Some(path) = std::env::var_os("JPORTAL_FIGURES") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut f| writeln!(f, "{line}")).expect("the file of figures can be written");
    }
}
