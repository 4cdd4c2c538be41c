// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What others can prepare in a folder in which a capture is created, or in a capture that is
//! opened. Each of these once overwrote a file, or waited for ever.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use jportal_capture::codec::Appended;
use jportal_capture::ring_file::{self, Recovery, is_live, path_of, recover};
use jportal_capture::{CaptureReader, CaptureWriter, Earlier, EndReason, Error, Header};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// The user who runs the test.
    fn user(&self) -> u32 {
        fs::metadata(self.0.path()).unwrap().uid()
    }
    fn create(&self, name: &str) -> Result<PathBuf, Error> {
        CaptureWriter::create_safely(&self.file(name), Earlier::Rename, self.user()).map(|(_, path)| path)
    }
    fn refusal(&self, name: &str) -> String {
        let start = Instant::now();
        let error = self.create(name).expect_err("it was created").to_string();
        assert!(start.elapsed() < Duration::from_secs(5), "it waited");
        error
    }
}

fn pipe(path: &Path) {
    // Not the command: until a new process runs its program, it holds the locks of other tests.
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name is a string that lives during the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[test]
fn a_new_capture_is_private() {
    let folder = Folder::new();
    let path = folder.create("a").unwrap();
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_link_is_not_followed() {
    let folder = Folder::new();
    fs::write(folder.file("victim"), "precious").unwrap();
    symlink(folder.file("victim"), folder.file("a")).unwrap();
    symlink(folder.file("nothing"), folder.file("b")).unwrap();
    for name in ["a", "b"] {
        let error = folder.refusal(name);
        assert!(error.contains("symbolic link") && error.contains("choose another name"), "{error}");
    }
    assert_eq!(fs::read_to_string(folder.file("victim")).unwrap(), "precious");
    assert!(!folder.file("nothing").exists());
}

#[test]
fn what_is_no_capture_of_the_user_stays_as_it_is() {
    let folder = Folder::new();
    for (name, text) in [("a", "some text"), ("b", ""), ("c", "JPORTA")] {
        fs::write(folder.file(name), text).unwrap();
        let error = folder.refusal(name);
        assert!(error.contains("it is no capture"), "{error}");
        assert_eq!(fs::read_to_string(folder.file(name)).unwrap(), text);
    }
    // A capture that another user made, and may hold open.
    common::write(&folder.file("d"));
    let before = fs::read(folder.file("d")).unwrap();
    let other = CaptureWriter::create_safely(&folder.file("d"), Earlier::Rename, folder.user() + 1);
    assert!(other.unwrap_err().to_string().contains("another user"));
    assert_eq!(fs::read(folder.file("d")).unwrap(), before);
    let error = CaptureWriter::create_safely(Path::new("/dev/null"), Earlier::Rename, 0).unwrap_err();
    assert!(error.to_string().contains("it is a device"), "{error}");
}

#[test]
fn a_pipe_holds_nobody_up() {
    let folder = Folder::new();
    pipe(&folder.file("a"));
    let error = folder.refusal("a");
    assert!(error.contains("it is a pipe"), "{error}");
}

#[test]
fn an_earlier_capture_makes_way_for_a_recording() {
    let folder = Folder::new();
    common::write(&folder.file("a"));
    let first = fs::read(folder.file("a")).unwrap();
    folder.create("a").unwrap();
    assert_eq!(fs::read(folder.file("a.old")).unwrap(), first);
    folder.create("a").unwrap();
    assert_eq!(fs::read(folder.file("a.old")).unwrap().len(), 16, "the second one is a preamble only");
    // The older one has a name that something else has.
    fs::write(folder.file("a.old"), "precious").unwrap();
    let error = folder.refusal("a");
    assert!(error.contains("a.old is there already"), "{error}");
    assert_eq!(fs::read_to_string(folder.file("a.old")).unwrap(), "precious");
    assert!(folder.file("a").exists());
}

#[test]
fn a_dump_replaces_nothing() {
    let folder = Folder::new();
    let dump = |name: &str| CaptureWriter::create_safely(&folder.file(name), Earlier::Number, folder.user());
    assert_eq!(dump("a.dump1").unwrap().1, folder.file("a.dump1"));
    // Nobody can keep the VM from dumping by what stands under the next names.
    pipe(&folder.file("a.dump2"));
    symlink(folder.file("victim"), folder.file("a.dump3")).unwrap();
    fs::write(folder.file("a.dump4"), "precious").unwrap();
    fs::create_dir(folder.file("a.dump5")).unwrap();
    for name in ["a.dump1", "a.dump2", "a.dump3", "a.dump4", "a.dump5"] {
        let (writer, path) = dump(name).unwrap();
        assert_eq!(path, folder.file("a.dump6"), "{name}");
        drop(writer);
        fs::remove_file(path).unwrap();
    }
    assert!(!folder.file("victim").exists());
    assert_eq!(fs::read_to_string(folder.file("a.dump4")).unwrap(), "precious");
    // A name without a number.
    common::write(&folder.file("a"));
    assert!(dump("a").unwrap_err().to_string().contains("it is an earlier capture"));
    symlink(folder.file("victim"), folder.file("b")).unwrap();
    assert!(dump("b").unwrap_err().to_string().contains("symbolic link"));
    assert!(!folder.file("victim").exists());
}

/// A capture without an end that names `ring`, with one record in a ring there.
fn killed(folder: &Folder, name: &str, ring: &Path) -> PathBuf {
    let path = folder.file(name);
    let header = Header { ring: Appended(ring.to_str().unwrap().into()), ..common::header() };
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.header(&header).unwrap();
    let stream = common::stream();
    writer.metadata(&stream[..stream.len() / 2]).unwrap();
    let size = stream.len().next_power_of_two();
    let mut image = vec![0; ring_file::BYTES + size];
    image[..8].copy_from_slice(&ring_file::MAGIC);
    image[8..12].copy_from_slice(&ring_file::VERSION.to_le_bytes());
    let (device, inode) = writer.identity().unwrap();
    for (at, value) in [
        (ring_file::SIZE, size as u64),
        (ring_file::HEAD, stream.len() as u64),
        (ring_file::BOUNDARY, stream.len() as u64),
        (ring_file::DEVICE, device),
        (ring_file::INODE, inode),
        (ring_file::OVERFLOW_FROM, ring_file::NOWHERE),
    ] {
        image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    image[ring_file::BYTES..ring_file::BYTES + stream.len()].copy_from_slice(&stream);
    fs::write(ring, image).unwrap();
    path
}

/// A ring file's name in the user's folder that no other test has.
fn ring_name(folder: &Folder) -> PathBuf {
    let private = ring_file::make_folder(folder.user()).unwrap();
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700);
    let unique = folder.0.path().file_name().unwrap().to_str().unwrap().to_owned();
    private.join(format!("{}{unique}", ring_file::PREFIX))
}

#[test]
fn a_capture_names_its_ring() {
    let folder = Folder::new();
    let ring = ring_name(&folder);
    let capture = killed(&folder, "a", &ring);
    // By whatever name it is found.
    fs::rename(&capture, folder.file("b")).unwrap();
    symlink(folder.file("b"), folder.file("c")).unwrap();
    let vm = fs::File::open(&ring).unwrap();
    vm.try_lock().unwrap();
    assert!(is_live(&folder.file("c")).unwrap());
    assert_eq!(recover(&folder.file("c")).unwrap(), Recovery::Live);
    assert!(matches!(folder.create("b"), Err(Error::Live { .. })));
    drop(vm);
    assert!(!is_live(&folder.file("b")).unwrap());
    let whole = common::stream().len() as u64;
    assert!(
        matches!(recover(&folder.file("c")).unwrap(), Recovery::Done { bytes, .. } if bytes >= whole / 2)
    );
    assert!(!ring.exists());
    let reader = CaptureReader::open(&folder.file("b")).unwrap();
    assert_eq!(reader.completeness().end.as_ref().unwrap().reason, EndReason::Recovered);
    assert_eq!(common::read_all(&reader), (common::records(), 0));
}

/// Two processes that ask at the same time whether a VM lives do not take each other for it.
#[test]
fn who_asks_for_a_vm_is_none() {
    let folder = Folder::new();
    // A capture that names no ring has one beside it.
    common::write(&folder.file("a"));
    let beside = path_of(&folder.file("a"));
    killed(&folder, "b", &beside);
    let private = folder.file("private");
    fs::create_dir(&private).unwrap();
    let ring = private.join(format!("{}1", ring_file::PREFIX));
    fs::copy(&beside, &ring).unwrap();
    let asks = [&beside, &ring].map(|path| fs::File::open(path).unwrap());
    asks.iter().for_each(|file| file.try_lock_shared().unwrap());
    assert!(!is_live(&folder.file("a")).unwrap());
    ring_file::remove_oldest(&private, 0);
    assert!(!ring.exists());
}

/// A VM that starts looks at all rings for dead ones. A recovery at the same time does not take the
/// look for a living VM.
#[test]
fn who_asks_during_a_recovery_is_no_vm() {
    let folder = Folder::new();
    let ring = ring_name(&folder);
    let private = ring.parent().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It removes no ring: other tests have theirs in the folder.
        scope.spawn(|| {
            while !done.load(Relaxed) {
                ring_file::remove_oldest(private, usize::MAX)
            }
        });
        let found: Vec<_> =
            (0..200).map(|n| recover(&killed(&folder, &n.to_string(), &ring)).unwrap()).collect();
        done.store(true, Relaxed);
        assert!(found.iter().all(|found| matches!(found, Recovery::Done { .. })), "{found:?}");
    });
    // However long they ask.
    let capture = killed(&folder, "a", &ring);
    let asks = fs::File::open(&ring).unwrap();
    asks.try_lock_shared().unwrap();
    assert!(matches!(recover(&capture).unwrap(), Recovery::Done { .. }));
}

