// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What this machine can do with Intel PT through the kernel. Each condition is checked
//! separately, and the system calls themselves are tried.

use std::io;

use jportal_perf_abi::kernel::{Control, FILES_SHARE, Kernel, Place, Thread};
use jportal_perf_abi::machine::{Machine, THREADS_ONLY_SINCE};
use jportal_perf_abi::pmu::PtPmu;
use jportal_perf_abi::refusal::{Refusal, Request};
use jportal_perf_abi::sizes::RingSizes;
use jportal_perf_abi::{attr, attr::Common};

use super::{Check, Use};

/// The facts that the checks use.
pub(super) struct Facts {
    machine: Machine,
    pmu: Result<Option<PtPmu>, String>,
    locked_limit: Option<u64>,
    files_limit: Option<u64>,
    /// Whether an event without PT can be opened.
    sideband: Result<(), Refusal>,
    /// Whether a PT event can be opened. `None`: not tried because there is no PT.
    pt: Option<Result<(), Refusal>>,
}

impl Facts {
    pub(super) fn gather(kernel: &dyn Kernel) -> Self {
        let machine = Machine::read(kernel.root());
        let pmu = PtPmu::read(kernel.root()).map_err(|e| e.to_string());
        let core = machine.online.first().copied().unwrap_or(0);
        let refusal =
            |request, e: &io::Error| Refusal::new(request, e, &machine, kernel.locked_memory_limit());
        let sideband = attempt(kernel, &attr::sideband(4096, common(&machine)), core);
        let sideband = sideband.map_err(|e| refusal(Request::OpenSideband { core }, &e));
        let packets = pmu.as_ref().ok().and_then(Option::as_ref).and_then(|p| Some((p, p.packets().ok()?)));
        let pt = packets.map(|(pmu, packets)| {
            let attr = attr::pt(pmu.kind, packets.config, 256 << 10, common(&machine));
            let opened = attempt(kernel, &attr, core);
            opened.map_err(|e| refusal(Request::OpenPt { core, config: packets.config }, &e))
        });
        let (locked_limit, files_limit) = (kernel.locked_memory_limit(), kernel.open_files_limit());
        Self { pmu, locked_limit, files_limit, sideband, pt, machine }
    }

    /// Whether the VM can record with real PT.
    pub(super) fn can_trace(&self) -> bool {
        matches!(self.pt, Some(Ok(())))
    }

    /// Whether the VM can record thread switches.
    pub(super) fn can_record_switches(&self) -> bool {
        self.sideband.is_ok()
    }

    pub(super) fn checks(&self) -> Vec<Check> {
        let all = [
            self.processor(),
            self.intel_pt(),
            self.kernel(),
            self.rights(),
            self.calls(),
            self.locked_memory(),
            self.files(),
            self.filter(),
            self.timing(),
        ];
        all.into_iter().map(|c| c.needed_for(Use::Perf)).collect()
    }

    fn pmu(&self) -> Option<&PtPmu> {
        self.pmu.as_ref().ok()?.as_ref()
    }

    fn processor(&self) -> Check {
        let p = &self.machine.processor;
        let maker = &self.machine.maker;
        let hypervisor = match (p.virtualised, maker.is_empty()) {
            (true, true) => ", under a hypervisor".to_owned(),
            (true, false) => format!(", under a hypervisor ({maker})"),
            (false, _) => String::new(),
        };
        let container = self.machine.container.map_or_else(String::new, |c| format!(", in a {c} container"));
        let found = format!("{} {}{hypervisor}{container}", p.vendor, p.name);
        if p.vendor == "GenuineIntel" {
            return Check::good("processor", found);
        }
        Check::bad(
            "processor",
            found,
            "none: only Intel's processors have PT; the emulated unit needs none".into(),
        )
    }

    fn intel_pt(&self) -> Check {
        let name = "Intel PT";
        let pmu = match &self.pmu {
            Ok(Some(pmu)) => pmu,
            Ok(None) => {
                let remedy = match (
                    self.machine.processor.vendor.as_str(),
                    self.machine.processor.virtualised,
                ) {
                    ("GenuineIntel", true) => {
                        "use a host without hypervisor, or one that hands PT on (KVM: kvm_intel.pt_mode=1)"
                    }
                    ("GenuineIntel", false) => {
                        "the processor is older than Broadwell, or the firmware has PT on: see `dmesg | grep -i pt`"
                    }
                    _ => "none here; record with the emulated unit",
                };
                return Check::bad(
                    name,
                    "not present: no /sys/bus/event_source/devices/intel_pt".into(),
                    remedy.into(),
                );
            }
            Err(e) => {
                return Check::bad(name, e.clone(), "please report this with the file's content".into());
            }
        };
        match pmu.packets() {
            Ok(packets) => {
                let caps: Vec<_> =
                    pmu.caps.iter().filter(|(_, v)| **v != 0).map(|(n, v)| format!("{n}={v:x}")).collect();
                Check::good(
                    name,
                    format!("type {}, config {:#x}; {}", pmu.kind, packets.config, caps.join(" ")),
                )
            }
            Err(e) => Check::bad(name, e.to_string(), "please report this with the kernel's release".into()),
        }
    }

    fn kernel(&self) -> Check {
        let m = &self.machine;
        let (major, minor) = THREADS_ONLY_SINCE;
        if m.version() >= THREADS_ONLY_SINCE {
            return Check::good("kernel", format!("{}: traces threads and not forked children", m.release));
        }
        let found = format!("{}: forked children are traced until their exec", m.release);
        Check::bad("kernel", found, format!("Linux {major}.{minor} or newer")).optional()
    }

