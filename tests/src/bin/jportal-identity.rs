// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal-identity`: checks that the VM with path markers at `default` precision generates the
//! same machine code as the unpatched VM.

use std::path::PathBuf;
use std::process::ExitCode;

use jportal_tests::identity::compare::{self, Comparison};
use jportal_tests::identity::listing;
use jportal_tests::identity::run::{Compilers, Pair, Recording, Reference};
use jportal_tests::programs::{self, Size};
use jportal_tests::{Result, place};

const USAGE: &str = "usage: jportal-identity [--program NAME]... [--small] [--compilers NAME]... [--jdk DIR] [--unpatched DIR]
       jportal-identity LOG LOG
  --program NAME    h2, javac, xalan or one of the test programs; may be repeated (h2 and javac)
  --small           at the size of the short tests
  --compilers NAME  c1, c2 or tiered; may be repeated (all)
  --jdk DIR         the recording JDK (build/jdk)
  --unpatched DIR   a JDK of the same version without JPortal (build/jdk-plain, which
                    `jdk-build/build.sh --without-jportal` makes; else build/jdk with -XX:-JPortal)
Runs each program in the unpatched VM, in ours with -XX:-JPortal, recording without path markers, and with
them, and compares these three with the first; where code differs, all run again, up to five times, for some code
differs between two runs of one VM, and is said to.
Exit status: 0 all the same, 1 code differs, 2 something failed.
LOG: what -XX:+UnlockDiagnosticVMOptions -XX:+PrintNMethods -XX:+LogVMOutput -XX:LogFile=LOG wrote.";

struct IdentityOptions {
    programs: Vec<String>,
    size: Size,
    compilers: Vec<Compilers>,
    jdk: PathBuf,
    reference: Reference,
    logs: Vec<PathBuf>,
}

fn options() -> Result<IdentityOptions> {
    let root = place::root();
    let mut options = IdentityOptions {
        programs: Vec::new(),
        size: Size::Full,
        compilers: Vec::new(),
        jdk: root.join("build/jdk"),
        reference: Reference::built(&root),
        logs: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--program" => options.programs.push(value()?),
            "--small" => options.size = Size::Small,
            "--compilers" => options.compilers.push(value()?.parse()?),
            "--jdk" => options.jdk = std::path::absolute(value()?)?,
            "--unpatched" => {
                let jdk = std::path::absolute(value()?)?;
                options.reference = Reference { jdk, recording: Recording::Unknown };
            }
            log if !log.starts_with('-') => options.logs.push(log.into()),
            _ => return Err(format!("unknown argument {argument:?}").into()),
        }
    }
    if options.programs.is_empty() {
        options.programs = ["h2", "javac"].map(Into::into).to_vec();
    }
    if options.compilers.is_empty() {
        options.compilers = Compilers::ALL.to_vec();
    }
    Ok(options)
}

fn show(name: &str, result: &Comparison) {
    println!("{name:34} {result}");
    for (what, list) in [("varying", &result.varying), ("DIFFERENT", &result.different)] {
        for d in list {
            println!("    {what}: {} (compilation {}): {}", d.key, d.nth + 1, d.what);
        }
    }
    for key in &result.alone {
        println!("    alone: {key}");
    }
}

/// Runs all comparisons; returns whether no code differs.
fn run(options: &IdentityOptions) -> Result<bool> {
    if let [one, two] = &options.logs[..] {
        let result = compare::listings(&[listing::read(one)?], &listing::read(two)?);
        show("", &result);
        return Ok(result.same());
    }
    let root = place::root();
    let built = root.join("build/programs");
    let mut same = true;
    for name in &options.programs {
        let program = programs::by_name(name).ok_or_else(|| format!("no program {name:?}"))?;
        let (agent, arguments) =
            (built.join("libsteadystart.so"), program.command(&root, &built, options.size));
        let pair = Pair::new(options.reference.clone(), options.jdk.clone(), agent, arguments)?;
        for &compilers in &options.compilers {
            let mut references = Vec::new();
            for (what, recording) in [
                ("-JPortal", Recording::Off),
                ("no markers", Recording::Unmarked),
                ("markers", Recording::Marked),
            ] {
                let result = pair.compare(&mut references, compilers, recording)?;
                show(&format!("{name} {compilers} {what}:"), &result);
                same &= result.same();
            }
        }
    }
    Ok(same)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
