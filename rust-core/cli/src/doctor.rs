//! `jportal doctor`: what this machine can record with, and what to change.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::run::locate;
use crate::{Outcome, put_json, put_text, sys};

/// One thing looked at.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    /// Recording is possible as far as this goes.
    ok: bool,
    /// Recording of some kind needs it; otherwise it is told for information.
    needed: bool,
    found: String,
    /// What to change.
    remedy: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: String) -> Self {
        Self { name, ok: true, needed: true, found, remedy: None }
    }
    fn bad(name: &'static str, found: String, remedy: String) -> Self {
        Self { name, ok: false, needed: true, found, remedy: Some(remedy) }
    }
    fn optional(self) -> Self {
        Self { needed: false, ..self }
    }
}

#[derive(Serialize)]
struct Diagnosis {
    can_record: bool,
    source: &'static str,
    checks: Vec<Check>,
}

pub(crate) fn doctor(args: &DoctorArgs) -> Result<Outcome> {
    let checks = vec![
        intel_pt().optional(),
        kernel().optional(),
        paranoid().optional(),
        locked_memory().optional(),
        jdk(args.java.as_deref()),
        qemu(),
        plugin(),
        shared_memory(),
        disk(),
    ];
    let can_record = checks.iter().all(|c| c.ok || !c.needed);
    let diagnosis = Diagnosis { can_record, source: "emulated", checks };
    if args.json {
        put_json(&diagnosis)?;
    } else {
        put_text(&text(&diagnosis))?;
    }
    Ok(if can_record { Outcome::Done } else { Outcome::Findings })
}

fn text(d: &Diagnosis) -> String {
    let mut s = String::new();
    for c in &d.checks {
        let mark = match (c.ok, c.needed) {
            (true, _) => "ok",
            (false, true) => "FAIL",
            (false, false) => "--",
        };
        s.push_str(&format!("{mark:<5} {:<14} {}\n", c.name, c.found));
        if let Some(remedy) = &c.remedy {
            s.push_str(&format!("      {:<14} -> {remedy}\n", ""));
        }
    }
    s.push_str(if d.can_record {
        "programs can be recorded here with the emulated PT unit (jportal run -- JAVA-ARGS)\n"
    } else {
        "programs cannot be recorded here yet: see FAIL above\n"
    });
    s
}

fn trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

fn intel_pt() -> Check {
    if locate::has_intel_pt() {
        let found = "this CPU and kernel offer it; the perf source is not in this build yet".into();
        return Check::good("Intel PT", found);
    }
    let vendor = trimmed("/proc/cpuinfo")
        .and_then(|s| s.lines().find_map(|l| l.strip_prefix("vendor_id").map(str::to_owned)))
        .map(|v| v.trim_matches([' ', '\t', ':']).to_owned())
        .unwrap_or_else(|| "unknown".into());
    let remedy = if vendor == "GenuineIntel" {
        "the hypervisor hides it, or the CPU is older than Broadwell; the emulated unit needs none"
    } else {
        "none: only Intel's CPUs have it; the emulated unit needs none"
    };
    Check::bad("Intel PT", format!("not present (CPU vendor {vendor})"), remedy.into())
}

fn kernel() -> Check {
    let release = trimmed("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 18) {
        return Check::good("kernel", format!("{release}: filters plain address ranges"));
    }
    let found = format!("{release}: filters mappings of files only");
    Check::bad("kernel", found, "5.18 or newer records the code cache without a file mapping".into())
}

fn paranoid() -> Check {
    let name = "perf access";
    let Some(level) = trimmed("/proc/sys/kernel/perf_event_paranoid") else {
        return Check::bad(name, "the kernel has no perf events".into(), "boot a kernel with them".into());
    };
    match level.parse::<i32>() {
        Ok(n) if n <= 2 => {
            Check::good(name, format!("perf_event_paranoid is {n}: a process may trace itself"))
        }
        _ => Check::bad(
            name,
            format!("perf_event_paranoid is {level}: without root nothing may be traced"),
            "sysctl kernel.perf_event_paranoid=2 (needed for real Intel PT only)".into(),
        ),
    }
}

fn locked_memory() -> Check {
    let name = "locked memory";
    let budget = trimmed("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or_else(|| "unknown".into());
    match sys::locked_memory_limit() {
        Ok(None) => Check::good(name, format!("unlimited, and {budget} KiB per core for perf")),
        Ok(Some(n)) => Check::good(name, format!("{} KiB, and {budget} KiB per core for perf", n / 1024)),
        Err(e) => Check::bad(name, e.to_string(), "ulimit -l".into()),
    }
}

fn jdk(java: Option<&Path>) -> Check {
    match locate::java(java) {
        Ok(path) => Check::good("JDK", path.display().to_string()),
        Err(e) => {
            Check::bad("JDK", format!("{e:#}"), "scripts/setup builds it; JPORTAL_JAVA_HOME names it".into())
        }
    }
}

fn qemu() -> Check {
    match locate::qemu() {
        Ok(q) => Check::good("QEMU", format!("{} ({})", q.path.display(), q.version)),
        Err(e) => Check::bad("QEMU", format!("{e:#}"), locate::QEMU_REMEDY.into()),
    }
}

fn plugin() -> Check {
    match locate::plugin() {
        Ok(path) => Check::good("PT unit", path.display().to_string()),
        Err(e) => Check::bad("PT unit", format!("{e:#}"), "cargo build --release -p jportal-emulator".into()),
    }
}

const MIB: u64 = 1 << 20;

fn shared_memory() -> Check {
    let place = crate::run::emulate::shared_memory_root();
    space(
        "shared memory",
        &place,
        64 * MIB,
        "the emulated unit's buffers lie there: free some, or set TMPDIR",
    )
}

fn disk() -> Check {
    space(
        "disk",
        Path::new("."),
        1024 * MIB,
        "captures grow by some 20 MB per second: record to another file system",
    )
}

fn space(name: &'static str, path: &Path, least: u64, remedy: &str) -> Check {
    match sys::free_space(path) {
        Ok(free) if free >= least => {
            Check::good(name, format!("{} MiB free in {}", free / MIB, path.display()))
        }
        Ok(free) => Check::bad(name, format!("{} MiB free in {}", free / MIB, path.display()), remedy.into()),
        Err(e) => Check::bad(name, format!("{}: {e}", path.display()), remedy.into()),
    }
}
