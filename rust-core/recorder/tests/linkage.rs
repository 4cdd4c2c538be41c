// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The archive as the VM's build uses it: linked by the C++ compiler, called through the
//! generated header from code without exceptions, and adding no exported symbols.

use jportal_capture::{CaptureReader, EndReason, Record};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const FLAGS: [&str; 8] =
    ["-std=c++14", "-O1", "-fno-exceptions", "-fno-rtti", "-fPIC", "-fvisibility=hidden", "-Wall", "-Werror"];
/// The libraries that rustc lists for this archive (`--print native-static-libs`), without the
/// C++ library.
const LIBRARIES: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// The archive that cargo built for this test: the newest of its name beside the test program.
fn archive() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let files = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|e| e.unwrap().path());
    let named = |p: &PathBuf| {
        p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libjportal_recorder-"))
            && p.extension().is_some_and(|e| e == "a")
    };
    files.filter(named).max_by_key(age).expect("cargo builds the archive with the tests")
}

fn include() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("jportal-recorder-include")
}

fn link(out: &Path, extra: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host.cpp");
    let mut compiler = Command::new("c++");
    compiler.args(FLAGS).args(extra).arg("-I").arg(include()).arg("-o").arg(out).arg(source);
    compiler.arg("-Wl,-z,defs").arg(archive()).args(LIBRARIES);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_host_without_exceptions_records_through_the_bridge() {
    let dir = tempfile::tempdir().unwrap();
    let (program, capture) = (dir.path().join("host"), dir.path().join("a.jportal"));
    let second = dir.path().join("b.jportal");
    link(&program, &["-DHOST_PROGRAM"]);
    let output =
        Command::new(&program).args([&capture, &second]).env_remove("JPORTAL_EMULATED_PT").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    let starts = |n: usize, text: &str| assert!(lines[n].starts_with(text), "{told}");
    starts(0, "crooked 7 the code cache cannot be the memory of a file: mmap");
    starts(1, "nameless 1 JPortalFile: ");
    starts(2, "nowhere 3 cannot open /nowhere/a.jportal: ");
    starts(3, "unknown 1 source: 77 is not usable, known are 0 auto");
    starts(4, "log 3 recording to ");
    starts(5, "again 8 recording was already started");
    starts(6, "log 3 ");
    assert!(lines[6].ends_with("0 bytes of trace, 2400016 of metadata, 0 losses"), "{told}");
    starts(7, "log 3 recording to ");
    starts(8, "log 3 ");
    assert_eq!(lines.len(), 9);

    let reader = CaptureReader::open(&capture).unwrap();
    assert!(reader.completeness().is_whole());
    assert_eq!(reader.header().vm_version.text(), "host");
    let records: Vec<Record> = reader.metadata().map(|r| r.unwrap().record).collect();
    assert_eq!(records.len(), 100_001);
    assert_eq!(records[100_000], Record::Unknown { kind: 9999 });
    assert!(
        records[..100_000].iter().zip(0..).all(|(r, n)| matches!(r, Record::MethodFreed(f) if f.method == n))
    );

    let reader = CaptureReader::open(&second).unwrap();
    assert!(reader.completeness().is_whole());
    assert_eq!(reader.header().vm_version.text(), "host again");
    assert_eq!(reader.completeness().end.as_ref().map(|end| end.reason), Some(EndReason::Stopped));
    assert_eq!(reader.metadata().count(), 10);
}

#[test]
fn a_shared_library_exports_nothing_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libhost.so");
    let name = archive();
    let hide = format!("-Wl,--exclude-libs,{}", name.file_name().unwrap().to_string_lossy());
    link(&library, &["-shared", &hide]);
    let output = Command::new("nm").args(["-D", "--defined-only", "-P"]).arg(&library).output().unwrap();
    let exported = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = exported.lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(names, ["host_main"]);
}
