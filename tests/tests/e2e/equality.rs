// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reports and exports of a program without probes must equal what the peer computes, on its own,
//! from the oracle's log of another run: call tree, counts, paths, call trace, block trace, targets
//! of call sites and hottest methods of the main thread.

use std::path::Path;

use jportal_tests::figures::figure;
use jportal_tests::peer::{Fault, KINDS, Logged, TableKind, table};
use jportal_tests::peer_sums::{SumsCompared, targets, top_ten};
use jportal_tests::place::{self, Installation};
use jportal_tests::programs::{self, Program, Size};
use jportal_tests::recording::{EngineMode, Plan, RecordedRun};
use jportal_tests::{Result, skip};

/// Flags that leave no compiled code without a record of what it executed.
const EXACT: [&str; 2] = ["-XX:JPortalPrecision=exact", "-XX:-OmitStackTraceInFastThrow"];

/// Flags that give all objects the same identity hash. Programs that keep objects in hash tables,
/// or, as H2, sort by identity hash, would otherwise execute something else in each run.
const SAME_HASHES: [&str; 2] = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"];

/// Compares one kind, without a fault and with each fault.
fn compare(
    name: &str,
    (kind, peer): (TableKind, &Path),
    recording: &RecordedRun,
    logged: &Logged,
) -> Result<()> {
    let compared = logged.compare(kind, peer, &table(recording, kind, None)?)?;
    figure(&format!("equality\t{name}\t{}\tequal {}", kind.name(), compared.equal));
    if !compared.same || compared.equal == 0 {
        return Err(format!("{} equal; {:.4000}", compared.equal, compared.text).into());
    }
    for fault in [Fault::Count, Fault::Row] {
        if logged.compare(kind, peer, &table(recording, kind, Some(fault))?)?.same {
            return Err(format!("the fault {fault:?} is not seen").into());
        }
    }
    Ok(())
}

/// Compares the targets of call sites and the hottest methods, without a fault and with each fault.
fn compare_sums(name: &str, tree: &Path, recording: &RecordedRun, logged: &Logged) -> Result<()> {
    type CompareSums = fn(&RecordedRun, &Path, Option<Fault>) -> Result<SumsCompared>;
    let calls = logged.calls();
    let both: [(&str, CompareSums, &Path); 2] = [("targets", targets, &calls), ("top ten", top_ten, tree)];
    for (what, compare, peer) in both {
        let SumsCompared { equal, differences } = compare(recording, peer, None)?;
        figure(&format!("equality\t{name}\t{what}\tequal {equal}"));
        if equal == 0 || !differences.is_empty() {
            return Err(format!("{what}: {equal} equal; {:.4000}", differences.join("\n")).into());
        }
        for fault in [Fault::Count, Fault::Row] {
            if compare(recording, peer, Some(fault))?.differences.is_empty() {
                return Err(format!("{what}: the fault {fault:?} is not seen").into());
            }
        }
    }
    Ok(())
}

/// Compares these kinds of `program`, which runs with `flags`.
fn check(place: &Installation, program: &Program, flags: &[&str], kinds: &[TableKind]) -> Result<()> {
    let arguments = program.command(&place.root, &place.programs, Size::Small);
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let exact: Vec<String> = EXACT.iter().map(ToString::to_string).collect();
    let plan =
        Plan { oracle: false, flags: [flags.clone(), exact].concat(), ..Plan::new(EngineMode::Tiered) };
    let recording = RecordedRun::make(place, program, &plan)?;
    if !recording.program.status.success() {
        return Err(format!("{}: {}", recording.program.status, recording.program.stderr).into());
    }
    let logged = Logged::run(place, &[flags, arguments].concat(), &recording.file("peer"))?;
    let peers = logged.explain()?;
    let mut errors: Vec<String> = KINDS
        .into_iter()
        .zip(&peers)
        .filter(|(kind, _)| kinds.contains(kind))
        .filter_map(|(kind, peer)| {
            let error = compare(program.name, (kind, peer), &recording, &logged).err()?;
            Some(format!("{}: {error}", kind.name()))
        })
        .collect();
    errors.extend(compare_sums(program.name, &peers[0], &recording, &logged).err().map(|e| e.to_string()));
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nits files are in {}", errors.join("\n"), recording.keep().display()).into())
}

fn run(name: &str, flags: &[&str]) {
    run_program(&programs::by_name(name).expect("a program of that name"), flags, &KINDS);
}

fn run_program(program: &Program, flags: &[&str], kinds: &[TableKind]) {
    let test = format!("equality of {}", program.name);
    let Some(place) = place::installed(&test) else { return };
    if let Some(missing) = program.missing() {
        return skip::skip(&test, &missing);
    }
    if let Err(error) = check(&place, program, flags, kinds) {
        panic!("{test}: {error}");
    }
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn calls() {
    run("calls", &[]);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn recursion() {
    run("recursion", &[]);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn h2() {
    run("h2-rounds", &[&["-Dh2.objectCache=false"], &SAME_HASHES[..]].concat());
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn xalan() {
    run("xalan", &[]);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn hsqldb() {
    run("hsqldb", &SAME_HASHES);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn serializer() {
    // The peer's trace of eight copies, with all alternatives that it has to keep, is 3 GB.
    let program = programs::by_name("serializer").expect("a program of that name");
    run_program(&program.with_small(&["copy", "@document", "1"]), &[], &KINDS);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn xerces() {
    // Twenty rounds make 24 million probes.
    let program = programs::by_name("xerces").expect("a program of that name");
    run_program(&program.with_small(&["validate", "@document", "1"]), &[], &KINDS);
}

/// Example E9 of the clients: programs as they are. Two of them cannot be compared with another
/// run: `exceptions` overflows the stack, after a number of calls that depends on the tiers, and
/// the proxy class of `reflection` is only known with probes, from which the peer cannot restore
/// all places of instructions.
macro_rules! as_they_are {
    ($($test:ident = $name:literal;)*) => {
        $(#[test] #[ignore = "minutes; scripts/verify-all"] fn $test() { run($name, &SAME_HASHES) })*
    };
}

as_they_are! {
    natives = "natives";
    class_init = "class-init";
    threads = "threads";
    dynamic = "dynamic";
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn textifier() {
    run("textifier", &SAME_HASHES);
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn antlr() {
    // Without probes, calls of the program by the library may have several places in the peer's
    // traces. Here they have more than it follows (`TraceMatch.MOST`).
    let program = programs::by_name("antlr").expect("a program of that name");
    run_program(&program, &SAME_HASHES, &[TableKind::Tree, TableKind::Counts, TableKind::Paths]);
    skip::skip("equality of antlr: traces", "more than 4,096 ways to match 8.1 million tokens");
}
