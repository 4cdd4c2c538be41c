// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Index chunks. Each lists the heads of the chunks between the index chunk before it and itself
//! (see `FORMAT.md`). It holds distances only, no places in the file, so it stays right when the
//! chunks before it move together.

use crate::checksum;
use crate::chunk::{HEAD, Head, Kind, LIST_CRC, LIST_ENTRY, LISTED, MARKER, MAX_PAYLOAD};
use crate::seal::Sealer;

/// The heads that the index chunk with this head and payload lists. `None` when the payload is not
/// what was written, or lists a chunk that cannot stand there.
pub(crate) fn heads_in(head: &Head, payload: &[u8]) -> Option<Vec<Head>> {
    let (crc, entries) = payload.split_first_chunk::<LIST_CRC>()?;
    let (entries, rest) = entries.as_chunks::<LIST_ENTRY>();
    if !rest.is_empty() || crc32c::crc32c(payload) != head.payload_crc || digest(entries) != *crc {
        return None;
    }
    let heads = entries.iter().map(|entry| Head::from_bytes(&head_bytes(entry)));
    let heads: Vec<Head> = heads.collect::<Option<_>>()?;
    let covered: u64 = heads.iter().map(Head::chunk_len).sum();
    let closing = heads.iter().any(|h| matches!(h.kind, Kind::Index | Kind::End));
    (covered == head.offset && !closing).then_some(heads)
}

/// The index chunk that lists these chunks. `previous` is the length of the payload of the index
/// chunk before them, 0 if there is none.
pub fn index_chunk(heads: &[Head], previous: u32) -> (Head, Vec<u8>) {
    let mut builder = IndexBuilder { previous, ..IndexBuilder::new() };
    heads.iter().for_each(|head| builder.add(head));
    builder.take(Sealer::default())
}

/// A head as in the file, from its bytes in an index chunk.
fn head_bytes(entry: &[u8; LIST_ENTRY]) -> [u8; HEAD] {
    let mut b = [0; HEAD];
    b[..4].copy_from_slice(&MARKER);
    b[4..28].copy_from_slice(entry);
    let crc = crc32c::crc32c(&b[..28]);
    b[28..].copy_from_slice(&crc.to_le_bytes());
    b
}

/// The checksum of the checksums of all heads.
fn digest(entries: &[[u8; LIST_ENTRY]]) -> [u8; LIST_CRC] {
    let of = |crc, entry| checksum::by_table_from(crc, &head_bytes(entry)[28..]);
    entries.iter().fold(0, of).to_le_bytes()
}

/// Collects the heads for the next index chunk. Its memory is reserved at the beginning, and the
/// index is given up if there is none: a capture without an index is whole, too.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    /// The payload; its first bytes are for `crc`.
    payload: Vec<u8>,
    /// The checksum of the checksums of the heads that were added.
    crc: u32,
    /// Length of the chunks in the file.
    covered: u64,
    /// Length of the payload of the index chunk before, 0: there is none.
    previous: u32,
    /// Where the file's first index chunk begins.
    first: Option<u64>,
    gave_up: bool,
}

impl IndexBuilder {
    pub(crate) fn new() -> Self {
        let mut payload = Vec::new();
        let gave_up = payload.try_reserve_exact(LIST_CRC + LISTED * LIST_ENTRY).is_err();
        let mut new = Self { payload, crc: 0, covered: 0, previous: 0, first: None, gave_up };
        new.begin();
        new
    }

    fn begin(&mut self) {
        self.payload.clear();
        if !self.gave_up {
            self.payload.extend_from_slice(&[0; LIST_CRC]);
        }
        (self.crc, self.covered) = (0, 0);
    }

    /// Adds a chunk that was written.
    pub(crate) fn add(&mut self, head: &Head) {
        if self.gave_up {
            return;
        }
        let fits = self.payload.len() + LIST_ENTRY <= MAX_PAYLOAD as usize;
        if !fits || self.payload.try_reserve(LIST_ENTRY).is_err() {
            return self.give_up();
        }
        let bytes = head.to_bytes();
        self.payload.extend_from_slice(&bytes[4..28]);
        self.crc = checksum::by_table_from(self.crc, &bytes[28..]);
        self.covered += head.chunk_len();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.payload.len() >= LIST_CRC + LISTED * LIST_ENTRY
    }

    pub(crate) const fn has_given_up(&self) -> bool {
        self.gave_up
    }

    /// Writes no further index chunks.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
        self.payload = Vec::new();
    }

    /// The index chunk of the chunks that were added. [`IndexBuilder::written`] gives the payload
    /// back.
    pub(crate) fn take(&mut self, sealer: Sealer) -> (Head, Vec<u8>) {
        let mut payload = std::mem::take(&mut self.payload);
        if let Some(crc) = payload.first_chunk_mut() {
            *crc = self.crc.to_le_bytes();
        }
        let (len, payload_crc) = (payload.len() as u32, sealer.crc(&payload));
        let head = Head { kind: Kind::Index, len, aux: self.previous, offset: self.covered, payload_crc };
        (head, payload)
    }

    /// The index chunk is at `place` of the file.
    pub(crate) fn written(&mut self, place: u64, payload: Vec<u8>) {
        self.previous = payload.len() as u32;
        self.first.get_or_insert(place);
        self.payload = payload;
        self.begin();
    }

    /// Continues after the chunks of a file.
    pub(crate) fn resume<'a>(chunks: impl Iterator<Item = (u64, &'a Head)>) -> Self {
        let mut new = Self::new();
        for (place, head) in chunks {
            if head.kind == Kind::Index {
                new.previous = head.len;
                new.first.get_or_insert(place);
                new.begin();
            } else {
                new.add(head);
            }
        }
        new
    }

    /// A copy, which has given up if there is no memory.
    pub(crate) fn copy(&self) -> Self {
        let mut payload = Vec::new();
        let gave_up = self.gave_up || payload.try_reserve_exact(self.payload.capacity()).is_err();
        if !gave_up {
            payload.extend_from_slice(&self.payload);
        }
        Self { payload, gave_up, ..*self }
    }

    /// Where the first index chunk of the file begins, if there is one.
    pub(crate) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// The file is a copy in which the first chunk has another head. Where the file has an index
    /// chunk already, [`with_first_head`] changes that one.
    pub(crate) fn change_first_head(&mut self, old: &Head, new: &Head) {
        let moved = |place: u64| place - old.chunk_len() + new.chunk_len();
        if self.first.is_some() || self.gave_up {
            self.first = self.first.map(moved);
            return;
        }
        self.covered = moved(self.covered);
        change_first(&mut self.payload, new);
        self.crc = self.payload.first_chunk().map_or(0, |crc| u32::from_le_bytes(*crc));
    }
}

/// The file's first index chunk when the first chunk that it lists has another head.
pub(crate) fn with_first_head(index: &Head, mut payload: Vec<u8>, old: &Head, new: &Head) -> (Head, Vec<u8>) {
    change_first(&mut payload, new);
    let offset = index.offset - old.chunk_len() + new.chunk_len();
    (Head::of(Kind::Index, index.aux, offset, &payload), payload)
}

fn change_first(payload: &mut [u8], head: &Head) {
    let Some((crc, entries)) = payload.split_first_chunk_mut::<LIST_CRC>() else { return };
    let (entries, _) = entries.as_chunks_mut::<LIST_ENTRY>();
    if let Some(first) = entries.first_mut() {
        first.copy_from_slice(&head.to_bytes()[4..28]);
    }
    *crc = digest(entries);
}
