// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A file system that takes nothing for a while, or for ever: a pipe whose reader stops. The
//! threads of the VM run on, and measure with their own clock for how long a record held them.

mod common;

use common::{FakeUnit, KIND, check_metadata, unit_config};
use jportal_capture::{CaptureReader, EndReason};
use jportal_perf_abi::emulated::{EmulatedUnit, Mode};
use jportal_recorder::{
    Error, Level, Log, Recorder, RecordingConfig, Source, StopReason, StorageLimits, device,
};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time for which a record may hold a thread. All but some ten microseconds of it is
/// allowed for the scheduler of a loaded machine.
const LONGEST: Duration = Duration::from_secs(1);

/// A recording into a pipe that nobody reads.
struct Stalled {
    recorder: Recorder,
    pipe: std::io::PipeReader,
    log: Log,
}

fn record_into_a_pipe(config: RecordingConfig) -> Stalled {
    let (pipe, end) = std::io::pipe().unwrap();
    let log = config.log.clone();
    let recorder = start_into(config, end).unwrap();
    Stalled { recorder, pipe, log }
}

fn start_into(config: RecordingConfig, end: std::io::PipeWriter) -> Result<Recorder, Error> {
    let device = device::open_on(
        Arc::new(jportal_perf_abi::kernel::Linux),
        &config,
        config.path.parent().map(|folder| folder.join("unit").into()),
    );
    Recorder::start_into(config, device.unwrap(), File::from(OwnedFd::from(end)))
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn config(folder: &Path, source: Source) -> RecordingConfig {
    let path = folder.join("a.jportal");
    RecordingConfig {
        path,
        source,
        ring_bytes: 64 << 10,
        log: Log::to_memory(),
        ..RecordingConfig::default()
    }
}

/// Commits `each` records of 32 bytes on each of 4 threads. Returns how many were taken, and the
/// longest time that one took.
fn commit(recorder: &Recorder, each: u64) -> (u64, Duration) {
    std::thread::scope(|scope| {
        let threads = (0..4u64).map(|thread| {
            scope.spawn(move || {
                let (mut taken, mut longest) = (0, Duration::ZERO);
                for n in 0..each {
                    let start = Instant::now();
                    taken += u64::from(recorder.write(KIND, &(thread << 32 | n).to_le_bytes()));
                    longest = longest.max(start.elapsed());
                }
                (taken, longest)
            })
        });
        let threads: Vec<_> = threads.collect();
        let each = threads.into_iter().map(|t| t.join().unwrap());
        each.fold((0, Duration::ZERO), |(n, longest), (taken, time)| (n + taken, longest.max(time)))
    })
}

/// What the reader finds in the pipe when it continues.
fn read_to_the_end(mut pipe: std::io::PipeReader, to: &Path) -> CaptureReader {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    std::fs::write(to, bytes).unwrap();
    CaptureReader::open(to).unwrap()
}

#[test]
fn a_reader_that_stops_for_a_while_stops_nobody_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stalled = record_into_a_pipe(config(dir.path(), Source::None));
    let (taken, longest) = commit(&stalled.recorder, 200_000);
    assert_eq!(taken, 800_000);
    assert!(longest < LONGEST, "{longest:?}");
    let file = dir.path().join("copy");
    let reader = std::thread::spawn(move || read_to_the_end(stalled.pipe, &file));
    stalled.recorder.stop(StopReason::Exit);
    drop(stalled.recorder);
    let capture = reader.join().unwrap();
    assert_eq!(check_metadata(&capture), (0..4).map(|t| (t, 200_000)).collect());
    assert_eq!(capture.completeness().end.as_ref().unwrap().reason, EndReason::Exit);
    println!("longest record: {longest:?}");
}

/// Trace waits for the pipe too, on threads of its own.
#[test]
fn trace_that_waits_holds_no_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let unit = FakeUnit::start(&dir.path().join("unit"), unit_config(3, Mode::Drop), 3_000_000);
    let stalled = record_into_a_pipe(config(dir.path(), Source::Emulated));
    stalled.recorder.set_code_cache(0x1000, 0x9000, None).unwrap();
    let (taken, longest) = commit(&stalled.recorder, 100_000);
    assert_eq!(taken, 400_000);
    assert!(longest < LONGEST, "{longest:?}");
    let file = dir.path().join("copy");
    let reader = std::thread::spawn(move || read_to_the_end(stalled.pipe, &file));
    stalled.recorder.stop(StopReason::Exit);
    drop(stalled.recorder);
    unit.join();
    assert_eq!(check_metadata(&reader.join().unwrap()).values().sum::<u64>(), 400_000);
}

