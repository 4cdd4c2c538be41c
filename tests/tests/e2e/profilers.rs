// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Profilers in Java: what one sees live, driven by the agent of `tests/baselines`, is what it
//! sees in a replay of a recording of the same program.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished};
use jportal_tests::recording::{EngineMode, LIMIT, Plan, RecordedRun};
use jportal_tests::{programs, skip};

use crate::baselines::{Agents, record};

/// The jar that `jportal replay` starts; `None` after counting the test as skipped.
fn replay_jar(test: &str, place: &Installation) -> Option<PathBuf> {
    let jar = place.root.join("build/lib/jportal-replay.jar");
    if !jar.exists() {
        skip::skip(test, &format!("{} is missing; run profiler/build.sh", jar.display()));
        return None;
    }
    Some(jar)
}

/// The profiler that stands in the book.
fn example(root: &Path) -> String {
    let page = std::fs::read_to_string(root.join("docs/profilers.md")).unwrap();
    let (_, code) = page.split_once("```java\n").expect("the page has an example");
    code.split_once("```").expect("a fence ends").0.to_owned()
}

/// Compiles the profilers, that of the book among them.
fn compile(place: &Installation, jar: &Path, folder: &Path) -> PathBuf {
    let classes = folder.join("profilers");
    std::fs::create_dir_all(&classes).unwrap();
    let source = folder.join("TreeFile.java");
    std::fs::write(&source, example(&place.root)).unwrap();
    let java = place.root.join("tests/tests/e2e/java/profilers");
    let mut command = Command::new(place.java.with_file_name("javac"));
    command.args(["-Xlint:all", "-Werror", "-cp"]).arg(jar).arg("-d").arg(&classes).arg(source);
    let finished = process::run(
        command.args(["ReportLog", "Failing", "ByClass"].map(|name| java.join(format!("{name}.java")))),
        LIMIT,
    );
    let finished = finished.unwrap();
    assert!(finished.status.success(), "{}{}", finished.text(), finished.stderr);
    classes
}

/// What ReportLog wrote: tree and log.
type Written = (String, String);

fn written(tree: &Path, log: &Path) -> Written {
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (read(tree), read(log))
}

/// A program, how it was recorded, and the profilers.
struct Profiled<'a> {
    recording: &'a RecordedRun,
    agents: &'a Agents,
    classes: PathBuf,
    /// The program's arguments of `java`.
    program: Vec<String>,
}

