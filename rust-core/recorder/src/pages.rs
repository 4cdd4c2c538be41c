// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Memory that the system has again as soon as it is freed.
//!
//! glibc keeps what lies free at the end of an arena, up to 64 MB; for arenas of threads,
//! malloc_trim(3) does not return it either. A VM has many arenas, and each trimming may use
//! another one. So the tables of a trimming are mappings of their own.

use allocator_api2::alloc::{AllocError, Allocator, Layout};
use std::ptr::NonNull;

/// Smallest unit of a mapping, in bytes, and the greatest alignment.
const PAGE: usize = 4096;

/// Allocates whole pages, with mmap(2). For few and large blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pages;

/// Number of bytes of the pages that a block of this size takes.
fn whole(size: usize) -> Result<usize, AllocError> {
    size.checked_next_multiple_of(PAGE).filter(|len| *len <= isize::MAX as usize).ok_or(AllocError)
}

fn block(start: *mut libc::c_void, len: usize) -> Result<NonNull<[u8]>, AllocError> {
    if start == libc::MAP_FAILED {
        return Err(AllocError);
    }
    NonNull::new(start.cast()).map(|start| NonNull::slice_from_raw_parts(start, len)).ok_or(AllocError)
}

// SAFETY: a block is a mapping that nothing else uses until it is freed. `Pages` has no state, so
// copies of it are the same allocator. Whatever size a caller names for a block, from the one asked
// for to the one returned, `whole` gives the length of the mapping.
unsafe impl Allocator for Pages {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > PAGE {
            return Err(AllocError);
        }
        if layout.size() == 0 {
            let start = NonNull::new(layout.align() as *mut u8).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(start, 0));
        }
        let len = whole(layout.size())?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses.
        block(unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) }, len)
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if let (1.., Ok(len)) = (layout.size(), whole(layout.size())) {
            // SAFETY: the caller gives a block of this allocator, which it no longer uses.
            unsafe { libc::munmap(start.as_ptr().cast(), len) };
        }
    }

    unsafe fn grow(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || new.align() > PAGE {
            return self.allocate(new);
        }
        let (from, to) = (whole(old.size())?, whole(new.size())?);
        // SAFETY: the caller gives a block of this allocator, and uses its old address no longer.
        // If the call fails, the block stays as it is.
        block(unsafe { libc::mremap(start.as_ptr().cast(), from, to, libc::MREMAP_MAYMOVE) }, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::vec::Vec;

    fn is_mapped(address: *const u64) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
        maps.lines().any(|line| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            (hex(from)..hex(to)).contains(&(address as usize))
        })
    }

    #[test]
    fn a_table_grows_and_goes() {
        let goes = || {
            let mut table = Vec::new_in(Pages);
            for n in 0..200_000_u64 {
                table.push(n);
            }
            assert!(table.iter().copied().eq(0..200_000));
            assert!((table.capacity() * 8).is_multiple_of(PAGE) && is_mapped(table.as_ptr()));
            let start = table.as_ptr();
            drop(table);
            !is_mapped(start)
        };
        // Another thread may map something there at once.
        assert!((0..10).any(|_| goes()), "the pages are not the system's again");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        assert!(Pages.allocate(layout(8, 2 * PAGE)).is_err());
        assert!(Pages.allocate(layout(isize::MAX as usize - PAGE, 8)).is_err());
        let none = Pages.allocate(layout(0, 8)).unwrap();
        assert_eq!(none.len(), 0);
        let mut table: Vec<u64, Pages> = Vec::new_in(Pages);
        assert!(table.try_reserve(usize::MAX / 16).is_err() && table.capacity() == 0);
    }
}
