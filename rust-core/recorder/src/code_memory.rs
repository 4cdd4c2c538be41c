// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The code cache as the memory of a file.
//!
//! Linux before 5.18 filters ranges of files only, and of each file only the range that was
//! mapped last. So the code cache is one mapping of one memfd, created once, whole and
//! executable; the VM neither commits nor uncommits, protects nor moves it.
//!
//! Like anonymous memory, such memory is zero and occupies no space until it is touched.
//! `/proc/PID/smaps` counts it as shared memory (`RssShmem`); core files contain it
//! (`coredump_filter` bit 1, set by default). Differences from anonymous memory:
//!
//! * A forked child shares it with the VM. Between `fork` and `exec` a child neither runs nor
//!   writes code of the code cache.
//! * The part that is not in use yet is executable and writable, too.
//! * Transparent huge pages need `shmem_enabled`.
//!
//! The file is sealed: other processes of the user can open it through `/proc/PID/fd` even where
//! they may not write to the VM's memory, but they can neither write to it nor change its length.
//! Linux before 5.1 cannot seal it against writing; there the code cache stays anonymous memory.

use crate::error::Error;
use crate::sys;
use std::fs::File;
use std::io;

/// The name that `/proc/PID/maps` shows.
const NAME: &std::ffi::CStr = c"jportal-code-cache";

/// The kernel's overcommit policy; 2: it never promises more memory than there is.
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";

/// Makes the reserved range `low..high` the memory of a file, and returns the file, sealed and open
/// for reading. On failure the range stays reserved.
///
/// # Errors
/// [`Error::CodeMemory`] with the obstacle.
///
/// # Safety
/// The range consists of whole pages, belongs to the caller, and nothing is stored in it yet.
pub unsafe fn back(low: u64, high: u64) -> Result<File, Error> {
    let refused = |call: &str, e: std::io::Error| Error::CodeMemory(format!("{call}: {e}"));
    let bytes = high.saturating_sub(low);
    let overcommit = std::fs::read_to_string(OVERCOMMIT).unwrap_or_default();
    if let Some(why) = obstacle(bytes, sys::file_size_limit(), &overcommit) {
        return Err(Error::CodeMemory(why));
    }
    let file = sys::memfd(NAME).map_err(|e| refused("memfd_create", e))?;
    file.set_len(bytes).map_err(|e| refused("ftruncate", e))?;
    let (address, len) = (low as usize, bytes as usize);
    // SAFETY: the caller guarantees that the range is its own and unused.
    unsafe { sys::map_code_at(&file, address, len) }.map_err(|e| {
        // `mmap` may fail after it has removed the reservation, so the range is reserved again.
        // Even if that fails, the VM's commits can map the range.
        // SAFETY: as above.
        let _ = unsafe { sys::reserve_at(address, len) };
        refused("mmap of a memfd for execution", e)
    })?;
    seal(file, sys::add_seals).inspect_err(|_| {
        // SAFETY: as above; nothing was stored in the mapping.
        let _ = unsafe { sys::reserve_at(address, len) };
    })
}

/// Protects a memfd whose whole memory is mapped as code: nobody can change its length, which would
/// raise SIGBUS at the next instruction, and nobody can write to it except through mappings that
/// exist. Returns the file, open for reading only.
fn seal(file: File, add_seals: impl Fn(&File, i32) -> io::Result<()>) -> Result<File, Error> {
    const LENGTH: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let sealed = add_seals(&file, LENGTH | libc::F_SEAL_FUTURE_WRITE).and_then(|()| sys::read_only(file));
    sealed.map_err(|e| {
        Error::CodeMemory(match e.raw_os_error() {
            Some(libc::EINVAL) => {
                "other processes of the user could change the code, because Linux before 5.1 \
                 cannot seal a memfd against writing"
                    .into()
            }
            _ => format!("sealing of a memfd: {e}"),
        })
    })
}

/// A reason not to try the mapping. A file beyond the limit costs a signal (SIGXFSZ). A page of
/// a file for which the kernel has no room costs another one when it is touched (SIGBUS),
/// whereas anonymous memory is refused when it is committed.
fn obstacle(bytes: u64, limit: Option<u64>, overcommit: &str) -> Option<String> {
    if let Some(limit) = limit.filter(|&limit| limit < bytes) {
        return Some(format!("it has {bytes} bytes, and the limit on files (ulimit -f) is {limit}"));
    }
    (overcommit.trim() == "2")
        .then(|| "vm.overcommit_memory is 2: a page of it might be missing when it is needed".into())
}

#[cfg(test)]
mod tests {
    use super::{NAME, back, obstacle, seal};
    use crate::error::Error;
    use crate::sys;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    const LEN: usize = 64 << 12;

