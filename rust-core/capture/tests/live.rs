// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A capture to which somebody writes stays where it is, even if its ring cannot be seen: the ring
//! may be in memory, or in another container.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::sync::Barrier;

use allocator_api2::alloc::Global;
use jportal_capture::ring_file::{Recovery, is_live, recover};
use jportal_capture::{CaptureReader, CaptureWriter, Earlier, EndReason, Error};
use jportal_units::Tsc;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// As a VM begins a recording.
    fn begin(&self, name: &str) -> Result<CaptureWriter, Error> {
        let user = fs::metadata(self.0.path()).unwrap().uid();
        CaptureWriter::create_safely(&self.file(name), Earlier::Rename, user).map(|(writer, _)| writer)
    }
    /// Checks that a VM does not begin a recording, because somebody writes to `live`.
    fn refuses(&self, name: &str, live: &str) {
        match self.begin(name) {
            Err(Error::Live { path }) => assert_eq!(path, self.file(live)),
            other => panic!("{other:?}"),
        }
    }
    fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.file(name)).unwrap().ino()
    }
}

#[test]
fn a_capture_is_live_from_its_creation_to_its_end() {
    let home = Home::new();
    let mut writer = home.begin("a").unwrap();
    // It has no header yet.
    home.refuses("a", "a");
    writer.header(&common::header()).unwrap();
    writer.metadata(&common::stream()).unwrap();
    home.refuses("a", "a");
    // By whatever name.
    symlink(home.file("a"), home.file("link")).unwrap();
    for name in ["a", "link"] {
        assert!(is_live(&home.file(name)).unwrap());
        assert_eq!(recover(&home.file(name)).unwrap(), Recovery::Live);
    }
    // Others read it meanwhile.
    assert_eq!(common::read_all(&CaptureReader::open(&home.file("a")).unwrap()), (common::records(), 0));
    assert!(!home.file("a.old").exists());
    writer.finish(EndReason::Exit, "", vec![]).unwrap();
    assert!(!is_live(&home.file("a")).unwrap());
    assert_eq!(recover(&home.file("a")).unwrap(), Recovery::NotNeeded);
    home.begin("a").unwrap();
    assert!(home.file("a.old").exists());
}

/// Between the creation of the file and its first byte.
#[test]
fn a_file_that_will_be_a_capture_is_live() {
    let home = Home::new();
    let new = File::create(home.file("a")).unwrap();
    new.try_lock().unwrap();
    home.refuses("a", "a");
    drop(new);
    assert!(matches!(home.begin("a"), Err(Error::Foreign { .. })), "an empty file of somebody else");
}

#[test]
fn a_live_capture_is_not_replaced_under_its_old_name_either() {
    let home = Home::new();
    let writer = home.begin("a").unwrap();
    fs::rename(home.file("a"), home.file("a.old")).unwrap();
    common::write(&home.file("a"));
    let before = [home.inode("a"), home.inode("a.old")];
    home.refuses("a", "a.old");
    assert_eq!([home.inode("a"), home.inode("a.old")], before);
    drop(writer);
    home.begin("a").unwrap();
    assert_eq!(home.inode("a.old"), before[0]);
}

#[test]
fn a_trimmed_capture_is_live() {
    let home = Home::new();
    let mut writer = home.begin("a").unwrap();
    writer.header(&common::header()).unwrap();
    let user = fs::metadata(home.0.path()).unwrap().uid();
    let copy = writer.copy().unwrap().trimmed_to(&home.file("a.trim"), user, Tsc(1), &|| true, Global);
    let copy = copy.unwrap();
    assert!(is_live(&home.file("a.trim")).unwrap());
    let trimmed = copy.take_place(&home.file("a")).unwrap();
    drop(writer);
    home.refuses("a", "a");
    drop(trimmed);
    home.begin("a").unwrap();
}

/// One of them gets the name, and the earlier capture is kept.
#[test]
fn several_vms_begin_at_once() {
    for with_old in [false, true].repeat(15) {
        let home = Home::new();
        common::write(&home.file("a"));
        let earlier = home.inode("a");
        if with_old {
            common::write(&home.file("a.old"));
        }
        let begin = Barrier::new(4);
        let begun: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        begin.wait();
                        home.begin("a")
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(home.inode("a.old"), earlier, "{begun:?}");
        let won: Vec<_> = begun.iter().flatten().collect();
        assert!(won.len() == 1 && won[0].identity().unwrap().1 == home.inode("a"), "{begun:?}");
        // Who sees the file of the first one before its lock takes it for something else.
        let refused = |one: &_| match one {
            Err(Error::Live { path } | Error::Foreign { path, .. }) => *path == home.file("a"),
            _ => false,
        };
        assert_eq!(begun.iter().filter(|one| refused(one)).count(), 3, "{begun:?}");
    }
}
