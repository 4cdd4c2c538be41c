// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The flight recorder: dumps on command, after a slow call, on `OutOfMemoryError` and at a fatal
//! error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use jportal_tests::died::moments;
use jportal_tests::oracle::ProbeFile;
use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished, Running};
use jportal_tests::recording::LIMIT;
use jportal_tests::scratch::Scratch;

/// The number of latest log entries in which a dump is searched. No dump contains that many.
const RECENT: u64 = 2_000_000;

/// `programs.Flight` under the emulated unit, in a VM that keeps only the latest trace.
struct Flight {
    place: Installation,
    folder: Scratch,
}

impl Flight {
    fn new(test: &str) -> Option<Self> {
        let place = place::installed(test)?;
        Some(Self { place, folder: Scratch::new().unwrap() })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, flags: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.place.run(&self.file("flight.jportal"), &["--timing", "tsc"]);
        command.arg("-XX:JPortalPrecision=exact").args(flags).arg("-cp");
        command.arg(self.place.programs.join("programs.jar")).arg("programs.Flight").args(arguments);
        command
    }

    fn run(&self, flags: &[&str], arguments: &[&str]) -> Finished {
        process::run(&mut self.command(flags, arguments), LIMIT).unwrap()
    }

    /// Starts the program with four working threads; returns it and its process id.
    fn start(&self, flags: &[&str]) -> (Running, u32) {
        let running = process::start(&mut self.command(flags, &["run", "3000"])).unwrap();
        running.wait_for(".\n", LIMIT).unwrap();
        let said = running.stdout().unwrap();
        let pid = said.lines().find_map(|l| l.strip_prefix("running ")?.strip_suffix('.'));
        (running, pid.unwrap().parse().unwrap())
    }

    fn jcmd(&self, pid: u32, words: &[&str]) -> String {
        self.place.jcmd(pid, words).unwrap()
    }

    fn dump(&self, pid: u32, name: &str) -> PathBuf {
        let path = self.file(name);
        // A dump replaces no file.
        let _ = std::fs::remove_file(&path);
        let answer = self.jcmd(pid, &["JPortal.dump", &format!("file={}", path.display())]);
        assert!(answer.contains(&format!("dumped to: {}", path.display())), "{answer}");
        path
    }

    fn jportal(&self, words: &[&str], capture: &Path) -> Finished {
        process::run(Command::new(&self.place.jportal).args(words).arg(capture), LIMIT).unwrap()
    }

    /// The report of `jportal info --check` on a capture, without placing. All of the trace must
    /// be decoded.
    fn info(&self, capture: &Path) -> Value {
        let finished = self.jportal(&["info", "--json", "--check", "--project", "none"], capture);
        let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
        let first = &report["check"]["first"];
        assert_eq!(report["capture"]["whole"], Value::Bool(true), "{report}");
        assert_eq!(report["completeness"].as_f64(), Some(1.0), "{first}");
        for nothing in ["/errors/native_flow", "/metadata/oddities", "/metadata/damaged_records"] {
            assert_eq!(count(&report, nothing), 0, "{nothing}: {first}");
        }
        assert_eq!(count(&report, "/errors/reconstruct"), 0, "{first}");
        assert!(count(&report, "/pt_bytes") > 0 && count(&report, "/bytecodes") > 1000, "{first}");
        // The capture of a crashed VM has no counters.
        let anomalies = report["capture"]["counters"].get("unit.anomalies").and_then(Value::as_u64);
        assert_eq!(anomalies.unwrap_or(0), 0);
        report
    }

    /// As [`Flight::info`]; in addition, the checker must find nothing. It would report code that
    /// is entered by on-stack replacement of a frame older than the window, which happens while a
    /// program warms up.
    fn sound(&self, capture: &Path) -> Value {
        let report = self.info(capture);
        assert_eq!(report["check"]["by_rule"], serde_json::json!({}), "{}", report["check"]["first"]);
        report
    }
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report}"))
}

/// Copies the last entries of each log in `from` to the folder `to`.
fn recent(from: &Path, to: &Path) {
    for log in ProbeFile::all(from).unwrap() {
        let passed = log.passed().unwrap();
        log.copy(std::slice::from_ref(&(passed.saturating_sub(RECENT)..passed)), to).unwrap();
    }
}

