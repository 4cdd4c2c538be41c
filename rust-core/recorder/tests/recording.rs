// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The recorder with a device whose output is known: the capture contains exactly that output.

mod common;

use common::{COMPLETE, FakeUnit, KIND, check_core, check_metadata, commit_from_threads, fresh, unit_config};
use jportal_capture::{CaptureReader, EndReason, LossReason};
use jportal_perf_abi::emulated::{ENVIRONMENT, EmulatedUnit, Mode};
use jportal_recorder::{Error, Level, Log, Recorder, RecordingConfig, Source, StopReason};
use jportal_units::Tsc;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The environment belongs to the whole process: only one test at a time names a unit in it.
static ENVIRONMENT_LOCK: Mutex<()> = Mutex::new(());

fn start_with_unit(config: RecordingConfig, unit: &Path) -> Result<Recorder, Error> {
    let _one = ENVIRONMENT_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: tests of this program read and write the environment only under the lock.
    unsafe { std::env::set_var(ENVIRONMENT, unit) };
    let started = Recorder::start(config);
    // SAFETY: as above.
    unsafe { std::env::remove_var(ENVIRONMENT) };
    started
}

/// Shorter than the time for which the drain waits for a silent unit.
const PATIENCE: Duration = Duration::from_secs(9);

struct RecordingFolder(tempfile::TempDir);
impl RecordingFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn capture(&self) -> PathBuf {
        self.0.path().join("a.jportal")
    }
    fn unit(&self) -> PathBuf {
        self.0.path().join(format!("unit{}", fresh()))
    }
    /// A recording with a unit of one core, which does what the test does with it.
    fn record_with_unit(&self) -> (EmulatedUnit, Recorder) {
        let path = self.unit();
        let unit = EmulatedUnit::create(&path, unit_config(1, Mode::Stall)).unwrap();
        (unit, start_with_unit(self.config(Source::Emulated), &path).unwrap())
    }
    fn config(&self, source: Source) -> RecordingConfig {
        RecordingConfig {
            path: self.capture(),
            source,
            ring_bytes: 64 << 10,
            vm_version: "fake VM".into(),
            vm_flags: "-XX:+JPortal".into(),
            java_command: "Main".into(),
            log: Log::to_memory(),
            ..RecordingConfig::default()
        }
    }
}

/// The ring file that a capture names.
fn ring_of(capture: &Path) -> PathBuf {
    CaptureReader::open(capture).unwrap().header().ring.0.text().into_owned().into()
}

fn record(mode: Mode, cores: u32, bytes: u64) -> (RecordingFolder, Vec<u64>, String) {
    let place = RecordingFolder::new();
    let path = place.unit();
    let unit = FakeUnit::start(&path, unit_config(cores, mode), bytes);
    let recorder = start_with_unit(place.config(Source::Emulated), &path).unwrap();
    assert!(recorder.is_active());
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    commit_from_threads(&recorder, 4, 5_000);
    recorder.stop(StopReason::Exit);
    assert!(!recorder.is_active() && !recorder.write(1, b"late"));
    recorder.stop(StopReason::Asked);
    assert_eq!(recorder.failure(), None);
    let losses = unit.join();
    assert!(EmulatedUnit::open(&path).unwrap().is_finished());
    assert!(!ring_of(&place.capture()).exists(), "a clean end removes the ring file");
    (place, losses, recorder.status())
}

