// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Records of a data ring (`enum perf_event_type`), each followed by the `sample_id`
//! trailer of [`SAMPLE_TYPE`].

use crate::Error;
use crate::bindings as abi;
pub use crate::layout::SAMPLE_TYPE;

/// Bytes of a record header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of the trailer for [`SAMPLE_TYPE`].
pub const SAMPLE_ID_BYTES: usize = 32;

/// Type of the only record that is not the kernel's (whose types are small numbers). Fields:
/// `offset` u64, `address` u64, `len` u64, `len` bytes.
///
/// QEMU executes a translated block to its end. If a thread had to wait for a core after it had
/// begun a block, and the code of the block changed meanwhile, the old code executes. No
/// processor would do that, so the unit reports it with this record.
pub const STALE_BLOCK: u32 = u32::from_le_bytes(*b"\x01\x00PJ");

/// Bits of [`Body::Aux`]'s `flags`.
pub mod aux_flags {
    use crate::bindings as abi;
    /// Trace was lost before the end of these bytes or directly after them.
    pub const TRUNCATED: u64 = abi::PERF_AUX_FLAG_TRUNCATED as u64;
    /// Snapshot mode.
    pub const OVERWRITE: u64 = abi::PERF_AUX_FLAG_OVERWRITE as u64;
    /// The trace has gaps (VMX).
    pub const PARTIAL: u64 = abi::PERF_AUX_FLAG_PARTIAL as u64;
}

/// The fields of one type of record between header and trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// `perf_event_type`.
    pub kind: u32,
    /// Its name.
    pub name: &'static str,
    /// Name and size in bytes of each field, in order. A name or raw bytes may follow.
    pub fields: &'static [(&'static str, usize)],
}

/// Every type of record that [`Body`] knows.
pub const LAYOUTS: &[Layout] = &[
    layout(abi::PERF_RECORD_LOST, "LOST", &[("id", 8), ("lost", 8)]),
    layout(abi::PERF_RECORD_COMM, "COMM", &[("pid", 4), ("tid", 4)]),
    layout(abi::PERF_RECORD_EXIT, "EXIT", TASK),
    layout(abi::PERF_RECORD_FORK, "FORK", TASK),
    layout(
        abi::PERF_RECORD_MMAP2,
        "MMAP2",
        &[
            ("pid", 4),
            ("tid", 4),
            ("address", 8),
            ("len", 8),
            ("file_offset", 8),
            ("major", 4),
            ("minor", 4),
            ("inode", 8),
            ("generation", 8),
            ("protection", 4),
            ("flags", 4),
        ],
    ),
    layout(abi::PERF_RECORD_AUX, "AUX", &[("offset", 8), ("size", 8), ("flags", 8)]),
    layout(abi::PERF_RECORD_ITRACE_START, "ITRACE_START", &[("pid", 4), ("tid", 4)]),
    layout(abi::PERF_RECORD_SWITCH, "SWITCH", &[]),
    layout(abi::PERF_RECORD_SWITCH_CPU_WIDE, "SWITCH_CPU_WIDE", &[("pid", 4), ("tid", 4)]),
    layout(STALE_BLOCK, "STALE_BLOCK", &[("offset", 8), ("address", 8), ("len", 8)]),
];
/// The fields of the `sample_id` trailer, as in [`Layout::fields`].
pub const TRAILER: &[(&str, usize)] =
    &[("pid", 4), ("tid", 4), ("time", 8), ("cpu", 4), ("reserved", 4), ("id", 8)];

const TASK: &[(&str, usize)] = &[("pid", 4), ("parent_pid", 4), ("tid", 4), ("parent_tid", 4), ("time", 8)];

const fn layout(kind: u32, name: &'static str, fields: &'static [(&'static str, usize)]) -> Layout {
    Layout { kind, name, fields }
}

/// Where and when a record was written: the `sample_id` trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleId {
    /// Process.
    pub pid: u32,
    /// Thread; for an AUX record the thread that all its bytes belong to.
    pub tid: u32,
    /// perf's own clock if the kernel wrote the record; the TSC in a capture and from an
    /// emulated unit.
    pub time: u64,
    /// Core.
    pub cpu: u32,
    /// Event id.
    pub id: u64,
}

/// A process or thread that began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Parent process.
    pub parent_pid: u32,
    /// Thread.
    pub tid: u32,
    /// Parent thread.
    pub parent_tid: u32,
    /// Time of the event, in the clock of [`SampleId::time`].
    pub time: u64,
}