/// Of several commands that open the capture of a dead VM, one completes it, and the others wait
/// for it.
#[test]
fn who_recovers_is_no_vm() {
    let folder = Folder::new();
    let ring = ring_name(&folder);
    let capture = killed(&folder, "a", &ring);
    let recovers = fs::File::open(&capture).unwrap();
    recovers.try_lock().unwrap();
    let done = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| recover(&capture).unwrap())).collect();
        std::thread::sleep(Duration::from_millis(300));
        assert!(all.iter().all(|recovery| !recovery.is_finished()));
        drop(recovers);
        let results = all.into_iter().map(|recovery| recovery.join().unwrap());
        results.filter(|result| *result != Recovery::NotNeeded).collect::<Vec<_>>()
    });
    assert!(matches!(done[..], [Recovery::Done { .. }]), "{done:?}");
    let reader = CaptureReader::open(&capture).unwrap();
    assert_eq!(common::read_all(&reader), (common::records(), 0));
    assert!(!ring.exists());
}

#[test]
fn a_copy_leaves_the_ring_to_the_original() {
    let folder = Folder::new();
    let ring = ring_name(&folder);
    let capture = killed(&folder, "a", &ring);
    fs::copy(&capture, folder.file("copy")).unwrap();
    for name in ["copy", "a"] {
        assert!(ring.exists());
        assert!(matches!(recover(&folder.file(name)).unwrap(), Recovery::Done { .. }));
        let reader = CaptureReader::open(&folder.file(name)).unwrap();
        assert_eq!(common::read_all(&reader), (common::records(), 0));
    }
    assert!(!ring.exists());
}