impl Profiled<'_> {
    fn properties(&self, name: &str, every: u32) -> (PathBuf, PathBuf, [String; 3]) {
        let [tree, log] =
            ["tree", "log"].map(|what| self.agents.folder.join(format!("{name}-{every}.{what}")));
        let set = [
            format!("-Devery={every}"),
            format!("-Dtree={}", tree.display()),
            format!("-Dlog={}", log.display()),
        ];
        (tree, log, set)
    }

    /// Runs the program with the agent, without the probe of number `fault`.
    fn live(&self, every: u32, fault: Option<u32>) -> Written {
        let fault = fault.map(|n| format!(",fault={n}")).unwrap_or_default();
        self.live_with(every, &fault)
    }

    /// Runs the program with the agent and further arguments for it.
    fn live_with(&self, every: u32, more: &str) -> Written {
        let name = format!("live{}", more.replace([',', '='], "-"));
        let (tree, log, set) = self.properties(&name, every);
        let out = self.agents.folder.join(format!("{name}-{every}"));
        let (jar, out, classes) = (self.agents.jar.display(), out.display(), self.classes.display());
        let agent =
            format!("-javaagent:{jar}=mode=jp,out={out},profiler=ReportLog,classpath={classes}{more}");
        self.agents.java(&[&[agent], &set[..], &self.program].concat());
        written(&tree, &log)
    }

    fn replayed(&self, every: u32) -> Written {
        self.replayed_with(every, &[])
    }

    fn replayed_with(&self, every: u32, options: &[&str]) -> Written {
        let (tree, log, set) = self.properties("replayed", every);
        let classes = self.classes.display().to_string();
        let set = set.each_ref().map(String::as_str);
        let named = ["--profiler", "ReportLog", "--cp", &classes];
        let arguments = [&named, options, &["--"], &set[..]].concat();
        let finished = self.recording.jportal(&["replay"], &self.recording.capture(), &arguments).unwrap();
        assert!(finished.status.success(), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("ReportLog saw ") && finished.stderr.contains(", exact"),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.text(), "ReportLog has finished\n");
        written(&tree, &log)
    }

    /// A profiler that fails in the program does not end it; one that cannot be loaded does.
    fn failures(&self) {
        let run = |profiler: &str| {
            let (jar, classes) = (self.agents.jar.display(), self.classes.display());
            let out = self.agents.folder.join("failing").display().to_string();
            let agent = format!("-javaagent:{jar}=mode=jp,out={out},profiler={profiler},classpath={classes}");
            let mut command = Command::new(&self.agents.java);
            command.args([&agent, "-Dhow=throws"]).args(&self.program);
            process::run(&mut command, LIMIT).unwrap()
        };
        let failing = run("Failing");
        assert!(failing.status.success() && failing.text().starts_with("5\n396\n"), "{}", failing.stderr);
        let said =
            "the profiler is not called any more: Failing.report threw java.lang.IllegalStateException";
        assert_eq!(failing.stderr.matches(said).count(), 1, "{}", failing.stderr);
        let unknown = run("Nothing");
        assert!(!unknown.status.success() && !unknown.text().contains("396"), "{}", unknown.text());
        let said = "profiler=Nothing: there is no class Nothing on the class path";
        assert!(unknown.stderr.contains(said), "{}", unknown.stderr);
    }

    /// Compares at a granularity. Returns what was written in both cases.
    fn compare(&self, every: u32) -> Written {
        let ((tree, log), live) = (self.replayed(every), self.live(every, None));
        same(&format!("tree, every {every}"), &tree, &live.0);
        same(&format!("reports, every {every}"), &log, &live.1);
        (tree, log)
    }
}

/// Asserts that two texts are equal; shows the first line that differs.
fn same(what: &str, replayed: &str, live: &str) {
    let differs = replayed.lines().zip(live.lines()).position(|(a, b)| a != b);
    let at = differs.unwrap_or_else(|| replayed.lines().count().min(live.lines().count()));
    let line = |text: &str| text.lines().skip(at.saturating_sub(1)).take(4).collect::<Vec<_>>().join(" | ");
    assert!(replayed == live, "{what}: line {at}: {} replayed, {} live", line(replayed), line(live));
}

/// The lines of TreeFile for a merged tree of `report call-tree`.
fn tree_lines(report: &Value) -> String {
    let (mut depths, mut lines) = (Vec::<usize>::new(), String::new());
    for node in report["nodes"].as_array().expect("nodes") {
        let depth = node["parent"].as_u64().map_or(0, |parent| depths[parent as usize] + 1);
        depths.push(depth);
        let [invocations, bytecodes] =
            ["invocations", "bytecodes"].map(|tally| node[tally]["decoded"].as_u64().expect("a count"));
        let method = node["method"].as_str().expect("a name");
        lines.push_str(&format!("{invocations} {bytecodes}{}{method}\n", " ".repeat(depth + 1)));
    }
    lines
}

/// How many reports a log has.
fn reports(log: &str) -> usize {
    log.lines().filter(|line| line.contains(": ")).count()
}

