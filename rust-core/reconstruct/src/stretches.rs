//! Which thread ran when on a core: sideband records → stretches of the PT stream.
//!
//! Every byte of a core's AUX stream lies in the range of one `PERF_RECORD_AUX`, whose
//! `sample_id` names the thread it was recorded for: the kernel stops the PT unit and
//! writes the record when the thread leaves the core, and at the watermark while it runs
//! (kernel/events/ring_buffer.c, `perf_aux_output_end`).

use jportal_perf_abi::record::{Body, RecordReader, aux_flags};
use jportal_units::{Address, Core, StreamOffset, Tid, Tsc};

/// A contiguous piece of one core's PT stream that belongs to one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The core.
    pub core: Core,
    /// The thread.
    pub tid: Tid,
    /// First byte.
    pub from: StreamOffset,
    /// First byte behind.
    pub to: StreamOffset,
    /// When the range was closed: the thread still was on the core.
    pub closed: Tsc,
    /// Trace was lost at the end of the range.
    pub truncated: bool,
}

/// A block that an emulated unit says ran with other bytes than its time suggests
/// ([`jportal_perf_abi::record::STALE_BLOCK`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleBlock {
    /// It is the first one behind.
    pub offset: StreamOffset,
    /// First instruction.
    pub address: Address,
    /// The bytes that ran.
    pub bytes: Vec<u8>,
}

/// The sideband of one core, digested.
#[derive(Clone, Debug, Default)]
pub struct CoreSideband {
    /// In stream order.
    pub stretches: Vec<Stretch>,
    /// In stream order.
    pub stale: Vec<StaleBlock>,
    /// `PERF_RECORD_LOST`: records the data ring had no room for.
    pub lost_records: u64,
    /// Bytes that are no records.
    pub malformed: u64,
}

/// Digests the sideband of `core`, given as its pieces in order.
pub fn digest(core: Core, pieces: impl Iterator<Item = Vec<u8>>) -> CoreSideband {
    let mut side = CoreSideband::default();
    for piece in pieces {
        for record in RecordReader::new(&piece) {
            match record {
                Ok(r) => side.take(core, &r.body, r.sample),
                Err(_) => side.malformed += 1,
            }
        }
    }
    side.stretches.sort_by_key(|s| s.from);
    side.stale.sort_by_key(|s| s.offset);
    side
}

impl CoreSideband {
    fn take(&mut self, core: Core, body: &Body, sample: jportal_perf_abi::record::SampleId) {
        match *body {
            Body::Aux { offset, size, flags } if size > 0 || flags & aux_flags::TRUNCATED != 0 => {
                self.stretches.push(Stretch {
                    core,
                    tid: Tid(sample.tid),
                    from: StreamOffset(offset),
                    to: StreamOffset(offset.saturating_add(size)),
                    closed: Tsc(sample.time),
                    truncated: flags & aux_flags::TRUNCATED != 0,
                });
            }
            Body::StaleBlock { offset, address, ref bytes } => self.stale.push(StaleBlock {
                offset: StreamOffset(offset),
                address: Address(address),
                bytes: bytes.clone(),
            }),
            Body::Lost { lost, .. } => self.lost_records = self.lost_records.saturating_add(lost),
            _ => {}
        }
    }
}
