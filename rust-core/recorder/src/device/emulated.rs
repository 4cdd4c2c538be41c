// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::{Cpu, Device};
use crate::config::RecordingConfig;
use crate::error::Error;
use crate::window::check_window;
use jportal_capture::header::{packet_flags, return_pops, sources};
use jportal_capture::{FilterRange, PtConfig};
use jportal_perf_abi::emulated::{Counter, EmulatedUnit, PacketConfig, ReturnPop};
use jportal_perf_abi::record::SAMPLE_TYPE;
use jportal_perf_abi::ring::CoreConsumer;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// How long a pause waits for the unit.
const PAUSE_PATIENCE: Duration = Duration::from_secs(2);

/// The emulated unit, accessed through its shared file.
pub struct Emulated {
    unit: EmulatedUnit,
    enabled: AtomicBool,
    /// Flight recorder: bytes to keep of each core.
    keep: Option<u64>,
    filter: OnceLock<(u64, u64)>,
    /// Generation of the last disable command.
    disabled: AtomicU64,
}

impl Emulated {
    /// Opens the shared file of the unit that traces this process.
    ///
    /// # Errors
    /// When there is no usable unit, the unit traces another process, or it keeps too few bytes
    /// for the flight recorder.
    pub fn open(path: &Path, config: &RecordingConfig) -> Result<Self, Error> {
        let unit = EmulatedUnit::open(path)?;
        let (owner, pid) = (unit.owner(), std::process::id());
        if owner != pid {
            return Err(Error::ForeignUnit { path: path.into(), owner, pid });
        }
        let keep = (config.snapshot_bytes != 0).then(|| config.snapshot_bytes.min(unit.config().aux_bytes));
        if let Some(keep) = keep {
            check_window(keep, unit.config().packets.psb_period)?;
        }
        unit.set_overwrite(keep.is_some());
        let (enabled, disabled) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { unit, enabled, keep, filter: OnceLock::new(), disabled })
    }
}

impl Device for Emulated {
    fn config(&self) -> PtConfig {
        let c = self.unit.config();
        let p = &c.packets;
        PtConfig {
            source: sources::EMULATED,
            cores: c.cores,
            packets: packets(p),
            return_pop: match p.return_pop {
                ReturnPop::Always => return_pops::ALWAYS,
                ReturnPop::CompressedOnly => return_pops::COMPRESSED_ONLY,
            },
            mtc_period: p.mtc_period.unwrap_or(0),
            cyc_threshold: p.cyc_threshold.unwrap_or(0),
            psb_period: p.psb_period,
            tsc_ctc_numerator: c.tsc_ctc.0,
            tsc_ctc_denominator: c.tsc_ctc.1,
            nominal_ratio: u8::try_from((c.tsc_khz + 50_000) / 100_000).unwrap_or(0),
            perf_config: perf_config(p),
            sample_type: SAMPLE_TYPE,
            aux_bytes: c.aux_bytes,
            filter: Vec::new(),
            detail: self.unit.detail().as_str().into(),
        }
    }

    fn cpu(&self) -> Option<Cpu> {
        let c = self.unit.config().cpu;
        let vendor = "GenuineIntel".into();
        Some(Cpu { vendor, family: c.family, model: c.model.into(), stepping: c.stepping.into() })
    }

    fn tsc_khz(&self) -> u64 {
        self.unit.config().tsc_khz
    }

    fn rings(&self, _own: &[u32]) -> Result<Vec<(u32, CoreConsumer)>, Error> {
        let overwrites = self.keep.is_some();
        (0..self.unit.config().cores)
            .map(|core| Ok((core, fresh(self.unit.consumer(core)?, overwrites)?)))
            .collect()
    }

    fn enable(&self, low: u64, high: u64, _file: Option<RawFd>) -> Result<Vec<FilterRange>, Error> {
        let _ = self.filter.set((low, high));
        self.unit.enable(low, high);
        self.enabled.store(true, Release);
        Ok(vec![FilterRange { low, high }])
    }

    fn complete_until(&self) -> u64 {
        self.unit.complete_until()
    }

    fn keeps(&self) -> Option<u64> {
        self.keep
    }

