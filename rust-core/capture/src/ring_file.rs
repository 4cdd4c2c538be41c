// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The file that backs the export ring, and the recovery from one that a dead VM left.
//!
//! The VM's ring is in a file beside the capture (`<capture>.ring`), so that records committed
//! before a `kill -9` can be recovered. The recorder (crate `jportal-recorder`) maps the file;
//! this module defines its layout and reads it after the VM's death.
//!
//! | offset | type   | field                                                               |
//! |--------|--------|---------------------------------------------------------------------|
//! | 0      | 8 B    | [`MAGIC`]                                                           |
//! | 8      | `u32`  | [`VERSION`]                                                         |
//! | 12     | `u32`  | state: [`states`]                                                   |
//! | 16     | `u64`  | size of the ring in bytes, a power of two                           |
//! | 24     | `u32`  | process id of the VM                                                |
//! | 64     | `u64`  | head: position after the last byte that a producer published        |
//! | 72     | `u64`  | boundary: position after the last whole record                      |
//! | 80     | `u64`  | TSC of that record                                                  |
//! | 88     | `u64`  | bytes of records that follow the ring's and are in the VM's memory  |
//! | 128    | `u64`  | tail: position after the last byte that is in the capture           |
//! | 4096   |        | the ring: byte `p` of the metadata stream is at `4096 + p % size`   |
//!
//! Positions count bytes of the metadata stream from its start, like the capture's own metadata
//! offsets. A producer writes its bytes, then stores `head` (release); the consumer stores
//! `tail` (release) after `write(2)` of the capture has returned. A record longer than the ring
//! passes in pieces: `head` advances within the record, `boundary` only at its end. When the
//! ring is full, records wait in the VM's memory; those are lost if the VM is killed then. The VM
//! holds an exclusive `flock` on the file while it lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::chunk::{Counter, EndReason};
use crate::error::Error;
use crate::writer::CaptureWriter;
use jportal_units::Tsc;

/// First bytes of a ring file.
pub const MAGIC: [u8; 8] = *b"JPRING1\0";
/// Version of the layout.
pub const VERSION: u32 = 1;
/// Offset of the state word.
pub const STATE: usize = 12;
/// Offset of the size.
pub const SIZE: usize = 16;
/// Offset of the process id.
pub const PID: usize = 24;
/// Offset of the head.
pub const HEAD: usize = 64;
/// Offset of the boundary.
pub const BOUNDARY: usize = 72;
/// Offset of the TSC of the last whole record.
pub const BOUNDARY_TSC: usize = 80;
/// Offset of the number of bytes that are only in the VM's memory.
pub const MEMORY: usize = 88;
/// Offset of the tail.
pub const TAIL: usize = 128;
/// Offset of the ring's bytes.
pub const BYTES: usize = 4096;

/// Values of the state word.
pub mod states {
    /// Records are accepted.
    pub const OPEN: u32 = 0;
    /// Nothing more is accepted: recording ended or failed.
    pub const CLOSED: u32 = 1;
    /// Nothing more is accepted: the VM met a fatal error.
    pub const CRASHED: u32 = 2;
}

/// The ring file that belongs to a capture.
pub fn path_of(capture: &Path) -> PathBuf {
    let mut name = capture.as_os_str().to_owned();
    name.push(".ring");
    name.into()
}

/// What [`recover`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// There is no ring file, or it is left over from a complete capture: nothing to do.
    NotNeeded,
    /// The VM still lives and writes to this capture.
    Live,
    /// The capture was completed.
    Done {
        /// Bytes of metadata that were only in the ring.
        bytes: u64,
        /// The VM's error handler had marked the ring; otherwise the VM was killed.
        crashed: bool,
    },
}

/// Completes the capture of a dead VM from its ring file, then removes the ring file.
///
/// # Errors
/// [`Error::Ring`] for a ring file that cannot be used (it stays), and those of
/// [`CaptureWriter::reopen`] and the writer.
pub fn recover(capture: &Path) -> Result<Recovery, Error> {
    let path = path_of(capture);
    let open = |source| Error::Open { path: path.clone(), source };
    let file = match OpenOptions::new().read(true).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Recovery::NotNeeded),
        Err(e) => return Err(open(e)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Recovery::Live),
        Err(TryLockError::Error(e)) => return Err(open(e)),
    }
    let image = Image::read(&file, &path)?;
    let result = match CaptureWriter::reopen(capture) {
        Ok(writer) => complete(writer, &image)?,
        Err(Error::Complete { .. }) => Recovery::NotNeeded,
        Err(e) => return Err(e),
    };
    std::fs::remove_file(&path).map_err(open)?;
    Ok(result)
}

