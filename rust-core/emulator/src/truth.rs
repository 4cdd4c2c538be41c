// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! An optional record of what was executed, for tests.
//!
//! Directory layout: `code` holds every translated block in order of translation; `core<N>` holds
//! what core N's unit saw, as little-endian 32-bit words:
//!
//! | words                 | meaning                                                              |
//! |-----------------------|----------------------------------------------------------------------|
//! | id, n                 | the first n instructions of block id (1 = first in `code`) retired    |
//! | [`SWITCH_IN`], tid    | the thread entered the core                                           |
//! | [`SWITCH_OUT`], lo, hi| the thread left; 64-bit stream position after its last byte           |
//! | [`LOST`]              | packets are lost from this point on                                   |
//! | [`RECOVERED`], lo, hi | packets are sent again; stream position of the first byte             |
//! | [`PSB`], lo, hi       | a PSB+ follows at this stream position                                |
//! | [`TRUNCATED`], lo, hi | output stopped at this stream position                                |
//!
//! A block is recorded when its end has been resolved, so an interrupted or faulting instruction
//! is never counted. `code` is a sequence of {u64 address, u16 instructions, u16 bytes, the bytes}.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::block::InsnBytes;
use crate::error::Error;

/// Smallest marker; block numbers are smaller.
pub const FIRST_MARKER: u32 = 0xffff_ff00;
/// A thread enters the core.
pub const SWITCH_IN: u32 = 0xffff_ff01;
/// A thread leaves the core.
pub const SWITCH_OUT: u32 = 0xffff_ff02;
/// Loss begins.
pub const LOST: u32 = 0xffff_ff03;
/// Loss ends.
pub const RECOVERED: u32 = 0xffff_ff04;
/// PSB+.
pub const PSB: u32 = 0xffff_ff05;
/// Output stopped.
pub const TRUNCATED: u32 = 0xffff_ff06;

/// The record of translated blocks.
#[derive(Debug)]
pub struct CodeLog {
    file: Mutex<BufWriter<File>>,
    next: AtomicU32,
}

/// The record of one core.
#[derive(Debug)]
pub struct CoreLog {
    file: BufWriter<File>,
}

fn create(directory: &Path, name: &str) -> Result<BufWriter<File>, Error> {
    let path = directory.join(name);
    match File::create(&path) {
        Ok(f) => Ok(BufWriter::with_capacity(1 << 20, f)),
        Err(source) => Err(Error::File { path, what: "create", source }),
    }
}

impl CodeLog {
    /// Creates `code` in `directory`.
    pub fn create(directory: &Path) -> Result<CodeLog, Error> {
        std::fs::create_dir_all(directory).map_err(|source| Error::File {
            path: directory.into(),
            what: "create",
            source,
        })?;
        Ok(CodeLog { file: Mutex::new(create(directory, "code")?), next: AtomicU32::new(1) })
    }

    /// Appends a block of `insns`; returns its number.
    pub fn add(&self, insns: &[InsnBytes<'_>]) -> std::io::Result<u32> {
        let mut file = self.file.lock().unwrap_or_else(|e| e.into_inner());
        let bytes: usize = insns.iter().map(|i| i.bytes.len()).sum();
        let address = insns.first().map_or(0, |i| i.address);
        file.write_all(&address.to_le_bytes())?;
        file.write_all(&(insns.len() as u16).to_le_bytes())?;
        file.write_all(&(bytes as u16).to_le_bytes())?;
        for insn in insns {
            file.write_all(insn.bytes)?;
        }
        Ok(self.next.fetch_add(1, Relaxed))
    }

    /// Writes out what is buffered.
    pub fn flush(&self) -> std::io::Result<()> {
        self.file.lock().unwrap_or_else(|e| e.into_inner()).flush()
    }
}

/// One entry of a core's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The first instructions of a block retired.
    Retired {
        /// The block's number.
        id: u32,
        /// Number of its instructions that retired.
        n: u32,
    },
    /// [`SWITCH_IN`] of this thread.
    SwitchIn(u32),
    /// [`LOST`].
    Lost,
    /// A marker with a stream position.
    Mark {
        /// The marker.
        marker: u32,
        /// The stream position.
        position: u64,
    },
}

impl CoreLog {
    /// Creates `core<N>` in `directory`.
    pub fn create(directory: &Path, core: u32) -> Result<CoreLog, Error> {
        Ok(CoreLog { file: create(directory, &format!("core{core}"))? })
    }

    /// Appends `entries`, whose positions count from stream position `base`.
    pub fn write(&mut self, entries: &[Entry], base: u64) {
        for entry in entries {
            match *entry {
                Entry::Retired { id, n } => self.put(&[id, n]),
                Entry::SwitchIn(tid) => self.put(&[SWITCH_IN, tid]),
                Entry::Lost => self.put(&[LOST]),
                Entry::Mark { marker, position } => {
                    let position = base + position;
                    self.put(&[marker, position as u32, (position >> 32) as u32]);
                }
            }
        }
    }

    fn put(&mut self, words: &[u32]) {
        for w in words {
            // Only tests use the record. A full disk shows as a short file there.
            let _ = self.file.write_all(&w.to_le_bytes());
        }
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
