// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The shared file of an emulated PT unit.
//!
//! The unit creates the file. The launcher passes its path to the traced program in the
//! environment ([`ENVIRONMENT`]). The VM maps the file and finds in it what it would otherwise
//! get from the kernel: per core a control page, a data ring and an AUX ring ([`crate::ring`]).
//! Instead of an `ioctl` it writes a word of the [header](Header).
//!
//! | file offset              | content                                                        |
//! |--------------------------|----------------------------------------------------------------|
//! | 0                        | [`Header`], one page                                           |
//! | 4096 + core × stride     | control page (`perf_event_mmap_page`), data ring, AUX ring     |
//!
//! **Commands** (VM → unit). The VM writes the filter while the unit is disabled. Then it
//! changes `enabled` and increments `generation` (release). The unit polls `generation`
//! (acquire), also when no traced code runs. When `generation` has changed, the unit reads
//! `enabled` and the filter. After a disable it ends every core's trace (packets, AUX record,
//! `aux_head`), waits until the trace that it queued has been drained, and stores the
//! generation in `acknowledged`.
//!
//! **Records** are the kernel's. `aux_head` moves and an AUX record is written when a thread
//! leaves a core, at a disable, and when a quarter of the AUX ring is pending. So the bytes of
//! an AUX record belong to one thread: that of its trailer. `PERF_RECORD_SWITCH` records
//! enclose each thread's stay on a core, and their trailers hold the TSC. In `drop` mode, bytes
//! for which there is no room are lost: the AUX record before the loss carries `TRUNCATED`, and
//! the trace resumes with a PSB+. One record exists only for the unit:
//! [`crate::record::STALE_BLOCK`].
//!
//! **Overwriting.** If the command says so, new bytes overwrite the oldest bytes of the AUX
//! rings, as in the kernel's rings that are mapped read-only. `aux_head` is then an offset
//! inside the ring, valid after a disable. An AUX record is written whenever a thread leaves
//! the core; it contains that offset, the size of the ring and `OVERWRITE`. Tails have no
//! meaning.

use crate::Error;
use crate::layout::PAGE_SIZE;
use crate::memory::{self, Block};
use crate::ring::{CoreConsumer, CoreMemory, CoreProducer, check_size};
use std::fs::OpenOptions;
use std::mem::offset_of;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// Environment variable with the path of the shared file.
pub const ENVIRONMENT: &str = "JPORTAL_EMULATED_PT";
/// First word of the file: `JPTUNIT1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"JPTUNIT1");
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Largest number of cores.
pub const MAX_CORES: u32 = 1024;

/// Maximum length in bytes of a text in the header.
pub const TEXT_BYTES: usize = 1024;

/// What the unit does when an AUX ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing is lost: the unit queues until the ring has been drained.
    #[default]
    Stall,
    /// Trace is lost as on hardware.
    Drop,
}

/// Which packets the unit emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketConfig {
    /// Returns are compressed (`DisRETC` clear).
    pub ret_compression: bool,
    /// MTC packets every `2^n` crystal ticks.
    pub mtc_period: Option<u8>,
    /// CYC packets with this threshold exponent.
    pub cyc_threshold: Option<u8>,
    /// PSB every `2^(n + 11)` bytes.
    pub psb_period: u8,
    /// What an uncompressed return does to the return stack.
    pub return_pop: ReturnPop,
}

/// What a near return that is not compressed does to the return stack (the sources disagree).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReturnPop {
    /// Every near return pops (SDM, perf).
    #[default]
    Always,
    /// Only a compressed return pops (libipt).
    CompressedOnly,
}

/// The processor that the unit claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// Display family.
    pub family: u16,
    /// Display model.
    pub model: u8,
    /// Stepping.
    pub stepping: u8,
}

/// Everything that is fixed when the unit is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitConfig {
    /// Virtual cores.
    pub cores: u32,
    /// Bytes of each data ring, a power of two.
    pub data_bytes: u64,
    /// Bytes of each AUX ring, a power of two.
    pub aux_bytes: u64,
    /// TSC frequency.
    pub tsc_khz: u64,
    /// TSC ticks per crystal tick as (numerator, denominator): CPUID leaf 15H, EBX and EAX.
    /// Both are 0 if the ratio is unknown.
    pub tsc_ctc: (u32, u32),
    /// Packets.
    pub packets: PacketConfig,
    /// Loss behaviour.
    pub mode: Mode,
    /// Processor.
    pub cpu: Cpu,
}

