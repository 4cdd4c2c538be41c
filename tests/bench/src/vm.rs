//! What recording costs the VM: Debian's VM, ours with JPortal off, and with metadata only.

use crate::child::run;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A VM and its flags.
struct Vm {
    name: &'static str,
    java: PathBuf,
    flags: Vec<String>,
}

/// One program on all VMs.
pub struct Cost {
    pub program: &'static str,
    pub measure: &'static str,
    /// VM name and shortest processor time.
    pub times: Vec<(&'static str, Duration)>,
}

/// A program: name, class path, rounds for steady state, class and arguments.
struct Program {
    name: &'static str,
    class_path: String,
    rounds: u32,
    main: Vec<String>,
}

/// Measures all programs on all VMs, the VMs taking turns.
pub fn measure(root: &Path, work: &Path, rounds: usize) -> Result<Vec<Cost>> {
    let capture = work.join("vm.jportal");
    let vms = [
        Vm { name: "debian", java: root.join("build/jdk-debian/bin/java"), flags: vec![] },
        Vm { name: "off", java: root.join("build/jdk/bin/java"), flags: vec![] },
        Vm {
            name: "none",
            java: root.join("build/jdk/bin/java"),
            flags: vec![
                "-XX:+JPortal".into(),
                "-XX:JPortalSource=none".into(),
                format!("-XX:JPortalFile={}", capture.display()),
            ],
        },
    ];
    let steady = compile(root, work)?;
    let mut costs = Vec::new();
    for program in programs(root, &steady) {
        let mut times = [[Duration::MAX; 2]; 3];
        for _ in 0..rounds {
            for (vm, best) in vms.iter().zip(&mut times) {
                let used = run(command(vm, &program).args(&program.main))?;
                best[0] = best[0].min(used.cpu);
                let used = run(command(vm, &program)
                    .arg("Steady")
                    .arg(program.rounds.to_string())
                    .args(&program.main))?;
                let median = used.stdout.trim().parse().context("Steady's output")?;
                best[1] = best[1].min(Duration::from_nanos(median));
            }
        }
        for (i, measure) in
            ["start-up: one run, all threads", "steady state: one round, its thread"].into_iter().enumerate()
        {
            let times = vms.iter().zip(&times).map(|(vm, t)| (vm.name, t[i])).collect();
            costs.push(Cost { program: program.name, measure, times });
        }
    }
    Ok(costs)
}

fn command(vm: &Vm, program: &Program) -> Command {
    let mut command = Command::new(&vm.java);
    command.args(&vm.flags).arg("-cp").arg(&program.class_path);
    command
}

fn programs(root: &Path, steady: &Path) -> [Program; 2] {
    let workloads = root.join("build/programs/workloads.jar");
    let class_path = format!("{}:{}:/usr/share/java/h2.jar", steady.display(), workloads.display());
    let sources = root.join("tests/programs/src").display().to_string();
    [
        Program {
            name: "H2",
            class_path: class_path.clone(),
            rounds: 24,
            main: vec!["H2Load".into(), "2000".into()],
        },
        Program { name: "javac", class_path, rounds: 16, main: vec!["JavacLoad".into(), sources] },
    ]
}

fn compile(root: &Path, work: &Path) -> Result<PathBuf> {
    let classes = work.join("steady");
    run(Command::new(root.join("build/jdk/bin/javac"))
        .args(["-encoding", "UTF-8", "-d"])
        .arg(&classes)
        .arg(root.join("tests/bench/java/Steady.java")))?;
    Ok(classes)
}
