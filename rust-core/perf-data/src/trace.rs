// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exports a core's trace: its own packets, and TSC packets where perf has to know the time.

use crate::clock::TraceClock;
use crate::error::Error;
use crate::file::{DataFile, TraceWriter};
use crate::packets::{self, Unit};
use crate::plan::CorePlan;
use crate::scan::InsertionPlace;
use jportal_capture::CaptureReader;
use jportal_pt_packet::{Encoder, Packet, Tnt};
use std::io::{Seek, Write};

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenCounts {
    /// Bytes, including inserted packets.
    pub bytes: u64,
    /// Inserted TSC packets.
    pub inserted: u64,
    /// CYC packets left out.
    pub cycles: u64,
    /// MTC packets left out because an inserted packet before them carries their time already.
    pub ticks: u64,
}

struct Rewriter<'p> {
    clock: TraceClock,
    insertions: std::iter::Peekable<std::collections::btree_map::Iter<'p, InsertionPlace, u64>>,
    /// Stretches in which a timing packet has to precede each TIP.PGE.
    quiet: std::iter::Peekable<std::slice::Iter<'p, (u64, u64)>>,
    /// The time of the last inserted packet.
    latest: u64,
    /// The crystal tick that the last inserted packet carries.
    told: Option<u64>,
    out: Encoder,
    written: WrittenCounts,
}

impl Rewriter<'_> {
    /// Writes the bytes for `unit`.
    fn unit(&mut self, unit: &Unit<'_>) {
        let Some(packet) = unit.packet else { return self.out.raw(unit.bytes) };
        if let Packet::TntShort(tnt) | Packet::TntLong(tnt) = packet
            && self.is_due(InsertionPlace { offset: unit.offset, outcome: tnt.len })
        {
            return self.tnt(unit.offset, tnt);
        }
        if !self.due(InsertionPlace { offset: unit.offset, outcome: 0 })
            && matches!(packet, Packet::TipPge(_))
            && self.is_quiet(unit.offset)
        {
            self.put_in(self.latest.max(self.clock.now()));
        }
        self.clock.take(&packet);
        match packet {
            Packet::Cyc(_) => self.written.cycles += 1,
            Packet::Mtc(_) if self.is_reported() => self.written.ticks += 1,
            Packet::Tsc(_) => {
                self.told = None;
                self.out.raw(unit.bytes);
            }
            _ => self.out.raw(unit.bytes),
        }
    }

    fn is_reported(&self) -> bool {
        let shift = self.clock.mtc_shift();
        matches!((self.told, self.clock.last_tick()), (Some(told), Some(tick)) if tick >> shift <= told >> shift)
    }

    fn is_due(&mut self, place: InsertionPlace) -> bool {
        self.insertions.peek().is_some_and(|i| *i.0 <= place)
    }

    fn is_quiet(&mut self, offset: u64) -> bool {
        while self.quiet.next_if(|q| q.1 < offset).is_some() {}
        self.quiet.peek().is_some_and(|q| q.0 <= offset)
    }

    /// Inserts the packets that are due before `place`. Returns whether there are any.
    fn due(&mut self, place: InsertionPlace) -> bool {
        let mut latest = None;
        while let Some((_, &tsc)) = self.insertions.next_if(|i| *i.0 <= place) {
            latest = latest.max(Some(tsc));
        }
        latest.is_some_and(|tsc| {
            self.put_in(tsc);
            true
        })
    }

    fn put_in(&mut self, tsc: u64) {
        self.out.tsc(tsc);
        self.written.inserted += 1;
        (self.latest, self.told) = (tsc, None);
        if let Some((tick, fast)) = self.clock.tma_at(tsc) {
            self.out.tma(tick as u16, fast);
            self.told = Some(tick);
        }
    }

    /// Writes a TNT in parts, with packets before its outcomes.
    fn tnt(&mut self, offset: u64, tnt: Tnt) {
        let mut from = 0;
        for outcome in 0..tnt.len {
            let place = InsertionPlace { offset, outcome };
            if self.is_due(place) {
                self.part(tnt, from, outcome);
                from = outcome;
                self.due(place);
            }
        }
        self.part(tnt, from, tnt.len);
    }

    fn part(&mut self, tnt: Tnt, from: u8, to: u8) {
        let bits = tnt.bits >> (tnt.len - to) & ((1 << (to - from)) - 1);
        self.out.tnt(bits, to - from);
    }
}

/// The new offsets of the edges of AUX records in the written trace.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// Offsets as recorded and as written, ascending.
    places: Vec<(u64, u64)>,
}

impl Edges {
    /// The offset in the written trace of what was recorded at `offset`.
    pub fn of(&self, offset: u64) -> u64 {
        let n = self.places.partition_point(|p| p.0 <= offset);
        let (from, to) = n.checked_sub(1).map_or((0, 0), |i| self.places[i]);
        to.saturating_add(offset - from)
    }
    /// The offset and the length in the written trace of the recorded bytes from `offset` on. Where
    /// trace is left out, an offset that is no edge may lie after the next edge; then there are
    /// none.
    pub fn piece(&self, offset: u64, size: u64) -> (u64, u64) {
        let from = self.of(offset);
        (from, self.of(offset.saturating_add(size)).saturating_sub(from))
    }
}

/// Writes a core's trace. `edges`: offsets whose new places are needed, ascending.
pub(crate) fn write<W: Write + Seek>(
    reader: &CaptureReader,
    plan: &CorePlan,
    clock: TraceClock,
    edges: &[u64],
    file: &mut DataFile<W>,
) -> Result<(WrittenCounts, Edges), Error> {
    let core = plan.core;
    let first = reader.pt(core).first().map_or(0, |p| p.offset);
    let mut writer = TraceWriter::new(core.0, first, plan.scan.begins.max(1));
    let mut rewriter = Rewriter {
        clock,
        insertions: plan.insertions.iter().peekable(),
        quiet: plan.scan.quiet.iter().peekable(),
        latest: 0,
        told: None,
        out: Encoder::new(),
        written: WrittenCounts::default(),
    };
    let mut moved = Edges::default();
    let mut edges = edges.iter().copied().peekable();
    packets::for_each(reader, core, &plan.losses, |unit| {
        if unit.after_loss {
            let to = writer.place().max(unit.offset);
            writer.jump(file, to)?;
        }
        let end = unit.offset + unit.bytes.len() as u64;
        while let Some(edge) = edges.next_if(|&e| e < end) {
            // An edge inside a packet moves with the bytes of the packet.
            moved.places.push((edge, writer.place() + edge.saturating_sub(unit.offset)));
        }
        rewriter.out.clear();
        if unit.is_cut_off {
            return Ok(());
        }
        if unit.after_loss {
            // perf does not search for the next PSB by itself.
            rewriter.out.ovf();
        }
        rewriter.unit(&unit);
        rewriter.written.bytes += rewriter.out.len() as u64;
        writer.put(file, rewriter.out.bytes())
    })?;
    edges.for_each(|e| moved.places.push((e, writer.place())));
    let end = writer.place();
    writer.jump(file, end)?;
    Ok((rewriter.written, moved))
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
