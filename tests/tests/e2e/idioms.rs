// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Effects on a frame from outside: exceptions that another thread throws into it, actions of a
//! debugger, and the redefinition of its class. (`programs.OldForms` has searches for a handler
//! that fail, `programs.Dynamic` has results that are not used.)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::recording::{Checked, Info, LIMIT};
use jportal_tests::scratch::Scratch;

use crate::counted::{self, Skipped};

/// Ways to run a program: without compiled code, with C1's, and with C2's.
const MODES: [(&str, &str); 3] =
    [("interpreter", "-Xint"), ("c1", "-XX:TieredStopAtLevel=3"), ("c2", "-XX:-TieredCompilation")];

/// Compiled programs of `java/`.
struct Built {
    place: Installation,
    folder: Scratch,
}

impl Built {
    /// Compiles the sources. Returns `None` after counting the test as skipped.
    fn new(test: &str, sources: &[&str]) -> Option<Self> {
        let place = place::installed(test)?;
        let folder = Scratch::new().expect("a folder for the test's files");
        let java = place.root.join("tests/tests/e2e/java");
        let mut javac = Command::new(place.java.with_file_name("javac"));
        javac.arg("-d").arg(folder.path()).args(sources.iter().map(|name| java.join(name)));
        let made = process::run(&mut javac, LIMIT).expect("javac runs");
        assert!(made.status.success(), "{sources:?} do not compile: {}", made.stderr);
        Some(Self { place, folder })
    }

    fn capture(&self, mode: &str) -> PathBuf {
        self.folder.path().join(format!("{mode}.jportal"))
    }

    /// The command that records the program in a mode.
    fn recorded(&self, (mode, flag): (&str, &str), more: &[&str]) -> Command {
        let mut command = self.place.run(&self.capture(mode), &["--quiet"]);
        command.args([flag, "-XX:CompileThresholdScaling=0.1"]);
        command.arg("-cp").arg(self.folder.path()).args(more);
        command
    }

