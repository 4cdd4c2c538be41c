// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal validate stacks` on a real VM: the JVM's own interfaces agree with the flow, and an
//! agent that does something wrong does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::scratch::Scratch;
use serde_json::Value;

const MODES: [(&str, &[&str]); 4] = [
    ("tiered", &["-XX:CompileThresholdScaling=0.1"]),
    ("c1", &["-XX:CompileThresholdScaling=0.1", "-XX:TieredStopAtLevel=1"]),
    ("c2", &["-XX:CompileThresholdScaling=0.1", "-XX:-TieredCompilation"]),
    ("interpreter", &["-Xint"]),
];

/// What the agent does wrong, and the verdicts that are right about it.
const FAULTS: [(&str, &[&str]); 6] = [
    ("drop", &["too-few", "inline-frames-missing"]),
    ("swap", &["wrong-method"]),
    ("shift", &["wrong-location"]),
    ("stale", &["too-few", "inline-frames-missing", "too-many", "wrong-method", "wrong-location"]),
    ("native", &["wrong-nativeness"]),
    ("null", &["wrong-method"]),
];

/// Faults planted in the log of stacks taken at any moment, and the verdicts that are right about
/// them. A stack of another thread may be short.
const ASYNC_FAULTS: [(&str, &[&str]); 4] = [
    ("drop", &["too-few", "inline-frames-missing"]),
    ("shift", &["wrong-location"]),
    ("swap", &["wrong-method"]),
    (
        "thread",
        &[
            "too-few",
            "inline-frames-missing",
            "too-many",
            "wrong-method",
            "wrong-location",
            "wrong-nativeness",
        ],
    ),
];

/// A sample of a log, as `tests/stacks-agent/FORMAT.md` defines it.
#[derive(Clone)]
struct LoggedSample {
    head: [u8; 40],
    frames: Vec<[u8; 16]>,
}

impl LoggedSample {
    const ASGCT_ASYNC: u8 = 5;

    /// The header of a log, and its samples.
    fn read(bytes: &[u8]) -> (&[u8], Vec<Self>) {
        let (header, mut rest) = bytes.split_at(32);
        let mut all = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk::<40>() {
            let size = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
            let (frames, next) = after.split_at(size - head.len());
            let frames = frames.as_chunks::<16>().0.to_vec();
            all.push(Self { head: *head, frames });
            rest = next;
        }
        (header, all)
    }
    fn write(mut self, to: &mut Vec<u8>) {
        let size = self.head.len() + 16 * self.frames.len();
        self.head[..4].copy_from_slice(&(size as u32).to_le_bytes());
        if !self.frames.is_empty() {
            self.head[32..36].copy_from_slice(&(self.frames.len() as u32).to_le_bytes());
        }
        to.extend(self.head);
        self.frames.iter().for_each(|f| to.extend(f));
    }
    fn location(&self, frame: usize) -> i32 {
        i32::from_le_bytes(self.frames[frame][8..12].try_into().expect("four bytes"))
    }
    /// Makes the sample wrong in its outermost frames, in which AsyncGetCallTrace is exact.
    /// `false`: it cannot be made wrong.
    fn plant(&mut self, fault: &str, other: &[[u8; 16]]) -> bool {
        let (n, is_cut) = (self.frames.len(), self.head[5] != 0);
        if self.head[4] != Self::ASGCT_ASYNC || n < 3 || is_cut {
            return false;
        }
        let last = n - 1;
        match fault {
            "drop" => _ = self.frames.pop(),
            "shift" => {
                let shifted = self.location(last) + 1;
                self.frames[last][8..12].copy_from_slice(&shifted.to_le_bytes());
            }
            "swap" if self.frames[last][..8] == self.frames[last - 1][..8] => return false,
            "swap" => self.frames.swap(last, last - 1),
            _ if other.is_empty() || other[other.len() - 1] == self.frames[last] => return false,
            _ => self.frames = other.to_vec(),
        }
        true
    }
}

struct Stacked {
    place: Installation,
    folder: Scratch,
    /// The classes, instrumented in an untraced run.
    prepared: PathBuf,
}

impl Stacked {
    /// Compiles and instruments the program. Returns `None` after counting the test as skipped.
    fn new(test: &str) -> Option<Self> {
        let (place, folder) = compiled(test)?;
        let prepared = folder.path().join("prepared");
        let oracle = place.oracle.display();
        let unused = folder.path().join("unused");
        let agent = format!("-javaagent:{oracle}=out={},save={}", unused.display(), prepared.display());
        let mut java = Command::new(&place.java);
        let ran = process::run(java.arg(agent).arg("-cp").arg(folder.path()).args(["Stacked", "32"]), LIMIT);
        assert!(ran.expect("java runs").status.success(), "the untraced run failed");
        Some(Self { place, folder, prepared })
    }

