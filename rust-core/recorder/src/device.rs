// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The sources of PT. Every device offers the kernel's rings, so that one drain serves all
//! devices.

mod emulated;
mod perf;

pub use emulated::Emulated;
pub use perf::Perf;

use crate::config::{RecordingConfig, Source};
use crate::error::Error;
use jportal_capture::header::sources;
use jportal_capture::{FilterRange, PtConfig, TimeConversion};
use jportal_perf_abi::emulated::ENVIRONMENT;
use jportal_perf_abi::kernel::{Kernel, Linux};
use jportal_perf_abi::machine::Machine;
use jportal_perf_abi::pmu::PtPmu;
use jportal_perf_abi::ring::CoreConsumer;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The processor that a device reports for the capture's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// CPUID vendor string.
    pub vendor: String,
    /// Display family.
    pub family: u16,
    /// Display model.
    pub model: u16,
    /// Stepping.
    pub stepping: u16,
}

/// A PT unit.
///
/// Order of calls: `rings` once, when every thread of the recorder exists and before the first
/// byte is recorded; `enable` once the code cache is known; `disable`. After a disable the
/// rings are drained until `is_quiet`; then comes `finish`.
pub trait Device: Send + Sync {
    /// For the header; the session fills in the filter. Before `rings`, the number of cores is
    /// the largest possible one.
    fn config(&self) -> PtConfig;
    /// For the header; `None`: the processor on which the VM runs.
    fn cpu(&self) -> Option<Cpu>;
    /// TSC frequency in kHz, 0 when not known.
    fn tsc_khz(&self) -> u64;
    /// For the header: the relation of perf's clock and the TSC.
    fn time(&self) -> TimeConversion {
        TimeConversion::default()
    }
    /// Opens the device and returns the consuming half of each core's rings with the core's
    /// number. The calling thread and those that it creates later are traced. With
    /// [`RecordingConfig::attach`], so are the threads that exist when the device is enabled,
    /// except `own`, the recorder's threads. What it takes for them is mostly done here.
    ///
    /// # Errors
    /// When a ring cannot be opened.
    fn rings(&self, own: &[u32]) -> Result<Vec<(u32, CoreConsumer)>, Error>;
    /// Whether only the mapping of a file can be filtered, so that the code cache should be
    /// one. Called between `rings` and `enable`.
    fn filters_files_only(&self) -> bool {
        false
    }
    /// Starts tracing code in `low..high`. `file` is the file whose whole memory the range is,
    /// or `None` for anonymous memory. Returns the ranges that are traced; an empty list means
    /// that nothing is filtered out. In a VM that is already running, to be called at a
    /// safepoint, so that few threads are created meanwhile.
    ///
    /// # Errors
    /// When the device refuses.
    fn enable(&self, low: u64, high: u64, file: Option<RawFd>) -> Result<Vec<FilterRange>, Error>;
    /// The calling thread is new; it has inherited the events of the thread that created it.
    fn thread_started(&self) {}
    /// Converts the times of records that were just read from a core's ring into TSC values.
    fn translate(&self, _core: u32, _records: &mut [u8]) {}
    /// Called after each pass over a core's rings, a hundred to a thousand times a second.
    /// `full`: trace was lost, or may be lost soon. Also completes an interrupted
    /// [`Device::disable_until`].
    fn keep_running(&self, _core: u32, _full: bool) {}
    /// The TSC before which each core's rings contain everything that the core recorded or will
    /// record.
    fn complete_until(&self) -> u64;
    /// For a device that overwrites the oldest trace: how many of the last bytes of each core
    /// to keep. Its AUX rings are read while it pauses.
    fn keeps(&self) -> Option<u64> {
        None
    }
    /// Stops tracing for a moment; [`Device::is_quiet`] says when the device has stopped.
    fn pause(&self) {}
    /// As [`Device::pause`], but takes no more time from `deadline` on if the rest can be left to a
    /// later [`Device::pause`].
    fn pause_until(&self, _deadline: Instant) {
        self.pause();
    }
    /// Continues after [`Device::pause`], unless the device was disabled meanwhile.
    fn resume(&self) {}
    /// Stops tracing. Async-signal-safe; may be called repeatedly.
    fn disable(&self);
    /// As [`Device::disable`], but takes no more time from `deadline` on: the drain threads do the
    /// rest.
    fn disable_until(&self, _deadline: Instant) {
        self.disable();
    }
    /// Whether nothing more will be published after the last `disable` or `pause`.
    fn is_quiet(&self) -> bool;
    /// Why the device stopped working, if it did.
    fn failure(&self) -> Option<Error>;
    /// Figures for the end of the capture.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// Closes the device. Nothing more will be read.
    fn finish(&self);
}

