// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Timelines in Perfetto's format: a sequence of `TracePacket`s.
//!
//! A track per thread holds the slices. Tracks below it hold the bytecodes of each tier. Gaps are
//! slices named `lost`. Each thread is a packet sequence of its own with interned names, so threads
//! may be written at the same time.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use jportal_analyses::timeline::{Load, Lost, Slice, SliceEnd, TimelineSink};
use jportal_flow::{ThreadInfo, Tier};
use jportal_units::{MethodId, Tsc};
use prost::Message;

use super::{Clock, Process, entry_name, exit_name};

pub mod proto;

use proto::{
    CounterDescriptor, DebugAnnotation, InternedData, Named, ProcessDescriptor, ThreadDescriptor, Trace,
    TracePacket, TrackDescriptor, TrackEvent,
};

/// Bytes that a thread collects before it writes them.
const BATCH: usize = 1 << 16;
/// The track of the process.
const PROCESS: u64 = 1;
/// Numbers of tracks of one thread.
const TRACKS: u64 = 8;
/// Interned categories: the tiers by number plus 1, then gaps.
const CATEGORIES: [&str; 5] = ["interpreter", "C1", "C2", "native", "lost"];
const LOST: u64 = 5;
/// Interned names of annotations.
const NOTES: [&str; 8] =
    ["begin", "end", "tier at end", "line of call", "source", "inferred", "lost bytes", "reason"];
/// The interned name of gaps. Names of methods follow.
const LOST_NAME: u64 = 1;
const TIERS: [Tier; 3] = [Tier::Interpreter, Tier::C1, Tier::C2];

struct Out<W> {
    out: W,
    sequences: u32,
}

/// Writes the timelines of all threads to one stream.
pub struct Perfetto<W> {
    out: Arc<Mutex<Out<W>>>,
    clock: Clock,
    pid: i32,
}

impl<W> Clone for Perfetto<W> {
    fn clone(&self) -> Self {
        Self { out: Arc::clone(&self.out), ..*self }
    }
}

impl<W> std::fmt::Debug for Perfetto<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perfetto").field("clock", &self.clock).finish_non_exhaustive()
    }
}

fn signed(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

/// A packet as an element of a `Trace`.
fn append(packet: TracePacket, bytes: &mut Vec<u8>) {
    let trace = Trace { packet: vec![packet] };
    bytes.reserve(trace.encoded_len());
    // A vector has room for any message.
    let _ = trace.encode(bytes);
}

impl<W: Write + Send + 'static> Perfetto<W> {
    /// Writes the description of the process.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn new(mut out: W, clock: Clock, process: &Process) -> io::Result<Self> {
        let pid = signed(process.pid);
        let descriptor = ProcessDescriptor { pid: Some(pid), process_name: Some(process.name.clone()) };
        let track =
            TrackDescriptor { uuid: Some(PROCESS), process: Some(descriptor), ..TrackDescriptor::default() };
        let packet = TracePacket { track_descriptor: Some(track), ..TracePacket::default() };
        let mut bytes = Vec::new();
        append(packet, &mut bytes);
        out.write_all(&bytes)?;
        Ok(Self { out: Arc::new(Mutex::new(Out { out, sequences: 0 })), clock, pid })
    }
    /// The sink of one thread.
    pub fn thread(&self, info: &ThreadInfo) -> PerfettoThread<W> {
        let sequence = {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            out.sequences += 1;
            out.sequences
        };
        let mut thread = PerfettoThread {
            file: self.clone(),
            sequence,
            bytes: Vec::new(),
            names: HashMap::new(),
            counts: false,
        };
        thread.head(info);
        thread
    }
    /// Writes what the stream itself collected.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).out.flush()
    }
}

/// Writes the timeline of one thread. Keeps 64 KiB, and a number per method.
pub struct PerfettoThread<W> {
    file: Perfetto<W>,
    sequence: u32,
    bytes: Vec<u8>,
    names: HashMap<MethodId, u64>,
    /// The tracks of the tiers are described.
    counts: bool,
}

impl<W> std::fmt::Debug for PerfettoThread<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfettoThread").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

fn named(names: &[&str]) -> Vec<Named> {
    let one = |(iid, name): (u64, &&str)| Named { iid: Some(iid), name: Some((*name).to_owned()) };
    (1..).zip(names).map(one).collect()
}

/// An annotation with a text. `note`: its index in [`NOTES`].
fn text(note: u64, value: &str) -> DebugAnnotation {
    let string_value = Some(value.to_owned());
    DebugAnnotation { name_iid: Some(note + 1), string_value, ..DebugAnnotation::default() }
}

fn number(note: u64, value: u64) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(note + 1), uint_value: Some(value), ..DebugAnnotation::default() }
}

