// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reads the trace of one thread.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::ZlibDecoder;
use jportal_analyses::call_trace::Token;
use jportal_units::Tid;

use super::{CHUNK, DEFLATED, MAGIC, TIMES, VERSION};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the call trace: {0}")]
    Read(#[from] io::Error),
    /// The file does not begin like a call trace.
    #[error("this is no call trace: it does not begin with JPCT")]
    NoTrace,
    /// The file has another version.
    #[error("the call trace has version {found}, this program reads version {VERSION}: use a newer program")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The file ends before the token `end`.
    #[error("the call trace is incomplete: it ends at token {tokens}, without the token `end`")]
    Cut {
        /// Number of whole tokens.
        tokens: u64,
    },
    /// A zlib stream is damaged, or longer than the format allows.
    #[error("the call trace is damaged after token {tokens}: {why}")]
    Damaged {
        /// Number of whole tokens before.
        tokens: u64,
        /// What is wrong.
        why: String,
    },
    /// Bytes follow the token `end`.
    #[error("bytes follow the token `end` of the call trace, token {tokens}")]
    Trailing {
        /// Number of tokens.
        tokens: u64,
    },
}

/// What becomes of the iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadPhase {
    Reading,
    /// `end` was read.
    Ended,
    /// Nothing more follows.
    Done,
}

/// The trace of one thread: an iterator of its tokens. Keeps at most 1 MiB and a token.
///
/// The last item is `Ok(Token::End { .. })` for a complete file. Otherwise the tokens that are
/// whole come first, then one error.
pub struct CallTrace<'r> {
    input: BufReader<&'r mut dyn Read>,
    tid: Tid,
    flags: u32,
    bytes: Vec<u8>,
    at: usize,
    /// An error that comes after the tokens read so far.
    failed: Option<ReadError>,
    tokens: u64,
    state: ReadPhase,
}

impl std::fmt::Debug for CallTrace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallTrace")
            .field("tid", &self.tid)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl<'r> CallTrace<'r> {
    /// Reads the header.
    ///
    /// # Errors
    /// If it cannot be read, or is that of another format or version.
    pub fn read(input: &'r mut dyn Read) -> Result<Self, ReadError> {
        let mut input = BufReader::new(input);
        let mut header = [[0; 4]; 4];
        for word in &mut header {
            input.read_exact(word).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => ReadError::NoTrace,
                _ => ReadError::Read(e),
            })?;
        }
        let [magic, version, tid, flags] = header;
        if magic != MAGIC {
            return Err(ReadError::NoTrace);
        }
        let [version, tid, flags] = [version, tid, flags].map(u32::from_le_bytes);
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        let (bytes, at, failed, tokens) = (Vec::new(), 0, None, 0);
        let state = ReadPhase::Reading;
        Ok(Self { input, tid: Tid(tid), flags, bytes, at, failed, tokens, state })
    }
    /// The OS thread id.
    pub const fn tid(&self) -> Tid {
        self.tid
    }
    /// Whether there may be times between the tokens.
    pub const fn has_times(&self) -> bool {
        self.flags & TIMES != 0
    }
    /// Whether the tokens are compressed.
    pub const fn is_deflated(&self) -> bool {
        self.flags & DEFLATED != 0
    }
    /// The bytes that were not used, from the next one on.
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
    /// Reads on. False at the end of the file, or after an error, which is kept.
    fn fill(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.bytes.drain(..self.at.min(self.bytes.len()));
        self.at = 0;
        let before = self.bytes.len();
        let result = if self.is_deflated() { self.inflate() } else { self.copy() };
        self.failed = result.err();
        self.bytes.len() > before
    }
    fn copy(&mut self) -> Result<(), ReadError> {
        let more = self.input.fill_buf()?;
        let len = more.len();
        self.bytes.extend_from_slice(more);
        self.input.consume(len);
        Ok(())
    }
    /// The next zlib stream. Of a stream that is cut, the bytes up to the cut are kept.
    fn inflate(&mut self) -> Result<(), ReadError> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(());
        }
        let before = self.bytes.len();
        let stream = ZlibDecoder::new(&mut self.input);
        let result = stream.take(CHUNK as u64 + 1).read_to_end(&mut self.bytes);
        let damaged = |tokens, why: String| Err(ReadError::Damaged { tokens, why });
        match result {
            Ok(n) if n > CHUNK => {
                self.bytes.truncate(before);
                damaged(self.tokens, format!("a zlib stream holds more than {CHUNK} bytes"))
            }
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                damaged(self.tokens, e.to_string())
            }
            Err(e) => Err(e.into()),
        }
    }
    /// The next `N` words, of which `n` are set, without using them up. `None` if there are fewer.
    fn words<const N: usize>(&mut self, n: usize) -> Option<[u32; N]> {
        while self.rest().len() < 4 * n {
            if !self.fill() {
                return None;
            }
        }
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(self.rest().chunks_exact(4)).take(n) {
            *word = u32::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(words)
    }
    fn token(&mut self) -> Option<Token> {
        let [first] = self.words(1)?;
        let len = 1 + Token::words_after(first);
        // At most seven words follow the first one.
        let words: [u32; 8] = self.words(len)?;
        let token = Token::decode(first, words.get(1..len)?);
        self.at += 4 * len;
        self.tokens += 1;
        Some(token)
    }
    /// The error at the end, if there is one.
    fn last(&mut self) -> Option<ReadError> {
        let complete = self.state == ReadPhase::Ended;
        self.state = ReadPhase::Done;
        if let Some(e) = self.failed.take() {
            return Some(e);
        }
        let tokens = self.tokens;
        if !complete {
            return Some(ReadError::Cut { tokens });
        }
        let more = self.input.fill_buf().map(|bytes| !bytes.is_empty());
        match more {
            Ok(more) => (more || !self.rest().is_empty()).then_some(ReadError::Trailing { tokens }),
            Err(e) => Some(e.into()),
        }
    }
}

impl Iterator for CallTrace<'_> {
    type Item = Result<Token, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state {
            ReadPhase::Done => None,
            ReadPhase::Ended => self.last().map(Err),
            ReadPhase::Reading => match self.token() {
                Some(token) => {
                    if matches!(token, Token::End { .. }) {
                        self.state = ReadPhase::Ended;
                    }
                    Some(Ok(token))
                }
                None => self.last().map(Err),
            },
        }
    }
}
