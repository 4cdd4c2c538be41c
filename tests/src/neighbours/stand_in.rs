// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The program that replaces `java` while jtreg runs. It records the VM of a test's main class,
//! has the capture checked, and writes down the result.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::Way;
use super::{CompilerMode, append, lines};
use crate::{Result, process};

/// Settings of the stand-in. They are passed in a file, because jtreg passes only its own
/// arguments.
#[derive(Debug, Clone)]
pub struct StandInSettings {
    /// The command.
    pub jportal: PathBuf,
    /// The JDK's own `java`.
    pub java: PathBuf,
    /// Greatest run time of a program, in seconds.
    pub limit: u64,
    /// Greatest time to decode and check its capture, in seconds.
    pub check_limit: u64,
    /// Folder for the list of runs and for folders of captures.
    pub out: PathBuf,
}

impl StandInSettings {
    /// Name of the file of settings.
    pub const FILE: &str = "stand-in.json";
    /// Name of the file that lists the runs.
    pub const RUNS: &str = "runs.jsonl";

    /// Writes the file of settings.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self) -> Result<()> {
        let all = json!({"jportal": self.jportal, "java": self.java, "limit": self.limit,
                         "check_limit": self.check_limit, "out": self.out});
        Ok(std::fs::write(self.out.join(Self::FILE), all.to_string())?)
    }

    /// Reads a file of settings.
    ///
    /// # Errors
    /// If it cannot be read, or a setting is missing.
    pub fn read(file: &Path) -> Result<Self> {
        let all: Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let path = |name: &str| all[name].as_str().map(PathBuf::from).ok_or_else(|| format!("no {name}"));
        let number = |name: &str| all[name].as_u64().ok_or_else(|| format!("no {name}"));
        Ok(Self {
            jportal: path("jportal")?,
            java: path("java")?,
            limit: number("limit")?,
            check_limit: number("check_limit")?,
            out: path("out")?,
        })
    }
}

/// Runs `java` with `arguments`. If they start the main class of a test, runs it in this `way`
/// and notes the result. Returns the exit status.
///
/// # Errors
/// If something that it needs is missing.
pub fn run(settings: &StandInSettings, mode: CompilerMode, way: Way, arguments: &[OsString]) -> Result<u8> {
    let Some(action) = Action::of(arguments) else {
        return Err(Command::new(&settings.java).args(arguments).exec().into());
    };
    let runs = settings.out.join(StandInSettings::RUNS);
    // A test with a program that took too long is skipped, so its other programs need not run.
    let is_given_up =
        |run: &Value| run["test"] == *action.test && run["mode"] == mode.name() && run["skip"].is_string();
    if way == Way::Recorded && lines(&runs)?.iter().any(is_given_up) {
        return Ok(1);
    }
    let name = format!("{}.{}.{}", action.test.replace(['/', '#'], "."), mode.name(), action.name);
    let capture = settings.out.join("work").join(format!("{name}.jportal"));
    let mut command = match way {
        Way::Recorded => {
            std::fs::create_dir_all(settings.out.join("work"))?;
            let mut command = Command::new(&settings.jportal);
            command.args(["run", "--emulate", "--quiet", "--cores", "3", "--java"]).arg(&settings.java);
            command.arg("-o").arg(&capture).arg("--");
            command
        }
        Way::Qemu => {
            let mut command = Command::new("qemu-x86_64");
            command.arg(&settings.java);
            command
        }
        Way::Plain => Command::new(&settings.java),
    };
    command.args(arguments);
    let begun = Instant::now();
    let status = limited(&mut command, Duration::from_secs(settings.limit))?;
    let mut note = json!({
        "test": action.test, "mode": mode.name(), "action": action.name, "way": way.name(),
        "status": status.map(code), "seconds": begun.elapsed().as_secs_f64(),
    });
    if status.is_none() {
        note["skip"] = format!("it runs longer than {} s", settings.limit).into();
    } else if way == Way::Recorded {
        judge(settings, &capture, &name, &mut note)?;
    }
    if note["kept"].is_null() {
        remove(&capture);
    } else {
        let words = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>();
        note["arguments"] = json!(words);
        note["class_path"] = std::env::var("CLASSPATH").unwrap_or_default().into();
    }
    append(&runs, &note)?;
    Ok(status.map_or(1, code))
}

/// Removes a capture, and the ring file that a killed VM leaves.
fn remove(capture: &Path) {
    let _ = jportal_capture::ring_file::recover(capture);
    let _ = std::fs::remove_file(capture);
}

/// A test action that runs the test's main class in a VM of its own.
struct Action {
    test: String,
    /// `main.0`, for example.
    name: String,
}

impl Action {
    fn of(arguments: &[OsString]) -> Option<Self> {
        let words = || arguments.iter().filter_map(|a| a.to_str());
        let test = words().find_map(|word| word.strip_prefix("-Dtest.name="))?;
        // The file that holds the main class and its arguments. The files of other actions have
        // names such as `driver.0.jta`.
        let file = words().find(|word| word.ends_with(".jta"))?;
        let name = Path::new(file).file_stem()?.to_str()?;
        name.starts_with("main.").then(|| Self { test: test.to_owned(), name: name.to_owned() })
    }
}

