// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares coverage with JaCoCo's: records a program without instrumentation, and runs it again
//! under JaCoCo's agent.

use std::path::{Path, PathBuf};
use std::process::Command;

use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished};
use jportal_tests::programs::{self, Program, Size};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::{Result, skip};
use serde_json::Value;

/// From Debian's package libjacoco-java. The agent itself is a jar inside this one.
const AGENT: &str = "/usr/share/java/org.jacoco.agent.jar";

/// A program and the places of its classes.
struct JacocoSubject {
    name: &'static str,
    classes: &'static [&'static str],
    /// Flags of `java` that make the program deterministic.
    flags: &'static [&'static str],
}

const XALAN: JacocoSubject = JacocoSubject {
    name: "xalan",
    classes: &[
        "/usr/share/java/xalan2.jar",
        "/usr/share/java/serializer.jar",
        "/usr/share/java/xercesImpl.jar",
    ],
    flags: &[],
};
const JAVAC: JacocoSubject =
    JacocoSubject { name: "javac", classes: &["jrt:/jdk.compiler", "jrt:/java.compiler"], flags: &[] };
/// H2's cache of values depends on hash codes, some of which depend on the time of day.
const H2: JacocoSubject =
    JacocoSubject { name: "h2", classes: &["/usr/share/java/h2.jar"], flags: &["-Dh2.objectCache=false"] };

/// Unpacks JaCoCo's agent.
fn agent(place: &Installation, recording: &RecordedRun) -> Result<PathBuf> {
    let folder = recording.file("jacoco");
    std::fs::create_dir_all(&folder)?;
    let jar = place.java.with_file_name("jar");
    let finished = process::run(
        Command::new(jar).current_dir(&folder).args(["--extract", "--file", AGENT, "jacocoagent.jar"]),
        LIMIT,
    )?;
    let agent = folder.join("jacocoagent.jar");
    if agent.exists() { Ok(agent) } else { Err(format!("no agent in {AGENT}: {}", finished.stderr).into()) }
}

/// Runs the program under JaCoCo's agent; returns the finished process and the .exec file.
fn instrumented(
    place: &Installation,
    recording: &RecordedRun,
    arguments: &[String],
    subject: &JacocoSubject,
) -> Result<(Finished, PathBuf)> {
    let file = recording.file("jacoco.exec");
    let _ = std::fs::remove_file(&file);
    let option = format!("-javaagent:{}=destfile={}", agent(place, recording)?.display(), file.display());
    let run = process::run(Command::new(&place.java).arg(option).args(subject.flags).args(arguments), LIMIT)?;
    if file.exists() { Ok((run, file)) } else { Err(format!("no coverage: {}", run.stderr).into()) }
}

fn compare(
    place: &Installation,
    recording: &RecordedRun,
    subject: &JacocoSubject,
    exec: &Path,
) -> Result<(Option<i32>, Value)> {
    let programs = [place.programs.join("workloads.jar"), place.programs.join("programs.jar")];
    let exec = exec.display().to_string();
    let mut arguments = vec!["--json", "--jacoco", &exec];
    let own = programs.map(|p| p.display().to_string());
    let classes = own.iter().map(String::as_str).chain(subject.classes.iter().copied());
    classes.for_each(|place| arguments.extend(["--classes", place]));
    let finished = recording.jportal(&["verify"], &recording.capture(), &arguments)?;
    Ok((finished.status.code(), finished.json()?))
}

fn check(place: &Installation, subject: &JacocoSubject, program: &Program) -> Result<()> {
    let flags = subject.flags.iter().map(|&f| f.to_owned()).collect();
    let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(place, program, &plan)?;
    let arguments = program.command(&place.root, &place.programs, Size::Small);
    let (run, exec) = instrumented(place, &recording, &arguments, subject)?;
    let (seen, recorded) = (run.text(), recording.program.text());
    if !run.status.success() || seen != recorded {
        return Err(format!("{}: printed {seen:?}, recorded {recorded:?}; {}", run.status, run.stderr).into());
    }
    let (code, report) = compare(place, &recording, subject, &exec)?;
    let total = &report["total"];
    println!(
        "jacoco\t{}\t{} classes\t{total}",
        subject.name,
        report["classes"].as_object().map_or(0, |c| c.len())
    );
    if code != Some(0) || total["jacoco"] != total["by_rule"] {
        return Err(format!("exit {code:?}: {total}; {}", report["differences"]).into());
    }
    let hit = total["probes"]["hit"].as_u64().unwrap_or(0);
    if hit < 1000 {
        return Err(format!("only {hit} probes were hit: {total}").into());
    }
    // Another run, which ends at once with an error, must not be equal.
    let mut other = arguments;
    other.truncate(other.iter().position(|a| a == program.main).map_or(0, |at| at + 1));
    other.extend(["no-such-file".to_owned(), "no-such-file".to_owned()]);
    let (_, exec) = instrumented(place, &recording, &other, subject)?;
    let (code, report) = compare(place, &recording, subject, &exec)?;
    if code != Some(1) || report["total"]["different"].as_u64().unwrap_or(0) == 0 {
        return Err(format!("the coverage of another run counts as equal: exit {code:?}").into());
    }
    Ok(())
}

fn run(test: &str, subject: &JacocoSubject) {
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name(subject.name).expect("a program of that name");
    let missing = program.missing().or_else(|| {
        (!Path::new(AGENT).exists()).then(|| format!("{AGENT} is missing; apt-get install libjacoco-java"))
    });
    if let Some(missing) = missing {
        return skip::skip(test, &missing);
    }
    if let Err(error) = check(&place, subject, &program) {
        panic!("{test}: {error}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn xalan_equals_jacoco() {
    run("xalan_equals_jacoco", &XALAN);
}

#[test]
#[ignore = "a minute; scripts/verify-all"]
fn javac_equals_jacoco() {
    run("javac_equals_jacoco", &JAVAC);
}

#[test]
#[ignore = "a minute; scripts/verify-all"]
fn h2_equals_jacoco() {
    run("h2_equals_jacoco", &H2);
}
