// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Payloads with their checksums, made before it is the caller's turn to write.
//!
//! Many threads share one writer, and one of them writes at a time. A checksum takes as long as
//! the write itself where the processor's instruction is slow (see [`crate::checksum`]), so each
//! thread computes it before its turn.

use jportal_units::{Core, StreamOffset};

use crate::checksum;
use crate::chunk::SPLIT;
use crate::error::Error;

/// The way in which checksums are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sealer {
    by_table: bool,
}

/// The payload of one chunk and its checksum, for [`crate::CaptureWriter::append`].
#[derive(Debug, Clone, Copy)]
pub struct Sealed<'a> {
    pub(crate) to: SealedFor,
    pub(crate) bytes: &'a [u8],
    pub(crate) crc: u32,
}

/// The stream of a sealed piece.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SealedFor {
    Metadata,
    /// The core, and the offset in its stream.
    Pt(Core, u64),
    Sideband(Core),
}

impl Sealer {
    /// Computes checksums without the processor's instruction. Meant for a writer that runs
    /// under QEMU, which emulates the instruction bit by bit: 85 MB/s, while the table reaches
    /// 680 MB/s.
    pub const fn by_table() -> Self {
        Self { by_table: true }
    }

    /// The checksum of a payload.
    pub fn crc(self, bytes: &[u8]) -> u32 {
        if self.by_table { checksum::by_table(bytes) } else { crc32c::crc32c(bytes) }
    }

    fn seal(self, to: SealedFor, bytes: &[u8]) -> Sealed<'_> {
        Sealed { to, bytes, crc: self.crc(bytes) }
    }

    /// Cuts framed records into chunks. Each checksum is computed when the iterator is asked for
    /// its piece; the same holds for trace and sideband.
    pub fn metadata(self, bytes: &[u8]) -> impl Iterator<Item = Sealed<'_>> {
        bytes.chunks(SPLIT).map(move |part| self.seal(SealedFor::Metadata, part))
    }

    /// Cuts bytes of a core's PT stream into chunks. `offset` is the position of the first byte.
    /// The writer refuses a chunk whose end is no offset.
    pub fn pt(self, core: Core, offset: StreamOffset, bytes: &[u8]) -> impl Iterator<Item = Sealed<'_>> {
        bytes.chunks(SPLIT).enumerate().map(move |(number, part)| {
            let at = offset.get().saturating_add((number * SPLIT) as u64);
            self.seal(SealedFor::Pt(core, at), part)
        })
    }

    /// Cuts perf records of a core's data ring into chunks of whole records.
    ///
    /// # Errors
    /// [`Error::SidebandRecord`] when the piece is not a sequence of whole records.
    pub fn sideband(self, core: Core, records: &[u8]) -> Result<impl Iterator<Item = Sealed<'_>>, Error> {
        check_records(core, records)?;
        let mut rest = records;
        Ok(std::iter::from_fn(move || {
            let (part, tail) = rest.split_at(whole_records(rest, SPLIT));
            rest = tail;
            (!part.is_empty()).then(|| self.seal(SealedFor::Sideband(core), part))
        }))
    }
}

/// Size of the perf record at the start of `b`; an error with the stated size if the record
/// does not lie within `b`.
fn record_size(b: &[u8]) -> Result<usize, usize> {
    let size = match b {
        [_, _, _, _, _, _, lo, hi, ..] => usize::from(u16::from_le_bytes([*lo, *hi])),
        _ => return Err(0),
    };
    if size < 8 || size > b.len() { Err(size) } else { Ok(size) }
}

fn check_records(core: Core, records: &[u8]) -> Result<(), Error> {
    let mut at = 0;
    while at < records.len() {
        let rest = &records[at..];
        at += record_size(rest).map_err(|size| Error::SidebandRecord {
            core: core.get(),
            at,
            size,
            left: rest.len(),
        })?;
    }
    Ok(())
}

/// Length of the longest sequence of whole records that has at most `limit` bytes, but of at
/// least one record.
fn whole_records(records: &[u8], limit: usize) -> usize {
    let mut at = 0;
    while at < records.len() {
        // `check_records` has verified the sizes; a record that did not fit would end the
        // sequence.
        let size = record_size(&records[at..]).unwrap_or(records.len() - at);
        if at > 0 && at + size > limit {
            break;
        }
        at += size;
    }
    at
}
