//! The code cache as the memory of a file, which Linux before 5.18 needs to filter: what is recorded of it is as exact.

use jportal_tests::place;
use jportal_tests::programs;
use jportal_tests::recording::{Mode, Plan};

use crate::programs::check;

/// A small one, in which code takes the place of code that was flushed.
#[test]
fn code_in_a_memfd_is_followed() {
    let Some(place) = place::installed("code_in_a_memfd_is_followed") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let flags = [
        "-XX:JPortalCodeCache=memfd".to_owned(),
        "-XX:ReservedCodeCacheSize=4m".to_owned(),
        format!("-Xlog:jportal+codecache=info:file={}", log.display()),
    ];
    let plan = Plan { flags: flags.to_vec(), ..Plan::new(Mode::Tiered) };
    let program = programs::by_name("javac").expect("a program of that name");
    if let Err(error) = check(&place, &program, &plan, "memfd") {
        panic!("{error}");
    }
    // Without one the VM goes on, too.
    let log = std::fs::read_to_string(&log).expect("the VM's log");
    assert!(log.contains("the code cache is a memfd"), "{log}");
}
