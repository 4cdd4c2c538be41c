// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The writer. It runs inside the traced VM, so it creates no thread, does not panic, buffers
//! no more than the head of one chunk, and returns every failure as a typed error.
//!
//! Every call writes whole chunks with `write(2)`, so that what was written survives the
//! process. Only one thread may use the writer at a time; sharing it needs a lock. [`Sealer`]
//! computes checksums outside of that lock.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jportal_units::{Core, StreamOffset, Tsc};

use crate::chunk::{HEAD, Head, Kind, LossNote, MAGIC, MARKER, NO_RECORD, PREAMBLE, SPLIT, preamble};
use crate::codec::{Appended, Wire};
use crate::create::{self, Earlier};
use crate::error::Error;
use crate::frames::FrameTracker;
use crate::header::Header;
use crate::lists::{self, IndexBuilder};
use crate::seal::{Sealed, SealedFor, Sealer};
use crate::{names, reader};

mod end;
mod trimmed;

use end::{CutPlace, Cuts};
pub use trimmed::TrimmedCopy;

/// Numbers of bytes and chunks written so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Length of the metadata stream, with what a trimmed capture has left out.
    pub metadata: u64,
    /// Bytes of PT, all cores.
    pub pt: u64,
    /// Bytes of sideband, all cores.
    pub sideband: u64,
    /// Chunks of any kind.
    pub chunks: u64,
    /// Length of the file.
    pub file: u64,
}

/// Writes one capture file.
#[derive(Debug)]
pub struct CaptureWriter {
    file: File,
    written: Written,
    frames: FrameTracker,
    /// By core number: end of the PT stream, end of the sideband stream.
    streams: Vec<StreamEnds>,
    has_header: bool,
    closed: bool,
    sealer: Sealer,
    index: IndexBuilder,
    /// Whether the file had a name when it was given to the writer. A pipe has none that counts.
    named: bool,
    /// Where the last chunk begins.
    last: u64,
    /// Offset of the first byte of metadata in its stream.
    metadata_from: u64,
    cuts: Cuts,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamEnds {
    pub(crate) pt: u64,
    pub(crate) sideband: u64,
}

/// The highest core number accepted; limits the size of the per-core table.
pub const MAX_CORE: u32 = 0xffff;

impl CaptureWriter {
    /// Creates (or overwrites) `path`, readable and writable by the owner only.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::DiskFull`], [`Error::Write`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let open = |source| Error::Open { path: path.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(open)?;
        if file.metadata().map_err(open)?.is_file() {
            // `mode` applies to new files only; an existing file would keep its mode.
            file.set_permissions(Permissions::from_mode(0o600)).map_err(open)?;
        }
        Self::create_from_file(file)
    }

    /// Creates the capture of a recording or a dump of the user `uid`, in a folder where others may
    /// write too: what has the name already is neither followed nor opened for writing, and only
    /// an earlier capture of the user makes way. Returns its path, too, which with
    /// [`Earlier::Number`] may be another one.
    ///
    /// # Errors
    /// Those of [`CaptureWriter::create`], [`Error::Foreign`], [`Error::Live`].
    pub fn create_safely(path: &Path, earlier: Earlier, uid: u32) -> Result<(Self, PathBuf), Error> {
        let (file, path) = create::create(path, earlier, uid)?;
        match Self::create_from_file(file) {
            Ok(writer) => Ok((writer, path)),
            Err(e) => {
                let _ = std::fs::remove_file(&path);
                Err(e)
            }
        }
    }

    /// Writes to `file`, which must be empty and positioned at its start.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Write`].
    pub fn create_from_file(file: File) -> Result<Self, Error> {
        let mut w = Self {
            named: is_named(&file),
            last: 0,
            file,
            written: Written::default(),
            frames: FrameTracker::default(),
            streams: Vec::new(),
            has_header: false,
            closed: false,
            sealer: Sealer::default(),
            index: IndexBuilder::new(),
            metadata_from: 0,
            cuts: Cuts::new(),
        };
        w.put(&preamble(), &[])?;
        Ok(w)
    }

