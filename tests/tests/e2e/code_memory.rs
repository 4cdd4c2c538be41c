// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The code cache in a memfd, which Linux before 5.18 needs for address filters. It is recorded
//! as exactly as an anonymous code cache.

use jportal_capture::CaptureReader;
use jportal_perf_abi::record::{Body, RecordReader};
use jportal_tests::place::{self, Installation};
use jportal_tests::process;
use jportal_tests::programs::{self, Size};
use jportal_tests::recording::{EngineMode, LIMIT, Plan};
use jportal_tests::scratch::Scratch;
use jportal_tests::skip;

use crate::programs::check;

/// The code cache is small, so that new code takes the place of flushed code.
#[test]
#[ignore = "minutes; scripts/verify-all"]
fn code_in_a_memfd_is_followed() {
    let Some(place) = place::installed("code_in_a_memfd_is_followed") else { return };
    let folder = Scratch::new().expect("a folder");
    let log = folder.path().join("log");
    let flags = [
        "-XX:+UnlockDiagnosticVMOptions".to_owned(),
        "-XX:JPortalCodeCache=memfd".to_owned(),
        "-XX:ReservedCodeCacheSize=4m".to_owned(),
        format!("-Xlog:jportal+codecache=info:file={}", log.display()),
    ];
    let plan = Plan { flags: flags.to_vec(), ..Plan::new(EngineMode::Tiered) };
    let program = programs::by_name("javac").expect("a program of that name");
    if let Err(error) = check(&place, &program, &plan, "memfd") {
        panic!("{error}");
    }
    // The VM also continues if it cannot create a memfd, so look for its message.
    let log = std::fs::read_to_string(&log).expect("the VM's log");
    assert!(log.contains("the code cache is a memfd"), "{log}");
}

/// Counts how often the kernel saw a part of the code cache being mapped for execution or made
/// executable after the time at which the filter would have been set. The kernel adapts a filter
/// on a file at these events (`perf_event_mmap`), and records them.
fn mappings(place: &Installation, code_cache: &str) -> Result<usize, String> {
    let folder = Scratch::new().expect("a folder");
    let capture = folder.path().join("capture.jportal");
    let program = programs::by_name("h2").expect("a program of that name");
    let mut java = std::process::Command::new(&place.java);
    java.args(["-XX:+JPortal", "-XX:JPortalSource=sideband", "-XX:InitialCodeCacheSize=512k"]);
    java.arg("-XX:+UnlockDiagnosticVMOptions");
    java.args([
        format!("-XX:JPortalCodeCache={code_cache}"),
        format!("-XX:JPortalFile={}", capture.display()),
    ]);
    java.args(program.command(&place.root, &place.programs, Size::Small));
    let run = process::run(&mut java, LIMIT).expect("java runs");
    if run.text().contains("perf_event_open") || run.stderr.contains("perf_event_open") {
        return Err(format!("the kernel lets nobody record: {:.300}{:.300}", run.text(), run.stderr));
    }
    assert!(run.status.success(), "{}: {}", run.status, run.stderr);
    let reader = CaptureReader::open(&capture).expect("a capture");
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    let (low, high) = (reader.header().code_cache_low, reader.header().code_cache_high);
    let inside = |body: &Body| match body {
        Body::Mmap2(m) => m.address < high && m.address + m.len > low,
        _ => false,
    };
    let count = |piece: Vec<u8>| {
        let records = RecordReader::new(&piece).map(|r| r.expect("a record that can be read"));
        records.filter(|r| inside(&r.body)).count()
    };
    let pieces = reader.cores().into_iter().flat_map(|core| reader.sideband_bytes(core));
    Ok(pieces.map(|piece| count(piece.expect("the sideband is readable"))).sum())
}

#[test]
#[cfg_attr(not(installed), ignore = "cannot run: nothing is built; run scripts/setup")]
fn nothing_maps_a_part_of_the_memfd_again() {
    let test = "nothing_maps_a_part_of_the_memfd_again";
    let Some(place) = place::installed(test) else { return };
    match (mappings(&place, "anonymous"), mappings(&place, "memfd")) {
        (Ok(anonymous), Ok(memfd)) => {
            assert!(anonymous > 3, "anonymous memory is committed in pieces: {anonymous}");
            assert_eq!(memfd, 0);
        }
        (Err(missing), _) | (_, Err(missing)) => skip::skip(test, &missing),
    }
}
