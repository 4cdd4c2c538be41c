// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The file that holds the export ring while the VM lives, and the recovery from one that a dead
//! VM left.
//!
//! The ring outlives the VM, so that records committed before a `kill -9` can be recovered. The
//! recorder (crate `jportal-recorder`) maps the file; this module defines its place and layout,
//! and reads it after the VM's death.
//!
//! **Place.** The file is in memory, not on the disk of the capture: threads of the VM store into
//! it, and a store to a mapped page of a disk may wait for that disk. It is in
//! `/dev/shm/jportal-UID`, a folder with mode 0700 ([`make_folder`]), and the capture's header
//! names it ([`crate::Header::ring`]). In the folder, only processes of the same user reach the
//! file. If one of them truncates it, the VM gets SIGBUS, other memory takes the place of the file,
//! and the recording ends. A memfd with seals could not be truncated, but it would die with the VM,
//! or need a process that holds it. Without such a folder, or without room in it, the ring is
//! anonymous memory, the header names none, and a `kill -9` loses the records that were not written
//! yet (some 10 ms of them). So does the end of a container or machine, whose `/dev/shm` ends with
//! it.
//!
//! A capture that names no ring may have one beside it, `<capture>.ring`, as versions before 2.3
//! made it.
//!
//! **Layout.**
//!
//! | offset | type   | field                                                               |
//! |--------|--------|---------------------------------------------------------------------|
//! | 0      | 8 B    | [`MAGIC`]                                                           |
//! | 8      | `u32`  | [`VERSION`]                                                         |
//! | 12     | `u32`  | state: [`states`]                                                   |
//! | 16     | `u64`  | size of the ring in bytes, a power of two                           |
//! | 24     | `u32`  | process id of the VM                                                |
//! | 32     | `u64`  | size of the overflow, a power of two; 0 in version 1                |
//! | 64     | `u64`  | head: position after the last byte that a producer published        |
//! | 72     | `u64`  | boundary: position after the last whole record                      |
//! | 80     | `u64`  | where the overflow begins, [`NOWHERE`]: not in use; since version 2 |
//! | 96     | `u64`  | device of the capture                                               |
//! | 104    | `u64`  | inode of the capture                                                |
//! | 128    | `u64`  | tail: position after the last byte that is in the capture           |
//! | 4096   |        | the ring: byte `p` of the metadata stream is at `4096 + p % size`   |
//! | 4096 + size | | the overflow: where it begins and after that, byte `p` is at `4096 + size + p % overflow size` |
//!
//! Positions count bytes of the metadata stream from its start, like the capture's own metadata
//! offsets. A producer writes its bytes, then stores `head` (release); the consumer stores
//! `tail` (release) after `write(2)` of the capture has returned. In rings of versions before 2.3,
//! a record longer than the ring passed in pieces: `head` advanced within the record, `boundary`
//! only at its end. In the overflow, only the bytes from `tail` to `head` need to have memory; the
//! rest may be a hole. The VM holds an exclusive `flock` on the file while it lives.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::chunk::{Counter, EndReason};
use crate::create::{open_to_look, open_without_waiting};
use crate::error::Error;
use crate::writer::CaptureWriter;
use crate::{held, names, reader, reopen};
use jportal_units::Tsc;
use rustix::process::geteuid;

/// First bytes of a ring file.
pub const MAGIC: [u8; 8] = *b"JPRING1\0";
/// Version of the layout. Version 1 had no overflow.
pub const VERSION: u32 = 2;
/// Offset of the state word.
pub const STATE: usize = 12;
/// Offset of the size.
pub const SIZE: usize = 16;
/// Offset of the process id.
pub const PID: usize = 24;
/// Offset of the overflow's size.
pub const OVERFLOW_SIZE: usize = 32;
/// Offset of the head.
pub const HEAD: usize = 64;
/// Offset of the boundary.
pub const BOUNDARY: usize = 72;
/// Offset of the position where the overflow begins.
pub const OVERFLOW_FROM: usize = 80;
/// The overflow is not in use.
pub const NOWHERE: u64 = u64::MAX;
/// Offset of the capture's device.
pub const DEVICE: usize = 96;
/// Offset of the capture's inode.
pub const INODE: usize = 104;
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

/// Largest ring.
pub const LARGEST: u64 = 1 << 30;
/// First part of the name of a ring file in its folder.
pub const PREFIX: &str = "ring-";
const FOLDER: &str = "/dev/shm/jportal-";

