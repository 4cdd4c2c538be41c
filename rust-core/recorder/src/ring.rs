// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The export ring: many producers, one consumer, backed by a file.
//!
//! It carries the metadata stream, frame after frame (`FRAME_HEADER` of the schema). Producers
//! take turns under a lock of the recorder's own, so that commit order, stream order and TSC
//! order are the same. The holder of the lock waits for nothing but room. The layout and its
//! recovery are described in [`jportal_capture::ring_file`].

use crate::Error;
use crate::overflow::Overflow;
use crate::sys::rdtsc;
use jportal_capture::ring_file::{self as layout, states};
use jportal_capture::schema::FRAME_HEADER;
use jportal_perf_abi::memory::{self, Block};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// How many bytes of records may wait in memory.
pub const OVERFLOW_LIMIT: usize = 64 << 20;
/// Refilling ends after this many bytes, because producers wait meanwhile.
const REFILL: usize = 256 << 10;

/// The export ring.
#[derive(Debug)]
pub struct Ring {
    page: Block,
    bytes: Block,
    path: PathBuf,
    producers: Mutex<Producing>,
    consumer: OnceLock<Thread>,
    /// The consumer has been woken and has not read since.
    nudged: AtomicBool,
    records: AtomicU64,
    /// TSC of the last record, written under the lock.
    last: AtomicU64,
    waits: AtomicU64,
    /// Position after the last record committed, be it in the ring or in memory.
    committed: AtomicU64,
    overrun: AtomicBool,
    /// Holds the `flock` that shows that the VM lives.
    _file: File,
}

/// What the producers change in turn.
#[derive(Debug)]
struct Producing {
    /// Position after the last byte in the ring; published as the head word.
    head: u64,
    overflow: Overflow,
    /// Bytes that are missing in the ring of the record that the consumer moves there from
    /// memory, and that record's TSC.
    moving: (u64, u64),
}

