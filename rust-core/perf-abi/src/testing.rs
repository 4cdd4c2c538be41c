// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Trees of sysfs and procfs for tests.

use std::fs;
use std::path::Path;

/// Writes `files` below `root`, each with a final line break as in the kernel's files.
pub fn write_tree(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = written.and_then(|()| fs::write(&path, format!("{text}\n")));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }
}

/// The files of a Skylake server's PT PMU, as Linux 6.1 shows them.
pub const SKYLAKE_PMU: &[(&str, &str)] = &[
    ("sys/bus/event_source/devices/intel_pt/type", "8"),
    ("sys/bus/event_source/devices/intel_pt/nr_addr_filters", "2"),
    ("sys/bus/event_source/devices/intel_pt/max_nonturbo_ratio", "25"),
    ("sys/bus/event_source/devices/intel_pt/tsc_art_ratio", "200:2"),
    ("sys/bus/event_source/devices/intel_pt/format/pt", "config:0"),
    ("sys/bus/event_source/devices/intel_pt/format/cyc", "config:1"),
    ("sys/bus/event_source/devices/intel_pt/format/mtc", "config:9"),
    ("sys/bus/event_source/devices/intel_pt/format/tsc", "config:10"),
    ("sys/bus/event_source/devices/intel_pt/format/noretcomp", "config:11"),
    ("sys/bus/event_source/devices/intel_pt/format/branch", "config:13"),
    ("sys/bus/event_source/devices/intel_pt/format/mtc_period", "config:14-17"),
    ("sys/bus/event_source/devices/intel_pt/format/cyc_thresh", "config:19-22"),
    ("sys/bus/event_source/devices/intel_pt/format/psb_period", "config:24-27"),
    ("sys/bus/event_source/devices/intel_pt/caps/psb_cyc", "1"),
    ("sys/bus/event_source/devices/intel_pt/caps/psb_periods", "3f"),
    ("sys/bus/event_source/devices/intel_pt/caps/mtc", "1"),
    ("sys/bus/event_source/devices/intel_pt/caps/mtc_periods", "249"),
    ("sys/bus/event_source/devices/intel_pt/caps/ip_filtering", "1"),
    ("sys/bus/event_source/devices/intel_pt/caps/num_address_ranges", "2"),
    ("sys/bus/event_source/devices/intel_pt/caps/topa_multiple_entries", "1"),
];

/// The files of a machine with two of four possible CPUs online, under Linux 6.1 with the
/// kernel's default settings.
pub const MACHINE: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/possible", "0-3"),
    ("sys/devices/system/cpu/online", "0-1"),
    ("proc/sys/kernel/perf_event_paranoid", "2"),
    ("proc/sys/kernel/perf_event_mlock_kb", "516"),
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
    (
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\nflags\t\t: fpu vme",
    ),
    ("proc/self/status", "Name:\tjava\nCapEff:\t0000000000000000\nSeccomp:\t0"),
];
