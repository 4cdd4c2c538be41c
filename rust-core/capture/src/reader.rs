// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The reader: an index of the chunks in memory, everything else read when asked for.
//!
//! Positioned reads, no mapping: a file that shrinks or fails under the reader gives an
//! error value, not a signal. The reader is `Sync`; many threads may read pieces at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jportal_units::{Core, Tsc};

use crate::chunk::{End, HEAD, Head, Kind, LossNote, MAGIC, NO_RECORD, PREAMBLE, VERSION_MAJOR};
use crate::codec::{CodecError, Source, Wire};
use crate::error::Error;
use crate::header::Header;
use crate::index::{Entry, scan};
use crate::metadata::MetadataRecords;

/// Where some bytes of a stream stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte in its stream.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// File offset of the chunk.
    pub place: u64,
    pub(crate) kind: Kind,
    pub(crate) crc: u32,
    /// Metadata: where in the payload the first record begins.
    pub(crate) first_record: Option<u32>,
}

impl Piece {
    pub(crate) fn of(entry: &Entry) -> Self {
        let aux = entry.head.aux;
        let first = (entry.head.kind == Kind::Metadata && aux != NO_RECORD).then_some(aux);
        Self {
            offset: entry.head.offset,
            len: entry.head.len,
            place: entry.place,
            kind: entry.head.kind,
            crc: entry.head.payload_crc,
            first_record: first,
        }
    }
    /// Stream offset behind the last byte.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

/// What is wrong with a part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// No chunk head where one should be; skipped up to the next one.
    Head,
    /// A header, loss or end chunk whose payload is not what was written.
    Payload,
    /// A chunk that steps back in its stream, would end behind the largest offset there is, or names an impossible core.
    Order,
}

/// A damaged stretch of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// First byte.
    pub from: u64,
    /// First byte behind.
    pub to: u64,
    /// What.
    pub kind: DamageKind,
}

/// The remains of a chunk at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where the incomplete chunk begins.
    pub place: u64,
    /// Bytes of it that are there.
    pub bytes: u64,
}

/// How much of the recording the file holds, as far as its chunk heads tell. Damage inside
/// PT, metadata and sideband payloads shows when they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// The end chunk; `None`: the recording was cut off.
    pub end: Option<End>,
    /// A chunk cut off at the end of the file.
    pub torn: Option<Torn>,
    /// Chunks of kinds this version does not know.
    pub unknown_chunks: u64,
    /// Damaged stretches.
    pub damaged: Vec<Damage>,
}

impl Completeness {
    /// Whether the recording ended properly and no damage is known.
    pub fn is_whole(&self) -> bool {
        self.end.is_some() && self.torn.is_none() && self.damaged.is_empty()
    }
}

#[derive(Debug, Default)]
struct CoreStreams {
    pt: Vec<Piece>,
    sideband: Vec<Piece>,
}

/// Reads one capture file.
#[derive(Debug)]
pub struct CaptureReader {
    path: PathBuf,
    file: File,
    len: u64,
    version: (u16, u16),
    header: Header,
    completeness: Completeness,
    losses: Vec<LossNote>,
    metadata: Vec<Piece>,
    /// By core number.
    cores: Vec<CoreStreams>,
    /// Up to when all of a core is there: by the first and last of those that were drained together.
    drained: BTreeMap<(u32, u32), Tsc>,
    /// Up to when all metadata is there.
    described: Option<Tsc>,
    /// End of the last whole chunk.
    good_end: u64,
    chunks: u64,
}

