// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Records a program under the emulated unit or with the machine's own PT unit, optionally with
//! the oracle's log of the same run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::oracle::OracleLog;
use crate::place::Installation;
use crate::process::{self, Finished};
use crate::programs::{Program, Size};
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Time limit of a run. It only catches hangs.
pub const LIMIT: Duration = Duration::from_secs(1200);
/// Time limit at full size, at which libipt decodes gigabytes of trace.
const FULL_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// The engines that execute the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineMode {
    /// `-Xint`.
    Interpreter,
    /// The VM's default.
    Tiered,
}

impl EngineMode {
    /// The flags of `java`.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Interpreter => &["-Xint"],
            Self::Tiered => &[],
        }
    }
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The engines.
    pub mode: EngineMode,
    /// Size of the program.
    pub size: Size,
    /// Whether the emulated unit records, or else the machine's own PT unit.
    pub emulate: bool,
    /// Virtual cores of the emulated unit.
    pub cores: u32,
    /// Whether the oracle agent instruments the program.
    pub oracle: bool,
    /// Timing packets, as `jportal run --timing` names them.
    pub timing: &'static str,
    /// Further options of `jportal run`.
    pub run: Vec<String>,
    /// Further flags of `java`.
    pub flags: Vec<String>,
}

impl Plan {
    /// Small size, three cores, with the oracle, and with the coarsest clock: times in PSBs only.
    pub fn new(mode: EngineMode) -> Self {
        Self {
            mode,
            size: Size::Small,
            emulate: true,
            cores: 3,
            oracle: true,
            timing: "tsc",
            run: Vec::new(),
            flags: Vec::new(),
        }
    }
}

/// A recorded run. Its files are removed when it is dropped, unless the test is failing.
#[derive(Debug)]
pub struct RecordedRun {
    folder: Scratch,
    place: Installation,
    limit: Duration,
    /// The exit status and output of the recorded program.
    pub program: Finished,
}

impl RecordedRun {
    /// Records `program`.
    ///
    /// # Errors
    /// If `jportal run` cannot be started, hangs, or writes no capture.
    pub fn make(place: &Installation, program: &Program, plan: &Plan) -> Result<Self> {
        Self::command(place, &program.command(&place.root, &place.programs, plan.size), plan)
    }

    /// Records `java` with these arguments.
    ///
    /// # Errors
    /// As [`RecordedRun::make`].
    pub fn command(place: &Installation, arguments: &[String], plan: &Plan) -> Result<Self> {
        let folder = Scratch::new()?;
        let mut command = Command::new(&place.jportal);
        command.arg("run");
        if plan.emulate {
            command.args(["--emulate", "--cores", &plan.cores.to_string(), "--timing", plan.timing]);
            if !plan.run.iter().any(|option| option == "--on-full") {
                command.args(["--on-full", "stall"]);
            }
        }
        command.args(&plan.run).arg("--java").arg(&place.java);
        command
            .arg("-o")
            .arg(folder.path().join("capture.jportal"))
            .arg("--")
            .args(plan.mode.flags())
            .args(&plan.flags);
        if plan.oracle {
            let prepared = prepare(place, arguments, folder.path())?;
            command.arg(agent(place, folder.path(), "oracle", &format!("use={}", prepared.display())));
        }
        let limit = if plan.size == Size::Full { FULL_LIMIT } else { LIMIT };
        let program = process::run(command.args(arguments), limit)?;
        let recording = Self { folder, place: place.clone(), limit, program };
        if !recording.capture().exists() {
            return Err(
                format!("no capture; {:?}: {}", recording.program.status, recording.program.stderr).into()
            );
        }
        Ok(recording)
    }

    /// Keeps the files; returns their folder.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// The capture.
    pub fn capture(&self) -> PathBuf {
        self.folder.path().join("capture.jportal")
    }

    /// The oracle's log directory.
    pub fn oracle_directory(&self) -> PathBuf {
        self.folder.path().join("oracle")
    }

    /// A path for another file, which is removed together with the recording.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The oracle's log.
    ///
    /// # Errors
    /// If it is unreadable.
    pub fn oracle(&self) -> Result<OracleLog> {
        OracleLog::read(&self.oracle_directory())
    }

