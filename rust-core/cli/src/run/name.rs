// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The name of the capture. The VM expands patterns in it, and the command has to find the file
//! that the VM wrote.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The form in which the VM writes `%t`, with each digit as `0` (`strftime` with
/// `%Y-%m-%d_%H-%M-%S`).
const TIME: &[u8] = b"0000-00-00_00-00-00";

/// A piece of a file name.
#[derive(Debug, PartialEq, Eq)]
enum NamePiece {
    Text(Vec<u8>),
    Time,
}

/// The pieces of the last component of a path. Only that component is a pattern (`expand_path`
/// in `jportalRecording.cpp`).
fn pieces(name: &OsStr, pid: u32) -> Vec<NamePiece> {
    let (mut all, mut text) = (Vec::new(), Vec::new());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [b'p', after @ ..]) => {
                text.extend(pid.to_string().bytes());
                after
            }
            (b'%', [b't', after @ ..]) => {
                all.extend([NamePiece::Text(std::mem::take(&mut text)), NamePiece::Time]);
                after
            }
            (b'%', [b'%', after @ ..]) => {
                text.push(b'%');
                after
            }
            (byte, after) => {
                text.push(*byte);
                after
            }
        };
    }
    all.push(NamePiece::Text(text));
    all
}

/// Whether the VM may have made `name` from the pieces.
fn fits(pieces: &[NamePiece], name: &OsStr) -> bool {
    let mut rest = name.as_bytes();
    for piece in pieces {
        let after = match piece {
            NamePiece::Text(text) => rest.strip_prefix(&text[..]),
            NamePiece::Time => {
                rest.split_at_checked(TIME.len()).and_then(|(time, after)| is_time(time).then_some(after))
            }
        };
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

fn is_time(text: &[u8]) -> bool {
    text.iter().zip(TIME).all(|(c, shape)| if *shape == b'0' { c.is_ascii_digit() } else { c == shape })
}

/// The file that the VM of process `pid`, started at `since`, made from `pattern`: the newest
/// one that fits, if there is one.
pub(crate) fn find(pattern: &Path, pid: u32, since: SystemTime) -> Option<PathBuf> {
    let pieces = pieces(pattern.file_name()?, pid);
    if let [NamePiece::Text(text)] = &pieces[..] {
        let path = pattern.with_file_name(std::ffi::OsString::from_vec(text.clone()));
        return path.exists().then_some(path);
    }
    let files = std::fs::read_dir(pattern.parent()?).ok()?.flatten();
    let own = files.filter(|file| fits(&pieces, &file.file_name()));
    let dated = own.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())));
    dated.filter(|(written, _)| *written >= since).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_name_alone_is_a_pattern() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a%p-%t-%%");
        std::fs::create_dir(&folder).unwrap();
        let make = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let since = SystemTime::now() - Duration::from_secs(60);
        for (pattern, name) in [
            ("a", "a"),
            ("a%p.jportal", "a42.jportal"),
            ("100%%-%x-%", "100%-%x-%"),
            ("%%p", "%p"),
            ("x-%t.jportal", "x-2026-11-26_13-59-07.jportal"),
            ("%t%p", "2026-11-26_13-59-0742"),
        ] {
            assert_eq!(find(&folder.join(pattern), 42, since), None, "{pattern}");
            let path = make(name);
            assert_eq!(find(&folder.join(pattern), 42, since), Some(path), "{pattern}");
        }
    }

    #[test]
    fn earlier_captures_and_others_are_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, age: u64| {
            let file = std::fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        let pattern = dir.path().join("x-%t");
        let since = SystemTime::now() - Duration::from_secs(100);
        write("x-2026-11-26_13-00-00", 1000);
        write("x-2026-11-26_13-00-0x", 1);
        write("x-2026-11-26_13-00-00.ring", 1);
        assert_eq!(find(&pattern, 1, since), None);
        write("x-2026-11-26_14-00-01", 20);
        write("x-2026-11-26_14-00-02", 10);
        assert_eq!(find(&pattern, 1, since), Some(dir.path().join("x-2026-11-26_14-00-02")));
    }
}