    /// Records with the stacks agent; validates. Returns the report and the agent's own figures.
    fn validated(&self, flags: &[&str], rounds: &str, options: &str) -> (Value, Finished, String) {
        let log = Scratch::new().expect("a folder for the log");
        let library = self.place.programs.join("libjportal_stacks.so");
        let agents = [
            format!("-agentpath:{}={options}", library.display()),
            format!(
                "-javaagent:{}=out={},library={},use={}",
                self.place.oracle.display(),
                log.path().display(),
                library.display(),
                self.prepared.display()
            ),
        ];
        let flags = flags.iter().map(|&f| f.to_owned()).chain(agents).collect();
        let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
        let words = ["-cp".to_owned(), self.folder.path().display().to_string()];
        let words = [&words[..], &["Stacked".to_owned(), rounds.to_owned()]].concat();
        let recording = RecordedRun::command(&self.place, &words, &plan).expect("the program is recorded");
        assert!(recording.program.status.success(), "{}", recording.program.stderr);
        let log = log.path();
        let directory = log.to_str().expect("a path in UTF-8");
        let arguments = ["--json", "--log", directory];
        let finished = recording.jportal(&["validate", "stacks"], &recording.capture(), &arguments);
        let finished = finished.expect("validate runs");
        let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
        (report, finished, read(&log.join("stacks.tsv")))
    }

    /// Records with asynchronous stacks. Returns the recording and the directory of the log.
    fn recorded_async(&self, flags: &[&str], rounds: &str) -> (RecordedRun, Scratch) {
        let log = Scratch::new().expect("a folder for the log");
        let library = self.place.programs.join("libjportal_stacks.so");
        let agent = format!(
            "-agentpath:{}=asgct-async,gst-other,interval=300,out={}",
            library.display(),
            log.path().display()
        );
        let flags = flags.iter().map(|&f| f.to_owned()).chain([agent]).collect();
        // Stacks are matched by time.
        let plan = Plan { oracle: false, flags, timing: "cyc", ..Plan::new(EngineMode::Tiered) };
        let words = ["-cp".to_owned(), self.folder.path().display().to_string()];
        let words = [&words[..], &["Stacked".to_owned(), rounds.to_owned()]].concat();
        let recording = RecordedRun::command(&self.place, &words, &plan).expect("the program is recorded");
        assert!(recording.program.status.success(), "{}", recording.program.stderr);
        (recording, log)
    }

    /// The asynchronous stacks agree with the flow, and those in which a fault is planted do not.
    fn agree_at_any_moment(&self, mode: &str, flags: &[&str], rounds: &str) {
        let (recording, log) = self.recorded_async(flags, rounds);
        let report = validated_log(&recording, log.path(), &["--allow", "0.03"], 0);
        let [taken, judged, equal, imprecise, broken, errors, open] = async_figures(&report);
        let right = equal + imprecise;
        figure(&format!(
            "stacks-async\t{mode}\ttaken {taken}\terrors {errors}\tjudged {judged}\timprecise {imprecise}\tunpredictable {open}\tbroken {broken}"
        ));
        assert!(judged > 60, "{mode}: {judged} of {taken}");
        // Only a few instructions are places at which the source determines nothing.
        assert!(open * 10 <= judged, "{mode}: {open} of {judged} are unpredictable");
        assert!(
            judged * 100 >= (taken - errors) * 90,
            "{mode}: {judged} of {}: {}",
            taken - errors,
            report["not_judged"]
        );
        for (fault, verdicts) in ASYNC_FAULTS {
            let wrong = Scratch::new().expect("a folder for the log");
            let (planted, left) = planted_log(log.path(), wrong.path(), fault);
            assert!(planted > 50, "{mode}: {fault}: {planted} were planted");
            let report = validated_log(&recording, wrong.path(), &["--api", "asgct-async"], 1);
            let [_, _, equal, others, found, _, open] = async_figures(&report);
            let still_right = equal + others;
            // Nothing that is wrong is taken for right: what is right has no fault.
            assert!(still_right <= left, "{mode}: {fault}: {still_right} are right, {left} have no fault");
            assert!(
                found + open + left + 20 >= right,
                "{mode}: {fault}: {found} of {planted}, {right} were right"
            );
            let groups = report["groups"].as_array().expect("groups").iter();
            let as_planted: u64 = groups
                .filter(|g| g["verdict"].as_str().is_some_and(|v| verdicts.contains(&v)))
                .map(|g| count(&g["samples"]))
                .sum();
            // What was broken or imprecise before may have any verdict.
            assert!(as_planted + broken + imprecise >= found, "{mode}: {fault}: {}", report["groups"]);
        }
    }

