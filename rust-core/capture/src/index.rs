// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Walks over the chunk heads of a file and recovers after damage.

use std::fs::File;

use crate::chunk::{HEAD, Head, MARKER, PREAMBLE};
use crate::error::Error;
use crate::reader::{Damage, DamageKind, Torn, read_at};

/// A chunk in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkEntry {
    /// File offset of the head.
    pub(crate) place: u64,
    /// The head.
    pub(crate) head: Head,
}

/// All chunks of a file.
#[derive(Debug, Default)]
pub(crate) struct ChunkIndex {
    pub(crate) entries: Vec<ChunkEntry>,
    pub(crate) damaged: Vec<Damage>,
    pub(crate) torn: Option<Torn>,
    /// End of the last whole chunk.
    pub(crate) good_end: u64,
}

/// Bytes read at once in the search for a head.
const WINDOW: usize = 1 << 20;

/// Reads all heads of a file of `len` bytes.
pub(crate) fn scan(file: &File, len: u64) -> Result<ChunkIndex, Error> {
    let mut out = ChunkIndex { good_end: PREAMBLE as u64, ..ChunkIndex::default() };
    let mut place = PREAMBLE as u64;
    while place < len {
        match head_at(file, place, len)? {
            Some(head) => {
                let end = place + HEAD as u64 + u64::from(head.len);
                if end > len {
                    out.torn = Some(Torn { place, bytes: len - place });
                    break;
                }
                out.entries.push(ChunkEntry { place, head });
                out.good_end = end;
                place = end;
            }
            None => match next_head(file, place + 1, len)? {
                Some(next) => {
                    out.damaged.push(Damage { from: place, to: next, kind: DamageKind::Head });
                    place = next;
                }
                None => {
                    out.torn = Some(Torn { place, bytes: len - place });
                    break;
                }
            },
        }
    }
    Ok(out)
}

fn head_at(file: &File, place: u64, len: u64) -> Result<Option<Head>, Error> {
    if len - place < HEAD as u64 {
        return Ok(None);
    }
    let mut b = [0; HEAD];
    read_at(file, &mut b, place)?;
    Ok(Head::from_bytes(&b))
}

/// The offset of the first good head at or after `from`.
fn next_head(file: &File, mut from: u64, len: u64) -> Result<Option<u64>, Error> {
    let mut window = Vec::new();
    while from < len && len - from >= HEAD as u64 {
        let n = (len - from).min(WINDOW as u64) as usize;
        window.resize(n, 0);
        read_at(file, &mut window, from)?;
        if let Some(i) = find_head(&window) {
            return Ok(Some(from + i as u64));
        }
        // The last HEAD - 1 bytes may be the beginning of a head.
        from += (n - (HEAD - 1)) as u64;
    }
    Ok(None)
}

fn find_head(window: &[u8]) -> Option<usize> {
    window
        .windows(HEAD)
        .position(|w| w[..4] == MARKER && w.first_chunk().is_some_and(|w| Head::from_bytes(w).is_some()))
}
