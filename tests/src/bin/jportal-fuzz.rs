// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-fuzz`: records random programs interpreted and compiled, and compares the flows.
//! Prints one line per program and mode.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use jportal_tests::fuzz::run::{FuzzTally, Mode, Rig};
use jportal_tests::{Result, fuzz, place};

const USAGE: &str = "usage: jportal-fuzz [--seed S] [--count N] [--mode MODE[,MODE...]] [--jdk DIR] [--jportal FILE] [--out DIR]
       jportal-fuzz --print [--seed S]
  --seed S      the first program (1)
  --count N     so many programs (10)
  --mode MODES  c1, c2, tiered, stress, each with -exact (meant where nothing stands) or -default; all; or
                turns: two modes for each program, changing with the seed (turns)
  --jdk DIR     the recording JDK (build/jdk)
  --jportal F   the command (build/bin/jportal)
  --out DIR     where the source, both captures and the report of each failure are kept (build/fuzz)
  --print       print the program and do nothing";

struct FuzzOptions {
    seed: u64,
    count: u64,
    modes: String,
    rig: Rig,
    print: bool,
}

fn options() -> Result<FuzzOptions> {
    let root = place::root();
    let mut options = FuzzOptions {
        seed: 1,
        count: 10,
        modes: "turns".into(),
        rig: Rig {
            jportal: root.join("build/bin/jportal"),
            jdk: root.join("build/jdk"),
            work: root.join("build/fuzz/work"),
            failures: root.join("build/fuzz"),
        },
        print: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--print" {
            options.print = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--seed" => options.seed = value.parse()?,
            "--count" => options.count = value.parse()?,
            "--mode" => options.modes = value,
            "--jdk" => options.rig.jdk = std::path::absolute(value)?,
            "--jportal" => options.rig.jportal = std::path::absolute(value)?,
            "--out" => {
                options.rig.failures = std::path::absolute(PathBuf::from(value))?;
                options.rig.work = options.rig.failures.join("work");
            }
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    Ok(options)
}

fn modes(text: &str, seed: u64) -> Result<Vec<Mode>> {
    match text {
        "all" => Ok(Mode::all()),
        "turns" => Ok(Mode::in_turn(seed)),
        names => names.split(',').map(str::parse).collect(),
    }
}

/// Runs the programs; returns the number of failed comparisons.
fn run(options: &FuzzOptions) -> Result<u64> {
    let rig = &options.rig;
    let mut tallies: BTreeMap<String, FuzzTally> = BTreeMap::new();
    let mut broken = 0;
    for seed in options.seed..options.seed + options.count {
        rig.compile(std::iter::once(seed))?;
        let reference = match rig.reference(seed) {
            Ok(reference) => reference,
            Err(error) => {
                println!("Fuzz{seed} interpreter: FAILED: {error}");
                broken += 1;
                continue;
            }
        };
        for mode in modes(&options.modes, seed)? {
            let outcome = rig.check(&reference, mode)?;
            println!("Fuzz{seed} {mode}: {outcome}");
            tallies.entry(mode.to_string()).or_default().add(&outcome);
        }
        // Captures are large. The files of a failure have been copied elsewhere.
        std::fs::remove_dir_all(&rig.work)?;
    }
    for (mode, tally) in &tallies {
        println!("{mode}: {} programs, {} failed, {}", tally.runs, tally.failed, figures(tally));
    }
    Ok(broken + tallies.values().map(|tally| tally.failed).sum::<u64>())
}

fn figures(tally: &FuzzTally) -> String {
    let sum = &tally.sum;
    let (matched, compiled, unresolved, hidden) = (sum.matched, sum.compiled(), sum.unresolved, sum.hidden);
    format!(
        "{matched} bytecodes equal, {compiled} of them compiled, {unresolved} unresolved, {hidden} hidden"
    )
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.print {
        print!("{}", fuzz::generate(options.seed).text);
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            println!("{failed} failed; see {}", options.rig.failures.display());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
