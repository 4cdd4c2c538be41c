// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The export ring: many producers, one consumer, in a file that outlives the VM.
//!
//! It carries the metadata stream, frame after frame (`FRAME_HEADER` of the schema). Producers
//! take turns under a lock of the recorder's own, so that commit order, stream order and TSC
//! order are the same. The holder of the lock waits for nothing: producers hold locks of the VM.
//!
//! The ring proper is small and keeps its memory: producers write the same pages again and again.
//! Metadata that the disk does not take in time goes to the overflow, a second ring that is large
//! ([`CAPACITY`]) and has memory only where it holds records and a little ahead. All records go
//! there until it is empty. When it is full, the ring closes, and [`Ring::overrun`] says why. No
//! limit of time is involved, so a process that was stopped for an hour loses nothing. Layout and
//! recovery are described in [`jportal_capture::ring_file`].

use crate::Error;
use crate::sys::{self, rdtsc};
use jportal_capture::ring_file::{self as layout, states};
use jportal_capture::schema::FRAME_HEADER;
use jportal_perf_abi::memory::Block;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many bytes of records may wait for the disk in the overflow.
pub const CAPACITY: u64 = 64 << 20;
/// The same, where the ring is in anonymous memory, which is not given back.
pub const ANONYMOUS_CAPACITY: u64 = 16 << 20;
/// The overflow takes and gives back memory in blocks of this size.
const BLOCK: u64 = 64 << 10;
/// How many rings of killed VMs are kept for their captures.
const DEAD_RINGS: usize = 8;

/// Why a ring closed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrun {
    /// The ring is full.
    Full,
    /// The file system of the ring has no memory.
    NoMemory,
}

/// The export ring.
#[derive(Debug)]
pub struct Ring {
    page: Block,
    bytes: Block,
    overflow: Block,
    path: Option<PathBuf>,
    /// Position after the last byte written; published as the head word.
    producers: Mutex<u64>,
    /// Position until which the overflow has memory.
    allocated: AtomicU64,
    /// Position until which the consumer has given memory of the overflow back.
    returned: AtomicU64,
    consumer: OnceLock<Thread>,
    /// The consumer has been woken and has not read since.
    nudged: AtomicBool,
    records: AtomicU64,
    /// TSC of the last record, written under the lock.
    last: AtomicU64,
    waits: AtomicU64,
    overrun: OnceLock<Overrun>,
    /// The file was truncated; see [`Ring::bus_error`].
    lost: AtomicBool,
    /// Holds the `flock` that shows that the VM lives; `None`: anonymous memory.
    file: Option<File>,
}

