// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What can go wrong with a capture file.

use std::io;
use std::path::PathBuf;

use crate::codec::CodecError;
use crate::reader::Damage;

/// An error of the writer or the reader. `place` is always a byte offset in the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be created or opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Something has the name that must not be replaced.
    #[error("{path} is there already and is not replaced: {what}; remove it or choose another name")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
    },
    /// What has the name is no regular file.
    #[error("{path} cannot be read as a capture: {what}; give the name of a regular file")]
    NoFile {
        /// The name.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
    },
    /// A capture of somebody else, which is not changed.
    #[error("{path} is not completed, because user {owner} owns it; run the command as that user")]
    NotOwner {
        /// The capture.
        path: PathBuf,
        /// User id of its owner.
        owner: u32,
    },
    /// A running VM writes to the capture.
    #[error("{path} is in use by a running VM; choose another name (%p gives the process id)")]
    Live {
        /// The capture.
        path: PathBuf,
    },
    /// There is no memory.
    #[error("no memory for {bytes} bytes of a capture")]
    Memory {
        /// How much was wanted.
        bytes: u64,
    },
    /// The device has no room for the next chunk; the file ends after the last whole chunk.
    #[error("disk full after {written} bytes of capture; free space or choose another file")]
    DiskFull {
        /// Length of the file.
        written: u64,
    },
    /// Writing failed for another reason; the file ends after the last whole chunk.
    #[error("cannot write the capture at byte {place}: {source}")]
    Write {
        /// Where.
        place: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody deleted the file that is being written.
    #[error(
        "the file was deleted while it was written, and with it what was recorded; record to another file (jcmd PID \
         JPortal.start)"
    )]
    Deleted,
    /// Somebody truncated the file that is being written.
    #[error(
        "the file was cut to {len} of {written} bytes while it was written, and nothing more is written to it; record to \
         another file (jcmd PID JPortal.start)"
    )]
    Shortened {
        /// The length found; at most this much is left of what was written.
        len: u64,
        /// Number of bytes written.
        written: u64,
    },
    /// An earlier write failed; the writer accepts nothing more.
    #[error("the capture was closed by an earlier write error")]
    Closed,
    /// A data chunk was written before the first header.
    #[error("the first chunk of a capture must be its header")]
    HeaderFirst,
    /// A metadata frame shorter than its own header.
    #[error("metadata frame at stream byte {at} has length {len}, less than its header")]
    FrameLength {
        /// Offset in the metadata stream.
        at: u64,
        /// The length it states.
        len: u32,
    },
    /// The PT bytes are already in the file, or precede some that are.
    #[error("PT bytes of core {core} start at {offset} but {known} bytes of its stream are already written")]
    PtOrder {
        /// Core.
        core: u32,
        /// Offset of the rejected piece.
        offset: u64,
        /// End of the last piece.
        known: u64,
    },
    /// The end of the PT bytes is no offset.
    #[error("{len} PT bytes of core {core} at {offset} end beyond the greatest offset, 2^64 - 1")]
    PtEnd {
        /// Core.
        core: u32,
        /// Offset of the rejected piece.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// A core number beyond [`crate::MAX_CORE`].
    #[error("core number {core} is beyond {}", crate::MAX_CORE)]
    CoreNumber {
        /// Core.
        core: u32,
    },
    /// Sideband bytes that are not a sequence of whole perf records.
    #[error(
        "sideband of core {core}: record at byte {at} of the piece has size {size}, {left} bytes are left"
    )]
    SidebandRecord {
        /// Core.
        core: u32,
        /// Offset in the piece.
        at: usize,
        /// Size the record states.
        size: usize,
        /// Bytes left in the piece.
        left: usize,
    },
    /// A capture that has its end chunk cannot be continued.
    #[error("{path} is complete; there is nothing to add to it")]
    Complete {
        /// The file.
        path: PathBuf,
    },
    /// A ring file whose content cannot be used.
    #[error("{path} cannot be used to complete the capture: {reason}")]
    Ring {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Reading failed.
    #[error("cannot read the capture at byte {place}: {source}")]
    Read {
        /// Where.
        place: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is of another kind.
    #[error("not a capture: the file begins with {found:02x?}, a capture with the bytes of \"JPORTAL\\0\"")]
    NotACapture {
        /// First bytes of the file, at most as many as it has.
        found: Vec<u8>,
    },
    /// The file was written by a later, incompatible version.
    #[error(
        "capture format {found_major}.{found_minor} is newer than {known_major}; use the `jportal` it was made for"
    )]
    Version {
        /// Major version of the file.
        found_major: u16,
        /// Minor version of the file.
        found_minor: u16,
        /// Highest major version this reader knows.
        known_major: u16,
    },
    /// The file ends, or is damaged, before a header could be read.
    #[error("the capture holds no readable header (file of {len} bytes); nothing can be decoded")]
    NoHeader {
        /// Length of the file.
        len: u64,
    },
    /// The bytes of a chunk are not those that were written.
    #[error(
        "{kind} chunk at byte {place}: checksum {found:#010x} of its {len} bytes is not the stored {stored:#010x}"
    )]
    Checksum {
        /// Chunk kind.
        kind: &'static str,
        /// Start of the chunk.
        place: u64,
        /// Payload length.
        len: u32,
        /// As computed.
        found: u32,
        /// As stored.
        stored: u32,
    },
    /// A stretch of the file that is not what was written.
    #[error("bytes {} to {} of the file: {}", .0.from, .0.to, .0.kind.what())]
    Damaged(Damage),
    /// A chunk's payload is shorter than its fields.
    #[error("{kind} chunk at byte {place}: {source}")]
    Chunk {
        /// Chunk kind.
        kind: &'static str,
        /// Start of the chunk.
        place: u64,
        /// What is wrong.
        source: CodecError,
    },
    /// The body of one metadata record could not be decoded; reading continues with the next
    /// record.
    #[error("metadata record of kind {kind} at stream byte {at}: {source}")]
    Record {
        /// Record kind.
        kind: u16,
        /// Offset of its frame in the metadata stream.
        at: u64,
        /// What is wrong.
        source: CodecError,
    },
    /// Metadata is missing; reading continues with the next record that can be found.
    #[error("metadata stream bytes {from} to {to} are missing; records in them are lost")]
    MetadataHole {
        /// First missing byte.
        from: u64,
        /// First byte that can be read again.
        to: u64,
    },
    /// The metadata stream ends inside a record.
    #[error("the metadata stream ends inside a record at byte {at} ({bytes} bytes of it are there)")]
    MetadataTorn {
        /// Start of the record in the stream.
        at: u64,
        /// Bytes present.
        bytes: u64,
    },
}

impl CodecError {
    /// [`Error::Memory`], if that is the reason; `None` if the bytes are.
    pub(crate) fn memory(&self) -> Option<Error> {
        match self {
            Self::Memory { bytes } => Some(Error::Memory { bytes: *bytes as u64 }),
            _ => None,
        }
    }

    /// [`Error::Memory`], if that is the reason; otherwise what `or` makes of it.
    pub(crate) fn or_memory(self, or: impl FnOnce(Self) -> Error) -> Error {
        self.memory().unwrap_or_else(|| or(self))
    }
}
