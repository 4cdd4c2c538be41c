// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The only bridge between HotSpot and the recorder.
//!
//! No function throws or unwinds: each body runs under `catch_unwind`, and a panic ends the
//! recording with a reason. Types are numbers and pointers, so that the including C++ file
//! needs nothing of `cxx.h`. Codes returned by the functions that return an `i32`:
//!
//! | code | meaning                                             |
//! |------|-----------------------------------------------------|
//! | 0    | done                                                |
//! | 1    | a value of the configuration cannot be used         |
//! | 2    | no PT source, or it cannot be used                  |
//! | 3    | the capture cannot be created or written            |
//! | 4    | the ring file cannot be created                     |
//! | 5    | a thread cannot be created                          |
//! | 6    | internal error                                      |
//! | 7    | the code cache cannot be the memory of a file       |
//! | 8    | the previous recording has not been stopped         |
//! | 9    | recording was never started                         |
//! | 10   | there is nothing to dump, or the dump failed        |

use crate::code_memory;
use crate::config::{RecordingConfig, Source, StorageLimits, Trimming};
use crate::device;
use crate::dump::SlowCall;
use crate::dump_requests::{self, Request};
use crate::error::Error;
use crate::log::Log;
use crate::recorder::{Recorder, StopReason, panic_text};
use crate::session::lock;
use crate::sys::{self, Callback};
use jportal_perf_abi::kernel::Linux;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

#[cxx::bridge(namespace = "jportal")]
mod ffi {
    /// What to record. Every pointer is read during `recorder_start` only.
    struct RecorderConfig {
        /// NUL-terminated path of the capture, `%p` and `%t` already expanded.
        capture_path: *const c_char,
        /// NUL-terminated, may be null.
        vm_version: *const c_char,
        /// Non-default flags, NUL-terminated, may be null.
        vm_flags: *const c_char,
        /// Java command, NUL-terminated, may be null.
        java_command: *const c_char,
        /// 0 auto, 1 perf, 2 emulated, 3 none, 4 sideband.
        source: i32,
        /// Bytes of the export ring, 0 for the default.
        ring_size: u64,
        /// AUX bytes per core, 0 for the default.
        buffer_size: u64,
        /// Flight recorder: bytes to keep of each core. 0: record everything.
        snapshot_size: u64,
        /// The VM is already running: all of its threads are recorded, not only the calling
        /// thread and those that it creates.
        attach: bool,
        /// 0, or the address of `void(*)(int level, const char* text)`; level 1 error, 2
        /// warning, 3 info. It is called from recorder threads (not attached to the VM, with
        /// all signals blocked but those of faults) and from callers of the bridge.
        log: usize,
    }

