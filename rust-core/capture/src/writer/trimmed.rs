// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A copy of a capture without the metadata that no later trace needs. The copy is made while the
//! original is being written, and then takes its place.
//!
//! Positions in the metadata stream stay what they were, because the ring counts them, too: the
//! records that are kept stand directly before the position at which the copy was begun, and the
//! header says where the first one is ([`crate::Header::metadata_from`]).

use std::io;
use std::path::{Path, PathBuf};

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec as VecIn;
use jportal_units::Tsc;

use super::{CaptureCopy, CaptureWriter, PREAMBLE, copy_streams};
use crate::chunk::{HEAD, Head, Kind};
use crate::codec::{Source, Wire};
use crate::create::Earlier;
use crate::error::Error;
use crate::frames::{FrameHeader, FrameTracker, decode_frame};
use crate::header::Header;
use crate::schema::FRAME_HEADER;
use crate::trim::{Kept, Trim};
use crate::{names, reader};

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

type EachChunk<'a> = dyn FnMut(&Head, &[u8]) -> Result<(), Error> + 'a;
type EachFrame<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 'a;

/// A trimmed copy. Its file is removed unless it takes the original's place.
#[derive(Debug)]
pub struct TrimmedCopy<A> {
    writer: Option<Box<CaptureWriter>>,
    path: PathBuf,
    /// Device and inode of the original.
    original: Option<(u64, u64)>,
    /// Up to where the original's file has been read.
    read: u64,
    /// Has the buffers.
    memory: A,
}

impl CaptureCopy {
    /// Copies to the new file `path` what a trace needs that shows nothing before `horizon`. Asks
    /// now and then whether the copy `is_wanted` still. Tables and buffers are in `memory`.
    ///
    /// # Errors
    /// Those of reading the file and of [`CaptureWriter::create_safely`]; also when the metadata
    /// does not end at a record boundary, and [`Error::Closed`] when the copy is not wanted.
    pub fn trimmed_to<A: Allocator + Clone>(
        self,
        path: &Path,
        uid: u32,
        horizon: Tsc,
        is_wanted: &dyn Fn() -> bool,
        memory: A,
    ) -> Result<TrimmedCopy<A>, Error> {
        let mut trim = Trim::new(horizon, memory.clone());
        let mut lengths = VecIn::new_in(memory.clone());
        let header = self.each_frame(is_wanted, &memory, &mut |at, frame| {
            lengths.try_reserve(1).map_err(|_| Error::Memory { bytes: lengths.len() as u64 })?;
            lengths.push(frame.len() as u32);
            match decode_frame(frame, at)? {
                Some((stamped, _)) => trim.pass(&stamped),
                None => Ok(()),
            }
        })?;
        let kept = trim.finish()?;
        let kept_bytes = |(n, len): (usize, &u32)| if kept.has(n) { u64::from(*len) } else { 0 };
        let left: u64 = lengths.iter().enumerate().map(kept_bytes).sum();
        drop(lengths);
        let (mut writer, path) = CaptureWriter::create_safely(path, Earlier::Rename, uid)?;
        writer.seal_with(self.sealer);
        writer.metadata_from = self.written.metadata - left;
        writer.written.metadata = writer.metadata_from;
        writer.frames = FrameTracker::starting_at(writer.metadata_from);
        let (original, read) = (self.identity(), self.written.file);
        let mut copy = TrimmedCopy { writer: Some(Box::new(writer)), path, original, read, memory };
        copy.writer()?.header(&header)?;
        copy.fill(&self, &kept, is_wanted)?;
        Ok(copy)
    }

