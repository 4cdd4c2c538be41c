// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal run` is transparent: output, exit status and signals are the program's own.

use std::process::Command;
use std::time::Duration;

use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished};
use jportal_tests::recording::LIMIT;

struct PassthroughRun {
    folder: tempfile::TempDir,
    place: Installation,
}

impl PassthroughRun {
    fn new(test: &str) -> Option<Self> {
        Some(Self { place: place::installed(test)?, folder: tempfile::tempdir().unwrap() })
    }

    fn capture(&self) -> std::path::PathBuf {
        self.folder.path().join("capture.jportal")
    }

    fn java_arguments(&self, arguments: &[&str]) -> Vec<String> {
        let jar = self.place.programs.join("programs.jar").display().to_string();
        let mut all: Vec<String> = ["-cp", &jar, "programs.Exit"].map(Into::into).to_vec();
        all.extend(arguments.iter().map(|&a| a.to_owned()));
        all
    }

    fn traced(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.place.jportal);
        command
            .args(["run", "--emulate", "-o"])
            .arg(self.capture())
            .arg("--")
            .args(self.java_arguments(arguments));
        command
    }

    fn plain(&self, arguments: &[&str]) -> Finished {
        process::run(Command::new(&self.place.java).args(self.java_arguments(arguments)), LIMIT).unwrap()
    }

    /// Runs `jportal info` on the capture.
    fn info(&self) -> Finished {
        process::run(Command::new(&self.place.jportal).args(["info", "--json"]).arg(self.capture()), LIMIT)
            .unwrap()
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn output_and_exit_status_are_the_programs() {
    let Some(run) = PassthroughRun::new("output_and_exit_status_are_the_programs") else { return };
    for arguments in
        [&["return"][..], &["exit", "3"], &["hook", "77"], &["halt", "5"], &["throw"], &["no such way"]]
    {
        let _ = std::fs::remove_file(run.capture());
        let plain = run.plain(arguments);
        let traced = process::run(&mut run.traced(arguments), LIMIT).unwrap();
        assert_eq!(traced.text(), plain.text(), "{arguments:?}: {}", traced.stderr);
        assert_eq!(traced.status.code(), plain.status.code(), "{arguments:?}: {}", traced.stderr);
        for line in plain.stderr.lines().filter(|l| l.contains("Exception")) {
            assert!(
                traced.stderr.contains(line),
                "{arguments:?}: {line:?} is missing in {:?}",
                traced.stderr
            );
        }
        let info = run.info();
        assert_eq!(info.status.code(), Some(0), "{arguments:?}: {}", info.stderr);
    }
}

fn after_signal(signal: i32) -> Option<(PassthroughRun, Finished)> {
    let run = PassthroughRun::new("signals_reach_the_program")?;
    let running = process::start(&mut run.traced(&["spin"])).unwrap();
    running.wait_for("spinning", LIMIT).unwrap();
    process::send(running.id(), signal).unwrap();
    let finished = running.wait(LIMIT).unwrap();
    Some((run, finished))
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn signals_reach_the_program() {
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGINT, 130), (libc::SIGHUP, 129)] {
        let Some((run, finished)) = after_signal(signal) else { return };
        assert_eq!(finished.status.code(), Some(code), "signal {signal}: {}", finished.stderr);
        let info = run.info();
        assert_eq!(info.status.code(), Some(0), "signal {signal}: {}", info.stderr);
    }
}

/// Even after SIGKILL of the VM, the capture is readable and the exit status is right.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_killed_vm_leaves_what_it_recorded() {
    let Some(run) = PassthroughRun::new("a_killed_vm_leaves_what_it_recorded") else { return };
    let running = process::start(&mut run.traced(&["spin"])).unwrap();
    running.wait_for("spinning", LIMIT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.id())).unwrap();
    let child: u32 = children.split_whitespace().next().expect("jportal run has a child").parse().unwrap();
    process::send(child, libc::SIGKILL).unwrap();
    let finished = running.wait(LIMIT).unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert!(
        finished.status.code() == Some(137) || finished.status.signal() == Some(libc::SIGKILL),
        "{}: {}",
        finished.status,
        finished.stderr
    );
    let info = run.info();
    assert!(!info.crashed() && matches!(info.status.code(), Some(0 | 1)), "{}: {}", info.status, info.stderr);
    let pt = info.json().unwrap()["pt_bytes"].as_u64().unwrap();
    assert!(pt > 100_000, "{pt} PT bytes");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn bad_usage_is_refused_before_anything_runs() {
    let Some(run) = PassthroughRun::new("bad_usage_is_refused_before_anything_runs") else { return };
    for arguments in [
        &["run"][..],
        &["run", "--emulate", "--cores", "0", "--", "-version"],
        &["run", "--on-full", "maybe", "--", "-version"],
        &["frobnicate"],
        &["info"],
        &["verify", "/nonexistent", "--oracle", "/nonexistent"],
        &["info", "/nonexistent"],
        &["info", "/etc/passwd"],
    ] {
        let finished = process::run(Command::new(&run.place.jportal).args(arguments), LIMIT).unwrap();
        let expected = if arguments[0] == "run" { 125 } else { 2 };
        assert_eq!(finished.status.code(), Some(expected), "{arguments:?}: {}", finished.stderr);
        assert!(!finished.stderr.is_empty() && !finished.crashed(), "{arguments:?}: {}", finished.stderr);
    }
}

/// Only the last component of the path is a pattern, and the command finds the file that the VM
/// names by it.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn patterns_in_names_of_folders_and_files() {
    let Some(run) = PassthroughRun::new("patterns_in_names_of_folders_and_files") else { return };
    for (n, name) in
        ["plain.jportal", "a-%p.jportal", "x-%t.jportal", "100%%-%x-%p-%t.jportal"].iter().enumerate()
    {
        let folder = run.folder.path().join(format!("{n}-%p-%t-%%"));
        std::fs::create_dir(&folder).unwrap();
        let mut command = Command::new(&run.place.jportal);
        command.args(["run", "--emulate", "-o"]).arg(folder.join(name)).arg("--");
        let finished = process::run(command.args(run.java_arguments(&["return"])), LIMIT).unwrap();
        assert!(
            finished.status.success() && !finished.stderr.contains("warning"),
            "{name}: {}",
            finished.stderr
        );
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        let [file] = &files[..] else { panic!("{name}: {files:?}") };
        let written = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(written.contains('%'), name.contains("%%"), "{written}");
        assert!(finished.stderr.contains(&format!("{}: ", file.display())), "{name}: {}", finished.stderr);
    }
    assert_eq!(std::fs::read_dir(run.folder.path()).unwrap().count(), 4, "folders that nobody made");
}