impl<W: Write + Send + 'static> PerfettoThread<W> {
    fn track(&self) -> u64 {
        u64::from(self.sequence) * TRACKS + PROCESS
    }
    fn packet(&self) -> TracePacket {
        let sequence_flags = Some(proto::NEEDS_INCREMENTAL_STATE);
        TracePacket {
            trusted_packet_sequence_id: Some(self.sequence),
            sequence_flags,
            ..TracePacket::default()
        }
    }
    fn head(&mut self, info: &ThreadInfo) {
        let thread = ThreadDescriptor {
            pid: Some(self.file.pid),
            tid: Some(info.tid.get().into()),
            thread_name: Some(info.name.clone()),
        };
        let track = TrackDescriptor {
            uuid: Some(self.track()),
            parent_uuid: Some(PROCESS),
            thread: Some(thread),
            ..TrackDescriptor::default()
        };
        let interned = InternedData {
            event_categories: named(&CATEGORIES),
            event_names: named(&["lost"]),
            debug_annotation_names: named(&NOTES),
        };
        let packet = TracePacket {
            sequence_flags: Some(proto::INCREMENTAL_STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            interned_data: Some(interned),
            track_descriptor: Some(track),
            ..self.packet()
        };
        append(packet, &mut self.bytes);
    }
    fn event(&mut self, at: Tsc, event: TrackEvent, interned: Option<InternedData>) -> io::Result<()> {
        let packet = TracePacket {
            timestamp: Some(self.file.clock.ns(at)),
            track_event: Some(event),
            interned_data: interned,
            ..self.packet()
        };
        append(packet, &mut self.bytes);
        if self.bytes.len() >= BATCH { self.write() } else { Ok(()) }
    }
    fn write(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        self.file.out.lock().unwrap_or_else(PoisonError::into_inner).out.write_all(&bytes)
    }
    /// The number of a method's name, and the name if it is new.
    fn name(&mut self, slice: &Slice<'_>) -> (u64, Option<InternedData>) {
        let next = LOST_NAME + 1 + self.names.len() as u64;
        let iid = *self.names.entry(slice.method).or_insert(next);
        let new = || InternedData {
            event_names: vec![Named { iid: Some(iid), name: Some(slice.name.to_owned()) }],
            ..InternedData::default()
        };
        (iid, (iid == next).then(new))
    }
    fn describe_tiers(&mut self) {
        if std::mem::replace(&mut self.counts, true) {
            return;
        }
        for (i, tier) in (1..).zip(TIERS) {
            let unit_name = Some("bytecodes/µs".to_owned());
            let track = TrackDescriptor {
                uuid: Some(self.track() + i),
                parent_uuid: Some(self.track()),
                name: Some(format!("bytecodes in {}", tier.name())),
                counter: Some(CounterDescriptor { unit_name }),
                ..TrackDescriptor::default()
            };
            let packet = TracePacket { track_descriptor: Some(track), ..self.packet() };
            append(packet, &mut self.bytes);
        }
    }
}

impl<W: Write + Send + 'static> TimelineSink for PerfettoThread<W> {
    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let (iid, interned) = self.name(slice);
        let mut notes = Vec::new();
        notes.extend(entry_name(slice.entry).map(|how| text(0, how)));
        notes.extend(slice.line.map(|line| number(3, line.into())));
        if !slice.source.is_empty() {
            notes.push(text(4, slice.source));
        }
        if slice.inferred {
            notes.push(DebugAnnotation { name_iid: Some(6), bool_value: Some(true), ..Default::default() });
        }
        let event = TrackEvent {
            category_iids: vec![slice.tier as u64 + 1],
            name_iid: Some(iid),
            r#type: Some(proto::SLICE_BEGIN),
            track_uuid: Some(self.track()),
            debug_annotations: notes,
            ..TrackEvent::default()
        };
        self.event(slice.begin, event, interned)
    }
    fn end(&mut self, end: &SliceEnd) -> io::Result<()> {
        let mut notes = Vec::new();
        notes.extend(exit_name(end.exit).map(|how| text(1, how)));
        notes.push(text(2, end.tier.name()));
        let event = TrackEvent {
            r#type: Some(proto::SLICE_END),
            track_uuid: Some(self.track()),
            debug_annotations: notes,
            ..TrackEvent::default()
        };
        self.event(end.end, event, None)
    }
    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let mut notes = vec![text(7, lost.reason)];
        notes.extend(lost.bytes.map(|bytes| number(6, bytes)));
        let track_uuid = Some(self.track());
        let event = TrackEvent {
            category_iids: vec![LOST],
            name_iid: Some(LOST_NAME),
            r#type: Some(if lost.until.is_some() { proto::SLICE_BEGIN } else { proto::INSTANT }),
            track_uuid,
            debug_annotations: notes,
            ..TrackEvent::default()
        };
        self.event(lost.since, event, None)?;
        let Some(until) = lost.until else { return Ok(()) };
        let r#type = Some(proto::SLICE_END);
        self.event(until, TrackEvent { r#type, track_uuid, ..TrackEvent::default() }, None)
    }
    fn load(&mut self, load: &Load) -> io::Result<()> {
        self.describe_tiers();
        let ns = self.file.clock.ns(load.until).saturating_sub(self.file.clock.ns(load.since));
        for (i, bytecodes) in (1..).zip(load.bytecodes) {
            let event = TrackEvent {
                r#type: Some(proto::COUNTER),
                track_uuid: Some(self.track() + i),
                double_counter_value: Some(bytecodes as f64 * 1000.0 / ns.max(1) as f64),
                ..TrackEvent::default()
            };
            self.event(load.since, event, None)?;
        }
        Ok(())
    }
    fn finish(&mut self) -> io::Result<()> {
        self.write()
    }
}

#[cfg(test)]
mod tests;
