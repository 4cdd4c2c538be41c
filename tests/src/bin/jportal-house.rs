// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-house`: counts the project's sources. See `scripts/house`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jportal_tests::{Result, house, tool};

const USAGE: &str = "usage: jportal-house [ROOT]
Counts the Rust sources: lines per file and function, lines of comments and documents over 100 columns,
banned phrases, public items without documentation, types of the same name.
Exit status: 0 the rules hold, 1 they do not (the last group is a report only), 2 a file is not readable.";

/// Names that this many types share are listed.
const LISTED: usize = 3;

fn run() -> Result<bool> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = std::env::args().nth(1).map_or_else(built, PathBuf::from);
    let house = house::count(&root)?;
    println!("lines per file        {}", house.files);
    println!("lines per function    {}", house.functions);
    println!("long lines            {}", house.long_lines.len());
    for (path, line, columns) in &house.long_lines {
        println!("  {}:{line}: {columns} columns", path.display());
    }
    println!("banned phrases        {}", house.banned.len());
    for (path, line, phrase) in &house.banned {
        println!("  {}:{line}: {phrase:?}", path.display());
    }
    println!("undocumented items    {}", house.undocumented.len());
    for (path, line, name) in &house.undocumented {
        println!("  {}:{line}: {name}", path.display());
    }
    let mut shared: Vec<_> = house.same_names.iter().map(|(name, files)| (files.len(), name)).collect();
    shared.sort_by_key(|&(n, name)| (std::cmp::Reverse(n), name));
    println!("shared type names     {}", shared.len());
    for (n, name) in shared.iter().filter(|(n, _)| *n >= LISTED) {
        println!("  {name}: {n} types");
    }
    Ok(house.long_lines.is_empty() && house.banned.is_empty() && house.undocumented.is_empty())
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