/// Opens the device that the configuration selects.
///
/// # Errors
/// When there is none or it cannot be used; the message names a remedy.
pub fn open(config: &RecordingConfig) -> Result<Box<dyn Device>, Error> {
    open_on(Arc::new(Linux), config, std::env::var_os(ENVIRONMENT))
}

/// Like [`open`], but on the given kernel; `unit` is the path of the emulated unit, if the
/// environment names one.
///
/// # Errors
/// As [`open`].
pub fn open_on(
    kernel: Arc<dyn Kernel>,
    config: &RecordingConfig,
    unit: Option<OsString>,
) -> Result<Box<dyn Device>, Error> {
    let unit = unit.filter(|path| !path.is_empty());
    let pmu = match config.source {
        Source::Auto | Source::Perf => PtPmu::read(kernel.root())?,
        Source::Emulated | Source::None | Source::Sideband => None,
    };
    Ok(match (config.source, pmu, unit) {
        (Source::None, ..) => Box::new(Metadata),
        (Source::Sideband, ..) => Box::new(Perf::sideband(kernel, config)?),
        (Source::Auto | Source::Perf, Some(pmu), _) => Box::new(Perf::intel_pt(kernel, config, pmu)?),
        (Source::Perf, None, _) => return Err(Error::NoIntelPt(without_pt(&*kernel))),
        (Source::Emulated, _, Some(path)) => Box::new(Emulated::open(Path::new(&path), config)?),
        (Source::Emulated, ..) => return Err(Error::NoUnit { variable: ENVIRONMENT }),
        // The environment may be inherited or anybody's, and the VM trusts the rings of a unit.
        // So a unit is used only if the command line selects it, as `jportal run` does.
        (Source::Auto, None, _) => return Err(Error::NoSource { machine: without_pt(&*kernel) }),
    })
}

/// Whether a recording that starts later could be filtered only if the code cache is the memory
/// of a file ([`Device::filters_files_only`]).
pub fn will_filter_files_only(kernel: Arc<dyn Kernel>, config: &RecordingConfig) -> bool {
    if !matches!(config.source, Source::Auto | Source::Perf) {
        return false;
    }
    // Without PT, or the right to use it, there is nothing to filter.
    let Ok(Some(pmu)) = PtPmu::read(kernel.root()) else { return false };
    Perf::intel_pt(kernel, config, pmu).is_ok_and(|perf| perf.would_filter_files_only())
}

/// Explains why this machine has no Intel PT.
fn without_pt(kernel: &dyn Kernel) -> String {
    let processor = Machine::read(kernel.root()).processor;
    let why = match (processor.vendor.as_str(), processor.virtualised) {
        ("GenuineIntel", true) => "a hypervisor lies in between and may hide it",
        ("GenuineIntel", false) => {
            "the processor is older than Broadwell, or the firmware keeps PT for itself (see dmesg)"
        }
        _ => "only Intel's processors have it",
    };
    let vendor = if processor.vendor.is_empty() { "unknown" } else { &processor.vendor };
    format!(
        "the kernel has no Intel PT, /sys/bus/event_source/devices/intel_pt is missing (processor {vendor}: {why})"
    )
}

/// No PT at all: the capture holds metadata only.
struct Metadata;

impl Device for Metadata {
    fn config(&self) -> PtConfig {
        PtConfig { source: sources::NONE, ..PtConfig::default() }
    }
    fn cpu(&self) -> Option<Cpu> {
        None
    }
    fn tsc_khz(&self) -> u64 {
        0
    }
    fn rings(&self, _own: &[u32]) -> Result<Vec<(u32, CoreConsumer)>, Error> {
        Ok(Vec::new())
    }
    fn enable(&self, _low: u64, _high: u64, _file: Option<RawFd>) -> Result<Vec<FilterRange>, Error> {
        Ok(Vec::new())
    }
    fn complete_until(&self) -> u64 {
        0
    }
    fn disable(&self) {}
    fn is_quiet(&self) -> bool {
        true
    }
    fn failure(&self) -> Option<Error> {
        None
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn finish(&self) {}
}
