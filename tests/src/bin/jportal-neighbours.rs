// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-neighbours`: records and checks HotSpot's own tests. Prints one line per test and
//! mode.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jportal_tests::neighbours::harness::{Ended, Harness, Way};
use jportal_tests::neighbours::stand_in::{self, StandInSettings};
use jportal_tests::neighbours::verdict::{TestVerdict, Unrecorded};
use jportal_tests::neighbours::{CompilerMode, append, choose, lines};
use jportal_tests::{Result, place};
use serde_json::Value;

const USAGE: &str = "usage: jportal-neighbours [OPTION]... [FOLDER or TEST]...
  --seed S         the order in which tests are taken (1)
  --count N        stop when N tests are recorded (300); 0: all
  --skip N         leave out the first N tests of the order, which another run has had (0)
  --mode MODES     tiered, c2 (tiered,c2)
  --jobs N         tests that run at the same time (1)
  --limit S        seconds that a program may run (120)
  --check-limit S  seconds that its capture may be decoded and checked (300)
  --jdk DIR        the recording JDK (build/jdk)
  --jportal F      the command (build/bin/jportal)
  --source DIR     an OpenJDK 17 tree with its tests (the one that jdk-build/build.sh unpacked)
  --out DIR        results, logs and the captures in which something is wrong (build/neighbours)
  --again          record those anew that failed
FOLDER and TEST lie below test/hotspot/jtreg; by default compiler and runtime.";

/// Number of tests per invocation of jtreg.
const BATCH: usize = 8;

struct NeighbourOptions {
    seed: u64,
    count: usize,
    skip: usize,
    modes: Vec<CompilerMode>,
    again: bool,
    folders: Vec<String>,
    settings: StandInSettings,
    harness: Harness,
}

fn options() -> Result<NeighbourOptions> {
    let root = place::root();
    let (mut jdk, mut jportal) = (root.join("build/jdk"), root.join("build/bin/jportal"));
    let (mut out, mut source) = (root.join("build/neighbours"), source());
    let (mut seed, mut count, mut skip, mut jobs, mut limit, mut check_limit) = (1, 300, 0, 1, 120, 300);
    let (mut modes, mut again, mut folders) =
        (vec![CompilerMode::Tiered, CompilerMode::C2], false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            folders.push(argument);
            continue;
        }
        if argument == "--again" {
            again = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--seed" => seed = value.parse()?,
            "--skip" => skip = value.parse()?,
            "--count" => count = value.parse()?,
            "--mode" => modes = value.split(',').map(str::parse).collect::<Result<_>>()?,
            "--jobs" => jobs = value.parse()?,
            "--limit" => limit = value.parse()?,
            "--check-limit" => check_limit = value.parse()?,
            "--jdk" => jdk = value.into(),
            "--jportal" => jportal = value.into(),
            "--source" => source = value.into(),
            "--out" => out = value.into(),
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    if folders.is_empty() {
        folders = vec!["compiler".into(), "runtime".into()];
    }
    let found = |path: &Path, remedy: &str| {
        path.canonicalize().map_err(|e| format!("{}: {e}; {remedy}", path.display()))
    };
    let setup = "run scripts/setup";
    let (jdk, jportal) = (found(&jdk, setup)?, found(&jportal, setup)?);
    let tests = found(&source.join("test/hotspot/jtreg"), "name a tree with --source")?;
    let debian = root.join("build/jdk-debian/bin/java");
    std::fs::create_dir_all(&out)?;
    let out = out.canonicalize()?;
    let java = jdk.join("bin/java");
    Ok(NeighbourOptions {
        seed,
        count: if count == 0 { usize::MAX } else { count },
        skip,
        modes,
        again,
        folders,
        settings: StandInSettings { jportal, java: java.clone(), limit, check_limit, out: out.clone() },
        harness: Harness {
            jtreg: std::env::var_os("JTREG_HOME")
                .map_or("/usr/share/jtreg".into(), PathBuf::from)
                .join("bin/jtreg"),
            java: if debian.exists() { debian } else { java },
            jdk,
            tests,
            out,
            jobs,
        },
    })
}

/// The directory into which `jdk-build/build.sh` unpacks OpenJDK.
fn source() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = variable("JPORTAL_CACHE").or_else(|| {
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        Some(caches?.join("jportal"))
    });
    cache.unwrap_or_default().join("work-release/src")
}

