// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Moves trace bytes and records from a core's unit into its rings.
//!
//! The unit's bytes and the records about them form one ordered sequence per core. In `stall`
//! mode, whatever does not fit into the rings waits in a queue on the host side, and a host
//! thread moves it into the rings in order ([`Outlet::advance`]). Hence a guest thread never
//! waits for the guest thread that drains. In `drop` mode, output stops at the end of the last
//! free region, where the kernel programs a PT unit to stop (`pt_buffer_reset_markers`): the
//! AUX record carries TRUNCATED, and tracing is off until a region is free again.
//!
//! A ring that is overwritten ([`Outlet::set_overwrite`]) is never full. In `stall` mode only
//! records can wait then.
//!
//! A core's stream consists of *sections*, each written by one unit. There is more than one
//! when a thread lost the core in the middle of a block: its section remains open until the
//! thread's next event shows how the block ended, and the calls for later sections wait
//! ([`Outlet::open_section`]).
//!
//! An AUX record is written, and `aux_head` moves, when a thread leaves the core and whenever a
//! quarter of the ring is pending. The bytes of one record belong to one thread.

use std::collections::VecDeque;

use jportal_perf_abi::Body;
use jportal_perf_abi::record::aux_flags;
use jportal_perf_abi::ring::CoreProducer;

use crate::config::OnFull;
use crate::truth::{CoreLog, Entry};

/// An item that waits for room in the rings.
#[derive(Debug)]
enum QueuedItem {
    Bytes(Vec<u8>),
    Aux { tid: u32, tsc: u64 },
    Record { body: Body, tid: u32, tsc: u64 },
}

/// The model of a drain with a limited speed, however fast the real drain is.
#[derive(Clone, Copy, Debug)]
struct SlowDrain {
    /// Bytes per tick of the TSC.
    speed: f64,
    /// TSC at which `taken` was computed.
    tsc: u64,
    /// Bytes taken so far.
    taken: f64,
}

/// Number of a section of one core's stream. Later sections have greater numbers.
pub type Section = u64;

/// A call for a section that waits until all earlier sections are closed.
#[derive(Debug)]
enum SectionCall {
    Write { bytes: Vec<u8>, tid: u32, tsc: u64 },
    SwitchIn { pid: u32, tid: u32, tsc: u64, first: bool },
    SwitchOut { tid: u32, tsc: u64, preempted: bool },
    Stale { at: u64, address: u64, bytes: Vec<u8>, tid: u32, tsc: u64 },
    Truth(Vec<Entry>),
}

#[derive(Debug, Default)]
struct Waiting {
    calls: Vec<SectionCall>,
    closed: bool,
}

/// Whether the unit may continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Flow {
    /// The bytes were accepted.
    Taken,
    /// The ring is full and bytes were lost: the unit is off.
    Stopped,
}

/// The writing end of one core's rings.
#[derive(Debug)]
pub struct Outlet {
    producer: CoreProducer,
    mode: OnFull,
    /// New bytes overwrite the oldest bytes of the AUX ring.
    overwrite: bool,
    queue: VecDeque<QueuedItem>,
    queued: u64,
    /// Stream position after the last byte accepted, queued bytes included.
    position: u64,
    /// `position` at the last AUX record.
    recorded: u64,
    region: u64,
    /// Drop mode: the stream position at which output stops.
    stop_at: u64,
    slow: Option<SlowDrain>,
    off: bool,
    totals: Totals,
    /// The section whose calls are applied at once.
    front: Section,
    /// Stream position at which section `front` began.
    base: u64,
    /// The sections after `front`.
    waiting: VecDeque<Waiting>,
    truth: Option<CoreLog>,
}

/// Counters of an outlet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Trace bytes that were accepted.
    pub bytes: u64,
    /// Trace bytes that were lost.
    pub lost_bytes: u64,
    /// How often output stopped.
    pub losses: u64,
    /// Records that were lost.
    pub lost_records: u64,
    /// Threads that entered the core.
    pub switches: u64,
}

impl Outlet {
    /// Takes the producing half of a core's rings.
    pub fn new(producer: CoreProducer, mode: OnFull, truth: Option<CoreLog>) -> Outlet {
        let region = producer.aux.size() / 4;
        let position = producer.aux.position();
        let mut outlet = Outlet {
            producer,
            mode,
            overwrite: false,
            queue: VecDeque::new(),
            queued: 0,
            position,
            recorded: position,
            region,
            stop_at: 0,
            slow: None,
            off: false,
            totals: Totals::default(),
            front: 0,
            base: position,
            waiting: VecDeque::new(),
            truth,
        };
        outlet.set_stop(0);
        outlet
    }

