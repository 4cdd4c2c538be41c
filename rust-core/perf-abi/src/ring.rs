// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The data ring and the AUX ring of one core, producer and consumer.
//!
//! The ordering is the kernel's (`kernel/events/ring_buffer.c`, `perf_output_put_handle`): the
//! producer stores `head` with release after the bytes, and the consumer loads it with acquire.
//! The consumer stores `tail` with release after it has read, and the producer loads it with
//! acquire before it overwrites. Positions grow without bound; the offset in the ring is the
//! position modulo the size, a power of two. At most one producer and one consumer may exist
//! per ring.

use crate::Error;
use crate::layout::{
    AUX_HEAD, AUX_OFFSET, AUX_SIZE, AUX_TAIL, CAPABILITIES, DATA_HEAD, DATA_OFFSET, DATA_SIZE, DATA_TAIL,
    LOCK, PAGE_SIZE, SIZE, TIME_MULT, TIME_SHIFT, TIME_ZERO, VERSION,
};
use crate::memory::Block;
use crate::record::{Body, Record, SampleId, aux_flags};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The ring has no room, and the bytes were not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingFull;

/// One core's control page, data ring and AUX ring.
#[derive(Debug, Clone)]
pub struct CoreMemory {
    page: Block,
    data: Block,
    aux: Block,
}

impl CoreMemory {
    /// Takes the three pieces.
    ///
    /// # Errors
    /// When a ring's size is not a power of two of at least a page.
    pub fn new(page: Block, data: Block, aux: Block) -> Result<Self, Error> {
        check_size("control page bytes", page.len(), PAGE_SIZE)?;
        check_size("data ring bytes", data.len(), PAGE_SIZE)?;
        check_size("AUX ring bytes", aux.len(), PAGE_SIZE)?;
        Ok(Self { page, data, aux })
    }

    /// Takes a control page and a data ring without an AUX ring. Its AUX stream is always
    /// empty.
    ///
    /// # Errors
    /// As [`CoreMemory::new`].
    pub fn without_aux(page: Block, data: Block) -> Result<Self, Error> {
        check_size("control page bytes", page.len(), PAGE_SIZE)?;
        check_size("data ring bytes", data.len(), PAGE_SIZE)?;
        let aux =
            data.part(0, 0).ok_or(Error::Configuration { field: "AUX ring", value: 0, rule: "empty" })?;
        Ok(Self { page, data, aux })
    }

    /// Announces to the kernel where the AUX ring will be mapped: directly after the data ring.
    /// Returns that offset.
    pub fn announce_aux(page: &Block, data_bytes: u64, aux_bytes: u64) -> u64 {
        let offset = PAGE_SIZE as u64 + data_bytes;
        page.u64_at(AUX_OFFSET).store(offset, Relaxed);
        page.u64_at(AUX_SIZE).store(aux_bytes, Release);
        offset
    }

    /// Offset and size that [`CoreMemory::announce_aux`] announced in `page`.
    pub fn announced_aux(page: &Block) -> (u64, u64) {
        (page.u64_at(AUX_OFFSET).load(Relaxed), page.u64_at(AUX_SIZE).load(Acquire))
    }

    /// Writes the constant fields of the control page as the kernel does at `mmap`.
    pub fn initialize(&self) {
        self.page.u32_at(VERSION).store(0, Relaxed);
        self.page.u32_at(SIZE).store(96, Relaxed);
        let data = PAGE_SIZE as u64;
        let aux = data + self.data.len() as u64;
        for (field, value) in [
            (DATA_OFFSET, data),
            (DATA_SIZE, self.data.len() as u64),
            (AUX_OFFSET, aux),
            (AUX_SIZE, self.aux.len() as u64),
            (DATA_HEAD, 0),
            (DATA_TAIL, 0),
            (AUX_HEAD, 0),
            (AUX_TAIL, 0),
        ] {
            self.page.u64_at(field).store(value, Relaxed);
        }
    }

    fn ring(&self, kind: RingKind) -> Ring {
        match kind {
            RingKind::Data => Ring {
                page: self.page.clone(),
                bytes: self.data.clone(),
                head: DATA_HEAD,
                tail: DATA_TAIL,
                kind,
            },
            RingKind::Aux => Ring {
                page: self.page.clone(),
                bytes: self.aux.clone(),
                head: AUX_HEAD,
                tail: AUX_TAIL,
                kind,
            },
        }
    }

    /// The producing half, for core `core` of process `pid`. At most one may be in use.
    pub fn producer(&self, pid: u32, core: u32) -> CoreProducer {
        CoreProducer {
            data: DataProducer::new(self.ring(RingKind::Data)),
            aux: AuxProducer::new(self.ring(RingKind::Aux)),
            pid,
            core,
            scratch: Vec::new(),
        }
    }

