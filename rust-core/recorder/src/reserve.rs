// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The allocator of this library, with a reserve for the time when memory runs out.
//!
//! Rust's collections and texts abort the process when an allocation fails, and a recorder must
//! not abort the VM. Large buffers are reserved fallibly (`try_reserve`) where they are needed.
//! The many small allocations around them (an error's text, a loss note, the end of the capture)
//! come from the reserve if the system has no memory. The recording then ends ([`was_used`]), so
//! little of the reserve is needed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Bytes of the reserve. They occupy no memory until they are used.
const SIZE: usize = 512 << 10;
/// Largest allocation from the reserve.
const LARGEST: usize = 32 << 10;

#[repr(align(4096))]
struct ReserveBytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: each byte is handed out once, by the atomic counter in `take`.
unsafe impl Sync for ReserveBytes {}

static BYTES: ReserveBytes = ReserveBytes(UnsafeCell::new([0; SIZE]));
static NEXT: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

/// Whether the reserve has been used since the last call.
pub(crate) fn was_used() -> bool {
    USED.load(Relaxed) && USED.swap(false, AcqRel)
}

struct WithReserve;

impl WithReserve {
    /// Memory of the reserve, or null. It is never handed out again.
    fn take(layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if size > LARGEST || align > 4096 {
            return std::ptr::null_mut();
        }
        USED.store(true, Release);
        let place = |next: usize| {
            let at = next.next_multiple_of(align);
            (at + size <= SIZE).then_some(at)
        };
        let taken = NEXT.fetch_update(AcqRel, Relaxed, |next| place(next).map(|at| at + size));
        match taken.ok().and_then(place) {
            // SAFETY: `at + size <= SIZE`.
            Some(at) => unsafe { BYTES.0.get().cast::<u8>().add(at) },
            None => std::ptr::null_mut(),
        }
    }

    fn owns(memory: *mut u8) -> bool {
        let start = BYTES.0.get() as usize;
        (start..start + SIZE).contains(&(memory as usize))
    }
}

// SAFETY: memory comes from `System` or, aligned and once only, from the reserve; each goes back
// to where it came from.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        let memory = unsafe { System.alloc_zeroed(layout) };
        // The reserve is zero, because each byte is handed out once.
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !Self::owns(memory) {
            // SAFETY: it came from `System`.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::owns(memory) {
            // SAFETY: it came from `System`.
            let new = unsafe { System.realloc(memory, layout, size) };
            if !new.is_null() {
                return new;
            }
        }
        // SAFETY: the caller guarantees that `size` is valid for this alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have at least that length, and the new memory is nobody else's.
            unsafe {
                std::ptr::copy_nonoverlapping(memory, new, layout.size().min(size));
                self.dealloc(memory, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_handed_out_once_and_aligned() {
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        assert!(WithReserve::take(layout(LARGEST + 1, 1)).is_null());
        let mut all: Vec<(usize, usize)> = Vec::new();
        for n in 0.. {
            let (size, align) = (1 + n * 37 % 3000, 1 << (n % 7));
            let memory = WithReserve::take(layout(size, align));
            if memory.is_null() {
                break;
            }
            assert!(WithReserve::owns(memory) && (memory as usize).is_multiple_of(align));
            all.push((memory as usize, size));
        }
        assert!(all.iter().map(|a| a.1).sum::<usize>() > SIZE - 100_000);
        assert!(all.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert!(was_used() && !was_used());
        let memory = std::ptr::from_ref(&BYTES).cast_mut().cast::<u8>();
        // SAFETY: memory of the reserve, which stays as it is.
        unsafe {
            ALLOCATOR.dealloc(memory, layout(8, 8));
            memory.write(42);
            let elsewhere = ALLOCATOR.realloc(memory, layout(8, 8), 16);
            assert!(!WithReserve::owns(elsewhere) && elsewhere.read() == 42);
            ALLOCATOR.dealloc(elsewhere, layout(16, 8));
        }
    }
}