/// The number of a probe that counts bytecodes of the first example. Those before it count blocks,
/// or belong to exceptions that are not thrown.
const FAULT: u32 = 8;

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_profiler_sees_live_what_it_sees_in_a_replay() {
    const TEST: &str = "a_profiler_sees_live_what_it_sees_in_a_replay";
    let Some(place) = place::installed(TEST) else { return };
    let Some(jar) = replay_jar(TEST, &place) else { return };
    let recording = record(&place);
    let agents = Agents::build(&place, &recording);
    let classes = compile(&place, &jar, &agents.folder);
    let program = ["-Xverify:all", "-cp", &agents.classes.display().to_string(), "All"].map(str::to_owned);
    let profiled = Profiled { recording: &recording, agents: &agents, classes, program: program.into() };

    let results = [1, 10, 1_000_000, i32::MAX as u32].map(|every| profiled.compare(every));
    let (tree, log) = &results[0];
    assert!(results.iter().all(|(t, _)| t == tree), "the sums of all reports are the tree");
    let [all, tenth, two, ends] = results.each_ref().map(|(_, log)| reports(log));
    assert!(all > 1500 && tenth > 300 && all > tenth, "{all} and {tenth} reports");
    assert_eq!((two, ends), (2, 2), "the last reports of two threads");

    let report = ["--classes", "app", "--native", "none", "--merge", "--json"];
    let finished = recording.jportal(&["report", "call-tree"], &recording.capture(), &report).unwrap();
    same("report call-tree", &tree_lines(&finished.json().unwrap()), tree);
    assert!(tree.contains("\n10 445     Foo.g(I)V\n55 55      Foo.h()V\n"), "{tree:.600}");

    let by_class = profiled.replayed_with(10, &["--mid-factory", "ByClass"]);
    let live = profiled.live_with(10, ",mid-factory=ByClass");
    same("tree by class", &by_class.0, &live.0);
    same("reports by class", &by_class.1, &live.1);
    assert!(
        by_class.0.contains("Foo\n") && by_class.0.lines().count() < tree.lines().count(),
        "{}",
        by_class.0
    );
    profiled.failures();

    let (faulty_tree, faulty_log) = profiled.live(1, Some(FAULT));
    assert!(faulty_tree != *tree && faulty_log != *log, "a probe that is left out is not seen");
}