    /// The consuming half. At most one may be in use.
    pub fn consumer(&self) -> CoreConsumer {
        CoreConsumer {
            data: Consumer::new(self.ring(RingKind::Data)),
            aux: Consumer::new(self.ring(RingKind::Aux)),
        }
    }
}

/// The conversion of TSC ticks to perf's own clock, as a control page states it:
/// `ns = zero + (tsc >> shift) * mult + (((tsc & ((1 << shift) - 1)) * mult) >> shift)`,
/// wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfTime {
    /// `time_shift`.
    pub shift: u16,
    /// `time_mult`.
    pub mult: u32,
    /// `time_zero`.
    pub zero: u64,
}

impl PerfTime {
    /// Reads a control page; `None` if the kernel does not guarantee the conversion
    /// (`cap_user_time_zero` of `arch_perf_update_userpage`: it does so only if `sched_clock`
    /// is the stable TSC).
    pub fn read(page: &Block) -> Option<Self> {
        const CAP_USER_TIME_ZERO: u64 = 1 << 4;
        const ATTEMPTS: usize = 1000;
        for _ in 0..ATTEMPTS {
            let before = page.u32_at(LOCK).load(Acquire);
            let capable = page.u64_at(CAPABILITIES).load(Acquire) & CAP_USER_TIME_ZERO != 0;
            let shift = (page.u32_at(TIME_SHIFT - 2).load(Acquire) >> 16) as u16;
            let (mult, zero) = (page.u32_at(TIME_MULT).load(Acquire), page.u64_at(TIME_ZERO).load(Acquire));
            if before.is_multiple_of(2) && page.u32_at(LOCK).load(Acquire) == before {
                return (capable && mult != 0 && shift < 64).then_some(Self { shift, mult, zero });
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Writes a control page, for tests that play the kernel.
    pub fn write(self, page: &Block) {
        page.u64_at(CAPABILITIES).store(1 << 4 | 1 << 3, Release);
        page.u32_at(TIME_SHIFT - 2).store(u32::from(self.shift) << 16, Release);
        page.u32_at(TIME_MULT).store(self.mult, Release);
        page.u64_at(TIME_ZERO).store(self.zero, Release);
    }
}

pub(crate) fn check_size(field: &'static str, bytes: usize, least: usize) -> Result<(), Error> {
    if bytes >= least && bytes.is_power_of_two() {
        return Ok(());
    }
    Err(Error::Configuration { field, value: bytes as u64, rule: "a power of two of at least 4096" })
}

#[derive(Debug, Clone, Copy)]
enum RingKind {
    Data,
    Aux,
}

#[derive(Debug)]
struct Ring {
    page: Block,
    bytes: Block,
    head: usize,
    tail: usize,
    kind: RingKind,
}

impl Ring {
    #[inline]
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Writes at stream position `at`, wrapping; the caller has checked that there is room.
    fn put(&self, at: u64, bytes: &[u8]) {
        let place = (at & self.size().wrapping_sub(1)) as usize;
        let first = bytes.len().min(self.bytes.len() - place);
        self.bytes.write(place, &bytes[..first]);
        if first < bytes.len() {
            self.bytes.write(0, &bytes[first..]);
        }
    }

    fn get(&self, at: u64, len: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        let place = (at & self.size().wrapping_sub(1)) as usize;
        let first = len.min(self.bytes.len() - place);
        to.try_reserve(len).map_err(|_| Error::Memory { bytes: len })?;
        self.bytes.read(place, first, to)?;
        self.bytes.read(0, len - first, to)
    }

    /// Bytes that a producer at `head` may write. One byte of the AUX ring stays free, as with
    /// the kernel's `CIRC_SPACE`. A tail ahead of `head` gives no room.
    fn room(&self, head: u64, spare: u64) -> u64 {
        let used = head.wrapping_sub(self.page.u64_at(self.tail).load(Acquire));
        self.size().saturating_sub(spare).saturating_sub(used)
    }
}

/// Writes records to a data ring.
#[derive(Debug)]
pub struct DataProducer {
    ring: Ring,
    head: u64,
    lost: u64,
}

impl DataProducer {
    fn new(ring: Ring) -> Self {
        let head = ring.page.u64_at(ring.head).load(Relaxed);
        Self { ring, head, lost: 0 }
    }

    /// Free bytes.
    pub fn room(&self) -> u64 {
        self.ring.room(self.head, 0)
    }

    /// Writes whole records (a multiple of 8 bytes) and publishes them.
    ///
    /// # Errors
    /// When they do not fit; nothing was written or counted.
    pub fn push(&mut self, records: &[u8]) -> Result<(), RingFull> {
        if records.len() as u64 > self.room() {
            return Err(RingFull);
        }
        self.ring.put(self.head, records);
        self.head = self.head.wrapping_add(records.len() as u64);
        self.ring.page.u64_at(self.ring.head).store(self.head, Release);
        Ok(())
    }

    /// Writes one record, or drops and counts it as the kernel does. `PERF_RECORD_LOST`
    /// precedes the first record that fits again. Returns whether the record was written.
    pub fn push_or_count(&mut self, record: &[u8], sample: SampleId) -> bool {
        let result = if self.lost == 0 {
            self.push(record)
        } else {
            let lost = Body::Lost { id: sample.id, lost: self.lost };
            let mut both = Record { body: lost, sample }.to_bytes();
            both.extend_from_slice(record);
            self.push(&both)
        };
        match result {
            Ok(()) => self.lost = 0,
            Err(RingFull) => self.lost += 1,
        }
        result.is_ok()
    }
}

/// Writes trace bytes to an AUX ring. Written bytes are visible only after
/// [`AuxProducer::publish`].
#[derive(Debug)]
pub struct AuxProducer {
    ring: Ring,
    head: u64,
    published: u64,
}

impl AuxProducer {
    fn new(ring: Ring) -> Self {
        let head = ring.page.u64_at(ring.head).load(Relaxed);
        Self { ring, head, published: head }
    }

    /// Free bytes.
    pub fn room(&self) -> u64 {
        self.ring.room(self.head, 1)
    }

    /// Position of the next byte in the stream.
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Bytes written since the last [`AuxProducer::publish`].
    pub fn pending(&self) -> u64 {
        self.head.wrapping_sub(self.published)
    }

    /// Size of the ring.
    pub fn size(&self) -> u64 {
        self.ring.size()
    }

    /// Writes all of `bytes` or nothing.
    ///
    /// # Errors
    /// When they do not fit.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), RingFull> {
        if bytes.len() as u64 > self.room() {
            return Err(RingFull);
        }
        self.ring.put(self.head, bytes);
        self.head = self.head.wrapping_add(bytes.len() as u64);
        Ok(())
    }

    /// Writes `bytes` over the oldest bytes, as the kernel does in a ring that is mapped
    /// read-only.
    #[inline]
    pub fn overwrite(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.ring.bytes.len()) {
            self.ring.put(self.head, part);
            self.head = self.head.wrapping_add(part.len() as u64);
        }
    }

    /// Moves `aux_head` to the offset in the ring of the next byte, and returns that offset. In
    /// a ring that is overwritten, the kernel's `aux_head` is an offset, not a count.
    pub fn publish_place(&mut self) -> u64 {
        self.published = self.head;
        let place = self.head & (self.size() - 1);
        self.ring.page.u64_at(self.ring.head).store(place, Release);
        place
    }

    /// Moves `aux_head` to the end of everything written.
    pub fn publish(&mut self) {
        self.published = self.head;
        self.ring.page.u64_at(self.ring.head).store(self.head, Release);
    }
}

/// The producing side of one core, with the kernel's rules on when each record is written.
#[derive(Debug)]
pub struct CoreProducer {
    /// The data ring. Use it directly for types of records without a method here.
    pub data: DataProducer,
    /// Trace bytes.
    pub aux: AuxProducer,
    pid: u32,
    core: u32,
    scratch: Vec<u8>,
}

impl CoreProducer {
    /// The trailer of a record of thread `tid` at `tsc`.
    pub fn sample(&self, tid: u32, tsc: u64) -> SampleId {
        SampleId { pid: self.pid, tid, time: tsc, cpu: self.core, id: u64::from(self.core) + 1 }
    }

