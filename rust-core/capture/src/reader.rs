// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The reader: it keeps an index of the chunks in memory and reads everything else on request.
//!
//! It uses positioned reads and no mapping, so a file that shrinks or fails during reading
//! causes an error value, not a signal. The reader is `Sync`; several threads may read pieces
//! at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jportal_units::{Core, Tsc};

use crate::chunk::{End, HEAD, Head, Kind, LossNote, MAGIC, NO_RECORD, PREAMBLE, VERSION_MAJOR};
use crate::codec::{CodecError, Source, Wire};
use crate::create::open_to_look;
use crate::error::Error;
use crate::header::Header;
use crate::index::{ChunkEntry, ChunkIndex, damaged_heads, listed, scan};
use crate::metadata::MetadataRecords;
use crate::names::no_file;

/// Where some bytes of a stream are in the file.
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
    pub(crate) fn of(entry: &ChunkEntry) -> Self {
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
    /// Stream offset after the last byte.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

/// What is wrong with a part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// There is no chunk head where one should be; the bytes up to the next head are skipped.
    Head,
    /// A header, loss or end chunk whose payload is not what was written.
    Payload,
    /// A chunk that steps back in its stream, would end after the largest possible offset, or
    /// names an impossible core.
    Order,
    /// An index chunk that is not what was written, or does not list the chunks before it.
    Index,
}

impl DamageKind {
    /// What it means, in words.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Head => "there is no chunk head where one should be",
            Self::Payload => "the payload of a chunk is not what was written",
            Self::Order => "a chunk is not where it belongs in its stream",
            Self::Index => "the index and the chunks contradict each other",
        }
    }
}

/// A damaged stretch of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// First byte.
    pub from: u64,
    /// First byte after the stretch.
    pub to: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

/// The beginning of an incomplete chunk at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where the incomplete chunk begins.
    pub place: u64,
    /// Number of its bytes that are in the file.
    pub bytes: u64,
}

/// How much of the recording the file holds, according to its index chunks or else its chunk
/// heads. Damage inside PT, metadata and sideband payloads is found only when they are read, and
/// that of heads that the index lists only by [`CaptureReader::check_heads`].
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

/// The chunks that index chunks list; `None` if they do not list all.
type ListedChunks = Option<Vec<ChunkEntry>>;

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
    /// The TSC before which everything that a range of cores recorded is in the file. The key
    /// is the first and the last core of the range.
    drained: BTreeMap<(u32, u32), Tsc>,
    /// The TSC before which all metadata is in the file.
    described: Option<Tsc>,
    /// End of the last whole chunk.
    good_end: u64,
    chunks: u64,
    /// The chunks are those that the index chunks list.
    indexed: bool,
}

