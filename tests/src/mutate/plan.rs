// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The changes to a capture. Each changes one thing.

use std::collections::BTreeMap;

use fastrand::Rng;
use jportal_capture::chunk::{Head, Kind, PREAMBLE};
use jportal_capture::schema::{FRAME_HEADER, SCHEMA};
use jportal_perf_abi::record::{HEADER_BYTES, LAYOUTS, SAMPLE_ID_BYTES, TRAILER};

use super::layout::{Blob, EncodingLayout, Field, List, layout};
use super::model::{Model, MutationTarget, Part, list_anew, u16_at, u32_at};
use crate::Result;

/// The number of changes.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Values per field.
    pub values: usize,
    /// Records per kind.
    pub records: usize,
    /// Changes of each kind to whole chunks, and to bytes of trace.
    pub chunks: usize,
}

impl Amount {
    /// Each kind of change once.
    pub const SMALL: Self = Self { values: 1, records: 1, chunks: 3 };
}

/// One change.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// Describes the change; the same in every run.
    pub name: String,
    change: CaptureChange,
}

#[derive(Debug, Clone)]
enum CaptureChange {
    /// A number.
    Number { target: MutationTarget, at: usize, width: usize, value: u64 },
    /// A range of a record, and the count in the four bytes before it.
    Splice { target: MutationTarget, from: usize, to: usize, count: u32, with: Vec<u8> },
    /// A field of a chunk's head.
    Head { chunk: usize, field: HeadField, value: u64 },
    /// Whole chunks.
    Chunks(ChunkChange),
    /// Bits of one byte of the file, so that a checksum is wrong.
    Flip { share: f64, bits: u8 },
    /// The end of the file is cut off.
    Cut { share: f64 },
    /// Bytes of a core's trace, or of the index.
    Bytes { chunk: usize, at: usize, with: Vec<u8> },
}

#[derive(Debug, Clone, Copy)]
enum HeadField {
    Kind,
    Len,
    Aux,
    Offset,
}

#[derive(Debug, Clone, Copy)]
enum ChunkChange {
    Swap(usize, usize),
    Double(usize),
    Drop(usize),
    Halve(usize),
}

/// At most `n` of `all`, each at most once, in their order.
fn some<T>(random: &mut Rng, mut all: Vec<T>, n: usize) -> Vec<T> {
    while all.len() > n {
        all.remove(random.usize(..all.len()));
    }
    all
}

/// The values that replace the value `now` of a number of `width` bytes.
fn extremes(width: usize, now: u64) -> Vec<u64> {
    let max = u64::MAX >> (64 - 8 * width);
    let sign = max / 2 + 1;
    let mut all =
        vec![0, 1, max, max - 1, sign, sign - 1, now.wrapping_add(1) & max, now.wrapping_sub(1) & max];
    all.retain(|&v| v != now);
    all.sort_unstable();
    all.dedup();
    all
}

/// The number of rows to which a list is extended.
const ROWS: usize = 20_000;

