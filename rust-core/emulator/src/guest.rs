// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Reading guest memory: one of the two places with raw pointers (the other is the plugin
//! interface).

use crate::signals::GuestMemory;

/// The guest's address space, which lies at a constant offset in QEMU's own.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    base: u64,
}

impl Guest {
    /// Finds that offset in the running QEMU (`guest_base`); 0 if QEMU does not export it.
    pub fn locate() -> Guest {
        // SAFETY: the name is NUL-terminated; the result is null or the address of QEMU's
        // `uintptr_t guest_base`, which is constant once a plugin's code runs for a guest.
        let base = unsafe {
            let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"guest_base".as_ptr());
            if symbol.is_null() { 0 } else { symbol.cast::<u64>().read() }
        };
        Guest { base }
    }

    /// Whether guest memory at `at` holds other bytes than `bytes`.
    ///
    /// # Safety
    /// The `bytes.len()` bytes of guest memory at `at` are mapped and readable.
    #[inline]
    pub unsafe fn differs(&self, at: u64, bytes: &[u8]) -> bool {
        let there = self.base.wrapping_add(at) as *const libc::c_void;
        // SAFETY: the caller's promise. Guest threads may write these bytes at the same time.
        // The comparison is therefore a foreign function, which reads each byte either before
        // or after such a write.
        unsafe { libc::memcmp(there, bytes.as_ptr().cast(), bytes.len()) != 0 }
    }
}

impl GuestMemory for Guest {
    /// Copies through the kernel, which checks the address: a guest may pass any pointer.
    fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let remote =
            libc::iovec { iov_base: self.base.wrapping_add(at) as *mut libc::c_void, iov_len: to.len() };
        // SAFETY: `local` describes `to`; the remote side is checked by the kernel.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        n == to.len() as isize
    }
}

/// The calling thread's id, which a guest thread under QEMU's user mode shares with its host
/// thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no preconditions.
    unsafe { libc::gettid() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_mapped_only() {
        let g = Guest { base: 0 };
        let word = 0x1122_3344_5566_7788u64;
        assert_eq!(g.word(&raw const word as u64), Some(word));
        assert_eq!(g.word(8), None);
        let at = &raw const word as u64;
        // SAFETY: `word` is mapped and readable.
        let differs = |bytes: &[u8]| unsafe { g.differs(at, bytes) };
        assert!(!differs(&[0x88, 0x77, 0x66]) && differs(&[0x88, 0x76, 0x66]));
    }
}