impl Ring {
    /// Creates the ring file of `capture` with `size` bytes (a power of two). It replaces one
    /// that a dead VM left.
    ///
    /// # Errors
    /// When a living VM uses the file, or the file system refuses.
    pub fn create(capture: &Path, size: u64) -> Result<Self, Error> {
        let path = layout::path_of(capture);
        Self::check_unused(capture)?;
        let bytes = layout::BYTES as u64 + size;
        let refused = |source| Error::Ring { path: path.clone(), bytes, source };
        let file = make_file(&path, bytes).map_err(|e| {
            let _ = std::fs::remove_file(&path);
            refused(e)
        })?;
        let all = Block::map(&file, 0, bytes as usize, &path)?;
        let part = |at, len| all.part(at, len).ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()));
        let ring = Self {
            page: part(0, layout::BYTES)?,
            bytes: part(layout::BYTES, size as usize)?,
            path: path.clone(),
            producers: Mutex::new(Producing {
                head: 0,
                overflow: Overflow::new(OVERFLOW_LIMIT),
                moving: (0, 0),
            }),
            consumer: OnceLock::new(),
            nudged: AtomicBool::new(false),
            records: AtomicU64::new(0),
            last: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            overrun: AtomicBool::new(false),
            _file: file,
        };
        ring.page.u64_at(layout::SIZE).store(size, Relaxed);
        ring.page.u32_at(layout::PID).store(std::process::id(), Relaxed);
        ring.page.write(8, &layout::VERSION.to_le_bytes());
        ring.page.write(0, &layout::MAGIC);
        Ok(ring)
    }

    /// Refuses when a living VM holds the ring of `capture`.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub fn check_unused(capture: &Path) -> Result<(), Error> {
        let path = layout::path_of(capture);
        match File::open(&path).map(|f| f.try_lock()) {
            Ok(Err(TryLockError::WouldBlock)) => Err(Error::InUse { path }),
            _ => Ok(()),
        }
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn word(&self, at: usize) -> &AtomicU64 {
        self.page.u64_at(at)
    }
    fn state(&self) -> &AtomicU32 {
        self.page.u32_at(layout::STATE)
    }

    /// Whether records are accepted.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state().load(Relaxed) == states::OPEN
    }

    /// Whether [`Ring::mark_crashed`] was called.
    pub fn is_crashed(&self) -> bool {
        self.state().load(Relaxed) == states::CRASHED
    }

    /// Number of records committed.
    pub fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// Position in the metadata stream after the last record committed.
    pub fn position(&self) -> u64 {
        self.committed.load(Acquire)
    }

    /// How often a producer found the ring full, with nothing in memory yet.
    pub fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Whether the ring closed because a record fitted neither into it nor into memory.
    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Acquire)
    }

    /// Commits one record. Never waits for room. `false` when the ring is closed.
    ///
    /// The frame's TSC is read under the lock, so that stream order is time order.
    pub fn write(&self, kind: u16, body: &[u8]) -> bool {
        let Ok(len) = u32::try_from(FRAME_HEADER + body.len()) else { return false };
        if !self.is_open() {
            return false;
        }
        let mut producing = self.lock();
        if !self.is_open() {
            return false;
        }
        let mut frame = [0; FRAME_HEADER];
        frame[0..4].copy_from_slice(&len.to_le_bytes());
        frame[4..6].copy_from_slice(&kind.to_le_bytes());
        // The processor may execute the instruction a little before the lock is acquired.
        let tsc = rdtsc().max(self.last.load(Relaxed));
        self.last.store(tsc, Relaxed);
        frame[8..16].copy_from_slice(&tsc.to_le_bytes());
        let len = u64::from(len);
        if producing.overflow.is_empty() && self.room(producing.head) >= len {
            // Before the bytes can be read, so that the tail never passes this position.
            self.committed.fetch_add(len, Release);
            self.put(&mut producing.head, &frame);
            self.put(&mut producing.head, body);
            self.publish(producing.head);
            self.publish_boundary(producing.head, tsc);
        } else {
            if producing.overflow.is_empty() {
                self.waits.fetch_add(1, Relaxed);
            }
            if producing.overflow.push([&frame, body]).is_err() {
                self.overrun.store(true, Release);
                self.close_now();
                return false;
            }
            self.committed.fetch_add(len, Release);
            self.publish_memory(&producing);
        }
        self.records.fetch_add(1, Relaxed);
        if self.size() - self.room(producing.head) >= self.size() / 4 {
            self.nudge();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Producing> {
        // A producer's panic cannot leave a wrong position: it is advanced after the bytes are
        // written.
        self.producers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, head: u64) -> u64 {
        self.size() - (head - self.word(layout::TAIL).load(Acquire))
    }

    fn publish(&self, head: u64) {
        self.word(layout::HEAD).store(head, Release);
    }
    fn publish_boundary(&self, boundary: u64, tsc: u64) {
        self.word(layout::BOUNDARY_TSC).store(tsc, Release);
        self.word(layout::BOUNDARY).store(boundary, Release);
    }
    fn publish_memory(&self, producing: &Producing) {
        self.word(layout::MEMORY).store(producing.overflow.len() as u64, Release);
    }

    /// Writes the bytes at `head`. There must be room for them.
    fn put(&self, head: &mut u64, bytes: &[u8]) {
        let place = (*head & (self.size() - 1)) as usize;
        let (now, later) = bytes.split_at(bytes.len().min(self.bytes.len() - place));
        self.bytes.write(place, now);
        self.bytes.write(0, later);
        *head += bytes.len() as u64;
    }

    /// Moves records from memory to the ring, in order, as far as there is room. A record that
    /// fits into the ring is moved only as a whole, so that a killed VM leaves no part of it; a
    /// longer one passes in pieces.
    fn refill(&self) {
        let mut guard = self.lock();
        let producing = &mut *guard;
        let mut moved = 0;
        while moved < REFILL && !producing.overflow.is_empty() {
            let room = self.room(producing.head);
            if producing.moving.0 == 0 {
                let Some(front) = producing.overflow.front() else { break };
                let (len, tsc) = (first_u32(&front), last_u64(&front));
                if room < u64::from(len).min(self.size()) {
                    break;
                }
                producing.moving = (len.into(), tsc);
            }
            let n = producing.moving.0.min(room) as usize;
            if n == 0 {
                break;
            }
            let head = &mut producing.head;
            moved += producing.overflow.take(n, |bytes| self.put(head, bytes));
            producing.moving.0 -= n as u64;
            self.publish(producing.head);
            if producing.moving.0 == 0 {
                self.publish_boundary(producing.head, producing.moving.1);
            }
        }
        self.publish_memory(producing);
    }

    fn nudge(&self) {
        if !self.nudged.swap(true, Relaxed) {
            self.wake_consumer();
        }
    }

    /// Wakes the consumer's thread.
    pub(crate) fn wake_consumer(&self) {
        if let Some(consumer) = self.consumer.get() {
            consumer.unpark();
        }
    }

    /// Closes the ring after the record that is being written.
    pub fn close(&self) {
        let _no_record_is_half_written = self.lock();
        self.close_now();
    }

    /// Closes the ring at once. The record that is being written is still committed.
    pub fn close_now(&self) {
        let _ = self.state().compare_exchange(states::OPEN, states::CLOSED, Release, Relaxed);
        self.wake_consumer();
    }

    /// Marks the VM as crashed and closes the ring. Async-signal-safe: one store.
    pub fn mark_crashed(&self) {
        self.state().store(states::CRASHED, Release);
    }

    /// Removes the file, once everything in it is in the capture.
    pub fn remove_file(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// A time before which no further record will be committed; all earlier records have been
    /// taken out. `None` when a producer is writing or records are left. For the consumer only.
    pub fn complete_until(&self) -> Option<u64> {
        let producing = self.producers.try_lock().ok()?;
        if producing.head != self.word(layout::TAIL).load(Relaxed) || !producing.overflow.is_empty() {
            return None;
        }
        let now = rdtsc().max(self.last.load(Relaxed));
        // The next record will not be earlier.
        self.last.store(now, Relaxed);
        Some(now)
    }

    /// Number of bytes that were committed and not taken out. For the consumer only.
    pub fn left(&self) -> usize {
        (self.committed.load(Acquire) - self.word(layout::TAIL).load(Relaxed)) as usize
    }

    /// Makes the calling thread the consumer.
    pub fn attach_consumer(&self) {
        let _ = self.consumer.set(std::thread::current());
    }

    /// Appends up to `limit` committed bytes to `to`; returns their number. They occupy the
    /// ring until [`Ring::free`]. For the consumer only.
    pub fn read(&self, to: &mut Vec<u8>, limit: usize) -> usize {
        self.nudged.store(false, Relaxed);
        if self.word(layout::MEMORY).load(Acquire) > 0 {
            self.refill();
        }
        let (head, tail) = (self.word(layout::HEAD).load(Acquire), self.word(layout::TAIL).load(Relaxed));
        let n = ((head - tail) as usize).min(limit);
        let place = (tail & (self.size() - 1)) as usize;
        let first = n.min(self.bytes.len() - place);
        self.bytes.read(place, first, to);
        self.bytes.read(0, n - first, to);
        n
    }

    /// Frees the `n` oldest bytes, which are in the capture. For the consumer only.
    pub fn free(&self, n: usize) {
        let tail = self.word(layout::TAIL);
        tail.store(tail.load(Relaxed) + n as u64, Release);
    }
}

fn first_u32(header: &[u8; FRAME_HEADER]) -> u32 {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]])
}
/// The TSC of a frame.
fn last_u64(header: &[u8; FRAME_HEADER]) -> u64 {
    let mut tsc = [0; 8];
    tsc.copy_from_slice(&header[8..]);
    u64::from_le_bytes(tsc)
}

/// A new locked file of mode 0600 with all its blocks allocated: on a full disk, a write to a
/// mapped page without a block would raise SIGBUS.
fn make_file(path: &Path, bytes: u64) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.try_lock().map_err(io::Error::from)?;
    memory::allocate(&file, bytes)?;
    Ok(file)
}