/// Waits for `command`, which inherits standard input and output. Returns `None` if it took
/// longer than `limit`.
fn limited(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    // In a process group of its own, so that processes that it starts are killed with it.
    let mut child = command.process_group(0).spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            let group = libc::pid_t::try_from(child.id())?;
            // SAFETY: kill takes plain numbers; the group's leader is our child, which is not
            // reaped yet.
            unsafe { libc::kill(-group, libc::SIGKILL) };
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The exit code as a shell reports it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

/// Decodes and checks the capture, and notes the figures. Keeps a capture with a fault.
fn judge(settings: &StandInSettings, capture: &Path, name: &str, note: &mut Value) -> Result<()> {
    note["capture_bytes"] = process::size(capture).into();
    let mut command = Command::new(&settings.jportal);
    command.args(["info", "--check", "--json"]).arg(capture);
    let finished = match process::run(&mut command, Duration::from_secs(settings.check_limit)) {
        Ok(finished) => finished,
        Err(error) => {
            note["skip"] = format!("its capture is not checked in {} s", settings.check_limit).into();
            note["error"] = format!("{error:.500}").into();
            return Ok(());
        }
    };
    note["check_seconds"] = finished.elapsed.as_secs_f64().into();
    match finished.json() {
        Ok(info) => figures(&info, note),
        Err(error) => note["faults"] = json!([format!("no figures: {error:.500}")]),
    }
    if finished.crashed() {
        note["faults"] = json!([format!("info fails: {:.500}", finished.stderr)]);
    }
    if note["faults"].as_array().is_some_and(|faults| !faults.is_empty()) {
        let faults = settings.out.join("faults");
        std::fs::create_dir_all(&faults)?;
        let kept = faults.join(format!("{name}.jportal"));
        if std::fs::rename(capture, &kept).is_ok() {
            note["kept"] = json!(kept);
        }
    }
    Ok(())
}

/// Copies the relevant figures from `info`, and names the faults.
fn figures(info: &Value, note: &mut Value) {
    let count = |pointer: &str| info.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    for (name, pointer) in [
        ("bytecodes", "/bytecodes"),
        ("unresolved", "/unresolved"),
        ("gaps", "/gaps"),
        ("findings", "/check/findings"),
    ] {
        note[name] = count(pointer).into();
    }
    let mut faults = Vec::new();
    let mut fault = |n: u64, what: &str| {
        if n > 0 {
            faults.push(format!("{n} {what}"));
        }
    };
    fault(count("/errors/native_flow"), "machine-flow errors");
    fault(count("/errors/reconstruct"), "contradictions");
    let named = |pointer: &str| info.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    for (reason, n) in named("/gaps_by_reason") {
        fault(n.as_u64().unwrap_or(0), &format!("gaps ({reason})"));
    }
    for (rule, n) in named("/check/by_rule") {
        fault(n.as_u64().unwrap_or(0), &format!("findings ({rule})"));
    }
    for (record, what) in
        [("damaged_records", "damaged records"), ("oddities", "records that contradict others")]
    {
        fault(count(&format!("/metadata/{record}")), what);
    }
    fault(count("/capture/counters/unit.anomalies"), "anomalies of the unit");
    if info.pointer("/capture/whole") != Some(&Value::Bool(true)) {
        faults.push("the capture is not whole".into());
    }
    note["faults"] = json!(faults);
    if let Some(first) = info.pointer("/check/first/0") {
        note["first_finding"] = first.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_actions_are_known_by_their_file() {
        let of = |words: &[&str]| {
            Action::of(&words.iter().map(OsString::from).collect::<Vec<_>>()).map(|a| (a.test, a.name))
        };
        let name = "-Dtest.name=a/B.java";
        assert_eq!(of(&[name, "Wrapper", "/w/main.1.jta"]), Some(("a/B.java".into(), "main.1".into())));
        assert_eq!(of(&[name, "Wrapper", "/w/driver.0.jta"]), None);
        assert_eq!(of(&["-version"]), None);
    }

    #[test]
    fn what_is_wrong_has_a_name() {
        let mut note = json!({});
        let clean = json!({"bytecodes": 5, "gaps": 0, "gaps_by_reason": {}, "check": {"findings": 0, "by_rule": {}, "first": []},
            "errors": {"native_flow": 0, "reconstruct": 0}, "capture": {"whole": true, "counters": {"unit.anomalies": 0}},
            "metadata": {"damaged_records": 0, "oddities": 0}});
        figures(&clean, &mut note);
        assert_eq!((note["faults"].clone(), note["bytecodes"].clone()), (json!([]), json!(5)));
        let mut wrong = clean;
        wrong["check"] = json!({"findings": 3, "by_rule": {"edge": 3}, "first": [{"event": 7}]});
        wrong["gaps_by_reason"] = json!({"torn": 1});
        wrong["capture"] = json!({"whole": false});
        figures(&wrong, &mut note);
        let expected = ["1 gaps (torn)", "3 findings (edge)", "the capture is not whole"];
        assert_eq!(note["faults"], json!(expected));
        assert_eq!(note["first_finding"]["event"], 7);
    }

    #[test]
    fn who_takes_too_long_is_killed() {
        let limit = Duration::from_millis(100);
        assert!(limited(Command::new("sleep").arg("600"), limit).unwrap().is_none());
        let ended = limited(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(60)).unwrap();
        assert_eq!(ended.map(code), Some(3));
    }
}
