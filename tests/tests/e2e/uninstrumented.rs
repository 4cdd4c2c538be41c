// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Programs without probes, because probes prevent the very folds that lose paths. The flow of
//! the main thread in the default mode must equal the flow with `-Xint`, bytecode by bytecode.

use jportal_tests::against::{self, Precision, RunComparison};
use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::programs::{self, Program};
use jportal_tests::recording::{EngineMode, Info, LIMIT, Plan, RecordedRun};
use jportal_tests::{Result, skip};

/// A program, and the flags that make two runs of it the same.
struct FlaggedProgram {
    name: &'static str,
    /// Flags of `java` for both runs.
    flags: &'static [&'static str],
}

/// FOP differs between two interpreted runs: it visits the methods of its proxy classes in
/// another order, and one of its caches has other contents. The reason is not proved; the order
/// may be that of the addresses of the methods' names in the VM.
const DIFFERENT_IN_EACH_RUN: &str = "fop";

/// The cause of a stretch that is unresolved although no compiler has declared its path lost.
const CONTRADICTED: &str = "missing-marker";

/// Records the program, which must succeed.
fn record(
    place: &Installation,
    program: &Program,
    mode: EngineMode,
    flags: Vec<String>,
) -> Result<RecordedRun> {
    if let Some(out) = program.out(&place.root) {
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        std::fs::create_dir_all(out)?;
    }
    let plan = Plan { oracle: false, flags, ..Plan::new(mode) };
    let recording = RecordedRun::make(place, program, &plan)?;
    let run = &recording.program;
    if run.status.success() { Ok(recording) } else { Err(format!("{}: {}", run.status, run.stderr).into()) }
}

/// Checks that the machine flow is sound, and that a JVM could have executed the bytecodes.
fn sound(info: &Info) -> Result<()> {
    let (native, contradictions) = (info.native_errors()?, info.reconstruct_errors()?);
    let checked = info.checked()?;
    if native + contradictions > 0 || !checked.by_rule.is_empty() {
        return Err(format!(
            "{native} machine-flow errors, {contradictions} contradictions, findings {:?}: {}",
            checked.by_rule,
            checked.first.join("\n")
        )
        .into());
    }
    Ok(())
}

/// A line of the table of figures.
fn line(name: &str, precision: Precision, outcome: &RunComparison) -> String {
    let RunComparison { matched, c1, c2, wrong, unresolved, hidden, causes, .. } = outcome;
    format!(
        "against -Xint, {}\t{name}\tequal {matched}\tof them C1 {c1}\tC2 {c2}\twrong {wrong}\tunresolved {unresolved}\thidden {hidden}\t{causes:?}",
        precision.name()
    )
}

/// Records the program in the default mode and compares it with the interpreted run.
fn compare(
    place: &Installation,
    (subject, program): (&FlaggedProgram, &Program),
    reference: &RecordedRun,
    precision: Precision,
) -> Result<()> {
    let flags = subject.flags.iter().map(|&flag| flag.to_owned()).chain([precision.flag()]).collect();
    let tested = record(place, program, EngineMode::Tiered, flags)?;
    let (seen, wanted) = (tested.program.text(), reference.program.text());
    if seen != wanted {
        return Err(format!("the program printed {seen:?}, interpreted {wanted:?}").into());
    }
    let captures = (tested.capture(), reference.capture());
    let outcome = against::compare(&place.jportal, (&captures.0, precision), &captures.1, LIMIT)?;
    figure(&line(subject.name, precision, &outcome));
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    if let Some(stretches) = outcome.causes.get(CONTRADICTED) {
        return Err(format!("markers contradict each other, {stretches} times").into());
    }
    if outcome.compiled() * 10 < outcome.matched {
        return Err(format!("compiled code executed too little to say much: {outcome:?}").into());
    }
    sound(&tested.info(&captures.0, &["--check"])?)
}