    /// Writes one record.
    ///
    /// # Errors
    /// When the data ring is full; nothing was written.
    pub fn record(&mut self, body: Body, tid: u32, tsc: u64) -> Result<(), RingFull> {
        self.scratch.clear();
        Record { body, sample: self.sample(tid, tsc) }.encode(&mut self.scratch);
        self.data.push(&self.scratch)
    }

    /// Writes one record or counts it as lost ([`DataProducer::push_or_count`]).
    pub fn record_or_count(&mut self, body: Body, tid: u32, tsc: u64) -> bool {
        self.scratch.clear();
        let sample = self.sample(tid, tsc);
        Record { body, sample }.encode(&mut self.scratch);
        self.data.push_or_count(&self.scratch, sample)
    }

    /// Thread `tid` enters the core.
    ///
    /// # Errors
    /// When the data ring is full.
    pub fn switch_in(&mut self, tid: u32, tsc: u64) -> Result<(), RingFull> {
        self.record(Body::Switch { out: false, preempted: false }, tid, tsc)
    }

    /// Thread `tid` leaves the core. The kernel writes this record first and then stops the
    /// PMU, which writes the AUX record (`__perf_event_task_sched_out`).
    ///
    /// # Errors
    /// When the data ring is full.
    pub fn switch_out(&mut self, tid: u32, tsc: u64, preempted: bool) -> Result<(), RingFull> {
        self.record(Body::Switch { out: true, preempted }, tid, tsc)
    }