impl Default for UnitConfig {
    fn default() -> Self {
        Self {
            cores: 2,
            data_bytes: 256 << 10,
            aux_bytes: 4 << 20,
            tsc_khz: 0,
            tsc_ctc: (0, 0),
            packets: PacketConfig { psb_period: 3, ..PacketConfig::default() },
            mode: Mode::Stall,
            cpu: Cpu { family: 6, model: 0x55, stepping: 4 },
        }
    }
}

/// A command of the VM ([`EmulatedUnit::command`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Changes with every command; 0 before the first.
    pub generation: u64,
    /// Whether the unit traces.
    pub enabled: bool,
    /// First address of the filter.
    pub low: u64,
    /// First address after the filter.
    pub high: u64,
    /// Whether new bytes overwrite the oldest bytes of the AUX rings, whatever their tails.
    pub overwrite: bool,
}

/// What the unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Trace bytes written to AUX rings.
    TraceBytes,
    /// Trace bytes lost (drop mode).
    LostBytes,
    /// Losses (each has a TRUNCATED record).
    Losses,
    /// Context switches onto a core.
    Switches,
    /// Executed blocks inside the filter.
    Blocks,
    /// Transitions between blocks that no outcome explains; 0 in a correct run.
    Anomalies,
    /// Maximum of the bytes that waited outside the rings at one time (stall mode).
    PeakQueue,
    /// Data records that were dropped because a data ring was full.
    LostRecords,
}

impl Counter {
    /// All, with the names `jportal info` shows.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::TraceBytes, "trace_bytes"),
        (Self::LostBytes, "lost_bytes"),
        (Self::Losses, "losses"),
        (Self::Switches, "switches"),
        (Self::Blocks, "blocks"),
        (Self::Anomalies, "anomalies"),
        (Self::PeakQueue, "peak_queue"),
        (Self::LostRecords, "lost_records"),
    ];
}

/// The first page of the shared file. All fields are atomics, because both sides access them at
/// the same time.
#[repr(C)]
pub struct Header {
    // Fixed at creation; `magic` is stored last.
    magic: AtomicU64,
    version: AtomicU32,
    cores: AtomicU32,
    data_bytes: AtomicU64,
    aux_bytes: AtomicU64,
    stride: AtomicU64,
    tsc_khz: AtomicU64,
    tsc_ctc_numerator: AtomicU32,
    tsc_ctc_denominator: AtomicU32,
    /// Bit 0: return compression; bit 1: MTC; bit 2: CYC; bit 3: only compressed returns pop.
    packet_flags: AtomicU32,
    mtc_period: AtomicU32,
    cyc_threshold: AtomicU32,
    psb_period: AtomicU32,
    mode: AtomicU32,
    cpu_family: AtomicU32,
    cpu_model: AtomicU32,
    cpu_stepping: AtomicU32,
    /// Process of the unit, which is also the traced process.
    owner: AtomicU32,
    detail_len: AtomicU32,
    reserved: [AtomicU64; 20],
    // VM to unit.
    generation: AtomicU64,
    enabled: AtomicU32,
    /// 1 after the VM has read everything it will ever read.
    finished: AtomicU32,
    filter_low: AtomicU64,
    filter_high: AtomicU64,
    overwrite: AtomicU32,
    reserved_vm_word: AtomicU32,
    reserved_vm: [AtomicU64; 27],
    // Unit to VM.
    acknowledged: AtomicU64,
    error: AtomicU32,
    message_len: AtomicU32,
    counters: [AtomicU64; 16],
    /// Everything that any core recorded before this TSC is in its rings.
    complete: AtomicU64,
    message: Text,
    detail: Text,
}

type Text = [AtomicU64; TEXT_BYTES / 8];

const _: () = {
    assert!(size_of::<Header>() <= PAGE_SIZE);
    assert!(offset_of!(Header, generation) == 256 && offset_of!(Header, acknowledged) == 512);
};