    extern "Rust" {
        /// Opens device, ring and capture and starts the threads. Waits for the file system, at
        /// most 20 s. May be called again when the previous recording was stopped. Returns 0, or a
        /// code whose message `recorder_last_error` copies.
        ///
        /// # Safety
        /// The pointers of `config` are null or NUL-terminated strings; `log` is as described
        /// in `RecorderConfig`.
        unsafe fn recorder_start(config: &RecorderConfig) -> i32;

        /// Copies the last error's message, NUL-terminated and cut to `size`; returns its whole
        /// length.
        ///
        /// # Safety
        /// `size` bytes can be written at `buf`.
        unsafe fn recorder_last_error(buf: *mut c_char, size: usize) -> usize;

        /// Whether the PT of the current recording can be filtered only if the code cache is
        /// the memory of a file. Without a recording, the answer is for one that starts later
        /// from `source`. False: the code cache need not be the memory of a file.
        fn recorder_filters_files_only(source: i32) -> bool;

        /// Makes the code cache, reserved at `[low, high)`, the memory of a file; the whole
        /// range becomes readable, writable and executable. On failure the range stays
        /// reserved. To be called before `recorder_set_code_cache`, which uses the file.
        ///
        /// # Safety
        /// The range consists of whole pages, belongs to the caller, and nothing is stored in
        /// it yet.
        unsafe fn recorder_back_code_cache(low: u64, high: u64) -> i32;

        /// The code cache is reserved at `[low, high)`: sets the filter and enables the device.
        /// To be called once per recording.
        fn recorder_set_code_cache(low: u64, high: u64) -> i32;

        /// The calling thread is new. Depends on no lock or state of the VM.
        fn recorder_thread_started();

        /// Commits one metadata record. Waits for no disk, and depends on no lock or state of the
        /// VM. False: nothing is being recorded, or the recording has just ended because of this
        /// record.
        ///
        /// # Safety
        /// `len` bytes can be read at `body`.
        unsafe fn recorder_ring_write(kind: u16, body: *const u8, len: usize) -> bool;

        /// Whether records are accepted. Costs a read lock and a load.
        fn recorder_active() -> bool;

        /// Ends the recording. 0 the VM exits, 1 on request, 2 the VM ends with an error (takes
        /// at most about two seconds). The others take as long as the disk takes data, at most a
        /// minute, and give up after a write has lasted for five seconds. May be called repeatedly.
        fn recorder_stop(reason: i32) -> i32;

        /// Writes what the flight recorder holds to a capture at `path`. The capture contains
        /// `reason`. Returns 0, or a code, when the dump is complete, after at most 20 s. An
        /// existing file is never replaced: a `path` that ends in a number becomes the next free
        /// one. Copies the path of the capture to `written`, in the way `recorder_last_error`
        /// copies its message.
        ///
        /// # Safety
        /// `path` and `reason` are NUL-terminated strings; `size` bytes can be written at
        /// `written`, which is no part of them.
        unsafe fn recorder_dump(
            path: *const c_char,
            reason: *const c_char,
            written: *mut c_char,
            size: usize,
        ) -> i32;

        /// The same, without a wait: pauses the device, for which it takes at most 1 ms (with the
        /// emulated unit two seconds), and leaves a request for a thread of the recorder. Returns
        /// 0, or 10 if it is not taken.
        ///
        /// # Safety
        /// `path` and `reason` are NUL-terminated strings.
        unsafe fn recorder_request_dump(path: *const c_char, reason: *const c_char) -> i32;

        /// The same because of a slow call: OS thread, method, TSC at its beginning and end,
        /// which the capture contains.
        ///
        /// # Safety
        /// `path` and `reason` are NUL-terminated strings.
        unsafe fn recorder_dump_slow_call(
            path: *const c_char,
            reason: *const c_char,
            tid: u32,
            method: u64,
            began: u64,
            ended: u64,
        ) -> i32;

        /// Copies lines "key: value\n", in the way `recorder_last_error` copies its message.
        ///
        /// # Safety
        /// `size` bytes can be written at `buf`.
        unsafe fn recorder_status(buf: *mut c_char, size: usize) -> usize;

        /// Async-signal-safe: a thread got SIGBUS at `address`. Returns whether it may repeat its
        /// access, because the recorder has repaired what was there.
        fn recorder_bus_error(address: usize) -> bool;

        /// Async-signal-safe: the VM has met a fatal error. Stops the device; takes at most 45 ms,
        /// which the device needs with very many events alone.
        fn recorder_crash_begins();

        /// Async-signal-safe: the process is about to end by a fatal error. Stops the device,
        /// gives it and the drain threads at most 100 ms together with `recorder_crash_begins`
        /// (with the emulated unit and a flight recorder two seconds more), marks the ring file and
        /// closes it.
        fn recorder_emergency();
    }
}

use ffi::RecorderConfig;

/// The current recording, or the previous one, whose status can still be queried. It is written
/// only to replace a recording that has been stopped, in which no thread waits.
static RECORDER: RwLock<Option<Arc<Recorder>>> = RwLock::new(None);
static STARTING: Mutex<()> = Mutex::new(());
static LAST_ERROR: Mutex<String> = Mutex::new(String::new());
/// The file whose memory the code cache is; later recordings may need it, too.
static CODE_CACHE_FILE: Mutex<Option<File>> = Mutex::new(None);

/// Returns a counted reference instead of holding the lock, because calls on the recording may
/// wait.
fn recorder() -> Option<Arc<Recorder>> {
    RECORDER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note(error: &Error) -> i32 {
    *lock(&LAST_ERROR) = error.to_string();
    error.code()
}

/// Runs the body of a bridge function; a panic ends the recording.
fn entry<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let error = Error::Panic(panic_text(&*panic));
        note(&error);
        if let Some(recorder) = recorder() {
            // A second panic must not leave the bridge either.
            let _ = catch_unwind(AssertUnwindSafe(|| recorder.fail(&error)));
        }
        otherwise
    })
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_start(config: &RecorderConfig) -> i32 {
    entry(6, || {
        let _one_at_a_time = lock(&STARTING);
        if recorder().is_some_and(|r| !r.is_stopped()) {
            return note(&Error::AlreadyStarted);
        }
        quiet_panics();
        // SAFETY: the caller fulfils the requirements of `RecorderConfig`.
        let started = unsafe { to_config(config) }.and_then(|config| {
            // Before the device is opened, so that it does not trace this thread.
            if config.snapshot_bytes != 0 {
                dump_requests::start()?;
            }
            Recorder::start(config)
        });
        match started.map(Arc::new) {
            Ok(recorder) => {
                // The lock is held for this exchange only: `recorder_emergency` may wait for it.
                let before = RECORDER.write().unwrap_or_else(PoisonError::into_inner).replace(recorder);
                drop(before);
                0
            }
            Err(e) => note(&e),
        }
    })
}

