// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the chunks of a file: from its index chunks, or by a walk over all chunk heads, which
//! recovers after damage.
//!
//! The index chunks are used only if they list every chunk from the preamble to an end chunk at
//! the end of the file. Otherwise the walk decides, and an index chunk that disagrees with it is
//! reported as damaged.

use std::fs::File;

use crate::chunk::{HEAD, Head, Kind, MARKER, PREAMBLE};
use crate::error::Error;
use crate::lists::heads_in;
use crate::reader::{Damage, DamageKind, Torn, read_at};

/// A chunk in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl ChunkEntry {
    /// Where the next chunk begins.
    const fn end(&self) -> u64 {
        self.place + self.head.chunk_len()
    }
}

/// Bytes read at once in the search for a head.
const WINDOW: usize = 1 << 20;
/// Bytes at the end of the file in which the end chunk must be found. Its payload is a reason and
/// the recorder's figures.
const END_WINDOW: u64 = 64 << 10;

/// The chunks of a file of `len` bytes according to its index chunks; `None` unless they list all
/// of them.
pub(crate) fn listed(file: &File, len: u64) -> Option<Vec<ChunkEntry>> {
    let end = end_chunk(file, len)?;
    // From the last index chunk to the first.
    let mut lists = Vec::new();
    let (mut begin, mut payload_len) = (end.place, end.head.aux);
    while begin > PREAMBLE as u64 {
        let list = list_before(file, begin, payload_len)?;
        (begin, payload_len) = (list.0.place.checked_sub(list.0.head.offset)?, list.0.head.aux);
        lists.push(list);
    }
    if begin < PREAMBLE as u64 || payload_len != 0 {
        return None;
    }
    let mut all = Vec::new();
    for (index, heads) in lists.into_iter().rev() {
        for head in heads {
            let place = all.last().map_or(PREAMBLE as u64, ChunkEntry::end);
            all.push(ChunkEntry { place, head });
        }
        all.push(index);
    }
    all.push(end);
    Some(all)
}

/// The end chunk whose payload ends at the end of the file.
fn end_chunk(file: &File, len: u64) -> Option<ChunkEntry> {
    let from = len.saturating_sub(END_WINDOW).max(PREAMBLE as u64);
    let mut window = vec![0; len.checked_sub(from)? as usize];
    read_at(file, &mut window, from).ok()?;
    let entries = window.windows(HEAD).enumerate().rev().filter(|(_, w)| w[..4] == MARKER);
    let mut entries = entries.filter_map(|(i, w)| {
        Some(ChunkEntry { place: from + i as u64, head: Head::from_bytes(w.first_chunk()?)? })
    });
    entries.find(|entry| entry.head.kind == Kind::End && entry.end() == len)
}

/// The index chunk that ends at `end` and has a payload of this length, and the heads it lists.
fn list_before(file: &File, end: u64, payload_len: u32) -> Option<(ChunkEntry, Vec<Head>)> {
    let place = end.checked_sub(HEAD as u64 + u64::from(payload_len))?;
    let head = head_at(file, place, end).ok()??;
    let entry = ChunkEntry { place, head };
    (head.kind == Kind::Index && head.len == payload_len).then_some(())?;
    Some((entry, heads_of(file, &entry)?))
}

/// The heads that an index chunk lists.
fn heads_of(file: &File, entry: &ChunkEntry) -> Option<Vec<Head>> {
    let mut payload = vec![0; entry.head.len as usize];
    read_at(file, &mut payload, entry.place + HEAD as u64).ok()?;
    heads_in(&entry.head, &payload)
}

/// What is damaged in a file whose index chunks list all its chunks, so that a reader does not
/// look at the heads.
pub(crate) fn damaged_heads(file: &File, len: u64) -> Result<Vec<Damage>, Error> {
    let Some(listed) = listed(file, len) else { return Ok(Vec::new()) };
    let found = scan(file, len)?;
    let mut all = found.damaged;
    all.extend(found.torn.map(|t| Damage { from: t.place, to: t.place + t.bytes, kind: DamageKind::Head }));
    if all.is_empty() && found.entries != listed {
        let same = found.entries.iter().zip(&listed).take_while(|(one, other)| one == other).count();
        let from = listed.get(same).map_or(len, |entry| entry.place);
        all.push(Damage { from, to: len, kind: DamageKind::Index });
    }
    Ok(all)
}

/// Notes the index chunks that do not list the chunks before them. Where heads are damaged, the
/// chunks are not known.
fn check_lists(file: &File, found: &mut ChunkIndex) {
    let (mut first, mut previous) = (0_usize, 0);
    for (i, entry) in found.entries.iter().enumerate().filter(|(_, e)| e.head.kind == Kind::Index) {
        let begin = first.checked_sub(1).map_or(PREAMBLE as u64, |last| found.entries[last].end());
        let unknown = found.damaged.iter().any(|d| (begin..entry.place).contains(&d.from));
        let listed = &found.entries[first..i];
        let agrees = heads_of(file, entry).is_some_and(|heads| {
            unknown || entry.head.aux == previous && heads.iter().eq(listed.iter().map(|e| &e.head))
        });
        if !agrees {
            let damage = Damage { from: entry.place, to: entry.end(), kind: DamageKind::Index };
            found.damaged.push(damage);
        }
        (first, previous) = (i + 1, entry.head.len);
    }
}

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
    check_lists(file, &mut out);
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
