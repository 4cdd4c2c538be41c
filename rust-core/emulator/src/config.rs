// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Plugin arguments: `-plugin libjportal_emulator.so,shm=PATH,cores=3,…`.

use std::path::PathBuf;

use crate::error::Error;

/// What to do when an AUX ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// Lose nothing: queue the trace on the host side, up to a limit.
    Stall,
    /// Lose trace as the kernel does.
    Drop,
}

/// Which timing packets the unit sends besides those of PSB+.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// TSC only.
    Tsc,
    /// TSC, TMA and MTC.
    Mtc,
    /// TSC, TMA, MTC and CYC.
    Cyc,
}

/// When the emulated return stack loses its top entry.
///
/// The two known decoders disagree on a near `ret` that is not compressed: perf pops, libipt
/// does not. This project has not determined which of them the hardware follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pop {
    /// At every near `ret`.
    Always,
    /// At a compressed near `ret` only.
    Compressed,
}

/// The configuration of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// File that holds the rings (`shm`).
    pub shm: PathBuf,
    /// Log file (`log`); counters and anomalies go there at the end, errors go to stderr too.
    pub log: Option<PathBuf>,
    /// Directory for the record of executed blocks (`truth`), for tests.
    pub truth: Option<PathBuf>,
    /// Virtual cores (`cores`).
    pub cores: u32,
    /// Bytes of each core's AUX ring (`aux`).
    pub aux: u64,
    /// Bytes of each core's data ring (`data`).
    pub data: u64,
    /// Mean number of blocks in the filter range after which a thread gives its core up
    /// (`quantum`); 0: no quantum.
    pub quantum: u64,
    /// Time for which a thread inside the range may keep its core before another thread may
    /// take it (`slice`), in microseconds.
    pub slice: u64,
    /// Seed of all pseudo-random choices (`seed`).
    pub seed: u64,
    /// Maximum bytes of trace per second that the drain may take from each core's ring in drop
    /// mode (`drain`); 0: no limit.
    pub drain: u64,
    /// What happens when a ring is full (`mode`).
    pub mode: OnFull,
    /// Maximum bytes queued on the host side in stall mode, all cores together (`limit`).
    pub limit: u64,
    /// RET compression (`retcomp`).
    pub return_compression: bool,
    /// Rule of the emulated return stack (`pop`).
    pub pop: Pop,
    /// Distance between PSB packets in bytes (`psb`).
    pub psb: u64,
    /// Timing packets (`timing`).
    pub timing: Timing,
    /// `MTCFreq` (`mtcfreq`): one MTC every `2^n` ticks of the core crystal clock.
    pub mtc_freq: u8,
    /// Core:bus ratio that CBR packets state. It is the ratio of the TSC, because one emulated
    /// cycle is one tick of the TSC. Not an argument.
    pub cbr: u8,
    /// The TSC's frequency in kHz; 0 while it is unknown.
    pub tsc_khz: u64,
    /// Branches in a full TNT packet: 6 (`tnt=short`) or 47 (`tnt=long`).
    pub tnt_bits: u32,
    /// Inject an interrupt before every n-th block (`irq`); 0: never.
    pub irq: u64,
    /// Inject an interrupt inside every n-th block (`irqmid`); 0: never.
    pub irq_inside: u64,
    /// Inject an internal overflow every n bytes of trace (`ovf`); 0: never.
    pub overflow: u64,
    /// Blocks that an injected overflow swallows (`ovflen`).
    pub overflow_blocks: u64,
    /// Trace this range from the start (`lo`, `hi`) instead of waiting for the VM to set one;
    /// for tests.
    pub range: Option<(u64, u64)>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            shm: PathBuf::new(),
            log: None,
            truth: None,
            cores: 2,
            aux: 4 << 20,
            data: 256 << 10,
            quantum: 100_000,
            slice: 10,
            seed: 1,
            drain: 0,
            mode: OnFull::Stall,
            limit: 2 << 30,
            return_compression: false,
            pop: Pop::Always,
            psb: 4096,
            timing: Timing::Mtc,
            mtc_freq: 5,
            cbr: 30,
            tsc_khz: 0,
            tnt_bits: 6,
            irq: 0,
            irq_inside: 0,
            overflow: 0,
            overflow_blocks: 2000,
            range: None,
        }
    }
}

const KNOWN: &str = "shm log truth cores aux drain data quantum slice seed mode limit retcomp pop psb timing mtcfreq tnt irq irqmid ovf ovflen lo hi";