/// A capture of the first example.
fn record_foo(place: &Installation) -> RecordedRun {
    let classes = place.programs.join("examples.jar").display().to_string();
    let plan = Plan { oracle: false, ..Plan::new(EngineMode::Interpreter) };
    RecordedRun::command(place, &["-cp".into(), classes, "Foo".into()], &plan).expect("it can be recorded")
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn a_profiler_that_fails_ends_the_replay_with_a_message() {
    const TEST: &str = "a_profiler_that_fails_ends_the_replay_with_a_message";
    let Some(place) = place::installed(TEST) else { return };
    let Some(jar) = replay_jar(TEST, &place) else { return };
    let recording = record_foo(&place);
    let folder = recording.file("");
    let classes = compile(&place, &jar, &folder);
    // A class file of a Java that does not exist yet.
    let mut bytes = std::fs::read(classes.join("TreeFile.class")).unwrap();
    bytes[6..8].copy_from_slice(&999_u16.to_be_bytes());
    let newer = folder.join("newer");
    std::fs::create_dir_all(&newer).unwrap();
    std::fs::write(newer.join("TreeFile.class"), bytes).unwrap();

    let java = place.java.display().to_string();
    let run = |profiler: &str, path: &Path, more: &[&str]| {
        let path = path.display().to_string();
        let arguments = [&["--java", &java, "--profiler", profiler, "--classpath", &path], more].concat();
        recording.jportal(&["replay"], &recording.capture(), &arguments).expect("it ends")
    };
    let fine = run("Failing", &classes, &["--json"]);
    assert!(fine.status.success(), "{}", fine.stderr);
    let result = fine.json().unwrap();
    assert_eq!((&result["threads"], &result["exact"]), (&1.into(), &true.into()), "{result}");

    let fails = |profiler: &str, path: &Path, more: &[&str], text: &str| {
        let finished = run(profiler, path, more);
        let is_message =
            finished.stderr.lines().any(|l| l.starts_with("jportal: error: ") && l.contains(text));
        assert!(is_message, "{profiler} {more:?}: no {text:?} in {}", finished.stderr);
        assert_eq!((finished.status.code(), finished.text().as_str()), (Some(2), ""), "{more:?}");
    };
    let how = |how: &str| format!("-Dhow={how}");
    fails("Nothing", &classes, &[], "there is no class Nothing on the class path");
    fails(
        "java.lang.String",
        &classes,
        &[],
        "class java.lang.String does not implement jportal.profile.Profiler",
    );
    fails("TreeFile", &newer, &[], "class TreeFile needs a newer Java than this one, 17");
    fails(
        "Failing$Constructed",
        &classes,
        &[],
        "the constructor of Failing$Constructed threw java.lang.IllegalStateException: no object at Failing",
    );
    fails("Failing", &folder.join("nowhere"), &[], "there is no \"");
    fails(
        "Failing",
        &classes,
        &["--mid-factory", "TreeFile"],
        "class TreeFile does not implement jportal.profile.MIDFactory",
    );
    fails("Failing", &classes, &["--mid-factory", "Failing"], "Failing.getMID returned null for Foo.");
    fails(
        "Failing",
        &classes,
        &["--", &how("zero")],
        "Failing.register returned 0, which is no number of bytecodes",
    );
    fails(
        "Failing",
        &classes,
        &["--", &how("throws")],
        "Failing.report threw java.lang.IllegalStateException: report 20 at Failing.report(Failing.java:",
    );
    fails(
        "Failing",
        &classes,
        &["--", &how("finish")],
        "Failing.finish threw java.lang.IllegalStateException: no disk",
    );
    fails(
        "Failing",
        &classes,
        &["--", &how("exits")],
        "java ended early (exit status: 3): Failing did not see all",
    );
    fails(
        "Failing",
        &classes,
        &["--", &how("halts")],
        "java ended early (exit status: 0): Failing did not see all",
    );
    fails(
        "Failing",
        &classes,
        &["--", "-Xmx32m", &how("fills")],
        "Failing.report threw java.lang.OutOfMemoryError",
    );
    fails(
        "Failing",
        &classes,
        &["--", "-XX:NoSuchFlag=1"],
        "java cannot run jportal-replay.jar, which needs Java 17",
    );
    fails("Failing", &classes, &["--max-nodes", "2"], "the call tree needs more than 2 nodes");

    let without = |java: &str, path: &str, text: &str| {
        let mut command = Command::new(&place.jportal);
        command.arg("replay").arg(recording.capture()).args(["--profiler", "Failing", "--cp"]).arg(&classes);
        let finished: Finished =
            process::run(command.env("JAVA_HOME", java).env("PATH", path), LIMIT).unwrap();
        assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(text), "{}", finished.stderr);
    };
    without("", "/nonexistent", "no java found: give --java, set JAVA_HOME, or install one");
    without("/nonexistent", "/usr/bin", "JAVA_HOME=/nonexistent: no java at ");

    // A capture with gaps is replayed with a warning, and the profiler gets the reason.
    let lossy = recording.file("lossy.jportal");
    let lossy_text = lossy.display().to_string();
    let degraded =
        recording.jportal(&["degrade"], &recording.capture(), &["--every", "20k", "-o", &lossy_text]);
    assert!(degraded.unwrap().status.success());
    let tree = recording.file("lossy.tree");
    let set = format!("-Dtree={}", tree.display());
    let classes = classes.display().to_string();
    let arguments = ["--profiler", "TreeFile", "--cp", &classes, "--", &set];
    let finished = recording.jportal(&["replay"], &lossy, &arguments).unwrap();
    assert!(finished.status.success(), "{}", finished.stderr);
    assert!(finished.stderr.contains("warning: not exact, counts may be too low: "), "{}", finished.stderr);
    let text = std::fs::read_to_string(tree).unwrap();
    assert!(text.starts_with("not exact: ") && text.contains(" gap"), "{text:.300}");
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn the_java_side_reads_its_format() {
    let Some(place) = place::installed("the_java_side_reads_its_format") else { return };
    let finished = process::run(&mut Command::new(place.root.join("profiler/test.sh")), LIMIT).unwrap();
    assert!(finished.status.success(), "{}{}", finished.text(), finished.stderr);
    assert!(finished.text().starts_with("FormatTest: passed, "), "{}", finished.text());
}

/// Records the example E7.
fn record_recursion(place: &Installation, mode: EngineMode, flags: &[&str]) -> RecordedRun {
    let classes = place.programs.join("examples.jar").display().to_string();
    let exact = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow"];
    let flags = exact.iter().chain(flags).map(ToString::to_string).collect();
    let plan = Plan { oracle: false, flags, ..Plan::new(mode) };
    RecordedRun::command(place, &["-cp".into(), classes, "Rec".into()], &plan).expect("it can be recorded")
}

#[test]
#[ignore = "a minute: four recordings, one of them compiled by C2; scripts/verify-all runs it"]
fn reports_do_not_depend_on_the_tier() {
    const TEST: &str = "reports_do_not_depend_on_the_tier";
    const C2: [&str; 4] = [
        "-Xcomp",
        "-XX:-TieredCompilation",
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=compileonly,Rec::*",
    ];
    let Some(place) = place::installed(TEST) else { return };
    let Some(jar) = replay_jar(TEST, &place) else { return };
    let runs = [
        (EngineMode::Interpreter, &[][..]),
        (EngineMode::Interpreter, &[]),
        (EngineMode::Interpreter, &[]),
        (EngineMode::Tiered, &C2[..]),
    ];
    let mut first: Option<Written> = None;
    for (mode, flags) in runs {
        let recording = record_recursion(&place, mode, flags);
        let agents = Agents::build(&place, &recording);
        let classes = compile(&place, &jar, &agents.folder);
        let profiled = Profiled { recording: &recording, agents: &agents, classes, program: Vec::new() };
        let seen = profiled.replayed(10);
        let first = first.get_or_insert_with(|| seen.clone());
        same("tree", &seen.0, &first.0);
        same("reports", &seen.1, &first.1);
        let tier = recording.jportal(
            &["report", "hot-methods", "--json"],
            &recording.capture(),
            &["--class", "Rec"],
        );
        let tiers = tier.unwrap().json().unwrap()["methods"][0]["tiers"].clone();
        let by = if flags.is_empty() { "interpreter" } else { "c2" };
        assert!(tiers[by].as_u64().is_some_and(|n| n > 10_000), "{by}: {tiers}");
    }
    // 14 KB of bytecodes, and a check point at each call.
    let (tree, log) = first.expect("a run");
    assert!(tree.contains("fib(I)I\n4 45") && reports(&log) > 700, "{} reports: {tree:.400}", reports(&log));
}

/// H2 sorts by identity hash, and its cache depends on the collector.
const SAME_H2: [&str; 3] = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-Dh2.objectCache=false"];

#[test]
#[ignore = "minutes: H2 three times live and replayed; scripts/verify-all runs it"]
fn a_profiler_sees_the_same_of_h2() {
    const TEST: &str = "a_profiler_sees_the_same_of_h2";
    let Some(place) = place::installed(TEST) else { return };
    let Some(jar) = replay_jar(TEST, &place) else { return };
    let program = programs::by_name("h2-rounds").expect("a program of that name");
    if let Some(missing) = program.missing() {
        return skip::skip(TEST, &missing);
    }
    let arguments = program.command(&place.root, &place.programs, jportal_tests::programs::Size::Small);
    let same_flags: Vec<String> = SAME_H2.iter().map(ToString::to_string).collect();
    let exact = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow"].map(str::to_owned);
    let flags = [same_flags.clone(), exact.into()].concat();
    let plan = Plan { oracle: false, flags, ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(&place, &program, &plan).expect("H2 can be recorded");
    let agents = Agents::build(&place, &recording);
    let classes = compile(&place, &jar, &agents.folder);
    let profiled = Profiled {
        recording: &recording,
        agents: &agents,
        classes,
        program: [same_flags, arguments].concat(),
    };
    for every in [10_000, 1_000_000, i32::MAX as u32] {
        let (tree, log) = profiled.compare(every);
        println!("every {every}: {} nodes, {} reports", tree.lines().count(), reports(&log));
    }
}
