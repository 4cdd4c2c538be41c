// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The end of a capture, also where the disk has no room for it.

use std::io::{Seek, SeekFrom};

use super::{CaptureWriter, Written};
use crate::chunk::{Counter, End, EndReason, HEAD, Head, Kind};
use crate::codec::Wire;
use crate::error::Error;

/// How many places [`Cuts`] knows.
const CUTS: usize = 64;
/// Of the places that are at least this far from the end of the file, [`Cuts`] keeps the last one:
/// it has room for an end chunk with a long reason, in bytes.
const ROOM: u64 = 16 << 10;

/// The state of a writer at the end of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutPlace {
    pub(super) written: Written,
    /// Where the last chunk begins.
    pub(super) last: u64,
}

/// Places near the end of the file at which it can be cut.
#[derive(Debug)]
pub(super) struct Cuts(Vec<CutPlace>);

impl Cuts {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(CUTS))
    }

    /// Forgets all places: their numbers are not those of the chunks before them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the place before a chunk that ends at `end`. A capture keeps its first chunk, the
    /// header. Allocates nothing.
    pub(super) fn add(&mut self, before: CutPlace, end: u64) {
        if before.written.chunks == 0 {
            return;
        }
        if self.0.len() == CUTS {
            self.0.remove(0);
        }
        self.0.push(before);
        let is_far = |cut: &CutPlace| end.saturating_sub(cut.written.file) >= ROOM;
        let far = self.0.iter().take_while(|cut| is_far(cut)).count();
        self.0.drain(..far.saturating_sub(1));
    }
}

impl CaptureWriter {
    /// Writes the last index chunk and the end chunk. The end is tried even after an earlier
    /// failure, because a reason in the file is better than none. If there is no room for both,
    /// the index is left out.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Write`].
    pub fn finish(mut self, reason: EndReason, text: &str, counters: Vec<Counter>) -> Result<Written, Error> {
        self.put_index_and_end(&mut end(reason, text, counters))?;
        Ok(self.written)
    }

    /// As [`CaptureWriter::finish`], for a recording, which cannot be finished later. If there is
    /// no room for the end, it takes the place of the last chunks, and its reason is
    /// [`EndReason::Failed`].
    ///
    /// # Errors
    /// As [`CaptureWriter::finish`]. [`Error::DiskFull`], too, if the end was written, but not
    /// with `reason`.
    pub fn finish_regardless(
        mut self,
        reason: EndReason,
        text: &str,
        counters: Vec<Counter>,
    ) -> Result<Written, Error> {
        let mut end = end(reason, text, counters);
        match self.put_index_and_end(&mut end) {
            Err(full @ Error::DiskFull { .. }) if reason == EndReason::Failed => {
                self.put_earlier_end(end, text, full)?;
            }
            Err(full @ Error::DiskFull { written }) => {
                end.reason = EndReason::Failed;
                self.put_earlier_end(end, &full.to_string(), full)?;
                return Err(Error::DiskFull { written });
            }
            result => result?,
        }
        Ok(self.written)
    }

    fn put_index_and_end(&mut self, end: &mut End) -> Result<(), Error> {
        self.retry();
        let before = CutPlace { written: self.written, last: self.last };
        let listed = self.put_index();
        match (self.put_end(end, listed), listed) {
            (Err(Error::DiskFull { .. } | Error::Write { .. }), 1..) => {
                self.cut_back(before.written.file);
                (self.written, self.last) = (before.written, before.last);
                self.retry();
                self.put_end(end, 0)
            }
            (result, _) => result,
        }
    }

    /// Writes the end chunk over the last chunks, where the file has its room already, and cuts
    /// off what is left of them. `full` is the error if nothing can make way.
    fn put_earlier_end(&mut self, mut end: End, text: &str, full: Error) -> Result<(), Error> {
        let file = self.written.file;
        let cuts = std::mem::replace(&mut self.cuts, Cuts(Vec::new())).0;
        for cut in cuts.into_iter().rev().filter(|cut| cut.written.file < file) {
            let place = cut.written.file;
            let room = file - place;
            end.text =
                format!("{text}; the last {room} bytes of the file made way for this end").as_str().into();
            if self.payload(&mut end).len() as u64 + HEAD as u64 > room {
                continue;
            }
            let write = |source| Error::Write { place, source };
            self.file.seek(SeekFrom::Start(place)).map_err(write)?;
            (self.written, self.last) = (cut.written, cut.last);
            self.retry();
            self.put_end(&mut end, 0)?;
            return self.file.set_len(self.written.file).map_err(write);
        }
        Err(full)
    }

    /// The payload of the end chunk, with the numbers of what has been written.
    fn payload(&self, end: &mut End) -> Vec<u8> {
        let Written { metadata, pt, sideband, chunks, .. } = self.written;
        (end.metadata_bytes, end.pt_bytes, end.sideband_bytes) = (metadata, pt, sideband);
        end.chunks = chunks;
        let mut payload = Vec::new();
        end.encode(&mut payload);
        payload
    }

    /// Writes the end chunk. `listed` is the length of the payload of the index chunk before it.
    fn put_end(&mut self, end: &mut End, listed: u32) -> Result<(), Error> {
        let payload = self.payload(end);
        let payload_crc = self.sealer.crc(&payload);
        let head = Head { kind: Kind::End, len: payload.len() as u32, aux: listed, offset: 0, payload_crc };
        self.put_chunk(&head, &payload)
    }
}

/// An end chunk, without the numbers of what has been written.
fn end(reason: EndReason, text: &str, counters: Vec<Counter>) -> End {
    End { reason, text: text.into(), metadata_bytes: 0, pt_bytes: 0, sideband_bytes: 0, chunks: 0, counters }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `n` chunks of `len` bytes, and returns the places that are left.
    fn places(n: u64, len: u64) -> Vec<u64> {
        let mut cuts = Cuts::new();
        let before = cuts.0.capacity();
        for chunk in 0..n {
            let written = Written { chunks: chunk, file: chunk * len, ..Written::default() };
            cuts.add(CutPlace { written, last: 0 }, (chunk + 1) * len);
        }
        assert_eq!(cuts.0.capacity(), before, "a recording has to allocate");
        cuts.0.iter().map(|cut| cut.written.file).collect()
    }

    #[test]
    fn the_places_are_as_many_as_an_end_needs() {
        assert_eq!(places(1, 33), [], "the header stays");
        // One is far enough back; those before it are forgotten.
        assert_eq!(places(50, ROOM), [49 * ROOM]);
        assert_eq!(places(50, ROOM / 2 + 1), [48, 49].map(|n| n * (ROOM / 2 + 1)));
        // The newest, however small they are.
        let small: Vec<_> = (1000 - CUTS as u64..1000).map(|n| n * 33).collect();
        assert_eq!(places(1000, 33), small);
    }
}
