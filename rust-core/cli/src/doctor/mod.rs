// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! `jportal doctor`: the kinds of recording that this machine supports, and what to change.

mod real;

use std::path::Path;

use anyhow::Result;
use jportal_perf_abi::kernel::Linux;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::output::{ResultKind, put};
use crate::run::locate;
use crate::{CommandOutcome, sys};

const KIND: ResultKind = ResultKind::new("doctor", Some("checks"));

/// The kind of recording that a check is relevant for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Use {
    /// Every recording.
    All,
    /// Recording with this machine's Intel PT.
    Perf,
    /// Recording with the emulated unit.
    Emulated,
}

/// The result of one check.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    /// Whether the check passed.
    ok: bool,
    /// Whether the recording kind requires it. If not, the recording is only better with it.
    needed: bool,
    /// The kind of recording.
    #[serde(rename = "for")]
    of: Use,
    found: String,
    /// What to change if the check failed.
    remedy: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: String) -> Self {
        Self { name, ok: true, needed: true, of: Use::All, found, remedy: None }
    }
    fn bad(name: &'static str, found: String, remedy: String) -> Self {
        Self { name, ok: false, needed: true, of: Use::All, found, remedy: Some(remedy) }
    }
    fn optional(self) -> Self {
        Self { needed: false, ..self }
    }
    fn needed_for(self, of: Use) -> Self {
        Self { of, ..self }
    }
}

/// The sources with which a program can be recorded on this machine.
#[derive(Serialize)]
struct UsableSources {
    /// `-XX:JPortalSource=perf`.
    perf: bool,
    /// `jportal run --emulate`.
    emulated: bool,
    /// `-XX:JPortalSource=sideband`.
    sideband: bool,
    /// `-XX:JPortalSource=none`.
    none: bool,
}

#[derive(Serialize)]
struct Diagnosis {
    can_record: bool,
    /// The source that `-XX:JPortalSource=auto` or `jportal run` would choose.
    source: &'static str,
    sources: UsableSources,
    checks: Vec<Check>,
}

pub(crate) fn doctor(args: &DoctorArgs) -> Result<CommandOutcome> {
    let real = real::Facts::gather(&Linux);
    let mut checks = real.checks();
    checks.push(jdk(args.java.as_deref()));
    checks.extend([qemu(), plugin(), shared_memory()].map(|c| c.needed_for(Use::Emulated)));
    checks.push(disk());
    let diagnosis = conclude(checks, real.can_trace(), real.can_record_switches());
    let can_record = diagnosis.can_record;
    put(&args.format, KIND, &diagnosis, || Ok(text(&diagnosis)))?;
    Ok(if can_record { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn conclude(checks: Vec<Check>, can_trace: bool, can_record_switches: bool) -> Diagnosis {
    let fine = |of| checks.iter().all(|c| c.ok || !c.needed || c.of != of);
    let vm = fine(Use::All);
    let sources = UsableSources {
        perf: vm && can_trace && fine(Use::Perf),
        emulated: vm && fine(Use::Emulated),
        sideband: vm && can_record_switches,
        none: vm,
    };
    let source = match (sources.perf, sources.emulated) {
        (true, _) => "perf",
        (false, true) => "emulated",
        (false, false) => "none",
    };
    Diagnosis { can_record: sources.perf || sources.emulated, source, sources, checks }
}

fn text(d: &Diagnosis) -> String {
    let mut s = String::new();
    for (of, title) in [
        (Use::Perf, "Intel PT of this machine (-XX:JPortalSource=perf)"),
        (Use::Emulated, "the emulated PT unit (jportal run --emulate)"),
        (Use::All, "both"),
    ] {
        s.push_str(&format!("{title}\n"));
        d.checks.iter().filter(|c| c.of == of).for_each(|c| s.push_str(&line(c)));
    }
    s.push_str(match (d.sources.perf, d.sources.emulated) {
        (true, true) => "programs can be recorded here with Intel PT, and with the emulated unit\n",
        (true, false) => "programs can be recorded here with Intel PT\n",
        (false, true) => {
            "programs can be recorded here with the emulated PT unit (jportal run -- JAVA-ARGS)\n"
        }
        (false, false) => "programs cannot be recorded here yet: see FAIL above\n",
    });
    if d.sources.sideband && !d.sources.perf {
        s.push_str("who runs when can be recorded as well, without any trace (-XX:JPortalSource=sideband)\n");
    }
    s
}

fn line(c: &Check) -> String {
    let mark = match (c.ok, c.needed) {
        (true, _) => "ok",
        (false, true) => "FAIL",
        (false, false) => "--",
    };
    let remedy = c.remedy.as_ref().map_or_else(String::new, |r| format!("        {:<14} -> {r}\n", ""));
    format!("  {mark:<5} {:<14} {}\n{remedy}", c.name, jportal_plain::line(&c.found))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn conclusion(perf: bool, emulated: bool, all: bool, can_trace: bool) -> Diagnosis {
        let check = |ok: bool, of| Check { ok, ..Check::good("x", "y".into()).needed_for(of) };
        let optional = Check::bad("z", "y".into(), "r".into()).optional().needed_for(Use::Perf);
        let checks =
            vec![check(perf, Use::Perf), optional, check(emulated, Use::Emulated), check(all, Use::All)];
        conclude(checks, can_trace, true)
    }

    #[test]
    fn the_source_follows_from_the_checks() {
        for (given, source, can_record) in [
            ((true, true, true, true), "perf", true),
            ((true, false, true, true), "perf", true),
            ((true, true, true, false), "emulated", true),
            ((false, true, true, true), "emulated", true),
            ((false, false, true, true), "none", false),
            ((true, true, false, true), "none", false),
        ] {
            let d = conclusion(given.0, given.1, given.2, given.3);
            assert_eq!((d.source, d.can_record), (source, can_record), "{given:?}");
            assert_eq!(d.sources.sideband, given.2);
        }
        let said = text(&conclusion(false, true, true, false));
        assert!(said.contains("FAIL") && said.contains("  --    z") && said.contains("-> r"), "{said}");
        assert!(
            said.contains("with the emulated PT unit") && said.contains("JPortalSource=sideband"),
            "{said}"
        );
    }
}