/// Compares the program at these precisions; returns the errors.
fn check(place: &Installation, subject: &FlaggedProgram, precisions: &[Precision]) -> Vec<String> {
    let program = programs::by_name(subject.name).expect("a program of that name");
    if let Some(missing) = program.missing() {
        skip::skip(&format!("uninstrumented {}", subject.name), &missing);
        return Vec::new();
    }
    let flags = subject.flags.iter().map(|&flag| flag.to_owned()).collect();
    let reference = match record(place, &program, EngineMode::Interpreter, flags) {
        Ok(reference) => reference,
        Err(error) => return vec![format!("{}, interpreted: {error}", subject.name)],
    };
    let failed = |&precision: &Precision| {
        let error = compare(place, (subject, &program), &reference, precision).err()?;
        Some(format!("{}, {}: {error}", subject.name, precision.name()))
    };
    precisions.iter().filter_map(failed).collect()
}

fn run(name: &'static str, flags: &'static [&'static str]) {
    let Some(place) = place::installed(&format!("uninstrumented {name}")) else { return };
    let failed = check(&place, &FlaggedProgram { name, flags }, &[Precision::Exact, Precision::Default]);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

macro_rules! subjects {
    ($($(#[$attribute:meta])* $test:ident = $name:literal, $flags:expr;)*) => {
        $(#[test] $(#[$attribute])* fn $test() { run($name, $flags) })*
        /// Every program.
        const TESTED: &[&str] = &[$($name),*];
    };
}

subjects! {
    #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
    textifier = "textifier", &[];
    #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
    jump_tables = "jump-tables", &[];
    // With flags that make C2 compile early.
    #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
    lookups = "lookups", &["-Xbatch", "-XX:CompileThresholdScaling=0.05"];
    #[ignore = "minutes; scripts/verify-all"]
    xalan = "xalan", &[];
    // H2's cache of values depends on hash codes, some of which depend on the time of day.
    #[ignore = "minutes; scripts/verify-all"]
    h2 = "h2-rounds", &["-Dh2.objectCache=false"];
    #[ignore = "minutes; scripts/verify-all"]
    hsqldb = "hsqldb", &[];
    #[ignore = "minutes; scripts/verify-all"]
    javac = "javac", &[];
    // Otherwise, a second thread compiles, and it depends on timing which of the two waits for
    // the other.
    #[ignore = "minutes; scripts/verify-all"]
    ecj = "ecj", &["-Djdt.compiler.useSingleThread=true"];
    #[ignore = "minutes; scripts/verify-all"]
    antlr = "antlr", &[];
    #[ignore = "minutes; scripts/verify-all"]
    sunflow = "sunflow", &[];
    #[ignore = "minutes; scripts/verify-all"]
    xerces = "xerces", &[];
    #[ignore = "minutes; scripts/verify-all"]
    serializer = "serializer", &[];
    #[ignore = "minutes; scripts/verify-all"]
    antlr_tool = "antlr-tool", &[];
    #[ignore = "minutes; scripts/verify-all"]
    javap = "javap", &[];
    #[ignore = "minutes; scripts/verify-all"]
    batik = "batik", &["-Djava.awt.headless=true"];
}

/// C1's code calls methods that are inlined into themselves until the stack overflows, and
/// returns from all of the frames. (The code has counters. Without them, a recursion may have no
/// conditional branch, and then leaves no packets.)
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn stacks_that_overflow_are_unwound_frame_by_frame() {
    let Some(place) = place::installed("stacks_that_overflow_are_unwound_frame_by_frame") else { return };
    let program = programs::by_name("exceptions").expect("a program of that name");
    let recording =
        record(&place, &program, EngineMode::Tiered, vec!["-XX:TieredStopAtLevel=3".to_owned()]).unwrap();
    let info = recording.info(&recording.capture(), &["--check"]).unwrap();
    sound(&info).unwrap();
    assert_eq!(info.number("/gaps").unwrap(), 0.0, "{}", info.0["gaps_by_reason"]);
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn every_program_is_compared() {
    let main = |name: &&str| programs::by_name(name).expect("a program of that name").main;
    let tested: Vec<&str> = TESTED.iter().map(main).collect();
    for program in programs::WORKLOADS.iter().chain(programs::TOOLS) {
        if program.name == DIFFERENT_IN_EACH_RUN {
            continue;
        }
        assert!(tested.contains(&program.main), "{} is not", program.name);
    }
}
