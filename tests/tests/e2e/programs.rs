// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Each program, interpreted and in the VM's default mode.

use std::process::Command;

use jportal_tests::figures::figure;
use jportal_tests::place::{self, Installation};
use jportal_tests::programs::{self, Program, Size};
use jportal_tests::recording::{Checked, EngineMode, Info, LIMIT, Plan, RecordedRun, VerifyOutput};
use jportal_tests::{Result, process, skip};

/// libipt is slow. The short form compares it in these programs only, and the figures say so.
/// [`libipt_executes_the_same_in_every_program`] compares it in the others.
const WITH_LIBIPT: [&str; 3] = ["exceptions", "switches", "threads"];

/// The program's output without recording.
fn plain_output(place: &Installation, program: &Program, size: Size) -> Result<String> {
    let command = program.command(&place.root, &place.programs, size);
    Ok(process::run(Command::new(&place.java).args(command), LIMIT)?.text())
}

/// Requirements of every mode: the program is not disturbed.
fn undisturbed(place: &Installation, program: &Program, plan: &Plan, recording: &RecordedRun) -> Result<()> {
    if !recording.program.status.success() {
        return Err(format!(
            "the program failed, {}: {}",
            recording.program.status, recording.program.stderr
        )
        .into());
    }
    let (plain, seen) = (plain_output(place, program, plan.size)?, recording.program.text());
    if plain != seen {
        return Err(format!("the program printed {seen:?}, unobserved {plain:?}").into());
    }
    Ok(())
}

/// Requirements of every mode: the trace decodes without error. An interpreted run has no gap,
/// also in threads without probes.
fn sound(plan: &Plan, info: &Info, verdict: &VerifyOutput) -> Result<()> {
    let ((native, contradictions), bytes) = (verdict.errors()?, info.number("/pt_bytes")?);
    if native != 0 || bytes == 0.0 {
        return Err(format!("{native} machine-flow errors, {bytes} PT bytes").into());
    }
    if plan.mode == EngineMode::Interpreter {
        let gaps = info.number("/gaps")?;
        if gaps != 0.0 || contradictions != 0 {
            return Err(format!("{gaps} gaps, {contradictions} contradictions").into());
        }
    }
    Ok(())
}

/// The checker must find nothing, regardless of the oracle.
fn possible(checked: &Checked) -> Result<()> {
    if checked.by_rule.is_empty() {
        return Ok(());
    }
    Err(format!("the flow breaks rules, {:?}; first findings: {}", checked.by_rule, checked.first.join("\n"))
        .into())
}

/// `verify` through libipt, which must agree block by block, must report the same as through our
/// own decoder.
fn same_through_libipt(recording: &RecordedRun, own: &VerifyOutput) -> Result<()> {
    let mut libipt = recording.verify(&recording.capture(), &["--native-decoder", "libipt"])?;
    if let (Some(report), Some(check)) = (libipt.report.as_object_mut(), own.report.get("check")) {
        report.insert("check".to_owned(), check.clone());
    }
    if libipt.report.is_null() || own.code != libipt.code || own.report != libipt.report {
        let (code, report, stderr) = (libipt.code, &libipt.report, &libipt.stderr);
        return Err(format!(
            "through libipt: exit {code} {report} {stderr}; own: exit {} {}",
            own.code, own.report
        )
        .into());
    }
    Ok(())
}

/// Records the program, and checks it with the oracle, the checker and libipt. `mode` names the
/// plan in the table of figures.
pub(crate) fn check(place: &Installation, program: &Program, plan: &Plan, mode: &str) -> Result<()> {
    let recording = RecordedRun::make(place, program, plan)?;
    let judged = judge(place, program, plan, mode, &recording);
    judged.map_err(|e| format!("{e}; its files are in {}", recording.keep().display()).into())
}

