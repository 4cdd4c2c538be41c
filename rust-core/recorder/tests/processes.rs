// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The recorder in a process of its own (`examples/fake_vm.rs`): killed, crashed, with a full
//! disk, and under QEMU's user mode, as in an emulated recording.

mod common;

use common::{check_core, check_metadata};
use jportal_capture::ring_file::{self, Recovery};
use jportal_capture::{CaptureReader, EndReason};
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Cargo builds examples beside its tests: `<profile>/deps/<test>` and
/// `<profile>/examples/fake_vm`.
fn fake_vm() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/fake_vm");
    assert!(program.exists(), "{} is missing: cargo test builds it", program.display());
    program
}

fn check_recorded(capture: &Path) {
    let reader = CaptureReader::open(capture).unwrap();
    assert!(reader.completeness().is_whole());
    for core in 0..3 {
        assert!(check_core(&reader, core).0 >= 300_000);
    }
    assert_eq!(check_metadata(&reader), (0..4).map(|t| (t, 3000)).collect());
}

/// The ring file that a capture names.
fn ring_of(capture: &Path) -> PathBuf {
    CaptureReader::open(capture).unwrap().header().ring.0.text().into_owned().into()
}

const RECORD: [&str; 4] = ["3", "300000", "4", "3000"];

#[test]
fn a_process_records() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    assert!(Command::new(fake_vm()).arg("record").arg(&capture).args(RECORD).status().unwrap().success());
    check_recorded(&capture);
}

#[test]
fn a_guest_of_qemu_records() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    let qemu = Command::new("qemu-x86_64").arg(fake_vm()).arg("record").arg(&capture).args(RECORD).output();
    let output = qemu.expect("qemu-x86_64 (Debian package qemu-user) is needed by the emulated recording");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_recorded(&capture);
}

/// Kills the process at a random moment; everything that it had reported as committed must be
/// in the capture.
fn kill_and_recover(after: Duration) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    let mut vm = Command::new(fake_vm()).arg("endless").arg(&capture).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(vm.stdout.take().unwrap()).lines();
    lines.next().expect("it has begun").unwrap();
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).last());
    std::thread::sleep(after);
    assert_eq!(ring_file::recover(&capture).unwrap(), Recovery::Live, "hands off while it lives");
    vm.kill().unwrap();
    assert_eq!(vm.wait().unwrap().signal(), Some(libc::SIGKILL));
    // The last line may be cut off: its digits are then a prefix, hence a smaller number.
    let last: u64 = reader.join().unwrap().expect("more than one line").parse().unwrap();

    let Recovery::Done { bytes, crashed: false } = ring_file::recover(&capture).unwrap() else {
        panic!("it was killed")
    };
    let reader = CaptureReader::open(&capture).unwrap();
    assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Recovered);
    let records = check_metadata(&reader)[&0];
    assert!(records > last, "{last} was committed, {records} records are there");
    assert!(!ring_of(&capture).exists());
    bytes
}

#[test]
fn what_was_committed_before_a_kill_is_found_again() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut kill = || kill_and_recover(Duration::from_millis(random.u64(30..110)));
    let recovered: u64 = (0..100).map(|_| kill()).sum();
    assert!(recovered > 0, "in a hundred kills the ring was never found with something in it");
}

/// Ends of a process that no code of the recorder notices, a hundred of each kind, at whatever
/// point the consumer then is: every record is in the capture.
#[test]
fn what_was_committed_before_any_end_is_found_again() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut recovered = 0;
    for (way, code, signal) in
        [("exit", Some(3), None), ("abort", None, Some(libc::SIGABRT)), ("segv", None, Some(libc::SIGSEGV))]
    {
        for _ in 0..100 {
            let dir = tempfile::tempdir().unwrap();
            let (capture, records) = (dir.path().join("a.jportal"), random.u64(1..=20_000));
            let mut vm = Command::new(fake_vm());
            let status = vm.arg("die").arg(&capture).arg(records.to_string()).arg(way).status().unwrap();
            assert_eq!((status.code(), status.signal()), (code, signal), "{way}");
            let Recovery::Done { bytes, crashed: false } = ring_file::recover(&capture).unwrap() else {
                panic!("{way} after {records} records: not recovered")
            };
            let reader = CaptureReader::open(&capture).unwrap();
            assert_eq!(check_metadata(&reader)[&0], records, "{way}");
            recovered += bytes;
        }
    }
    assert!(recovered > 0, "the ring was never found with something in it");
}