/// Makes the private folder of `uid`, the calling user, unless it exists.
///
/// # Errors
/// Without `/dev/shm`, or when something else has the folder's name.
pub fn make_folder(uid: u32) -> io::Result<PathBuf> {
    let path = PathBuf::from(format!("{FOLDER}{uid}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    if is_private(&path, uid)? { Ok(path) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// Whether `path` is a folder, not a link to one, that only `uid` can use.
fn is_private(path: &Path, uid: u32) -> io::Result<bool> {
    let meta = std::fs::symlink_metadata(path)?;
    Ok(meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

/// The place of the ring of a capture whose header names none.
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

/// The ring file of a capture, open for reading.
struct FoundRing {
    file: File,
    path: PathBuf,
    /// Device and inode of the capture.
    capture: (u64, u64),
}

/// The ring file of the capture at `capture`; `None` if there is none.
fn open_ring(capture: &Path) -> Result<Option<FoundRing>, Error> {
    let found = |result: io::Result<File>, path: &Path| match result {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Open { path: path.to_owned(), source }),
    };
    let Some(file) = found(open_to_look(capture), capture)? else { return Ok(None) };
    let open = |source| Error::Open { path: capture.to_owned(), source };
    let meta = file.metadata().map_err(open)?;
    if !meta.is_file() {
        return Ok(None);
    }
    let named = reader::first_header(&file, meta.len()).map(|header| header.ring.0.0).unwrap_or_default();
    let path = if named.is_empty() { path_of(capture) } else { PathBuf::from(OsStr::from_bytes(&named)) };
    let bad = |reason| Error::Ring { path: path.clone(), reason };
    if !named.is_empty() && !is_in_a_folder(&path) {
        return Err(bad("the capture names a file that no VM makes"));
    }
    let Some(ring) = found(open_without_waiting(&path), &path)? else { return Ok(None) };
    let of_ring = ring.metadata().map_err(open)?;
    if !of_ring.is_file() || of_ring.uid() != meta.uid() {
        return Err(bad("it is no file of the capture's owner"));
    }
    if let Some(folder) = path.parent().filter(|_| !named.is_empty())
        && !is_private(folder, meta.uid()).map_err(open)?
    {
        return Err(bad("its folder is not private to the capture's owner"));
    }
    Ok(Some(FoundRing { file: ring, path, capture: names::identity(&meta) }))
}

/// Whether `path` is that of a ring file in the folder of some user. The capture that names it may
/// be anybody's.
fn is_in_a_folder(path: &Path) -> bool {
    let text = path.as_os_str().to_str().and_then(|text| text.strip_prefix(FOLDER));
    text.and_then(|text| text.split_once('/')).is_some_and(|(uid, name)| {
        uid.parse::<u32>().is_ok() && name.starts_with(PREFIX) && !name.contains('/')
    })
}

/// Whether a running VM writes to the capture: it holds the lock on the capture or on its ring.
///
/// # Errors
/// Those of [`recover`] for a ring file that cannot be used.
pub fn is_live(capture: &Path) -> Result<bool, Error> {
    Ok(held::is_written(capture)? || has_live_ring(capture)?)
}

/// Whether a running VM holds the lock on the ring of the capture. A ring in memory has no file,
/// and that of a VM in another container cannot be seen.
pub(crate) fn has_live_ring(capture: &Path) -> Result<bool, Error> {
    Ok(open_ring(capture)?.is_some_and(|ring| held::is_held(&ring.file)))
}

/// Removes the oldest ring files in the private folder `folder` that dead VMs left, all but
/// `keep`: captures that nobody opens any more must not fill the memory.
pub fn remove_oldest(folder: &Path, keep: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let dead = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            return None;
        }
        let file = open_without_waiting(&path).ok()?;
        let meta = file.metadata().ok()?;
        // A file without the magic may be about to be locked by its VM.
        let mut magic = [0; MAGIC.len()];
        let is_ring = meta.is_file() && file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC;
        (is_ring && file.try_lock_shared().is_ok()).then_some((meta.modified().ok()?, path))
    });
    let mut dead: Vec<_> = dead.collect();
    dead.sort();
    dead.truncate(dead.len().saturating_sub(keep));
    for (_, path) in dead {
        let _ = std::fs::remove_file(path);
    }
}

/// Completes the capture of a dead VM from its ring file, then removes the ring file.
///
/// # Errors
/// [`Error::Ring`] for a ring file that cannot be used (it stays), and those of
/// [`CaptureWriter::reopen`] and the writer.
pub fn recover(capture: &Path) -> Result<Recovery, Error> {
    let Some(FoundRing { file, path, capture: found }) = open_ring(capture)? else {
        return Ok(if held::is_written(capture)? { Recovery::Live } else { Recovery::NotNeeded });
    };
    let open = |source| Error::Open { path: path.clone(), source };
    if held::is_held(&file) {
        return Ok(Recovery::Live);
    }
    let image = Image::read(&file, &path)?;
    // A user may name the capture by a link. What is changed has no link for its name.
    let of_capture = |source| Error::Open { path: capture.to_owned(), source };
    let named = capture.canonicalize().map_err(of_capture)?;
    let opened = reopen::open_to_continue(&named)?;
    if names::identity(&opened.metadata().map_err(of_capture)?) != found {
        return Err(Error::Ring { path, reason: "another file has taken the place of the capture" });
    }
    // The VM, which would hold both locks, is dead: only another recovery may hold this one.
    if !held::take_of_the_dead(&opened) {
        return Ok(Recovery::Live);
    }
    let result = match reopen::reopen(opened, capture, geteuid().as_raw()) {
        Ok(writer) => complete(writer, &image)?,
        Err(Error::Complete { .. }) => Recovery::NotNeeded,
        Err(Error::Live { .. }) => return Ok(Recovery::Live),
        Err(e) => return Err(e),
    };
    // A copy of the capture names the same ring, which the original still needs.
    if image.capture == (0, 0) || image.capture == found {
        match std::fs::remove_file(&path) {
            // A VM that started, or another recovery, was faster.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(open)?,
        }
    }
    Ok(result)
}

fn complete(mut writer: CaptureWriter, image: &Image<'_>) -> Result<Recovery, Error> {
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
        let piece = image.bytes(from)?;
        bytes = piece.len() as u64;
        writer.metadata(&piece)?;
    }
    if missing == 0 {
        writer.described(Tsc(u64::MAX))?;
    }
    let counter = |name: &str, value| Counter { name: name.into(), value };
    let counters =
        vec![counter("recovered_metadata_bytes", bytes), counter("missing_metadata_bytes", missing)];
    writer.finish(EndReason::Recovered, &text, counters)?;
    Ok(Recovery::Done { bytes, crashed: image.crashed })
}

