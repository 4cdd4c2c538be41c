// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Creates the file of a recording or dump, in a folder where others may write too.
//!
//! The name is predictable and the VM may run as root, so nothing that is there already is
//! opened for writing, followed or truncated: a file is always a new one (`O_EXCL`, which follows
//! no link either). An earlier capture of the same user is renamed; anything else under the name
//! is an error. A capture to which somebody writes ([`held`]) is none of the earlier ones.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::chunk::MAGIC;
use crate::error::Error;
use crate::names::{identity, identity_at, no_file, rename_to_free};
use crate::{held, ring_file};

/// What to do if there is an earlier capture under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Keep it as `NAME.old`, in place of the one that has that name.
    Rename,
    /// Leave it, whatever it is, and number the new one: `NAME`, which ends in a number, becomes
    /// the next free one. A name without a number is refused.
    Number,
}

/// How many numbers are tried.
const NUMBERS: u64 = 1000;
/// How often the name is tried, if others change what has it at the same time.
const ATTEMPTS: u32 = 10;

/// Creates a file for a capture of the user `uid`, at `path` or, with [`Earlier::Number`], beside
/// it. Returns it with its path. It is open for reading and writing, has mode 0600, and is locked
/// ([`held`]).
///
/// # Errors
/// [`Error::Open`], [`Error::Foreign`] if something else has the name, [`Error::Live`] if a running
/// VM writes to the earlier capture.
pub fn create(path: &Path, earlier: Earlier, uid: u32) -> Result<(File, PathBuf), Error> {
    for _ in 0..ATTEMPTS {
        if let Some(file) = create_new(path)? {
            return Ok((file, path.to_owned()));
        }
        if earlier == Earlier::Number {
            for path in numbered(path).into_iter().flatten() {
                if let Some(file) = create_new(&path)? {
                    return Ok((file, path));
                }
            }
        }
        match (kind_of(path, uid)?, earlier) {
            (None, _) => {}
            (Some(Occupant::Other(what)), _) => return Err(Error::Foreign { path: path.to_owned(), what }),
            (Some(Occupant::Capture), Earlier::Rename) => keep_old(path, uid)?,
            (Some(Occupant::Capture), Earlier::Number) if ring_file::is_live(path)? => {
                return Err(Error::Live { path: path.to_owned() });
            }
            (Some(Occupant::Capture), Earlier::Number) => {
                return Err(Error::Foreign { path: path.to_owned(), what: "it is an earlier capture" });
            }
        }
    }
    Err(Error::Foreign { path: path.to_owned(), what: "somebody creates it at the same time" })
}

/// The names with the next numbers.
fn numbered(path: &Path) -> Option<impl Iterator<Item = PathBuf> + use<>> {
    let name = path.file_name()?.to_str()?;
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let number: u64 = name[stem.len()..].parse().ok()?;
    let folder = path.to_owned();
    Some((number + 1..=number + NUMBERS).map(move |n| folder.with_file_name(format!("{stem}{n}"))))
}

/// The new file; `None` if something has the name.
fn create_new(path: &Path) -> Result<Option<File>, Error> {
    let new = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = match new {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(source) => return Err(Error::Open { path: path.to_owned(), source }),
    };
    // Whoever finds a capture there finds the lock, too. The file is new: nobody else holds one.
    held::take(&file);
    // The file-creation mask may have taken rights away.
    or_remove(path, file.set_permissions(Permissions::from_mode(0o600)))?;
    Ok(Some(file))
}

/// If something was refused that the new file at `path` needs, nothing stays of it.
fn or_remove(path: &Path, done: io::Result<()>) -> Result<(), Error> {
    done.map_err(|source| {
        let _ = std::fs::remove_file(path);
        Error::Open { path: path.to_owned(), source }
    })
}

#[derive(Debug)]
enum Occupant {
    Capture,
    /// In words.
    Other(&'static str),
}

/// What has the name; `None`: nothing. Follows no link and waits for no reader of a pipe.
fn kind_of(path: &Path, uid: u32) -> Result<Option<Occupant>, Error> {
    let open = |source| Error::Open { path: path.to_owned(), source };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(open(e)),
    };
    let what = match no_file(meta.file_type()) {
        Some(_) if meta.is_dir() => return Err(open(ErrorKind::IsADirectory.into())),
        Some(what) => what,
        None if meta.uid() != uid => "it belongs to another user",
        None => match is_capture(path) {
            Ok(true) => return Ok(Some(Occupant::Capture)),
            Ok(false) => "it is no capture",
            // It has vanished since.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(open(e)),
        },
    };
    Ok(Some(Occupant::Other(what)))
}

/// Whether the regular file at `path` begins as a capture does, or is empty and will, because
/// somebody has just created it. If it has been replaced meanwhile, the answer is no.
fn is_capture(path: &Path) -> io::Result<bool> {
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Ok(false),
        Err(e) => return Err(e),
    };
    let meta = file.metadata()?;
    if meta.is_file() && meta.len() == 0 {
        return Ok(held::is_held(&file));
    }
    let mut magic = [0; MAGIC.len()];
    Ok(meta.is_file() && file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC)
}

/// Opens a file for reading, without following a link and without waiting for the other end of a
/// pipe.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// The same, but follows links: a user may name a capture by one.
pub(crate) fn open_to_look(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Renames the earlier capture at `path` to `NAME.old`, and replaces only a capture there that
/// nobody writes to. If others change either name meanwhile, it may return without having done
/// anything.
fn keep_old(path: &Path, uid: u32) -> Result<(), Error> {
    let live = |path: &Path| Error::Live { path: path.to_owned() };
    let open = |source| Error::Open { path: path.to_owned(), source };
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(open(e)),
    };
    // Held to the end: of several VMs that begin at once, one renames the capture.
    if !held::take(&file) || ring_file::has_live_ring(path)? {
        return Err(live(path));
    }
    if identity_at(path) != Some(identity(&file.metadata().map_err(open)?)) {
        return Ok(());
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    let renamed = match kind_of(&old, uid)? {
        None => rename_to_free(path, &old).map(|_| ()),
        Some(Occupant::Capture) if ring_file::is_live(&old)? => return Err(live(&old)),
        Some(Occupant::Capture) => std::fs::rename(path, &old),
        Some(Occupant::Other(what)) => return Err(Error::Foreign { path: old, what }),
    };
    match renamed {
        // Not found: somebody else has renamed or removed it.
        Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Open { path: old, source }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_file_that_cannot_be_made_private_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        create_new(&path).unwrap().unwrap();
        or_remove(&path, Ok(())).unwrap();
        assert!(path.exists());
        let error = or_remove(&path, Err(ErrorKind::PermissionDenied.into())).unwrap_err();
        assert!(error.to_string().contains("cannot open") && !path.exists(), "{error}");
    }

    #[test]
    fn what_vanishes_while_it_is_looked_at_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, MAGIC).unwrap();
        let uid = std::fs::metadata(&path).unwrap().uid();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::fs::rename(&path, &other).unwrap();
                    std::fs::rename(&other, &path).unwrap();
                }
            });
            let kinds: Vec<_> = (0..50_000).map(|_| kind_of(&path, uid)).collect();
            done.store(true, Relaxed);
            let vanished = kinds.into_iter().filter(|kind| match kind {
                Ok(None) => true,
                Ok(Some(Occupant::Capture)) => false,
                other => panic!("{other:?}"),
            });
            assert!(vanished.count() > 0);
        });
    }
}