/// What the limit of memory does not hold ends the recording, with a reason, at once in the log
/// and later in the capture.
#[test]
fn what_memory_does_not_hold_ends_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let stalled = record_into_a_pipe(config(dir.path(), Source::None));
    let (taken, longest) = commit(&stalled.recorder, 800_000);
    assert!((2_700_000..2_900_000).contains(&taken), "{taken} records of 24 bytes in 64 MiB");
    assert!(longest < LONGEST, "{longest:?}");
    println!("longest record: {longest:?}");
    let failure = stalled.recorder.failure().unwrap();
    assert!(failure.contains("the file system is too slow") && !stalled.recorder.is_active(), "{failure}");
    // Nothing is written yet, and the log says why.
    wait_until(|| stalled.log.lines().iter().any(|(l, t)| *l == Level::Error && t.contains(&failure)));
    let file = dir.path().join("copy");
    let reader = std::thread::spawn(move || read_to_the_end(stalled.pipe, &file));
    stalled.recorder.stop(StopReason::Exit);
    drop(stalled.recorder);
    let capture = reader.join().unwrap();
    assert_eq!(check_metadata(&capture).values().sum::<u64>(), taken);
    let end = capture.completeness().end.clone().unwrap();
    assert_eq!((end.reason, end.text.text()), (EndReason::Failed, failure.into()));
}

/// The start of the VM waits for a limited time, whatever the file system does. When the file
/// system answers later, nothing of the recording is left.
#[test]
fn a_file_system_that_hangs_does_not_hold_up_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let rings = dir.path().join("rings");
    std::fs::create_dir(&rings).unwrap();
    let unit = EmulatedUnit::create(&dir.path().join("unit"), unit_config(1, Mode::Stall)).unwrap();
    let (mut pipe, mut end) = std::io::pipe().unwrap();
    // SAFETY: no memory is involved; the descriptor is open.
    let room = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETPIPE_SZ) };
    end.write_all(&vec![0; usize::try_from(room).unwrap()]).unwrap();
    let config = RecordingConfig {
        ring_folder: Some(rings.clone()),
        limits: StorageLimits { start: Duration::from_secs(1), ..StorageLimits::default() },
        ..config(dir.path(), Source::Emulated)
    };
    let (done, started) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = done.send(start_into(config, end));
    });
    let started = started.recv_timeout(Duration::from_secs(20)).expect("the start waits");
    let refused = started.err().expect("nothing was written");
    assert!(matches!(refused, Error::SlowStart { .. }) && refused.code() == 3, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("a.jportal: ") && text.contains("within 1 s"), "{text}");
    let rings = || std::fs::read_dir(&rings).unwrap().count();
    assert!(unit.is_finished(), "the device is open");
    assert_eq!(rings(), 1, "the start is not under way any more");
    pipe.read_to_end(&mut Vec::new()).unwrap();
    wait_until(|| rings() == 0);
}

/// The end of the VM waits for a limited time, whatever the file system does.
#[test]
fn a_file_system_that_hangs_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let stalled = record_into_a_pipe(config(dir.path(), Source::None));
    assert_eq!(commit(&stalled.recorder, 10_000).0, 40_000);
    let start = Instant::now();
    stalled.recorder.stop(StopReason::Exit);
    let took = start.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(15), "{took:?}");
    let failure = stalled.recorder.failure().unwrap();
    assert!(failure.contains("has taken nothing for 5 s"), "{failure}");
    // A stop by the error handler does not wait for that long.
    let dir = tempfile::tempdir().unwrap();
    let stalled = record_into_a_pipe(config(dir.path(), Source::None));
    commit(&stalled.recorder, 10_000);
    let start = Instant::now();
    stalled.recorder.stop(StopReason::VmError);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
