// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Explains why the kernel refused a system call of a recording: which call, why, and what to
//! change.
//!
//! The causes are taken from `kernel/events/core.c`, `kernel/events/ring_buffer.c` and
//! `arch/x86/events/intel/pt.c` of Linux 6.1 and 6.12, and from the seccomp profiles of Docker
//! and Podman.

use crate::machine::Machine;
use std::fmt;

/// A request to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// `perf_event_open` of PT.
    OpenPt {
        /// The core.
        core: u32,
        /// `perf_event_attr.config`.
        config: u64,
    },
    /// `perf_event_open` of a software event.
    OpenSideband {
        /// The core.
        core: u32,
    },
    /// `mmap` of control page and data ring.
    MapData {
        /// The core.
        core: u32,
        /// Bytes that all cores together request to map.
        all: u64,
    },
    /// `mmap` of the AUX ring.
    MapAux {
        /// The core.
        core: u32,
        /// Bytes of the ring.
        bytes: u64,
        /// Bytes that all cores together request to map.
        all: u64,
    },
    /// `PERF_EVENT_IOC_SET_OUTPUT`.
    SetOutput {
        /// The core.
        core: u32,
    },
    /// `PERF_EVENT_IOC_SET_FILTER`.
    SetFilter {
        /// The filter.
        text: String,
    },
    /// `PERF_EVENT_IOC_ENABLE`.
    Enable {
        /// The core.
        core: u32,
    },
}

/// The kinds of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The kernel has no PT PMU.
    NoPt,
    /// The kernel has no perf events.
    NoPerf,
    /// A seccomp filter forbids the call.
    Seccomp,
    /// Missing rights: `perf_event_paranoid`, capabilities, a security module.
    Rights,
    /// The kernel or the processor does not know a part of the requested configuration.
    Configuration,
    /// PT is in use already.
    Busy,
    /// The core does not exist or is offline.
    NoCore,
    /// Too many open files.
    Files,
    /// The limit on locked memory.
    LockedMemory,
    /// The kernel has no memory.
    Memory,
    /// The kernel or the processor supports no filter of this form.
    Filter,
    /// A path of a filter cannot be resolved.
    Path,
    /// A bug in JPortal.
    Internal,
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The refused request.
    pub request: Request,
    /// `errno`.
    pub errno: i32,
    /// The kind of cause.
    pub cause: Cause,
    /// The cause in words.
    pub why: String,
    /// What to change.
    pub remedy: String,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused ({}): {}; {}", self.request, name_of(self.errno), self.why, self.remedy)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenPt { core, config } => {
                write!(f, "perf_event_open of intel_pt on core {core} with config {config:#x}")
            }
            Self::OpenSideband { core } => write!(f, "perf_event_open of a software event on core {core}"),
            Self::MapData { core, .. } => write!(f, "mmap of the data ring of core {core}"),
            Self::MapAux { core, bytes, .. } => {
                write!(f, "mmap of {} KiB of AUX ring of core {core}", bytes / 1024)
            }
            Self::SetOutput { core } => write!(f, "PERF_EVENT_IOC_SET_OUTPUT on core {core}"),
            Self::SetFilter { text } => write!(f, "PERF_EVENT_IOC_SET_FILTER \"{text}\""),
            Self::Enable { core } => write!(f, "PERF_EVENT_IOC_ENABLE on core {core}"),
        }
    }
}

/// The name of an `errno` in the table, or its number.
fn name_of(errno: i32) -> String {
    let names = [
        (libc::ENOENT, "ENOENT"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EPERM, "EPERM"),
        (libc::EACCES, "EACCES"),
        (libc::EINVAL, "EINVAL"),
        (libc::E2BIG, "E2BIG"),
        (libc::EBUSY, "EBUSY"),
        (libc::ESRCH, "ESRCH"),
        (libc::ENODEV, "ENODEV"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENFILE, "ENFILE"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::ELOOP, "ELOOP"),
        (libc::EFAULT, "EFAULT"),
    ];
    names
        .iter()
        .find(|(n, _)| *n == errno)
        .map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

impl Refusal {
    /// Explains the answer `error` to `request` on `machine`. `locked_limit` is
    /// `RLIMIT_MEMLOCK` in bytes.
    pub fn new(
        request: Request,
        error: &std::io::Error,
        machine: &Machine,
        locked_limit: Option<u64>,
    ) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let (cause, why, remedy) = match &request {
            Request::OpenPt { .. } | Request::OpenSideband { .. } => opening(&request, errno, machine),
            Request::MapData { all, .. } | Request::MapAux { all, .. } => {
                mapping(&request, *all, errno, machine, locked_limit)
            }
            Request::SetFilter { .. } => filtering(errno, machine),
            Request::SetOutput { .. } | Request::Enable { .. } => internal(),
        };
        Self { request, errno, cause, why, remedy }
    }
}

type Explanation = (Cause, String, String);

fn said(cause: Cause, why: impl Into<String>, remedy: impl Into<String>) -> Explanation {
    (cause, why.into(), remedy.into())
}

fn internal() -> Explanation {
    said(
        Cause::Internal,
        "the kernel does not take a request that it should",
        "please report this, with the kernel's release",
    )
}

