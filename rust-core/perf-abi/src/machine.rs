// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Facts from procfs and sysfs about this machine and about what a process may trace on it.

use std::fs;
use std::path::Path;

/// Linux 5.18: address ranges can be filtered without a file that backs them
/// (`perf_event_parse_addr_filter`).
const PLAIN_FILTERS_SINCE: (u32, u32) = (5, 18);
/// Linux 5.13: `inherit_thread`.
pub const THREADS_ONLY_SINCE: (u32, u32) = (5, 13);
/// `CAP_IPC_LOCK` lifts the limit on locked memory (`perf_mmap`).
const CAP_IPC_LOCK: u32 = 14;
/// `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_PERFMON`.
const CAP_PERFMON: u32 = 38;

/// The processor according to `/proc/cpuinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processor {
    /// `vendor_id`.
    pub vendor: String,
    /// `model name`.
    pub name: String,
    /// Whether a hypervisor lies between the kernel and the processor.
    pub virtualised: bool,
}

/// Facts of one machine. What cannot be read is `None` or empty: containers hide much of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// `uname -r`.
    pub release: String,
    /// `perf_event_paranoid`; `None`: the kernel has no perf events.
    pub paranoid: Option<i32>,
    /// `perf_event_mlock_kb`: the KiB that each user may map for each online core.
    pub mlock_kb: Option<u64>,
    /// The possible cores.
    pub possible: Vec<u32>,
    /// The online cores.
    pub online: Vec<u32>,
    /// `Seccomp` of `/proc/self/status`: 0 off, 1 strict, 2 filtered.
    pub seccomp: u32,
    /// `CapEff` of `/proc/self/status`.
    pub capabilities: u64,
    /// The kind of container in which this process runs.
    pub container: Option<&'static str>,
    /// The processor.
    pub processor: Processor,
    /// The vendor of the machine or of the hypervisor.
    pub maker: String,
    /// Whether `/proc/self/fd` exists, so that files can be named by their descriptors.
    pub has_fd_links: bool,
}

impl Machine {
    /// Reads the facts of the machine whose file system has this root.
    pub fn read(root: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(root.join(name)).map(|t| t.trim().to_owned()).ok();
        let status = text("proc/self/status").unwrap_or_default();
        let online = text("sys/devices/system/cpu/online").map(|t| cpu_list(&t)).unwrap_or_default();
        let possible = text("sys/devices/system/cpu/possible").map(|t| cpu_list(&t)).unwrap_or_default();
        Self {
            release: text("proc/sys/kernel/osrelease").unwrap_or_default(),
            paranoid: text("proc/sys/kernel/perf_event_paranoid").and_then(|t| t.parse().ok()),
            mlock_kb: text("proc/sys/kernel/perf_event_mlock_kb").and_then(|t| t.parse().ok()),
            possible: if possible.is_empty() { online.clone() } else { possible },
            online,
            seccomp: field(&status, "Seccomp").and_then(|t| t.parse().ok()).unwrap_or(0),
            capabilities: field(&status, "CapEff").and_then(|t| u64::from_str_radix(t, 16).ok()).unwrap_or(0),
            container: container(root),
            processor: processor(&text("proc/cpuinfo").unwrap_or_default()),
            maker: text("sys/class/dmi/id/sys_vendor")
                .or_else(|| text("sys/hypervisor/type"))
                .unwrap_or_default(),
            has_fd_links: root.join("proc/self/fd").exists(),
        }
    }

    /// Major and minor number of the kernel.
    pub fn version(&self) -> (u32, u32) {
        let mut numbers = self.release.split(['.', '-', '+']).map_while(|n| n.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether the kernel can filter an address range that no file backs.
    pub fn filters_plain_ranges(&self) -> bool {
        self.version() >= PLAIN_FILTERS_SINCE
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 != 0
    }

    /// Whether no limit applies to perf's mappings (`perf_mmap`).
    pub fn may_lock_any_amount(&self) -> bool {
        self.paranoid == Some(-1) || self.has(CAP_IPC_LOCK)
    }

    /// Whether a process may trace its own user mode. Level 3 and above is a patch of
    /// distributions: Debian's lets only `CAP_SYS_ADMIN` pass, Ubuntu's `CAP_PERFMON` as well.
    pub fn may_trace_itself(&self) -> bool {
        self.paranoid.is_some_and(|level| level <= 2 || self.has(CAP_SYS_ADMIN) || self.has(CAP_PERFMON))
    }

    /// Bytes that all perf mappings of this user may have before they count against
    /// `RLIMIT_MEMLOCK`.
    pub fn free_budget(&self) -> u64 {
        self.mlock_kb.unwrap_or(0) * 1024 * self.online.len() as u64
    }
}

/// The numbers in a list such as "0-3,8". Stops at the first part that it cannot parse.
fn cpu_list(text: &str) -> Vec<u32> {
    /// `NR_CPUS` of the largest kernels.
    const MOST: u32 = 8192;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < MOST).then_some(first..=last)
    };
    text.split(',').map_while(range).flatten().collect()
}