    /// Reserves address space for a test.
    fn reservation() -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new range, which the test keeps.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), LEN, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at as usize
    }

    /// Lines of `/proc/self/maps` in the range, without their addresses.
    fn maps(at: usize) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let inside = |line: &&str| {
            let (low, high) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let address = |hex| usize::from_str_radix(hex, 16).unwrap();
            address(low) < at + LEN && address(high) > at
        };
        text.lines().filter(inside).map(|l| l.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn the_code_cache_is_one_mapping_of_the_whole_file() {
        let at = reservation();
        // SAFETY: just reserved.
        let file = unsafe { back(at as u64, (at + LEN) as u64) }.unwrap();
        assert_eq!(file.metadata().unwrap().len(), LEN as u64);
        let maps = maps(at);
        assert_eq!(maps.len(), 1, "{maps:?}");
        assert!(maps[0].starts_with("rwxs 00000000 "), "{maps:?}");
        assert!(maps[0].ends_with("/memfd:jportal-code-cache (deleted)"), "{maps:?}");
        // mov eax, 42; ret
        let code = [0xb8, 42, 0, 0, 0, 0xc3];
        let place = (at + LEN / 2) as *mut u8;
        // SAFETY: inside the mapping, and a function of that type.
        let answer = unsafe {
            assert_eq!(place.read(), 0);
            std::ptr::copy_nonoverlapping(code.as_ptr(), place, code.len());
            std::mem::transmute::<*mut u8, extern "C" fn() -> i32>(place)()
        };
        assert_eq!(answer, 42);
        use std::os::unix::fs::MetadataExt;
        assert_eq!(file.metadata().unwrap().blocks() * 512, 4096, "one page was touched");
    }

    /// What another process of the same user can do through `/proc/PID/fd`.
    #[test]
    fn nobody_else_writes_or_cuts_the_code() {
        let at = reservation();
        // SAFETY: just reserved.
        let file = unsafe { back(at as u64, (at + LEN) as u64) }.unwrap();
        // SAFETY: inside the mapping, which stays writable.
        unsafe { (at as *mut u8).write(0xc3) };
        (&file).write_all(&[0xcc]).unwrap_err();
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        // The user may change the mode, as root ignores it.
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut other = std::fs::OpenOptions::new().read(true).write(true).open(&link).unwrap();
        other.write_all(&[0xcc]).unwrap_err();
        for len in [0, LEN as u64 / 2, 2 * LEN as u64] {
            other.set_len(len).unwrap_err();
        }
        sys::allocate(&other, 0, 2 * LEN as u64).unwrap_err();
        sys::give_back(&other, 0, 4096).unwrap_err();
        let flags = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, which must not come to be.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), LEN, flags.1, flags.0, other.as_raw_fd(), 0) };
        assert_eq!(map, libc::MAP_FAILED);
        // SAFETY: as above.
        assert_eq!(unsafe { (at as *const u8).read() }, 0xc3);
    }

    /// Linux before 5.1 refuses the seal that it does not know.
    #[test]
    fn code_that_others_could_write_is_refused() {
        let by_old_kernel = |file: &File, seals: i32| {
            if seals & libc::F_SEAL_FUTURE_WRITE != 0 {
                return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
            }
            sys::add_seals(file, seals)
        };
        let refused = seal(sys::memfd(NAME).unwrap(), by_old_kernel).unwrap_err().to_string();
        assert!(refused.contains("Linux before 5.1"), "{refused}");
        let refused = |_: &File, _| Err(std::io::Error::from_raw_os_error(libc::EPERM));
        let refused = seal(sys::memfd(NAME).unwrap(), refused).unwrap_err().to_string();
        assert!(refused.contains("sealing of a memfd: "), "{refused}");
        seal(sys::memfd(NAME).unwrap(), sys::add_seals).unwrap();
    }

    #[test]
    fn what_cannot_be_mapped_stays_reserved() {
        let at = reservation();
        // SAFETY: just reserved. The file is not writable, so that this mapping fails.
        unsafe { sys::map_code_at(&File::open("/proc/self/exe").unwrap(), at, LEN) }.unwrap_err();
        // SAFETY: the range is within the reservation.
        let refused = unsafe { back(at as u64 + 1, (at + LEN) as u64) };
        assert!(matches!(&refused, Err(Error::CodeMemory(why)) if why.contains("mmap")), "{refused:?}");
        assert_eq!(maps(at).len(), 1);
        assert!(maps(at)[0].starts_with("---p "), "{:?}", maps(at));
        // The range can also be reserved again after the file was mapped.
        // SAFETY: as above.
        unsafe {
            back(at as u64, (at + LEN) as u64).unwrap();
            sys::reserve_at(at, LEN).unwrap();
        }
        assert!(maps(at)[0].starts_with("---p 00000000 00:00 0"), "{:?}", maps(at));
    }

    #[test]
    fn limits_are_seen_beforehand() {
        assert_eq!(obstacle(1 << 20, None, "0\n"), None);
        assert_eq!(obstacle(1 << 20, Some(1 << 20), "1\n"), None);
        assert!(obstacle((1 << 20) + 1, Some(1 << 20), "0\n").unwrap().contains("ulimit -f"));
        assert!(obstacle(1 << 20, None, "2\n").unwrap().contains("overcommit"));
    }
}
