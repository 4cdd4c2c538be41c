// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-house`: counts the project's sources. See `scripts/house`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jportal_tests::{Result, house, tool};

const USAGE: &str = "usage: jportal-house [ROOT]
Counts the Rust sources: lines per file and function, public items without documentation, type names
that more than two types share. Counts in documents, and in the comments of all languages: lines over
100 columns, banned phrases.
Exit status: 0 the rules hold, 1 they do not, 2 a file is not readable.";

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
    let crowded = house.crowded_names();
    println!("shared type names     {}, of more than two types {}", house.same_names.len(), crowded.len());
    for (name, types) in &crowded {
        println!("  {name}: {types} types");
    }
    let faults = [house.long_lines.len(), house.banned.len(), house.undocumented.len(), crowded.len()];
    Ok(faults == [0; 4])
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