/// A capture is a file that somebody else may have sent: it cannot name just any file to be locked,
/// read and removed.
#[test]
fn a_capture_names_nothing_but_rings() {
    let folder = Folder::new();
    let private = ring_file::make_folder(folder.user()).unwrap();
    let ring = ring_name(&folder);
    for bad in [
        folder.file("ring-1"),
        private.join("other"),
        private.join(ring_file::PREFIX).join("below"),
        PathBuf::from("/dev/shm/jportal-x/ring-1"),
        private.join("../ring-1"),
    ] {
        // The file is that of another capture, which needs it.
        let needed = killed(&folder, "needed", &ring);
        let header = Header { ring: Appended(bad.to_str().unwrap().into()), ..common::header() };
        let mut writer = CaptureWriter::create(&folder.file("a")).unwrap();
        writer.header(&header).unwrap();
        let error = recover(&folder.file("a")).unwrap_err().to_string();
        assert!(error.contains("no VM makes"), "{error}");
        assert!(matches!(recover(&needed).unwrap(), Recovery::Done { .. }));
    }
    // What has the name of a ring is a link or a pipe.
    let capture = killed(&folder, "b", &ring);
    fs::remove_file(&ring).unwrap();
    fs::write(folder.file("victim"), "precious").unwrap();
    symlink(folder.file("victim"), &ring).unwrap();
    recover(&capture).unwrap_err();
    fs::remove_file(&ring).unwrap();
    pipe(&ring);
    let error = recover(&capture).unwrap_err().to_string();
    assert!(error.contains("no file of the capture's owner"), "{error}");
    fs::remove_file(&ring).unwrap();
    assert_eq!(fs::read_to_string(folder.file("victim")).unwrap(), "precious");
}