/// Dumps at random moments of a program with four working threads. Each must decode from its
/// first PSB.
fn dumps(test: &str, number: u64) {
    let Some(flight) = Flight::new(test) else { return };
    let (running, pid) = flight.start(&["-XX:JPortalSnapshot=128k"]);
    let status = flight.jcmd(pid, &["JPortal.status"]);
    assert!(status.contains("mode: flight recorder, the last 131072 bytes of each core"), "{status}");
    // Wait until everything is compiled.
    std::thread::sleep(Duration::from_secs(4));
    flight.dump(pid, "dump.jportal");
    let mut busy = 0;
    for (n, moment) in (0..number).zip(moments(11)) {
        std::thread::sleep(moment / 4);
        let dump = flight.dump(pid, "dump.jportal");
        let report = flight.sound(&dump);
        assert!(count(&report, "/pt_bytes") <= 3 * 131_072, "dump {n}: {report}");
        let workers = report["threads"].as_array().unwrap().iter();
        let workers = workers.filter(|t| t["name"].as_str().is_some_and(|name| name.starts_with("worker")));
        busy += u64::from(workers.filter(|t| t["bytecodes"]["decoded"].as_u64() > Some(0)).count() > 1);
    }
    assert!(busy > number / 2, "several threads in {busy} of {number} dumps only");
    // A file that has the name stays, and the answer names the one with the next number.
    let (first, second) = (flight.file("dump1"), flight.file("dump2"));
    std::fs::write(&first, "kept").unwrap();
    let answer = flight.jcmd(pid, &["JPortal.dump", &format!("file={}", first.display())]);
    assert!(answer.contains(&format!("dumped to: {}\n", second.display())), "{answer}");
    assert!(std::fs::read(&first).unwrap() == b"kept" && process::size(&second) > 100_000);
    process::send(pid, libc::SIGTERM).unwrap();
    running.wait(LIMIT).unwrap();
    flight.sound(&flight.file("flight.jportal"));
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn dumps_at_random_moments_decode_from_their_first_psb_on() {
    dumps("dumps_at_random_moments_decode_from_their_first_psb_on", 5);
}

#[test]
#[ignore = "a quarter of an hour"]
fn two_hundred_dumps_at_random_moments_decode_from_their_first_psb_on() {
    dumps("two_hundred_dumps_at_random_moments_decode_from_their_first_psb_on", 200);
}

/// A server that loads and unloads a program again and again: the capture holds what the next dump
/// needs, and each dump decodes.
#[test]
#[ignore = "four minutes"]
fn metadata_of_unloaded_classes_is_trimmed() {
    let Some(flight) = Flight::new("metadata_of_unloaded_classes_is_trimmed") else { return };
    let jars =
        ["/usr/share/java/h2.jar", flight.place.programs.join("workloads.jar").to_str().unwrap()].join(":");
    let flags = ["-XX:JPortalSnapshot=256k", "-Xmx96m", "-XX:MetaspaceSize=24m"];
    let mut command = flight.place.run(&flight.file("flight.jportal"), &["--timing", "tsc"]);
    command.args(flags).arg("-cp").arg(flight.place.programs.join("workloads.jar"));
    let running =
        process::start(command.args(["Redeploy", "1000", "2500", "0", &jars, "H2Load", "2"])).unwrap();
    running.wait_for("deployed 1 ", LIMIT).unwrap();
    let pid = running.child_process().unwrap();
    let figure = |name: &str| -> u64 {
        let status = flight.jcmd(pid, &["JPortal.status"]);
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {status}")).parse().unwrap()
    };
    let mut trimmed = 0;
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(15));
        let (file, metadata) = (figure("file bytes"), figure("metadata bytes"));
        trimmed += u64::from(file < metadata);
        let dump = flight.dump(pid, "dump.jportal");
        let report = flight.info(&dump);
        println!("file {file} metadata {metadata} dump {} {}", process::size(&dump), report["bytecodes"]);
    }
    assert!(trimmed >= 3, "nothing was trimmed");
    process::send(pid, libc::SIGTERM).unwrap();
    running.wait(LIMIT).unwrap();
    flight.info(&flight.file("flight.jportal"));
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_dump_tells_the_probes_that_were_passed() {
    let Some(flight) = Flight::new("a_dump_tells_the_probes_that_were_passed") else { return };
    let oracle = flight.file("oracle");
    let agent = format!("-javaagent:{}=out={}", flight.place.oracle.display(), oracle.display());
    let (running, pid) = flight.start(&["-XX:JPortalSnapshot=128k", &agent]);
    let mut matched = 0;
    for n in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        let dump = flight.dump(pid, "dump.jportal");
        let log = flight.file(&format!("log{n}"));
        recent(&oracle, &log);
        let oracle = log.to_str().unwrap();
        let words = ["verify", "--json", "--part", "--allow-gaps", "--oracle", oracle];
        let finished = flight.jportal(&words, &dump);
        let report = finished.json().unwrap_or_else(|e| panic!("{e}: {}", finished.stderr));
        for nothing in ["/missing", "/extra", "/unresolved"] {
            assert_eq!(count(&report, nothing), 0, "dump {n}, {nothing} of {}", report["threads"]);
        }
        matched += count(&report, "/matched");
    }
    assert!(matched > 10_000, "{matched} probes in three dumps");
    process::send(pid, libc::SIGTERM).unwrap();
    running.wait(LIMIT).unwrap();
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_slow_call_is_dumped_and_no_other() {
    const CALLS: u64 = 5000;
    const STEPS: usize = 60_000;
    let Some(flight) = Flight::new("a_slow_call_is_dumped_and_no_other") else { return };
    let which = fastrand::Rng::with_seed(3).u64(4000..4900);
    let words = ["slow", &CALLS.to_string(), &which.to_string(), &STEPS.to_string()];
    let trigger = "-XX:JPortalTrigger=programs.Flight.answer,1500";
    let program = flight.run(&["-XX:JPortalSnapshot=4m", trigger], &words);
    assert!(program.status.success() && program.text().contains("answered 5000"), "{}", program.stderr);
    let dump = flight.file("flight.jportal.dump1");
    assert!(dump.exists() && !flight.file("flight.jportal.dump2").exists(), "one call was slow");
    let report = flight.sound(&dump);
    let text = report["capture"]["end_text"].as_str().unwrap();
    assert!(text.starts_with("programs.Flight.answer,1500 took "), "{text}");
    // The window contains all of the slow call. It ends shortly after it: the unit pauses when its
    // core sees the request, and the thread does not wait for that.
    let printed = flight.jportal(&["print", "--thread", "main", "--level", "call"], &dump).text();
    let calls: Vec<_> = printed.split("> programs.Flight.answer(IIJ)J").collect();
    let steps = calls[calls.len() - 4..].iter().map(|c| c.matches("> programs.Flight.step(J)J").count());
    assert!(steps.clone().any(|n| n == STEPS), "the last calls of the dump: {:?}", steps.collect::<Vec<_>>());
    // The thread does not wait for the dump. The capture that is written at the VM's end has the
    // later calls, except those during the dump.
    let capture = flight.file("flight.jportal");
    flight.sound(&capture);
    let printed = flight.jportal(&["print", "--thread", "main", "--level", "call"], &capture).text();
    let later = printed.matches("> programs.Flight.answer(IIJ)J").count() as u64;
    assert!(later < CALLS - which, "{later} calls after number {which}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn flags_that_make_no_sense_are_refused() {
    let Some(flight) = Flight::new("flags_that_make_no_sense_are_refused") else { return };
    for (flags, words) in [
        (vec!["-XX:JPortalTrigger=a.B.c,5"], "it needs -XX:JPortalSnapshot=SIZE"),
        (
            vec!["-XX:JPortalSnapshot=1m", "-XX:JPortalTrigger=a.B.c"],
            "-XX:JPortalTrigger is class.method,millis",
        ),
        (vec!["-XX:JPortalSnapshot=8k"], "JPortalSnapshot: 8192 bytes is not usable"),
    ] {
        let program = flight.run(&flags, &["memory"]);
        let said = format!("{}{}", program.text(), program.stderr);
        assert!(!program.status.success() && said.contains(words), "{flags:?}: {said}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn an_out_of_memory_error_is_dumped_once() {
    let Some(flight) = Flight::new("an_out_of_memory_error_is_dumped_once") else { return };
    let program = flight.run(&["-XX:JPortalSnapshot=256k", "-Xmx64m"], &["memory"]);
    assert!(program.status.success() && program.text().contains("out of memory after"), "{}", program.stderr);
    let dump = flight.file("flight.jportal.dump1");
    assert!(dump.exists() && !flight.file("flight.jportal.dump2").exists());
    assert_eq!(flight.info(&dump)["capture"]["end_text"], "OutOfMemoryError");
    // The dump is under way when the VM ends at once.
    std::fs::remove_file(&dump).unwrap();
    let flags = ["-XX:JPortalSnapshot=256k", "-Xmx64m", "-XX:+ExitOnOutOfMemoryError"];
    let program = flight.run(&flags, &["memory"]);
    assert_eq!(program.status.code(), Some(3), "{}", program.stderr);
    assert_eq!(flight.info(&dump)["capture"]["end_text"], "OutOfMemoryError");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_vm_that_crashes_leaves_its_last_trace() {
    let Some(flight) = Flight::new("a_vm_that_crashes_leaves_its_last_trace") else { return };
    let report_file = format!("-XX:ErrorFile={}", flight.file("hs_err").display());
    let (running, pid) =
        flight.start(&["-XX:JPortalSnapshot=256k", "-XX:-CreateCoredumpOnCrash", &report_file]);
    std::thread::sleep(Duration::from_millis(500));
    process::send(pid, libc::SIGSEGV).unwrap();
    running.wait(LIMIT).unwrap();
    assert!(flight.file("hs_err").exists());
    let report = flight.info(&flight.file("flight.jportal"));
    let workers = report["threads"].as_array().unwrap().iter();
    assert!(
        workers.filter(|t| t["bytecodes"]["decoded"].as_u64() > Some(0)).count() > 1,
        "{}",
        report["threads"]
    );
}