#[test]
fn everything_recorded_is_read_back() {
    let (place, _, status) = record(Mode::Stall, 3, 2_000_000);
    let reader = CaptureReader::open(&place.capture()).unwrap();
    let mut total = 0;
    for core in 0..3 {
        let (bytes, truncated) = check_core(&reader, core);
        assert!(bytes >= 2_000_000);
        assert_eq!(truncated, 0);
        total += bytes;
    }
    assert!(
        status.contains("state: stopped\n") && status.contains(&format!("trace bytes: {total}\n")),
        "{status}"
    );
    let records = check_metadata(&reader);
    assert_eq!((records.len(), records.values().sum::<u64>()), (4, 20_000));
    assert!(reader.losses().is_empty());
    assert_eq!(reader.drained().collect::<Vec<_>>(), [(0..=2, Tsc(COMPLETE))]);

    let header = reader.header();
    assert_eq!(header.pid, std::process::id());
    assert_eq!((header.code_cache_low, header.code_cache_high), (0x1000, 0x9000));
    assert_eq!((header.pt.source_name(), header.pt.cores, header.tsc_khz), ("emulated", 3, 2_400_000));
    assert_eq!((header.pt.filter[0].low, header.pt.filter[0].high), (0x1000, 0x9000));
    assert_eq!((header.vm_version.text(), header.pt.detail.text()), ("fake VM".into(), "fake unit".into()));
    assert_eq!((header.vm_flags.text(), header.java_command.text()), ("-XX:+JPortal".into(), "Main".into()));
    let end = reader.completeness().end.clone().unwrap();
    assert_eq!((end.reason, end.pt_bytes), (EndReason::Exit, total));
    let counter = |name: &str| end.counters.iter().find(|c| c.name.text() == name).unwrap().value;
    assert_eq!((counter("records"), counter("unit.blocks")), (20_000, 42));
}

#[test]
fn losses_are_noted_where_they_are() {
    let (place, losses, _) = record(Mode::Drop, 2, 6_000_000);
    let reader = CaptureReader::open(&place.capture()).unwrap();
    let mut truncated = 0;
    for core in 0..2 {
        let (bytes, found) = check_core(&reader, core);
        assert_eq!(found, losses[core as usize]);
        let notes = reader.losses().iter().filter(|n| n.core == core);
        for note in notes.clone() {
            assert_eq!(note.reason, LossReason::AuxFull);
            assert!(note.offset <= bytes);
        }
        assert_eq!(notes.count() as u64, found);
        truncated += found;
    }
    assert!(truncated > 0, "a unit that writes 12 MB at once into rings of 32 KiB must lose some");
}

#[test]
fn without_pt_metadata_is_recorded() {
    let place = RecordingFolder::new();
    let recorder = Recorder::start(place.config(Source::None)).unwrap();
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    commit_from_threads(&recorder, 2, 100);
    std::thread::sleep(Duration::from_millis(120));
    recorder.stop(StopReason::Asked);
    let reader = CaptureReader::open(&place.capture()).unwrap();
    assert_eq!(check_metadata(&reader).values().sum::<u64>(), 200);
    let header = reader.header();
    assert_eq!((header.pt.source_name(), header.code_cache_low, header.pt.filter.len()), ("none", 0x1000, 0));
    assert!(header.tsc_khz > 100_000, "measured over the recording: {} kHz", header.tsc_khz);
    assert!(!header.cpu_vendor.text().is_empty());
    assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Stopped);
}

#[test]
fn sources_that_cannot_be_used_are_reported() {
    let place = RecordingFolder::new();
    let message = |r: Result<Recorder, Error>| r.err().map(|e| (e.code(), e.to_string())).unwrap();
    let _one = ENVIRONMENT_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, text) = message(Recorder::start(place.config(Source::Emulated)));
    assert!(code == 2 && text.contains("jportal run --emulate"), "{text}");
    drop(_one);
    let (code, text) = message(start_with_unit(place.config(Source::Emulated), Path::new("/nowhere/unit")));
    assert!(code == 2 && text.contains("/nowhere/unit"), "{text}");
    assert!(!place.capture().exists(), "a recording that does not start leaves nothing behind");
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[test]
fn a_unit_that_fails_ends_the_recording() {
    let place = RecordingFolder::new();
    let path = place.unit();
    let unit = EmulatedUnit::create(&path, unit_config(1, Mode::Stall)).unwrap();
    let config = place.config(Source::Emulated);
    let log = config.log.clone();
    let recorder = start_with_unit(config, &path).unwrap();
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    unit.fail("queue limit of 1 GiB reached");
    wait_until(|| !recorder.is_active());
    assert!(!recorder.write(1, b""));
    recorder.stop(StopReason::Exit);
    let reason = "the emulated PT unit failed: queue limit of 1 GiB reached";
    assert_eq!(recorder.failure().as_deref(), Some(reason));
    let end = CaptureReader::open(&place.capture()).unwrap().completeness().end.clone().unwrap();
    assert_eq!((end.reason, end.text.text()), (EndReason::Failed, reason.into()));
    assert!(log.lines().iter().any(|(level, text)| *level == Level::Error && text.contains(reason)));
    assert!(recorder.status().starts_with(&format!("state: failed: {reason}\n")));
}