fn complete(mut writer: CaptureWriter, image: &Image) -> Result<Recovery, Error> {
    let from = writer.written().metadata;
    let how = if image.crashed { "the VM crashed" } else { "the VM was killed" };
    let mut text = format!("{how}; completed from its ring file");
    let (mut bytes, mut missing) = (0, 0);
    if from < image.tail {
        // Only a crash of the machine, not of the VM alone, can lose chunks that had been
        // written.
        missing = image.tail - from;
        text = format!("{how}; {missing} bytes of metadata are neither in the capture nor in the ring");
    } else if from < image.boundary {
        let piece = image.bytes(from);
        bytes = piece.len() as u64;
        writer.metadata(&piece)?;
    }
    if missing == 0 && image.memory == 0 {
        writer.described(Tsc(u64::MAX))?;
    } else if missing == 0 {
        text = format!("{text}; {} bytes of metadata were only in its memory", image.memory);
        missing = image.memory;
        writer.described(Tsc(image.boundary_tsc))?;
    }
    let counter = |name: &str, value| Counter { name: name.into(), value };
    let counters =
        vec![counter("recovered_metadata_bytes", bytes), counter("missing_metadata_bytes", missing)];
    writer.finish(EndReason::Recovered, &text, counters)?;
    Ok(Recovery::Done { bytes, crashed: image.crashed })
}

/// A ring as its VM left it.
struct Image {
    ring: Vec<u8>,
    tail: u64,
    boundary: u64,
    boundary_tsc: u64,
    /// Bytes that were only in the VM's memory.
    memory: u64,
    crashed: bool,
}

impl Image {
    fn read(file: &File, path: &Path) -> Result<Self, Error> {
        let bad = |reason| Error::Ring { path: path.to_owned(), reason };
        let mut page = [0; BYTES];
        file.read_exact_at(&mut page, 0).map_err(|_| bad("shorter than its header"))?;
        if page[..8] != MAGIC {
            return Err(bad("the magic is another"));
        }
        if u32_at(&page, 8) != VERSION {
            return Err(bad("another version of the layout"));
        }
        let (size, head) = (u64_at(&page, SIZE), u64_at(&page, HEAD));
        let (tail, boundary) = (u64_at(&page, TAIL), u64_at(&page, BOUNDARY));
        let len = file.metadata().map_err(|source| Error::Open { path: path.to_owned(), source })?.len();
        if !size.is_power_of_two() || size > len.saturating_sub(BYTES as u64) {
            return Err(bad("its size is not that of the file"));
        }
        if boundary > head || tail > head || head - tail > size {
            return Err(bad("its positions contradict each other"));
        }
        let mut ring = vec![0; usize::try_from(size).map_err(|_| bad("too large for this machine"))?];
        file.read_exact_at(&mut ring, BYTES as u64).map_err(|source| Error::Read { place: 0, source })?;
        let (boundary_tsc, memory) = (u64_at(&page, BOUNDARY_TSC), u64_at(&page, MEMORY));
        let crashed = u32_at(&page, STATE) == states::CRASHED;
        Ok(Self { ring, tail, boundary, boundary_tsc, memory, crashed })
    }

    /// The stream's bytes from `from` (not before the tail) to the end of the last whole
    /// record.
    fn bytes(&self, from: u64) -> Vec<u8> {
        let size = self.ring.len() as u64;
        let at = (from % size) as usize;
        let len = self.boundary.saturating_sub(from).min(size) as usize;
        let first = len.min(self.ring.len() - at);
        [&self.ring[at..at + first], &self.ring[..len - first]].concat()
    }
}

fn u32_at(page: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}
fn u64_at(page: &[u8; BYTES], at: usize) -> u64 {
    u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32
}

#[cfg(test)]
#[path = "ring_file_tests.rs"]
mod tests;
