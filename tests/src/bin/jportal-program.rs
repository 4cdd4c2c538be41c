// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-program [NAME small|full]`: prints the arguments of `java` that run a test program,
//! one per line. Without arguments, prints the names of the real programs. Scripts use it.

use std::process::ExitCode;

use jportal_tests::place;
use jportal_tests::programs::{self, Size};

const USAGE: &str = "usage: jportal-program [NAME small|full]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, size) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            programs::WORKLOADS.iter().for_each(|p| println!("{}", p.name));
            return ExitCode::SUCCESS;
        }
        [name, "small"] => (name, Size::Small),
        [name, "full"] => (name, Size::Full),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Some(program) = programs::by_name(name) else {
        eprintln!("error: no program {name}; jportal-program without arguments names them");
        return ExitCode::from(2);
    };
    if let Some(missing) = program.missing() {
        eprintln!("error: {name}: {missing}; run scripts/setup");
        return ExitCode::from(2);
    }
    let root = place::root();
    program.command(&root, &root.join("build/programs"), size).iter().for_each(|a| println!("{a}"));
    ExitCode::SUCCESS
}