/// The changes of `model`. The same seed gives the same changes.
///
/// # Errors
/// If a record does not fit its schema.
pub fn plan(model: &Model, seed: u64, amount: Amount) -> Result<Vec<Mutation>> {
    let mut random = Rng::with_seed(seed);
    let mut all = Vec::new();
    for (name, target, layout) in chosen(model, &mut random, amount.records)? {
        let bytes = model.bytes(target).ok_or("a record that is not there")?;
        // Change each field in one row only.
        let mut fields: BTreeMap<&str, Vec<&Field>> = BTreeMap::new();
        layout.fields.iter().for_each(|f| fields.entry(&f.path).or_default().push(f));
        for (path, rows) in fields {
            let field = rows[random.usize(..rows.len())];
            let now = number(bytes, field.at, field.width);
            for value in some(&mut random, extremes(field.width, now), amount.values) {
                let change = CaptureChange::Number { target, at: field.at, width: field.width, value };
                all.push(Mutation { name: format!("{path} = {value:#x} ({name})"), change });
            }
        }
        let mut blobs: BTreeMap<&str, Vec<&Blob>> = BTreeMap::new();
        layout.blobs.iter().for_each(|b| blobs.entry(&b.path).or_default().push(b));
        for (path, rows) in blobs {
            let blob = rows[random.usize(..rows.len())];
            for (what, with) in some(&mut random, texts(&bytes[blob.from..blob.to]), amount.values) {
                let (from, to) = (blob.from, blob.to);
                let change = CaptureChange::Splice { target, from, to, count: with.len() as u32, with };
                all.push(Mutation { name: format!("{path} {what} ({name})"), change });
            }
        }
        for list in layout.lists.iter().filter(|l| l.rows.len() > 1) {
            for (what, count, with) in lists(bytes, list) {
                let (from, to) = (list.rows[0], list.rows[list.rows.len() - 1]);
                let change = CaptureChange::Splice { target, from, to, count, with };
                all.push(Mutation { name: format!("{} {what} ({name})", list.path), change });
            }
        }
    }
    all.extend(of_chunks(model, &mut random, amount));
    Ok(all)
}

/// Chooses the records to change: at most `n` of each kind of frame, sideband record and payload.
fn chosen(
    model: &Model,
    random: &mut Rng,
    n: usize,
) -> Result<Vec<(String, MutationTarget, EncodingLayout)>> {
    let mut kinds: BTreeMap<(u8, u32), Vec<MutationTarget>> = BTreeMap::new();
    for (p, part) in model.parts.iter().enumerate() {
        match part {
            Part::Metadata(frames) => frames.iter().enumerate().for_each(|(n, f)| {
                let kind = u16_at(f, 4).unwrap_or_default();
                kinds.entry((0, kind.into())).or_default().push(MutationTarget::Frame(p, n));
            }),
            Part::Sideband(_, records) => records.iter().enumerate().for_each(|(n, r)| {
                kinds
                    .entry((1, u32_at(r, 0).unwrap_or_default()))
                    .or_default()
                    .push(MutationTarget::Record(p, n));
            }),
            Part::Other(head, _) if matches!(head.kind, Kind::Header | Kind::Loss | Kind::End) => {
                kinds.entry((2, head.kind.code().into())).or_default().push(MutationTarget::Payload(p));
            }
            Part::Other(..) => {}
        }
    }
    let mut all = Vec::new();
    for ((of, kind), targets) in kinds {
        // Readers use only the last header.
        let targets = match (of, kind) {
            (2, 1) => targets[targets.len() - 1..].to_vec(),
            _ => some(random, targets, n),
        };
        for target in targets {
            let bytes = model.bytes(target).ok_or("a record that is not there")?;
            let layout = match of {
                0 => frame_layout(kind, bytes)?,
                1 => record_layout(kind, bytes),
                _ => payload_layout(Kind::of(kind as u16), bytes)?,
            };
            all.push((format!("{target:?}"), target, layout));
        }
    }
    Ok(all)
}

fn frame_layout(kind: u32, bytes: &[u8]) -> Result<EncodingLayout> {
    let schema = SCHEMA.iter().find(|s| s.kind.is_some_and(|k| u32::from(k) == kind));
    let name = schema.ok_or_else(|| format!("no schema of kind {kind}"))?.name;
    let mut all = layout(name, bytes, FRAME_HEADER)?;
    fixed(&mut all, name, 0, &[("frame.len", 4), ("frame.kind", 2), ("frame.flags", 2), ("frame.tsc", 8)]);
    Ok(all)
}

fn record_layout(kind: u32, bytes: &[u8]) -> EncodingLayout {
    let mut all = EncodingLayout::default();
    let known = LAYOUTS.iter().find(|l| l.kind == kind);
    let name = known.map_or("other", |l| l.name);
    fixed(&mut all, name, 0, &[("header.type", 4), ("header.misc", 2), ("header.size", 2)]);
    fixed(&mut all, name, HEADER_BYTES, known.map_or(&[], |l| l.fields));
    fixed(&mut all, &format!("{name}.sample"), bytes.len() - SAMPLE_ID_BYTES, TRAILER);
    all
}

