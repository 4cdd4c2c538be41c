// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The framing of the file: preamble and chunk heads (see `FORMAT.md`).

use std::fmt;

use crate::codec::{CodecError, Source, Str, Wire};
pub use crate::lists::index_chunk;

/// First bytes of every capture.
pub const MAGIC: [u8; 8] = *b"JPORTAL\0";
/// Major version of the format. A reader refuses a file with a higher one.
pub const VERSION_MAJOR: u16 = 3;
/// Minor version of the format. Raised for additions that older readers may skip.
pub const VERSION_MINOR: u16 = 0;
/// Length of the preamble.
pub const PREAMBLE: usize = 16;
/// Length of a chunk head.
pub const HEAD: usize = 32;
/// First bytes of every chunk head.
pub const MARKER: [u8; 4] = *b"JPCH";
/// The longest payload a chunk may have.
pub const MAX_PAYLOAD: u32 = 64 << 20;
/// Payload length at which the writer splits a stream into chunks.
pub(crate) const SPLIT: usize = 4 << 20;
/// Number of chunks that the writer lists in one index chunk.
pub const LISTED: usize = 4096;
/// Length of the checksum at the start of an index chunk's payload.
pub const LIST_CRC: usize = 4;
/// Bytes of an index chunk for each chunk that it lists: bytes 4 to 27 of the head.
pub const LIST_ENTRY: usize = 24;
/// [`Head::aux`] of a metadata chunk in which no record begins.
pub const NO_RECORD: u32 = u32::MAX;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// [`crate::Header`].
    Header,
    /// A piece of the metadata stream.
    Metadata,
    /// A piece of one core's PT stream.
    Pt,
    /// Whole perf records of one core.
    Sideband,
    /// [`crate::LossNote`].
    Loss,
    /// [`crate::End`].
    End,
    /// States that everything that a range of cores recorded before a TSC precedes this chunk.
    Drained,
    /// States that all metadata committed before a TSC precedes this chunk.
    Described,
    /// The heads of the chunks since the index chunk before it.
    Index,
    /// Written by a later version; skipped and counted.
    Unknown(u16),
}

impl Kind {
    /// The number in the file.
    pub const fn code(self) -> u16 {
        match self {
            Self::Header => 1,
            Self::Metadata => 2,
            Self::Pt => 3,
            Self::Sideband => 4,
            Self::Loss => 5,
            Self::End => 6,
            Self::Drained => 7,
            Self::Described => 8,
            Self::Index => 9,
            Self::Unknown(code) => code,
        }
    }
    /// The kind with that number.
    pub const fn of(code: u16) -> Self {
        match code {
            1 => Self::Header,
            2 => Self::Metadata,
            3 => Self::Pt,
            4 => Self::Sideband,
            5 => Self::Loss,
            6 => Self::End,
            7 => Self::Drained,
            8 => Self::Described,
            9 => Self::Index,
            code => Self::Unknown(code),
        }
    }
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Metadata => "metadata",
            Self::Pt => "PT",
            Self::Sideband => "sideband",
            Self::Loss => "loss",
            Self::End => "end",
            Self::Drained => "drained",
            Self::Described => "described",
            Self::Index => "index",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A chunk head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the payload is.
    pub kind: Kind,
    /// Payload length in bytes.
    pub len: u32,
    /// PT, sideband, loss: the core. Metadata: where in the payload the first record begins, or
    /// [`NO_RECORD`] if no record begins in it. Drained: the first core of the range in the
    /// lower half, the last one in the upper half. Index: the length of the payload of the
    /// index chunk before it, 0 if it is the first. End: the length of the payload of the index
    /// chunk directly before it, 0 if the file has no index. Otherwise 0.
    pub aux: u32,
    /// Offset of the payload in its stream. Drained, described: a TSC. Loss: the PT stream
    /// offset at which the loss was seen. Index: the length in the file of the chunks that it
    /// lists, which end where it begins. 0 for other chunks that belong to no stream.
    pub offset: u64,
    /// CRC32C of the payload.
    pub payload_crc: u32,
}

