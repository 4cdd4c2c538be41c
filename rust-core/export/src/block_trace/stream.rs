// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The words of one thread.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::format::Format;

/// Bytes of words in one zlib stream.
pub(super) const PIECE: usize = 1 << 20;
/// A bci or block that is not known.
pub(super) const NONE: u64 = u32::MAX as u64;

/// A part of an escape.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// One word.
    Word(u64),
    /// 64 bits: one word, or two with the low half first.
    Long(u64),
    /// UTF-8, filled up with zeros.
    Text(&'a str),
}

pub(super) struct Stream<W> {
    out: W,
    format: Format,
    zlib: bool,
    /// Bytes that are written at once.
    full: usize,
    piece: Vec<u8>,
    words: u64,
}

impl<W: Write> Stream<W> {
    pub(super) const fn new(out: W, format: Format, zlib: bool) -> Self {
        let full = if zlib { PIECE } else { 1 << 16 };
        Self { out, format, zlib, full, piece: Vec::new(), words: 0 }
    }
    /// Number of words so far.
    pub(super) const fn words(&self) -> u64 {
        self.words
    }
    #[inline]
    pub(super) fn word(&mut self, word: u64) {
        self.words += 1;
        match self.format {
            Format::Jbi32 => self.piece.extend_from_slice(&(word as u32).to_le_bytes()),
            Format::Jbi64 => self.piece.extend_from_slice(&word.to_le_bytes()),
        }
    }
    pub(super) fn escape(&mut self, kind: u8, operands: &[Operand<'_>]) {
        let bytes = self.format.bytes();
        let words = |operand: &Operand<'_>| match operand {
            Operand::Word(_) => 1,
            Operand::Long(_) => 8 / bytes,
            Operand::Text(text) => text.len().div_ceil(bytes),
        };
        self.word(self.format.escape(kind, operands.iter().map(words).sum()));
        for operand in operands {
            match *operand {
                Operand::Word(word) => self.word(word),
                Operand::Long(long) => {
                    self.word(long);
                    if self.format == Format::Jbi32 {
                        self.word(long >> 32);
                    }
                }
                Operand::Text(text) => {
                    for part in text.as_bytes().chunks(bytes) {
                        let mut word = [0; 8];
                        word[..part.len()].copy_from_slice(part);
                        self.word(u64::from_le_bytes(word));
                    }
                }
            }
        }
    }
    /// Writes the pieces that are full.
    #[inline]
    pub(super) fn drain(&mut self) -> io::Result<()> {
        if self.piece.len() < self.full { Ok(()) } else { self.write_full() }
    }
    fn write_full(&mut self) -> io::Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        let full = piece.len() / self.full * self.full;
        let written = piece[..full].chunks(self.full).try_for_each(|part| self.write(part));
        piece.drain(..full);
        self.piece = piece;
        written
    }
    /// Writes what is left.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.drain()?;
        let rest = std::mem::take(&mut self.piece);
        if !rest.is_empty() {
            self.write(&rest)?;
        }
        self.out.flush()
    }
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if !self.zlib {
            return self.out.write_all(piece);
        }
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(piece.len() / 4), Compression::fast());
        encoder.write_all(piece)?;
        let deflated = encoder.finish()?;
        self.out.write_all(&(deflated.len() as u32).to_le_bytes())?;
        self.out.write_all(&(piece.len() as u32).to_le_bytes())?;
        self.out.write_all(&deflated)
    }
}