fn payload_layout(kind: Kind, bytes: &[u8]) -> Result<EncodingLayout> {
    match kind {
        Kind::Header => layout("Header", bytes, 0),
        Kind::End => layout("End", bytes, 0),
        _ => layout("Loss", bytes, 0),
    }
}

fn fixed(all: &mut EncodingLayout, name: &str, mut at: usize, fields: &[(&str, usize)]) {
    for &(field, width) in fields {
        all.fields.push(Field { path: format!("{name}.{field}"), at, width });
        at += width;
    }
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut value = [0; 8];
    value[..width].copy_from_slice(&bytes[at..at + width]);
    u64::from_le_bytes(value)
}

/// Replacements for a string or for code.
fn texts(now: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![
        ("is empty", Vec::new()),
        ("is 65,520 letters", vec![b'a'; 65_520]),
        ("has control characters", b"a\n\x1b[31mb\0c".to_vec()),
        ("is no UTF-8", vec![0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]),
        ("stands twice", [now, now].concat()),
        ("is cut", now[..now.len() / 2].to_vec()),
    ];
    all.retain(|text| text.1 != now);
    all
}

/// Replacements for a list: its rows repeated many times, with a new count; its rows reversed;
/// and, if rows have parents, a list in which each row's parent is the row before it.
fn lists(bytes: &[u8], list: &List) -> Vec<(String, u32, Vec<u8>)> {
    let (first, last) = (list.rows[0], list.rows[list.rows.len() - 1]);
    let all = &bytes[first..last];
    let mut made: Vec<(String, u32, Vec<u8>)> = Vec::new();
    let rows = list.rows.len() - 1;
    let times = (ROWS / rows).max(2).min((8 << 20) / all.len().max(1) + 2);
    made.push((format!("stands {times} times"), (rows * times) as u32, all.repeat(times)));
    let row = &bytes[first..list.rows[1]];
    let mut backwards = Vec::with_capacity(all.len());
    list.rows.windows(2).rev().for_each(|w| backwards.extend_from_slice(&bytes[w[0]..w[1]]));
    made.push(("is turned round".into(), rows as u32, backwards));
    if let Some(parent) = list.parent {
        let mut nested = row.repeat(ROWS);
        for (n, row) in nested.chunks_mut(row.len()).enumerate().skip(1) {
            row[parent..parent + 4].copy_from_slice(&(n as u32 - 1).to_le_bytes());
        }
        made.push((format!("is {ROWS} rows deep"), ROWS as u32, nested));
    }
    made
}

