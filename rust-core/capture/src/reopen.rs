// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Continues a capture whose process died.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::geteuid;

use crate::error::Error;
use crate::frames::FrameTracker;
use crate::held;
use crate::index::scan;
use crate::lists::IndexBuilder;
use crate::reader::{CaptureReader, Piece};
use crate::writer::{CaptureWriter, StreamEnds, Written};

impl CaptureWriter {
    /// Opens a capture of the calling user without an end chunk, drops a torn tail and continues
    /// after the last whole chunk: metadata continues at [`Written::metadata`], PT where it
    /// stopped. Follows no link: the folder may be somebody else's.
    ///
    /// # Errors
    /// Those of [`CaptureReader::open`]; [`Error::Complete`] when the recording ended properly;
    /// [`Error::NotOwner`]; [`Error::Live`] when somebody writes to it; [`Error::Write`] when the
    /// tail cannot be dropped.
    pub fn reopen(path: &Path) -> Result<Self, Error> {
        reopen(open_to_continue(path)?, path, geteuid().as_raw())
    }
}

/// Opens a capture for reading and writing, without following a link or waiting for the other end
/// of a pipe.
pub(crate) fn open_to_continue(path: &Path) -> Result<File, Error> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    file.map_err(|source| Error::Open { path: path.to_owned(), source })
}

/// Continues the capture that is open as `file`, for the user `uid`. What is read and what is
/// changed are the same file, whatever has the name meanwhile.
pub(crate) fn reopen(mut file: File, path: &Path, uid: u32) -> Result<CaptureWriter, Error> {
    let open = |source| Error::Open { path: path.to_owned(), source };
    // An index would hide that a head is damaged, and readers walk over the heads afterwards.
    let reader = CaptureReader::of_file(file.try_clone().map_err(open)?, path)?;
    if reader.completeness().end.is_some() {
        return Err(Error::Complete { path: path.to_owned() });
    }
    let owner = file.metadata().map_err(open)?.uid();
    if owner != uid {
        return Err(Error::NotOwner { path: path.to_owned(), owner });
    }
    if !held::take(&file) {
        return Err(Error::Live { path: path.to_owned() });
    }
    let place = reader.good_end();
    let write = |source| Error::Write { place, source };
    file.set_len(place).map_err(write)?;
    file.seek(SeekFrom::Start(place)).map_err(write)?;
    let index = index(&reader, &file, place)?;
    let (written, tracker, streams) = (written(&reader), tracker(&reader)?, streams(&reader));
    let from = reader.header().metadata_from.0;
    Ok(CaptureWriter::resume(file, written, tracker, streams, index, from))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;
    use std::io::Write;

    #[test]
    fn a_capture_of_another_user_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut writer = CaptureWriter::create(&path).unwrap();
        writer.header(&Header::default()).unwrap();
        let whole = writer.written().file;
        drop(writer);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
        let user = folder.path().metadata().unwrap().uid();
        let len = || path.metadata().unwrap().len();
        let error = reopen(open_to_continue(&path).unwrap(), &path, user + 1).unwrap_err().to_string();
        assert!(error.contains(&format!("user {user} owns it; run the command as")), "{error}");
        assert_eq!(len(), whole + 4);
        // Somebody continues it at the same time.
        let first = CaptureWriter::reopen(&path).unwrap();
        assert_eq!(len(), whole);
        assert!(matches!(CaptureWriter::reopen(&path), Err(Error::Live { .. })));
        drop(first);
        CaptureWriter::reopen(&path).unwrap();
    }
}
