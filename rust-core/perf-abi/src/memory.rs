// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Memory shared with a producer or consumer that the compiler does not see.
//!
//! All unsafe memory accesses of this crate are in this module; the unsafe system calls are in
//! [`crate::kernel`]. A [`Block`] keeps its mapping alive. Single words are accessed as
//! atomics, and bulk bytes are copied in or out. So there is never a reference to non-atomic
//! memory that another process or the kernel may write.

use crate::Error;
use crate::emulated::Header;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Sets the length of `file` to `len` bytes *and* allocates the space for them: a write to a
/// mapped page that the file system cannot back would raise SIGBUS.
///
/// # Errors
/// When the file system has no space, or refuses for another reason.
pub fn allocate(file: &File, len: u64) -> std::io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
    // SAFETY: no memory is involved; the descriptor is open while `file` lives.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
        0 => Ok(()),
        errno => Err(std::io::Error::from_raw_os_error(errno)),
    }
}

/// A piece of a shared mapping.
#[derive(Clone, Debug)]
pub struct Block {
    start: NonNull<u8>,
    len: usize,
    keep: Arc<MmapRaw>,
}

// SAFETY: a block is an address range that stays mapped while `keep` lives; access goes
// through atomics and byte copies only, both of which may happen on any thread.
unsafe impl Send for Block {}
// SAFETY: as above; shared access never hands out references to non-atomic memory.
unsafe impl Sync for Block {}

impl Block {
    /// The whole of a mapping.
    pub fn new(map: MmapRaw) -> Self {
        let len = map.len();
        let start = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { start, len, keep: Arc::new(map) }
    }

    /// Maps `len` bytes of `file` from `offset` (a multiple of the page size) on, shared and
    /// writable.
    ///
    /// # Errors
    /// When the system refuses; `path` is named in the message.
    pub fn map(file: &File, offset: u64, len: usize, path: &Path) -> Result<Self, Error> {
        let map = MmapOptions::new().offset(offset).len(len).map_raw(file);
        map.map(Self::new).map_err(|source| Error::Io { action: "map", path: path.into(), source })
    }

    /// Maps `len` bytes of an event from `offset` on, shared and writable, as the kernel's
    /// rings are mapped.
    ///
    /// # Errors
    /// The system's error.
    pub fn map_event(event: RawFd, offset: u64, len: usize) -> std::io::Result<Self> {
        MmapOptions::new().offset(offset).len(len).map_raw(event).map(Self::new)
    }

    /// As [`Block::map_event`], but read-only: the kernel overwrites the oldest bytes of an AUX
    /// ring that is mapped so.
    ///
    /// # Errors
    /// The system's error.
    pub fn map_event_read_only(event: RawFd, offset: u64, len: usize) -> std::io::Result<Self> {
        MmapOptions::new().offset(offset).len(len).map_raw_read_only(event).map(Self::new)
    }

    /// Private memory of this process, for tests that play the kernel.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn anonymous(len: usize) -> std::io::Result<Self> {
        Ok(Self::new(MmapRaw::from(MmapOptions::new().len(len).map_anon()?)))
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an address is in the mapping that this is a piece of.
    pub fn is_in_mapping(&self, address: usize) -> bool {
        let start = self.keep.as_mut_ptr() as usize;
        (start..start + self.keep.len()).contains(&address)
    }

    /// Puts private memory, which reads as zeros, in the place of the whole mapping. Its file has
    /// become shorter, so that an access raised SIGBUS. Async-signal-safe. `false` if the system
    /// refuses.
    pub fn replace_mapping(&self) -> bool {
        let (start, len) = (self.keep.as_mut_ptr().cast(), self.keep.len());
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the range is this mapping, which nothing but blocks accesses, and these copy
        // bytes and use atomics, for which any content is valid. It stays mapped, and `keep` unmaps
        // it in the end.
        unsafe { libc::mmap(start, len, protection, flags, -1, 0) == start }
    }

    /// The `len` bytes from `offset` on; `None` when they are not all inside.
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `offset <= self.len`, so the result is inside the mapping or one past its end.
        let start = unsafe { self.start.add(offset) };
        Some(Self { start, len, keep: Arc::clone(&self.keep) })
    }

    #[inline]
    fn word<T>(&self, offset: usize) -> NonNull<T> {
        assert!(
            offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.len,
            "no word at {offset} of {}",
            self.len
        );
        // SAFETY: just checked to be inside.
        let word = unsafe { self.start.add(offset) }.cast::<T>();
        debug_assert!(word.is_aligned(), "blocks start at multiples of 8");
        word
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// When `offset` is misaligned or outside: offsets of words are constants of a layout.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: inside, aligned (see `word`), mapped while `self` lives, accessed by all as
        // an atomic.
        unsafe { self.word::<AtomicU64>(offset).as_ref() }
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    /// As [`Block::u64_at`].
    #[inline]
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `u64_at`.
        unsafe { self.word::<AtomicU32>(offset).as_ref() }
    }

    /// The unit's header at the start of a mapping of at least a page.
    pub(crate) fn header(&self) -> &Header {
        assert!(self.len >= size_of::<Header>(), "no header in {} bytes", self.len);
        // SAFETY: inside, aligned (mappings start at pages), made of atomics only, for which any
        // bit pattern is valid; mapped while `self` lives.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// When they would not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "write outside of a block");
        // SAFETY: the target is inside the mapping, and `bytes` cannot overlap it because no
        // reference into the mapping exists. The peer leaves the range alone: the free bytes
        // from the head on belong to the producer, and both sides pass head and tail on with
        // release and acquire.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) }
    }

    /// Appends the `len` bytes from `offset` on to `to`.
    ///
    /// # Errors
    /// [`Error::Memory`]: this runs in the VM, which must not abort for a buffer.
    ///
    /// # Panics
    /// When they are not all inside.
    #[inline]
    pub fn read(&self, offset: usize, len: usize, to: &mut Vec<u8>) -> Result<(), Error> {
        assert!(offset <= self.len && len <= self.len - offset, "read outside of a block");
        to.try_reserve(len).map_err(|_| Error::Memory { bytes: len })?;
        let end = to.len();
        // SAFETY: the source is inside the mapping, the target was just reserved and is
        // private, any bit pattern is a `u8`. Bytes between tail and head belong to the
        // consumer (see `write`); a peer that breaks the protocol can only change which bytes
        // are seen.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), to.as_mut_ptr().add(end), len);
            to.set_len(end + len);
        }
        Ok(())
    }
}