/// Whoever reads or completes a capture may be root, in a folder where others may write.
#[test]
fn what_is_no_regular_file_is_neither_read_nor_completed() {
    let folder = Folder::new();
    pipe(&folder.file("pipe"));
    fs::create_dir(folder.file("folder")).unwrap();
    let start = Instant::now();
    for (path, what) in [
        (folder.file("pipe"), "it is a pipe"),
        (folder.file("folder"), "it is a folder"),
        (PathBuf::from("/dev/null"), "it is a device"),
    ] {
        let error = CaptureReader::open(&path).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("name of a regular file"), "{error}");
        CaptureWriter::reopen(&path).unwrap_err();
    }
    assert!(start.elapsed() < Duration::from_secs(5), "it waited");
    // A link is read, but not followed to what would be changed.
    let mut writer = CaptureWriter::create(&folder.file("a")).unwrap();
    writer.header(&common::header()).unwrap();
    drop(writer);
    symlink(folder.file("a"), folder.file("link")).unwrap();
    CaptureReader::open(&folder.file("link")).unwrap();
    assert!(matches!(CaptureWriter::reopen(&folder.file("link")), Err(Error::Open { .. })));
    CaptureWriter::reopen(&folder.file("a")).unwrap();
}

/// The ring beside a capture of an earlier version.
#[test]
fn a_pipe_or_a_link_beside_a_capture_is_no_ring() {
    let folder = Folder::new();
    let capture = folder.file("a");
    let mut writer = CaptureWriter::create(&capture).unwrap();
    writer.header(&common::header()).unwrap();
    assert_eq!(recover(&capture).unwrap(), Recovery::NotNeeded);
    pipe(&path_of(&capture));
    let start = Instant::now();
    assert!(matches!(recover(&capture), Err(Error::Ring { .. })));
    assert!(start.elapsed() < Duration::from_secs(5));
    fs::remove_file(path_of(&capture)).unwrap();
    fs::write(folder.file("victim"), "precious").unwrap();
    symlink(folder.file("victim"), path_of(&capture)).unwrap();
    recover(&capture).unwrap_err();
    assert_eq!(fs::read_to_string(folder.file("victim")).unwrap(), "precious");
    // The capture itself is a pipe.
    pipe(&folder.file("p"));
    assert_eq!(recover(&folder.file("p")).unwrap(), Recovery::NotNeeded);
}