/// A new mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Major, minor, inode and generation, or a build id if `misc` has bit 14: the bytes as the
    /// kernel wrote them.
    pub identity: [u8; 24],
    /// `PROT_*`.
    pub protection: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// `misc` of the header.
    pub misc: u16,
    /// Path, or a name such as `//anon`.
    pub name: Vec<u8>,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// `PERF_RECORD_LOST`: records dropped because the data ring was full.
    Lost {
        /// Event.
        id: u64,
        /// Number of records.
        lost: u64,
    },
    /// `PERF_RECORD_COMM`.
    Comm {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Whether `execve` set the name.
        exec: bool,
        /// Name.
        name: Vec<u8>,
    },
    /// `PERF_RECORD_EXIT`.
    Exit(Task),
    /// `PERF_RECORD_FORK`.
    Fork(Task),
    /// `PERF_RECORD_MMAP2`.
    Mmap2(Mapping),
    /// `PERF_RECORD_AUX`: bytes `offset..offset + size` of the AUX stream are available.
    Aux {
        /// Position in the stream (not masked).
        offset: u64,
        /// Bytes.
        size: u64,
        /// [`aux_flags`].
        flags: u64,
    },
    /// `PERF_RECORD_ITRACE_START`.
    ItraceStart {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// `PERF_RECORD_SWITCH`: the thread of the trailer left or entered the core of the trailer.
    Switch {
        /// Whether the thread left; otherwise it entered.
        out: bool,
        /// Whether the thread was still runnable when it left.
        preempted: bool,
    },
    /// `PERF_RECORD_SWITCH_CPU_WIDE`.
    SwitchCpuWide {
        /// Whether the thread left; otherwise it entered.
        out: bool,
        /// Whether the thread was still runnable when it left.
        preempted: bool,
        /// Process of the other thread of the switch.
        pid: u32,
        /// The other thread of the switch.
        tid: u32,
    },
    /// [`STALE_BLOCK`], from an emulated unit only: after `offset`, the first block that begins
    /// at `address` by a TIP.PGE executed bytes that were older than its time.
    StaleBlock {
        /// Position in the stream (not masked).
        offset: u64,
        /// First instruction.
        address: u64,
        /// The bytes that ran.
        bytes: Vec<u8>,
    },
    /// Any other type, kept as it is.
    Unknown {
        /// `perf_event_type`.
        kind: u32,
        /// `misc` of the header.
        misc: u16,
        /// Bytes between header and trailer.
        bytes: Vec<u8>,
    },
}

/// A record with its trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The content.
    pub body: Body,
    /// Where and when.
    pub sample: SampleId,
}

const SWITCH_OUT: u16 = abi::PERF_RECORD_MISC_SWITCH_OUT as u16;
const SWITCH_PREEMPT: u16 = abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT as u16;
const COMM_EXEC: u16 = abi::PERF_RECORD_MISC_COMM_EXEC as u16;