#[test]
fn a_crash_leaves_a_ring_that_completes_the_capture() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    let status = Command::new(fake_vm()).arg("crash").arg(&capture).arg("700").status().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    assert!(matches!(ring_file::recover(&capture).unwrap(), Recovery::Done { crashed: true, .. }));
    let reader = CaptureReader::open(&capture).unwrap();
    assert_eq!(check_metadata(&reader)[&0], 700);
    assert!(reader.completeness().end.as_ref().unwrap().text.text().contains("crashed"));
}

/// Runs a VM that continues when the recording ends, with its files limited to `limit` bytes.
fn survive(capture: &Path, limit: Option<u64>) -> Output {
    let mut command = Command::new(fake_vm());
    command.arg("survive").arg(capture).arg("200000");
    if let Some(limit) = limit {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: setrlimit is async-signal-safe and `limit` is a valid value owned by the closure.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    }
    command.output().unwrap()
}

/// Checks that the VM did not start: it exited by itself with `message`.
fn refused(output: &Output, message: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(101) && told.contains(message), "{:?} {told}", output.status);
}

/// The ring needs no file.
#[test]
fn a_limit_too_small_for_the_ring_does_not_hurt_the_vm() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    let output = survive(&capture, Some(32 << 10));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("disk full after"), "{output:?}");
    assert!(check_metadata(&CaptureReader::open(&capture).unwrap())[&0] > 500);
}

#[test]
fn a_capture_that_cannot_be_written_is_reported_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    refused(&survive(&capture, Some(10)), "a.jportal: disk full after 0 bytes");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    refused(&survive(Path::new("/dev/full"), None), "it is a device");
    refused(&survive(&dir.path().join("missing/a.jportal"), None), "missing/a.jportal: No such file");
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    refused(&survive(&dir.path().join("folder"), None), "is a directory");
}

/// A file-size limit simulates a full disk: `write(2)` fails in the middle of a recording. The
/// process must run to its own end and report why the recording ended.
#[test]
fn a_full_disk_ends_the_recording_not_the_vm() {
    let dir = tempfile::tempdir().unwrap();
    // However much fits, no record is cut.
    for more in (0..24 * 8).step_by(8) {
        let capture = dir.path().join(format!("{more}.jportal"));
        let output = survive(&capture, Some((1 << 20) + more));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
        assert!(stdout.contains("disk full after"), "{stdout}");
        let reader = CaptureReader::open(&capture).unwrap();
        let records = check_metadata(&reader)[&0];
        assert!(records > 30_000 && records < 200_000, "{records} records of 24 bytes in 1 MiB");
        let end = reader.completeness().end.as_ref().expect("it has an end");
        assert!(end.reason == EndReason::Failed && end.text.text().contains("disk full after"), "{end:?}");
        let ring = ring_of(&capture);
        assert!(ring.as_os_str().is_empty() || !ring.exists());
    }
}

/// All memory is gone: the recording ends, the VM does not.
#[test]
fn a_vm_without_memory_is_not_aborted() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("a.jportal");
    let output = Command::new(fake_vm()).arg("starve").arg(&capture).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?} {stdout} {stderr}", output.status);
    assert!(stdout.contains("memory"), "{stdout}");
    let reader = CaptureReader::open(&capture).unwrap();
    check_metadata(&reader);
    assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Failed);
}