fn of_chunks(model: &Model, random: &mut Rng, amount: Amount) -> Vec<Mutation> {
    let chunks = model.chunks();
    let mut all = Vec::new();
    let mut add = |name: String, change| all.push(Mutation { name, change });
    let mut kinds: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (n, (head, _)) in chunks.iter().enumerate() {
        kinds.entry(head.kind.code()).or_default().push(n);
    }
    for (code, numbers) in &kinds {
        let name = Kind::of(*code).name();
        for _ in 0..amount.records {
            let n = numbers[random.usize(..numbers.len())];
            let head = &chunks[n].0;
            for (field, what, width, now) in [
                (HeadField::Kind, "kind", 2, u64::from(head.kind.code())),
                (HeadField::Len, "length", 4, u64::from(head.len)),
                (HeadField::Aux, "aux", 4, u64::from(head.aux)),
                (HeadField::Offset, "offset", 8, head.offset),
            ] {
                for value in some(random, extremes(width, now), amount.values) {
                    add(
                        format!("{what} of {name} chunk {n} = {value:#x}"),
                        CaptureChange::Head { chunk: n, field, value },
                    );
                }
            }
        }
        for _ in 0..amount.chunks {
            let n = numbers[random.usize(..numbers.len())];
            add(format!("{name} chunk {n} twice"), CaptureChange::Chunks(ChunkChange::Double(n)));
            let n = numbers[random.usize(..numbers.len())];
            add(format!("{name} chunk {n} gone"), CaptureChange::Chunks(ChunkChange::Drop(n)));
            let n = numbers[random.usize(..numbers.len())];
            if !chunks[n].1.is_empty() {
                add(format!("{name} chunk {n} cut in half"), CaptureChange::Chunks(ChunkChange::Halve(n)));
            }
            let (a, b) = (numbers[random.usize(..numbers.len())], random.usize(..chunks.len()));
            add(
                format!("{name} chunk {a} and chunk {b} change places"),
                CaptureChange::Chunks(ChunkChange::Swap(a, b)),
            );
        }
    }
    for _ in 0..4 * amount.chunks {
        let share = random.f64();
        add(format!("the file cut at {share:.6}"), CaptureChange::Cut { share });
        let (share, bits) = (random.f64(), 1 << random.u32(..8));
        add(format!("a bit turned at {share:.6}"), CaptureChange::Flip { share, bits });
        for (kind, what) in [(Kind::Pt, "trace"), (Kind::Index, "index")] {
            let numbers = kinds.get(&kind.code()).map_or(&[][..], |v| v);
            let Some(&chunk) = random.choice(numbers) else { continue };
            // 0 in a chunk without trace: then nothing is changed.
            let at = random.usize(..chunks[chunk].1.len().max(1));
            let mut with = vec![0; random.usize(1..=24)];
            random.fill(&mut with);
            let name = format!("{what} of chunk {chunk} at {at}: {with:02x?}");
            add(name, CaptureChange::Bytes { chunk, at, with });
        }
    }
    all
}

impl Mutation {
    /// The bytes of the file of `model` with this change.
    pub fn apply(&self, model: &Model) -> Vec<u8> {
        match &self.change {
            CaptureChange::Number { target, at, width, value } => {
                let mut model = model.clone();
                let value = value.to_le_bytes();
                model.change(*target, |bytes| bytes[*at..at + width].copy_from_slice(&value[..*width]));
                model.file(&model.chunks())
            }
            CaptureChange::Splice { target, from, to, count, with } => {
                let mut model = model.clone();
                model.change(*target, |bytes| {
                    bytes[from - 4..*from].copy_from_slice(&count.to_le_bytes());
                    bytes.splice(*from..*to, with.iter().copied());
                });
                model.file(&model.chunks())
            }
            CaptureChange::Head { chunk, field, value } => {
                let mut chunks = model.chunks();
                let Some((head, payload)) = chunks.get_mut(*chunk) else { return model.file(&chunks) };
                let listed = !matches!(head.kind, Kind::Index | Kind::End);
                set(head, payload, *field, *value);
                if listed {
                    list_anew(&mut chunks);
                }
                model.file(&chunks)
            }
            CaptureChange::Chunks(change) => {
                let mut chunks = model.chunks();
                match *change {
                    ChunkChange::Swap(a, b) => chunks.swap(a, b),
                    ChunkChange::Double(n) => chunks.insert(n, chunks[n].clone()),
                    ChunkChange::Drop(n) => drop(chunks.remove(n)),
                    ChunkChange::Halve(n) => {
                        let (head, payload) = &mut chunks[n];
                        payload.truncate(payload.len() / 2);
                        *head = Head::of(head.kind, head.aux, head.offset, payload);
                    }
                }
                model.file(&chunks)
            }
            CaptureChange::Flip { share, bits } => {
                let mut file = model.file(&model.chunks());
                let at = place(&file, *share);
                file[at] ^= bits;
                file
            }
            CaptureChange::Cut { share } => {
                let mut file = model.file(&model.chunks());
                file.truncate(place(&file, *share));
                file
            }
            CaptureChange::Bytes { chunk, at, with } => {
                let mut chunks = model.chunks();
                let Some((head, payload)) = chunks.get_mut(*chunk) else { return model.file(&chunks) };
                let len = with.len().min(payload.len() - at);
                payload[*at..at + len].copy_from_slice(&with[..len]);
                *head = Head::of(head.kind, head.aux, head.offset, payload);
                if head.kind != Kind::Index {
                    list_anew(&mut chunks);
                }
                model.file(&chunks)
            }
        }
    }
}

