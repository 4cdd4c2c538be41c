// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The export ring: many producers, one consumer, backed by a file.
//!
//! It carries the metadata stream, frame after frame (`FRAME_HEADER` of the schema). Producers
//! take turns under a lock of the recorder's own, so that commit order, stream order and TSC
//! order are the same. The holder of the lock waits for nothing but room. The layout and its
//! recovery are described in [`jportal_capture::ring_file`].

use crate::Error;
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
use std::time::Duration;

/// The export ring.
#[derive(Debug)]
pub struct Ring {
    page: Block,
    bytes: Block,
    path: PathBuf,
    /// Position after the last byte written; published as the head word.
    producers: Mutex<u64>,
    consumer: OnceLock<Thread>,
    /// The consumer has been woken and has not read since.
    nudged: AtomicBool,
    records: AtomicU64,
    /// TSC of the last record, written under the lock.
    last: AtomicU64,
    waits: AtomicU64,
    /// Holds the `flock` that shows that the VM lives.
    _file: File,
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
            producers: Mutex::new(0),
            consumer: OnceLock::new(),
            nudged: AtomicBool::new(false),
            records: AtomicU64::new(0),
            last: AtomicU64::new(0),
            waits: AtomicU64::new(0),
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
        self.word(layout::BOUNDARY).load(Acquire)
    }

    /// How often a producer found the ring full.
    pub fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Commits one record, and waits for room if necessary. `false` when the ring is closed.
    ///
    /// The frame's TSC is read under the lock, so that stream order is time order.
    pub fn write(&self, kind: u16, body: &[u8]) -> bool {
        let Ok(len) = u32::try_from(FRAME_HEADER + body.len()) else { return false };
        let mut head = self.lock();
        // A record that fits is written only when there is room for all of it, so that a killed
        // VM leaves no part of it.
        if !self.is_open() || !self.wait_for_room(*head, u64::from(len).min(self.size())) {
            return false;
        }
        let mut frame = [0; FRAME_HEADER];
        frame[0..4].copy_from_slice(&len.to_le_bytes());
        frame[4..6].copy_from_slice(&kind.to_le_bytes());
        // The processor may execute the instruction a little before the lock is acquired.
        let tsc = rdtsc().max(self.last.load(Relaxed));
        self.last.store(tsc, Relaxed);
        frame[8..16].copy_from_slice(&tsc.to_le_bytes());
        if !self.put(&mut head, &frame) || !self.put(&mut head, body) {
            return false;
        }
        self.word(layout::HEAD).store(*head, Release);
        self.word(layout::BOUNDARY).store(*head, Release);
        self.records.fetch_add(1, Relaxed);
        if self.size() - self.room(*head) >= self.size() / 4 {
            self.nudge();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // A producer's panic cannot leave a wrong position: it is advanced after the bytes are
        // written.
        self.producers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, head: u64) -> u64 {
        self.size() - (head - self.word(layout::TAIL).load(Acquire))
    }

    /// Writes the bytes at `head`. When the ring becomes full on the way, which happens only
    /// for a record longer than the ring, publishes the bytes written and continues when there
    /// is room again.
    fn put(&self, head: &mut u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.room(*head) == 0 {
                self.word(layout::HEAD).store(*head, Release);
                if !self.wait_for_room(*head, 1) {
                    return false;
                }
            }
            let place = (*head & (self.size() - 1)) as usize;
            let n = bytes.len().min(self.room(*head) as usize).min(self.bytes.len() - place);
            let (now, later) = bytes.split_at(n);
            self.bytes.write(place, now);
            *head += n as u64;
            bytes = later;
        }
        true
    }

    /// Waits until `wanted` bytes are free; `false` when the ring was closed. Spins briefly,
    /// then sleeps. The consumer needs no lock that a producer may hold.
    fn wait_for_room(&self, head: u64, wanted: u64) -> bool {
        for turn in 0u32.. {
            if self.room(head) >= wanted {
                break;
            }
            if !self.is_open() {
                return false;
            }
            match turn {
                0 => {
                    self.waits.fetch_add(1, Relaxed);
                    self.nudge();
                }
                1..100 => std::hint::spin_loop(),
                100..200 => std::thread::sleep(Duration::from_micros(50)),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        true
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

    /// Closes the ring after the record that is being written. The consumer must be running,
    /// because that record may wait for room.
    pub fn close(&self) {
        let _no_record_is_half_written = self.lock();
        self.close_now();
    }

    /// Closes the ring at once; producers that wait give up. A partly written record stays
    /// incomplete.
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
        // Only tries the lock, because its holder may wait for room.
        let head = self.producers.try_lock().ok()?;
        if *head != self.word(layout::TAIL).load(Relaxed) {
            return None;
        }
        let now = rdtsc().max(self.last.load(Relaxed));
        // The next record will not be earlier.
        self.last.store(now, Relaxed);
        Some(now)
    }

    /// Number of bytes that were published and not taken out. For the consumer only.
    pub fn left(&self) -> usize {
        (self.word(layout::HEAD).load(Acquire) - self.word(layout::TAIL).load(Relaxed)) as usize
    }

    /// Makes the calling thread the consumer.
    pub fn attach_consumer(&self) {
        let _ = self.consumer.set(std::thread::current());
    }

    /// Appends up to `limit` published bytes to `to`; returns their number. They occupy the
    /// ring until [`Ring::free`]. For the consumer only.
    pub fn read(&self, to: &mut Vec<u8>, limit: usize) -> usize {
        self.nudged.store(false, Relaxed);
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