    /// The interfaces agree with the flow.
    fn agree(&self, mode: &str, flags: &[&str], rounds: &str, check: &str) -> Value {
        let options = format!("gst,asgct,walker,throwable,check={check}");
        let (report, finished, _) = self.validated(flags, rounds, &options);
        let row = |r: &Value| format!("{} {} of {}", r["api"], r["judged"], r["samples"]);
        let rows: Vec<String> = report["apis"].as_array().expect("rows").iter().map(row).collect();
        figure(&format!("stacks\t{mode}\t{}\tbroken {}", rows.join("\t"), report["broken"]));
        assert_eq!(finished.status.code(), Some(0), "{mode}: {}", report["findings"][0]);
        assert_eq!(count(&report["broken"]), 0, "{mode}");
        // Where the stack has no room left, Java code that walks it throws a StackOverflowError.
        assert_eq!(
            report["not_judged"].as_array().map(Vec::len),
            Some(0),
            "{mode}: {}",
            report["not_judged"]
        );
        assert!(count(&report["judged"]) * 10 > count(&report["samples"]) * 9, "{mode}: {}", report["apis"]);
        report
    }

    /// The agent does something wrong: each wrong stack is found, and no other one.
    fn is_found(&self, flags: &[&str], rounds: &str, (fault, verdicts): (&str, &[&str])) {
        let options = format!("gst,asgct,fault={fault},fault-every=3");
        let (report, finished, figures) = self.validated(flags, rounds, &options);
        let planted = figures.lines().find_map(|l| l.strip_prefix("planted\t")).expect("a number");
        let planted: u64 = planted.parse().expect("a number");
        assert!(planted > 50, "{fault}: {planted} were planted");
        assert_eq!(count(&report["broken"]), planted, "{fault}");
        assert_eq!(finished.status.code(), Some(1), "{fault}: {}", finished.stderr);
        for group in report["groups"].as_array().expect("groups") {
            let verdict = group["verdict"].as_str().expect("a verdict");
            assert!(verdicts.contains(&verdict), "{fault} was found as {verdict}");
        }
    }
}

/// Compiles the program. Returns `None` after counting the test as skipped.
fn compiled(test: &str) -> Option<(Installation, Scratch)> {
    let place = place::installed(test)?;
    let folder = Scratch::new().expect("a folder for the test's files");
    let mut javac = Command::new(place.java.with_file_name("javac"));
    javac.arg("-g").arg("-d").arg(folder.path());
    let made = process::run(javac.arg(place.root.join("tests/tests/e2e/java/Stacked.java")), LIMIT);
    assert!(made.expect("javac runs").status.success(), "Stacked.java does not compile");
    Some((place, folder))
}

/// Only the events of JFR's sampler, as often as it can.
const SAMPLER: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.ExecutionSample">
    <setting name="enabled">true</setting>
    <setting name="period">1 ms</setting>
  </event>
  <event name="jdk.NativeMethodSample">
    <setting name="enabled">true</setting>
    <setting name="period">1 ms</setting>
  </event>
</configuration>
"#;

/// Moves the outermost frame of each sample, whose bci is exact, to another bci. Stacks of one
/// frame, truncated ones and those of no thread stay as they are. Returns how many were changed.
fn planted_jfr(recording: &mut Value) -> u64 {
    let mut planted = 0;
    for event in recording["recording"]["events"].as_array_mut().expect("events") {
        if event["values"]["sampledThread"].is_null() {
            continue;
        }
        let stack = &mut event["values"]["stackTrace"];
        let is_cut = stack["truncated"] != false;
        let Some(frames) = stack["frames"].as_array_mut().filter(|f| f.len() > 1 && !is_cut) else {
            continue;
        };
        let outermost = frames.last_mut().expect("a frame");
        let Some(bci) = outermost["bytecodeIndex"].as_u64() else { continue };
        if outermost["type"] != "Native" {
            outermost["bytecodeIndex"] = (bci + 1).into();
            planted += 1;
        }
    }
    planted
}

