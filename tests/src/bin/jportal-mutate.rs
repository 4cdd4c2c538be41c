//! `jportal-mutate`: every command on captures that are damaged, or made to do harm.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jportal_tests::mutate::{Amount, Judge, Limits, Model, Mutation, plan, write_sample};
use jportal_tests::{Result, place};

const USAGE: &str = "usage: jportal-mutate [options] [CAPTURE]
  CAPTURE        a whole capture, best a small one (one made by hand)
  --jportal PATH the command (build/bin/jportal)
  --values N     values of each field, at most 8 (8)
  --records N    records of each kind (2)
  --chunks N     changes of each kind to chunks and trace (10)
  --seed N       of what is chosen (1)
  --commands N   of the commands so many on each changed capture, in turn (all)
  --only TEXT    only changes with this in their name
  --keep DIR     where changed captures go that a command failed on
  --jobs N       at once (all processors)
  --list         only name the changes
One thing at a time is changed, with lengths and checksums right again: each field of each kind of record to its extremes, strings, lists,
heads and order of chunks, bytes of trace. No command may panic, crash, run for more than 10 s or take more memory than in proportion.
Exit status: 0 none did, 1 one did, 2 bad usage or nothing built.";

struct Options {
    capture: Option<PathBuf>,
    jportal: PathBuf,
    amount: Amount,
    seed: u64,
    commands: usize,
    only: String,
    keep: Option<PathBuf>,
    jobs: usize,
    list: bool,
}

fn options() -> Result<Options> {
    let mut o = Options {
        capture: None,
        jportal: place::root().join("build/bin/jportal"),
        amount: Amount { values: 8, records: 2, chunks: 10 },
        seed: 1,
        commands: Judge::commands(),
        only: String::new(),
        keep: None,
        jobs: std::thread::available_parallelism()?.get(),
        list: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--jportal" => o.jportal = value()?.into(),
            "--values" => o.amount.values = value()?.parse()?,
            "--records" => o.amount.records = value()?.parse()?,
            "--chunks" => o.amount.chunks = value()?.parse()?,
            "--seed" => o.seed = value()?.parse()?,
            "--commands" => o.commands = value()?.parse()?,
            "--only" => o.only = value()?,
            "--keep" => o.keep = Some(value()?.into()),
            "--jobs" => o.jobs = value()?.parse()?,
            "--list" => o.list = true,
            name if name.starts_with("--") => return Err(format!("unknown argument {name:?}").into()),
            path => o.capture = Some(path.into()),
        }
    }
    Ok(o)
}

/// Judges one change; returns what failed, in words.
fn judge_one(
    judge: &Judge,
    (number, mutation): (usize, &Mutation),
    model: &Model,
    folder: &Path,
    o: &Options,
) -> Result<Vec<String>> {
    let path = folder.join("changed.jportal");
    std::fs::write(&path, mutation.apply(model))?;
    let all = Judge::commands();
    let failures = judge.judge(&path, folder, |n| (n + all - number % all) % all < o.commands)?;
    if let Some(keep) = o.keep.as_ref().filter(|_| !failures.is_empty()) {
        std::fs::copy(&path, keep.join(format!("{number}.jportal")))?;
    }
    Ok(failures.iter().map(|f| format!("{number}: {}: {}: {}", mutation.name, f.command, f.what)).collect())
}

fn run() -> Result<bool> {
    let o = options()?;
    let folder = tempfile::tempdir()?;
    let base = folder.path().join("base.jportal");
    let mut model = match &o.capture {
        Some(path) => Model::read(path)?,
        None => {
            write_sample(&base)?;
            Model::read(&base)?
        }
    };
    model.complete()?;
    std::fs::write(&base, model.file(&model.chunks()))?;
    let mut mutations = plan(&model, o.seed, o.amount)?;
    mutations.retain(|m| m.name.contains(&o.only));
    if o.list {
        mutations.iter().for_each(|m| println!("{}", m.name));
        return Ok(true);
    }
    if let Some(keep) = &o.keep {
        std::fs::create_dir_all(keep)?;
        std::fs::copy(&base, keep.join("base.jportal"))?;
    }
    let judge = Judge::new(&o.jportal, &base, Limits::default())?;
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let broken = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..o.jobs {
            scope.spawn(|| {
                let work = || -> Result<()> {
                    let folder = tempfile::tempdir()?;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(mutation) = mutations.get(number) else { return Ok(()) };
                        let failures = judge_one(&judge, (number, mutation), &model, folder.path(), &o)?;
                        failed.fetch_add(usize::from(!failures.is_empty()), Ordering::Relaxed);
                        failures.iter().for_each(|f| println!("{f}"));
                    }
                };
                if let Err(e) = work() {
                    *broken.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
                }
            });
        }
    });
    if let Some(e) = broken.into_inner()? {
        return Err(e);
    }
    let failed = failed.into_inner();
    println!("{} changes, {} commands on each: {failed} of them made one fail", mutations.len(), o.commands);
    Ok(failed == 0)
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
