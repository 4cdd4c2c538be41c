// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The metadata stream as a sequence of records.

use crate::error::Error;
use crate::frames::{FrameHeader, decode_frame};
use crate::reader::{CaptureReader, Piece};
use crate::schema::{FRAME_HEADER, Stamped};

/// The records of a capture in commit order.
///
/// An error does not end the iteration. After a record that cannot be decoded, the iteration
/// continues with the next record; after missing bytes, with the first record that begins after
/// them.
#[derive(Debug)]
pub struct MetadataRecords<'a> {
    reader: &'a CaptureReader,
    pieces: std::slice::Iter<'a, Piece>,
    /// Stream bytes not consumed yet: `buffer[at..]`.
    buffer: Vec<u8>,
    at: usize,
    /// Stream offset of `buffer[at]`.
    offset: u64,
    /// The stream does not continue at the buffer's end: look for the next piece in which a
    /// record begins.
    lost: bool,
    /// An error to return before the next record.
    pending: Option<Error>,
}

impl<'a> MetadataRecords<'a> {
    pub(crate) fn new(reader: &'a CaptureReader) -> Self {
        let pieces = reader.metadata_pieces();
        // No header can make a piece precede the stream.
        let first = pieces.first().map_or(u64::MAX, |piece| piece.offset);
        Self {
            reader,
            pieces: pieces.iter(),
            buffer: Vec::new(),
            at: 0,
            offset: reader.header().metadata_from.0.min(first),
            lost: false,
            pending: None,
        }
    }

    /// The record at the cursor, if all of it is in the buffer.
    fn take(&mut self) -> Option<Result<Stamped, Error>> {
        let rest = &self.buffer[self.at..];
        let len = FrameHeader::read(rest)?.len;
        match decode_frame(rest, self.offset) {
            Ok(None) => None,
            Ok(Some((stamped, len))) => {
                self.advance(len);
                Some(Ok(stamped))
            }
            Err(e) if len < FRAME_HEADER => {
                // Without the length the next record boundary is unknown.
                self.drop_buffer();
                Some(Err(e))
            }
            Err(e) => {
                self.advance(len);
                Some(Err(e))
            }
        }
    }

    fn advance(&mut self, n: usize) {
        self.at += n;
        self.offset += n as u64;
    }

    /// Gives up on the record at the cursor; `offset` still is its start.
    fn drop_buffer(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.lost = true;
    }

    /// Adds the next piece to the buffer; returns whether there was one.
    fn load(&mut self) -> bool {
        let Some(piece) = self.pieces.next() else { return false };
        match self.reader.read(piece) {
            Err(e) => {
                self.pending = Some(e);
                self.drop_buffer();
            }
            Ok(bytes) => self.join(piece, &bytes),
        }
        true
    }

    fn join(&mut self, piece: &Piece, bytes: &[u8]) {
        let end = self.offset + (self.buffer.len() - self.at) as u64;
        if piece.offset != end && !self.lost {
            self.drop_buffer();
        }
        if !self.lost {
            self.buffer.drain(..self.at);
            self.at = 0;
            self.buffer.extend_from_slice(bytes);
            return;
        }
        let Some(first) = piece.first_record else { return };
        let Some(rest) = bytes.get(first as usize..) else { return };
        let to = piece.offset + u64::from(first);
        self.pending.get_or_insert(Error::MetadataHole { from: self.offset, to });
        self.buffer.clear();
        self.buffer.extend_from_slice(rest);
        (self.at, self.offset, self.lost) = (0, to, false);
    }

    /// Reports, once, a record that the end of the stream cuts off.
    fn rest(&mut self) -> Option<Result<Stamped, Error>> {
        let bytes = (self.buffer.len() - self.at) as u64;
        let at = self.offset;
        self.drop_buffer();
        (bytes > 0).then_some(Err(Error::MetadataTorn { at, bytes }))
    }
}

impl Iterator for MetadataRecords<'_> {
    type Item = Result<Stamped, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(e) = self.pending.take() {
                return Some(Err(e));
            }
            if let Some(record) = self.take() {
                return Some(record);
            }
            if !self.load() {
                return self.rest();
            }
        }
    }
}