impl Ring {
    /// Creates a ring of `size` bytes in a new file in `folder`, a private one
    /// ([`layout::make_folder`]), with an overflow of `capacity` bytes. Both are powers of two.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn create(folder: &Path, size: u64, capacity: u64) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = folder.join(format!("{}{}-{now:x}", layout::PREFIX, std::process::id()));
        let bytes = layout::BYTES as u64 + size + capacity;
        let refused = |source| Error::Ring { path: path.clone(), bytes, allocated: size, source };
        layout::remove_oldest(folder, DEAD_RINGS);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(refused)?;
        let made = file.try_lock().map_err(io::Error::from).and_then(|()| file.set_len(bytes));
        // A write to a mapped page for which there is no memory raises SIGBUS.
        let made = made.and_then(|()| sys::allocate(&file, 0, layout::BYTES as u64 + size));
        let map = made.map_err(refused).and_then(|()| Ok(Block::map(&file, 0, bytes as usize, &path)?));
        let ring = map.and_then(|all| Self::on(&all, size, capacity, Some(path.clone()), Some(file)));
        ring.inspect_err(|_| drop(std::fs::remove_file(&path)))
    }

    /// A ring in anonymous memory, which ends with the VM.
    ///
    /// # Errors
    /// Without memory.
    pub fn anonymous(size: u64, capacity: u64) -> Result<Self, Error> {
        let bytes = layout::BYTES as u64 + size + capacity;
        let path = PathBuf::from("anonymous memory");
        let all = Block::anonymous(bytes as usize).map_err(|source| Error::Ring {
            path,
            bytes,
            allocated: size,
            source,
        })?;
        Self::on(&all, size, capacity, None, None)
    }

    fn on(
        all: &Block,
        size: u64,
        capacity: u64,
        path: Option<PathBuf>,
        file: Option<File>,
    ) -> Result<Self, Error> {
        let part = |at, len| {
            all.part(at, len).ok_or_else(|| Error::Ring {
                path: path.clone().unwrap_or_default(),
                bytes: all.len() as u64,
                allocated: size,
                source: io::ErrorKind::InvalidInput.into(),
            })
        };
        let ring = Self {
            page: part(0, layout::BYTES)?,
            bytes: part(layout::BYTES, size as usize)?,
            overflow: part(layout::BYTES + size as usize, capacity as usize)?,
            path,
            producers: Mutex::new(0),
            allocated: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            consumer: OnceLock::new(),
            nudged: AtomicBool::new(false),
            records: AtomicU64::new(0),
            last: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            overrun: OnceLock::new(),
            lost: AtomicBool::new(false),
            file,
        };
        ring.word(layout::SIZE).store(size, Relaxed);
        ring.word(layout::OVERFLOW_SIZE).store(capacity, Relaxed);
        ring.word(layout::OVERFLOW_FROM).store(layout::NOWHERE, Relaxed);
        ring.page.u32_at(layout::PID).store(std::process::id(), Relaxed);
        ring.page.write(8, &layout::VERSION.to_le_bytes());
        ring.page.write(0, &layout::MAGIC);
        Ok(ring)
    }

    /// The file, unless the ring is in anonymous memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Notes the capture's device and inode.
    pub(crate) fn belongs_to(&self, (device, inode): (u64, u64)) {
        self.word(layout::DEVICE).store(device, Relaxed);
        self.word(layout::INODE).store(inode, Relaxed);
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    /// Position from which on the bytes are in the overflow, or [`layout::NOWHERE`].
    fn overflow_from(&self) -> u64 {
        self.word(layout::OVERFLOW_FROM).load(Relaxed)
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
        self.state().load(Relaxed) == states::OPEN && !self.lost.load(Relaxed)
    }

    /// Whether the file was truncated. Then nothing that is read from the ring counts.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Acquire) || (self.file.is_some() && !self.has_magic())
    }

    /// A truncated file that was extended again reads as zeros.
    fn has_magic(&self) -> bool {
        self.page.u64_at(0).load(Relaxed) == u64::from_le_bytes(layout::MAGIC)
    }

    /// Async-signal-safe: a thread got SIGBUS at `address`. If that is in the ring, its file was
    /// truncated. Then private memory takes the place of the file, so that the threads which write
    /// to the ring, and hold locks of the VM, continue; the ring closes and its records are lost.
    /// Returns whether the thread may repeat its access.
    pub fn bus_error(&self, address: usize) -> bool {
        if self.file.is_none() || !self.page.is_in_mapping(address) {
            return false;
        }
        // Before the memory is replaced, so that whoever reads zeros finds it.
        self.lost.store(true, Release);
        if !self.page.replace_mapping() {
            return false;
        }
        self.state().store(states::CLOSED, Release);
        true
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

    /// How often more records came to wait for the disk than the ring proper can hold.
    pub fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Why the ring closed itself, if it did.
    pub fn overrun(&self) -> Option<Overrun> {
        self.overrun.get().copied()
    }

    /// Commits one record. Waits for nothing. `false` when the ring is closed.
    ///
    /// The frame's TSC is read under the lock, so that stream order is time order.
    pub fn write(&self, kind: u16, body: &[u8]) -> bool {
        let Ok(len) = u32::try_from(FRAME_HEADER + body.len()) else { return false };
        if !self.is_open() {
            return false;
        }
        let mut head = self.lock();
        if !self.is_open() {
            return false;
        }
        let end = *head + u64::from(len);
        let tail = self.word(layout::TAIL).load(Acquire);
        if self.lost.load(Acquire) {
            return false;
        }
        let from = match self.make_room(tail, *head, end) {
            Ok(from) => from,
            Err(why) => {
                let _ = self.overrun.set(why);
                self.close_now();
                return false;
            }
        };
        let mut frame = [0; FRAME_HEADER];
        frame[0..4].copy_from_slice(&len.to_le_bytes());
        frame[4..6].copy_from_slice(&kind.to_le_bytes());
        // The processor may execute the instruction a little before the lock is acquired.
        let tsc = rdtsc().max(self.last.load(Relaxed));
        self.last.store(tsc, Relaxed);
        frame[8..16].copy_from_slice(&tsc.to_le_bytes());
        let place = if from == layout::NOWHERE { &self.bytes } else { &self.overflow };
        put(place, *head, &frame);
        put(place, *head + FRAME_HEADER as u64, body);
        *head = end;
        self.word(layout::HEAD).store(end, Release);
        self.word(layout::BOUNDARY).store(end, Release);
        self.records.fetch_add(1, Relaxed);
        if end.saturating_sub(tail) >= self.size() / 4 {
            self.nudge();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // A producer's panic cannot leave a wrong position: it is advanced after the bytes are
        // written.
        self.producers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the bytes from the position `head`, the current one, to `end` may be
    /// written. Returns where the overflow begins.
    fn make_room(&self, tail: u64, head: u64, end: u64) -> Result<u64, Overrun> {
        let begun = self.overflow_from();
        let begins = begun == layout::NOWHERE;
        if begins && end.saturating_sub(tail) <= self.size() {
            return Ok(begun);
        }
        let from = if begins { head } else { begun };
        // The block of the tail does not count as free: its memory will be given back.
        if end > (tail.max(from) / BLOCK * BLOCK).saturating_add(self.overflow.len() as u64) {
            return Err(Overrun::Full);
        }
        if begins {
            self.allocated.store(from, Relaxed);
            self.returned.store(from / BLOCK * BLOCK, Relaxed);
        }
        self.allocate(end).map_err(|_| Overrun::NoMemory)?;
        if begins {
            // Before the head is published: then the consumer reads there.
            self.word(layout::OVERFLOW_FROM).store(from, Release);
            self.waits.fetch_add(1, Relaxed);
        }
        Ok(from)
    }

    /// Gives the overflow memory until the position `end`, and to the end of that block.
    fn allocate(&self, end: u64) -> io::Result<()> {
        let from = self.allocated.load(Acquire);
        let (Some(file), true) = (&self.file, end > from) else { return Ok(()) };
        let to = end.next_multiple_of(BLOCK);
        self.ranges(from, to, |at, len| sys::allocate(file, at, len))?;
        self.allocated.fetch_max(to, Release);
        Ok(())
    }

    /// Calls `f` with offset and length in the file of the overflow's bytes between two positions.
    fn ranges(&self, from: u64, to: u64, f: impl Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        let (size, start) = (self.overflow.len() as u64, layout::BYTES as u64 + self.size());
        let place = from & (size - 1);
        let len = (to - from).min(size);
        let first = len.min(size - place);
        f(start + place, first)?;
        if len > first { f(start, len - first) } else { Ok(()) }
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
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }

    /// A time before which no further record will be committed; all earlier records have been
    /// taken out. `None` when a producer is writing or records are left. For the consumer only.
    pub fn complete_until(&self) -> Option<u64> {
        let head = self.producers.try_lock().ok()?;
        if self.is_lost() || *head != self.word(layout::TAIL).load(Relaxed) {
            return None;
        }
        let now = rdtsc().max(self.last.load(Relaxed));
        // The next record will not be earlier.
        self.last.store(now, Relaxed);
        Some(now)
    }

    /// Number of bytes that were committed and not taken out. For the consumer only.
    pub fn left(&self) -> usize {
        let (head, tail) = (self.word(layout::HEAD).load(Acquire), self.word(layout::TAIL).load(Relaxed));
        if self.is_lost() { 0 } else { (head - tail) as usize }
    }

    /// Makes the calling thread the consumer.
    pub fn attach_consumer(&self) {
        let _ = self.consumer.set(std::thread::current());
    }

    /// Appends up to `limit` committed bytes to `to`; returns their number. They occupy the
    /// ring until [`Ring::free`]. For the consumer only.
    ///
    /// # Errors
    /// Without memory in `to`.
    pub fn read(&self, to: &mut Vec<u8>, limit: usize) -> Result<usize, Error> {
        self.nudged.store(false, Relaxed);
        let (head, tail) = (self.word(layout::HEAD).load(Acquire), self.word(layout::TAIL).load(Relaxed));
        let from = self.overflow_from();
        // In a ring that is lost, the words may contradict each other.
        let n = (head.wrapping_sub(tail) as usize).min(limit);
        let proper = (from.saturating_sub(tail) as usize).min(n).min(self.bytes.len());
        let over = (n - proper).min(self.overflow.len());
        take(&self.bytes, tail, proper, to)?;
        take(&self.overflow, tail.wrapping_add(proper as u64), over, to)?;
        Ok(proper + over)
    }

    /// Frees the `n` oldest bytes, which are in the capture. For the consumer only.
    pub fn free(&self, n: usize) {
        if self.is_lost() {
            return;
        }
        let tail = self.word(layout::TAIL);
        let new = tail.load(Relaxed) + n as u64;
        let from = self.overflow_from();
        if new < from {
            return tail.store(new, Release);
        }
        let (returned, to) = (self.returned.load(Relaxed), new / BLOCK * BLOCK);
        if let Some(file) = self.file.as_ref().filter(|_| to > returned) {
            // Before the tail is published: then a producer may write there.
            let _ = self.ranges(returned, to, |at, len| sys::give_back(file, at, len));
            self.returned.store(to, Relaxed);
        }
        tail.store(new, Release);
        if self.end_overflow(new) {
            return;
        }
        // Producers find memory ahead of them. If there is none, the one that needs it says so.
        let head = self.word(layout::HEAD).load(Acquire);
        let ahead = (head + self.size()).min(to + self.overflow.len() as u64);
        let _ = self.allocate(ahead / BLOCK * BLOCK);
    }

    /// Ends the overflow if it is empty, and no producer is writing. Returns whether it has ended.
    fn end_overflow(&self, tail: u64) -> bool {
        let Ok(head) = self.producers.try_lock() else { return false };
        if *head != tail {
            return false;
        }
        self.word(layout::OVERFLOW_FROM).store(layout::NOWHERE, Release);
        // Under the lock: the next overflow may begin at once.
        let (from, to) = (self.returned.load(Relaxed), self.allocated.load(Relaxed));
        if let Some(file) = self.file.as_ref().filter(|_| to > from) {
            let _ = self.ranges(from, to, |at, len| sys::give_back(file, at, len));
        }
        true
    }
}

/// Writes bytes at a position of a ring.
fn put(ring: &Block, position: u64, bytes: &[u8]) {
    let place = (position & (ring.len() as u64 - 1)) as usize;
    let (now, later) = bytes.split_at(bytes.len().min(ring.len() - place));
    ring.write(place, now);
    ring.write(0, later);
}

/// Appends the `n` bytes of a ring from a position on, not more than it has, to `to`.
fn take(ring: &Block, position: u64, n: usize, to: &mut Vec<u8>) -> Result<(), Error> {
    let place = (position & (ring.len() as u64 - 1)) as usize;
    let first = n.min(ring.len() - place);
    ring.read(place, first, to)?;
    ring.read(0, n - first, to)?;
    Ok(())
}
