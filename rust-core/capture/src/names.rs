// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Names of files, which other processes may change at any time.

use std::fs::{FileType, Metadata, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Device and inode, which tell a file from all others that exist.
pub(crate) fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The identity of what has the name; a link is not followed. `None` if nothing has it, or nothing
/// can be said.
pub(crate) fn identity_at(path: &Path) -> Option<(u64, u64)> {
    symlink_metadata(path).ok().as_ref().map(identity)
}

/// What something is that is no regular file, in words.
pub(crate) fn no_file(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_symlink() {
        Some("it is a symbolic link")
    } else if kind.is_dir() {
        Some("it is a folder")
    } else if kind.is_fifo() {
        Some("it is a pipe")
    } else {
        Some("it is a device or a socket")
    }
}

/// Renames a file to a name that nothing has. `false`: something has it.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<bool> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Ok(true) => Ok(true),
        Ok(false) => match symlink_metadata(to) {
            Ok(_) => Ok(false),
            Err(e) if e.kind() == ErrorKind::NotFound => std::fs::rename(from, to).map(|()| true),
            Err(e) => Err(e),
        },
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e),
    }
}

/// Exchanges the files that have two names. `false`: the kernel or the file system cannot.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    rename(one, other, RenameFlags::EXCHANGE)
}

/// `false`: the kernel or the file system does not know the flags.
fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read, write};

    #[test]
    fn names_are_exchanged() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| folder.path().join(name);
        write(file("a"), "a").unwrap();
        write(file("b"), "b").unwrap();
        assert!(exchange(&file("a"), &file("b")).unwrap());
        assert_eq!((read(file("a")).unwrap(), read(file("b")).unwrap()), (b"b".into(), b"a".into()));
        assert!(exchange(&file("a"), &file("missing")).is_err());
    }

    #[test]
    fn a_name_that_something_has_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name| folder.path().join(name);
        write(file("a"), "a").unwrap();
        assert!(rename_to_free(&file("a"), &file("b")).unwrap());
        write(file("a"), "new").unwrap();
        assert!(!rename_to_free(&file("a"), &file("b")).unwrap());
        assert_eq!((read(file("a")).unwrap(), read(file("b")).unwrap()), (b"new".into(), b"a".into()));
        assert!(rename_to_free(&file("missing"), &file("c")).is_err());
    }
}
