// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The oracle's log of one thread, as `tests/oracle-agent/FORMAT.md` defines it.

use std::io::{self, ErrorKind, Read};

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Not a probe log.
    #[error("not a probe log: begins with {found:02x?}, expected \"JPPROBE\\0\"")]
    Magic {
        /// First bytes.
        found: [u8; 8],
    },
    /// Another version.
    #[error("probe log version {found} is not 1; use the oracle agent of this `jportal`")]
    Version {
        /// As in the log.
        found: u32,
    },
    /// Reading failed, or the log ends inside its header.
    #[error("cannot read the probe log: {0}")]
    Io(#[from] io::Error),
}

/// The ids that one thread hit, read on demand.
pub struct ProbeLog {
    /// OS thread id.
    pub tid: u32,
    /// TSC at the thread's first probe.
    pub first_tsc: u64,
    source: Box<dyn Read + Send>,
    done: bool,
}

impl std::fmt::Debug for ProbeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeLog").field("tid", &self.tid).field("first_tsc", &self.first_tsc).finish()
    }
}

const MAGIC: [u8; 8] = *b"JPPROBE\0";

impl ProbeLog {
    /// Reads the header. `source` need not be buffered.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(mut source: Box<dyn Read + Send>) -> Result<Self, LogError> {
        let LogHeader { magic, version, tid, first_tsc } = LogHeader::read(&mut source)?;
        if magic != MAGIC {
            return Err(LogError::Magic { found: magic });
        }
        if version != 1 {
            return Err(LogError::Version { found: version });
        }
        Ok(Self { tid, first_tsc, source, done: false })
    }

    /// Appends up to `most` ids; fewer only at the end of the log.
    ///
    /// # Errors
    /// Of the source.
    pub fn read(&mut self, most: usize, into: &mut impl Extend<u32>) -> Result<(), LogError> {
        if self.done || most == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; 4 * most];
        let n = read_full(&mut self.source, &mut bytes)?;
        self.done = n < bytes.len();
        for word in bytes[..n].chunks_exact(4) {
            let id = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            if id == 0 {
                // The rest of a window that was mapped but not filled.
                self.done = true;
                break;
            }
            into.extend([id]);
        }
        Ok(())
    }

    /// Whether all ids were read.
    pub const fn is_done(&self) -> bool {
        self.done
    }
}

/// The header of a thread's log, which the logs of probes and of stacks share.
pub(crate) struct LogHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// OS thread id.
    pub(crate) tid: u32,
    /// TSC at the thread's first call of `Probe.hit`.
    pub(crate) first_tsc: u64,
}

impl LogHeader {
    /// Size in bytes.
    pub(crate) const SIZE: usize = 32;
    /// Reads the header, and checks nothing.
    pub(crate) fn read(source: &mut impl Read) -> io::Result<Self> {
        let mut h = [0; Self::SIZE];
        source.read_exact(&mut h)?;
        let u32_at = |i: usize| u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        let mut magic = [0; 8];
        magic.copy_from_slice(&h[..8]);
        let first_tsc = u64::from(u32_at(24)) | u64::from(u32_at(28)) << 32;
        Ok(Self { magic, version: u32_at(8), tid: u32_at(12), first_tsc })
    }
}

/// Reads as many bytes as there are, at most those of `bytes`. Returns their number.
pub(crate) fn read_full(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match source.read(&mut bytes[n..]) {
            Ok(0) => break,
            Ok(k) => n += k,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use super::*;

    pub(crate) fn log_bytes(tid: u32, tsc: u64, ids: &[u32]) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        b.extend(1u32.to_le_bytes());
        b.extend(tid.to_le_bytes());
        b.extend(0u64.to_le_bytes());
        b.extend(tsc.to_le_bytes());
        ids.iter().for_each(|id| b.extend(id.to_le_bytes()));
        b
    }

    #[test]
    fn ids_end_at_the_first_zero() {
        let bytes = log_bytes(5, 99, &[1, 2, 3, 0, 0, 7]);
        let mut log = ProbeLog::open(Box::new(Cursor::new(bytes))).unwrap();
        assert_eq!((log.tid, log.first_tsc), (5, 99));
        let mut ids = Vec::new();
        log.read(2, &mut ids).unwrap();
        assert_eq!((&ids[..], log.is_done()), (&[1, 2][..], false));
        log.read(100, &mut ids).unwrap();
        log.read(100, &mut ids).unwrap();
        assert_eq!((ids.len(), log.is_done()), (3, true));
    }

    #[test]
    fn other_files_are_refused() {
        let e = ProbeLog::open(Box::new(Cursor::new(vec![b'x'; 40]))).unwrap_err();
        assert!(e.to_string().contains("78, 78"), "{e}");
        let mut bytes = log_bytes(5, 99, &[]);
        bytes[8] = 2;
        assert!(matches!(ProbeLog::open(Box::new(Cursor::new(bytes))), Err(LogError::Version { found: 2 })));
        assert!(matches!(ProbeLog::open(Box::new(Cursor::new(vec![]))), Err(LogError::Io(_))));
    }
}