fn judge(
    place: &Installation,
    program: &Program,
    plan: &Plan,
    mode: &str,
    recording: &RecordedRun,
) -> Result<()> {
    let (capture, log) = (recording.capture(), recording.oracle()?);
    // Each decode takes seconds, so `verify` also checks where the number of gaps does not matter.
    let (info, verdict, checked) = if plan.mode == EngineMode::Interpreter {
        let info = recording.info(&capture, &["--check"])?;
        let checked = info.checked()?;
        (info, recording.verify(&capture, &[])?, checked)
    } else {
        let verdict = recording.verify(&capture, &["--check"])?;
        let checked = verdict.checked()?;
        (recording.info(&capture, &["--no-decode"])?, verdict, checked)
    };
    let (probes, matched) = (verdict.probes()?, verdict.matched()?);
    let bytes = info.number("/pt_bytes")?;
    let with_libipt = plan.size == Size::Full || WITH_LIBIPT.contains(&program.name);
    figure(&format!(
        "{mode}\t{}\tthreads {}\tprobes {probes}\tmatched {matched}\tPT bytes {bytes}\tcontradictions {}\tfindings {:?}\tnot checked {:?}\trun {:.1} s",
        program.name,
        log.threads.len(),
        verdict.errors()?.1,
        checked.by_rule,
        checked.resets,
        recording.program.elapsed.as_secs_f64()
    ));
    figure(&format!("{mode}\t{}\tprobes by tier: {}", program.name, verdict.tiers()?));
    undisturbed(place, program, plan, recording)?;
    sound(plan, &info, &verdict)?;
    possible(&checked)?;
    verdict.require_exact(&log)?;
    if with_libipt {
        same_through_libipt(recording, &verdict)?;
    }
    let libipt = if with_libipt { "executes the same" } else { "is left to verify-all" };
    figure(&format!("{mode}\t{}\tlibipt {libipt}", program.name));
    if plan.size == Size::Full && mode == label(EngineMode::Tiered) {
        let debug_info = recording.verify(&recording.capture(), &["--positions", "debug-info"])?;
        let (matched, tiers) = (debug_info.matched()?, debug_info.tiers()?);
        figure(&format!("{mode}\t{}\tdebug info alone: matched {matched}: {tiers}", program.name));
    }
    Ok(())
}

/// The name of a mode in the table of figures.
pub(crate) fn label(mode: EngineMode) -> &'static str {
    match mode {
        EngineMode::Interpreter => "interpreter",
        EngineMode::Tiered => "tiered",
    }
}

fn run(name: &str, mode: EngineMode, size: Size) {
    let test = format!("{name} {mode:?} {size:?}");
    let Some(place) = place::installed(&test) else { return };
    let program = programs::by_name(name).expect("a program of that name");
    if let Some(missing) = program.missing() {
        return skip::skip(&test, &missing);
    }
    if let Err(error) = check(&place, &program, &Plan { size, ..Plan::new(mode) }, label(mode)) {
        panic!("{test}: {error}");
    }
}

/// Programs that CI runs in both modes; in the VM's default mode alone, where most of their code is
/// interpreted, too; and in neither. `scripts/verify-all` runs all in both.
macro_rules! programs {
    (both: $($test:ident = $name:literal),*; tiered: $($middle:ident = $middle_name:literal),*;
     long: $($long:ident = $long_name:literal),*;) => {
        mod interpreter {
            use super::*;
            $(#[test] #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
              fn $test() { run($name, EngineMode::Interpreter, Size::Small) })*
            $(#[test] #[ignore = "minutes; scripts/verify-all"]
              fn $middle() { run($middle_name, EngineMode::Interpreter, Size::Small) })*
            $(#[test] #[ignore = "minutes; scripts/verify-all"]
              fn $long() { run($long_name, EngineMode::Interpreter, Size::Small) })*
        }
        mod tiered {
            use super::*;
            $(#[test] #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
              fn $test() { run($name, EngineMode::Tiered, Size::Small) })*
            $(#[test] #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
              fn $middle() { run($middle_name, EngineMode::Tiered, Size::Small) })*
            $(#[test] #[ignore = "minutes; scripts/verify-all"]
              fn $long() { run($long_name, EngineMode::Tiered, Size::Small) })*
        }
        /// Every program.
        pub(crate) const TESTED: &[&str] = &[$($name),*, $($middle_name),*, $($long_name),*];
    };
}

