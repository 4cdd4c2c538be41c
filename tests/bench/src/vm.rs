// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The cost of recording to the VM. The VMs compared are:
//!
//! * Debian's VM;
//! * JPortal's VM with recording off;
//! * JPortal's VM that records metadata only: without path markers, with path markers at
//!   `default` precision, with path markers at `exact` precision, and with the code cache in a
//!   memfd.

use crate::child::{Used, run};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A VM and its flags.
struct Vm {
    name: &'static str,
    java: PathBuf,
    flags: Vec<String>,
}

/// The measures and their units. The smallest value of all rounds counts.
pub const MEASURES: [(&str, &str); 5] = [
    ("start-up: one run, all threads", "s"),
    ("start-up: peak memory", "MB"),
    ("steady state: one round, its thread", "s"),
    ("C1: compile time of a bytecode", "us"),
    ("C2: compile time of a bytecode", "us"),
];

/// One measure of one program on all VMs.
pub struct Cost {
    /// Name of the program.
    pub program: &'static str,
    /// Index into [`MEASURES`].
    pub measure: usize,
    /// VM name and figure.
    pub figures: Vec<(&'static str, f64)>,
}

/// A program: its name, class path, rounds of the steady state, main class and arguments.
struct Workload {
    name: &'static str,
    class_path: String,
    rounds: u32,
    main: Vec<String>,
}

/// Measures all programs on the VMs that `names` lists, or on all. The VMs take turns.
pub fn measure(root: &Path, work: &Path, rounds: usize, names: &[String]) -> Result<Vec<Cost>> {
    let mut vms = vms(root, work);
    if let Some(unknown) = names.iter().find(|&name| vms.iter().all(|vm| vm.name != name)) {
        let known: Vec<_> = vms.iter().map(|vm| vm.name).collect();
        bail!("no VM is called {unknown}, only {known:?}");
    }
    vms.retain(|vm| names.is_empty() || names.iter().any(|name| name == vm.name));
    let steady = compile(root, work)?;
    let mut costs = Vec::new();
    for program in programs(root, &steady) {
        let mut best = vec![[f64::INFINITY; MEASURES.len()]; vms.len()];
        for _ in 0..rounds {
            for (vm, best) in vms.iter().zip(&mut best) {
                for (best, figure) in best.iter_mut().zip(round(vm, &program)?) {
                    *best = best.min(figure);
                }
            }
        }
        for measure in 0..MEASURES.len() {
            let figures = vms.iter().zip(&best).map(|(vm, best)| (vm.name, best[measure])).collect();
            costs.push(Cost { program: program.name, measure, figures });
        }
    }
    Ok(costs)
}

fn vms(root: &Path, work: &Path) -> Vec<Vm> {
    let ours = root.join("build/jdk/bin/java");
    let recording = |name, flag: &str| {
        let file = format!("-XX:JPortalFile={}", work.join("vm.jportal").display());
        let unlock = "-XX:+UnlockDiagnosticVMOptions";
        let flags = [unlock, "-XX:+JPortal", "-XX:JPortalSource=none", &file, flag];
        Vm { name, java: ours.clone(), flags: flags.map(str::to_owned).to_vec() }
    };
    vec![
        Vm { name: "debian", java: root.join("build/jdk-debian/bin/java"), flags: vec![] },
        Vm { name: "off", java: ours.clone(), flags: vec![] },
        recording("no markers", "-XX:-JPortalPathMarkers"),
        recording("markers", "-XX:JPortalPrecision=default"),
        recording("exact", "-XX:JPortalPrecision=exact"),
        recording("memfd", "-XX:JPortalCodeCache=memfd"),
    ]
}

/// Runs the program on one VM, once for each kind of measure. Returns the figures in the order of
/// [`MEASURES`].
fn round(vm: &Vm, program: &Workload) -> Result<[f64; MEASURES.len()]> {
    let Used { cpu, peak, .. } = run(command(vm, program).args(&program.main), Stdio::piped())?;
    let mut steady = command(vm, program);
    steady.arg("Steady").arg(program.rounds.to_string()).args(&program.main);
    let steady = run(&mut steady, Stdio::piped())?;
    let median: f64 = steady.stdout.trim().parse().context("Steady's output")?;
    let timed = run(command(vm, program).arg("-XX:+CITime").args(&program.main), Stdio::piped())?;
    let of = |compiler| {
        let speed = compile_speed(&timed.stdout, compiler).context("no compile times from -XX:+CITime")?;
        anyhow::Ok(1e6 / speed)
    };
    Ok([cpu.as_secs_f64(), peak as f64 / 1e6, median / 1e9, of("C1")?, of("C2")?])
}

/// Bytes of bytecode (inlined ones included) that a compiler compiles per second, as
/// `-XX:+CITime` prints it (`CompileBroker::print_times` in HotSpot's compileBroker.cpp).
fn compile_speed(text: &str, compiler: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|l| l.trim_start().strip_prefix(compiler)?.trim_start().strip_prefix("{speed:"))?;
    line.split_whitespace().next()?.parse().ok().filter(|&speed| speed > 0.0)
}

fn command(vm: &Vm, program: &Workload) -> Command {
    let mut command = Command::new(&vm.java);
    command.args(&vm.flags).arg("-cp").arg(&program.class_path);
    command
}

fn programs(root: &Path, steady: &Path) -> [Workload; 2] {
    let workloads = root.join("build/programs/workloads.jar");
    let class_path = format!("{}:{}:/usr/share/java/h2.jar", steady.display(), workloads.display());
    let sources = root.join("tests/programs/src").display().to_string();
    [
        Workload {
            name: "H2",
            class_path: class_path.clone(),
            rounds: 24,
            main: vec!["H2Load".into(), "2000".into()],
        },
        Workload { name: "javac", class_path, rounds: 16, main: vec!["JavacLoad".into(), sources] },
    ]
}

fn compile(root: &Path, work: &Path) -> Result<PathBuf> {
    let classes = work.join("steady");
    let mut javac = Command::new(root.join("build/jdk/bin/javac"));
    javac.args(["-encoding", "UTF-8", "-d"]).arg(&classes).arg(root.join("tests/bench/java/Steady.java"));
    run(&mut javac, Stdio::piped())?;
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::compile_speed;

    const PRINTED: &str = "Individual compiler times (for compiled methods only)
  C1 {speed: 5379.902 bytes/s; standard:  0.001 s, 1 bytes, 1 methods; osr:  0.000 s}
  C2 {speed:  0.000 bytes/s; standard:  0.000 s, 0 bytes, 0 methods}
    C1 Compile Time:        0.000 s";

    #[test]
    fn a_compilers_speed_is_found() {
        assert_eq!(compile_speed(PRINTED, "C1"), Some(5379.902));
        assert_eq!(compile_speed(PRINTED, "C2"), None, "it compiled nothing");
        assert_eq!(compile_speed("", "C1"), None);
    }
}