    /// A writer that continues after the last whole chunk of `file`.
    pub(crate) fn resume(
        file: File,
        written: Written,
        frames: FrameTracker,
        streams: Vec<StreamEnds>,
        index: IndexBuilder,
        metadata_from: u64,
    ) -> Self {
        Self {
            named: is_named(&file),
            last: 0,
            file,
            written,
            frames,
            streams,
            has_header: true,
            closed: false,
            sealer: Sealer::default(),
            index,
            metadata_from,
            cuts: Cuts::new(),
        }
    }

    /// The file's device and inode, which tell a capture from its copies.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().as_ref().map(names::identity)
    }

    /// Whether the metadata written so far ends at a record boundary.
    pub fn is_between_records(&self) -> bool {
        self.frames.is_at_boundary()
    }

    /// A handle from which the file's present content can be copied while this writer
    /// continues.
    ///
    /// # Errors
    /// [`Error::Write`] when the system refuses, [`Error::Memory`].
    pub fn copy(&self) -> Result<CaptureCopy, Error> {
        let source =
            self.file.try_clone().map_err(|source| Error::Write { place: self.written.file, source })?;
        let mut streams = Vec::new();
        copy_streams(&self.streams, &mut streams)?;
        Ok(CaptureCopy {
            source,
            written: self.written,
            frames: self.frames,
            streams,
            sealer: self.sealer,
            index: self.index.copy(),
            metadata_from: self.metadata_from,
        })
    }

    /// Computes checksums with `sealer`.
    pub const fn seal_with(&mut self, sealer: Sealer) {
        self.sealer = sealer;
    }

    /// Writes the header, or a more complete one that replaces the earlier header. Its
    /// [`Header::metadata_from`] is that of this file, whatever `header` says.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`].
    pub fn header(&mut self, header: &Header) -> Result<(), Error> {
        let mut payload = Vec::new();
        Header { metadata_from: Appended(self.metadata_from), ..header.clone() }.encode(&mut payload);
        self.has_header = true;
        self.chunk(Kind::Header, 0, 0, &payload)
    }

    /// Appends framed records, in commit order. A piece may begin and end anywhere, even inside
    /// a record or its frame header.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and [`Error::Write`] when the system refuses: the file then ends
    /// after the last whole chunk, and only [`CaptureWriter::finish`] is accepted until
    /// [`CaptureWriter::retry`]; [`Error::FrameLength`] for an impossible frame (nothing of the
    /// piece is written); [`Error::HeaderFirst`], [`Error::Closed`].
    pub fn metadata(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.ready()?;
        self.sealer.metadata(bytes).try_for_each(|piece| self.append(&piece))
    }

    /// The record boundaries of the metadata written so far: the next piece continues there.
    pub const fn frames(&self) -> FrameTracker {
        self.frames
    }

    /// Appends bytes of a core's PT stream. `offset` is the position of the first byte on the
    /// scale of the AUX head. A jump forward is a loss; a step back is refused.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`], and [`Error::PtOrder`] and [`Error::PtEnd`].
    pub fn pt(&mut self, core: Core, offset: StreamOffset, bytes: &[u8]) -> Result<(), Error> {
        self.ready()?;
        self.sealer.pt(core, offset, bytes).try_for_each(|piece| self.append(&piece))
    }

    /// Appends whole perf records (`perf_event_header` and body) of a core's data ring.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`], and [`Error::SidebandRecord`] when the piece is not
    /// a sequence of whole records (nothing of it is written).
    pub fn sideband(&mut self, core: Core, records: &[u8]) -> Result<(), Error> {
        self.ready()?;
        self.sealer.sideband(core, records)?.try_for_each(|piece| self.append(&piece))
    }

    /// Appends a chunk of metadata, PT or sideband whose checksum was computed before.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`], and [`Error::PtOrder`] and [`Error::PtEnd`].
    pub fn append(&mut self, piece: &Sealed<'_>) -> Result<(), Error> {
        self.ready()?;
        let len = piece.bytes.len() as u64;
        match piece.to {
            SealedFor::Metadata => {
                let mut frames = self.frames;
                let first = frames.advance(piece.bytes)?.first;
                let first = first.map_or(NO_RECORD, |n| n as u32);
                self.sealed_chunk(Kind::Metadata, first, self.written.metadata, piece)?;
                self.frames = frames;
                self.written.metadata += len;
            }
            SealedFor::Pt(core, offset) => {
                let known = self.ends(core)?.pt;
                if offset < known {
                    return Err(Error::PtOrder { core: core.get(), offset, known });
                }
                let end = offset.checked_add(len).ok_or(Error::PtEnd { core: core.get(), offset, len })?;
                self.sealed_chunk(Kind::Pt, core.get(), offset, piece)?;
                self.ends(core)?.pt = end;
                self.written.pt += len;
            }
            SealedFor::Sideband(core) => {
                let at = self.ends(core)?.sideband;
                self.sealed_chunk(Kind::Sideband, core.get(), at, piece)?;
                self.ends(core)?.sideband += len;
                self.written.sideband += len;
            }
        }
        Ok(())
    }

    /// Notes that some data is not in the file.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`].
    pub fn loss(&mut self, note: &LossNote) -> Result<(), Error> {
        self.ready()?;
        self.chunk(Kind::Loss, note.core, note.offset, &note.payload())
    }

    /// Notes that everything that the cores `from` to `to` recorded before `tsc` has been
    /// written.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`].
    pub fn drained(&mut self, from: Core, to: Core, tsc: Tsc) -> Result<(), Error> {
        self.ready()?;
        if let Some(core) = [from, to].into_iter().find(|c| c.get() > MAX_CORE) {
            return Err(Error::CoreNumber { core: core.get() });
        }
        self.chunk(Kind::Drained, from.get() | to.get() << 16, tsc.0, &[])
    }

    /// Notes that all metadata committed before `tsc` has been written. The largest TSC means
    /// that all metadata is there.
    ///
    /// # Errors
    /// As [`CaptureWriter::metadata`].
    pub fn described(&mut self, tsc: Tsc) -> Result<(), Error> {
        self.ready()?;
        self.chunk(Kind::Described, 0, tsc.0, &[])
    }

    /// Accepts writes again after a failed one. The chunk that did not fit was cut off; a
    /// smaller one may fit. In each stream, the next bytes must follow its last whole chunk.
    pub const fn retry(&mut self) {
        self.closed = false;
    }

    /// What was written so far.
    pub const fn written(&self) -> Written {
        self.written
    }

    /// Writes an index chunk of the chunks since the last one, and returns the length of its
    /// payload. If it cannot be written, the file gets no further index chunks: 0. That is no
    /// failure, because a smaller chunk may still fit.
    fn put_index(&mut self) -> u32 {
        if self.index.has_given_up() {
            return 0;
        }
        let place = self.written.file;
        let (head, payload) = self.index.take(self.sealer);
        if self.put_chunk(&head, &payload).is_err() {
            self.retry();
            self.index.give_up();
            return 0;
        }
        self.index.written(place, payload);
        head.len
    }

    fn ready(&self) -> Result<(), Error> {
        match (self.closed, self.has_header) {
            (true, _) => Err(Error::Closed),
            (false, false) => Err(Error::HeaderFirst),
            (false, true) => Ok(()),
        }
    }

    fn ends(&mut self, core: Core) -> Result<&mut StreamEnds, Error> {
        if core.get() > MAX_CORE {
            return Err(Error::CoreNumber { core: core.get() });
        }
        let n = core.get() as usize;
        if self.streams.len() <= n {
            let more = n + 1 - self.streams.len();
            let bytes = (more * size_of::<StreamEnds>()) as u64;
            self.streams.try_reserve(more).map_err(|_| Error::Memory { bytes })?;
            self.streams.resize(n + 1, StreamEnds::default());
        }
        // The index exists: the table was just grown to hold it.
        self.streams.get_mut(n).ok_or(Error::Closed)
    }

    fn chunk(&mut self, kind: Kind, aux: u32, offset: u64, payload: &[u8]) -> Result<(), Error> {
        let payload_crc = self.sealer.crc(payload);
        self.listed_chunk(&Head { kind, len: payload.len() as u32, aux, offset, payload_crc }, payload)
    }

    fn sealed_chunk(&mut self, kind: Kind, aux: u32, offset: u64, piece: &Sealed<'_>) -> Result<(), Error> {
        let (len, payload_crc) = (piece.bytes.len() as u32, piece.crc);
        self.listed_chunk(&Head { kind, len, aux, offset, payload_crc }, piece.bytes)
    }

    /// Writes a chunk that the next index chunk lists.
    fn listed_chunk(&mut self, head: &Head, payload: &[u8]) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Closed);
        }
        if self.index.is_full() {
            self.put_index();
        }
        self.put_chunk(head, payload)?;
        self.index.add(head);
        Ok(())
    }

    fn put_chunk(&mut self, head: &Head, payload: &[u8]) -> Result<(), Error> {
        let bytes = head.to_bytes();
        self.look()?;
        let before = CutPlace { written: self.written, last: self.last };
        self.put(&bytes, payload)?;
        self.last = before.written.file;
        self.written.chunks += 1;
        self.cuts.add(before, self.written.file);
        Ok(())
    }

    /// Whether the file is as this writer left it. Every chunk asks; a writer that has nothing to
    /// write asks from time to time. Three system calls on memory, unless the file system hangs.
    ///
    /// # Errors
    /// [`Error::Deleted`], [`Error::Shortened`]. Then nothing more can be written, and the file
    /// stays as it is.
    pub fn look(&self) -> Result<(), Error> {
        if !self.named {
            return Ok(());
        }
        // If the system refuses, the next write says so.
        let Ok(meta) = self.file.metadata() else { return Ok(()) };
        if meta.nlink() == 0 {
            return Err(Error::Deleted);
        }
        let written = self.written.file;
        if meta.len() < written {
            return Err(Error::Shortened { len: meta.len(), written });
        }
        // A chunk that was written after the file was shortened has made it long again.
        let begins = if self.last == 0 { &MAGIC[..] } else { &MARKER[..] };
        let mut found = [0; MAGIC.len()];
        let found = &mut found[..begins.len()];
        if self.file.read_exact_at(found, self.last).is_ok() && found != begins {
            return Err(Error::Shortened { len: meta.len().min(self.last), written });
        }
        Ok(())
    }

    /// Writes both parts or neither.
    fn put(&mut self, head: &[u8], payload: &[u8]) -> Result<(), Error> {
        let place = self.written.file;
        let done = self.file.write_all(head).and_then(|()| self.file.write_all(payload));
        if let Err(source) = done {
            self.closed = true;
            self.cut_back(place);
            return Err(if is_full(&source) {
                Error::DiskFull { written: place }
            } else {
                Error::Write { place, source }
            });
        }
        self.written.file += (head.len() + payload.len()) as u64;
        Ok(())
    }

    /// Removes a partly written chunk. Failure is harmless: a reader drops a torn chunk.
    fn cut_back(&mut self, place: u64) {
        use std::io::{Seek, SeekFrom};
        if self.file.set_len(place).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(place));
        }
    }
}

