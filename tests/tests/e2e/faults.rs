// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Each planted fault must make a check fail ("red") that passes ("green") on the untouched
//! capture.
//!
//! Many faults in compiled code are harmless: the code never runs, or the affected path is not
//! taken. Such a fault leaves the flow as it was, event by event. A fault that changes the flow
//! and leaves `verify` green is missed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jportal_capture::schema::patch_reasons;
use jportal_tests::Result;
use jportal_tests::against::{self, Precision};
use jportal_tests::fault::{self, Fault};
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use serde_json::Value;

/// Whether `info` or `verify` finds something wrong with `capture`.
fn red(recording: &RecordedRun, capture: &Path) -> Result<bool> {
    let info = recording.info(capture, &[])?;
    let verdict = recording.verify(capture, &[])?;
    Ok(info.native_errors()? + info.reconstruct_errors()? > 0 || verdict.code != 0)
}

fn planted_red(recording: &RecordedRun, fault: &Fault) -> Result<bool> {
    let copy = recording.file("faulty.jportal");
    let change = fault::plant(&recording.capture(), &copy, fault)?;
    let red = red(recording, &copy)?;
    println!("{fault:?}: {change}: {}", if red { "found" } else { "not found" });
    std::fs::remove_file(&copy)?;
    Ok(red)
}

/// The checker's findings by rule in a copy with `fault`; `None` if there are none.
fn broken_rules(recording: &RecordedRun, fault: &Fault) -> Result<Option<BTreeMap<String, u64>>> {
    let copy = recording.file("faulty.jportal");
    fault::plant(&recording.capture(), &copy, fault)?;
    let by_rule = recording.info(&copy, &["--check"])?.checked()?.by_rule;
    if !by_rule.is_empty() {
        let said = recording.jportal(&["info", "--check"], &copy, &[])?;
        let text = said.text();
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(by_rule.keys().any(|rule| text.contains(&format!("\n{rule}: thread "))), "{text}");
    }
    std::fs::remove_file(&copy)?;
    println!("{fault:?}: the checker finds {by_rule:?}");
    Ok(Some(by_rule).filter(|rules| !rules.is_empty()))
}

fn record(test: &str, program: &str, mode: EngineMode) -> Option<RecordedRun> {
    let place = place::installed(test)?;
    let program = programs::by_name(program).expect("a program of that name");
    Some(RecordedRun::make(&place, &program, &Plan::new(mode)).expect("the program can be recorded"))
}

