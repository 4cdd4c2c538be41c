// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Functions that need the machine or the C library directly.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::raw::c_char;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The time-stamp counter, which is the clock of every record.
#[inline]
pub(crate) fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; Linux leaves it enabled for user code
    // unless the process asked otherwise with prctl(PR_SET_TSC), which no JVM does.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Vendor string, display family, display model, stepping (CPUID leaves 0 and 1).
pub(crate) fn cpu() -> (String, u16, u16, u16) {
    use core::arch::x86_64::__cpuid;
    #[allow(unused_unsafe)] // safe to call since Rust 1.94
    // SAFETY: every x86-64 processor has CPUID with these leaves.
    let (zero, one) = unsafe { (__cpuid(0), __cpuid(1)) };
    let vendor: Vec<u8> = [zero.ebx, zero.edx, zero.ecx].iter().flat_map(|r| r.to_le_bytes()).collect();
    let (base_family, base_model) = ((one.eax >> 8) & 0xf, (one.eax >> 4) & 0xf);
    let family = base_family + if base_family == 0xf { (one.eax >> 20) & 0xff } else { 0 };
    let extended = matches!(base_family, 6 | 0xf);
    let model = base_model | if extended { (one.eax >> 12) & 0xf0 } else { 0 };
    let vendor = String::from_utf8_lossy(&vendor).into_owned();
    (vendor, family as u16, model as u16, (one.eax & 0xf) as u16)
}

/// Device and inode of what has the name `path`; a link is not followed.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Sleeps. Async-signal-safe.
pub(crate) fn sleep_ms(ms: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(ms) * 1_000_000 };
    // SAFETY: `time` is read, and nothing is written through the null pointer.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Signals that a thread's own faults raise. If they were blocked, such a fault would end the
/// process without the VM's error report. QEMU, moreover, emulates the masks of SIGSEGV and
/// SIGBUS, and would leave such a signal, sent to the process, pending for a thread that never
/// takes it.
const FAULTS: [libc::c_int; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];

/// Runs `f` with every signal blocked except those of faults, so that a thread created in `f`
/// never takes a signal meant for the VM's threads.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set was filled in by pthread_sigmask below.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    let mut all = MaybeUninit::uninit();
    let mut old = MaybeUninit::uninit();
    // SAFETY: both sets are writable; sigfillset initialises the first before it is changed and
    // read, and pthread_sigmask with a valid `how` cannot fail, so it fills in the second.
    let _restore = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        Restore(old.assume_init())
    };
    f()
}

/// A function of the VM that receives log lines.
#[derive(Clone, Copy)]
pub(crate) struct Callback(extern "C" fn(i32, *const c_char));

impl Callback {
    /// The function at the address that the bridge received; `None` for 0.
    ///
    /// # Safety
    /// `address` is 0 or that of an `extern "C" void(int, const char*)` that may be called from
    /// any thread for the rest of the process's life.
    pub(crate) unsafe fn new(address: usize) -> Option<Self> {
        if address == 0 {
            return None;
        }
        // SAFETY: not null, and the caller guarantees the type.
        Some(Self(unsafe { std::mem::transmute::<usize, extern "C" fn(i32, *const c_char)>(address) }))
    }

    /// Passes one line to the VM.
    pub(crate) fn call(self, level: i32, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        (self.0)(level, text.as_ptr());
    }
}

/// Returns free memory of the C heap to the system. glibc does so by itself only at the end of an
/// arena, so the tables of a trimming would stay for as long as anything lies after them.
pub(crate) fn return_free_memory() {
    // SAFETY: the call touches free memory only, and locks the C heap as malloc does.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The user as whom this process makes files.
pub(crate) fn user() -> u32 {
    // SAFETY: no memory is involved, and the call cannot fail.
    unsafe { libc::geteuid() }
}

/// Gives a part of `file` memory. [`memory::allocate`](jportal_perf_abi::memory::allocate) does
/// the same for a whole file.
pub(crate) fn allocate(file: &File, at: u64, len: u64) -> io::Result<()> {
    fallocate(file, 0, at, len)
}

/// Takes the memory from a part of `file`, which then reads as zeros.
pub(crate) fn give_back(file: &File, at: u64, len: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, at, len)
}