#[test]
fn a_unit_that_never_answers_does_not_hold_up_a_dying_vm() {
    let place = RecordingFolder::new();
    let (_unit, recorder) = place.record_with_unit();
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    let start = Instant::now();
    recorder.stop(StopReason::VmError);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn records_are_taken_while_a_dying_vm_is_traced() {
    let place = RecordingFolder::new();
    let (unit, recorder) = place.record_with_unit();
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    assert!(unit.command().enabled);
    recorder.crash_begins();
    assert!(!unit.command().enabled);
    assert!(recorder.write(KIND, &[1; 8]), "the unit may still trace");
    unit.acknowledge(unit.generation());
    recorder.emergency();
    assert!(!recorder.write(KIND, &[2; 8]));
}

#[test]
fn a_dying_vm_waits_100_ms_for_a_unit_that_never_answers() {
    let place = RecordingFolder::new();
    let (_unit, recorder) = place.record_with_unit();
    recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    let start = Instant::now();
    recorder.crash_begins();
    assert!(start.elapsed() < Duration::from_millis(20), "{:?}", start.elapsed());
    let start = Instant::now();
    recorder.emergency();
    // The bound is 100 ms of waiting; the rest is for a machine that is busy.
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
    assert!(!recorder.write(KIND, &[2; 8]), "the ring is closed though the unit did not stop");
}

#[test]
fn a_unit_that_was_never_enabled_is_not_waited_for() {
    let place = RecordingFolder::new();
    let (_unit, recorder) = place.record_with_unit();
    let start = Instant::now();
    recorder.stop(StopReason::Exit);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert!(CaptureReader::open(&place.capture()).unwrap().completeness().is_whole());
}

#[test]
fn threads_take_no_signals_but_of_their_own_faults() {
    let place = RecordingFolder::new();
    let (_unit, recorder) = place.record_with_unit();
    let mut seen = [false; 2];
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // Threads of other tests may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        let value = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim();
        let Some(which) = ["jportal-drain", "jportal-export"].iter().position(|n| *n == value("Name:"))
        else {
            continue;
        };
        seen[which] = true;
        let blocked = u64::from_str_radix(value("SigBlk:"), 16).unwrap();
        let is_blocked = |signal: i32| blocked & 1 << (signal - 1) != 0;
        let faults = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];
        let others = [libc::SIGQUIT, libc::SIGTERM, libc::SIGXFSZ, libc::SIGPIPE, libc::SIGUSR2];
        assert!(!faults.into_iter().any(is_blocked) && others.into_iter().all(is_blocked), "{blocked:x}");
    }
    assert_eq!(seen, [true; 2]);
    recorder.stop(StopReason::Exit);
}

#[test]
fn an_inverted_code_cache_is_refused() {
    let place = RecordingFolder::new();
    let recorder = Recorder::start(place.config(Source::None)).unwrap();
    assert!(matches!(
        recorder.set_code_cache(2, 2, None),
        Err(Error::Configuration { field: "code cache", .. })
    ));
    recorder.stop(StopReason::Exit);
}