/// The shared file, opened by either side.
#[derive(Debug)]
pub struct EmulatedUnit {
    block: Block,
    config: UnitConfig,
    path: PathBuf,
}

impl EmulatedUnit {
    /// Creates the file (mode 0600, replacing an old one) and fills in the constant parts. For
    /// the unit's side.
    ///
    /// # Errors
    /// When the configuration is invalid or the file cannot be created.
    pub fn create(path: &Path, config: UnitConfig) -> Result<Self, Error> {
        let stride = stride(&config)?;
        let len = PAGE_SIZE as u64 + stride * u64::from(config.cores);
        let io = |action: &'static str| move |source| Error::Io { action, path: path.into(), source };
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io("replace")(e)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(io("create"))?;
        memory::allocate(&file, len).map_err(io("allocate"))?;
        let unit = Self { block: Block::map(&file, 0, len as usize, path)?, config, path: path.into() };
        unit.fill_header(stride);
        for core in 0..config.cores {
            unit.core(core)?.initialize();
        }
        unit.header().magic.store(MAGIC, Release);
        Ok(unit)
    }

    /// Opens the file of a unit. For the VM's side.
    ///
    /// # Errors
    /// When the file does not exist, is not of this version, or has sizes that contradict each
    /// other.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |action: &'static str| move |source| Error::Io { action, path: path.into(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io("open"))?;
        let len = file.metadata().map_err(io("stat"))?.len();
        let field = "file length";
        let too_short =
            Error::Configuration { field, value: len, rule: "a header page and the cores' rings" };
        if len < PAGE_SIZE as u64 {
            return Err(too_short);
        }
        let len_here = usize::try_from(len).unwrap_or(usize::MAX);
        let block = Block::map(&file, 0, len_here, path)?;
        let mut unit = Self { block, config: UnitConfig::default(), path: path.into() };
        unit.check_identity()?;
        unit.config = unit.read_config();
        let needed = PAGE_SIZE as u64 + stride(&unit.config)? * u64::from(unit.config.cores);
        if needed > len || unit.header().stride.load(Relaxed) != stride(&unit.config)? {
            return Err(too_short);
        }
        Ok(unit)
    }

    /// The configuration with which the unit was created.
    pub fn config(&self) -> &UnitConfig {
        &self.config
    }

    /// The traced process, which is the one that created the file. A child process inherits the
    /// environment and must not take the unit of its parent for its own.
    pub fn owner(&self) -> u32 {
        self.header().owner.load(Relaxed)
    }

    /// The unit's settings in words, for the capture.
    pub fn detail(&self) -> String {
        get_text(&self.header().detail, &self.header().detail_len)
    }

    /// Path of the shared file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One core's rings.
    ///
    /// # Errors
    /// When there is no such core.
    pub fn core(&self, core: u32) -> Result<CoreMemory, Error> {
        let missing = || Error::NoSuchCore { core, cores: self.config.cores };
        if core >= self.config.cores {
            return Err(missing());
        }
        let (data, aux) = (self.config.data_bytes as usize, self.config.aux_bytes as usize);
        let page = PAGE_SIZE + core as usize * (PAGE_SIZE + data + aux);
        let part = |offset, len| self.block.part(offset, len).ok_or_else(missing);
        CoreMemory::new(
            part(page, PAGE_SIZE)?,
            part(page + PAGE_SIZE, data)?,
            part(page + PAGE_SIZE + data, aux)?,
        )
    }

    fn header(&self) -> &Header {
        self.block.header()
    }

    fn fill_header(&self, stride: u64) {
        let (h, c) = (self.header(), &self.config);
        let p = &c.packets;
        let flag = |set: bool, bit: u32| u32::from(set) << bit;
        let flags = flag(p.ret_compression, 0)
            | flag(p.mtc_period.is_some(), 1)
            | flag(p.cyc_threshold.is_some(), 2)
            | flag(p.return_pop == ReturnPop::CompressedOnly, 3);
        for (field, value) in [
            (&h.version, VERSION),
            (&h.owner, std::process::id()),
            (&h.cores, c.cores),
            (&h.tsc_ctc_numerator, c.tsc_ctc.0),
            (&h.tsc_ctc_denominator, c.tsc_ctc.1),
            (&h.packet_flags, flags),
            (&h.mtc_period, p.mtc_period.unwrap_or(0).into()),
            (&h.cyc_threshold, p.cyc_threshold.unwrap_or(0).into()),
            (&h.psb_period, p.psb_period.into()),
            (&h.mode, matches!(c.mode, Mode::Drop).into()),
            (&h.cpu_family, c.cpu.family.into()),
            (&h.cpu_model, c.cpu.model.into()),
            (&h.cpu_stepping, c.cpu.stepping.into()),
        ] {
            field.store(value, Relaxed);
        }
        for (field, value) in [
            (&h.data_bytes, c.data_bytes),
            (&h.aux_bytes, c.aux_bytes),
            (&h.stride, stride),
            (&h.tsc_khz, c.tsc_khz),
        ] {
            field.store(value, Relaxed);
        }
    }

    fn check_identity(&self) -> Result<(), Error> {
        let found = self.header().magic.load(Acquire);
        if found != MAGIC {
            return Err(Error::Magic { path: self.path.clone(), found, expected: MAGIC });
        }
        let found = self.header().version.load(Relaxed);
        if found != VERSION {
            return Err(Error::Version { path: self.path.clone(), found, expected: VERSION });
        }
        Ok(())
    }

    fn read_config(&self) -> UnitConfig {
        let h = self.header();
        let flags = h.packet_flags.load(Relaxed);
        let byte = |word: &AtomicU32| word.load(Relaxed) as u8;
        UnitConfig {
            cores: h.cores.load(Relaxed),
            data_bytes: h.data_bytes.load(Relaxed),
            aux_bytes: h.aux_bytes.load(Relaxed),
            tsc_khz: h.tsc_khz.load(Relaxed),
            tsc_ctc: (h.tsc_ctc_numerator.load(Relaxed), h.tsc_ctc_denominator.load(Relaxed)),
            packets: PacketConfig {
                ret_compression: flags & 1 != 0,
                mtc_period: (flags & 2 != 0).then(|| byte(&h.mtc_period)),
                cyc_threshold: (flags & 4 != 0).then(|| byte(&h.cyc_threshold)),
                psb_period: byte(&h.psb_period),
                return_pop: if flags & 8 == 0 { ReturnPop::Always } else { ReturnPop::CompressedOnly },
            },
            mode: if h.mode.load(Relaxed) == 0 { Mode::Stall } else { Mode::Drop },
            cpu: Cpu {
                family: h.cpu_family.load(Relaxed) as u16,
                model: byte(&h.cpu_model),
                stepping: byte(&h.cpu_stepping),
            },
        }
    }
}