/// Panics are reported through the log, so that the VM's standard error stays the program's.
/// The hook belongs to the standard library linked into this archive, not to other Rust code in
/// the process.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        *lock(&LAST_ERROR) = format!("panic at {place}");
    }));
}

/// # Safety
/// The pointers are null or NUL-terminated strings, `log` is 0 or a function as described.
unsafe fn to_config(from: &RecorderConfig) -> Result<RecordingConfig, Error> {
    let bytes = |p: *const c_char| {
        if p.is_null() {
            return &[][..];
        }
        // SAFETY: not null, so a NUL-terminated string that outlives this call.
        unsafe { CStr::from_ptr(p) }.to_bytes()
    };
    let text = |p| String::from_utf8_lossy(bytes(p)).into_owned();
    let path = bytes(from.capture_path);
    if path.is_empty() {
        return Err(Error::Configuration {
            field: "JPortalFile",
            value: String::new(),
            rule: "it needs a file name",
        });
    }
    Ok(RecordingConfig {
        path: std::ffi::OsStr::from_bytes(path).into(),
        source: Source::try_from(from.source)?,
        ring_bytes: from.ring_size,
        ring_folder: None,
        buffer_bytes: from.buffer_size,
        snapshot_bytes: from.snapshot_size,
        trimming: Trimming::default(),
        limits: StorageLimits::default(),
        attach: from.attach,
        vm_version: text(from.vm_version),
        vm_flags: text(from.vm_flags),
        java_command: text(from.java_command),
        // SAFETY: passed on from the caller.
        log: Log::to_vm(unsafe { Callback::new(from.log) }),
    })
}

/// # Safety
/// `size` bytes can be written at `buf`.
unsafe fn copy_text(text: &[u8], buf: *mut c_char, size: usize) -> usize {
    if !buf.is_null() && size > 0 {
        let n = text.len().min(size - 1);
        // SAFETY: `n + 1 <= size` bytes can be written there, and `text` is not part of them.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast::<u8>(), n);
            buf.add(n).write(0);
        }
    }
    text.len()
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_last_error(buf: *mut c_char, size: usize) -> usize {
    // SAFETY: passed on from the caller.
    entry(0, || unsafe { copy_text(lock(&LAST_ERROR).as_bytes(), buf, size) })
}

