// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use crate::config::RecordingConfig;
use crate::device::{Cpu, Device};
use crate::sys;
use jportal_capture::Header;
use std::time::{SystemTime, UNIX_EPOCH};

/// The header with what is known when the recording starts.
pub(crate) fn at_start(config: &RecordingConfig, device: &dyn Device) -> Header {
    let cpu = device.cpu().unwrap_or_else(|| {
        let (vendor, family, model, stepping) = sys::cpu();
        Cpu { vendor, family, model, stepping }
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        pid: std::process::id(),
        start_tsc: sys::rdtsc(),
        start_unix_ns: u64::try_from(now.as_nanos()).unwrap_or(0),
        tsc_khz: device.tsc_khz(),
        vm_version: config.vm_version.as_str().into(),
        vm_flags: config.vm_flags.as_str().into(),
        java_command: config.java_command.as_str().into(),
        os: os().as_str().into(),
        cpu_vendor: cpu.vendor.as_str().into(),
        cpu_family: cpu.family,
        cpu_model: cpu.model,
        cpu_stepping: cpu.stepping,
        time: device.time(),
        pt: device.config(),
        ..Header::default()
    }
}

/// "Linux 6.1.0-18-amd64", empty without /proc.
fn os() -> String {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {}", read("ostype").trim(), read("osrelease").trim()).trim().to_owned()
}
