// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads block traces.

use std::io::{self, Read};

use flate2::read::ZlibDecoder;
use jportal_analyses::block_trace::{Known, Left};
use jportal_flow::{CoreSwitch, Departure, SwitchSide};
use jportal_units::{Core, Tsc};

use super::format::{Format, Type};
use super::record::{BlockTraceRecord, HEAD, Header, Mark, Receiver, kind};
use super::stream::{NONE, PIECE};

/// Bytes of the longest name of a thread.
const LONGEST_NAME: usize = 1 << 16;
/// Words of the longest escape.
const LONGEST_ESCAPE: usize = 1 << 12;

/// A file that cannot be read as a block trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The input cannot be read.
    #[error("cannot read the block trace: {0}")]
    Read(#[from] io::Error),
    /// The file begins otherwise.
    #[error("this is no block trace of version 1: the first {HEAD} bytes are not its header")]
    Header,
    /// The file ends inside an event, or without its last mark.
    #[error("the block trace was cut off after {words} words")]
    Cut {
        /// Number of words before.
        words: u64,
    },
    /// A word has no meaning.
    #[error("the block trace is damaged at word {words}: {what}")]
    Damaged {
        /// Number of words before.
        words: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// Reads the events of one thread.
pub struct Reader<R> {
    input: R,
    header: Header,
    /// Words of the current zlib stream, and how far they are read.
    piece: (Vec<u8>, usize),
    words: u64,
    ended: bool,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("header", &self.header).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header. `input` should be buffered.
    ///
    /// # Errors
    /// If the input cannot be read or is no block trace.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut head = [0; HEAD];
        input.read_exact(&mut head).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Header,
            _ => e.into(),
        })?;
        let (mut header, length) = Header::of(&head).ok_or(ReadError::Header)?;
        if length > LONGEST_NAME {
            return Err(ReadError::Header);
        }
        let mut name = vec![0; length.next_multiple_of(8)];
        input.read_exact(&mut name)?;
        name.truncate(length);
        header.name = String::from_utf8_lossy(&name).into_owned();
        Ok(Self { input, header, piece: (Vec::new(), 0), words: 0, ended: false })
    }
    /// The file's header.
    pub const fn header(&self) -> &Header {
        &self.header
    }
    fn damaged(&self, what: &'static str) -> ReadError {
        ReadError::Damaged { words: self.words, what }
    }
    /// Fills `to` from the words. A file that ends before is cut off.
    fn bytes(&mut self, to: &mut [u8]) -> Result<(), ReadError> {
        let cut = ReadError::Cut { words: self.words };
        if !self.header.zlib {
            return exactly(&mut self.input, to, cut);
        }
        if self.piece.1 == self.piece.0.len() {
            self.inflate()?;
        }
        let (piece, at) = &mut self.piece;
        to.copy_from_slice(piece.get(*at..*at + to.len()).ok_or(cut)?);
        *at += to.len();
        Ok(())
    }
    /// Reads the next zlib stream.
    fn inflate(&mut self) -> Result<(), ReadError> {
        let words = self.words;
        let mut sizes = [[0; 4]; 2];
        for size in &mut sizes {
            exactly(&mut self.input, size, ReadError::Cut { words })?;
        }
        let [deflated, plain] = sizes.map(|size| u32::from_le_bytes(size) as usize);
        if plain == 0 || plain > PIECE || plain % self.header.format.bytes() != 0 || deflated > 2 * PIECE {
            return Err(self.damaged("a zlib stream has an impossible size"));
        }
        let mut compressed = vec![0; deflated];
        exactly(&mut self.input, &mut compressed, ReadError::Cut { words })?;
        self.piece.0.clear();
        self.piece.1 = 0;
        // One byte more, to see a stream that is too long.
        let limit = plain as u64 + 1;
        let inflated = ZlibDecoder::new(&compressed[..]).take(limit).read_to_end(&mut self.piece.0);
        if inflated.is_err() || self.piece.0.len() != plain {
            return Err(self.damaged("a zlib stream cannot be inflated"));
        }
        Ok(())
    }
    fn word(&mut self) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        let length = self.header.format.bytes();
        self.bytes(&mut bytes[..length])?;
        self.words += 1;
        Ok(u64::from_le_bytes(bytes))
    }
    fn record(&mut self) -> Result<BlockTraceRecord, ReadError> {
        let format = self.header.format;
        let word = self.word()?;
        if let Some((kind, length)) = format.escaped(word) {
            return self.mark(kind, length).map(BlockTraceRecord::Mark);
        }
        let (r#type, method, block) = format.split(word);
        Ok(match r#type {
            t if t == Type::Class as u8 => BlockTraceRecord::ClassLoaded { class: word as u32 },
            t if t == Type::End as u8 => BlockTraceRecord::End { method },
            t if t == Type::Block as u8 => BlockTraceRecord::Block { method, block },
            _ => BlockTraceRecord::Start { method, receiver: self.receiver(block)? },
        })
    }
    fn receiver(&mut self, words: u32) -> Result<Option<Receiver>, ReadError> {
        match words {
            0 => Ok(None),
            1 => {
                let (word, top) = (self.word()?, self.header.format.top());
                let class = (word & !top) as u32;
                Ok(Some(if word & top == 0 { Receiver::Exactly(class) } else { Receiver::Declared(class) }))
            }
            _ => Err(self.damaged("a start has more than one word for its receiver")),
        }
    }
    fn mark(&mut self, kind: u8, length: usize) -> Result<Mark, ReadError> {
        if length > LONGEST_ESCAPE {
            return Err(self.damaged("an escape is too long"));
        }
        let before = self.words - 1;
        let words = (0..length).map(|_| self.word()).collect::<Result<Vec<u64>, _>>()?;
        let format = self.header.format;
        let mark = Operands { format, words: &words }.mark(kind);
        let mark = mark.ok_or_else(|| self.damaged("an escape has too few words, or impossible ones"))?;
        if let Mark::Complete { words } = mark {
            self.ended = true;
            if words != before {
                return Err(self.damaged("the last mark counts another number of words"));
            }
        }
        Ok(mark)
    }
}