    fn rights(&self) -> Check {
        let name = "perf access";
        let Some(level) = self.machine.paranoid else {
            return Check::bad(
                name,
                "the kernel has no perf events".into(),
                "boot one with CONFIG_PERF_EVENTS".into(),
            );
        };
        let found = format!("perf_event_paranoid is {level}");
        if self.machine.may_trace_itself() {
            let why = if level <= 2 {
                "a process may trace itself"
            } else {
                "this process has the capability that it asks for"
            };
            return Check::good(name, format!("{found}: {why}"));
        }
        Check::bad(
            name,
            format!("{found}: without root nothing may be traced"),
            "sysctl kernel.perf_event_paranoid=2".into(),
        )
    }

    /// The results of the calls themselves. Only they show seccomp, security modules and other
    /// users of PT.
    fn calls(&self) -> Check {
        let name = "perf calls";
        let seccomp = match self.machine.seccomp {
            0 => "no seccomp filter",
            1 => "strict seccomp",
            _ => "under a seccomp filter",
        };
        match (&self.sideband, &self.pt) {
            (Err(r), _) | (Ok(()), Some(Err(r))) => {
                Check::bad(name, format!("{}: {}", r.request, r.why), r.remedy.clone())
            }
            (Ok(()), Some(Ok(()))) => {
                Check::good(name, format!("PT and software events can be opened; {seccomp}"))
            }
            (Ok(()), None) => Check::good(
                name,
                format!("software events can be opened (-XX:JPortalSource=sideband works); {seccomp}"),
            ),
        }
    }

    fn locked_memory(&self) -> Check {
        let m = &self.machine;
        let (cores, sizes) = (m.possible.len(), RingSizes::fitting(m, true));
        let limit = self.locked_limit.map_or_else(|| "unlimited".to_owned(), |n| format!("{} KiB", n / 1024));
        let budget = m.mlock_kb.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let found = if m.may_lock_any_amount() {
            format!(
                "no limit for this process; the default is {} KiB of trace for each of {cores} cores",
                sizes.aux / 1024
            )
        } else {
            format!(
                "{budget} KiB per core for perf, and ulimit -l {limit}; the default is {} KiB of trace for each of {cores} cores",
                sizes.aux / 1024
            )
        };
        let fits = sizes.all() * cores as u64 <= m.free_budget() + self.locked_limit.unwrap_or(u64::MAX / 2);
        if fits || m.may_lock_any_amount() {
            return Check::good("locked memory", found);
        }
        let needed = sizes.all() * cores as u64 / 1024;
        let remedy = format!(
            "not even the smallest rings fit: `ulimit -l {needed}` or `sysctl kernel.perf_event_mlock_kb=516`"
        );
        Check::bad("locked memory", found, remedy)
    }

    fn files(&self) -> Check {
        let wanted = 2 * self.machine.possible.len() as u64 * FILES_SHARE;
        let limit = self.files_limit.unwrap_or(u64::MAX);
        let found = format!(
            "{} may be open, 2 for each core are needed, by JPortal.start as many for each thread; the VM uses a quarter of them at most",
            self.files_limit.map_or("any number".into(), |n| n.to_string())
        );
        if limit >= wanted {
            return Check::good("open files", found);
        }
        Check::bad("open files", found, format!("`ulimit -n {wanted}`"))
    }

    /// Optional: without a filter everything is traced.
    fn filter(&self) -> Check {
        let name = "filter";
        let m = &self.machine;
        let kernel = match m.filters_plain_ranges() {
            true => "plain address ranges",
            false => "ranges of mapped files only: the VM makes its code cache one (a memfd)",
        };
        match self.pmu().map(|p| p.address_filters) {
            Some(0) => {
                let found = "this processor has no address filters: all user code would be traced".into();
                Check::bad(name, found, "none: processors since Skylake have them".into()).optional()
            }
            n => Check::good(name, format!("Linux {} filters {kernel}{}", m.release, ranges(n))).optional(),
        }
    }

    /// Optional: without MTC, only PSBs give the time.
    fn timing(&self) -> Check {
        let name = "timing";
        let Some(pmu) = self.pmu() else {
            return Check::bad(name, "no PT, no packets".into(), "none here".into()).optional();
        };
        match pmu.packets().ok().and_then(|p| p.mtc_period) {
            Some(period) => {
                let (ebx, eax) = pmu.tsc_ctc;
                Check::good(name, format!("MTC every 2^{period} crystal ticks, TSC to crystal {ebx}:{eax}"))
                    .optional()
            }
            None => {
                let found = "no usable MTC packets: time is known at each PSB only".to_owned();
                Check::bad(name, found, "none: the processor or the hypervisor does not offer them".into())
                    .optional()
            }
        }
    }
}

fn ranges(n: Option<u32>) -> String {
    n.map_or_else(String::new, |n| format!(", the processor {n} at a time"))
}

fn common(machine: &Machine) -> Common {
    Common { threads_only: machine.version() >= THREADS_ONLY_SINCE, raw_clock: false }
}

/// Opens an event and closes it again without enabling it.
fn attempt(
    kernel: &dyn Kernel,
    attr: &jportal_perf_abi::bindings::perf_event_attr,
    core: u32,
) -> io::Result<()> {
    let event = kernel.open(attr, Thread::Calling, Place::Core(core))?;
    let _ = kernel.control(event, Control::Disable);
    kernel.close(event);
    Ok(())
}

#[cfg(test)]
#[path = "real_tests.rs"]
mod tests;
