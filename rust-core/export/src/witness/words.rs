// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The log of a thread: a header of 32 bytes, and words of 32 bits, little-endian.
//!
//! | offset | content |
//! |---|---|
//! | 0 | magic, `JPBL` |
//! | 4 | version, 1 |
//! | 8 | OS thread id |
//! | 12 | number of the thread |
//! | 16 | length of the log in bytes, header included; 64 bits |
//! | 24 | Java thread id; 64 bits |
//!
//! A word below 2³¹ is the number of a site. Any other is a head: bits 28 to 30 are the number of
//! words that follow, bits 20 to 27 the kind.

use std::io::{self, Read, Write};

const MAGIC: [u8; 4] = *b"JPBL";
const VERSION: u32 = 1;
const HEADER: usize = 32;
/// Bytes of a log that are read at most.
const MOST: u64 = 1 << 31;

const HEAD: u32 = 1 << 31;

const fn head(kind: u32, words: u32) -> u32 {
    HEAD | words << 28 | kind << 20
}

/// Site, method, activations since the last token.
pub(super) const CALLBACK: u32 = head(1, 3);
/// Method: the first one of a thread.
pub(super) const ENTRY: u32 = head(2, 1);
/// Method: a class initialiser begins.
pub(super) const IMPLICIT: u32 = head(3, 1);
/// An exception leaves a frame: method, segment, activations.
pub(super) const LEFT: u32 = head(4, 3);
/// A frame continues in a handler: method, segment, activations, block of the handler.
pub(super) const CAUGHT: u32 = head(5, 4);
/// A class initialiser returns.
pub(super) const IMPLICIT_END: u32 = head(6, 0);

/// Whether a word is the number of a site.
pub(super) const fn is_site(word: u32) -> bool {
    word < HEAD
}

/// Number of words of the token that begins with `word`.
pub(super) const fn token_len(word: u32) -> usize {
    if is_site(word) { 1 } else { 1 + (word >> 28 & 7) as usize }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is no log.
    #[error("is no log of tokens: it does not begin with JPBL, version {VERSION}")]
    NoLog,
    /// The length in the header is wrong.
    #[error("its header says {said} bytes, but it has {found}")]
    Length {
        /// The length in the header.
        said: u64,
        /// That of the file.
        found: u64,
    },
    /// It is longer than what is read.
    #[error("has more than {MOST} bytes")]
    TooLong,
}

/// The log of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordLog {
    /// OS thread id; 0 if the agent did not know it.
    pub tid: u32,
    /// Number of the thread in its run.
    pub number: u32,
    /// Java thread id.
    pub java_tid: u64,
    /// The tokens.
    pub words: Vec<u32>,
}

impl WordLog {
    /// Reads a log. A file may be longer than its log: what follows is left out.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn read(from: impl Read) -> Result<Self, LogError> {
        let mut bytes = Vec::new();
        from.take(MOST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST {
            return Err(LogError::TooLong);
        }
        let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
        let fields = || Some((word(4)?, word(8)?, word(12)?, long(16)?, long(24)?));
        let (version, tid, number, said, java_tid) = fields().ok_or(LogError::NoLog)?;
        if !bytes.starts_with(&MAGIC) || version != VERSION {
            return Err(LogError::NoLog);
        }
        let found = bytes.len() as u64;
        let end = usize::try_from(said).ok().filter(|end| (HEADER..=bytes.len()).contains(end));
        let body = end.and_then(|end| bytes.get(HEADER..end)).ok_or(LogError::Length { said, found })?;
        let words = body.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(Self { tid, number, java_tid, words })
    }
}

/// Writes a log.
///
/// # Errors
/// If the output cannot be written.
pub fn write_log(log: &WordLog, mut out: impl Write) -> io::Result<()> {
    let length = (HEADER + 4 * log.words.len()) as u64;
    out.write_all(&MAGIC)?;
    for word in [VERSION, log.tid, log.number] {
        out.write_all(&word.to_le_bytes())?;
    }
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&log.java_tid.to_le_bytes())?;
    for word in &log.words {
        out.write_all(&word.to_le_bytes())?;
    }
    out.flush()
}
