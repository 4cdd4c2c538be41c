// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-load`: records programs with many threads on a busy machine, optionally stopping and
//! continuing them at random, and checks that every recording is exact.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use jportal_tests::load::{Held, Neighbours, Trial};
use jportal_tests::{Result, place, tool};

const USAGE: &str = "usage: jportal-load [--count N] [--first N] [--work N] [--busy N] [--jobs N]
  --count N   recordings (200)
  --first N   number of the first one (0)
  --work N    rounds of all threads of a recording together (2400)
  --busy N    busy processes beside them (4)
  --jobs N    recordings at once (1)
Recordings differ in threads (8 to 64), virtual cores, timing packets, collector, compiler, whether the oracle logs probes, and whether
the process is stopped and continued. Each must have no error, no gap, no finding of the checker, and the oracle's probes where it is on.
Exit status: 0 all were exact, 1 some were not, 2 bad usage or nothing built.";

struct LoadOptions {
    count: u64,
    first: u64,
    work: u32,
    busy: usize,
    jobs: usize,
}

fn options() -> Result<LoadOptions> {
    let mut options = LoadOptions { count: 200, first: 0, work: 2400, busy: 4, jobs: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--count" => options.count = value.parse()?,
            "--first" => options.first = value.parse()?,
            "--work" => options.work = value.parse()?,
            "--busy" => options.busy = value.parse()?,
            "--jobs" => options.jobs = value.parse::<usize>()?.max(1),
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    Ok(options)
}

fn run() -> Result<bool> {
    let LoadOptions { count, first, work, busy, jobs } = options()?;
    let Some(place) = place::installed("jportal-load") else {
        return Err("nothing is built; run scripts/setup and tests/programs/build.sh".into());
    };
    let _neighbours = Neighbours::start(busy)?;
    let next = AtomicU64::new(first);
    let exact = Mutex::new(Vec::new());
    let record = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + count {
                break;
            }
            let trial = Trial::numbered(number, work);
            let begun = Instant::now();
            match trial.run(&place) {
                Ok(held) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    println!("{number}: {trial}: exact, {} bytecodes, {seconds:.1} s", held.bytecodes);
                    exact.lock().unwrap_or_else(PoisonError::into_inner).push(held);
                }
                Err(e) => println!("{number}: {e}"),
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(record))));
    let exact = exact.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sum = |of: fn(&Held) -> u64| exact.iter().map(of).sum::<u64>();
    println!(
        "{} of {count} recordings exact: {} MB of trace, {} bytecodes, {} probes, stopped {} times",
        exact.len(),
        sum(|h| h.trace) >> 20,
        sum(|h| h.bytecodes),
        sum(|h| h.probes),
        sum(|h| h.stopped)
    );
    Ok(exact.len() as u64 == count)
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