#[test]
fn two_vms_cannot_share_a_capture() {
    let place = RecordingFolder::new();
    let first = Recorder::start(place.config(Source::None)).unwrap();
    let ring = ring_of(&place.capture());
    assert!(ring.starts_with("/dev/shm") && ring.exists(), "{}", ring.display());
    let refused = |path: PathBuf| {
        let config = RecordingConfig { path, ..place.config(Source::None) };
        let error = Recorder::start(config).err().unwrap();
        assert_eq!(error.code(), 3);
        error.to_string()
    };
    let same = refused(place.capture());
    assert!(same.contains("in use by a running VM"), "{same}");
    // By a link to its folder it is the same file, and a link to itself is not followed.
    let (folder, file) = (place.0.path().join("folder"), place.0.path().join("file"));
    std::os::unix::fs::symlink(place.0.path(), &folder).unwrap();
    std::os::unix::fs::symlink(place.capture(), &file).unwrap();
    let same = refused(folder.join("a.jportal"));
    assert!(same.contains("in use by a running VM"), "{same}");
    let link = refused(file);
    assert!(link.contains("symbolic link"), "{link}");
    assert!(first.write(KIND, &[0; 8]));
    first.stop(StopReason::Exit);
    assert_eq!(CaptureReader::open(&place.capture()).unwrap().metadata().count(), 1);
    // Afterwards it is an earlier capture, which makes way.
    Recorder::start(place.config(Source::None)).unwrap().stop(StopReason::Exit);
    assert_eq!(CaptureReader::open(&place.capture()).unwrap().metadata().count(), 0);
    let old = place.0.path().join("a.jportal.old");
    assert_eq!(CaptureReader::open(&old).unwrap().metadata().count(), 1);
}

/// A ring in memory does not show that its VM lives. The capture itself does.
#[test]
fn a_capture_of_a_ring_in_memory_is_not_shared_either() {
    let place = RecordingFolder::new();
    let config = || RecordingConfig {
        ring_folder: Some(place.0.path().join("missing")),
        ..place.config(Source::None)
    };
    let first = Recorder::start(config()).unwrap();
    let same = Recorder::start(config()).err().unwrap().to_string();
    assert!(same.contains("a.jportal is in use by a running VM"), "{same}");
    let (old, moved) = (place.0.path().join("a.jportal.old"), place.0.path().join("moved"));
    assert!(!old.exists());
    assert!(first.write(KIND, &[0; 8]));
    // It is still the first one's, wherever it is.
    std::fs::rename(place.capture(), &old).unwrap();
    Recorder::start(config()).unwrap().stop(StopReason::Exit);
    let same = Recorder::start(config()).err().unwrap().to_string();
    assert!(same.contains("a.jportal.old is in use by a running VM"), "{same}");
    std::fs::rename(&old, &moved).unwrap();
    first.stop(StopReason::Exit);
    assert_eq!(CaptureReader::open(&moved).unwrap().metadata().count(), 1);
    Recorder::start(config()).unwrap().stop(StopReason::Exit);
    assert!(old.exists());
}

/// Without a place for its file, the ring is in memory, and the user learns what that means.
#[test]
fn a_ring_without_a_file_works_too() {
    let place = RecordingFolder::new();
    let config =
        RecordingConfig { ring_folder: Some(place.0.path().join("missing")), ..place.config(Source::None) };
    let log = config.log.clone();
    let recorder = Recorder::start(config).unwrap();
    let says = |(level, text): &(Level, String)| *level == Level::Warning && text.contains("/missing/ring-");
    assert!(log.lines().iter().any(says), "{:?}", log.lines());
    commit_from_threads(&recorder, 2, 10_000);
    recorder.stop(StopReason::Exit);
    let reader = CaptureReader::open(&place.capture()).unwrap();
    assert_eq!(check_metadata(&reader).values().sum::<u64>(), 20_000);
    assert!(reader.header().ring.0.0.is_empty());
}

/// A pipe would hold the VM up before `main`, because nobody reads it.
#[test]
fn a_recording_into_a_pipe_is_refused_at_once() {
    let place = RecordingFolder::new();
    let made = std::process::Command::new("mkfifo").arg(place.capture()).status().unwrap();
    assert!(made.success());
    let error = Recorder::start(place.config(Source::None)).err().unwrap().to_string();
    assert!(error.contains("it is a pipe"), "{error}");
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}
