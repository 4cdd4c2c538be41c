//! `jportal-load`: crowds of threads recorded on a busy machine, stopped and continued at random, and whether all is exact.

use std::process::ExitCode;
use std::time::Instant;

use jportal_tests::load::{Neighbours, Trial};
use jportal_tests::{Result, place};

const USAGE: &str = "usage: jportal-load [--count N] [--first N] [--rounds N] [--busy N]
  --count N   recordings (200)
  --first N   number of the first one (0)
  --rounds N  what each thread does (300)
  --busy N    busy processes beside them (4)
Recordings differ in threads (8 to 64), virtual cores, timing packets, collector, compiler and whether the process is stopped and
continued. Each must have no error, no gap, no finding of the checker, and the oracle's probes where it is on.
Exit status: 0 all were exact, 1 some were not, 2 bad usage or nothing built.";

struct Options {
    count: u64,
    first: u64,
    rounds: u32,
    busy: usize,
}

fn options() -> Result<Options> {
    let mut options = Options { count: 200, first: 0, rounds: 300, busy: 4 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--count" => options.count = value.parse()?,
            "--first" => options.first = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            "--busy" => options.busy = value.parse()?,
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    Ok(options)
}

fn run() -> Result<bool> {
    let Options { count, first, rounds, busy } = options()?;
    let Some(place) = place::installed("jportal-load") else {
        return Err("nothing is built; run scripts/setup and tests/programs/build.sh".into());
    };
    let _neighbours = Neighbours::start(busy)?;
    let (mut exact, mut trace, mut bytecodes, mut probes, mut stopped) = (0, 0, 0, 0, 0);
    for number in first..first + count {
        let trial = Trial::numbered(number, rounds);
        let begun = Instant::now();
        match trial.run(&place) {
            Ok(held) => {
                exact += 1;
                trace += held.trace;
                bytecodes += held.bytecodes;
                probes += held.probes;
                stopped += held.stopped;
                let seconds = begun.elapsed().as_secs_f64();
                println!("{number}: {trial}: exact, {} bytecodes, {seconds:.1} s", held.bytecodes);
            }
            Err(e) => println!("{number}: {e}"),
        }
    }
    println!(
        "{exact} of {count} recordings exact: {} MB of trace, {bytecodes} bytecodes, {probes} probes, stopped {stopped} times",
        trace >> 20
    );
    Ok(exact == count)
}

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
