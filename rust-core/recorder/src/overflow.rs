// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The records that wait in memory because the ring is full: a queue of bytes with a limit.
//!
//! Every allocation is fallible, because producers call this under locks of the VM.

use jportal_capture::schema::FRAME_HEADER;
use std::collections::VecDeque;

/// Bytes of one piece of the queue.
const PIECE: usize = 256 << 10;

/// The queue.
#[derive(Debug)]
pub(crate) struct Overflow {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that were taken out.
    taken: usize,
    len: usize,
    limit: usize,
}

/// The queue has reached its limit, or there is no memory.
#[derive(Debug)]
pub(crate) struct OverflowFull;

impl Overflow {
    pub(crate) fn new(limit: usize) -> Self {
        Self { pieces: VecDeque::new(), taken: 0, len: 0, limit }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the parts of one record, all or none of them.
    pub(crate) fn push(&mut self, parts: [&[u8]; 2]) -> Result<(), OverflowFull> {
        let len = parts[0].len() + parts[1].len();
        if len > self.limit - self.len {
            return Err(OverflowFull);
        }
        self.reserve(len)?;
        for part in parts {
            self.append(part);
        }
        self.len += len;
        Ok(())
    }

    /// Makes room for `len` bytes, so that [`Overflow::append`] allocates nothing.
    fn reserve(&mut self, len: usize) -> Result<(), OverflowFull> {
        let free = |piece: &Vec<u8>| piece.capacity() - piece.len();
        let mut missing = len.saturating_sub(self.pieces.back().map_or(0, free));
        let before = self.pieces.len();
        while missing > 0 {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(PIECE).is_err() || self.pieces.try_reserve(1).is_err() {
                self.pieces.truncate(before);
                return Err(OverflowFull);
            }
            missing = missing.saturating_sub(piece.capacity());
            self.pieces.push_back(piece);
        }
        Ok(())
    }

    fn append(&mut self, mut bytes: &[u8]) {
        // The new pieces are empty and at the end; the first one with room is among the last.
        let with_room = self.pieces.iter().rposition(|p| !p.is_empty()).unwrap_or(0);
        for piece in self.pieces.iter_mut().skip(with_room) {
            let (now, later) = bytes.split_at(bytes.len().min(piece.capacity() - piece.len()));
            piece.extend_from_slice(now);
            bytes = later;
        }
        debug_assert!(bytes.is_empty(), "`reserve` made room");
    }

    /// The header of the frame at the front; `None` without one. To be called at a record's
    /// beginning only.
    pub(crate) fn front(&self) -> Option<[u8; FRAME_HEADER]> {
        let mut header = [0; FRAME_HEADER];
        if self.len < header.len() {
            return None;
        }
        let bytes = self.pieces.iter().flatten().skip(self.taken);
        header.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        Some(header)
    }

    /// Passes up to `limit` bytes from the front to `to`, in as few pieces as possible, and
    /// removes them. Returns their number.
    pub(crate) fn take(&mut self, limit: usize, mut to: impl FnMut(&[u8])) -> usize {
        let mut left = limit.min(self.len);
        let all = left;
        while let Some(piece) = self.pieces.front().filter(|_| left > 0) {
            let bytes = &piece[self.taken..];
            let n = bytes.len().min(left);
            to(&bytes[..n]);
            left -= n;
            self.taken += n;
            if self.taken == piece.len() {
                self.pieces.pop_front();
                self.taken = 0;
            }
        }
        self.len -= all;
        if self.len == 0 {
            // What is left are at most empty pieces; their memory is the host's again.
            (self.pieces, self.taken) = (VecDeque::new(), 0);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Overflow, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let n = queue.take(limit, |bytes| out.extend_from_slice(bytes));
        assert_eq!(n, out.len());
        out
    }

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut queue = Overflow::new(4 << 20);
        let (mut put, mut got) = (Vec::new(), Vec::new());
        for n in 0..2000u32 {
            let body: Vec<u8> = (0..random.usize(..3000)).map(|i| (i as u32 ^ n) as u8).collect();
            if queue.push([&n.to_le_bytes(), &body]).is_ok() {
                put.extend(n.to_le_bytes());
                put.extend(body);
            }
            if random.u8(..3) == 0 {
                let limit = random.usize(..9000);
                got.extend(taken(&mut queue, limit));
            }
            assert_eq!(queue.len(), put.len() - got.len());
        }
        assert!(put.len() > 2 << 20);
        got.extend(taken(&mut queue, usize::MAX));
        assert!(put == got && queue.is_empty());
    }

    #[test]
    fn a_record_beyond_the_limit_leaves_nothing_behind() {
        let mut queue = Overflow::new(PIECE + 100);
        queue.push([&[1; 16], &[2; PIECE]]).unwrap();
        assert!(queue.push([&[3; 16], &[4; 69]]).is_err());
        assert_eq!(queue.len(), PIECE + 16);
        queue.push([&[3; 16], &[4; 68]]).unwrap();
        assert_eq!(queue.front(), Some([1; 16]));
        assert_eq!(taken(&mut queue, PIECE + 16).len(), PIECE + 16);
        assert_eq!(queue.front(), Some([3; 16]));
    }
}
