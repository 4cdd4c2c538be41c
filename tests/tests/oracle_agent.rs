// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Tests the oracle agent without any tracing: it must be right before it can judge other
//! components.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jportal_tests::oracle::{OracleLog, Probe};
use jportal_tests::place::{self, Installation};
use jportal_tests::process::{self, Finished};
use jportal_tests::programs::{self, Size, UNITS};
use jportal_tests::{Result, skip};

const LIMIT: Duration = Duration::from_secs(300);

fn agent_flag(place: &Installation, out: &Path, options: &str) -> String {
    format!("-javaagent:{}=out={}{options}", place.oracle.display(), out.display())
}

fn java(place: &Installation, out: &Path, options: &str, arguments: &[String]) -> Result<Finished> {
    process::run(Command::new(&place.java).arg(agent_flag(place, out, options)).args(arguments), LIMIT)
}

fn strings(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&a| a.to_owned()).collect()
}

/// The arguments that run `programs.Exit` interpreted.
fn exit_program(place: &Installation, arguments: &[&str]) -> Vec<String> {
    let mut all = strings(&["-Xint", "-cp"]);
    all.push(place.programs.join("programs.jar").display().to_string());
    all.push("programs.Exit".into());
    all.extend(strings(arguments));
    all
}

/// The meanings of each thread's probes.
fn meanings(log: &OracleLog) -> Vec<Vec<Probe>> {
    let of = |t| log.meaning(t).expect("every id is in probes.tsv").into_iter().cloned().collect();
    log.threads.iter().map(of).collect()
}

#[test]
fn programs_behave_the_same_with_the_agent() {
    let Some(place) = place::agent("programs_behave_the_same_with_the_agent") else { return };
    for program in UNITS {
        let out = tempfile::tempdir().unwrap();
        let command = program.command(&place.root, &place.programs, Size::Small);
        let plain = process::run(Command::new(&place.java).args(&command), LIMIT).unwrap();
        let probed = java(&place, out.path(), "", &command).unwrap();
        assert!(plain.status.success(), "{}: {}", program.name, plain.stderr);
        assert_eq!(plain.text(), probed.text(), "{}: {}", program.name, probed.stderr);
        assert_eq!(plain.status, probed.status, "{}", program.name);
        let log = OracleLog::read(out.path()).unwrap();
        assert!(log.hits() > 100, "{}: {} hits", program.name, log.hits());
        assert_eq!(log.skipped, Vec::<String>::new(), "{}", program.name);
        assert_eq!(log.error, None, "{}", program.name);
        meanings(&log);
    }
}

#[test]
fn two_runs_of_a_deterministic_program_log_the_same() {
    let Some(place) = place::agent("two_runs_of_a_deterministic_program_log_the_same") else { return };
    for name in ["branches", "exceptions", "calls", "dynamic"] {
        let program = programs::by_name(name).unwrap();
        let mut command = strings(&["-Xint"]);
        command.extend(program.command(&place.root, &place.programs, Size::Small));
        let log = |command: &[String]| {
            let out = tempfile::tempdir().unwrap();
            assert!(java(&place, out.path(), "", command).unwrap().status.success());
            meanings(&OracleLog::read(out.path()).unwrap())
        };
        let first = log(&command);
        let mut again = log(&command);
        // The depth at which the stack overflows is not a property of the program; only the other
        // programs must agree to the end.
        if name == "exceptions" {
            let common = |a: &[Probe], b: &[Probe]| a.iter().zip(b).take_while(|(x, y)| x == y).count();
            assert!(common(&first[0], &again[0]) > 1000);
        } else {
            assert_eq!(first, again, "{name}");
        }
        // The comparison must be able to fail: with one probe missing, and with another size of
        // the program.
        again[0].remove(5);
        assert_ne!(first, again, "{name}");
        *command.last_mut().unwrap() = "5".into();
        assert_ne!(first, log(&command), "{name}");
    }
}