fn opening(request: &Request, errno: i32, machine: &Machine) -> Explanation {
    let pt = matches!(request, Request::OpenPt { .. });
    match errno {
        libc::ENOENT if pt => said(
            Cause::NoPt,
            "the kernel has no PMU of the type that sysfs names",
            "Intel PT needs an Intel processor since Broadwell and no hypervisor that hides it; see `dmesg | grep -i pt`, or \
             record with the emulated unit (jportal run --emulate)",
        ),
        libc::ENOSYS => said(
            Cause::NoPerf,
            "this kernel, or the sandbox or emulator around it, has no perf_event_open",
            "run on a kernel with CONFIG_PERF_EVENTS and outside of gVisor or QEMU's user mode, or record with the emulated unit \
             (jportal run --emulate)",
        ),
        libc::EPERM => seccomp(machine),
        libc::EACCES => rights(machine),
        libc::EINVAL => said(
            Cause::Configuration,
            format!("Linux {} or the processor does not know what was asked for", machine.release),
            "compare /sys/bus/event_source/devices/intel_pt/format and caps with the config above; a newer kernel may help",
        ),
        libc::EBUSY => said(
            Cause::Busy,
            "Intel PT is in use: by `perf record -a -e intel_pt//` or another tracer of the whole system, by another agent in this \
             process, or the processor's LBR or BTS is in use and excludes it",
            "stop the other one (`ps ax | grep perf`), then start again",
        ),
        libc::ENODEV => {
            said(Cause::NoCore, "the core is not there", "bring the core online, or leave it out")
        }
        libc::EMFILE | libc::ENFILE => said(
            Cause::Files,
            format!(
                "too many open files: a recording needs 2 for each of {} cores, and where the VM runs already so many for each of its \
                 threads",
                machine.possible.len()
            ),
            if errno == libc::EMFILE {
                "raise the limit: `ulimit -n`"
            } else {
                "raise the system's limit: `sysctl fs.file-max`"
            },
        ),
        libc::ENOMEM => {
            said(Cause::Memory, "the kernel has no memory for the event", "free memory, then start again")
        }
        _ => internal(),
    }
}

fn seccomp(machine: &Machine) -> Explanation {
    let place =
        machine.container.map_or_else(|| "this process".to_owned(), |name| format!("this {name} container"));
    let remedy = match machine.container {
        Some("Podman") => {
            "`podman run --cap-add SYS_ADMIN`, or a seccomp profile that allows perf_event_open"
        }
        Some("Kubernetes") => {
            "add PERFMON to securityContext.capabilities, or set a seccompProfile that allows perf_event_open"
        }
        _ => "`docker run --cap-add PERFMON`, or a seccomp profile that allows perf_event_open",
    };
    let why = if machine.seccomp == 0 && machine.container.is_none() {
        "a security module or a filter of system calls forbids perf_event_open".to_owned()
    } else {
        format!("the seccomp filter of {place} blocks perf_event_open")
    };
    said(Cause::Seccomp, why, remedy)
}

fn rights(machine: &Machine) -> Explanation {
    let Some(level) = machine.paranoid else {
        return said(
            Cause::Rights,
            "perf_event_paranoid cannot be read",
            "mount /proc, and look at /proc/sys/kernel/perf_event_paranoid",
        );
    };
    if level > 2 {
        return said(
            Cause::Rights,
            format!("perf_event_paranoid is {level}, which forbids a process to trace itself"),
            "`sysctl kernel.perf_event_paranoid=2`, or run with CAP_SYS_ADMIN (Debian) or CAP_PERFMON (other distributions)",
        );
    }
    said(
        Cause::Rights,
        format!(
            "perf_event_paranoid is {level}, which would allow it: a security module (SELinux class perf_event) forbids it"
        ),
        "allow perf_event open for this domain (`ausearch -m avc -c java`), or run with CAP_PERFMON",
    )
}

fn mapping(
    request: &Request,
    all: u64,
    errno: i32,
    machine: &Machine,
    locked_limit: Option<u64>,
) -> Explanation {
    match errno {
        libc::EPERM => locked_memory(all, machine, locked_limit),
        libc::ENOMEM => said(
            Cause::Memory,
            format!("the kernel has no {} KiB for the rings", all / 1024),
            "a smaller -XX:JPortalBufferSize",
        ),
        libc::EOPNOTSUPP if matches!(request, Request::MapAux { .. }) => internal(),
        _ => internal(),
    }
}

fn locked_memory(all: u64, machine: &Machine, locked_limit: Option<u64>) -> Explanation {
    let free = machine.free_budget();
    let limit = locked_limit.map_or_else(|| "unlimited".to_owned(), |n| format!("{} KiB", n / 1024));
    let why = format!(
        "the rings of {} cores need {} KiB of locked memory; perf_event_mlock_kb gives this user {} KiB for {} cores that are online, \
         and `ulimit -l` {limit} more to this process (other users of perf with the same user id count too)",
        machine.possible.len(),
        all / 1024,
        free / 1024,
        machine.online.len(),
    );
    let cores = machine.online.len().max(1) as u64;
    let (kib, each) = (all.div_ceil(1024), all.div_ceil(1024).div_ceil(cores));
    let remedy = format!(
        "a smaller -XX:JPortalBufferSize, `ulimit -l {kib}`, `sysctl kernel.perf_event_mlock_kb={each}`, CAP_IPC_LOCK, or \
         `sysctl kernel.perf_event_paranoid=-1`"
    );
    said(Cause::LockedMemory, why, remedy)
}

fn filtering(errno: i32, machine: &Machine) -> Explanation {
    match errno {
        libc::EINVAL => said(
            Cause::Filter,
            format!(
                "Linux {} does not take a filter of this form, or the processor has none",
                machine.release
            ),
            "Linux 5.18 and later filter plain address ranges; processors before Skylake have no filter",
        ),
        libc::ENOENT | libc::EACCES | libc::ELOOP => said(
            Cause::Path,
            "the file of the code cache cannot be reached by its path",
            "mount /proc in this mount namespace: the filter names /proc/self/fd",
        ),
        libc::ENOMEM => {
            said(Cause::Memory, "the kernel has no memory for the filter", "free memory, then start again")
        }
        _ => internal(),
    }
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