    /// The chunks of the file from `place` to `end`.
    fn each_chunk(
        &self,
        mut place: u64,
        end: u64,
        memory: &(impl Allocator + Clone),
        f: &mut EachChunk<'_>,
    ) -> Result<(), Error> {
        let mut payload = VecIn::new_in(memory.clone());
        while place < end {
            let head = self.head_at(&self.source, place)?;
            let len = head.len as usize;
            payload.clear();
            payload.try_reserve(len).map_err(|_| Error::Memory { bytes: len as u64 })?;
            payload.resize(len, 0);
            reader::read_at(&self.source, &mut payload, place + HEAD as u64)?;
            let found = self.sealer.crc(&payload);
            if found != head.payload_crc {
                let kind = head.kind.name();
                return Err(Error::Checksum { kind, place, len: head.len, found, stored: head.payload_crc });
            }
            f(&head, &payload)?;
            place += head.chunk_len();
        }
        Ok(())
    }

    /// Calls `f` with each frame of the metadata and its offset in the stream. Returns the last
    /// header of the file.
    fn each_frame(
        &self,
        is_wanted: &dyn Fn() -> bool,
        memory: &(impl Allocator + Clone),
        f: &mut EachFrame<'_>,
    ) -> Result<Header, Error> {
        let (mut header, mut rest, mut at) = (None, VecIn::new_in(memory.clone()), self.metadata_from);
        self.each_chunk(PREAMBLE as u64, self.written.file, memory, &mut |head, payload| {
            if head.kind == Kind::Header {
                match Header::decode(&mut Source::new(payload)) {
                    Ok(later) => header = Some(later),
                    Err(e) => e.memory().map_or(Ok(()), Err)?,
                }
            }
            if head.kind != Kind::Metadata {
                return Ok(());
            }
            if !is_wanted() {
                return Err(Error::Closed);
            }
            rest.try_reserve(payload.len()).map_err(|_| Error::Memory { bytes: payload.len() as u64 })?;
            rest.extend_from_slice(payload);
            let mut used = 0;
            while let Some(FrameHeader { len, .. }) = FrameHeader::read(&rest[used..]) {
                if len < FRAME_HEADER {
                    return Err(Error::FrameLength { at, len: len as u32 });
                }
                let Some(frame) = rest.get(used..used + len) else { break };
                f(at, frame)?;
                used += len;
                at += len as u64;
            }
            rest.drain(..used);
            Ok(())
        })?;
        if !rest.is_empty() {
            return Err(Error::MetadataTorn { at, bytes: rest.len() as u64 });
        }
        header.ok_or(Error::HeaderFirst)
    }
}

impl<A: Allocator + Clone> TrimmedCopy<A> {
    fn writer(&mut self) -> Result<&mut CaptureWriter, Error> {
        self.writer.as_deref_mut().ok_or(Error::Closed)
    }

    /// Writes the records that are kept.
    fn fill(
        &mut self,
        original: &CaptureCopy,
        kept: &Kept<impl Allocator>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let memory = self.memory.clone();
        let writer = self.writer()?;
        let mut piece = VecIn::new_in(memory.clone());
        piece.try_reserve(PIECE).map_err(|_| Error::Memory { bytes: PIECE as u64 })?;
        let mut number = 0;
        original.each_frame(is_wanted, &memory, &mut |_, frame| {
            if kept.has(number) {
                piece.try_reserve(frame.len()).map_err(|_| Error::Memory { bytes: frame.len() as u64 })?;
                piece.extend_from_slice(frame);
            }
            number += 1;
            if piece.len() >= PIECE {
                writer.metadata(&piece)?;
                piece.clear();
            }
            Ok(())
        })?;
        writer.metadata(&piece)
    }

    /// Copies what was written to `original` meanwhile. Returns the number of bytes.
    ///
    /// # Errors
    /// Those of reading the original and of writing the copy.
    pub fn catch_up(&mut self, original: &CaptureCopy) -> Result<u64, Error> {
        let (from, to, memory) = (self.read, original.written.file, self.memory.clone());
        let writer = self.writer()?;
        original.each_chunk(from, to, &memory, &mut |head, payload| match head.kind {
            Kind::Header => {
                let refused = |source| Error::Chunk { kind: head.kind.name(), place: from, source };
                let header = Header::decode(&mut Source::new(payload));
                writer.header(&header.map_err(|e| e.or_memory(refused))?)
            }
            Kind::Metadata => writer.metadata(payload),
            // The copy has an index of its own.
            Kind::Index => Ok(()),
            _ => writer.listed_chunk(head, payload),
        })?;
        copy_streams(&original.streams, &mut writer.streams)?;
        (writer.written.pt, writer.written.sideband) = (original.written.pt, original.written.sideband);
        writer.cuts.clear();
        self.read = to;
        Ok(to - from)
    }