/// One run saves classes and another uses them: the probes are the same, and only what was not
/// saved gets new ids.
#[test]
fn prepared_classes_log_the_same() {
    let Some(place) = place::agent("prepared_classes_log_the_same") else { return };
    let folder = tempfile::tempdir().unwrap();
    let prepared = folder.path().join("classes");
    let run = |name: &str, program: &str, option: String| {
        let mut command = strings(&["-Xint"]);
        let program = programs::by_name(program).unwrap();
        command.extend(program.command(&place.root, &place.programs, Size::Small));
        let out = folder.path().join(format!("{name}-{}", program.name));
        assert!(java(&place, &out, &option, &command).unwrap().status.success());
        OracleLog::read(&out).unwrap()
    };
    // Loaders defines one class many times; only its first definition can be prepared.
    for program in ["calls", "loaders"] {
        let saving = run("saving", program, format!(",save={}", prepared.display()));
        let using = run("using", program, format!(",use={}", prepared.display()));
        assert_eq!(meanings(&saving), meanings(&using), "{program}");
        assert_eq!(saving.probes.len(), using.probes.len(), "{program}");
    }
    let other = run("other", "branches", format!(",use={}", prepared.display()));
    let plain = run("plain", "branches", String::new());
    assert_eq!(meanings(&other), meanings(&plain));
    assert!(
        other.probes.keys().next() > plain.probes.keys().next(),
        "ids of saved classes must not be given again"
    );
}

/// The probes of `programs.Exit.work`, and how often each is hit, derived from the source by
/// hand.
#[test]
fn a_known_loop_hits_its_blocks_as_counted_by_hand() {
    let Some(place) = place::agent("a_known_loop_hits_its_blocks_as_counted_by_hand") else { return };
    let out = tempfile::tempdir().unwrap();
    let run = java(&place, out.path(), "", &exit_program(&place, &["return"])).unwrap();
    assert!(run.status.success(), "{}", run.stderr);
    let log = OracleLog::read(out.path()).unwrap();
    assert_eq!(log.threads.len(), 1);
    // work(2000): for (int i = 0; i < n; i++) sum += i % 3 == 0 ? i : -1;
    // Blocks in code order: entry, loop condition, test of i % 3, "then" arm, "else" arm, sum and
    // i++, return.
    let n = 2000;
    let thirds = usize::div_ceil(n, 3);
    let expected = [1, n + 1, n, thirds, n - thirds, n, 1];
    let counts: Vec<usize> = (0..expected.len())
        .map(|ordinal| {
            let is = |p: &&&Probe| p.method == "work(I)I" && p.ordinal as usize == ordinal;
            log.meaning(&log.threads[0]).unwrap().iter().filter(is).count()
        })
        .collect();
    assert_eq!(counts, expected);
    let in_work = log.probes.values().filter(|p| p.method == "work(I)I").count();
    assert_eq!(in_work, expected.len());
}

/// The log is complete whichever way the VM ends.
#[test]
fn nothing_is_lost_however_the_vm_ends() {
    let Some(place) = place::agent("nothing_is_lost_however_the_vm_ends") else { return };
    let work = |log: &OracleLog, thread: usize| {
        log.meaning(&log.threads[thread])
            .unwrap()
            .iter()
            .filter(|p| p.method == "work(I)I" && p.ordinal == 5)
            .count()
    };
    for (arguments, status, threads) in [
        (&["return"][..], 0, 1),
        (&["exit", "3"], 3, 1),
        (&["hook", "4"], 4, 2),
        (&["halt", "5"], 5, 1),
        (&["throw"], 1, 1),
    ] {
        let out = tempfile::tempdir().unwrap();
        let run = java(&place, out.path(), "", &exit_program(&place, arguments)).unwrap();
        assert_eq!(run.status.code(), Some(status), "{arguments:?}: {}", run.stderr);
        let log = OracleLog::read(out.path()).unwrap();
        assert_eq!(log.threads.len(), threads, "{arguments:?}");
        assert_eq!(work(&log, 0), 2000, "{arguments:?}");
        if threads == 2 {
            assert_eq!(work(&log, 1), 500);
        }
    }
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(&place.java);
    command.arg(agent_flag(&place, out.path(), "")).args(exit_program(&place, &["spin"]));
    let running = process::start(&mut command).unwrap();
    running.wait_for("spinning", LIMIT).unwrap();
    process::send(running.id(), libc::SIGKILL).unwrap();
    assert!(!running.wait(LIMIT).unwrap().status.success());
    assert!(work(&OracleLog::read(out.path()).unwrap(), 0) >= 2000);
}

