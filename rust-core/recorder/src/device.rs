//! Where PT comes from. Every device offers the kernel's rings, so that one drain serves all.

mod emulated;

pub use emulated::Emulated;

use crate::config::{Config, Source};
use crate::error::Error;
use jportal_capture::PtConfig;
use jportal_capture::header::sources;
use jportal_perf_abi::emulated::ENVIRONMENT;
use jportal_perf_abi::ring::CoreConsumer;
use std::path::Path;

/// The processor a device speaks for, as the capture's header names it.
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
/// Life: `rings` once, `enable` once the code cache is known, `disable`; after a disable the
/// rings are drained until `is_quiet`, then `finish`.
pub trait Device: Send + Sync {
    /// For the header; the filter is filled in by the session.
    fn config(&self) -> PtConfig;
    /// For the header; `None`: the processor the VM runs on.
    fn cpu(&self) -> Option<Cpu>;
    /// TSC frequency in kHz, 0 when not known.
    fn tsc_khz(&self) -> u64;
    /// The consuming half of each core's rings, by core number.
    ///
    /// # Errors
    /// When a ring cannot be had.
    fn rings(&self) -> Result<Vec<CoreConsumer>, Error>;
    /// Traces code in `low..high` from now on.
    ///
    /// # Errors
    /// When the device refuses.
    fn enable(&self, low: u64, high: u64) -> Result<(), Error>;
    /// Stops tracing. Async-signal-safe, may be repeated.
    fn disable(&self);
    /// Whether, after the last `disable`, nothing more will be published.
    fn is_quiet(&self) -> bool;
    /// Why the device stopped working, if it did.
    fn failure(&self) -> Option<Error>;
    /// Figures for the end of the capture.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// Nothing more will be read.
    fn finish(&self);
}

/// Opens the device that the configuration asks for.
///
/// # Errors
/// When there is none or it cannot be used; the message says what would help.
pub fn open(config: &Config) -> Result<Box<dyn Device>, Error> {
    let unit = std::env::var_os(ENVIRONMENT).filter(|path| !path.is_empty());
    match (config.source, unit) {
        (Source::None, _) => Ok(Box::new(Metadata)),
        (Source::Perf, _) => Err(Error::NotInThisBuild { name: "perf" }),
        (Source::Auto | Source::Emulated, Some(path)) => Ok(Box::new(Emulated::open(Path::new(&path))?)),
        (Source::Auto | Source::Emulated, None) => Err(Error::NoSource { variable: ENVIRONMENT }),
    }
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
    fn rings(&self) -> Result<Vec<CoreConsumer>, Error> {
        Ok(Vec::new())
    }
    fn enable(&self, _low: u64, _high: u64) -> Result<(), Error> {
        Ok(())
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