/// The value after "NAME:".
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.split_once(':').filter(|(n, _)| n.trim() == name))
        .map(|(_, value)| value.trim())
}

fn processor(cpuinfo: &str) -> Processor {
    let text = |name| field(cpuinfo, name).unwrap_or_default().to_owned();
    let virtualised = text("flags").split_whitespace().any(|flag| flag == "hypervisor");
    Processor { vendor: text("vendor_id"), name: text("model name"), virtualised }
}

fn container(root: &Path) -> Option<&'static str> {
    let marks = [
        (".dockerenv", "Docker"),
        ("run/.containerenv", "Podman"),
        ("run/systemd/container", "systemd-nspawn"),
    ];
    let marked = marks.into_iter().find(|(file, _)| root.join(file).exists()).map(|(_, name)| name);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let words = [("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC")];
    marked.or_else(|| words.into_iter().find(|(word, _)| groups.contains(word)).map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MACHINE, write_tree};

    fn machine(change: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        write_tree(root.path(), MACHINE);
        write_tree(root.path(), change);
        Machine::read(root.path())
    }

    #[test]
    fn a_machine_is_read() {
        let m = machine(&[("sys/class/dmi/id/sys_vendor", "QEMU")]);
        assert_eq!((m.version(), m.paranoid, m.mlock_kb), ((6, 1), Some(2), Some(516)));
        assert_eq!((m.possible.as_slice(), m.online.as_slice()), (&[0, 1, 2, 3][..], &[0, 1][..]));
        assert_eq!((m.seccomp, m.capabilities, m.container, m.maker.as_str()), (0, 0, None, "QEMU"));
        let p = Processor { vendor: "GenuineIntel".into(), name: "Xeon".into(), virtualised: false };
        assert_eq!(m.processor, p);
        assert_eq!(m.free_budget(), 2 * 516 * 1024, "online cores count, not possible ones");
        assert!(m.may_trace_itself() && !m.may_lock_any_amount() && m.filters_plain_ranges());
    }

    #[test]
    fn rights_follow_level_and_capabilities() {
        let level = |n| ("proc/sys/kernel/perf_event_paranoid", n);
        let caps = |n| ("proc/self/status", n);
        assert!(!machine(&[level("3")]).may_trace_itself());
        assert!(machine(&[level("3"), caps("CapEff:\t0000000000200000")]).may_trace_itself());
        assert!(machine(&[level("-1")]).may_lock_any_amount());
        assert!(machine(&[caps("CapEff:\t0000000000004000\nSeccomp:\t2")]).may_lock_any_amount());
        assert_eq!(machine(&[caps("Seccomp:\t2")]).seccomp, 2);
        let none = Machine::read(Path::new("/nowhere"));
        assert!(!none.may_trace_itself() && none.possible.is_empty());
    }

    #[test]
    fn kernels_and_containers_are_distinguished() {
        let release = |r| machine(&[("proc/sys/kernel/osrelease", r)]);
        assert!(!release("5.17.9-amd64").filters_plain_ranges());
        assert!(release("5.18.0").filters_plain_ranges());
        assert_eq!(release("6.18+deb").version(), (6, 18));
        assert_eq!(machine(&[(".dockerenv", "")]).container, Some("Docker"));
        assert_eq!(machine(&[("proc/self/cgroup", "0::/kubepods/x")]).container, Some("Kubernetes"));
        assert!(machine(&[("proc/cpuinfo", "flags : fpu hypervisor")]).processor.virtualised);
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(cpu_list("0-1,4,7-8"), [0, 1, 4, 7, 8]);
        assert_eq!(cpu_list("0,x,3"), [0]);
        assert_eq!(cpu_list("3-1"), [0u32; 0]);
        assert_eq!(cpu_list("0-4294967295"), [0u32; 0]);
    }
}