impl Config {
    /// Reads `key=value` arguments. Sizes take the suffixes `k`, `m`, `g`; numbers may be
    /// hexadecimal.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Config, Error> {
        let mut c = Config::default();
        let (mut lo, mut hi) = (0, 0);
        for argument in arguments {
            let (key, value) = argument.split_once('=').ok_or_else(|| unknown(argument))?;
            match key {
                "lo" => lo = number(key, value)?,
                "hi" => hi = number(key, value)?,
                _ => c.set(key, value)?,
            }
        }
        if hi > lo {
            c.range = Some((lo, hi));
        }
        if c.shm.as_os_str().is_empty() {
            return Err(Error::NoSharedMemory);
        }
        Ok(c)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        match key {
            "shm" => self.shm = value.into(),
            "log" => self.log = Some(value.into()),
            "truth" => self.truth = Some(value.into()),
            "cores" => self.cores = within(key, value, 1, 256)? as u32,
            "aux" => self.aux = ring_size(key, value)?,
            "drain" => self.drain = number(key, value)?,
            "data" => self.data = ring_size(key, value)?,
            "quantum" => self.quantum = number(key, value)?,
            "slice" => self.slice = within(key, value, 0, 100_000)?,
            "seed" => self.seed = number(key, value)?,
            "limit" => self.limit = number(key, value)?,
            "psb" => self.psb = psb_distance(key, value)?,
            "mtcfreq" => self.mtc_freq = within(key, value, 0, 15)? as u8,
            "irq" => self.irq = number(key, value)?,
            "irqmid" => self.irq_inside = number(key, value)?,
            "ovf" => self.overflow = number(key, value)?,
            "ovflen" => self.overflow_blocks = within(key, value, 1, u64::MAX)?,
            "retcomp" => self.return_compression = choice(key, value, &[("0", false), ("1", true)])?,
            "mode" => self.mode = choice(key, value, &[("stall", OnFull::Stall), ("drop", OnFull::Drop)])?,
            "pop" => {
                self.pop = choice(key, value, &[("always", Pop::Always), ("compressed", Pop::Compressed)])?;
            }
            "timing" => {
                let all = [("tsc", Timing::Tsc), ("mtc", Timing::Mtc), ("cyc", Timing::Cyc)];
                self.timing = choice(key, value, &all)?;
            }
            "tnt" => self.tnt_bits = choice(key, value, &[("short", 6), ("long", 47)])?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }
}

fn unknown(argument: &str) -> Error {
    Error::UnknownArgument { argument: argument.into(), known: KNOWN.into() }
}

fn bad(key: &str, value: &str, expected: impl Into<String>) -> Error {
    Error::BadValue { key: key.into(), value: value.into(), expected: expected.into() }
}

fn number(key: &str, value: &str) -> Result<u64, Error> {
    let (digits, shift) = match value.as_bytes().last() {
        _ if value.starts_with("0x") => (value, 0),
        Some(b'k' | b'K') => (&value[..value.len() - 1], 10),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 20),
        Some(b'g' | b'G') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let plain = parsed.map_err(|_| bad(key, value, "expected a number, perhaps with suffix k, m or g"))?;
    plain.checked_mul(1 << shift).ok_or_else(|| bad(key, value, "number too large"))
}

fn within(key: &str, value: &str, least: u64, most: u64) -> Result<u64, Error> {
    let n = number(key, value)?;
    if (least..=most).contains(&n) {
        Ok(n)
    } else {
        Err(bad(key, value, format!("expected {least} to {most}")))
    }
}

/// Ring sizes are powers of two as in `perf_event_open(2)`.
fn ring_size(key: &str, value: &str) -> Result<u64, Error> {
    let n = within(key, value, 8192, 1 << 40)?;
    if n.is_power_of_two() { Ok(n) } else { Err(bad(key, value, "expected a power of two")) }
}

/// `PSBFreq` encodes powers of two from 2 KiB to 64 MiB.
fn psb_distance(key: &str, value: &str) -> Result<u64, Error> {
    let n = within(key, value, 2048, 64 << 20)?;
    if n.is_power_of_two() { Ok(n) } else { Err(bad(key, value, "expected a power of two")) }
}

fn choice<T: Copy>(key: &str, value: &str, all: &[(&str, T)]) -> Result<T, Error> {
    all.iter().find(|(name, _)| *name == value).map(|&(_, v)| v).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&(name, _)| name).collect();
        bad(key, value, format!("expected one of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything() {
        let c = Config::parse([
            "shm=/tmp/x",
            "log=l",
            "truth=t",
            "cores=3",
            "aux=64k",
            "drain=1m",
            "data=8192",
            "quantum=0x10",
            "slice=7",
            "seed=9",
            "mode=drop",
            "limit=1g",
            "retcomp=1",
            "pop=compressed",
            "psb=2k",
            "timing=cyc",
            "mtcfreq=3",
            "tnt=long",
            "irq=5",
            "irqmid=6",
            "ovf=7",
            "ovflen=8",
            "lo=0x1000",
            "hi=0x2000",
        ])
        .unwrap();
        let want = Config {
            shm: "/tmp/x".into(),
            log: Some("l".into()),
            truth: Some("t".into()),
            cores: 3,
            aux: 65536,
            data: 8192,
            quantum: 16,
            slice: 7,
            seed: 9,
            drain: 1 << 20,
            mode: OnFull::Drop,
            limit: 1 << 30,
            return_compression: true,
            pop: Pop::Compressed,
            psb: 2048,
            timing: Timing::Cyc,
            mtc_freq: 3,
            cbr: 30,
            tsc_khz: 0,
            tnt_bits: 47,
            irq: 5,
            irq_inside: 6,
            overflow: 7,
            overflow_blocks: 8,
            range: Some((0x1000, 0x2000)),
        };
        assert_eq!(c, want);
    }

    #[test]
    fn refusals_name_the_argument() {
        for (arguments, part) in [
            (vec!["cores=3"], "shm=PATH is missing"),
            (vec!["shm=x", "cores=0"], "cores=0: expected 1 to 256"),
            (vec!["shm=x", "aux=3000"], "aux=3000"),
            (vec!["shm=x", "aux=12288"], "power of two"),
            (vec!["shm=x", "mode=lose"], "mode=lose: expected one of stall, drop"),
            (vec!["shm=x", "psb=many"], "psb=many: expected a number"),
            (vec!["shm=x", "limit=99999999999g"], "limit=99999999999g"),
            (vec!["shm=x", "colour=red"], "\"colour\""),
            (vec!["shm"], "\"shm\""),
        ] {
            let text = Config::parse(arguments.iter().copied()).unwrap_err().to_string();
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
    }
}
