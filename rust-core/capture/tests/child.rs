// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! In a process of its own, because a child that begins holds the locks of other tests for a
//! moment.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use jportal_capture::ring_file::is_live;
use jportal_capture::{CaptureWriter, Earlier};

#[test]
fn the_lock_on_a_capture_is_not_inherited() {
    let folder = tempfile::tempdir().unwrap();
    let (path, user) = (folder.path().join("a"), std::fs::metadata(folder.path()).unwrap().uid());
    let (writer, _) = CaptureWriter::create_safely(&path, Earlier::Rename, user).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    assert!(is_live(&path).unwrap());
    drop(writer);
    assert!(!is_live(&path).unwrap(), "the child holds it");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
