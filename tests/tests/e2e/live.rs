// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Recordings that jcmd starts and stops while the program runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use jportal_tests::oracle::{self, ProbeFile};
use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Running};
use jportal_tests::programs::{self, Size};
use jportal_tests::recording::LIMIT;
use jportal_tests::scratch::Scratch;

/// H2 in an endless loop, with the oracle, in a VM that is not recording at first.
pub(crate) struct LiveProgram {
    // Dropped before its folder, so that the program ends first.
    running: Running,
    folder: Scratch,
    place: Installation,
    pid: u32,
}

impl LiveProgram {
    /// Starts the program under the emulated unit.
    fn start(place: Installation, precision: &str) -> Self {
        let folder = Scratch::new().unwrap();
        let command = place.run(&folder.path().join("unused.jportal"), &["--timing", "tsc"]);
        Self::start_by(command, place, folder, precision)
    }

    /// Starts the program with the machine's own PT unit, at exact precision.
    pub(crate) fn start_native(place: Installation) -> Self {
        let mut java = Command::new(&place.java);
        java.args(["-XX:+JPortal", "-XX:JPortalSource=perf", "-XX:JPortalBufferSize=64m"]);
        Self::start_by(java, place, Scratch::new().unwrap(), "exact")
    }

    fn start_by(mut command: Command, place: Installation, folder: Scratch, precision: &str) -> Self {
        let log = folder.path().join("oracle");
        let mut java = programs::by_name("h2").unwrap().command(&place.root, &place.programs, Size::Small);
        java.push("1000000".to_owned());
        command.args(["-XX:-JPortalStart", &format!("-XX:JPortalPrecision={precision}")]);
        command.arg(format!("-javaagent:{}=out={}", place.oracle.display(), log.display())).args(java);
        let running = process::start(&mut command).unwrap();
        running.wait_for("checksum", LIMIT).unwrap();
        let pid = oracle::pid(&log).unwrap();
        Self { running, folder, place, pid }
    }

    fn jcmd(&self, words: &[&str]) -> String {
        self.place.jcmd(self.pid, words).unwrap()
    }

    /// The log of the main thread, which is the only one with probes.
    fn log(&self) -> ProbeFile {
        ProbeFile::find(&self.folder.path().join("oracle")).unwrap().expect("a log")
    }

    /// The number of probes that the main thread has hit.
    fn passed(&self) -> u64 {
        self.log().passed().unwrap()
    }

    /// Records until 20,000 more probes are hit.
    fn record(&self, name: &str) -> RecordedPart {
        let capture = self.folder.path().join(name);
        let before = self.passed();
        let answer = self.jcmd(&["JPortal.start", &format!("file={}", capture.display())]);
        assert!(answer.contains("state: recording"), "{answer}");
        let first = self.passed();
        let enough = || Ok(self.passed() > first + 20_000);
        self.running.wait_until("probes in the log", LIMIT, enough).unwrap();
        let last = self.passed();
        let answer = self.jcmd(&["JPortal.stop"]);
        assert!(answer.contains("state: stopped") && answer.contains("losses: 0"), "{answer}");
        RecordedPart { capture, before, first, last, behind: self.passed() }
    }

    /// A copy of the log with the entries of the ranges `keep`.
    fn log_of(&self, name: &str, keep: &[std::ops::Range<u64>]) -> PathBuf {
        let folder = self.folder.path().join(name);
        self.log().copy(keep, &folder).unwrap();
        folder
    }

    /// Runs `jportal verify --part` on a capture with such a log; returns exit status and report.
    fn verify(&self, capture: &Path, log: &Path) -> (Option<i32>, Value) {
        let mut command = Command::new(&self.place.jportal);
        command.args(["verify", "--json", "--part", "--allow-gaps", "--oracle"]).arg(log).arg(capture);
        let finished = process::run(&mut command, LIMIT).unwrap();
        let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
        (finished.status.code(), report)
    }
}

/// One recording, and the number of probes hit before the start command, at its answer, before
/// the stop command and at its answer.
struct RecordedPart {
    capture: PathBuf,
    before: u64,
    first: u64,
    last: u64,
    behind: u64,
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report}"))
}