/// The report on a file of a profiler.
fn judged_profile(
    (place, recording): (&Installation, &RecordedRun),
    option: &str,
    file: &Path,
    statuses: &[i32],
) -> Value {
    let tool = place.java.with_file_name("jfr").display().to_string();
    let file = file.to_str().expect("a path in UTF-8");
    let arguments = ["--json", "--jfr-tool", &tool, option, file];
    let finished = recording.jportal(&["validate", "stacks"], &recording.capture(), &arguments);
    let finished = finished.expect("validate runs");
    let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
    let status = finished.status.code().expect("an exit status");
    assert!(statuses.contains(&status), "{option}: {status}: {}", finished.stderr);
    report
}

/// The report on the log in `directory`.
fn validated_log(recording: &RecordedRun, directory: &Path, more: &[&str], status: i32) -> Value {
    let directory = directory.to_str().expect("a path in UTF-8");
    let arguments = [&["--json", "--log", directory][..], more].concat();
    let finished = recording.jportal(&["validate", "stacks"], &recording.capture(), &arguments);
    let finished = finished.expect("validate runs");
    let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
    assert_eq!(finished.status.code(), Some(status), "{} {}", report["apis"], report["findings"][0]);
    report
}

/// Of AsyncGetCallTrace in signal handlers: taken, judged, equal, imprecise, broken, errors,
/// unpredictable.
fn async_figures(report: &Value) -> [u64; 7] {
    let rows = report["apis"].as_array().expect("rows");
    let row = rows.iter().find(|r| r["api"] == "asgct-async").expect("asynchronous stacks");
    let verdict = |name: &str| row["verdicts"][name].as_u64().unwrap_or(0);
    let [equal, imprecise, error, open] = ["equal", "imprecise", "error", "unpredictable"].map(verdict);
    [count(&row["samples"]), count(&row["judged"]), equal, imprecise, count(&row["broken"]), error, open]
}

/// Copies a log with a fault in each sample that can have it. Returns how many have it, and how
/// many stacks have not.
fn planted_log(from: &Path, to: &Path, fault: &str) -> (u64, u64) {
    let files = || {
        let entries = std::fs::read_dir(from).expect("the log").map(|e| e.expect("an entry").path());
        let mut all: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "async")).collect();
        all.sort();
        all
    };
    std::fs::copy(from.join("methods.tsv"), to.join("methods.tsv")).expect("the methods");
    let bytes: Vec<Vec<u8>> = files().iter().map(|f| std::fs::read(f).expect("a log")).collect();
    let logs: Vec<_> = bytes.iter().map(|b| LoggedSample::read(b)).collect();
    let (mut planted, mut left) = (0, 0);
    for (file, (header, samples)) in files().iter().zip(&logs) {
        let mut out = header.to_vec();
        for sample in samples {
            // The last stack of another thread whose outermost frame is another one.
            let differs = |s: &&LoggedSample| s.frames.last() != sample.frames.last() && s.frames.len() > 1;
            let other = logs.iter().flat_map(|l| &l.1).rfind(differs);
            let mut sample = sample.clone();
            let is_async = sample.head[4] == LoggedSample::ASGCT_ASYNC;
            if sample.plant(fault, other.map_or(&[][..], |s| &s.frames)) {
                planted += 1;
            } else {
                left += u64::from(is_async);
            }
            sample.write(&mut out);
        }
        std::fs::write(to.join(file.file_name().expect("a name")), out).expect("a log is written");
    }
    (planted, left)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Frames of a tier, inlined ones or others.
fn frames(report: &Value, tier: &str, inlined: bool) -> u64 {
    let rows = report["frames"].as_array().expect("rows");
    rows.iter().filter(|r| r["tier"] == tier && r["inlined"] == inlined).map(|r| count(&r["frames"])).sum()
}

/// Starts a VM with the agent. Returns whether it ran, and what it wrote to stderr.
fn started(place: &Installation, options: &str) -> (bool, String) {
    let log = Scratch::new().expect("a folder for the log");
    let library = place.programs.join("libjportal_stacks.so");
    let agent = format!("-agentpath:{}=out={},{options}", library.display(), log.path().display());
    let mut java = Command::new(&place.java);
    let ran = process::run(java.arg(agent).arg("-version"), LIMIT).expect("java runs");
    (ran.status.success(), ran.stderr)
}

