// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Creates the file of a recording or dump, in a folder where others may write too.
//!
//! The name is predictable and the VM may run as root, so nothing that is there already is
//! opened for writing, followed or truncated: a file is always a new one (`O_EXCL`, which follows
//! no link either). An earlier capture of the same user is renamed; anything else under the name
//! is an error.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::chunk::MAGIC;
use crate::error::Error;
use crate::ring_file;

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

/// Creates a file for a capture of the user `uid`, at `path` or, with [`Earlier::Number`], beside
/// it. Returns it with its path. It is open for reading and writing and has mode 0600.
///
/// # Errors
/// [`Error::Open`], [`Error::Foreign`] if something else has the name, [`Error::Live`] if a running
/// VM writes to the earlier capture.
pub fn create(path: &Path, earlier: Earlier, uid: u32) -> Result<(File, PathBuf), Error> {
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
    let what = match kind_of(path, uid)? {
        None => return create_once_more(path),
        Some(Occupant::Capture) if ring_file::is_live(path)? => {
            return Err(Error::Live { path: path.to_owned() });
        }
        Some(Occupant::Capture) => "it is an earlier capture",
        Some(Occupant::Other(what)) => return Err(Error::Foreign { path: path.to_owned(), what }),
    };
    match earlier {
        Earlier::Rename => {
            keep_old(path, uid)?;
            create_once_more(path)
        }
        Earlier::Number => Err(Error::Foreign { path: path.to_owned(), what }),
    }
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

/// The name has just become free.
fn create_once_more(path: &Path) -> Result<(File, PathBuf), Error> {
    let foreign = || Error::Foreign { path: path.to_owned(), what: "somebody creates it at the same time" };
    Ok((create_new(path)?.ok_or_else(foreign)?, path.to_owned()))
}

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
    let kind = meta.file_type();
    let what = if kind.is_symlink() {
        "it is a symbolic link"
    } else if kind.is_dir() {
        return Err(open(ErrorKind::IsADirectory.into()));
    } else if kind.is_fifo() {
        "it is a pipe, whose reader could stop"
    } else if !kind.is_file() {
        "it is a device or a socket"
    } else if meta.uid() != uid {
        "it belongs to another user"
    } else if is_capture(path).map_err(open)? {
        return Ok(Some(Occupant::Capture));
    } else {
        "it is no capture"
    };
    Ok(Some(Occupant::Other(what)))
}

/// Whether the regular file at `path` begins as a capture does. If it has been replaced
/// meanwhile, the answer is no.
fn is_capture(path: &Path) -> io::Result<bool> {
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Ok(false),
        Err(e) => return Err(e),
    };
    let mut magic = [0; MAGIC.len()];
    Ok(file.metadata()?.is_file() && file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC)
}

/// Opens a file for reading, without following a link and without waiting for the other end of a
/// pipe.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Renames the capture at `path` to `NAME.old`, and replaces only a capture there.
fn keep_old(path: &Path, uid: u32) -> Result<(), Error> {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    match kind_of(&old, uid)? {
        None | Some(Occupant::Capture) => {}
        Some(Occupant::Other(what)) => return Err(Error::Foreign { path: old, what }),
    }
    std::fs::rename(path, &old).map_err(|source| Error::Open { path: old, source })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
