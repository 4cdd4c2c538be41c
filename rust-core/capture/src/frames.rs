// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Frames of the metadata stream: the header before each record.

use crate::error::Error;
use crate::schema::{FRAME_HEADER, Record, Stamped};

/// Record boundaries in a piece of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Boundaries {
    /// Where the first record begins.
    pub(crate) first: Option<usize>,
    /// Where the last record that ends in the piece ends.
    pub(crate) end: Option<usize>,
}

/// Follows record boundaries through a stream that arrives in pieces of any length.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameTracker {
    /// Stream offset of the next byte.
    at: u64,
    /// Bytes of the current record that are still missing, once its length is known.
    left: u32,
    /// Number of bytes of the length field seen so far; `len` holds their values.
    seen: u8,
    len: [u8; 4],
}

impl FrameTracker {
    /// A tracker at a record boundary, `at` bytes into the stream.
    pub(crate) fn starting_at(at: u64) -> Self {
        Self { at, ..Self::default() }
    }
    /// Whether the last record is complete.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.left == 0 && self.seen == 0
    }
    /// Where in `piece`, if it comes next, the last record ends. `None` if no record ends in it.
    ///
    /// # Errors
    /// [`Error::FrameLength`].
    pub fn end_of_records(mut self, piece: &[u8]) -> Result<Option<usize>, Error> {
        Ok(self.advance(piece)?.end)
    }
    /// Takes the next piece.
    ///
    /// # Errors
    /// [`Error::FrameLength`].
    pub fn pass(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.advance(piece).map(drop)
    }
    /// Takes the next piece; returns the boundaries in it.
    pub(crate) fn advance(&mut self, piece: &[u8]) -> Result<Boundaries, Error> {
        let mut found = Boundaries::default();
        let mut i = 0;
        while i < piece.len() {
            if self.left > 0 {
                let n = (piece.len() - i).min(self.left as usize);
                self.left -= n as u32;
                i += n;
                self.at += n as u64;
                if self.left == 0 {
                    found.end = Some(i);
                }
                continue;
            }
            if self.seen == 0 {
                found.first.get_or_insert(i);
            }
            self.len[usize::from(self.seen) & 3] = piece[i];
            self.seen += 1;
            i += 1;
            self.at += 1;
            if self.seen == 4 {
                self.begin()?;
            }
        }
        Ok(found)
    }

    fn begin(&mut self) -> Result<(), Error> {
        let len = u32::from_le_bytes(self.len);
        if (len as usize) < FRAME_HEADER {
            return Err(Error::FrameLength { at: self.at - 4, len });
        }
        self.seen = 0;
        self.left = len - 4;
        Ok(())
    }
}

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// Length of header and body.
    pub(crate) len: usize,
    /// Record kind.
    pub(crate) kind: u16,
    /// TSC of the commit.
    pub(crate) tsc: u64,
}

impl FrameHeader {
    /// The header at the start of `b`, `None` when `b` is shorter than one.
    pub(crate) fn read(b: &[u8]) -> Option<Self> {
        let h: &[u8; FRAME_HEADER] = b.first_chunk()?;
        let mut tsc = [0; 8];
        tsc.copy_from_slice(&h[8..16]);
        Some(Self {
            len: u32::from_le_bytes([h[0], h[1], h[2], h[3]]) as usize,
            kind: u16::from_le_bytes([h[4], h[5]]),
            tsc: u64::from_le_bytes(tsc),
        })
    }
}

/// Appends `stamped` as a frame.
pub fn encode_frame(stamped: &Stamped, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(&stamped.record.kind().to_le_bytes());
    to.extend_from_slice(&[0; 2]);
    to.extend_from_slice(&stamped.tsc.to_le_bytes());
    stamped.record.encode(to);
    let len = (to.len() - start) as u32;
    to[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Decodes the frame at the start of `bytes`: the record and the frame's length. `None` when
/// `bytes` holds no whole frame.
///
/// # Errors
/// [`Error::FrameLength`], [`Error::Record`] and [`Error::Memory`]; `at` is the frame's offset in
/// its stream.
pub fn decode_frame(bytes: &[u8], at: u64) -> Result<Option<(Stamped, usize)>, Error> {
    let Some(frame) = FrameHeader::read(bytes) else { return Ok(None) };
    if frame.len < FRAME_HEADER {
        return Err(Error::FrameLength { at, len: frame.len as u32 });
    }
    let Some(body) = bytes.get(FRAME_HEADER..frame.len) else { return Ok(None) };
    let refused = |source| Error::Record { kind: frame.kind, at, source };
    let record = Record::decode(frame.kind, body).map_err(|e| e.or_memory(refused))?;
    Ok(Some((Stamped { tsc: frame.tsc, record }, frame.len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::MethodFreed;

    fn stream(n: u64) -> Vec<u8> {
        let mut b = Vec::new();
        for i in 0..n {
            let record = Record::MethodFreed(MethodFreed { method: i });
            encode_frame(&Stamped { tsc: i, record }, &mut b);
        }
        b
    }

    #[test]
    fn boundaries_are_found_in_any_division() {
        let all = stream(5); // 5 frames of 24 bytes
        for size in 1..all.len() {
            let mut t = FrameTracker::default();
            for (k, piece) in all.chunks(size).enumerate() {
                let from = k * size;
                let first = Some(from.next_multiple_of(24) - from).filter(|n| *n < piece.len());
                let end = ((from + piece.len()) / 24 * 24).checked_sub(from).filter(|n| *n > 0);
                assert_eq!(t.advance(piece).unwrap(), Boundaries { first, end }, "piece {k} of {size}");
            }
        }
    }

    #[test]
    fn a_short_frame_is_refused_with_its_place() {
        let mut bad = stream(2);
        bad[24..28].copy_from_slice(&3u32.to_le_bytes());
        let e = FrameTracker::default().advance(&bad).unwrap_err();
        assert!(matches!(e, Error::FrameLength { at: 24, len: 3 }), "{e}");
    }
}
