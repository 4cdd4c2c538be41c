// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Another process of the same user deletes or truncates the files of a recording. The recording
//! ends with a reason, which is reported once, and no thread waits or faults.

mod common;

use common::KIND;
use jportal_capture::CaptureReader;
use jportal_recorder::{Level, Log, Recorder, RecordingConfig, Source, StopReason};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest time until a recording that writes nothing notices it; more than the scheduler of a
/// busy machine takes.
const NOTICED: Duration = Duration::from_secs(10);

fn start(folder: &Path) -> (Recorder, PathBuf, Log) {
    let path = folder.join("a.jportal");
    let log = Log::to_memory();
    let config = RecordingConfig {
        path: path.clone(),
        source: Source::None,
        log: log.clone(),
        ..RecordingConfig::default()
    };
    let recorder = Recorder::start(config).unwrap();
    assert!(recorder.write(KIND, &1_u64.to_le_bytes()));
    let begin = Instant::now();
    while !recorder.status().contains("metadata bytes: 24") {
        assert!(begin.elapsed() < NOTICED, "{}", recorder.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    (recorder, path, log)
}

fn truncate(path: &Path) {
    OpenOptions::new().write(true).truncate(true).open(path).unwrap();
}

/// Waits until the recording has failed, stops it, and returns the only error in its log.
fn error_of(recorder: &Recorder, log: &Log) -> String {
    let begin = Instant::now();
    let errors =
        || log.lines().into_iter().filter(|(level, _)| matches!(level, Level::Error | Level::Warning));
    while recorder.failure().is_none() || errors().count() == 0 {
        assert!(begin.elapsed() < NOTICED, "{}", recorder.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!recorder.is_active() && !recorder.write(KIND, &2_u64.to_le_bytes()));
    let begin = Instant::now();
    recorder.stop(StopReason::Exit);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    let errors: Vec<_> = errors().collect();
    let [(Level::Error, text)] = &errors[..] else { panic!("{errors:?}") };
    assert!(text.contains(&recorder.failure().unwrap()), "{text}");
    text.clone()
}

#[test]
fn a_capture_that_is_deleted_ends_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (recorder, path, log) = start(dir.path());
    std::fs::remove_file(&path).unwrap();
    let text = error_of(&recorder, &log);
    assert!(text.contains("a.jportal: the file was deleted") && text.contains("JPortal.start"), "{text}");
    assert!(!path.exists());
}

#[test]
fn a_capture_that_is_truncated_ends_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (recorder, path, log) = start(dir.path());
    truncate(&path);
    let text = error_of(&recorder, &log);
    assert!(text.contains("a.jportal: the file was cut to 0 of") && text.contains("JPortal.start"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing is written to it any more");
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// As the VM's signal handler.
extern "C" fn on_bus_error(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the fault's siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    if !RECORDER.get().is_some_and(|recorder| recorder.bus_error(address)) {
        // SAFETY: ends the process.
        unsafe { libc::_exit(99) };
    }
}

#[test]
fn a_ring_that_is_truncated_ends_the_recording() {
    // SAFETY: an all-zero sigaction is valid; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()), 0);
    }
    let dir = tempfile::tempdir().unwrap();
    let (recorder, path, log) = start(dir.path());
    assert!(!recorder.bus_error(path.as_os_str().as_encoded_bytes().as_ptr() as usize), "not in the ring");
    let recorder = RECORDER.get_or_init(|| recorder);
    let ring: PathBuf = CaptureReader::open(&path).unwrap().header().ring.0.text().into_owned().into();
    truncate(&ring);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while recorder.write(KIND, &3_u64.to_le_bytes()) {});
        }
    });
    let text = error_of(recorder, &log);
    assert!(text.contains("has truncated the ring file") && text.contains("JPortal.start"), "{text}");
    assert!(!ring.exists());
    // What was in the capture stays. It has an end with the reason.
    let reader = CaptureReader::open(&path).unwrap();
    assert!(reader.metadata().next().is_some());
    let end = reader.completeness().end.clone().unwrap();
    assert!(end.text.text().contains("truncated the ring file"), "{end:?}");
}