impl Body {
    fn kind(&self) -> u32 {
        match self {
            Self::Lost { .. } => abi::PERF_RECORD_LOST,
            Self::Comm { .. } => abi::PERF_RECORD_COMM,
            Self::Exit(_) => abi::PERF_RECORD_EXIT,
            Self::Fork(_) => abi::PERF_RECORD_FORK,
            Self::Mmap2(_) => abi::PERF_RECORD_MMAP2,
            Self::Aux { .. } => abi::PERF_RECORD_AUX,
            Self::ItraceStart { .. } => abi::PERF_RECORD_ITRACE_START,
            Self::Switch { .. } => abi::PERF_RECORD_SWITCH,
            Self::SwitchCpuWide { .. } => abi::PERF_RECORD_SWITCH_CPU_WIDE,
            Self::StaleBlock { .. } => STALE_BLOCK,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    fn misc(&self) -> u16 {
        let user = abi::PERF_RECORD_MISC_USER as u16;
        let bit = |set: bool, bit: u16| if set { bit } else { 0 };
        match self {
            Self::Switch { out, preempted } | Self::SwitchCpuWide { out, preempted, .. } => {
                bit(*out, SWITCH_OUT) | bit(*preempted, SWITCH_PREEMPT)
            }
            Self::Comm { exec, .. } => bit(*exec, COMM_EXEC),
            Self::Mmap2(m) => m.misc,
            Self::Unknown { misc, .. } => *misc,
            Self::Aux { .. } | Self::ItraceStart { .. } | Self::StaleBlock { .. } => user,
            Self::Lost { .. } | Self::Exit(_) | Self::Fork(_) => 0,
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Lost { id, lost } => put64(to, &[*id, *lost]),
            Self::Comm { pid, tid, name, .. } => {
                put32(to, &[*pid, *tid]);
                put_name(to, name);
            }
            Self::Exit(t) | Self::Fork(t) => {
                put32(to, &[t.pid, t.parent_pid, t.tid, t.parent_tid]);
                put64(to, &[t.time]);
            }
            Self::Mmap2(m) => {
                put32(to, &[m.pid, m.tid]);
                put64(to, &[m.address, m.len, m.file_offset]);
                to.extend_from_slice(&m.identity);
                put32(to, &[m.protection, m.flags]);
                put_name(to, &m.name);
            }
            Self::Aux { offset, size, flags } => put64(to, &[*offset, *size, *flags]),
            Self::ItraceStart { pid, tid } | Self::SwitchCpuWide { pid, tid, .. } => put32(to, &[*pid, *tid]),
            Self::Switch { .. } => {}
            Self::StaleBlock { offset, address, bytes } => {
                put64(to, &[*offset, *address, bytes.len() as u64]);
                to.extend_from_slice(bytes);
            }
            Self::Unknown { bytes, .. } => {
                to.extend_from_slice(bytes);
            }
        }
    }

    fn decode(kind: u32, misc: u16, body: &[u8]) -> Option<Self> {
        let mut f = Fields(body);
        Some(match kind {
            abi::PERF_RECORD_LOST => Self::Lost { id: f.u64()?, lost: f.u64()? },
            abi::PERF_RECORD_COMM => {
                Self::Comm { pid: f.u32()?, tid: f.u32()?, exec: misc & COMM_EXEC != 0, name: f.name() }
            }
            abi::PERF_RECORD_EXIT => Self::Exit(f.task()?),
            abi::PERF_RECORD_FORK => Self::Fork(f.task()?),
            abi::PERF_RECORD_MMAP2 => Self::Mmap2(Mapping {
                pid: f.u32()?,
                tid: f.u32()?,
                address: f.u64()?,
                len: f.u64()?,
                file_offset: f.u64()?,
                identity: f.array()?,
                protection: f.u32()?,
                flags: f.u32()?,
                misc,
                name: f.name(),
            }),
            abi::PERF_RECORD_AUX => Self::Aux { offset: f.u64()?, size: f.u64()?, flags: f.u64()? },
            abi::PERF_RECORD_ITRACE_START => Self::ItraceStart { pid: f.u32()?, tid: f.u32()? },
            abi::PERF_RECORD_SWITCH => {
                Self::Switch { out: misc & SWITCH_OUT != 0, preempted: misc & SWITCH_PREEMPT != 0 }
            }
            abi::PERF_RECORD_SWITCH_CPU_WIDE => Self::SwitchCpuWide {
                out: misc & SWITCH_OUT != 0,
                preempted: misc & SWITCH_PREEMPT != 0,
                pid: f.u32()?,
                tid: f.u32()?,
            },
            STALE_BLOCK => {
                let (offset, address, len) = (f.u64()?, f.u64()?, f.u64()?);
                let bytes = f.0.get(..usize::try_from(len).ok()?)?.to_vec();
                Self::StaleBlock { offset, address, bytes }
            }
            _ => Self::Unknown { kind, misc, bytes: body.to_vec() },
        })
    }
}

impl SampleId {
    fn encode(&self, to: &mut Vec<u8>) {
        put32(to, &[self.pid, self.tid]);
        put64(to, &[self.time]);
        put32(to, &[self.cpu, 0]);
        put64(to, &[self.id]);
    }

    fn decode(trailer: &[u8]) -> Option<Self> {
        let mut f = Fields(trailer);
        let (pid, tid, time, cpu) = (f.u32()?, f.u32()?, f.u64()?, f.u32()?);
        f.u32()?;
        Some(Self { pid, tid, time, cpu, id: f.u64()? })
    }
}

impl Record {
    /// Appends the record in the form that it has in a ring: header, body, trailer; a multiple
    /// of 8 bytes.
    ///
    /// A body that does not fit the header's 16-bit size (a name of 64 KiB) is cut.
    pub fn encode(&self, to: &mut Vec<u8>) {
        const LONGEST: usize = (u16::MAX as usize & !7) - SAMPLE_ID_BYTES;
        let start = to.len();
        put32(to, &[self.body.kind()]);
        to.extend_from_slice(&self.body.misc().to_le_bytes());
        to.extend_from_slice(&[0; 2]);
        self.body.encode(to);
        let padded = (to.len() - start).next_multiple_of(8).min(LONGEST);
        to.resize(start + padded, 0);
        self.sample.encode(to);
        let size = (to.len() - start) as u16;
        to[start + 6..start + 8].copy_from_slice(&size.to_le_bytes());
    }

    /// The record in a buffer of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        self.encode(&mut bytes);
        bytes
    }
}

/// Reads the records in a piece of a data ring.
///
/// Yields an error for a record that cannot be decoded and continues after it, unless its size
/// makes that impossible: then the error is the last item.
#[derive(Debug, Clone)]
pub struct RecordReader<'a> {
    bytes: &'a [u8],
    at: usize,
    broken: bool,
}

