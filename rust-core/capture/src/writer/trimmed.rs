// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A copy of a capture without the metadata that no later trace needs. The copy is made while the
//! original is being written, and then takes its place.
//!
//! Positions in the metadata stream stay what they were, because the ring counts them, too: the
//! records that are kept stand directly before the position at which the copy was begun, and the
//! header says where the first one is ([`crate::Header::metadata_from`]).

use std::path::{Path, PathBuf};

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec as VecIn;
use jportal_units::Tsc;

use super::{CaptureCopy, CaptureWriter, PREAMBLE};
use crate::chunk::{HEAD, Head, Kind};
use crate::codec::{Source, Wire};
use crate::create::Earlier;
use crate::error::Error;
use crate::frames::{FrameHeader, FrameTracker, decode_frame};
use crate::header::Header;
use crate::reader;
use crate::schema::FRAME_HEADER;
use crate::trim::{Kept, Trim};

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

type EachChunk<'a> = dyn FnMut(&Head, &[u8]) -> Result<(), Error> + 'a;
type EachFrame<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 'a;

/// A trimmed copy. Its file is removed unless it takes the original's place.
#[derive(Debug)]
pub struct TrimmedCopy<A> {
    writer: Option<CaptureWriter>,
    path: PathBuf,
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
        let mut copy = TrimmedCopy { writer: Some(writer), path, read: self.written.file, memory };
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
                header = Header::decode(&mut Source::new(payload)).ok().or(header.take());
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
        self.writer.as_mut().ok_or(Error::Closed)
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
                let source = |source| Error::Chunk { kind: head.kind.name(), place: from, source };
                writer.header(&Header::decode(&mut Source::new(payload)).map_err(source)?)
            }
            Kind::Metadata => writer.metadata(payload),
            // The copy has an index of its own.
            Kind::Index => Ok(()),
            _ => writer.listed_chunk(head, payload),
        })?;
        writer.streams.clone_from(&original.streams);
        (writer.written.pt, writer.written.sideband) = (original.written.pt, original.written.sideband);
        self.read = to;
        Ok(to - from)
    }

    /// Device and inode of the copy.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.writer.as_ref().and_then(CaptureWriter::identity)
    }

    /// Gives the copy the name `path`, in place of the original, and returns the writer that
    /// continues it.
    ///
    /// # Errors
    /// [`Error::Open`] when the system refuses. The original is then untouched.
    pub fn take_place(mut self, path: &Path) -> Result<CaptureWriter, Error> {
        let writer = self.writer.take().ok_or(Error::Closed)?;
        match std::fs::rename(&self.path, path) {
            Ok(()) => Ok(writer),
            Err(source) => {
                self.writer = Some(writer);
                Err(Error::Open { path: path.to_owned(), source })
            }
        }
    }
}

impl<A> Drop for TrimmedCopy<A> {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