impl CaptureReader {
    /// Opens `path` and reads its index chunks or, if they do not list all chunks, its chunk heads.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NoFile`], [`Error::Read`], [`Error::NotACapture`],
    /// [`Error::Version`], [`Error::NoHeader`]. Damage and a torn tail are no errors: see
    /// [`CaptureReader::completeness`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, listed)
    }

    /// Opens `path` and reads its chunk heads, also if it has an index.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn open_without_index(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, |_, _| None)
    }

    fn open_with(path: &Path, listed: impl FnOnce(&File, u64) -> ListedChunks) -> Result<Self, Error> {
        let file = open_to_look(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Self::of(file, path, listed)
    }

    /// Reads the chunk heads of the open file, which was found at `path`.
    pub(crate) fn of_file(file: File, path: &Path) -> Result<Self, Error> {
        Self::of(file, path, |_, _| None)
    }

    fn of(file: File, path: &Path, listed: impl FnOnce(&File, u64) -> ListedChunks) -> Result<Self, Error> {
        let meta = file.metadata().map_err(|source| Error::Open { path: path.to_owned(), source })?;
        if let Some(what) = no_file(meta.file_type()) {
            return Err(Error::NoFile { path: path.to_owned(), what });
        }
        let len = meta.len();
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
            indexed: false,
        };
        let found = match listed(&reader.file, len) {
            Some(entries) => {
                reader.indexed = true;
                ChunkIndex { entries, good_end: len, ..ChunkIndex::default() }
            }
            None => scan(&reader.file, len)?,
        };
        if !reader.enter(found)? {
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
    /// Whether the file's index chunks list all its chunks, so that their heads were not read.
    pub const fn is_indexed(&self) -> bool {
        self.indexed
    }
    /// The last header written.
    pub const fn header(&self) -> &Header {
        &self.header
    }
    /// What is missing or damaged.
    pub const fn completeness(&self) -> &Completeness {
        &self.completeness
    }
    /// The recorder's loss notes, in order of writing.
    pub fn losses(&self) -> &[LossNote] {
        &self.losses
    }
    /// Cores with PT or sideband, in ascending order.
    pub fn cores(&self) -> Vec<Core> {
        let used = |s: &CoreStreams| !s.pt.is_empty() || !s.sideband.is_empty();
        (0..).zip(&self.cores).filter(|(_, s)| used(s)).map(|(n, _)| Core(n)).collect()
    }
    /// For each range of cores, the latest TSC before which the recorder says that everything
    /// they recorded is in the file. A recording that ended properly contains everything.
    pub fn drained(&self) -> impl Iterator<Item = (RangeInclusive<u32>, Tsc)> + '_ {
        self.drained.iter().map(|(&(from, to), &tsc)| (from..=to, tsc))
    }
    /// The latest TSC before which the recorder says that all metadata is in the file. The
    /// largest TSC means that all metadata is there.
    pub const fn described(&self) -> Option<Tsc> {
        self.described
    }
    /// A core's PT pieces by ascending offset. If a piece does not begin at the end of its
    /// predecessor, trace is missing between them.
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
    /// The bytes of a core's sideband, piece by piece. A damaged piece is an error; the
    /// iteration continues with the next piece.
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
    /// Reads a piece and verifies its checksum.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Checksum`].
    pub fn read(&self, piece: &Piece) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read_into(piece, &mut bytes)?;
        Ok(bytes)
    }
    /// Like [`CaptureReader::read`], but into `bytes`, which is cleared first.
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
    /// Reads every piece once and returns the errors: first the metadata's, then per core those
    /// of PT and sideband, each in file order, then those of [`CaptureReader::check_heads`].
    pub fn check(&self) -> Vec<Error> {
        let cores = self.cores.iter().flat_map(|s| s.pt.iter().chain(&s.sideband));
        let mut bytes = Vec::new();
        let pieces = self.metadata.iter().chain(cores);
        let mut all: Vec<Error> = pieces.filter_map(|p| self.read_into(p, &mut bytes).err()).collect();
        match self.check_heads() {
            Ok(damaged) => all.extend(damaged.into_iter().map(Error::Damaged)),
            Err(e) => all.push(e),
        }
        all
    }

    /// Reads the heads of all chunks if the index spared that when the file was opened, and returns
    /// what is damaged beyond [`Completeness::damaged`]. What the index lists can be read all the
    /// same.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn check_heads(&self) -> Result<Vec<Damage>, Error> {
        if self.indexed { damaged_heads(&self.file, self.len) } else { Ok(Vec::new()) }
    }

    /// The pieces of the metadata stream by ascending offset, for copying them without
    /// decoding.
    pub fn metadata_pieces(&self) -> &[Piece] {
        &self.metadata
    }
    pub(crate) const fn good_end(&self) -> u64 {
        self.good_end
    }
    pub(crate) const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Takes the chunks that were found; returns whether a header is among them.
    fn enter(&mut self, outcome: ChunkIndex) -> Result<bool, Error> {
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

    /// Enters one chunk into the index; returns whether it was a good header.
    fn file_entry(&mut self, entry: &ChunkEntry) -> Result<bool, Error> {
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
            Kind::Index => {}
            Kind::Unknown(_) => self.completeness.unknown_chunks += 1,
        }
        Ok(false)
    }

    fn file_core_entry(&mut self, entry: &ChunkEntry) {
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

    fn damage(&mut self, entry: &ChunkEntry, kind: DamageKind) {
        let to = entry.place + HEAD as u64 + u64::from(entry.head.len);
        self.completeness.damaged.push(Damage { from: entry.place, to, kind });
    }

    /// Decodes a small chunk. `None`, and noted as damage, when its payload is not good.
    fn small<T>(
        &mut self,
        entry: &ChunkEntry,
        decode: impl FnOnce(&Head, &[u8]) -> Result<T, CodecError>,
    ) -> Result<Option<T>, Error> {
        let value = match self.read(&Piece::of(entry)) {
            Ok(bytes) => match decode(&entry.head, &bytes) {
                Ok(value) => Some(value),
                Err(e) => e.memory().map_or(Ok(None), Err)?,
            },
            Err(Error::Checksum { .. }) => None,
            Err(e) => return Err(e),
        };
        if value.is_none() {
            self.damage(entry, DamageKind::Payload);
        }
        Ok(value)
    }
}

/// Whether a chunk may follow in a stream that has reached `from`.
fn follows(head: &Head, from: u64) -> bool {
    head.offset >= from && head.offset.checked_add(head.len.into()).is_some()
}

pub(crate) fn read_at(file: &File, bytes: &mut [u8], place: u64) -> Result<(), Error> {
    file.read_exact_at(bytes, place).map_err(|source| Error::Read { place, source })
}

/// The header in the first chunk of a capture of `len` bytes; `None` if there is none.
pub(crate) fn first_header(file: &File, len: u64) -> Option<Header> {
    check_preamble(file, len).ok()?;
    let mut head = [0; HEAD];
    read_at(file, &mut head, PREAMBLE as u64).ok()?;
    let head = Head::from_bytes(&head).filter(|head| head.kind == Kind::Header)?;
    let start = (PREAMBLE + HEAD) as u64;
    if u64::from(head.len) > len.saturating_sub(start) {
        return None;
    }
    let mut payload = vec![0; head.len as usize];
    read_at(file, &mut payload, start).ok()?;
    Header::decode(&mut Source::new(&payload)).ok()
}

/// Checks the preamble and returns the version.
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
