// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Facts from sysfs about the PT PMU: `/sys/bus/event_source/devices/intel_pt`
//! (`arch/x86/events/intel/pt.c`).

use crate::Error;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The PMU's directory, below the root of the file system.
pub const DIRECTORY: &str = "sys/bus/event_source/devices/intel_pt";

/// The MTC period as an exponent. MTC packets are also sent while the thread is outside the
/// filter, so the period is `2^6` crystal ticks or longer if the processor supports that.
const SPARSE_MTC: u32 = 6;
/// The largest PSB period as an exponent: PSB every `2^(3 + 11)` bytes, as perf chooses.
const LARGEST_PSB: u32 = 3;

/// Bits of `perf_event_attr.config`, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Lowest bit.
    pub low: u32,
    /// Highest bit.
    pub high: u32,
}

impl Term {
    /// Parses `config:B` or `config:B-E`; `None` for another word of the attributes and for
    /// malformed text.
    fn parse(text: &str) -> Option<Self> {
        let bits = text.strip_prefix("config:")?;
        let (low, high) = bits.split_once('-').unwrap_or((bits, bits));
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        (low <= high && high < 64).then_some(Self { low, high })
    }

    /// `value`, cut to the term's bits and shifted to their place.
    fn with(self, value: u64) -> u64 {
        let mask = u64::MAX >> (63 - (self.high - self.low));
        (value & mask) << self.low
    }
}

/// The PMU of Intel PT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PtPmu {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `format/*` in the word `config`.
    pub terms: BTreeMap<String, Term>,
    /// `caps/*`.
    pub caps: BTreeMap<String, u64>,
    /// `nr_addr_filters`; 0 if the file is missing, because the kernel hides a 0.
    pub address_filters: u32,
    /// `max_nonturbo_ratio`; 0: unknown.
    pub max_nonturbo_ratio: u32,
    /// `tsc_art_ratio`: EBX and EAX of CPUID leaf 15H; (0, 0): unknown.
    pub tsc_ctc: (u32, u32),
}

/// Which packets an event asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtPackets {
    /// `perf_event_attr.config`.
    pub config: u64,
    /// MTC packets every `2^n` crystal ticks.
    pub mtc_period: Option<u8>,
    /// PSB every `2^(n + 11)` bytes.
    pub psb_period: u8,
}

impl PtPmu {
    /// Reads the PMU's directory below `root`; `None` when there is no PT.
    ///
    /// # Errors
    /// When a file exists and cannot be read or parsed.
    pub fn read(root: &Path) -> Result<Option<Self>, Error> {
        let directory = root.join(DIRECTORY);
        if !directory.exists() {
            return Ok(None);
        }
        let number = "a decimal number";
        let kind = parsed(&directory.join("type"), number, |t| t.parse().ok())?;
        let path = directory.join("type");
        let kind = kind.ok_or(Error::Io { action: "read", path, source: ErrorKind::NotFound.into() })?;
        let ratio =
            parsed(&directory.join("tsc_art_ratio"), "two numbers, EBX:EAX of CPUID leaf 15H", |t| {
                let (ebx, eax) = t.split_once(':')?;
                Some((ebx.parse().ok()?, eax.parse().ok()?))
            })?;
        let optional = |name: &str| parsed(&directory.join(name), number, |t| t.parse().ok());
        Ok(Some(Self {
            kind,
            terms: entries(&directory.join("format"), "config:BIT or config:LOW-HIGH", |t| {
                // No known term is in config1 or config2.
                if t.starts_with("config:") { Term::parse(t).map(Some) } else { Some(None) }
            })?,
            caps: entries(&directory.join("caps"), "a hexadecimal number", |t| {
                u64::from_str_radix(t, 16).ok().map(Some)
            })?,
            address_filters: optional("nr_addr_filters")?.unwrap_or(0),
            max_nonturbo_ratio: optional("max_nonturbo_ratio")?.unwrap_or(0),
            tsc_ctc: ratio.unwrap_or((0, 0)),
        }))
    }

    /// A capability; 0 if the kernel does not know it.
    pub fn cap(&self, name: &str) -> u64 {
        self.caps.get(name).copied().unwrap_or(0)
    }

    /// The packets that a recording needs and the processor has: branches, uncompressed
    /// returns, TSC, PSB, and MTC if its times can be used. `pt_event_valid` of `pt.c` must
    /// accept this configuration.
    ///
    /// # Errors
    /// When the kernel does not know one of the terms that every PT has.
    pub fn packets(&self) -> Result<PtPackets, Error> {
        let mut all = self.plain_packets()?;
        if let Some(period) = self.mtc_period()
            && let (Some(mtc), Some(term)) = (self.terms.get("mtc"), self.terms.get("mtc_period"))
        {
            all.config |= mtc.with(1) | term.with(period.into());
            all.mtc_period = Some(period as u8);
        }
        let psb = (self.cap("psb_cyc") != 0).then(|| largest(self.cap("psb_periods"), LARGEST_PSB)).flatten();
        if let (Some(period), Some(term)) = (psb, self.terms.get("psb_period")) {
            all.config |= term.with(period.into());
            all.psb_period = period as u8;
        }
        Ok(all)
    }

    /// [`PtPmu::packets`] without periods, for a kernel that refuses them.
    ///
    /// # Errors
    /// As [`PtPmu::packets`].
    pub fn plain_packets(&self) -> Result<PtPackets, Error> {
        let mut config = 0;
        for name in ["pt", "branch", "tsc", "noretcomp"] {
            let term = self.terms.get(name).ok_or_else(|| Error::Sysfs {
                path: PathBuf::from("/").join(DIRECTORY).join("format").join(name),
                text: String::new(),
                rule: "a term that every intel_pt has",
            })?;
            config |= term.with(1);
        }
        Ok(PtPackets { config, mtc_period: None, psb_period: 0 })
    }

    /// The MTC period. `None` if there is no MTC, or if the ratio of the clocks is unknown,
    /// without which a decoder cannot use MTC.
    fn mtc_period(&self) -> Option<u32> {
        let periods = self.cap("mtc_periods");
        if self.cap("mtc") == 0 || self.tsc_ctc.0 == 0 || self.tsc_ctc.1 == 0 {
            return None;
        }
        let sparse = (SPARSE_MTC..16).find(|n| periods >> n & 1 != 0);
        sparse.or_else(|| largest(periods, SPARSE_MTC))
    }
}

/// The largest `n` up to `limit` whose bit is set.
fn largest(bitmap: u64, limit: u32) -> Option<u32> {
    (0..=limit).rev().find(|n| bitmap >> n & 1 != 0)
}

/// The file's value; `None` when there is no such file.
fn parsed<T>(path: &Path, rule: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { action: "read", path: path.into(), source }),
    };
    match parse(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::Sysfs { path: path.into(), text: text.trim().into(), rule }),
    }
}

/// Every file of a directory that has a value; none when there is no such directory.
fn entries<T>(
    directory: &Path,
    rule: &'static str,
    parse: impl Fn(&str) -> Option<Option<T>>,
) -> Result<BTreeMap<String, T>, Error> {
    let listing = match fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(Error::Io { action: "list", path: directory.into(), source }),
    };
    let mut all = BTreeMap::new();
    for entry in listing {
        let entry = entry.map_err(|source| Error::Io { action: "list", path: directory.into(), source })?;
        if let Some(Some(value)) = parsed(&entry.path(), rule, &parse)? {
            all.insert(entry.file_name().to_string_lossy().into_owned(), value);
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "pmu_tests.rs"]
mod tests;
