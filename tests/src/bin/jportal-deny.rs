// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-deny`: holds the dependencies to `deny.toml`. See `scripts/deny`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jportal_tests::{Result, deny, tool};

const USAGE: &str = "usage: jportal-deny [ROOT]
Compares the licences, sources and requirements of all dependencies with ROOT/deny.toml, and lists those
that are there in several versions.
Exit status: 0 the dependencies are allowed, 1 they are not, 2 cargo failed or deny.toml is not readable.";

fn run() -> Result<bool> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = deny::check(&std::env::args().nth(1).map_or_else(built, PathBuf::from))?;
    println!("{} dependencies", found.count);
    for (name, versions) in &found.several {
        println!("warning: {name} is there as {}", Vec::from_iter(versions.iter().cloned()).join(" and "));
    }
    for fault in &found.faults {
        println!("error: {fault}");
    }
    Ok(found.faults.is_empty())
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