impl CaptureReader {
    /// Opens `path` and reads its chunk heads.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Read`], [`Error::NotACapture`], [`Error::Version`],
    /// [`Error::NoHeader`]. Damage and a torn tail are no errors: see
    /// [`CaptureReader::completeness`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(open)?;
        let len = file.metadata().map_err(open)?.len();
        let version = check_preamble(&file, len)?;
        let mut reader = Self {
            path: path.to_owned(),
            file,
            len,
            version,
            header: Header::default(),
            completeness: Completeness::default(),
            losses: Vec::new(),
            metadata: Vec::new(),
            cores: Vec::new(),
            drained: BTreeMap::new(),
            described: None,
            good_end: PREAMBLE as u64,
            chunks: 0,
        };
        if !reader.build_index()? {
            return Err(Error::NoHeader { len });
        }
        Ok(reader)
    }

    /// The file's path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Length of the file when it was opened.
    pub const fn file_len(&self) -> u64 {
        self.len
    }
    /// Major and minor version of the file's format.
    pub const fn version(&self) -> (u16, u16) {
        self.version
    }
    /// The last header written.
    pub const fn header(&self) -> &Header {
        &self.header
    }
    /// What is missing.
    pub const fn completeness(&self) -> &Completeness {
        &self.completeness
    }
    /// The recorder's loss notes, in order of writing.
    pub fn losses(&self) -> &[LossNote] {
        &self.losses
    }
    /// Cores with PT or sideband, ascending.
    pub fn cores(&self) -> Vec<Core> {
        let used = |s: &CoreStreams| !s.pt.is_empty() || !s.sideband.is_empty();
        (0..).zip(&self.cores).filter(|(_, s)| used(s)).map(|(n, _)| Core(n)).collect()
    }
    /// Up to when all that the cores of a range recorded is in the file, as far as the recorder said so. Of a recording that ended
    /// properly everything is.
    pub fn drained(&self) -> impl Iterator<Item = (RangeInclusive<u32>, Tsc)> + '_ {
        self.drained.iter().map(|(&(from, to), &tsc)| (from..=to, tsc))
    }
    /// Up to when all metadata is in the file, as far as the recorder said so; the largest TSC: all there is.
    pub const fn described(&self) -> Option<Tsc> {
        self.described
    }
    /// A core's PT pieces by ascending offset. Where one does not begin at the end of its
    /// predecessor, trace is missing.
    pub fn pt(&self, core: Core) -> &[Piece] {
        self.cores.get(core.get() as usize).map_or(&[], |s| &s.pt)
    }
    /// Bytes of PT the file holds for `core`.
    pub fn pt_bytes(&self, core: Core) -> u64 {
        self.pt(core).iter().map(|p| u64::from(p.len)).sum()
    }
    /// A core's sideband, each piece a sequence of whole perf records, in order.
    pub fn sideband(&self, core: Core) -> &[Piece] {
        self.cores.get(core.get() as usize).map_or(&[], |s| &s.sideband)
    }
    /// The bytes of a core's sideband, piece by piece; a damaged piece is an error, the
    /// next one follows.
    pub fn sideband_bytes(&self, core: Core) -> impl Iterator<Item = Result<Vec<u8>, Error>> + '_ {
        self.sideband(core).iter().map(|p| self.read(p))
    }
    /// The metadata records in commit order.
    pub fn metadata(&self) -> MetadataRecords<'_> {
        MetadataRecords::new(self)
    }
    /// Bytes of metadata the file holds.
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata.iter().map(|p| u64::from(p.len)).sum()
    }
    /// Reads a piece and checks it.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Checksum`].
    pub fn read(&self, piece: &Piece) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read_into(piece, &mut bytes)?;
        Ok(bytes)
    }
    /// As [`CaptureReader::read`], into a buffer that is emptied first.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Checksum`].
    pub fn read_into(&self, piece: &Piece, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        bytes.resize(piece.len as usize, 0);
        read_at(&self.file, bytes, piece.place + HEAD as u64)?;
        let found = crc32c::crc32c(bytes);
        if found != piece.crc {
            return Err(Error::Checksum {
                kind: piece.kind.name(),
                place: piece.place,
                len: piece.len,
                found,
                stored: piece.crc,
            });
        }
        Ok(())
    }
    /// Reads every piece once and returns what does not check, in file order by stream.
    pub fn check(&self) -> Vec<Error> {
        let cores = self.cores.iter().flat_map(|s| s.pt.iter().chain(&s.sideband));
        let mut bytes = Vec::new();
        self.metadata.iter().chain(cores).filter_map(|p| self.read_into(p, &mut bytes).err()).collect()
    }

    /// The pieces of the metadata stream by ascending offset, for who copies them unread.
    pub fn metadata_pieces(&self) -> &[Piece] {
        &self.metadata
    }
    pub(crate) const fn good_end(&self) -> u64 {
        self.good_end
    }
    pub(crate) const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Fills the index; answers whether a header was found.
    fn build_index(&mut self) -> Result<bool, Error> {
        let outcome = scan(&self.file, self.len)?;
        self.completeness.torn = outcome.torn;
        self.completeness.damaged = outcome.damaged;
        self.good_end = outcome.good_end;
        let mut has_header = false;
        for entry in &outcome.entries {
            self.chunks += 1;
            has_header |= self.file_entry(entry)?;
        }
        self.completeness.damaged.sort_by_key(|d| d.from);
        Ok(has_header)
    }

    /// Puts one chunk where it belongs; answers whether it was a good header.
    fn file_entry(&mut self, entry: &Entry) -> Result<bool, Error> {
        match entry.head.kind {
            Kind::Header => {
                let header = self.small(entry, |_, b| Header::decode(&mut Source::new(b)))?;
                let found = header.is_some();
                self.header = header.unwrap_or_else(|| std::mem::take(&mut self.header));
                return Ok(found);
            }
            Kind::End => {
                let end = self.small(entry, |_, b| End::decode(&mut Source::new(b)))?;
                self.completeness.end = end.or(self.completeness.end.take());
            }
            Kind::Loss => {
                let note = self.small(entry, LossNote::read)?;
                self.losses.extend(note);
            }
            Kind::Metadata => {
                let from = self.metadata.last().map_or(0, Piece::end);
                if !follows(&entry.head, from) {
                    self.damage(entry, DamageKind::Order);
                } else {
                    self.metadata.push(Piece::of(entry));
                }
            }
            Kind::Pt | Kind::Sideband => self.file_core_entry(entry),
            Kind::Drained => {
                let Head { aux, offset, .. } = entry.head;
                let tsc = self.drained.entry((aux & 0xffff, aux >> 16)).or_default();
                *tsc = Tsc(offset).max(*tsc);
            }
            Kind::Described => self.described = self.described.max(Some(Tsc(entry.head.offset))),
            Kind::Unknown(_) => self.completeness.unknown_chunks += 1,
        }
        Ok(false)
    }

    fn file_core_entry(&mut self, entry: &Entry) {
        let Head { kind, aux, .. } = entry.head;
        if aux > crate::MAX_CORE {
            return self.damage(entry, DamageKind::Order);
        }
        let n = aux as usize;
        if self.cores.len() <= n {
            self.cores.resize_with(n + 1, CoreStreams::default);
        }
        let streams = &mut self.cores[n];
        let list = if kind == Kind::Pt { &mut streams.pt } else { &mut streams.sideband };
        if !follows(&entry.head, list.last().map_or(0, Piece::end)) {
            return self.damage(entry, DamageKind::Order);
        }
        list.push(Piece::of(entry));
    }

    fn damage(&mut self, entry: &Entry, kind: DamageKind) {
        let to = entry.place + HEAD as u64 + u64::from(entry.head.len);
        self.completeness.damaged.push(Damage { from: entry.place, to, kind });
    }

    /// Decodes a small chunk; `None`, noted as damage, when its payload is not good.
    fn small<T>(
        &mut self,
        entry: &Entry,
        decode: impl FnOnce(&Head, &[u8]) -> Result<T, CodecError>,
    ) -> Result<Option<T>, Error> {
        let value = match self.read(&Piece::of(entry)) {
            Ok(bytes) => decode(&entry.head, &bytes).ok(),
            Err(Error::Checksum { .. }) => None,
            Err(e) => return Err(e),
        };
        if value.is_none() {
            self.damage(entry, DamageKind::Payload);
        }
        Ok(value)
    }
}

/// Whether a chunk can stand in a stream behind `from`.
fn follows(head: &Head, from: u64) -> bool {
    head.offset >= from && head.offset.checked_add(head.len.into()).is_some()
}

pub(crate) fn read_at(file: &File, bytes: &mut [u8], place: u64) -> Result<(), Error> {
    file.read_exact_at(bytes, place).map_err(|source| Error::Read { place, source })
}

/// The version.
fn check_preamble(file: &File, len: u64) -> Result<(u16, u16), Error> {
    let mut b = [0; PREAMBLE];
    let have = len.min(PREAMBLE as u64) as usize;
    read_at(file, &mut b[..have], 0)?;
    let known = have.min(MAGIC.len());
    if have == 0 || b[..known] != MAGIC[..known] {
        return Err(Error::NotACapture { found: b[..known].to_vec() });
    }
    if have < PREAMBLE {
        return Err(Error::NoHeader { len });
    }
    let (found_major, found_minor) = (u16::from_le_bytes([b[8], b[9]]), u16::from_le_bytes([b[10], b[11]]));
    if found_major > VERSION_MAJOR {
        return Err(Error::Version { found_major, found_minor, known_major: VERSION_MAJOR });
    }
    Ok((found_major, found_minor))
}