#[test]
fn the_agent_knows_the_options_of_the_published_tool() {
    let Some(place) = place::installed("the_agent_knows_the_options_of_the_published_tool") else { return };
    let (ran, text) = started(&place, "gst,cnmProb=0.5,maxDepth=64,sampleInterval=500,seed=3");
    assert!(ran && !text.contains("jportal stacks:"), "{text}");
    let (ran, text) = started(&place, "gst,traceCollectionProbability=0");
    assert!(ran && text.contains("traceCollectionProbability changes nothing here"), "{text}");
    for wrong in ["cnmprob=1", "maxDepth=none", "sampleInterval"] {
        let (ran, text) = started(&place, &format!("gst,{wrong}"));
        assert!(!ran, "{wrong} is accepted: {text}");
        for known in [wrong, "check=SHARE", "cnmProb", "maxDepth"] {
            assert!(text.contains(known), "{wrong}: {known} is not named in {text}");
        }
    }
}

#[test]
fn stacks_agree_with_the_flow() {
    let Some(stacked) = Stacked::new("stacks_agree_with_the_flow") else { return };
    let report = stacked.agree("tiered", MODES[0].1, "400", "0.02");
    assert!(count(&report["judged"]) > 2000, "{}", report["judged"]);
    assert!(frames(&report, "interpreter", false) > 1000, "{}", report["frames"]);
    assert!(frames(&report, "C1", false) + frames(&report, "C2", false) > 500, "{}", report["frames"]);
    stacked.is_found(&["-Xint"], "8", FAULTS[2]);
}

#[test]
#[ignore = "slow: records the program some thirty times"]
fn stacks_agree_in_each_mode_and_each_fault_is_found() {
    let Some(stacked) = Stacked::new("stacks_agree_in_each_mode_and_each_fault_is_found") else { return };
    for (mode, flags) in MODES {
        let report = stacked.agree(mode, flags, "600", "0.02");
        assert!(count(&report["judged"]) > 2000, "{mode}: {}", report["judged"]);
        if mode == "c2" {
            assert!(frames(&report, "C2", true) > 500, "{}", report["frames"]);
        }
        FAULTS.iter().for_each(|&fault| stacked.is_found(flags, "32", fault));
    }
}

#[test]
fn stacks_taken_at_any_moment_agree_and_planted_faults_are_found() {
    let Some(stacked) = Stacked::new("stacks_taken_at_any_moment_agree_and_planted_faults_are_found") else {
        return;
    };
    stacked.agree_at_any_moment("tiered", MODES[0].1, "4000");
}

#[test]
#[ignore = "slow: records the program in each mode"]
fn stacks_taken_at_any_moment_agree_in_each_mode() {
    let Some(stacked) = Stacked::new("stacks_taken_at_any_moment_agree_in_each_mode") else { return };
    for (mode, flags) in MODES {
        let rounds = if mode == "interpreter" { "3000" } else { "20000" };
        stacked.agree_at_any_moment(mode, flags, rounds);
    }
}

