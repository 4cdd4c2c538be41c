// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-mutate`: runs every command on damaged or malicious captures.

use std::path::PathBuf;
use std::process::ExitCode;

use jportal_tests::mutate::{Amount, Campaign, Judge, Model, write_sample};
use jportal_tests::{Result, place, tool};

const USAGE: &str = "usage: jportal-mutate [options] [CAPTURE]
  CAPTURE        a whole capture, best a small one (one made by hand)
  --jportal PATH the command (build/bin/jportal)
  --values N     values of each field, at most 8 (8)
  --records N    records of each kind (2)
  --chunks N     changes of each kind to chunks and trace (10)
  --seed N       of what is chosen (1)
  --most N       of all changes so many at most, spread over all (0: all)
  --commands N   of the commands so many on each changed capture, in turn (all)
  --only TEXT    only changes with this in their name
  --keep DIR     where changed captures go that a command failed on
  --jobs N       at once (all processors)
  --list         only name the changes
One thing at a time is changed, with lengths and checksums right again: each field of each kind of record to its extremes, strings, lists,
heads and order of chunks, bytes of trace. No command may panic, crash, run for more than 10 s or take more memory than in proportion.
Exit status: 0 none did, 1 one did, 2 bad usage or nothing built.";

struct MutateOptions {
    capture: Option<PathBuf>,
    campaign: Campaign,
    list: bool,
}

fn options() -> Result<MutateOptions> {
    let mut campaign = Campaign::small(&place::root().join("build/bin/jportal"), Judge::commands());
    campaign.amount = Amount { values: 8, records: 2, chunks: 10 };
    let (mut capture, mut list) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--jportal" => campaign.jportal = value()?.into(),
            "--values" => campaign.amount.values = value()?.parse()?,
            "--records" => campaign.amount.records = value()?.parse()?,
            "--chunks" => campaign.amount.chunks = value()?.parse()?,
            "--seed" => campaign.seed = value()?.parse()?,
            "--most" => campaign.most = value()?.parse()?,
            "--commands" => campaign.commands = value()?.parse::<usize>()?.max(1),
            "--only" => campaign.only = value()?,
            "--keep" => campaign.keep = Some(value()?.into()),
            "--jobs" => campaign.jobs = value()?.parse()?,
            "--list" => list = true,
            name if name.starts_with("--") => return Err(format!("unknown argument {name:?}").into()),
            path => capture = Some(path.into()),
        }
    }
    Ok(MutateOptions { capture, campaign, list })
}

fn run() -> Result<bool> {
    let MutateOptions { capture, campaign, list } = options()?;
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("made.jportal");
    let capture = match capture {
        Some(path) => path,
        None => {
            write_sample(&made)?;
            made
        }
    };
    if list {
        let mut model = Model::read(&capture)?;
        model.complete()?;
        campaign.mutations(&model)?.iter().for_each(|m| println!("{}", m.name));
        return Ok(true);
    }
    let outcome = campaign.run(&capture, |failure| println!("{failure}"))?;
    let (tried, failed) = (outcome.tried, outcome.failures.len());
    println!("{tried} changes, {} commands on each: {failed} failures", campaign.commands);
    Ok(failed == 0)
}

fn main() -> ExitCode {
    tool::main(USAGE, run)
}