fn recorder_filters_files_only(source: i32) -> bool {
    entry(false, || match (recorder(), Source::try_from(source)) {
        (Some(recorder), _) => recorder.filters_files_only(),
        (None, Ok(source)) => device::will_filter_files_only(
            Arc::new(Linux),
            &RecordingConfig { source, ..RecordingConfig::default() },
        ),
        (None, Err(_)) => false,
    })
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_back_code_cache(low: u64, high: u64) -> i32 {
    // SAFETY: passed on from the caller.
    entry(6, || match unsafe { code_memory::back(low, high) } {
        Ok(file) => {
            *lock(&CODE_CACHE_FILE) = Some(file);
            0
        }
        Err(e) => note(&e),
    })
}

fn recorder_set_code_cache(low: u64, high: u64) -> i32 {
    entry(6, || {
        let Some(recorder) = recorder() else { return 9 };
        let file = lock(&CODE_CACHE_FILE);
        let set = recorder.set_code_cache(low, high, file.as_ref().map(AsFd::as_fd));
        set.map_or_else(|e| note(&e), |()| 0)
    })
}

fn recorder_thread_started() {
    entry((), || {
        if let Some(recorder) = recorder() {
            recorder.thread_started();
        }
    });
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_ring_write(kind: u16, body: *const u8, len: usize) -> bool {
    entry(false, || {
        let Some(recorder) = recorder() else { return false };
        if body.is_null() || len == 0 {
            return recorder.write(kind, &[]);
        }
        // SAFETY: `len` bytes can be read there, and no thread writes to them during the call.
        recorder.write(kind, unsafe { std::slice::from_raw_parts(body, len) })
    })
}

fn recorder_active() -> bool {
    recorder().is_some_and(|r| r.is_active())
}

fn recorder_stop(reason: i32) -> i32 {
    entry(6, || {
        let Some(recorder) = recorder() else { return 9 };
        if reason != 2 {
            dump_requests::wait(REQUESTS_LIMIT);
        }
        recorder.stop(match reason {
            1 => StopReason::Asked,
            2 => StopReason::VmError,
            _ => StopReason::Exit,
        });
        0
    })
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_dump(
    path: *const c_char,
    reason: *const c_char,
    written: *mut c_char,
    size: usize,
) -> i32 {
    entry(6, || {
        let Some(recorder) = recorder() else { return note(&Error::Dump("nothing is recorded".into())) };
        // SAFETY: the caller passes NUL-terminated strings.
        let (path, reason) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(reason)) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        match recorder.dump(path, &reason.to_string_lossy()) {
            Ok(path) => {
                // SAFETY: passed on from the caller.
                unsafe { copy_text(path.as_os_str().as_bytes(), written, size) };
                0
            }
            Err(e) => note(&e),
        }
    })
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_dump_slow_call(
    path: *const c_char,
    reason: *const c_char,
    tid: u32,
    method: u64,
    began: u64,
    ended: u64,
) -> i32 {
    let call = SlowCall { tid, method, began, ended };
    // SAFETY: passed on from the caller.
    unsafe { request_dump(path, reason, Some(call)) }
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_request_dump(path: *const c_char, reason: *const c_char) -> i32 {
    // SAFETY: passed on from the caller.
    unsafe { request_dump(path, reason, None) }
}

/// # Safety
/// `path` and `reason` are NUL-terminated strings.
unsafe fn request_dump(path: *const c_char, reason: *const c_char, call: Option<SlowCall>) -> i32 {
    const NOT_TAKEN: i32 = 10;
    entry(6, || {
        let Some(recorder) = recorder().filter(|r| r.is_active()) else { return NOT_TAKEN };
        // SAFETY: the caller passes NUL-terminated strings.
        let (path, reason) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(reason)) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())).to_owned();
        let reason = reason.to_string_lossy().into_owned();
        let taken = dump_requests::add(Request { recorder, path, reason, call });
        if taken { 0 } else { NOT_TAKEN }
    })
}

/// # Safety
/// As declared in the bridge.
unsafe fn recorder_status(buf: *mut c_char, size: usize) -> usize {
    entry(0, || {
        let text = recorder().map_or_else(|| "state: not started\n".into(), |r| r.status());
        // SAFETY: passed on from the caller.
        unsafe { copy_text(text.as_bytes(), buf, size) }
    })
}

fn recorder_bus_error(address: usize) -> bool {
    // As in `emergency_of`. The thread itself does not hold the lock: what happens under it
    // touches no ring.
    for _ in 0..ATTEMPTS {
        match RECORDER.try_read() {
            Ok(recorder) => return recorder.as_ref().is_some_and(|r| r.bus_error(address)),
            Err(TryLockError::Poisoned(e)) => {
                return e.get_ref().as_ref().is_some_and(|r| r.bus_error(address));
            }
            Err(TryLockError::WouldBlock) => sys::sleep_ms(1),
        }
    }
    false
}

fn recorder_crash_begins() {
    // As in `recorder_emergency`, but it does not sleep.
    if let Ok(recorder) = RECORDER.try_read()
        && let Some(recorder) = recorder.as_ref()
    {
        recorder.crash_begins();
    }
}

fn recorder_emergency() {
    // No `entry` guard: nothing here allocates or panics, and it sleeps for a limited time.
    emergency_of(&RECORDER);
}

/// How often the lock is tried. It is held for writing only while one pointer is replaced.
const ATTEMPTS: u32 = 50;
/// How long the end of a dying process waits for it.
const LOCK_PATIENCE: Duration = Duration::from_millis(50);
/// How long the end of a recording waits for requested dumps to begin.
const REQUESTS_LIMIT: Duration = Duration::from_secs(5);

/// The emergency of the current recording. A thread may be replacing it at this moment.
fn emergency_of(recorder: &RwLock<Option<Arc<Recorder>>>) {
    let since = Instant::now();
    let end = |r: &Arc<Recorder>| r.emergency_since(since);
    loop {
        match recorder.try_read() {
            Ok(recorder) => return recorder.iter().for_each(end),
            Err(TryLockError::Poisoned(e)) => return e.get_ref().iter().for_each(end),
            Err(TryLockError::WouldBlock) if since.elapsed() > LOCK_PATIENCE => return,
            Err(TryLockError::WouldBlock) => sys::sleep_ms(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The VM may meet a fatal error while another thread replaces the recording.
    #[test]
    fn an_emergency_waits_for_a_replacement() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jportal");
        let config = RecordingConfig { path, source: Source::None, ..RecordingConfig::default() };
        let current = RwLock::new(Some(Arc::new(Recorder::start(config).unwrap())));
        std::thread::scope(|scope| {
            let replacing = current.write().unwrap();
            let dying = scope.spawn(|| emergency_of(&current));
            std::thread::sleep(Duration::from_millis(5));
            drop(replacing);
            dying.join().unwrap();
        });
        assert!(!current.read().unwrap().as_ref().unwrap().is_active());
    }
}