#[test]
fn stacks_of_jfr_are_judged_and_profiles_are_graded() {
    let Some((place, folder)) = compiled("stacks_of_jfr_are_judged_and_profiles_are_graded") else { return };
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("sampler.jfc"), SAMPLER).expect("the settings are written");
    let [settings, file] = ["sampler.jfc", "app.jfr"].map(|name| path(name).display().to_string());
    let flags = MODES[0].1.iter().map(|&f| f.to_owned());
    let flags =
        flags.chain([format!("-XX:StartFlightRecording=filename={file},settings={settings}")]).collect();
    let plan = Plan { oracle: false, flags, timing: "cyc", ..Plan::new(EngineMode::Tiered) };
    let words = ["-cp", &folder.path().display().to_string(), "Stacked", "2000"].map(str::to_owned);
    let recording = RecordedRun::command(&place, &words, &plan).expect("the program is recorded");
    assert!(recording.program.status.success(), "{}", recording.program.stderr);
    let run = (&place, &recording);

    let report = judged_profile(run, "--jfr", &path("app.jfr"), &[0, 1]);
    let [samples, judged, broken] = ["samples", "judged", "broken"].map(|name| count(&report[name]));
    figure(&format!("stacks-jfr\tsamples {samples}\tjudged {judged}\tbroken {broken}"));
    assert!(judged > 0, "{samples} samples: {}", report["not_judged"]);
    assert!(report["distances"]["samples"].as_u64() > Some(0), "{}", report["events"]);

    // The same, printed before, with a fault in each stack: none of these is right.
    let mut print = Command::new(place.java.with_file_name("jfr"));
    print.args(["print", "--json", "--stack-depth", "2048", "--events"]);
    print.arg("jdk.ExecutionSample,jdk.NativeMethodSample").arg(path("app.jfr"));
    let printed = process::run(&mut print, LIMIT).expect("jfr runs");
    let mut printed = printed.json().expect("JSON");
    let planted = planted_jfr(&mut printed);
    assert!(planted > 0, "of {samples} samples");
    std::fs::write(path("planted.json"), printed.to_string()).expect("the samples are written");
    let report = judged_profile(run, "--jfr", &path("planted.json"), &[1]);
    let unjudged: u64 =
        report["not_judged"].as_array().expect("rows").iter().map(|r| count(&r["samples"])).sum();
    let [all, found] = ["samples", "broken"].map(|name| count(&report[name]));
    assert_eq!(all, samples);
    assert!(found > 0 && found + unjudged >= planted, "{found} of {planted}: {}", report["events"]);

    let report = judged_profile(run, "--grade", &path("app.jfr"), &[0, 1]);
    assert_eq!(count(&report["graded"]), samples, "all frames of JFR are of Java");
    assert_eq!(report["likeness"].as_array().map(Vec::len), Some(4), "{}", report["likeness"]);
    // The exact profile is like itself.
    let exported = path("app.collapsed").display().to_string();
    let export = recording.jportal(&["export", "collapsed"], &recording.capture(), &["-o", &exported]);
    // Status 1 says that the tree is not exact.
    let export = export.expect("export runs");
    assert!(matches!(export.status.code(), Some(0 | 1)), "{}", export.stderr);
    let report = judged_profile(run, "--grade", &path("app.collapsed"), &[0]);
    let overlap = report["likeness"][0]["overlap"].as_f64().expect("a share");
    assert!(overlap > 0.999, "{}", report["likeness"]);
    hot_methods_agree(&recording, &path);
    // With a call that never happens.
    let stack = "java.lang.Thread.run;Stacked.leaf;java.lang.Thread.run 1000000000\n";
    let exact = read(&path("app.collapsed"));
    std::fs::write(path("app.collapsed"), exact + stack).expect("the profile is written");
    let report = judged_profile(run, "--grade", &path("app.collapsed"), &[1]);
    assert_eq!(report["calls"][0]["callee"], "java.lang.Thread.run", "{}", report["calls"]);
}

/// `report hot-methods` has the costs of the tree that was exported, in both formats, and finds a
/// profile that is not that of this run.
fn hot_methods_agree(recording: &RecordedRun, path: &dyn Fn(&str) -> PathBuf) {
    let [collapsed, pprof] = ["app.collapsed", "app.pprof"].map(|name| path(name).display().to_string());
    let export = recording.jportal(&["export", "pprof"], &recording.capture(), &["-o", &pprof]);
    assert!(matches!(export.expect("export runs").status.code(), Some(0 | 1)));
    let hot = |files: &str| {
        let options = ["--by", "inclusive", "--json", "--compare", files];
        let hot = recording.jportal(&["report", "hot-methods"], &recording.capture(), &options);
        hot.expect("the report runs").json().expect("JSON")
    };
    let report = hot(&format!("{collapsed},{pprof}"));
    let comparisons = report["comparisons"].as_array().expect("comparisons");
    assert_eq!(comparisons.len(), 2);
    for likeness in comparisons.iter().flat_map(|c| c["likeness"].as_array().expect("rows")) {
        if likeness["measure"] == "bytecodes" {
            let [overlap, correlation] =
                ["overlap", "correlation"].map(|f| likeness[f].as_f64().expect("a number"));
            assert!(overlap > 0.999 && correlation > 0.99, "{likeness}");
            assert_eq!(likeness["common"], likeness["top"], "{likeness}");
        }
    }
    // The thread's first method has all that the thread executed.
    let first = &report["methods"][0];
    assert!(count(&first["inclusive"]) > count(&first["bytecodes"]["decoded"]), "{first}");
    let other = path("other.collapsed");
    std::fs::write(&other, "java.lang.Thread.run;Stacked.leaf 1\n").expect("the profile is written");
    let report = hot(&other.display().to_string());
    let overlap = report["comparisons"][0]["likeness"][0]["overlap"].as_f64().expect("a share");
    assert!(overlap < 0.9, "{}", report["comparisons"][0]["likeness"]);
}