programs! {
    both: switches = "switches", exceptions = "exceptions", dynamic = "dynamic", reflection = "reflection",
        monitors = "monitors", threads = "threads", hot_loops = "hot-loops", old_forms = "old-forms",
        new_forms = "new-forms";
    tiered: arithmetic = "arithmetic", arrays = "arrays", branches = "branches", class_init = "class-init",
        calls = "calls", natives = "natives", recursion = "recursion", library = "library", loaders = "loaders",
        resolving = "resolving", h2 = "h2", javac = "javac", xalan = "xalan";
    long: ecj = "ecj", fop = "fop", antlr = "antlr", hsqldb = "hsqldb", sunflow = "sunflow";
}

/// The class loaders of these programs run code of their own while the VM resolves the class of a
/// probe.
mod scripts {
    use super::*;

    fn both(name: &str) {
        run(name, EngineMode::Interpreter, Size::Small);
        run(name, EngineMode::Tiered, Size::Small);
    }

    #[test]
    #[ignore = "minutes; scripts/verify-all"]
    fn jython() {
        both("jython");
    }

    #[test]
    #[ignore = "minutes; scripts/verify-all"]
    fn clojure() {
        both("clojure");
    }

    #[test]
    #[ignore = "minutes; scripts/verify-all"]
    fn groovy() {
        both("groovy");
    }
}

#[test]
fn every_program_is_tested() {
    let mut known: Vec<&str> = programs::UNITS.iter().chain(programs::WORKLOADS).map(|p| p.name).collect();
    let mut tested = TESTED.to_vec();
    known.sort_unstable();
    tested.sort_unstable();
    assert_eq!(tested, known);
}

macro_rules! full {
    ($($test:ident = $name:literal, $mode:ident;)*) => {
        mod full {
            use super::*;
            $(#[test] #[ignore = "minutes; scripts/verify-all"]
              fn $test() { run($name, EngineMode::$mode, Size::Full) })*
        }
    };
}

full! {
    h2_interpreter = "h2", Interpreter;
    h2_tiered = "h2", Tiered;
    javac_interpreter = "javac", Interpreter;
    javac_tiered = "javac", Tiered;
    xalan_interpreter = "xalan", Interpreter;
    xalan_tiered = "xalan", Tiered;
    hsqldb_tiered = "hsqldb", Tiered;
    ecj_tiered = "ecj", Tiered;
    antlr_tiered = "antlr", Tiered;
    fop_tiered = "fop", Tiered;
    sunflow_tiered = "sunflow", Tiered;
}

/// The programs and modes in which the short form does not compare with libipt.
#[test]
#[ignore = "minutes; scripts/verify-all"]
fn libipt_executes_the_same_in_every_program() {
    let test = "libipt_executes_the_same_in_every_program";
    let Some(place) = place::installed(test) else { return };
    for name in TESTED.iter().filter(|name| !WITH_LIBIPT.contains(name)) {
        let program = programs::by_name(name).expect("a program of that name");
        if let Some(missing) = program.missing() {
            skip::skip(name, &missing);
            continue;
        }
        for mode in [EngineMode::Interpreter, EngineMode::Tiered] {
            let recording = RecordedRun::make(&place, &program, &Plan::new(mode)).unwrap();
            let own = recording.verify(&recording.capture(), &[]).unwrap();
            if let Err(e) = same_through_libipt(&recording, &own) {
                panic!("{name} {mode:?}: {e}; its files are in {}", recording.keep().display());
            }
        }
    }
}

/// The flow must be right with any number of virtual cores.
#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn the_number_of_cores_does_not_matter() {
    let test = "the_number_of_cores_does_not_matter";
    let Some(place) = place::installed(test) else { return };
    let program = programs::by_name("threads").expect("a program of that name");
    for cores in [1, 8] {
        let plan = Plan { cores, ..Plan::new(EngineMode::Interpreter) };
        if let Err(error) = check(&place, &program, &plan, label(plan.mode)) {
            panic!("{cores} cores: {error}");
        }
    }
}