/// A red copy proves something only if the untouched capture is green.
fn require_green(recording: &RecordedRun) {
    assert!(!red(recording, &recording.capture()).unwrap(), "the untouched capture is already red");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_turned_branch_is_found() {
    let Some(recording) = record("a_turned_branch_is_found", "branches", EngineMode::Interpreter) else {
        return;
    };
    require_green(&recording);
    let packets = fault::count_tnt(&recording.capture()).unwrap();
    let tries = 8;
    let found = (0..tries)
        .map(|i| planted_red(&recording, &Fault::FlipTnt { n: packets * (2 * i + 1) / (2 * tries) }).unwrap())
        .filter(|&red| red)
        .count();
    // The two paths of a branch around a store barrier or a counter join at once, so inverting it
    // does not change the bytecodes. Most branches of the interpreter are of another kind.
    assert!(found > tries / 2, "only {found} of {tries} turned branches showed");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_shifted_template_is_found() {
    let Some(recording) = record("a_shifted_template_is_found", "branches", EngineMode::Interpreter) else {
        return;
    };
    require_green(&recording);
    // A template begins with entries for other stack states. With its start moved by 64 bytes,
    // its own entry is outside of it.
    for codelet in ["iload_1", "invokestatic", "if_icmpge"] {
        assert!(
            planted_red(&recording, &Fault::ShiftTemplate { codelet: codelet.into(), by: 64 }).unwrap(),
            "{codelet}"
        );
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_dropped_patch_record_is_found() {
    let Some(traps) = Traps::new("a_dropped_patch_record_is_found") else { return };
    let kind = |n| Fault::DropPatch { n, reason: patch_reasons::CALL };
    require_found(&shares(&traps.with_probes(&[]), kind, 4).unwrap());
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_method_stub_of_another_method_is_found() {
    let Some(recording) =
        record("a_method_stub_of_another_method_is_found", "calls", EngineMode::Interpreter)
    else {
        return;
    };
    require_green(&recording);
    // Stubs are created class by class: those of the program's own classes are among the last
    // ones.
    let count = fault::count_stubs(&recording.capture()).unwrap();
    assert!(count > 200, "{count} stubs");
    let found = (1..=40).any(|i| planted_red(&recording, &Fault::SwapStub { n: count - 5 * i }).unwrap());
    assert!(found, "no swapped stub showed");
    // The checker finds the fault without the oracle: the callee does not fit the call.
    assert!(
        recording.info(&recording.capture(), &["--check"]).unwrap().checked().unwrap().by_rule.is_empty()
    );
    let found =
        (1..=40).find_map(|i| broken_rules(&recording, &Fault::SwapStub { n: count - 5 * i }).unwrap());
    assert!(found.as_ref().is_some_and(|rules| rules.contains_key("callee")), "{found:?}");
}

/// A fault on the oracle's side: one id is missing from one log.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_missing_probe_is_found() {
    let Some(recording) = record("a_missing_probe_is_found", "threads", EngineMode::Interpreter) else {
        return;
    };
    require_green(&recording);
    let log = std::fs::read_dir(recording.oracle_directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "probes"))
        // The files have room for more probes. In the log of a short thread, the removed entry
        // could be unused.
        .max_by_key(|path| std::fs::read(path).unwrap().iter().filter(|&&byte| byte != 0).count())
        .unwrap();
    let whole = std::fs::read(&log).unwrap();
    let mut bytes = whole.clone();
    bytes.drain(32 + 40..32 + 44);
    std::fs::write(&log, bytes).unwrap();
    assert!(red(&recording, &recording.capture()).unwrap());
    std::fs::remove_file(&log).unwrap();
    assert!(red(&recording, &recording.capture()).unwrap(), "a thread without a log");
}

/// The effects of the faults of one kind.
#[derive(Debug, Default)]
struct Share {
    harmless: usize,
    /// Faults that change the flow.
    harmful: usize,
    /// Harmful faults that turn `verify` red, without the checker.
    verify: usize,
    /// Harmful faults for which the checker reports that no JVM could have executed the flow.
    checker: usize,
    /// Harmful faults that the decoder reports: packets contradict the code, or more stretches
    /// are unresolved, or `verify` counts the same because the flow around a gap is right. The
    /// checker may find nothing then.
    gaps: usize,
    /// Descriptions of the harmful faults that leave `verify` green.
    missed: Vec<String>,
}

impl Share {
    fn add(&mut self, judged: &Judgement, clean: &Judgement, said: String) {
        self.harmful += 1;
        let reported =
            judged.undecoded > 0.0 || judged.unresolved > clean.unresolved || judged.figures == clean.figures;
        self.gaps += usize::from(judged.red && reported);
        self.verify += usize::from(judged.red);
        self.checker += usize::from(judged.findings > 0);
        if !judged.red {
            self.missed.push(said);
        }
    }
}

fn jportal() -> PathBuf {
    place::root().join("build/bin/jportal")
}

/// The length of the printed flow of the main thread, and a checksum.
fn flow(recording: &RecordedRun, capture: &Path) -> Result<(usize, u32)> {
    use std::io::Read;
    let mut child = std::process::Command::new(jportal())
        .args(["print", "--level", "bytecode", "--thread", "main"])
        .arg(capture)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let mut out = child.stdout.take().ok_or("no pipe")?;
    let (mut length, mut checksum, mut buffer) = (0, 0, vec![0; 1 << 16]);
    loop {
        let n = out.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        length += n;
        checksum = crc32c::crc32c_append(checksum, &buffer[..n]);
    }
    if !child.wait()?.success() {
        let why = recording.jportal(&["info"], capture, &[])?.stderr;
        return Err(format!("{} cannot be printed: {why}", capture.display()).into());
    }
    Ok((length, checksum))
}

/// A recording, and the reference for its copies.
struct Subject {
    recording: RecordedRun,
    /// An interpreted run of the same program; neither run has probes. If `None`, the reference
    /// is the oracle's log.
    interpreted: Option<RecordedRun>,
}

/// The results of `verify` and of the checker for a capture.
#[derive(Debug, PartialEq)]
struct Judgement {
    /// Whether the exit status of `verify` reports a difference.
    red: bool,
    /// The counts of `verify`.
    figures: String,
    /// Findings of the checker.
    findings: u64,
    /// Places where packets and code contradict each other.
    undecoded: f64,
    /// Stretches of compiled code for which several paths are possible, or none.
    unresolved: f64,
}

impl Subject {
    fn judged(&self, capture: &Path) -> Result<Judgement> {
        let (red, figures) = match &self.interpreted {
            Some(interpreted) => self.compared(capture, interpreted)?,
            None => self.verified(capture)?,
        };
        let info = self.recording.info(capture, &["--check"])?;
        let findings = info.checked()?.by_rule.values().sum();
        let [undecoded, unresolved] = [info.number("/errors/native_flow")?, info.number("/unresolved")?];
        Ok(Judgement { red, figures, findings, undecoded, unresolved })
    }

    fn verified(&self, capture: &Path) -> Result<(bool, String)> {
        let verdict = self.recording.verify(capture, &[])?;
        // The report of a mismatch includes the machine blocks around it.
        let first = &verdict.report["first_mismatch"];
        if let Some(event) = first["look_at"].as_u64() {
            self.look(capture, event, first)?;
        }
        let count = |name: &str| format!("{name} {} ", verdict.report[name]);
        Ok((verdict.code == 1, ["matched", "mismatches"].map(count).concat()))
    }

    /// Checks that the report has machine blocks around the first mismatch, and that `print
    /// --around` shows the same.
    fn look(&self, capture: &Path, event: u64, first: &Value) -> Result<()> {
        if first["machine"]["steps"].as_array().is_none_or(Vec::is_empty) {
            return Err(format!("no machine blocks around the first mismatch: {first}").into());
        }
        let (event, tid) = (event.to_string(), first["tid"].to_string());
        let arguments = ["--around", &event, "--thread", &tid];
        let printed = self.recording.jportal(&["print", "--json"], capture, &arguments)?;
        let mut shown = printed.json()?;
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("schema");
        }
        if shown != first["machine"] {
            let (status, shown) = (printed.status, printed.text());
            return Err(format!("print --around {event} ({status}) shows {shown}, not {first}").into());
        }
        Ok(())
    }

    fn compared(&self, capture: &Path, interpreted: &RecordedRun) -> Result<(bool, String)> {
        let tested = (capture, Precision::Exact);
        let outcome = against::compare(&jportal(), tested, &interpreted.capture(), LIMIT)?;
        Ok((outcome.code == Some(1), format!("{} wrong, {outcome}", outcome.wrong)))
    }
}

/// Plants faults of a kind, evenly spread over its places, until `wanted` of them have changed
/// the flow.
fn shares(subject: &Subject, kind: fn(usize) -> Fault, wanted: usize) -> Result<Share> {
    const TRIES: usize = 60;
    let recording = &subject.recording;
    let whole = flow(recording, &recording.capture())?;
    let clean = subject.judged(&recording.capture())?;
    if clean.red || clean.findings > 0 {
        return Err(format!("the untouched capture is already red: {clean:?}").into());
    }
    let places = fault::count_places(&recording.capture(), kind)?;
    let mut share = Share::default();
    let tries = TRIES.min(places);
    // Neighbouring places share code, so visit the places with a stride.
    for i in (0..tries).map(|i| (i * 37) % tries) {
        if share.harmful == wanted {
            break;
        }
        let fault = kind(places * i / tries);
        let copy = recording.file("faulty.jportal");
        let change = fault::plant(&recording.capture(), &copy, &fault)?;
        if flow(recording, &copy)? == whole {
            share.harmless += 1;
        } else {
            let now = subject.judged(&copy)?;
            let said = format!("{fault:?}: {change}: {now:?}");
            println!("{said}");
            share.add(&now, &clean, said);
        }
        std::fs::remove_file(&copy)?;
    }
    println!("{places} places; untouched {clean:?}; {share:?}");
    Ok(share)
}

/// `java/Traps.java`, which has much compiled code and deoptimises several frames at once.
struct Traps {
    place: Installation,
    classes: tempfile::TempDir,
}

impl Traps {
    fn new(test: &str) -> Option<Self> {
        let place = place::installed(test)?;
        let classes = tempfile::tempdir().expect("a folder");
        let source = place.root.join("tests/tests/e2e/java/Traps.java");
        let mut javac = std::process::Command::new(place.java.with_file_name("javac"));
        let made = process::run(javac.arg("-g").arg("-d").arg(classes.path()).arg(source), LIMIT);
        assert!(made.expect("javac runs").status.success(), "Traps.java does not compile");
        Some(Self { place, classes })
    }

    fn record(&self, plan: &Plan) -> RecordedRun {
        let classes = self.classes.path().display().to_string();
        let arguments = ["-cp".to_owned(), classes, "programs.Traps".to_owned()];
        RecordedRun::command(&self.place, &arguments, plan).expect("the program can be recorded")
    }

    /// A recording with probes, which is compared with the oracle's log.
    fn with_probes(&self, flags: &[&str]) -> Subject {
        Subject { recording: self.record(&Self::plan(flags)), interpreted: None }
    }

    /// A recording without probes, and an interpreted run to compare with. A probe would show
    /// that its block ran, wherever the block's marker is.
    fn without_probes(&self) -> Subject {
        let plan = Plan { oracle: false, ..Self::plan(&["-XX:JPortalPrecision=exact"]) };
        let interpreted = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
        Subject { recording: self.record(&plan), interpreted: Some(self.record(&interpreted)) }
    }

    fn plan(flags: &[&str]) -> Plan {
        let all = ["-Xbatch", "-XX:CompileThresholdScaling=0.05"].iter().chain(flags);
        Plan { flags: all.map(|&f| f.to_owned()).collect(), ..Plan::new(EngineMode::Tiered) }
    }
}

/// Checks that `verify` is red for every fault that changes the flow, and that the checker finds
/// some of them impossible.
fn require_found(share: &Share) {
    assert!(share.harmful >= 3, "too few of the faults changed anything: {share:?}");
    assert!(share.missed.is_empty(), "{share:?}");
    assert!(share.checker > 0 || share.gaps == share.harmful, "{share:?}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_moved_marker_is_found() {
    let Some(traps) = Traps::new("a_moved_marker_is_found") else { return };
    require_found(&shares(&traps.without_probes(), |n| Fault::MoveMarker { n }, 6).unwrap());
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_shifted_scope_is_found() {
    let Some(traps) = Traps::new("a_shifted_scope_is_found") else { return };
    require_found(&shares(&traps.with_probes(&[]), |n| Fault::ShiftScope { n }, 4).unwrap());
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_dropped_frame_of_a_deoptimisation_is_found() {
    let Some(traps) = Traps::new("a_dropped_frame_of_a_deoptimisation_is_found") else { return };
    let subject = traps.with_probes(&["-XX:-TieredCompilation"]);
    let share = shares(&subject, |n| Fault::DropFrame { n }, 3).unwrap();
    require_found(&share);
    assert_eq!(share.checker, share.harmful, "a frame too few shows in every return: {share:?}");
}
