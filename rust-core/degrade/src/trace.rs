// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! One core's trace with its records, its times and its synchronisation points.

use crate::error::Error;
use crate::map::Map;
use crate::ring::Arrivals;
use jportal_capture::CaptureReader;
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::{Body, Record, RecordReader};
use jportal_pt_packet::{Packet, PacketDecoder, nearest_tsc};
use jportal_units::{Core, StreamOffset};

/// One core's trace, contiguous from offset 0 on.
#[derive(Clone, Debug)]
pub struct CoreTrace {
    /// The core.
    pub core: Core,
    /// The PT stream.
    pub bytes: Vec<u8>,
    /// The sideband, in order.
    pub records: Vec<Record>,
}

/// The bytes of one `PERF_RECORD_AUX`, which belong to one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// First byte.
    pub from: u64,
    /// First byte after them.
    pub to: u64,
    /// The thread.
    pub tid: u32,
    /// Time of the record.
    pub closed: u64,
}

impl CoreTrace {
    /// Reads the trace of `core`.
    ///
    /// # Errors
    /// When it cannot be read, has lost something already, or is not covered by its records.
    pub fn read(reader: &CaptureReader, core: Core) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let mut piece_bytes = Vec::new();
        for piece in reader.pt(core) {
            if piece.offset != bytes.len() as u64 {
                let (expected, found) = (StreamOffset(bytes.len() as u64), StreamOffset(piece.offset));
                return Err(Error::Cover { core, expected, found });
            }
            reader.read_into(piece, &mut piece_bytes)?;
            bytes.extend_from_slice(&piece_bytes);
        }
        let mut records = Vec::new();
        for piece in reader.sideband_bytes(core) {
            for record in RecordReader::new(&piece?) {
                records.push(record.map_err(|source| Error::Record { core, source })?);
            }
        }
        let trace = Self { core, bytes, records };
        trace.check()?;
        Ok(trace)
    }

    /// Rejects a trace that has lost something.
    fn check(&self) -> Result<(), Error> {
        let core = self.core;
        let lossy = |offset, what| Err(Error::Lossy { core, offset: StreamOffset(offset), what });
        let mut at = 0;
        for record in &self.records {
            match record.body {
                Body::Lost { .. } => return lossy(at, "lost records"),
                Body::Aux { offset, flags, .. } if flags & aux_flags::TRUNCATED != 0 => {
                    return lossy(offset, "a truncated AUX record");
                }
                Body::Aux { offset, flags, .. } if flags != 0 => {
                    return lossy(offset, "an AUX record that is not of full trace");
                }
                Body::Aux { offset, .. } if offset != at => {
                    let (expected, found) = (StreamOffset(at), StreamOffset(offset));
                    return Err(Error::Cover { core, expected, found });
                }
                // No trace is that long; the comparison with the length detects it.
                Body::Aux { size, .. } => at = at.saturating_add(size),
                _ => {}
            }
        }
        let len = self.bytes.len() as u64;
        if at != len {
            let (expected, found) = (StreamOffset(len), StreamOffset(at));
            return Err(Error::Cover { core, expected, found });
        }
        Ok(())
    }

    /// Which thread each byte belongs to, ascending.
    pub fn owned(&self) -> impl Iterator<Item = Owned> + '_ {
        self.records.iter().filter_map(|r| match r.body {
            Body::Aux { offset, size, .. } if size > 0 => {
                Some(Owned { from: offset, to: offset + size, tid: r.sample.tid, closed: r.sample.time })
            }
            _ => None,
        })
    }

    /// Reads all packets for their times and for the places where decoding can begin.
    ///
    /// `near`: a full TSC near those of the trace.
    ///
    /// # Errors
    /// If the bytes are not packets.
    pub fn arrivals(&self, near: u64) -> Result<Arrivals, Error> {
        let mut packets = PacketTimes { near, ..PacketTimes::default() };
        let mut decoder = PacketDecoder::new(&self.bytes);
        decoder
            .for_each(|offset, packet| packets.take(offset.0, packet))
            .map_err(|source| Error::Packet { core: self.core, source })?;
        let closes = self.owned().map(|o| o.to).collect();
        let mut points = packets.points;
        points.extend(self.owned().map(|o| (o.to, o.closed)));
        points.sort_unstable();
        ascending(&mut points);
        ascending(&mut packets.syncs);
        Ok(Arrivals { points, syncs: packets.syncs, closes, len: self.bytes.len() as u64 })
    }

    /// Rejects a trace that contains an OVF.
    ///
    /// # Errors
    /// If there is one, or the bytes are not packets.
    pub fn check_packets(&self) -> Result<(), Error> {
        let mut first = None;
        PacketDecoder::new(&self.bytes)
            .for_each(|offset, packet| {
                if packet == Packet::Ovf {
                    first.get_or_insert(offset);
                }
            })
            .map_err(|source| Error::Packet { core: self.core, source })?;
        match first {
            Some(offset) => Err(Error::Lossy { core: self.core, offset, what: "an OVF packet" }),
            None => Ok(()),
        }
    }

    /// The trace after `map`'s cuts, each of which lies inside of the bytes of one thread.
    #[must_use]
    pub fn cut(&self, map: &Map) -> Self {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let _ = map.apply(&self.bytes, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, std::convert::Infallible>(())
        });
        let moved = |r: &Record| moved(r, map).map(|body| Record { body, sample: r.sample });
        Self { core: self.core, bytes, records: self.records.iter().filter_map(moved).collect() }
    }
}

/// `record` after cuts that lie inside of AUX records; `None` if it describes a block that was
/// cut out.
fn moved(record: &Record, map: &Map) -> Option<Body> {
    Some(match record.body {
        Body::Aux { offset, size, flags } => {
            let from = map.new_place(offset);
            Body::Aux { offset: from, size: map.new_place(offset + size) - from, flags }
        }
        Body::StaleBlock { offset, .. } if map.is_cut(offset) => return None,
        Body::StaleBlock { offset, address, ref bytes } => {
            Body::StaleBlock { offset: map.new_place(offset), address, bytes: bytes.clone() }
        }
        ref other => other.clone(),
    })
}

/// Makes times never decrease, whatever the clocks of two processors say.
fn ascending(points: &mut [(u64, u64)]) {
    let mut latest = 0;
    for point in points {
        latest = latest.max(point.1);
        point.1 = latest;
    }
}

#[derive(Default)]
struct PacketTimes {
    /// A full TSC near those of the trace: a TSC packet has only 56 bits.
    near: u64,
    points: Vec<(u64, u64)>,
    syncs: Vec<(u64, u64)>,
    /// A PSB that has no time so far.
    psb: Option<u64>,
}

impl PacketTimes {
    #[inline]
    fn take(&mut self, offset: u64, packet: Packet) {
        match packet {
            Packet::Psb => self.psb = Some(offset),
            Packet::Tsc(low) => {
                let tsc = nearest_tsc(low, self.near);
                self.points.push((offset, tsc));
                self.syncs.extend(self.psb.take().map(|psb| (psb, tsc)));
            }
            // A PSB+ without time: the unit does not send TSC packets.
            Packet::PsbEnd => self.psb = None,
            _ => {}
        }
    }
}