/// Unit side.
impl EmulatedUnit {
    /// The producing half of a core, for process `pid`. At most one may be in use per core.
    ///
    /// # Errors
    /// When there is no such core.
    pub fn producer(&self, core: u32, pid: u32) -> Result<CoreProducer, Error> {
        Ok(self.core(core)?.producer(pid, core))
    }

    /// The number of the last command. The unit compares it with that of the command that it
    /// handled last.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.header().generation.load(Acquire)
    }

    /// The last command.
    pub fn command(&self) -> Command {
        let h = self.header();
        loop {
            let generation = h.generation.load(Acquire);
            let enabled = h.enabled.load(Acquire) != 0;
            let (low, high) = (h.filter_low.load(Acquire), h.filter_high.load(Acquire));
            let overwrite = h.overwrite.load(Acquire) != 0;
            if h.generation.load(Acquire) == generation {
                return Command { generation, enabled, low, high, overwrite };
            }
        }
    }

    /// Reports that everything up to command `generation` has been carried out and that, after
    /// a disable, all trace is in the rings.
    pub fn acknowledge(&self, generation: u64) {
        self.header().acknowledged.store(generation, Release);
    }

    /// Reports to the VM why the unit cannot continue. Only the first message is kept.
    pub fn fail(&self, message: &str) {
        let h = self.header();
        if h.error.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
            return;
        }
        put_text(&h.message, &h.message_len, message);
        h.error.store(2, Release);
    }

    /// Stores the settings in words for the capture (cut at [`TEXT_BYTES`]). Call it right
    /// after `create`.
    pub fn set_detail(&self, text: &str) {
        put_text(&self.header().detail, &self.header().detail_len, text);
    }

    /// Sets a counter.
    pub fn set_counter(&self, counter: Counter, value: u64) {
        self.header().counters[counter as usize].store(value, Relaxed);
    }

    /// Reports that everything that any core recorded, or will record, before `tsc` is in its
    /// rings.
    pub fn set_complete_until(&self, tsc: u64) {
        self.header().complete.store(tsc, Release);
    }

    /// Whether the VM has read everything it will ever read.
    pub fn is_finished(&self) -> bool {
        self.header().finished.load(Acquire) != 0
    }
}