    /// Ends the AUX bytes written since the last call: they belong to `tid` alone. Writes the
    /// AUX record (if there are bytes or flags) and then moves `aux_head`, as
    /// `perf_aux_output_end` does.
    ///
    /// # Errors
    /// When the data ring is full; the bytes stay pending and the call can be repeated.
    pub fn end_aux(&mut self, tid: u32, tsc: u64, flags: u64) -> Result<(), RingFull> {
        let size = self.aux.pending();
        if size != 0 || flags & !aux_flags::OVERWRITE != 0 {
            self.record(Body::Aux { offset: self.aux.published, size, flags }, tid, tsc)?;
        }
        self.aux.publish();
        Ok(())
    }

    /// Whether a quarter of the buffer is pending, at which the kernel would raise its
    /// interrupt.
    pub fn at_watermark(&self) -> bool {
        self.aux.pending() >= self.aux.size() / 4
    }
}

/// Reads one of the two rings.
#[derive(Debug)]
pub struct Consumer {
    ring: Ring,
    tail: u64,
}

impl Consumer {
    fn new(ring: Ring) -> Self {
        let tail = ring.page.u64_at(ring.tail).load(Relaxed);
        Self { ring, tail }
    }

    /// Position of the next byte to read.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Size of the ring.
    pub fn size(&self) -> u64 {
        self.ring.size()
    }

    /// Bytes that can be read now.
    ///
    /// # Errors
    /// When the producer's position is impossible; nothing more can be read from this ring.
    pub fn available(&self) -> Result<u64, Error> {
        let head = self.ring.page.u64_at(self.ring.head).load(Acquire);
        let available = head.wrapping_sub(self.tail);
        if available > self.ring.size() {
            let ring = match self.ring.kind {
                RingKind::Data => "data",
                RingKind::Aux => "AUX",
            };
            return Err(Error::CorruptRing { ring, head, tail: self.tail, size: self.ring.size() });
        }
        Ok(available)
    }

    /// Appends up to `limit` bytes to `to` and frees their room; returns the number of bytes.
    ///
    /// # Errors
    /// As [`Consumer::available`].
    pub fn drain(&mut self, to: &mut Vec<u8>, limit: usize) -> Result<usize, Error> {
        let n = usize::try_from(self.available()?).unwrap_or(usize::MAX).min(limit);
        self.ring.get(self.tail, n, to)?;
        self.tail = self.tail.wrapping_add(n as u64);
        self.ring.page.u64_at(self.ring.tail).store(self.tail, Release);
        Ok(n)
    }

    /// For a ring that is overwritten, while no producer writes: the offset in the ring of the
    /// next byte to be written.
    pub fn place(&self) -> u64 {
        self.ring.page.u64_at(self.ring.head).load(Acquire) & self.ring.size().wrapping_sub(1)
    }

    /// For a ring that is overwritten, while no producer writes: appends the last `n` bytes, at
    /// most the whole ring, to `to`.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn last(&self, n: u64, to: &mut Vec<u8>) -> Result<(), Error> {
        let n = n.min(self.ring.size());
        self.ring.get(self.place().wrapping_sub(n), n as usize, to)
    }

    /// Frees everything published without reading it; returns the number of bytes.
    ///
    /// # Errors
    /// As [`Consumer::available`].
    pub fn discard(&mut self) -> Result<u64, Error> {
        let n = self.available()?;
        self.tail = self.tail.wrapping_add(n);
        self.ring.page.u64_at(self.ring.tail).store(self.tail, Release);
        Ok(n)
    }
}

/// The consuming side of one core.
///
/// To find the AUX record of every trace byte, note `aux.available()` *before* draining `data`,
/// and take no more than that from `aux` afterwards: the record is written before `aux_head`
/// moves.
#[derive(Debug)]
pub struct CoreConsumer {
    /// The data ring.
    pub data: Consumer,
    /// The AUX ring.
    pub aux: Consumer,
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
