// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A capture in parts: records can be changed, and the file can be written again with all
//! lengths, offsets and checksums right.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use jportal_capture::chunk::{HEAD, Head, Kind, PREAMBLE, index_chunk};
use jportal_capture::schema::{FRAME_HEADER, SCHEMA};
use jportal_perf_abi::record::{HEADER_BYTES, LAYOUTS, SAMPLE_ID_BYTES};

use super::layout::example;
use crate::Result;

/// The contents of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Whole frames of metadata.
    Metadata(Vec<Vec<u8>>),
    /// Whole records of a core's sideband.
    Sideband(u32, Vec<Vec<u8>>),
    /// Anything else, with its head.
    Other(Head, Vec<u8>),
}

/// A capture.
#[derive(Debug, Clone)]
pub struct Model {
    preamble: Vec<u8>,
    /// The parts, in the order of the file.
    pub parts: Vec<Part>,
}

/// Something in a [`Model`] whose bytes can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MutationTarget {
    /// A frame of metadata: the index of its part, and its index in that part.
    Frame(usize, usize),
    /// A record of the sideband: the index of its part, and its index in that part.
    Record(usize, usize),
    /// The payload of a part, by the index of the part.
    Payload(usize),
}

impl Model {
    /// Reads the capture at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not whole.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)?;
        let preamble = bytes.get(..PREAMBLE).ok_or("shorter than its preamble")?.to_vec();
        let mut model = Self { preamble, parts: Vec::new() };
        let (mut at, mut rest) = (PREAMBLE, Vec::new());
        while at < bytes.len() {
            let head = bytes[at..].first_chunk().and_then(Head::from_bytes).ok_or("no chunk head")?;
            at += HEAD;
            let payload = bytes.get(at..at + head.len as usize).ok_or("a torn chunk")?;
            at += payload.len();
            model.parts.push(match head.kind {
                Kind::Metadata => {
                    rest.extend_from_slice(payload);
                    Part::Metadata(whole(&mut rest, |b| Some(u32_at(b, 0)? as usize)))
                }
                Kind::Sideband => {
                    let mut records = payload.to_vec();
                    Part::Sideband(head.aux, whole(&mut records, |b| Some(usize::from(u16_at(b, 6)?))))
                }
                _ => Part::Other(head, payload.to_vec()),
            });
        }
        Ok(model)
    }

    /// Adds an example of each kind of record that the capture lacks.
    ///
    /// # Errors
    /// If a schema has a type that is not described, or there is no chunk to add to.
    pub fn complete(&mut self) -> Result<()> {
        let mut kinds = HashSet::new();
        let mut records = HashSet::new();
        for part in &self.parts {
            match part {
                Part::Metadata(frames) => kinds.extend(frames.iter().filter_map(|f| u16_at(f, 4))),
                Part::Sideband(_, all) => records.extend(all.iter().filter_map(|r| u32_at(r, 0))),
                Part::Other(..) => {}
            }
        }
        let missing = SCHEMA.iter().filter_map(|s| Some((s.kind?, s.name)));
        for (kind, name) in missing.filter(|(kind, _)| !kinds.contains(kind)) {
            let frames = self.parts.iter_mut().rev().find_map(|p| match p {
                Part::Metadata(frames) if !frames.is_empty() => Some(frames),
                _ => None,
            });
            let frames = frames.ok_or("no metadata")?;
            // Use the time of the last frame.
            let mut frame = frames[frames.len() - 1][..FRAME_HEADER].to_vec();
            frame[4..6].copy_from_slice(&kind.to_le_bytes());
            example(name, 1, 1, &mut frame)?;
            mend_frame(&mut frame);
            frames.push(frame);
        }
        for l in LAYOUTS.iter().filter(|l| !records.contains(&l.kind)) {
            let all = self.parts.iter_mut().find_map(|p| match p {
                Part::Sideband(_, all) if !all.is_empty() => Some(all),
                _ => None,
            });
            let all = all.ok_or("no sideband")?;
            let last = &all[all.len() - 1];
            let trailer = last[last.len() - SAMPLE_ID_BYTES..].to_vec();
            let mut record = vec![0; HEADER_BYTES];
            record[..4].copy_from_slice(&l.kind.to_le_bytes());
            for &(_, width) in l.fields {
                record.push(1);
                record.resize(record.len() + width - 1, 0);
            }
            record.resize(record.len().next_multiple_of(8), 0);
            record.extend_from_slice(&trailer);
            mend_record(&mut record);
            all.push(record);
        }
        Ok(())
    }

    /// The bytes of `target`.
    pub fn bytes(&self, target: MutationTarget) -> Option<&Vec<u8>> {
        match (target, self.parts.get(target.part())?) {
            (MutationTarget::Frame(_, n), Part::Metadata(all))
            | (MutationTarget::Record(_, n), Part::Sideband(_, all)) => all.get(n),
            (MutationTarget::Payload(_), Part::Other(_, payload)) => Some(payload),
            _ => None,
        }
    }

    /// Changes the bytes of `target`, and corrects the length in their head if it changed.
    pub fn change(&mut self, target: MutationTarget, f: impl FnOnce(&mut Vec<u8>)) {
        let Some(part) = self.parts.get_mut(target.part()) else { return };
        let (bytes, mend): (_, fn(&mut Vec<u8>)) = match (target, part) {
            (MutationTarget::Frame(_, n), Part::Metadata(all)) => (all.get_mut(n), mend_frame),
            (MutationTarget::Record(_, n), Part::Sideband(_, all)) => (all.get_mut(n), mend_record),
            (MutationTarget::Payload(_), Part::Other(_, payload)) => (Some(payload), |_| {}),
            _ => return,
        };
        let Some(bytes) = bytes else { return };
        let len = bytes.len();
        f(bytes);
        if bytes.len() != len {
            mend(bytes);
        }
    }

    /// The chunks of the file, with correct heads.
    pub fn chunks(&self) -> Vec<(Head, Vec<u8>)> {
        let (mut metadata, mut sideband) = (0, BTreeMap::<u32, u64>::new());
        let chunk = |part: &Part| match part {
            Part::Metadata(frames) => {
                let payload = frames.concat();
                let head = Head::of(Kind::Metadata, 0, metadata, &payload);
                metadata += payload.len() as u64;
                (head, payload)
            }
            Part::Sideband(core, records) => {
                let payload = records.concat();
                let end = sideband.entry(*core).or_default();
                let head = Head::of(Kind::Sideband, *core, *end, &payload);
                *end += payload.len() as u64;
                (head, payload)
            }
            Part::Other(head, payload) => {
                (Head::of(head.kind, head.aux, head.offset, payload), payload.clone())
            }
        };
        // A part without a whole frame is empty and is left out.
        let filled = |p: &&Part| !matches!(p, Part::Metadata(all) | Part::Sideband(_, all) if all.is_empty());
        let mut chunks: Vec<_> = self.parts.iter().filter(filled).map(chunk).collect();
        list_anew(&mut chunks);
        chunks
    }

    /// The bytes of the file that consists of these chunks.
    pub fn file(&self, chunks: &[(Head, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = self.preamble.clone();
        for (head, payload) in chunks {
            bytes.extend_from_slice(&head.to_bytes());
            bytes.extend_from_slice(payload);
        }
        bytes
    }
}

/// Makes the index chunks list the chunks before them.
pub(super) fn list_anew(chunks: &mut [(Head, Vec<u8>)]) {
    let (mut first, mut previous) = (0, 0);
    for n in 0..chunks.len() {
        match chunks[n].0.kind {
            Kind::Index => {
                let heads: Vec<Head> = chunks[first..n].iter().map(|chunk| chunk.0).collect();
                chunks[n] = index_chunk(&heads, previous);
                (first, previous) = (n + 1, chunks[n].0.len);
            }
            Kind::End => chunks[n].0.aux = if first == n { previous } else { 0 },
            _ => {}
        }
    }
}

impl MutationTarget {
    fn part(self) -> usize {
        match self {
            Self::Frame(part, _) | Self::Record(part, _) | Self::Payload(part) => part,
        }
    }
}

/// Removes all whole items from the front of `bytes` and returns them. `len` reads the length of
/// the first item.
fn whole(bytes: &mut Vec<u8>, len: impl Fn(&[u8]) -> Option<usize>) -> Vec<Vec<u8>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(item) =
        len(&bytes[at..]).filter(|&n| n > 0).and_then(|n| bytes.get(at..at.checked_add(n)?))
    {
        all.push(item.to_vec());
        at += item.len();
    }
    bytes.drain(..at);
    all
}

#[expect(clippy::ptr_arg, reason = "one of several that mend a part of any length")]
fn mend_frame(frame: &mut Vec<u8>) {
    let len = frame.len() as u32;
    frame[..4].copy_from_slice(&len.to_le_bytes());
}

fn mend_record(record: &mut Vec<u8>) {
    let size = record.len().min(usize::from(u16::MAX) & !7) as u16;
    record.truncate(size.into());
    record[6..8].copy_from_slice(&size.to_le_bytes());
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}
