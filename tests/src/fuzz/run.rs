// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Records a random program twice, interpreted and compiled, and compares the two flows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use super::generate;
use crate::against::{self, Precision, RunComparison};
use crate::process::{self, Finished};
use crate::{Error, Result};

/// The time limit of a run. A generated program needs seconds; the limit only catches hangs.
const LIMIT: Duration = Duration::from_secs(1200);

/// The engines that execute a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// C1 alone, without profiling.
    C1,
    /// C2 alone.
    C2,
    /// Interpreter, C1 and C2, as the VM's policy decides.
    Tiered,
    /// C2 alone, with its decisions about order randomised (`-XX:+StressLCM` and others).
    Stress,
}

/// One way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// The compilers.
    pub engine: Engine,
    /// The promise about paths.
    pub precision: Precision,
}

const ENGINES: [(&str, Engine); 4] =
    [("c1", Engine::C1), ("c2", Engine::C2), ("tiered", Engine::Tiered), ("stress", Engine::Stress)];
const PRECISIONS: [Precision; 2] = [Precision::Exact, Precision::Default];

impl Mode {
    /// Every mode.
    pub fn all() -> Vec<Self> {
        let with = |precision| ENGINES.iter().map(move |&(_, engine)| Self { engine, precision });
        PRECISIONS.into_iter().flat_map(with).collect()
    }

    /// One mode of each precision, chosen so that a few consecutive seeds cover all modes.
    pub fn in_turn(seed: u64) -> Vec<Self> {
        let engine = |n: u64| ENGINES[(n % 4) as usize].1;
        vec![
            Self { engine: engine(seed), precision: Precision::Exact },
            Self { engine: engine(seed + 1 + seed / 4), precision: Precision::Default },
        ]
    }

    /// The flags of `java` for the program of `seed`: methods are compiled early, and the program
    /// waits for each compilation.
    fn flags(self, seed: u64) -> Vec<String> {
        const SCALES: [&str; 3] = ["0.1", "0.05", "0.02"];
        let mut flags = vec!["-Xbatch".to_owned()];
        flags.push(format!("-XX:CompileThresholdScaling={}", SCALES[(seed % 3) as usize]));
        let engine: &[&str] = match self.engine {
            Engine::C1 => &["-XX:TieredStopAtLevel=1"],
            Engine::C2 => &["-XX:-TieredCompilation"],
            Engine::Tiered => &[],
            Engine::Stress => &[
                "-XX:-TieredCompilation",
                "-XX:+UnlockDiagnosticVMOptions",
                "-XX:+StressLCM",
                "-XX:+StressGCM",
                "-XX:+StressIGVN",
                "-XX:+StressCCP",
            ],
        };
        flags.extend(engine.iter().map(|&flag| flag.to_owned()));
        if self.engine == Engine::Stress {
            flags.push(format!("-XX:StressSeed={}", seed % 0x7fff_ffff + 1));
        }
        flags.push(self.precision.flag());
        flags
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = ENGINES.iter().find(|(_, e)| *e == self.engine).map_or("", |(name, _)| name);
        write!(f, "{engine}-{}", self.precision.name())
    }
}

impl FromStr for Mode {
    type Err = Error;

    /// Parses `c1-exact`, for example; `c1` means the same.
    fn from_str(text: &str) -> Result<Self> {
        let (engine, precision) = text.split_once('-').unwrap_or((text, "exact"));
        let engine = ENGINES.iter().find(|(name, _)| *name == engine);
        let precision = PRECISIONS.into_iter().find(|p| p.name() == precision);
        match (engine, precision) {
            (Some(&(_, engine)), Some(precision)) => Ok(Self { engine, precision }),
            _ => Err(format!("no mode {text:?}: c1, c2, tiered or stress, with -exact or -default").into()),
        }
    }
}

/// The tools that record and compare, and the directories for files.
#[derive(Debug, Clone)]
pub struct Rig {
    /// The command.
    pub jportal: PathBuf,
    /// The recording JDK.
    pub jdk: PathBuf,
    /// Folder for sources, classes and captures.
    pub work: PathBuf,
    /// Folder that keeps the files of failures, in one folder per failure.
    pub failures: PathBuf,
}

/// An interpreted run.
#[derive(Debug)]
pub struct Reference {
    seed: u64,
    capture: PathBuf,
    output: String,
}

impl Reference {
    /// Its capture.
    pub fn capture(&self) -> &Path {
        &self.capture
    }

    /// Removes the capture, which is large.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> Result<()> {
        Ok(std::fs::remove_file(self.capture)?)
    }
}

impl Rig {
    /// Generates and compiles the programs of these seeds.
    ///
    /// # Errors
    /// If javac refuses a program, which is a fault of the generator.
    pub fn compile(&self, seeds: impl Iterator<Item = u64>) -> Result<()> {
        std::fs::create_dir_all(&self.work)?;
        let mut javac = Command::new(self.jdk.join("bin/javac"));
        javac.args(["--release", "17", "-g", "-nowarn", "-d"]).arg(&self.work);
        for seed in seeds {
            let source = generate(seed);
            let path = self.source(seed);
            std::fs::write(&path, &source.text)?;
            javac.arg(path);
        }
        let finished = process::run(&mut javac, LIMIT)?;
        if finished.status.success() { Ok(()) } else { Err(format!("javac: {}", finished.stderr).into()) }
    }