#[test]
fn jre_classes_are_instrumented_on_request() {
    let Some(place) = place::agent("jre_classes_are_instrumented_on_request") else { return };
    let run = |options: &str| {
        let out = tempfile::tempdir().unwrap();
        let run = java(&place, out.path(), options, &exit_program(&place, &["return"])).unwrap();
        assert_eq!(run.status.code(), Some(0), "{options}: {}", run.stderr);
        OracleLog::read(out.path()).unwrap()
    };
    let classes =
        |log: &OracleLog, prefix: &str| log.probes.values().filter(|p| p.class.starts_with(prefix)).count();
    let default = run("");
    assert_eq!(classes(&default, "java/"), 0);
    let all = run(",jre=true");
    assert!(classes(&all, "java/lang/String") > 100 && classes(&all, "programs/Exit") > 0);
    assert_eq!(classes(&all, "jportal/"), 0, "the agent must not instrument itself");
    assert!(all.skipped.iter().all(|line| line.contains("hidden class")), "{:?}", all.skipped);
    let some = run(",jre=true,include=java/util/,include=programs,exclude=java/util/HashMap");
    assert!(classes(&some, "java/util/") > 100 && classes(&some, "programs/Exit") > 0);
    assert_eq!(classes(&some, "java/util/HashMap") + classes(&some, "java/lang/"), 0);
}

/// A method that would exceed 64 KB is left as it is and is listed. The rest of its class is
/// instrumented.
#[test]
fn a_method_too_large_with_probes_is_listed() {
    let Some(place) = place::agent("a_method_too_large_with_probes_is_listed") else { return };
    let javac = place.java.with_file_name("javac");
    if !javac.exists() {
        return skip::skip("a_method_too_large_with_probes_is_listed", "no javac beside java");
    }
    let folder = tempfile::tempdir().unwrap();
    let branches: String = (0..6000).map(|i| format!("if(x=={i})x++;")).collect();
    let source = format!(
        "public class Large{{static int large(int x){{{branches}return x;}}
         static int small(int x){{return x>0?1:2;}}
         public static void main(String[] a){{System.out.println(large(1)+small(3));}}}}"
    );
    std::fs::write(folder.path().join("Large.java"), source).unwrap();
    let compiled =
        process::run(Command::new(javac).current_dir(folder.path()).arg("Large.java"), LIMIT).unwrap();
    assert!(compiled.status.success(), "{}", compiled.stderr);
    let out = tempfile::tempdir().unwrap();
    let command = strings(&["-cp", folder.path().to_str().unwrap(), "Large"]);
    let run = java(&place, out.path(), "", &command).unwrap();
    assert_eq!(run.text().trim(), "6001", "{}", run.stderr);
    let log = OracleLog::read(out.path()).unwrap();
    assert_eq!(log.skipped, ["Large\tlarge(I)I\tmethod too large with probes"]);
    let hit: Vec<&str> = log.meaning(&log.threads[0]).unwrap().iter().map(|p| p.method.as_str()).collect();
    assert!(hit.contains(&"small(I)I") && !hit.contains(&"large(I)I"), "{hit:?}");
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(place) = place::agent("wrong_arguments_are_refused") else { return };
    for (options, message) in [
        ("jre=maybe,out=/tmp/x", "neither true nor false"),
        ("speed=9", "unknown argument"),
        ("", "out=DIR is missing"),
    ] {
        let mut command = Command::new(&place.java);
        command.arg(format!("-javaagent:{}={options}", place.oracle.display())).arg("-version");
        let run = process::run(&mut command, LIMIT).unwrap();
        assert_ne!(run.status.code(), Some(0));
        assert!(run.stderr.contains(message), "{options}: {}", run.stderr);
    }
}