/// The offset at a share of the file after the preamble.
fn place(file: &[u8], share: f64) -> usize {
    PREAMBLE + ((file.len() - PREAMBLE) as f64 * share) as usize
}

/// Changes a field of a chunk's head. A changed length also resizes the payload, unless it is too
/// large: then the head is wrong.
fn set(head: &mut Head, payload: &mut Vec<u8>, field: HeadField, value: u64) {
    const MOST: usize = 1 << 20;
    match field {
        HeadField::Kind => head.kind = Kind::of(value as u16),
        HeadField::Aux => head.aux = value as u32,
        HeadField::Offset => head.offset = value,
        HeadField::Len => {
            if (value as usize) <= payload.len() + MOST {
                payload.resize(value as usize, 0);
                *head = Head::of(head.kind, head.aux, head.offset, payload);
            }
            head.len = value as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::write_sample;
    use jportal_capture::CaptureReader;

    fn sample() -> (tempfile::TempDir, Model) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sample");
        write_sample(&path).unwrap();
        let mut model = Model::read(&path).unwrap();
        assert_eq!(model.file(&model.chunks()), std::fs::read(&path).unwrap());
        model.complete().unwrap();
        (dir, model)
    }

    #[test]
    fn each_field_of_each_record_is_changed() {
        let (_dir, model) = sample();
        let all = plan(&model, 1, Amount::SMALL).unwrap();
        let has = |path: &str| all.iter().any(|m| m.name.starts_with(&format!("{path} ")));
        for s in SCHEMA.iter().filter(|s| s.kind.is_some()) {
            for f in s.fields {
                assert!(
                    ["", ".len", ".count"].iter().any(|end| has(&format!("{}.{}{end}", s.name, f.name))),
                    "{}.{}",
                    s.name,
                    f.name
                );
            }
        }
        for l in LAYOUTS {
            for (field, _) in l.fields.iter().chain(&[("sample.time", 8), ("header.size", 2)]) {
                assert!(has(&format!("{}.{field}", l.name)), "{}.{field}", l.name);
            }
        }
        assert!(has("Header.code_cache_high") && has("Header.pt.filter[].low") && has("End.chunks"));
    }

    #[test]
    fn a_change_has_right_checksums_and_is_the_same_each_time() {
        let (dir, model) = sample();
        let path = dir.path().join("changed");
        let (one, two) = (plan(&model, 7, Amount::SMALL).unwrap(), plan(&model, 7, Amount::SMALL).unwrap());
        let whole = model.file(&model.chunks());
        let mut read = 0;
        for (m, same) in one.iter().zip(&two) {
            let bytes = m.apply(&model);
            assert_eq!((&m.name, &bytes), (&same.name, &same.apply(&model)));
            // A list of one row is the same in reverse order, and a chunk may change places with
            // itself.
            assert!(
                bytes != whole || m.name.contains("turned round") || m.name.contains("places"),
                "{}",
                m.name
            );
            if matches!(m.change, CaptureChange::Number { .. } | CaptureChange::Splice { .. }) {
                std::fs::write(&path, bytes).unwrap();
                match CaptureReader::open(&path) {
                    Ok(reader) => assert_eq!(reader.check().len(), 0, "{}", m.name),
                    // A length in the header may extend beyond its chunk.
                    Err(e) => assert!(m.name.starts_with("Header."), "{}: {e}", m.name),
                }
                read += 1;
            }
        }
        assert!(read > 200, "{read}");
    }

    #[test]
    fn extremes_of_a_number() {
        assert_eq!(extremes(1, 5), [0, 1, 4, 6, 0x7f, 0x80, 0xfe, 0xff]);
        assert_eq!(extremes(8, u64::MAX), [0, 1, i64::MAX as u64, 1 << 63, u64::MAX - 1]);
    }
}