/// The verdicts, by test and mode.
type Verdicts = BTreeMap<(String, &'static str), Value>;

struct Session {
    options: NeighbourOptions,
    results: PathBuf,
    verdicts: Verdicts,
}

impl Session {
    /// Continues with the results of earlier sessions.
    fn open(options: NeighbourOptions) -> Result<Self> {
        let results = options.harness.out.join("results.jsonl");
        let mut verdicts = Verdicts::new();
        for line in lines(&results)? {
            for mode in [CompilerMode::Tiered, CompilerMode::C2] {
                if let (Some(test), Some(name)) = (line["test"].as_str(), line["mode"].as_str())
                    && name == mode.name()
                {
                    verdicts.insert((test.to_owned(), mode.name()), line.clone());
                }
            }
        }
        if options.again {
            verdicts.retain(|_, line| line["verdict"] != "failed");
        }
        options.settings.write()?;
        Ok(Self { options, results, verdicts })
    }

    fn known(&self, test: &str, mode: CompilerMode) -> Option<&Value> {
        self.verdicts.get(&(test.to_owned(), mode.name()))
    }

    fn is_recorded(&self, test: &str) -> bool {
        let recorded =
            |mode: &CompilerMode| self.known(test, *mode).is_some_and(|line| line["verdict"] != "skipped");
        self.options.modes.iter().any(recorded)
    }

    fn note(&mut self, test: &str, mode: CompilerMode, verdict: &TestVerdict, runs: &[Value]) -> Result<()> {
        let line = verdict.line(test, mode.name(), runs);
        append(&self.results, &line)?;
        self.verdicts.insert((test.to_owned(), mode.name()), line);
        Ok(())
    }

    /// Runs the tests in order until `count` tests are recorded; returns the tests taken.
    fn all(&mut self) -> Result<Vec<String>> {
        let listed = self.options.harness.list(&self.options.folders)?;
        let order = choose::shuffle(listed, self.options.seed);
        println!("{} tests, order of seed {}", order.len(), self.options.seed);
        let (mut taken, mut batch, mut recorded) = (Vec::new(), Vec::new(), 0);
        let mut order = order.into_iter().skip(self.options.skip).peekable();
        while recorded + batch.len() < self.options.count
            && let Some(test) = order.next()
        {
            taken.push(test.clone());
            match choose::refuse(&self.options.harness.tests, &test)? {
                Some(reason) => self.skip(&test, reason)?,
                None => batch.push(test),
            }
            if batch.len() == BATCH || recorded + batch.len() == self.options.count || order.peek().is_none()
            {
                for mode in self.options.modes.clone() {
                    let open = |test: &&String| self.known(test, mode).is_none();
                    let tests: Vec<String> = batch.iter().filter(open).cloned().collect();
                    self.batch(&tests, mode)?;
                }
                recorded += batch.drain(..).filter(|test| self.is_recorded(test)).count();
                eprintln!("{recorded} tests recorded, {} skipped", taken.len() - recorded);
            }
        }
        Ok(taken)
    }

    fn skip(&mut self, test: &str, reason: &str) -> Result<()> {
        for mode in self.options.modes.clone() {
            if self.known(test, mode).is_none() {
                self.note(test, mode, &TestVerdict::Skipped(reason.into()), &[])?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, tests: &[String], mode: CompilerMode) -> Result<()> {
        if tests.is_empty() {
            return Ok(());
        }
        let runs = self.options.settings.out.join(StandInSettings::RUNS);
        let _ = std::fs::remove_file(&runs);
        let mut open: BTreeSet<&String> = tests.iter().collect();
        self.options.harness.clone().run(tests, mode, Way::Recorded, |test, ended| {
            open.retain(|other| *other != test);
            self.judge(test, mode, Some(ended), &lines(&runs)?)
        })?;
        open.iter().try_for_each(|test| self.judge(test, mode, None, &[]))
    }

    fn judge(&mut self, test: &str, mode: CompilerMode, ended: Option<Ended>, runs: &[Value]) -> Result<()> {
        let own: Vec<Value> = runs.iter().filter(|run| run["test"] == test).cloned().collect();
        let verdict = TestVerdict::of(ended, &own, || self.unrecorded(test, mode))?;
        print(test, mode, &verdict, &own);
        self.note(test, mode, &verdict, &own)
    }

    fn unrecorded(&self, test: &str, mode: CompilerMode) -> Result<Unrecorded> {
        let passes = |way| -> Result<bool> {
            let mut passed = false;
            self.options.harness.run(&[test.to_owned()], mode, way, |_, ended| {
                passed = ended == Ended::Passed;
                Ok(())
            })?;
            Ok(passed)
        };
        Ok(match (passes(Way::Qemu)?, passes(Way::Plain)?) {
            (true, _) => Unrecorded::Passes,
            (false, true) => Unrecorded::FailsUnderQemu,
            (false, false) => Unrecorded::Fails,
        })
    }

    /// Prints totals for the given tests; returns the number of failed ones.
    fn summary(&self, taken: &[String]) -> usize {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut reasons, mut faults) = (BTreeMap::new(), BTreeMap::new());
        let mut bytecodes = 0;
        for (test, mode) in taken.iter().flat_map(|t| self.options.modes.iter().map(move |m| (t, *m))) {
            let Some(line) = self.known(test, mode) else { continue };
            let verdict = line["verdict"].as_str().unwrap_or_default();
            *counts.entry(verdict).or_default() += 1;
            let detail = line["detail"].as_str().unwrap_or_default();
            match verdict {
                "skipped" => *reasons.entry(detail).or_insert(0) += 1,
                "failed" => {
                    for fault in detail.split(", ") {
                        *faults
                            .entry(fault.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
                            .or_insert(0) += 1;
                    }
                }
                _ => {}
            }
            let runs = line["runs"].as_array().into_iter().flatten();
            bytecodes += runs.filter_map(|run| run["bytecodes"].as_u64()).sum::<u64>();
        }
        let table = |title: &str, rows: &BTreeMap<&str, i32>| {
            if !rows.is_empty() {
                println!("{title}");
            }
            for (name, n) in rows {
                println!("{n:>6}  {name}");
            }
        };
        table("skipped because", &reasons);
        table("failed with", &faults);
        let of = |verdict| counts.get(verdict).copied().unwrap_or(0);
        println!("{bytecodes} bytecodes; results: {}", self.results.display());
        println!("{} passed, {} failed, {} skipped", of("passed"), of("failed"), of("skipped"));
        of("failed")
    }
}

fn print(test: &str, mode: CompilerMode, verdict: &TestVerdict, runs: &[Value]) {
    let sum = |name: &str| runs.iter().filter_map(|run| run[name].as_u64()).sum::<u64>();
    let seconds: f64 = runs.iter().filter_map(|run| run["seconds"].as_f64()).sum();
    let detail = verdict.detail();
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    println!(
        "{test} {}: {}{detail} ({} bytecodes, {} unresolved, {seconds:.0} s)",
        mode.name(),
        verdict.name(),
        sum("bytecodes"),
        sum("unresolved")
    );
}

/// Runs as the stand-in for `java`. The arguments are `SETTINGS MODE WAY ARGUMENT...`.
fn as_java(arguments: &[OsString]) -> Result<u8> {
    let [settings, mode, way, rest @ ..] = arguments else {
        return Err("--as-java is for the stand-in".into());
    };
    let word = |text: &OsString| text.to_string_lossy().into_owned();
    stand_in::run(&StandInSettings::read(Path::new(settings))?, word(mode).parse()?, word(way).parse()?, rest)
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--as-java") {
        return as_java(&arguments[1..]).map_or_else(
            |error| {
                eprintln!("stand-in for java: {error}");
                ExitCode::from(2)
            },
            ExitCode::from,
        );
    }
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = Session::open(options).and_then(|mut session| {
        let taken = session.all()?;
        Ok(session.summary(&taken))
    });
    match done {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