    /// Runs `jportal SUBCOMMAND CAPTURE ARGUMENTS` on this recording's capture or another one.
    ///
    /// # Errors
    /// If it cannot be started or hangs.
    pub fn jportal(&self, subcommand: &[&str], capture: &Path, arguments: &[&str]) -> Result<Finished> {
        let mut command = Command::new(&self.place.jportal);
        process::run(command.args(subcommand).arg(capture).args(arguments), self.limit)
    }

    /// Runs `jportal info --json`.
    ///
    /// # Errors
    /// If it fails or prints no JSON.
    pub fn info(&self, capture: &Path, arguments: &[&str]) -> Result<Info> {
        let finished = self.jportal(&["info", "--json"], capture, arguments)?;
        if finished.status.code() == Some(2) || finished.crashed() {
            return Err(format!("info failed, {}: {}", finished.status, finished.stderr).into());
        }
        Ok(Info(finished.json()?))
    }

    /// Runs `jportal verify --oracle --json` on a capture with this run's oracle log.
    ///
    /// # Errors
    /// If it fails or prints no JSON. A mismatch is not an error.
    pub fn verify(&self, capture: &Path, arguments: &[&str]) -> Result<VerifyOutput> {
        let oracle = self.oracle_directory();
        let oracle = oracle.to_str().ok_or("the log's path is not UTF-8")?;
        let finished =
            self.jportal(&["verify", "--json"], capture, &[&["--oracle", oracle], arguments].concat())?;
        if finished.crashed() {
            return Err(format!("verify crashed, {}: {}", finished.status, finished.stderr).into());
        }
        let code = finished.status.code().ok_or("verify was killed")?;
        let report = if code == 2 { Value::Null } else { finished.json()? };
        Ok(VerifyOutput { code, report, stderr: finished.stderr })
    }
}

/// The flag of `java` that loads the oracle agent.
fn agent(place: &Installation, folder: &Path, out: &str, option: &str) -> String {
    format!("-javaagent:{}=out={},{option}", place.oracle.display(), folder.join(out).display())
}

/// Instruments the classes in an untraced run, so that the traced run need not do it.
fn prepare(place: &Installation, arguments: &[String], folder: &Path) -> Result<PathBuf> {
    let classes = folder.join("prepared");
    let mut command = Command::new(&place.java);
    command.arg(agent(place, folder, "prepared-log", &format!("save={}", classes.display()))).args(arguments);
    let finished = process::run(&mut command, LIMIT)?;
    if !finished.status.success() {
        return Err(format!("the untraced run failed, {}: {}", finished.status, finished.stderr).into());
    }
    Ok(classes)
}

/// Output of `jportal info --json`.
#[derive(Debug)]
pub struct Info(pub Value);

/// The checker's result, from `--check` of `jportal info` or `jportal verify`.
#[derive(Debug)]
pub struct Checked {
    /// Checked bytecodes.
    pub steps: u64,
    /// Findings by rule.
    pub by_rule: BTreeMap<String, u64>,
    /// How often the checker could check less than usual, by cause.
    pub resets: BTreeMap<String, u64>,
    /// The first findings, as text.
    pub first: Vec<String>,
}

impl Checked {
    fn of(report: &Value) -> Result<Self> {
        let check = report.get("check").ok_or("the command was not asked to check")?;
        let counts = |field: &str| -> Result<BTreeMap<String, u64>> {
            Ok(serde_json::from_value(check[field].clone())?)
        };
        let (by_rule, resets) = (counts("by_rule")?, counts("resets")?);
        let steps = check["steps"].as_u64().ok_or("no number of checked bytecodes")?;
        let first = check["first"].as_array().ok_or("no list of findings")?;
        Ok(Self { steps, by_rule, resets, first: first.iter().map(Value::to_string).collect() })
    }
}

impl Info {
    /// The number at a JSON pointer.
    ///
    /// # Errors
    /// If there is none.
    pub fn number(&self, pointer: &str) -> Result<f64> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_f64)
            .ok_or_else(|| format!("no number {pointer} in {}", self.0).into())
    }

    /// The checker's result. If it has no findings, it must have checked every bytecode of the
    /// flow.
    ///
    /// # Errors
    /// If `--check` was not given, or bytecodes were not checked.
    pub fn checked(&self) -> Result<Checked> {
        let checked = Checked::of(&self.0)?;
        let bytecodes = self.bytecodes()?;
        if bytecodes == 0 || (checked.by_rule.is_empty() && checked.steps != bytecodes) {
            return Err(format!("{} of {bytecodes} bytecodes were checked", checked.steps).into());
        }
        Ok(checked)
    }

    /// Errors of the machine flow.
    ///
    /// # Errors
    /// If the field is missing.
    pub fn native_errors(&self) -> Result<u64> {
        whole(self.number("/errors/native_flow")?)
    }

    /// Contradictions between the machine flow and the metadata.
    ///
    /// # Errors
    /// If the field is missing.
    pub fn reconstruct_errors(&self) -> Result<u64> {
        whole(self.number("/errors/reconstruct")?)
    }

    /// Number of bytecodes in the flow.
    ///
    /// # Errors
    /// As [`Info::native_errors`].
    pub fn bytecodes(&self) -> Result<u64> {
        whole(self.number("/bytecodes")?)
    }
}