    /// Drop mode: limits the drain to `speed` bytes per tick of the TSC. The real drain may
    /// take bytes earlier, but the unit does not see their room before the limit allows it.
    #[must_use]
    pub fn with_drain(mut self, speed: f64) -> Outlet {
        self.slow = Some(SlowDrain { speed, tsc: 0, taken: self.position as f64 });
        self
    }

    /// Sets whether new bytes overwrite the oldest bytes of the AUX ring. Call it only while
    /// nothing is traced.
    pub fn set_overwrite(&mut self, overwrite: bool) {
        self.overwrite = overwrite;
    }

    /// Counters.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Trace bytes that wait outside the ring.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Whether no item and no section waits.
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.waiting.is_empty()
    }

    /// Opens a section after all others.
    pub fn open_section(&mut self) -> Section {
        self.waiting.push_back(Waiting::default());
        self.front + self.waiting.len() as u64
    }

    /// Closes `section`: nothing more is written to it. A later section exists.
    pub fn close_section(&mut self, section: Section) {
        match self.behind(section) {
            Some(waiting) => waiting.closed = true,
            None => self.next_section(),
        }
    }

    fn behind(&mut self, section: Section) -> Option<&mut Waiting> {
        let i = usize::try_from(section.checked_sub(self.front + 1)?).ok()?;
        self.waiting.get_mut(i)
    }

    fn next_section(&mut self) {
        while let Some(next) = self.waiting.pop_front() {
            self.front += 1;
            self.base = self.position;
            for call in next.calls {
                if let SectionCall::Write { bytes, .. } = &call {
                    self.queued -= bytes.len() as u64;
                }
                let _ = self.apply(call);
            }
            if !next.closed {
                break;
            }
        }
    }

    /// Applies `call` if `section` is at the front; otherwise keeps it until then.
    fn call(&mut self, section: Section, call: SectionCall) -> Flow {
        let len = if let SectionCall::Write { bytes, .. } = &call { bytes.len() as u64 } else { 0 };
        if let Some(waiting) = self.behind(section) {
            waiting.calls.push(call);
            self.queued += len;
            return Flow::Taken;
        }
        self.apply(call)
    }

    fn apply(&mut self, call: SectionCall) -> Flow {
        match call {
            SectionCall::Write { bytes, tid, tsc } => return self.write_through(&bytes, tid, tsc),
            SectionCall::SwitchIn { pid, tid, tsc, first } => self.enter(pid, tid, tsc, first),
            SectionCall::SwitchOut { tid, tsc, preempted } => self.leave(tid, tsc, preempted),
            SectionCall::Stale { at, address, bytes, tid, tsc } => {
                self.record(Body::StaleBlock { offset: self.base + at, address, bytes }, tid, tsc);
            }
            SectionCall::Truth(entries) => {
                if let Some(t) = &mut self.truth {
                    t.write(&entries, self.base);
                }
            }
        }
        Flow::Taken
    }

    /// Appends to the record of executed blocks; positions count from the section's start.
    pub fn truth(&mut self, section: Section, entries: Vec<Entry>) {
        let _ = self.call(section, SectionCall::Truth(entries));
    }

    /// Writes out the record of executed blocks.
    pub fn flush_truth(&mut self) -> std::io::Result<()> {
        self.truth.as_mut().map_or(Ok(()), CoreLog::flush)
    }

    /// Stream position after the last byte accepted.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// A quarter of the AUX ring: the number of bytes that a unit can always write after an AUX
    /// record was drained.
    pub fn region(&self) -> u64 {
        self.region
    }

    /// Whether output has stopped for lack of room.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// Appends trace bytes of thread `tid`, which must be whole packets. A packet is cut only
    /// where output stops.
    pub fn write(&mut self, section: Section, bytes: &[u8], tid: u32, tsc: u64) -> Flow {
        if section == self.front {
            return self.write_through(bytes, tid, tsc);
        }
        self.call(section, SectionCall::Write { bytes: bytes.to_vec(), tid, tsc })
    }

    fn write_through(&mut self, bytes: &[u8], tid: u32, tsc: u64) -> Flow {
        if self.overwrite {
            self.producer.aux.overwrite(bytes);
            self.position += bytes.len() as u64;
            self.totals.bytes += bytes.len() as u64;
            return Flow::Taken;
        }
        match self.mode {
            OnFull::Stall => {
                self.write_or_queue(bytes);
                if self.position - self.recorded >= self.region {
                    self.end_aux(tid, tsc);
                }
                Flow::Taken
            }
            OnFull::Drop => self.write_or_lose(bytes, tid, tsc),
        }
    }

    fn write_or_queue(&mut self, bytes: &[u8]) {
        self.position += bytes.len() as u64;
        self.totals.bytes += bytes.len() as u64;
        if !self.queue.is_empty() || self.producer.aux.write(bytes).is_err() {
            self.queued += bytes.len() as u64;
            self.queue.push_back(QueuedItem::Bytes(bytes.to_vec()));
        }
    }

    fn write_or_lose(&mut self, bytes: &[u8], tid: u32, tsc: u64) -> Flow {
        if self.off {
            self.totals.lost_bytes += bytes.len() as u64;
            return Flow::Stopped;
        }
        if self.position + bytes.len() as u64 > self.stop_at {
            self.set_stop(tsc);
        }
        let n = self.stop_at.saturating_sub(self.position).min(bytes.len() as u64) as usize;
        let fits = self.producer.aux.write(&bytes[..n]).is_ok();
        let written = if fits { n } else { 0 };
        self.position += written as u64;
        self.totals.bytes += written as u64;
        if written < bytes.len() {
            return self.stop(bytes.len() - written, tid, tsc);
        }
        if self.position - self.recorded >= self.region {
            self.aux_record(tid, tsc, 0);
            self.set_stop(tsc);
        }
        Flow::Taken
    }

    fn stop(&mut self, lost: usize, tid: u32, tsc: u64) -> Flow {
        self.totals.lost_bytes += lost as u64;
        self.totals.losses += 1;
        self.off = true;
        self.aux_record(tid, tsc, aux_flags::TRUNCATED);
        Flow::Stopped
    }

    /// Sets the position at which a unit that starts now has to stop: the end of the last whole
    /// region before the tail (`pt_buffer_reset_markers`).
    fn set_stop(&mut self, tsc: u64) {
        let end = self.position + self.room(tsc);
        self.stop_at = end / self.region * self.region;
    }

    /// Free bytes of the ring. With a slow drain, only the bytes that its speed has freed by
    /// `tsc` count.
    fn room(&mut self, tsc: u64) -> u64 {
        let room = self.producer.aux.room();
        let Some(slow) = &mut self.slow else { return room };
        let passed = tsc.saturating_sub(slow.tsc) as f64;
        slow.tsc = slow.tsc.max(tsc);
        // A drain can take only the bytes that an AUX record has announced.
        slow.taken = (slow.taken + passed * slow.speed).min(self.recorded as f64);
        let held = self.position - slow.taken as u64;
        room.min(self.producer.aux.size().saturating_sub(held))
    }

    /// Drop mode: starts output again if there is room at `tsc`. Returns whether output is on.
    pub fn resume(&mut self, tsc: u64) -> bool {
        if self.off {
            self.set_stop(tsc);
            // Like the kernel's start, this fails if less than the rest of the current region
            // is free.
            self.off = self.stop_at <= self.position;
        }
        !self.off
    }

    /// Ends the bytes written so far with an AUX record: they belong to thread `tid`.
    fn end_aux(&mut self, tid: u32, tsc: u64) {
        if self.overwrite {
            return self.end_overwritten(tid, tsc);
        }
        if self.position == self.recorded {
            return;
        }
        match self.mode {
            OnFull::Stall => {
                self.recorded = self.position;
                if !self.queue.is_empty() || self.producer.end_aux(tid, tsc, 0).is_err() {
                    self.queue.push_back(QueuedItem::Aux { tid, tsc });
                }
            }
            OnFull::Drop => {
                self.aux_record(tid, tsc, 0);
                self.set_stop(tsc);
            }
        }
    }

    /// Overwrite mode: records each stop of the unit, with a size that carries no information
    /// (`pt_event_stop`).
    fn end_overwritten(&mut self, tid: u32, tsc: u64) {
        self.recorded = self.position;
        let offset = self.producer.aux.publish_place();
        let size = self.producer.aux.size();
        self.record(Body::Aux { offset, size, flags: aux_flags::OVERWRITE }, tid, tsc);
    }

    /// Drop mode: writes an AUX record and moves `aux_head`. If the data ring has no room, the
    /// record is lost and `aux_head` moves all the same.
    fn aux_record(&mut self, tid: u32, tsc: u64, flags: u64) {
        let size = self.position - self.recorded;
        let body = Body::Aux { offset: self.recorded, size, flags };
        self.record_or_count(body, tid, tsc);
        self.producer.aux.publish();
        self.recorded = self.position;
    }

    fn record_or_count(&mut self, body: Body, tid: u32, tsc: u64) {
        if !self.producer.record_or_count(body, tid, tsc) {
            self.totals.lost_records += 1;
        }
    }

    fn record(&mut self, body: Body, tid: u32, tsc: u64) {
        if self.mode == OnFull::Drop {
            self.record_or_count(body, tid, tsc);
        } else if !self.queue.is_empty() || self.producer.record(body.clone(), tid, tsc).is_err() {
            self.queue.push_back(QueuedItem::Record { body, tid, tsc });
        }
    }

    /// Thread `tid` enters the core. `first` says that it does so for the first time, which the
    /// kernel announces with an ITRACE_START record.
    pub fn switch_in(&mut self, section: Section, pid: u32, tid: u32, tsc: u64, first: bool) {
        let _ = self.call(section, SectionCall::SwitchIn { pid, tid, tsc, first });
    }

    fn enter(&mut self, pid: u32, tid: u32, tsc: u64, first: bool) {
        self.totals.switches += 1;
        if first {
            self.record(Body::ItraceStart { pid, tid }, tid, tsc);
        }
        self.record(Body::Switch { out: false, preempted: false }, tid, tsc);
    }

    /// Records that the first block after position `at`, counted from the section's start,
    /// executes `bytes`, which are older than the code in memory.
    pub fn stale(&mut self, section: Section, at: u64, address: u64, bytes: &[u8], tid: u32, tsc: u64) {
        let _ = self.call(section, SectionCall::Stale { at, address, bytes: bytes.to_vec(), tid, tsc });
    }

    /// Thread `tid` leaves the core. The switch is recorded before the unit stops, as in the
    /// kernel (`__perf_event_task_sched_out`).
    pub fn switch_out(&mut self, section: Section, tid: u32, tsc: u64, preempted: bool) {
        let _ = self.call(section, SectionCall::SwitchOut { tid, tsc, preempted });
    }

    fn leave(&mut self, tid: u32, tsc: u64, preempted: bool) {
        self.record(Body::Switch { out: true, preempted }, tid, tsc);
        self.end_aux(tid, tsc);
    }

    /// Moves queued items into the rings while there is room; returns the trace bytes moved.
    pub fn advance(&mut self) -> u64 {
        let mut moved = 0;
        while let Some(item) = self.queue.pop_front() {
            match self.move_on(item) {
                Ok(n) => moved += n,
                Err((n, rest)) => {
                    moved += n;
                    self.queue.push_front(rest);
                    break;
                }
            }
        }
        self.queued -= moved;
        moved
    }

    fn move_on(&mut self, item: QueuedItem) -> Result<u64, (u64, QueuedItem)> {
        match item {
            QueuedItem::Bytes(bytes) => {
                let n = (self.producer.aux.room() as usize).min(bytes.len());
                if self.producer.aux.write(&bytes[..n]).is_err() {
                    return Err((0, QueuedItem::Bytes(bytes)));
                }
                if n < bytes.len() {
                    return Err((n as u64, QueuedItem::Bytes(bytes[n..].to_vec())));
                }
                Ok(n as u64)
            }
            QueuedItem::Aux { tid, tsc } => match self.producer.end_aux(tid, tsc, 0) {
                Ok(()) => Ok(0),
                Err(_) => Err((0, item)),
            },
            QueuedItem::Record { ref body, tid, tsc } => match self.producer.record(body.clone(), tid, tsc) {
                Ok(()) => Ok(0),
                Err(_) => Err((0, item)),
            },
        }
    }
}

#[cfg(test)]
#[path = "outlet_tests.rs"]
mod tests;
