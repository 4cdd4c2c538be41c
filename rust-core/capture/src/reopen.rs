// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Continues a capture whose process died.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::Path;

use crate::error::Error;
use crate::frames::FrameTracker;
use crate::index::scan;
use crate::lists::IndexBuilder;
use crate::reader::{CaptureReader, Piece};
use crate::writer::{CaptureWriter, StreamEnds, Written};

impl CaptureWriter {
    /// Opens a capture without an end chunk, drops a torn tail and continues after the last
    /// whole chunk: metadata continues at [`Written::metadata`], PT where it stopped.
    ///
    /// # Errors
    /// Those of [`CaptureReader::open`]; [`Error::Complete`] when the recording ended properly;
    /// [`Error::Write`] when the tail cannot be dropped.
    pub fn reopen(path: &Path) -> Result<Self, Error> {
        // An index would hide that a head is damaged, and readers walk over the heads afterwards.
        let reader = CaptureReader::open_without_index(path)?;
        if reader.completeness().end.is_some() {
            return Err(Error::Complete { path: path.to_owned() });
        }
        let place = reader.good_end();
        let write = |source| Error::Write { place, source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| Error::Open { path: path.to_owned(), source })?;
        file.set_len(place).map_err(write)?;
        file.seek(SeekFrom::Start(place)).map_err(write)?;
        let index = index(&reader, &file, place)?;
        let from = reader.header().metadata_from.0;
        Ok(Self::resume(file, written(&reader), tracker(&reader)?, streams(&reader), index, from))
    }
}

/// What the next index chunk lists. A damaged file gets no index: it could not cover the file.
fn index(reader: &CaptureReader, file: &File, end: u64) -> Result<IndexBuilder, Error> {
    let mut index = IndexBuilder::new();
    if reader.completeness().damaged.is_empty() {
        let found = scan(file, end)?;
        index = IndexBuilder::resume(found.entries.iter().map(|entry| (entry.place, &entry.head)));
    } else {
        index.give_up();
    }
    Ok(index)
}

fn streams(reader: &CaptureReader) -> Vec<StreamEnds> {
    let mut ends = Vec::new();
    for core in reader.cores() {
        ends.resize(core.get() as usize + 1, StreamEnds::default());
        if let Some(last) = ends.last_mut() {
            last.pt = reader.pt(core).last().map_or(0, Piece::end);
            last.sideband = reader.sideband(core).last().map_or(0, Piece::end);
        }
    }
    ends
}

fn written(reader: &CaptureReader) -> Written {
    let bytes = |pieces: &[Piece]| pieces.iter().map(|p| u64::from(p.len)).sum::<u64>();
    let cores = reader.cores();
    Written {
        metadata: reader.metadata_pieces().last().map_or(reader.header().metadata_from.0, Piece::end),
        pt: cores.iter().map(|&c| bytes(reader.pt(c))).sum(),
        sideband: cores.iter().map(|&c| bytes(reader.sideband(c))).sum(),
        chunks: reader.chunks(),
        file: reader.good_end(),
    }
}

/// A tracker of record boundaries at the end of the metadata stream.
fn tracker(reader: &CaptureReader) -> Result<FrameTracker, Error> {
    let pieces = reader.metadata_pieces();
    let Some(i) = pieces.iter().rposition(|p| p.first_record.is_some()) else {
        return Ok(FrameTracker::starting_at(written(reader).metadata));
    };
    let first = pieces[i].first_record.unwrap_or(0);
    let mut tracker = FrameTracker::starting_at(pieces[i].offset.saturating_add(first.into()));
    let mut skip = first as usize;
    for piece in &pieces[i..] {
        let bytes = reader.read(piece)?;
        tracker.advance(bytes.get(skip..).unwrap_or(&[]))?;
        skip = 0;
    }
    Ok(tracker)
}