    /// Records with `command`. The flow must be whole, and a JVM could have executed it. Returns
    /// the output of the program and the checker's result.
    fn judge(&self, program: &str, mode: &str, command: &mut Command) -> (String, Checked) {
        let run = process::run(command, LIMIT).expect("the program can be started");
        assert!(run.status.success(), "{program}, {mode}: {}: {}", run.status, run.stderr);
        let mut info = Command::new(&self.place.jportal);
        let info = info.args(["info", "--check", "--json"]).arg(self.capture(mode));
        let info = Info(process::run(info, LIMIT).and_then(|info| info.json()).expect("jportal info"));
        let checked = info.checked().expect("the checker's figures");
        figure(&format!("idioms\t{program}\t{mode}\tnot checked {:?}", checked.resets));
        let errors = (info.native_errors().unwrap(), info.reconstruct_errors().unwrap());
        let gaps = info.number("/gaps").unwrap();
        assert!(errors == (0, 0) && gaps == 0.0, "{program}, {mode}: {errors:?} errors, {gaps} gaps");
        let first = checked.first.join("\n");
        assert!(checked.by_rule.is_empty(), "{program}, {mode}: {:?}: {first}", checked.by_rule);
        (run.text(), checked)
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn exceptions_from_outside_are_thrown_where_the_thread_stands() {
    let test = "exceptions_from_outside_are_thrown_where_the_thread_stands";
    let Some(built) = Built::new(test, &["Stopped.java"]) else { return };
    for (mode, flag) in MODES {
        let mut command = built.recorded((mode, flag), &["programs.Stopped", "24"]);
        let (text, _) = built.judge("Stopped", mode, &mut command);
        assert_eq!(text, "caught 24\n", "{mode}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn frames_that_a_debugger_ends_have_exits_of_their_own() {
    let test = "frames_that_a_debugger_ends_have_exits_of_their_own";
    let Some(built) = Built::new(test, &["Debugged.java", "Debugger.java"]) else { return };
    for (mode, flag) in MODES {
        let agent = "-agentlib:jdwp=transport=dt_socket,server=n,suspend=y,address=ADDRESS";
        let recorded = built.recorded((mode, flag), &[agent, "programs.Debugged", "2"]);
        let mut debugger = Command::new(&built.place.java);
        debugger.arg("-cp").arg(built.folder.path()).arg("Debugger");
        debugger.arg(recorded.get_program()).args(recorded.get_args());
        let (text, checked) = built.judge("Debugged", mode, &mut debugger);
        let done = "popped 4, popped two 4, returned 4, thrown 4, spinning 4\n";
        assert!(text.ends_with(done), "{mode}: {text}");
        let met = |reset: &str| checked.resets.get(reset).copied().unwrap_or_default();
        // Four times one frame, four times two, and twice out of the loop. In each of the loop's
        // four rounds, the thread may also be in `quick`.
        assert!((14..=18).contains(&met("pop-frame")), "{mode}: {:?}", checked.resets);
        assert_eq!(met("early-return"), 6, "{mode}");
    }
}

/// The frame keeps its version of the method, also where compiled code of it is deoptimised.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_method_that_is_redefined_on_the_stack_runs_to_its_end() {
    const TIMES: u64 = 8;
    let test = "a_method_that_is_redefined_on_the_stack_runs_to_its_end";
    let Some(built) = Built::new(test, &["Redefined.java"]) else { return };
    let manifest = built.folder.path().join("manifest");
    std::fs::write(&manifest, "Premain-Class: programs.Redefined\nCan-Redefine-Classes: true\n")
        .expect("written");
    let agent = built.folder.path().join("agent.jar");
    let mut jar = Command::new(built.place.java.with_file_name("jar"));
    jar.args(["--create", "--file"]).arg(&agent).arg("--manifest").arg(&manifest);
    let made = process::run(jar.arg("-C").arg(built.folder.path()).arg("programs"), LIMIT).expect("jar runs");
    assert!(made.status.success(), "no agent: {}", made.stderr);
    let agent = format!("-javaagent:{}", agent.display());
    for (mode, flag) in MODES {
        let mut command = built.recorded((mode, flag), &[&agent, "programs.Redefined", &TIMES.to_string()]);
        let (text, _) = built.judge("Redefined", mode, &mut command);
        assert_eq!(text, format!("redefined {TIMES}\n"), "{mode}");
        let mut report = Command::new(&built.place.jportal);
        report.args(["report", "hot-methods", "--json", "--top", "1000000"]).arg(built.capture(mode));
        let report = process::run(&mut report, LIMIT).and_then(|report| report.json()).expect("a report");
        let calls_of = |method: &str| -> BTreeMap<u64, u64> {
            let rows = report["methods"].as_array().expect("methods").iter();
            let rows = rows.filter(|row| row["method"] == format!("programs.Redefined$Body.{method}"));
            rows.map(|row| {
                assert_eq!(row["version"]["of"], TIMES + 1, "{mode}: {row}");
                let number = row["version"]["number"].as_u64().expect("a number");
                (number, row["calls"]["decoded"].as_u64().expect("calls"))
            })
            .collect()
        };
        // In each round the loop calls one version of `tag`, and the end of `spin` the next.
        let tags = (1..=TIMES + 1).map(|v| (v, 20_000 * u64::from(v <= TIMES) + u64::from(v > 1)));
        assert_eq!(calls_of("tag()I"), tags.collect(), "{mode}");
        let spins = (1..=TIMES).map(|v| (v, 1));
        assert_eq!(calls_of("spin(I)Ljava/lang/String;"), spins.collect(), "{mode}");
    }
}

/// C2's intrinsic `clone` makes the interpreter repeat a call that has ended
/// (`jtreg/debuginfo/CloneOverridden.java`). The flow has what was executed: the invoke twice.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_call_that_is_made_again_is_shown_twice() {
    let test = "a_call_that_is_made_again_is_shown_twice";
    let source = "../../../../jtreg/debuginfo/CloneOverridden.java";
    let Some(built) = Built::new(test, &[source]) else { return };
    for (mode, flag) in MODES {
        let again = u64::from(mode == "c2");
        let mut command = built.recorded((mode, flag), &["-Xbatch", "CloneOverridden"]);
        let (_, checked) = built.judge("CloneOverridden", mode, &mut command);
        assert_eq!(checked.resets.get("cloned-again").copied().unwrap_or(0), again, "{mode}");
        let mut report = Command::new(&built.place.jportal);
        report.args(["report", "hot-methods", "--json", "--top", "1000000"]).arg(built.capture(mode));
        let report = process::run(&mut report, LIMIT).and_then(|report| report.json()).expect("a report");
        let counts = counted::methods(&report, &Skipped::default());
        let clones = counts["CloneOverridden$Counting.clone()Ljava/lang/Object; calls"];
        assert_eq!(clones, 20_000 + again, "{mode}");
        // 0 aload_0; 1 invokevirtual clone; and ten more.
        let copied = "CloneOverridden.copied()I";
        let bytecodes = 12 * counts[&format!("{copied} calls")] + again;
        assert_eq!(counts[&format!("{copied} bytecodes")], bytecodes, "{mode}");
    }
}