/// A copy of the beginning of a capture that is still being written: see
/// [`CaptureWriter::copy`].
#[derive(Debug)]
pub struct CaptureCopy {
    source: File,
    written: Written,
    frames: FrameTracker,
    streams: Vec<StreamEnds>,
    sealer: Sealer,
    index: IndexBuilder,
    metadata_from: u64,
}

impl CaptureCopy {
    /// Device and inode of the original.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.source.metadata().ok().as_ref().map(names::identity)
    }

    /// Copies to a new file that [`CaptureWriter::create_safely`] makes with [`Earlier::Number`],
    /// and returns a writer that continues there, and its path. `copied` is called with the length
    /// of each piece.
    ///
    /// # Errors
    /// As [`CaptureWriter::create_safely`].
    pub fn to(
        self,
        path: &Path,
        uid: u32,
        mut copied: impl FnMut(u64),
    ) -> Result<(CaptureWriter, PathBuf), Error> {
        let (mut copy, path) = CaptureWriter::create_safely(path, Earlier::Number, uid)?;
        match self.copy_to(&mut copy, &mut copied) {
            Ok(()) => Ok((copy, path)),
            Err(e) => {
                let _ = std::fs::remove_file(&path);
                Err(e)
            }
        }
    }

    /// The copy has a first header of its own, which names no ring: that one belongs to the
    /// original.
    fn copy_to(mut self, copy: &mut CaptureWriter, copied: &mut impl FnMut(u64)) -> Result<(), Error> {
        let header = reader::first_header(&self.source, self.written.file).ok_or(Error::HeaderFirst)?;
        let old = self.head_at(&self.source, PREAMBLE as u64)?;
        let mut place = PREAMBLE as u64 + old.chunk_len();
        copy.sealer = self.sealer;
        copy.metadata_from = self.metadata_from;
        copy.header(&Header { ring: Appended::default(), ..header })?;
        let new = self.head_at(&copy.file, PREAMBLE as u64)?;
        let mut piece = Vec::new();
        let len = SPLIT.min(self.written.file as usize);
        piece.try_reserve_exact(len).map_err(|_| Error::Memory { bytes: len as u64 })?;
        piece.resize(len, 0);
        while place < self.written.file {
            let n = (self.written.file - place).min(piece.len() as u64) as usize;
            let read = self.source.read_exact_at(&mut piece[..n], place);
            read.map_err(|source| Error::Write { place, source })?;
            copy.put(&piece[..n], &[])?;
            place += n as u64;
            copied(n as u64);
        }
        self.copy_first_index(copy, &old, &new, piece)?;
        self.index.change_first_head(&old, &new);
        copy.written = Written { file: copy.written.file, ..self.written };
        (copy.frames, copy.streams, copy.index) = (self.frames, self.streams, self.index);
        Ok(())
    }

    /// Lists the copy's own header in its first index chunk, if there is one.
    fn copy_first_index(
        &self,
        copy: &CaptureWriter,
        old: &Head,
        new: &Head,
        mut payload: Vec<u8>,
    ) -> Result<(), Error> {
        let Some(place) = self.index.first() else { return Ok(()) };
        let head = self.head_at(&self.source, place)?;
        // `payload` is as long as the file or as `SPLIT`: it does not grow.
        payload.resize(head.len as usize, 0);
        reader::read_at(&self.source, &mut payload, place + HEAD as u64)?;
        let (head, payload) = lists::with_first_head(&head, payload, old, new);
        let place = place - old.chunk_len() + new.chunk_len();
        let done = copy.file.write_all_at(&head.to_bytes(), place);
        let done = done.and_then(|()| copy.file.write_all_at(&payload, place + HEAD as u64));
        done.map_err(|source| Error::Write { place, source })
    }

    fn head_at(&self, file: &File, place: u64) -> Result<Head, Error> {
        let mut head = [0; HEAD];
        reader::read_at(file, &mut head, place)?;
        Head::from_bytes(&head).ok_or(Error::Shortened { len: place, written: self.written.file })
    }
}

fn copy_streams(from: &[StreamEnds], to: &mut Vec<StreamEnds>) -> Result<(), Error> {
    to.clear();
    to.try_reserve(from.len()).map_err(|_| Error::Memory { bytes: size_of_val(from) as u64 })?;
    to.extend_from_slice(from);
    Ok(())
}

/// Whether the file is a regular one that has a name.
fn is_named(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() > 0)
}

/// `ENOSPC`, a quota, or a file-size limit.
fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
