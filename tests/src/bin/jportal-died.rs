// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-died`: lets recording VMs die at random moments and checks their captures.

use std::process::ExitCode;

use jportal_tests::died::{Way, die, moments};
use jportal_tests::{Result, place, tool};

const USAGE: &str = "usage: jportal-died [--count N] [--seed N] [WAY]...
  --count N  deaths of each way (100)
  --seed N   of the random moments (1)
  WAY        kill, abort, exit, fatal (all)
Each VM records a program with the oracle under the emulated unit. Its capture must be whole, hold nothing that contradicts itself, and
tell the first probes of the oracle's log, all up to where it ends; or up to a gap, where a core had not handed over all of its trace.
Exit status: 0 all did, 1 some did not, 2 bad usage or nothing built.";

fn options() -> Result<(usize, u64, Vec<Way>)> {
    let (mut count, mut seed, mut ways) = (100, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--count" => count = value()?.parse()?,
            "--seed" => seed = value()?.parse()?,
            name => {
                let way = Way::ALL.into_iter().find(|way| way.name() == name);
                ways.push(way.ok_or_else(|| format!("unknown argument {name:?}"))?);
            }
        }
    }
    Ok((count, seed, if ways.is_empty() { Way::ALL.into() } else { ways }))
}

fn run() -> Result<bool> {
    let (count, seed, ways) = options()?;
    let Some(place) = place::installed("jportal-died") else {
        return Err("nothing is built; run scripts/setup".into());
    };
    let mut failed = 0;
    for way in ways {
        let (mut well, mut probes, mut behind, mut trace, mut with_gaps) = (0, 0, 0, 0, 0);
        for after in moments(seed).take(count) {
            match die(&place, way, after) {
                Ok(left) => {
                    well += 1;
                    probes += left.probes;
                    behind += left.behind;
                    trace += left.trace;
                    with_gaps += u64::from(left.gaps > 0);
                }
                Err(e) => println!("{e}"),
            }
        }
        failed += count - well;
        println!(
            "{}: {well} of {count} captures whole and true, {with_gaps} of them with gaps, {probes} probes, {behind} behind them, {} MB of trace",
            way.name(),
            trace >> 20
        );
    }
    Ok(failed == 0)
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