/// VM side.
impl EmulatedUnit {
    /// The consuming half of a core. At most one may be in use per core.
    ///
    /// # Errors
    /// When there is no such core.
    pub fn consumer(&self, core: u32) -> Result<CoreConsumer, Error> {
        Ok(self.core(core)?.consumer())
    }

    /// Sets whether new bytes overwrite the oldest bytes of the AUX rings from the next enable
    /// on. The kernel does so for a read-only mapping.
    pub fn set_overwrite(&self, overwrite: bool) {
        self.header().overwrite.store(overwrite.into(), Release);
    }

    /// Traces `low..high` from now on. Returns the command's generation.
    pub fn enable(&self, low: u64, high: u64) -> u64 {
        let h = self.header();
        h.filter_low.store(low, Relaxed);
        h.filter_high.store(high, Relaxed);
        h.finished.store(0, Relaxed);
        h.enabled.store(1, Release);
        h.generation.fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// Stops tracing. Returns the command's generation. The caller must continue to drain until
    /// it is acknowledged.
    pub fn disable(&self) -> u64 {
        let h = self.header();
        h.enabled.store(0, Release);
        h.generation.fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// The last command that was carried out.
    pub fn acknowledged(&self) -> u64 {
        self.header().acknowledged.load(Acquire)
    }

    /// Calls `work` until command `generation` is acknowledged, the unit fails or `patience` is
    /// over. Returns whether it was acknowledged.
    pub fn wait_for(&self, generation: u64, patience: Duration, mut work: impl FnMut()) -> bool {
        let start = Instant::now();
        loop {
            let done = self.acknowledged() >= generation;
            work();
            if done || self.failure().is_some() || start.elapsed() > patience {
                return done;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Why the unit stopped, if it did.
    pub fn failure(&self) -> Option<String> {
        let h = self.header();
        if h.error.load(Acquire) < 2 {
            return None;
        }
        Some(get_text(&h.message, &h.message_len))
    }

    /// Reads a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.header().counters[counter as usize].load(Relaxed)
    }

    /// Everything that any core recorded before this TSC is in its rings.
    pub fn complete_until(&self) -> u64 {
        self.header().complete.load(Acquire)
    }

    /// Reports to the unit that nothing more will be read.
    pub fn finish(&self) {
        self.header().finished.store(1, Release);
    }
}

fn put_text(to: &Text, len: &AtomicU32, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(TEXT_BYTES)];
    for (word, chunk) in to.iter().zip(bytes.chunks(8)) {
        let mut le = [0; 8];
        le[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(le), Relaxed);
    }
    len.store(bytes.len() as u32, Release);
}

fn get_text(from: &Text, len: &AtomicU32) -> String {
    let len = (len.load(Acquire) as usize).min(TEXT_BYTES);
    let bytes: Vec<u8> = from.iter().flat_map(|w| w.load(Relaxed).to_le_bytes()).take(len).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bytes from one core's control page to the next one's.
fn stride(config: &UnitConfig) -> Result<u64, Error> {
    if config.cores == 0 || config.cores > MAX_CORES {
        return Err(Error::Configuration { field: "cores", value: config.cores.into(), rule: "1 to 1024" });
    }
    for (field, bytes) in [("data ring bytes", config.data_bytes), ("AUX ring bytes", config.aux_bytes)] {
        if bytes > 1 << 32 {
            return Err(Error::Configuration { field, value: bytes, rule: "at most 4 GiB" });
        }
        check_size(field, bytes as usize, PAGE_SIZE)?;
    }
    Ok(PAGE_SIZE as u64 + config.data_bytes + config.aux_bytes)
}

#[cfg(test)]
#[path = "emulated_tests.rs"]
mod tests;
