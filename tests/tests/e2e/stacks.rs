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

struct Stacked {
    place: Installation,
    folder: Scratch,
    /// The classes, instrumented in an untraced run.
    prepared: PathBuf,
}

impl Stacked {
    /// Compiles and instruments the program. Returns `None` after counting the test as skipped.
    fn new(test: &str) -> Option<Self> {
        let place = place::installed(test)?;
        let folder = Scratch::new().expect("a folder for the test's files");
        let mut javac = Command::new(place.java.with_file_name("javac"));
        javac.arg("-g").arg("-d").arg(folder.path());
        let made = process::run(javac.arg(place.root.join("tests/tests/e2e/java/Stacked.java")), LIMIT);
        assert!(made.expect("javac runs").status.success(), "Stacked.java does not compile");
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
