// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Programs with other settings of the VM and of the PT unit: one compiler alone, compilation at
//! the first call, other collectors, a code cache that has to be flushed or is a memfd, and finer
//! clocks than times in PSBs only. All requirements of the default mode hold in each.

use jportal_tests::place::{self, Installation};
use jportal_tests::programs;
use jportal_tests::recording::{EngineMode, Plan};
use jportal_tests::skip;

use crate::programs::{TESTED, check};

/// A way to run every program.
struct Configuration {
    /// Name in the table of figures.
    name: &'static str,
    /// Flags of `java`.
    flags: &'static [&'static str],
    /// Timing packets.
    timing: &'static str,
    /// Needs the fastdebug VM.
    fastdebug: bool,
}

const DEFAULT: Configuration = Configuration { name: "", flags: &[], timing: "tsc", fastdebug: false };

const C1: Configuration = Configuration { name: "c1", flags: &["-XX:TieredStopAtLevel=1"], ..DEFAULT };
const C2: Configuration = Configuration { name: "c2", flags: &["-XX:-TieredCompilation"], ..DEFAULT };
const COMPILED: Configuration = Configuration { name: "compiled", flags: &["-Xcomp"], ..DEFAULT };
/// With fewer compilations: those of the whole library take minutes under the emulated unit.
const COMPILED_IN_PART: Configuration = Configuration {
    name: "compiled in part",
    flags: &[
        "-Xcomp",
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=compileonly,programs.*::*",
        "-XX:CompileCommand=compileonly,java.util.*::*",
        "-XX:CompileCommand=compileonly,java.lang.String*::*",
    ],
    ..DEFAULT
};
/// Every allocation of compiled code takes the slow path.
const SLOW_ALLOCATIONS: Configuration = Configuration {
    name: "slow allocations",
    flags: &[
        "-XX:-UseTLAB",
        "-XX:-TieredCompilation",
        "-Xcomp",
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=compileonly,java.util.Arrays::copyOf",
        "-XX:CompileCommand=compileonly,java.util.ArrayList::grow",
        "-XX:CompileCommand=compileonly,programs.*::*",
    ],
    ..DEFAULT
};
const PARALLEL: Configuration = Configuration { name: "parallel", flags: &["-XX:+UseParallelGC"], ..DEFAULT };
const SERIAL: Configuration = Configuration { name: "serial", flags: &["-XX:+UseSerialGC"], ..DEFAULT };
const ZGC: Configuration = Configuration { name: "zgc", flags: &["-XX:+UseZGC"], ..DEFAULT };
const FLUSHING: Configuration =
    Configuration { name: "flushing", flags: &["-XX:ReservedCodeCacheSize=4m"], ..DEFAULT };
const MEMFD: Configuration = Configuration {
    name: "memfd",
    flags: &["-XX:+UnlockDiagnosticVMOptions", "-XX:JPortalCodeCache=memfd"],
    ..DEFAULT
};
const MTC: Configuration = Configuration { name: "mtc", timing: "mtc", ..DEFAULT };
const NON_SAFEPOINTS: Configuration = Configuration {
    name: "non-safepoints",
    flags: &["-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"],
    ..DEFAULT
};
const CYC: Configuration = Configuration { name: "cyc", timing: "cyc", ..DEFAULT };
const STRESS: Configuration = Configuration {
    name: "stress",
    flags: &["-XX:+UnlockDiagnosticVMOptions", "-XX:+StressLCM", "-XX:+StressGCM"],
    fastdebug: true,
    ..DEFAULT
};

fn place(configuration: &Configuration, test: &str) -> Option<Installation> {
    let place = place::installed(test)?;
    if configuration.fastdebug { place.fastdebug(test) } else { Some(place) }
}

/// Records and checks the programs one after the other. Tries all of them before the test fails.
fn run(configuration: &Configuration, names: &[&str]) {
    let test = format!("configuration {}", configuration.name);
    let Some(place) = place(configuration, &test) else { return };
    let flags: Vec<String> = configuration.flags.iter().map(ToString::to_string).collect();
    let mut failed = Vec::new();
    for name in names {
        let program = programs::by_name(name).expect("a program of that name");
        if let Some(missing) = program.missing() {
            skip::skip(&format!("{test}: {name}"), &missing);
            continue;
        }
        let plan =
            Plan { flags: flags.clone(), timing: configuration.timing, ..Plan::new(EngineMode::Tiered) };
        if let Err(error) = check(&place, &program, &plan, configuration.name) {
            failed.push(format!("{name}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{test}:\n{}", failed.join("\n"));
}

macro_rules! configurations {
    ($($test:ident = $configuration:ident, [$($name:literal),*];)*) => {
        mod short {
            use super::*;
            $(#[test] #[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
              fn $test() { run(&$configuration, &[$($name),*]) })*
        }
        mod all {
            use super::*;
            $(#[test] #[ignore = "minutes; scripts/verify-all"] fn $test() { run(&$configuration, TESTED) })*
        }
    };
}

configurations! {
    c1 = C1, ["hot-loops", "exceptions"];
    c2 = C2, ["hot-loops", "exceptions"];
    compiled_in_part = COMPILED_IN_PART, ["calls"];
    slow_allocations = SLOW_ALLOCATIONS, ["library"];
    parallel = PARALLEL, ["threads"];
    serial = SERIAL, ["loaders"];
    zgc = ZGC, ["loaders", "exceptions"];
    flushing = FLUSHING, ["javac"];
    memfd = MEMFD, ["loaders"];
    mtc = MTC, ["threads", "exceptions"];
    cyc = CYC, ["threads", "exceptions"];
    non_safepoints = NON_SAFEPOINTS, ["xalan"];
}

#[test]
#[ignore = "minutes; scripts/verify-all"]
fn compiled() {
    run(&COMPILED, TESTED);
}

/// Needs the fastdebug VM, which alone has the stress options and which scripts/setup does not
/// build.
#[test]
#[ignore = "minutes, and a fastdebug VM; scripts/verify-all"]
fn stress() {
    run(&STRESS, TESTED);
}