    fn source(&self, seed: u64) -> PathBuf {
        self.work.join(format!("Fuzz{seed}.java"))
    }

    /// Records the interpreted run.
    ///
    /// # Errors
    /// If the program cannot be recorded or fails.
    pub fn reference(&self, seed: u64) -> Result<Reference> {
        let capture = self.work.join(format!("Fuzz{seed}.int.jportal"));
        let finished = self.record(seed, &["-Xint".to_owned()], &capture)?;
        if !finished.status.success() || !capture.exists() {
            return Err(format!("the interpreted run: {}: {}", finished.status, finished.stderr).into());
        }
        Ok(Reference { seed, capture, output: finished.text() })
    }

    fn record(&self, seed: u64, flags: &[String], capture: &Path) -> Result<Finished> {
        let mut command = Command::new(&self.jportal);
        command.args([
            "run",
            "--quiet",
            "--emulate",
            "--on-full",
            "stall",
            "--cores",
            "2",
            "--timing",
            "tsc",
        ]);
        command.args(["--seed", &seed.to_string(), "--java"]).arg(&self.jdk);
        // A crashing VM writes its report to its working directory.
        command.arg("-o").arg(capture).arg("--").args(flags).current_dir(&self.work);
        command.args(["-XX:-CreateCoredumpOnCrash", "-cp"]).arg(&self.work).arg(format!("Fuzz{seed}"));
        process::run(&mut command, LIMIT)
    }

    /// Runs the program of `reference` in `mode` and compares the flows. Only an obstacle to the
    /// test itself is an error. A fault of the recording or of the decoder is a failure in the
    /// result, and its files are kept.
    ///
    /// # Errors
    /// If a process cannot be started, or a file cannot be written.
    pub fn check(&self, reference: &Reference, mode: Mode) -> Result<RunComparison> {
        let seed = reference.seed;
        let capture = self.work.join(format!("Fuzz{seed}.{mode}.jportal"));
        let flags = mode.flags(seed);
        let finished = self.record(seed, &flags, &capture)?;
        let mut outcome = RunComparison::default();
        if !finished.status.success() || !capture.exists() {
            let said = finished.text() + &finished.stderr;
            outcome.failure = Some(format!("the program ended with {}\n{said}", finished.status));
        } else if finished.text() != reference.output {
            let (seen, wanted) = (finished.text(), &reference.output);
            outcome.failure = Some(format!("the program printed {seen:?}, interpreted {wanted:?}"));
        } else {
            outcome = self.compare(reference, &capture, mode.precision)?;
        }
        if let Some(failure) = &outcome.failure {
            let text = format!("seed {seed}, {mode}\njava {}\n\n{failure}\n", flags.join(" "));
            self.keep(reference, mode, &capture, &text)?;
        }
        if capture.exists() {
            std::fs::remove_file(&capture)?;
        }
        Ok(outcome)
    }

    /// Compares a capture with the reference.
    ///
    /// # Errors
    /// If `verify` cannot be started or hangs.
    pub fn compare(
        &self,
        reference: &Reference,
        capture: &Path,
        precision: Precision,
    ) -> Result<RunComparison> {
        against::compare(&self.jportal, (capture, precision), &reference.capture, LIMIT)
    }

    /// Records the program again in `mode` and keeps the capture, for tests that change it.
    ///
    /// # Errors
    /// If the program cannot be recorded or fails.
    pub fn capture(&self, reference: &Reference, mode: Mode) -> Result<PathBuf> {
        let seed = reference.seed;
        let capture = self.work.join(format!("Fuzz{seed}.{mode}.kept.jportal"));
        let finished = self.record(seed, &mode.flags(seed), &capture)?;
        if finished.status.success() { Ok(capture) } else { Err(finished.stderr.into()) }
    }

    fn keep(&self, reference: &Reference, mode: Mode, capture: &Path, report: &str) -> Result<()> {
        let folder = self.failures.join(format!("Fuzz{}.{mode}", reference.seed));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("report.txt"), report)?;
        std::fs::copy(self.source(reference.seed), folder.join(format!("Fuzz{}.java", reference.seed)))?;
        std::fs::copy(&reference.capture, folder.join("interpreted.jportal"))?;
        if capture.exists() {
            std::fs::copy(capture, folder.join("tested.jportal"))?;
        }
        Ok(())
    }
}

/// Sums over many comparisons.
#[derive(Debug, Default, Clone)]
pub struct FuzzTally {
    /// Comparisons.
    pub runs: u64,
    /// Those that failed.
    pub failed: u64,
    /// The sums of all figures.
    pub sum: RunComparison,
}

impl FuzzTally {
    /// Adds a comparison.
    pub fn add(&mut self, outcome: &RunComparison) {
        self.runs += 1;
        self.failed += u64::from(outcome.failure.is_some());
        self.sum.add(outcome);
    }
}