fn whole(value: f64) -> Result<u64> {
    format!("{value:.0}").parse().map_err(Error::from)
}

/// Output of `jportal verify --json`.
#[derive(Debug)]
pub struct VerifyOutput {
    /// Exit status: 0 equal, 1 not equal, 2 refused.
    pub code: i32,
    /// The report, null when refused.
    pub report: Value,
    /// Standard error.
    pub stderr: String,
}

impl VerifyOutput {
    /// Number of probes in the oracle's log, according to `verify`.
    ///
    /// # Errors
    /// If the field is missing.
    pub fn probes(&self) -> Result<u64> {
        self.count("probes")
    }

    /// Number of probes that matched.
    ///
    /// # Errors
    /// If the field is missing.
    pub fn matched(&self) -> Result<u64> {
        self.count("matched")
    }

    /// Errors of the machine flow, and contradictions between it and the metadata.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn errors(&self) -> Result<(u64, u64)> {
        let count = |field: &str| {
            let value = self.report["errors"][field].as_u64();
            value
                .ok_or_else(|| Error::from(format!("no errors {field:?} in {} {}", self.report, self.stderr)))
        };
        Ok((count("native_flow")?, count("reconstruct")?))
    }

    /// The checker's result. If it has no findings, it must have checked every matched probe, and
    /// each is at least one bytecode.
    ///
    /// # Errors
    /// If `--check` was not given, or bytecodes were not checked.
    pub fn checked(&self) -> Result<Checked> {
        let (checked, matched) = (Checked::of(&self.report)?, self.matched()?);
        if checked.steps == 0 || (checked.by_rule.is_empty() && checked.steps < matched) {
            return Err(format!("{} bytecodes were checked, of {matched} probes", checked.steps).into());
        }
        Ok(checked)
    }

    fn count(&self, field: &str) -> Result<u64> {
        let value = self.report.get(field).and_then(Value::as_u64);
        value.ok_or_else(|| format!("no count {field:?} in {} {}", self.report, self.stderr).into())
    }

    /// The numbers of probes by tier, as text: executed, exact, extra and unresolved ones.
    ///
    /// # Errors
    /// If the report lacks them.
    pub fn tiers(&self) -> Result<String> {
        let mut words = Vec::new();
        for tier in ["interpreter", "c1", "c2"] {
            let figures = &self.report["tiers"][tier];
            let count = |name: &str| figures[name].as_u64().ok_or_else(|| format!("no {name} of {tier}"));
            let (exact, missing, unresolved) = (count("exact")?, count("missing")?, count("unresolved")?);
            let ran = exact + missing + unresolved;
            words.push(format!(
                "{tier} {ran} exact {exact} extra {} unresolved {unresolved}",
                count("extra")?
            ));
        }
        Ok(words.join(", "))
    }

    /// Checks that every probe of every thread of `log` matched.
    ///
    /// # Errors
    /// If one did not; the error contains the first mismatch.
    pub fn require_exact(&self, log: &OracleLog) -> Result<()> {
        if let Some(error) = &log.error {
            return Err(format!("the oracle's log is incomplete: {error}").into());
        }
        let (probes, matched, hits) = (self.probes()?, self.matched()?, log.hits());
        if hits == 0 || probes != hits {
            return Err(format!("verify saw {probes} probes, the log has {hits}").into());
        }
        if self.code != 0 || matched != hits {
            let mismatch = self.report.get("first_mismatch").unwrap_or(&Value::Null);
            return Err(format!(
                "exit {}, {matched} of {hits} probes match; first mismatch: {mismatch}",
                self.code
            )
            .into());
        }
        Ok(())
    }
}