impl Head {
    /// The head of a chunk with this payload.
    pub fn of(kind: Kind, aux: u32, offset: u64, payload: &[u8]) -> Self {
        Self { kind, len: payload.len() as u32, aux, offset, payload_crc: crc32c::crc32c(payload) }
    }
    /// Length of head and payload.
    pub const fn chunk_len(&self) -> u64 {
        HEAD as u64 + self.len as u64
    }
    /// The encoded head, as in the file.
    pub fn to_bytes(&self) -> [u8; HEAD] {
        let mut b = [0; HEAD];
        b[0..4].copy_from_slice(&MARKER);
        b[4..6].copy_from_slice(&self.kind.code().to_le_bytes());
        b[8..12].copy_from_slice(&self.len.to_le_bytes());
        b[12..16].copy_from_slice(&self.aux.to_le_bytes());
        b[16..24].copy_from_slice(&self.offset.to_le_bytes());
        b[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&b[..28]);
        b[28..32].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// The head in `b`; `None` when its marker, checksum or length is not that of a chunk head.
    pub fn from_bytes(b: &[u8; HEAD]) -> Option<Self> {
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        if b[..4] != MARKER || crc32c::crc32c(&b[..28]) != u32_at(28) || u32_at(8) > MAX_PAYLOAD {
            return None;
        }
        Some(Self {
            kind: Kind::of(u16::from_le_bytes([b[4], b[5]])),
            len: u32_at(8),
            aux: u32_at(12),
            offset: u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32,
            payload_crc: u32_at(24),
        })
    }
}

/// The preamble of a file this version writes.
pub fn preamble() -> [u8; PREAMBLE] {
    let mut b = [0; PREAMBLE];
    b[..8].copy_from_slice(&MAGIC);
    b[8..10].copy_from_slice(&VERSION_MAJOR.to_le_bytes());
    b[10..12].copy_from_slice(&VERSION_MINOR.to_le_bytes());
    b
}

/// Why something was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The AUX buffer was full (`PERF_AUX_FLAG_TRUNCATED`).
    AuxFull,
    /// The data ring was full (`PERF_RECORD_LOST`): sideband is missing.
    SidebandFull,
    /// The recorder gave up on this stream.
    Stopped,
    /// A reason that this version does not know.
    Other(u8),
}

impl LossReason {
    const fn code(self) -> u8 {
        match self {
            Self::AuxFull => 1,
            Self::SidebandFull => 2,
            Self::Stopped => 3,
            Self::Other(code) => code,
        }
    }
    const fn of(code: u8) -> Self {
        match code {
            1 => Self::AuxFull,
            2 => Self::SidebandFull,
            3 => Self::Stopped,
            code => Self::Other(code),
        }
    }
}

/// A note of the recorder about data that is not in the file. The chunk's head holds the core
/// and the PT stream offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossNote {
    /// Core.
    pub core: u32,
    /// PT stream offset at which the loss was seen.
    pub offset: u64,
    /// Why the data was lost.
    pub reason: LossReason,
    /// TSC at which the recorder noticed it.
    pub tsc: u64,
    /// Bytes lost, `u64::MAX` when not known.
    pub bytes: u64,
    /// Further explanation, may be empty.
    pub text: Str,
}

impl LossNote {
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut b = Vec::new();
        self.reason.code().encode(&mut b);
        self.tsc.encode(&mut b);
        self.bytes.encode(&mut b);
        self.text.encode(&mut b);
        b
    }
    pub(crate) fn read(head: &Head, payload: &[u8]) -> Result<Self, CodecError> {
        let from = &mut Source::new(payload);
        Ok(Self {
            core: head.aux,
            offset: head.offset,
            reason: LossReason::of(u8::decode(from)?),
            tsc: u64::decode(from)?,
            bytes: u64::decode(from)?,
            text: Str::decode(from)?,
        })
    }
}

/// Why the recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The VM exited.
    Exit,
    /// Recording was stopped by request.
    Stopped,
    /// The recorder met an error and gave up; the text names the error.
    Failed,
    /// The VM was killed; the capture was completed afterwards from the ring file.
    Recovered,
    /// A reason that this version does not know.
    Other(u8),
}

impl EndReason {
    const fn code(self) -> u8 {
        match self {
            Self::Exit => 0,
            Self::Stopped => 1,
            Self::Failed => 2,
            Self::Recovered => 3,
            Self::Other(code) => code,
        }
    }
    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Exit,
            1 => Self::Stopped,
            2 => Self::Failed,
            3 => Self::Recovered,
            code => Self::Other(code),
        }
    }
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
            Self::Other(_) => "other",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A figure that the recorder stores at the end (`ring_waits`, `drain_passes`, ...).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: Str,
    /// Its value at the end.
    pub value: u64,
}

impl Wire for Counter {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        Ok(Self { name: Wire::decode(from)?, value: Wire::decode(from)? })
    }
    fn encode(&self, to: &mut Vec<u8>) {
        self.name.encode(to);
        self.value.encode(to);
    }
}

/// The end chunk; a file without one was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why the recording ended.
    pub reason: EndReason,
    /// The reason in words, may be empty.
    pub text: Str,
    /// Bytes of metadata written.
    pub metadata_bytes: u64,
    /// Bytes of PT written, all cores.
    pub pt_bytes: u64,
    /// Bytes of sideband written, all cores.
    pub sideband_bytes: u64,
    /// Chunks written before this one.
    pub chunks: u64,
    /// The recorder's own figures.
    pub counters: Vec<Counter>,
}

impl Wire for End {
    fn decode(from: &mut Source<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            reason: EndReason::of(u8::decode(from)?),
            text: Wire::decode(from)?,
            metadata_bytes: Wire::decode(from)?,
            pt_bytes: Wire::decode(from)?,
            sideband_bytes: Wire::decode(from)?,
            chunks: Wire::decode(from)?,
            counters: Wire::decode(from)?,
        })
    }
    fn encode(&self, to: &mut Vec<u8>) {
        self.reason.code().encode(to);
        self.text.encode(to);
        self.metadata_bytes.encode(to);
        self.pt_bytes.encode(to);
        self.sideband_bytes.encode(to);
        self.chunks.encode(to);
        self.counters.encode(to);
    }
}