    /// Device and inode of the copy.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.writer.as_deref().and_then(CaptureWriter::identity)
    }

    /// Gives the copy the name `path`, in place of the original, and returns the writer that
    /// continues it.
    ///
    /// # Errors
    /// [`Error::Open`] when the system refuses, [`Error::Foreign`] when another file has the name.
    /// What has the name then keeps it.
    pub fn take_place(self, path: &Path) -> Result<CaptureWriter, Error> {
        self.take_place_by(path, names::exchange)
    }

    /// The same with the function that exchanges two names, or says that it cannot.
    fn take_place_by(
        mut self,
        path: &Path,
        exchange: impl Fn(&Path, &Path) -> io::Result<bool>,
    ) -> Result<CaptureWriter, Error> {
        let open = |source| Error::Open { path: path.to_owned(), source };
        let what = "it is not the file that is recorded to";
        let foreign = || Error::Foreign { path: path.to_owned(), what };
        if !exchange(&self.path, path).map_err(open)? {
            // Somebody may put another file there between the look and the renaming.
            if !self.is_original(path) {
                return Err(foreign());
            }
            std::fs::rename(&self.path, path).map_err(open)?;
        } else if self.is_original(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        } else {
            exchange(path, &self.path).map_err(open)?;
            return Err(foreign());
        }
        self.writer.take().map(|writer| *writer).ok_or(Error::Closed)
    }

    fn is_original(&self, path: &Path) -> bool {
        self.original.is_some() && names::identity_at(path) == self.original
    }
}

impl<A> Drop for TrimmedCopy<A> {
    fn drop(&mut self) {
        // By the name, but nothing else that has it.
        let own = self.writer.as_deref().and_then(CaptureWriter::identity);
        if own.is_some() && own == names::identity_at(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::alloc::Global;
    use std::fs::{metadata, read, rename, write};
    use std::os::unix::fs::MetadataExt;

    /// Gives a copy the name of a capture, which another file has if `taken`.
    fn take_place(taken: bool, exchange: impl Fn(&Path, &Path) -> io::Result<bool>) {
        let folder = tempfile::tempdir().unwrap();
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let file = |name| folder.path().join(name);
        let mut writer = CaptureWriter::create(&file("a")).unwrap();
        writer.header(&Header::default()).unwrap();
        let user = metadata(folder.path()).unwrap().uid();
        let copy =
            writer.copy().unwrap().trimmed_to(&file("a.trim"), user, Tsc(0), &|| true, Global).unwrap();
        if taken {
            rename(file("a"), file("moved")).unwrap();
            write(file("a"), "mine").unwrap();
            let error = copy.take_place_by(&file("a"), exchange).unwrap_err();
            assert!(matches!(error, Error::Foreign { .. }), "{error}");
            assert!(read(file("a")).unwrap() == b"mine" && files() == 2);
            writer.look().unwrap();
        } else {
            let new = copy.take_place_by(&file("a"), exchange).unwrap();
            assert!(new.identity() == names::identity_at(&file("a")) && files() == 1);
            assert!(matches!(writer.look(), Err(Error::Deleted)));
        }
    }

    #[test]
    fn a_copy_takes_the_place_of_its_original_only() {
        for taken in [false, true] {
            take_place(taken, names::exchange);
            // A file system that cannot exchange names.
            take_place(taken, |_, _| Ok(false));
        }
    }
}
