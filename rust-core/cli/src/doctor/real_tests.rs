// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use jportal_perf_abi::bindings::perf_event_attr;
use jportal_perf_abi::kernel::{Event, Moment};
use jportal_perf_abi::memory::Block;
use jportal_perf_abi::testing::{MACHINE, SKYLAKE_PMU, write_tree};
use std::path::Path;

/// A machine simulated by files. Its kernel gives every call the same answer.
struct Machinery {
    root: tempfile::TempDir,
    errno: i32,
    files: u64,
    locked: u64,
}

impl Kernel for Machinery {
    fn root(&self) -> &Path {
        self.root.path()
    }
    fn open(&self, _: &perf_event_attr, _: Thread, _: Place) -> io::Result<Event> {
        if self.errno == 0 { Ok(5) } else { Err(io::Error::from_raw_os_error(self.errno)) }
    }
    fn close(&self, _: Event) {}
    fn control(&self, _: Event, _: Control<'_>) -> io::Result<()> {
        Ok(())
    }
    fn map(&self, _: Event, _: u64, _: usize) -> io::Result<Block> {
        panic!("the doctor maps nothing")
    }
    fn map_read_only(&self, event: Event, offset: u64, len: usize) -> io::Result<Block> {
        self.map(event, offset, len)
    }
    fn locked_memory_limit(&self) -> Option<u64> {
        Some(self.locked)
    }
    fn open_files_limit(&self) -> Option<u64> {
        Some(self.files)
    }
    fn this_thread(&self) -> u32 {
        1
    }
    fn threads(&self) -> io::Result<Vec<u32>> {
        panic!("the doctor looks at no threads")
    }
    fn moment(&self) -> Moment {
        Moment::default()
    }
}

fn machinery(errno: i32, pt: bool, change: &[(&str, &str)]) -> Machinery {
    let root = tempfile::tempdir().unwrap();
    write_tree(root.path(), MACHINE);
    if pt {
        write_tree(root.path(), SKYLAKE_PMU);
    }
    write_tree(root.path(), change);
    Machinery { root, errno, files: 1024, locked: 8 << 20 }
}

fn look(m: &Machinery) -> (Facts, Vec<Check>) {
    let facts = Facts::gather(m);
    let checks = facts.checks();
    (facts, checks)
}

fn check<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no check {name}"))
}

#[test]
fn a_machine_with_pt_passes_everything() {
    let (facts, checks) = look(&machinery(0, true, &[]));
    assert!(facts.can_trace() && facts.can_record_switches());
    assert!(
        checks.iter().all(|c| c.ok && c.remedy.is_none()),
        "{:?}",
        checks.iter().find(|c| !c.ok).map(|c| c.name)
    );
    assert!(
        check(&checks, "timing").found.contains("2^6")
            && check(&checks, "filter").found.contains("2 at a time")
    );
    assert!(check(&checks, "locked memory").found.contains("128 KiB of trace for each of 4 cores"));
}

#[test]
fn each_thing_that_is_missing_has_its_remedy() {
    let rows: &[(&str, (&str, &str), &str, &str)] = &[
        ("processor", ("proc/cpuinfo", "vendor_id : AuthenticAMD"), "AuthenticAMD", "emulated unit"),
        ("perf access", ("proc/sys/kernel/perf_event_paranoid", "3"), "is 3", "paranoid=2"),
        ("kernel", ("proc/sys/kernel/osrelease", "5.10.0-8"), "forked children", "5.13"),
        (
            "filter",
            ("sys/bus/event_source/devices/intel_pt/nr_addr_filters", "0"),
            "no address filters",
            "Skylake",
        ),
        ("timing", ("sys/bus/event_source/devices/intel_pt/caps/mtc", "0"), "PSB only", "none"),
        ("Intel PT", ("sys/bus/event_source/devices/intel_pt/type", "x"), "\"x\"", "report"),
    ];
    for (name, change, found, remedy) in rows {
        let (_, checks) = look(&machinery(0, true, &[*change]));
        let c = check(&checks, name);
        assert!(!c.ok && c.found.contains(found), "{name}: {}", c.found);
        assert!(c.remedy.as_ref().is_some_and(|r| r.contains(remedy)), "{name}: {:?}", c.remedy);
    }
}

#[test]
fn an_older_kernel_filters_as_well() {
    let (_, checks) = look(&machinery(0, true, &[("proc/sys/kernel/osrelease", "5.10.0-8")]));
    let c = check(&checks, "filter");
    assert!(c.ok && c.found.contains("mapped files only") && c.found.contains("memfd"), "{}", c.found);
}

#[test]
fn limits_that_are_too_low_are_counted_out() {
    let few = Machinery { files: 31, ..machinery(0, true, &[]) };
    assert!(check(&look(&few).1, "open files").remedy.as_ref().unwrap().contains("ulimit -n 32"));
    let none =
        Machinery { locked: 0, ..machinery(0, true, &[("proc/sys/kernel/perf_event_mlock_kb", "16")]) };
    let (_, checks) = look(&none);
    // Four cores. Each needs a page, 16 KiB of records and 8 KiB of trace.
    assert!(check(&checks, "locked memory").remedy.as_ref().unwrap().contains("ulimit -l 112"));
}

#[test]
fn what_the_calls_say_counts() {
    let docker = (".dockerenv", "");
    let (facts, checks) = look(&machinery(libc::EPERM, true, &[docker, ("proc/self/status", "Seccomp:\t2")]));
    assert!(!facts.can_trace() && !facts.can_record_switches());
    let c = check(&checks, "perf calls");
    assert!(c.found.contains("seccomp filter of this Docker container"), "{}", c.found);
    assert!(c.remedy.as_ref().unwrap().contains("--cap-add PERFMON"));
    assert!(check(&checks, "processor").found.contains("Docker"));
    let (facts, checks) =
        look(&machinery(0, false, &[("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : hypervisor")]));
    assert!(!facts.can_trace() && facts.can_record_switches());
    assert!(check(&checks, "Intel PT").remedy.as_ref().unwrap().contains("pt_mode"));
    assert!(check(&checks, "perf calls").found.contains("JPortalSource=sideband works"));
}