fn fallocate(file: &File, mode: libc::c_int, at: u64, len: u64) -> io::Result<()> {
    // A signal to the calling thread interrupts the call, and its handler runs before the next.
    for _ in 0..100 {
        // SAFETY: no memory is involved; the descriptor is open while `file` lives.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, at as libc::off_t, len as libc::off_t) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// How long a file of this process may be; `None`: unlimited.
pub(crate) fn file_size_limit() -> Option<u64> {
    let mut limit = MaybeUninit::uninit();
    // SAFETY: the structure is writable, and initialised when the call returns 0.
    let limit = unsafe {
        (libc::getrlimit(libc::RLIMIT_FSIZE, limit.as_mut_ptr()) == 0).then(|| limit.assume_init())
    };
    limit.map(|l: libc::rlimit| l.rlim_cur).filter(|&l| l != libc::RLIM_INFINITY)
}

/// An empty file that is in no file system and that no child process inherits, and that can be
/// sealed ([`add_seals`]). It cannot be executed as a program, as `vm.memfd_noexec` requires;
/// mapping it as code is still possible.
pub(crate) fn memfd(name: &CStr) -> io::Result<File> {
    let mut made = -1;
    // Linux before 6.3 does not know the second flag.
    for flags in [libc::MFD_NOEXEC_SEAL, 0] {
        let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is NUL-terminated, and only read.
        made = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if made >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and not owned elsewhere.
    Ok(unsafe { File::from_raw_fd(made) })
}

/// Adds `seals` to a memfd: either all of them or none.
pub(crate) fn add_seals(file: &File, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is involved; the descriptor is open while `file` lives.
    let added = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the right to write from the mode of `file`, and returns it open for reading only.
pub(crate) fn read_only(file: File) -> io::Result<File> {
    file.set_permissions(std::fs::Permissions::from_mode(0o400))?;
    // Without /proc, nobody can open it anew, nor can we.
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or(file))
}

/// Replaces what is at `address` by a shared mapping of `file` from its beginning, readable,
/// writable and executable.
///
/// # Safety
/// The range belongs to the caller, and nothing relies on its content.
pub(crate) unsafe fn map_code_at(file: &File, address: usize, len: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller guarantees that nothing in use is replaced.
    unsafe { map_at(address, len, protection, flags, file.as_raw_fd()) }
}

/// Replaces what is at `address` by reserved address space without memory.
///
/// # Safety
/// As [`map_code_at`].
pub(crate) unsafe fn reserve_at(address: usize, len: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: passed on from the caller.
    unsafe { map_at(address, len, libc::PROT_NONE, flags, -1) }
}

/// # Safety
/// What is at `address` may be replaced if `flags` contains `MAP_FIXED`.
unsafe fn map_at(address: usize, len: usize, protection: i32, flags: i32, fd: RawFd) -> io::Result<()> {
    // SAFETY: passed on from the caller.
    let mapped = unsafe { libc::mmap(address as *mut libc::c_void, len, protection, flags, fd, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    /// Memory of this process in KB, without that of files.
    fn anonymous() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn free_memory_below_memory_in_use_is_returned() {
        let before = anonymous();
        let tables: Vec<Box<[u8]>> = (0..32 << 10).map(|_| vec![1; 4 << 10].into()).collect();
        let in_use: Box<[u8]> = vec![1; 4 << 10].into();
        drop(tables);
        let free = anonymous().saturating_sub(before);
        assert!(free > 100 << 10, "glibc has returned it by itself, so nothing is shown: {free} KB are left");
        super::return_free_memory();
        let left = anonymous().saturating_sub(before);
        assert!(left < 50 << 10, "{left} of {free} KB are left");
        drop(in_use);
    }
}
