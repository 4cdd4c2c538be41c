// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-seeds`: writes first inputs for the fuzz targets.

use std::path::PathBuf;
use std::process::ExitCode;

use jportal_tests::{Result, seeds, tool};

const USAGE: &str = "usage: jportal-seeds JPORTAL DIR [CAPTURE]...
  JPORTAL  the command
  DIR      where the seeds go: a folder for each target of rust-core/fuzz
  CAPTURE  a capture of a real program, for further seeds
Exit status: 0 done, 2 bad usage, or a capture cannot be read.";

fn run() -> Result<bool> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(jportal), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("JPORTAL and DIR are missing; see --help".into());
    };
    let captures: Vec<PathBuf> = arguments.collect();
    captures.iter().try_for_each(|path| seeds::check(path))?;
    let written = seeds::write(&to, &std::path::absolute(jportal)?, &captures)?;
    println!("{written} seeds");
    Ok(true)
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