/// A ring as its VM left it.
struct Image<'a> {
    file: &'a File,
    size: u64,
    overflow_size: u64,
    /// Where the overflow begins, or [`NOWHERE`].
    overflow_from: u64,
    tail: u64,
    boundary: u64,
    /// Device and inode of the capture; 0: not known.
    capture: (u64, u64),
    crashed: bool,
}

impl<'a> Image<'a> {
    fn read(file: &'a File, path: &Path) -> Result<Self, Error> {
        let bad = |reason| Error::Ring { path: path.to_owned(), reason };
        let mut page = [0; BYTES];
        file.read_exact_at(&mut page, 0).map_err(|_| bad("shorter than its header"))?;
        if page[..8] != MAGIC {
            return Err(bad("the magic is another"));
        }
        let (overflow_size, overflow_from) = match u32_at(&page, 8) {
            1 => (0, NOWHERE),
            VERSION => (u64_at(&page, OVERFLOW_SIZE), u64_at(&page, OVERFLOW_FROM)),
            _ => return Err(bad("another version of the layout")),
        };
        let (size, head) = (u64_at(&page, SIZE), u64_at(&page, HEAD));
        let (tail, boundary) = (u64_at(&page, TAIL), u64_at(&page, BOUNDARY));
        let len = file.metadata().map_err(|source| Error::Open { path: path.to_owned(), source })?.len();
        let is_size = |bytes: u64| bytes.is_power_of_two() && bytes <= LARGEST;
        let fits = |both| both <= len.saturating_sub(BYTES as u64);
        if !is_size(size) || !(overflow_size == 0 || is_size(overflow_size)) || !fits(size + overflow_size) {
            return Err(bad("its size is not that of the file"));
        }
        let proper = head.min(overflow_from).saturating_sub(tail);
        let over = head.saturating_sub(tail.max(overflow_from));
        let is_past = overflow_from != NOWHERE && overflow_from > head;
        if boundary > head || tail > head || proper > size || over > overflow_size || is_past {
            return Err(bad("its positions contradict each other"));
        }
        let capture = (u64_at(&page, DEVICE), u64_at(&page, INODE));
        let crashed = u32_at(&page, STATE) == states::CRASHED;
        Ok(Self { file, size, overflow_size, overflow_from, tail, boundary, capture, crashed })
    }

    /// The stream's bytes from `from` (not before the tail) to the end of the last whole
    /// record.
    fn bytes(&self, from: u64) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        let middle = self.overflow_from.clamp(from, self.boundary.max(from));
        self.append(&mut all, from..middle, BYTES as u64, self.size)?;
        self.append(&mut all, middle..self.boundary, BYTES as u64 + self.size, self.overflow_size)?;
        Ok(all)
    }

    /// Appends the bytes at `positions` of the ring with `size` bytes at `start` of the file.
    fn append(&self, to: &mut Vec<u8>, positions: Range<u64>, start: u64, size: u64) -> Result<(), Error> {
        let mut at = positions.start;
        while at < positions.end {
            let place = at % size;
            let end = positions.end.min(at + (size - place));
            let before = to.len();
            to.resize(before + (end - at) as usize, 0);
            reader::read_at(self.file, &mut to[before..], start + place)?;
            at = end;
        }
        Ok(())
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