impl<'a> RecordReader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, broken: false }
    }

    /// Offset of the next record; after the last item, the number of bytes that could be read.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl Iterator for RecordReader<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|r| !r.is_empty() && !self.broken)?;
        let mut header = Fields(rest);
        let (Some(kind), Some(misc), Some(size)) = (header.u32(), header.u16(), header.u16()) else {
            self.broken = true;
            return Some(Err(Error::RecordSize { at, size: rest.len(), left: rest.len() }));
        };
        let size = usize::from(size);
        if size < HEADER_BYTES || size % 8 != 0 || size > rest.len() {
            self.broken = true;
            return Some(Err(Error::RecordSize { at, size, left: rest.len() }));
        }
        self.at += size;
        let record = (size - HEADER_BYTES).checked_sub(SAMPLE_ID_BYTES).and_then(|body| {
            let (body, trailer) = rest[HEADER_BYTES..size].split_at(body);
            Some(Record { body: Body::decode(kind, misc, body)?, sample: SampleId::decode(trailer)? })
        });
        Some(record.ok_or(Error::RecordBody { at, kind, size }))
    }
}

/// Replaces every time in a piece of a data ring: that of each trailer, and the one in the body
/// of FORK and EXIT. Stops at a record whose size is impossible, as [`RecordReader`] does.
pub fn map_times(records: &mut [u8], mut to: impl FnMut(u64) -> u64) {
    const SIZE_AT: usize = 6;
    const TIME_IN_TASK: usize = HEADER_BYTES + 16;
    const TIME_IN_TRAILER: usize = 8;
    let mut rest = records;
    while let Some(size) =
        rest.get(SIZE_AT..HEADER_BYTES).and_then(|s| Some(u16::from_le_bytes(s.try_into().ok()?)))
    {
        let size = usize::from(size);
        if size < HEADER_BYTES || size % 8 != 0 || size > rest.len() {
            return;
        }
        let (record, behind) = rest.split_at_mut(size);
        rest = behind;
        let kind = Fields(record).u32();
        let Some(trailer) =
            (size - HEADER_BYTES).checked_sub(SAMPLE_ID_BYTES).map(|body| HEADER_BYTES + body)
        else {
            continue;
        };
        let task = matches!(kind, Some(abi::PERF_RECORD_FORK | abi::PERF_RECORD_EXIT))
            && trailer >= TIME_IN_TASK + 8;
        for at in task.then_some(TIME_IN_TASK).into_iter().chain([trailer + TIME_IN_TRAILER]) {
            if let Some(time) = record.get_mut(at..at + 8) {
                let old = Fields(time).u64().unwrap_or_default();
                time.copy_from_slice(&to(old).to_le_bytes());
            }
        }
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    fn task(&mut self) -> Option<Task> {
        let (pid, parent_pid, tid, parent_tid) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        Some(Task { pid, parent_pid, tid, parent_tid, time: self.u64()? })
    }
    fn name(&mut self) -> Vec<u8> {
        self.0.split(|b| *b == 0).next().unwrap_or_default().to_vec()
    }
}

fn put32(to: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|v| to.extend_from_slice(&v.to_le_bytes()));
}
fn put64(to: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|v| to.extend_from_slice(&v.to_le_bytes()));
}
/// Appends a name with a NUL. The padding is that of the whole record.
fn put_name(to: &mut Vec<u8>, name: &[u8]) {
    to.extend_from_slice(name);
    to.push(0);
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