fn exactly(input: &mut impl Read, to: &mut [u8], cut: ReadError) -> Result<(), ReadError> {
    input.read_exact(to).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => cut,
        _ => e.into(),
    })
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<BlockTraceRecord, ReadError>;

    /// The next event. The last one is [`Mark::Complete`], or an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record();
        self.ended |= record.is_err();
        Some(record)
    }
}

/// The words of an escape.
struct Operands<'a> {
    format: Format,
    words: &'a [u64],
}

impl Operands<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*first)
    }
    fn method(&mut self) -> Option<u32> {
        u32::try_from(self.word()?).ok()
    }
    fn long(&mut self) -> Option<u64> {
        match self.format {
            Format::Jbi32 => Some(self.word()? | self.word()? << 32),
            Format::Jbi64 => self.word(),
        }
    }
    /// A bci, or `None` in place of one.
    fn perhaps_bci(&mut self) -> Option<Option<u16>> {
        match self.word()? {
            NONE => Some(None),
            bci => u16::try_from(bci).ok().map(Some),
        }
    }
    fn bci(&mut self) -> Option<u16> {
        self.perhaps_bci()?
    }
    fn text(&self) -> String {
        let length = self.format.bytes();
        let bytes: Vec<u8> =
            self.words.iter().flat_map(|w| w.to_le_bytes().into_iter().take(length)).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
    /// The mark; `None` if words are missing or impossible.
    fn mark(mut self, kind: u8) -> Option<Mark> {
        Some(match kind {
            kind::COMPLETE => Mark::Complete { words: self.long()? },
            kind::GAP => {
                let stack_lost = self.word()? != 0;
                let bytes = self.long().map(|n| Some(n).filter(|n| *n != u64::MAX))?;
                Mark::Gap { stack_lost, bytes, reason: self.text() }
            }
            kind::UNRESOLVED => {
                let (method, from, to) = (self.method()?, self.perhaps_bci()?, self.perhaps_bci()?);
                let callers = u16::try_from(self.word()?).ok()?;
                Mark::Unresolved { method, from, to, callers, cause: self.text() }
            }
            kind::FOUND => Mark::Found { method: self.method()? },
            kind::LOST => Mark::Lost { method: self.method()?, ended: self.word()? != 0 },
            kind::ORPHANS => Mark::Orphans { bytecodes: self.long()? },
            kind::LEFT => {
                let method = self.method()?;
                let all = [Left::Unwind, Left::PopFrame, Left::EarlyReturn, Left::Unstarted];
                Mark::Left { method, how: *all.get(usize::try_from(self.word()?).ok()?)? }
            }
            kind::CATCH => Mark::Catch { method: self.method()?, bci: self.bci()? },
            kind::KNOWN => {
                let all = [Known::Decoded, Known::Projected, Known::Recovered];
                Mark::Known(*all.get(usize::try_from(self.word()?).ok()?)?)
            }
            kind::EXCLUDED => Mark::Excluded { events: self.long()? },
            kind::TIME => Mark::Time { tsc: self.long()? },
            kind::NO_BLOCKS => Mark::NoBlocks { method: self.method()?, bytecodes: self.long()? },
            kind::AT => Mark::At { method: self.method()?, bci: self.bci()? },
            kind::SWITCH => {
                let core = Core(u32::try_from(self.word()?).ok()?);
                let side = match self.word()? {
                    0 => SwitchSide::Came { seen: true },
                    1 => SwitchSide::Came { seen: false },
                    2 => SwitchSide::Left(Some(Departure::Preempted)),
                    3 => SwitchSide::Left(Some(Departure::Waited)),
                    4 => SwitchSide::Left(None),
                    _ => return None,
                };
                Mark::Switch(CoreSwitch { tsc: Tsc(self.long()?), core, side })
            }
            _ => Mark::Other { kind, words: self.words.to_vec() },
        })
    }
}
