// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads the packets of a core's stream, piece by piece.

use crate::error::Error;
use jportal_capture::CaptureReader;
use jportal_pt_packet::{BlockItemSize, Error as PacketError, PSB, Packet, decode_packet, find_psb};
use jportal_units::{Core, StreamOffset};

/// A packet, or bytes that are not a packet, with its place in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// Offset of the first byte.
    pub offset: u64,
    /// All bytes.
    pub bytes: &'a [u8],
    /// `None`: undecodable bytes, up to the next PSB.
    pub packet: Option<Packet>,
    /// Trace was lost before it.
    pub after_loss: bool,
    /// The beginning of a packet whose rest was lost.
    pub is_cut_off: bool,
}

/// Bytes of undecodable trace passed on at a time.
const RAW: usize = 4096;

/// Passes all packets of `core` to `take`, in order. `losses`: offsets after which trace was
/// lost although no bytes are missing, ascending. Memory is bounded by the capture's pieces.
pub(crate) fn for_each(
    reader: &CaptureReader,
    core: Core,
    losses: &[u64],
    mut take: impl FnMut(Unit<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut run = ByteRun { losses, ..ByteRun::default() };
    let mut piece_bytes = Vec::new();
    for piece in reader.pt(core) {
        if piece.offset != run.end() {
            run.drain(true, &mut take)?;
            let loss = piece.offset != 0;
            run = ByteRun { base: piece.offset, loss, losses: run.losses, ..ByteRun::default() };
        }
        reader.read_into(piece, &mut piece_bytes)?;
        run.bytes.extend_from_slice(&piece_bytes);
        run.drain(false, &mut take)?;
    }
    run.drain(true, &mut take)
}

/// Contiguous bytes that were not passed on.
#[derive(Default)]
struct ByteRun<'l> {
    bytes: Vec<u8>,
    base: u64,
    /// Trace was lost before the next unit.
    loss: bool,
    /// The losses that follow.
    losses: &'l [u64],
    /// No packets can be decoded before the next PSB.
    lost: bool,
    block: Option<BlockItemSize>,
}

impl ByteRun<'_> {
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// If trace was lost before `offset`, decoding starts anew there.
    fn pass_losses(&mut self, offset: u64) {
        while let Some((_, rest)) = self.losses.split_first().filter(|(l, _)| **l <= offset) {
            self.losses = rest;
            (self.loss, self.lost, self.block) = (true, false, None);
        }
    }

    /// Passes on the whole packets; at the end of the run (`last`), everything.
    fn drain(
        &mut self,
        last: bool,
        take: &mut impl FnMut(Unit<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = 0;
        while at < self.bytes.len() {
            let offset = self.base + at as u64;
            self.pass_losses(offset);
            let here = self.losses.first().map_or(usize::MAX, |l| (l - self.base) as usize);
            let rest = &self.bytes[at..here.min(self.bytes.len())];
            let cut = here <= self.bytes.len();
            let last = last || cut;
            let mut is_cut_off = false;
            let (len, packet) = if self.lost {
                match skipped(rest, last) {
                    Skip::Psb => {
                        (self.lost, self.block) = (false, None);
                        continue;
                    }
                    Skip::Bytes(0) => break,
                    Skip::Bytes(len) => (len, None),
                }
            } else {
                match decode_packet(rest, StreamOffset(offset), &mut self.block) {
                    Ok((packet, len)) => (len, Some(packet)),
                    Err(PacketError::Truncated { .. }) if !last => break,
                    Err(PacketError::Truncated { .. }) if cut => {
                        is_cut_off = true;
                        (rest.len(), None)
                    }
                    Err(_) => {
                        self.lost = true;
                        (1, None)
                    }
                }
            };
            let after_loss = std::mem::take(&mut self.loss);
            take(Unit { offset, bytes: &rest[..len], packet, after_loss, is_cut_off })?;
            at += len;
        }
        self.bytes.drain(..at);
        self.base += at as u64;
        Ok(())
    }
}

/// The content of a place where no packet could be decoded.
enum Skip {
    /// A PSB.
    Psb,
    /// This many bytes that certainly belong to no packet.
    Bytes(usize),
}

fn skipped(rest: &[u8], last: bool) -> Skip {
    let window = &rest[..rest.len().min(RAW + PSB.len() - 1)];
    match find_psb(window, 0) {
        Some(0) => Skip::Psb,
        Some(at) => Skip::Bytes(at),
        None if last && window.len() == rest.len() => Skip::Bytes(window.len()),
        None => Skip::Bytes(window.len().saturating_sub(PSB.len() - 1)),
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