    /// Unlike a processor, the unit carries out a command some time later: a thread of QEMU polls.
    /// So this waits, also for a thread that may not wait long ([`Device::pause_until`]). Otherwise
    /// the program would continue to be traced, and overwrite the call for which a window is kept.
    fn pause(&self) {
        if self.enabled.load(Acquire) {
            let generation = self.unit.disable();
            self.disabled.store(generation, Release);
            self.unit.wait_for(generation, PAUSE_PATIENCE, || {});
        }
    }

    fn resume(&self) {
        let Some(&(low, high)) = self.filter.get().filter(|_| self.enabled.load(Acquire)) else { return };
        self.unit.enable(low, high);
        if !self.enabled.load(Acquire) {
            // `disable` was called meanwhile.
            self.disabled.store(self.unit.disable(), Release);
        }
    }

    fn disable(&self) {
        if self.enabled.swap(false, AcqRel) {
            self.disabled.store(self.unit.disable(), Release);
        }
    }

    fn is_quiet(&self) -> bool {
        self.unit.acknowledged() >= self.disabled.load(Acquire)
    }

    fn failure(&self) -> Option<Error> {
        self.unit.failure().map(Error::Unit)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Counter::ALL.iter().map(|&(counter, name)| (name, self.unit.counter(counter))).collect()
    }

    fn finish(&self) {
        self.unit.finish();
    }
}

/// Discards what an earlier recording left in the rings when it did not wait for the unit.
fn fresh(mut rings: CoreConsumer, overwrites: bool) -> Result<CoreConsumer, jportal_perf_abi::Error> {
    if !overwrites {
        rings.aux.discard()?;
    }
    rings.data.discard()?;
    Ok(rings)
}

fn packets(p: &PacketConfig) -> u8 {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    packet_flags::TSC
        | flag(p.mtc_period.is_some(), packet_flags::MTC)
        | flag(p.cyc_threshold.is_some(), packet_flags::CYC)
        | flag(p.ret_compression, packet_flags::RETURN_COMPRESSION)
}

/// The value that `perf_event_attr.config` would have: the bits of
/// `/sys/bus/event_source/devices/intel_pt/format`.
fn perf_config(p: &PacketConfig) -> u64 {
    const PT: u64 = 1;
    const CYC: u64 = 1 << 1;
    const MTC: u64 = 1 << 9;
    const TSC: u64 = 1 << 10;
    const NORETCOMP: u64 = 1 << 11;
    const BRANCH: u64 = 1 << 13;
    let mut config = PT | TSC | BRANCH | u64::from(p.psb_period & 0xf) << 24;
    if !p.ret_compression {
        config |= NORETCOMP;
    }
    if let Some(period) = p.mtc_period {
        config |= MTC | u64::from(period & 0xf) << 14;
    }
    if let Some(threshold) = p.cyc_threshold {
        config |= CYC | u64::from(threshold & 0xf) << 19;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_perf_config_has_the_bits_of_the_kernels_format() {
        let plain = PacketConfig { psb_period: 3, ..PacketConfig::default() };
        assert_eq!(perf_config(&plain), 0x300_2c01);
        let all = PacketConfig {
            ret_compression: true,
            mtc_period: Some(9),
            cyc_threshold: Some(2),
            psb_period: 0,
            return_pop: ReturnPop::Always,
        };
        assert_eq!(perf_config(&all), 0x2401 | 1 << 9 | 9 << 14 | 2 | 2 << 19);
    }

    #[test]
    fn a_unit_of_another_process_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("unit");
        let config = jportal_perf_abi::emulated::UnitConfig {
            data_bytes: 4096,
            aux_bytes: 4096,
            ..Default::default()
        };
        EmulatedUnit::create(&path, config).unwrap();
        assert!(Emulated::open(&path, &RecordingConfig::default()).is_ok());
        // The owner is the only field that holds our own process id.
        let mut file = std::fs::read(&path).unwrap();
        let own = std::process::id().to_le_bytes();
        let at = file.windows(4).position(|w| w == own).unwrap();
        file[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
        std::fs::write(&path, file).unwrap();
        assert!(matches!(
            Emulated::open(&path, &RecordingConfig::default()),
            Err(Error::ForeignUnit { owner: 1, .. })
        ));
    }
}
