// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::*;
use std::io::Error;

fn machine() -> Machine {
    Machine {
        release: "6.1.0".into(),
        paranoid: Some(2),
        mlock_kb: Some(516),
        possible: vec![0, 1, 2, 3],
        online: vec![0, 1],
        ..Machine::default()
    }
}

fn refuse(request: Request, errno: i32, machine: &Machine) -> (Cause, String) {
    let refusal = Refusal::new(request, &Error::from_raw_os_error(errno), machine, Some(8 << 20));
    assert_eq!(refusal.errno, errno);
    (refusal.cause, refusal.to_string())
}

const PT: Request = Request::OpenPt { core: 1, config: 0x2c01 };
const DATA: Request = Request::MapData { core: 1, all: 16 << 20 };
const AUX: Request = Request::MapAux { core: 1, bytes: 4 << 20, all: 16 << 20 };
fn filter() -> Request {
    Request::SetFilter { text: "filter 0x1000/0x8000".into() }
}

/// Each row: the call, the errno, the cause, and words of the remedy.
#[test]
fn every_errno_says_what_why_and_what_to_do() {
    let rows = [
        (PT, libc::ENOENT, Cause::NoPt, "--emulate"),
        (PT, libc::ENOSYS, Cause::NoPerf, "CONFIG_PERF_EVENTS"),
        (PT, libc::EPERM, Cause::Seccomp, "--cap-add PERFMON"),
        (PT, libc::EACCES, Cause::Rights, "CAP_PERFMON"),
        (PT, libc::EINVAL, Cause::Configuration, "caps"),
        (PT, libc::E2BIG, Cause::Internal, "report"),
        (PT, libc::EBUSY, Cause::Busy, "perf"),
        (PT, libc::ESRCH, Cause::Internal, "report"),
        (PT, libc::ENODEV, Cause::NoCore, "online"),
        (PT, libc::EMFILE, Cause::Files, "ulimit -n"),
        (PT, libc::ENFILE, Cause::Files, "fs.file-max"),
        (PT, libc::EOPNOTSUPP, Cause::Internal, "report"),
        (PT, libc::ENOMEM, Cause::Memory, "memory"),
        (DATA, libc::EPERM, Cause::LockedMemory, "ulimit -l 16384"),
        (DATA, libc::EINVAL, Cause::Internal, "report"),
        (AUX, libc::EPERM, Cause::LockedMemory, "kernel.perf_event_mlock_kb=8192"),
        (AUX, libc::EINVAL, Cause::Internal, "report"),
        (AUX, libc::ENOMEM, Cause::Memory, "JPortalBufferSize"),
        (AUX, libc::EOPNOTSUPP, Cause::Internal, "report"),
        (Request::SetOutput { core: 0 }, libc::EINVAL, Cause::Internal, "report"),
        (filter(), libc::EINVAL, Cause::Filter, "5.18"),
        (filter(), libc::EOPNOTSUPP, Cause::Internal, "report"),
        (filter(), libc::ENOENT, Cause::Path, "mount /proc"),
        (filter(), libc::EACCES, Cause::Path, "mount /proc"),
        (filter(), libc::ELOOP, Cause::Path, "mount /proc"),
        (filter(), libc::EFAULT, Cause::Internal, "report"),
        (filter(), libc::ENOMEM, Cause::Memory, "memory"),
        (Request::Enable { core: 3 }, libc::EINVAL, Cause::Internal, "report"),
    ];
    for (request, errno, cause, remedy) in rows {
        let what = request.to_string();
        let (found, text) = refuse(request, errno, &machine());
        assert_eq!(found, cause, "{text}");
        assert!(text.starts_with(&what) && text.contains(remedy), "{text}");
        assert!(text.contains(&name_of(errno)) && !name_of(errno).starts_with("errno"), "{text}");
    }
}

#[test]
fn rights_name_the_level_that_forbids() {
    let at = |paranoid| refuse(PT, libc::EACCES, &Machine { paranoid, ..machine() }).1;
    assert!(at(Some(3)).contains("perf_event_paranoid is 3") && at(Some(3)).contains("paranoid=2"));
    assert!(
        at(Some(2)).contains("SELinux") && !at(Some(2)).contains("paranoid=2`"),
        "lowering the level would not help"
    );
    assert!(at(None).contains("mount /proc"));
}

#[test]
fn containers_have_their_own_remedies() {
    let inside = |container, seccomp| refuse(PT, libc::EPERM, &Machine { container, seccomp, ..machine() }).1;
    assert!(inside(Some("Docker"), 2).contains("seccomp filter of this Docker container"));
    assert!(inside(Some("Podman"), 2).contains("podman run --cap-add SYS_ADMIN"));
    assert!(inside(Some("Kubernetes"), 2).contains("securityContext"));
    assert!(inside(None, 0).contains("security module"));
}

#[test]
fn the_budget_is_counted_out() {
    let (_, text) = refuse(DATA, libc::EPERM, &machine());
    for words in ["4 cores need 16384 KiB", "1032 KiB for 2 cores", "8192 KiB more"] {
        assert!(text.contains(words), "{text}");
    }
}
