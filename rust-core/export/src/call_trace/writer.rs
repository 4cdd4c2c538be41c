// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes the trace of one thread.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use jportal_analyses::call_trace::TraceSink;
use jportal_flow::ThreadInfo;

use super::{CHUNK, DEFLATED, MAGIC, TIMES, VERSION};

/// Writes the trace of one thread as a file. Keeps at most 1 MiB.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    deflate: bool,
    bytes: Vec<u8>,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header. `deflate`: the tokens are compressed. `times`: there are times between
    /// the tokens.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(mut out: W, thread: &ThreadInfo, deflate: bool, times: bool) -> io::Result<Self> {
        let flags = if deflate { DEFLATED } else { 0 } | if times { TIMES } else { 0 };
        out.write_all(&MAGIC)?;
        for word in [VERSION, thread.tid.get(), flags] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { out, deflate, bytes: Vec::new() })
    }
    /// Writes the first `len` bytes that were collected.
    fn write(&mut self, len: usize) -> io::Result<()> {
        let bytes = self.bytes.get(..len).unwrap_or(&self.bytes);
        if self.deflate {
            let mut stream = ZlibEncoder::new(&mut self.out, Compression::fast());
            stream.write_all(bytes)?;
            stream.finish()?;
        } else {
            self.out.write_all(bytes)?;
        }
        self.bytes.drain(..len.min(self.bytes.len()));
        Ok(())
    }
}

impl<W: Write + Send> TraceSink for TraceWriter<W> {
    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
            if self.bytes.len() == CHUNK {
                self.write(CHUNK)?;
            }
        }
        // Uncompressed tokens need not wait: what was written of a run that crashes is readable.
        if self.deflate { Ok(()) } else { self.write(self.bytes.len()) }
    }
    fn end(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.write(self.bytes.len())?;
        }
        self.out.flush()
    }
}