fn three(program: &LiveProgram) -> Vec<RecordedPart> {
    ["a", "b", "c"].map(|name| program.record(&format!("{name}.jportal"))).into()
}

/// Checks that recording `n` has all probes between the answer to the start command and the stop
/// command, and none before the start command or after the answer to the stop command. Returns
/// the report of `jportal verify`, and its figures as text.
fn all_of(program: &LiveProgram, n: usize, part: &RecordedPart) -> (Value, String) {
    let inner = part.last - part.first;
    assert!(inner > 20_000, "recording {n}: only {inner} probes between the commands");
    let log = program.log_of(&format!("part{n}"), std::slice::from_ref(&(part.before..part.behind)));
    let (code, report) = program.verify(&part.capture, &log);
    let figures = format!("recording {n}, {inner} probes between the commands: {}", report["threads"]);
    assert_eq!(code, Some(0), "{figures}");
    for nothing in ["/errors/native_flow", "/errors/reconstruct", "/missing", "/extra"] {
        assert_eq!(count(&report, nothing), 0, "{nothing} of {figures}");
    }
    // The flow has no gaps. Only what frames that are older than the recording have begun may be
    // missing.
    let gaps: u64 = report["threads"].as_array().unwrap().iter().map(|t| count(t, "/gaps")).sum();
    let [matched, unresolved, older] =
        ["/matched", "/unresolved", "/lost_in_gaps"].map(|figure| count(&report, figure));
    assert!(gaps == 0 && older < 1000 && matched + unresolved + older >= inner, "{figures}");
    info(program, part);
    (report, figures)
}

/// At `default` precision, C2 keeps its optimisations. The flow then reports where the path is
/// not known, and is right everywhere else.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn in_default_precision_as_well() {
    let Some(place) = place::installed("in_default_precision_as_well") else { return };
    let program = LiveProgram::start(place, "default");
    for (n, part) in three(&program).iter().enumerate() {
        let (report, figures) = all_of(&program, n, part);
        assert!(count(&report, "/matched") > 10_000, "{figures}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn each_of_three_recordings_of_one_process_is_a_part_of_what_ran() {
    let Some(place) = place::installed("each_of_three_recordings_of_one_process_is_a_part_of_what_ran")
    else {
        return;
    };
    exact_parts(&LiveProgram::start(place, "exact"));
}

/// Makes three recordings, each of which must be exact. The comparison must be able to fail.
pub(crate) fn exact_parts(program: &LiveProgram) {
    let parts = three(program);
    for (n, part) in parts.iter().enumerate() {
        let (report, figures) = all_of(program, n, part);
        assert_eq!(count(&report, "/unresolved"), 0, "{figures}");
        assert!(count(&report, "/matched") >= part.last - part.first, "{figures}");
    }

    // With one probe missing from the log, or with half of the log, the comparison must fail.
    let part = &parts[0];
    let middle = part.first + (part.last - part.first) / 2;
    for (name, keep) in [
        ("without", vec![part.before..middle, middle + 1..part.behind]),
        ("half", std::iter::once(part.before..middle).collect()),
    ] {
        let (code, report) = program.verify(&part.capture, &program.log_of(name, &keep));
        assert_eq!(code, Some(1), "{name}: {}", report["threads"]);
        assert!(count(&report, "/extra") > 0, "{name}: {}", report["threads"]);
    }
}

/// Checks that the metadata at the start and the later changes do not contradict each other.
fn info(program: &LiveProgram, part: &RecordedPart) {
    let mut command = Command::new(&program.place.jportal);
    let finished = process::run(command.args(["info", "--json"]).arg(&part.capture), LIMIT).unwrap();
    let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
    assert_eq!(report.pointer("/capture/whole"), Some(&Value::Bool(true)), "{report}");
    for nothing in ["/metadata/oddities", "/metadata/refused_code", "/metadata/damaged_records", "/gaps"] {
        assert_eq!(count(&report, nothing), 0, "{nothing} of {report}");
    }
}
