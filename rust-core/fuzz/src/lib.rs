// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What several fuzz targets need.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jportal::file::chunk::{HEAD, MARKER, PREAMBLE};

/// A folder of this process. `scripts/fuzz` removes it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder").keep())
}

/// A file with these bytes, for readers that open a path.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("room for a temporary file");
    path
}

/// Makes the checksums of a capture right again, so that what is damaged is what they protect.
/// An input that ends with an odd byte stays as it is.
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut all = bytes.to_vec();
    if all.last().is_some_and(|last| last % 2 == 1) {
        return all;
    }
    let mut at = PREAMBLE;
    while let Some(place) = all.get(at..).and_then(|rest| rest.windows(4).position(|w| w == MARKER)) {
        let start = at + place;
        let Some(head) = all.get(start..start + HEAD) else { break };
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        at = start + HEAD;
        if let Some(payload) = all.get(at..).and_then(|rest| rest.get(..len)) {
            let crc = crc32c::crc32c(payload);
            all[start + 24..start + 28].copy_from_slice(&crc.to_le_bytes());
            at += len;
        }
        let crc = crc32c::crc32c(&all[start..start + 28]);
        all[start + 28..start + 32].copy_from_slice(&crc.to_le_bytes());
    }
    all
}

/// Splits an input whose last four bytes are the length of its first part.
pub fn two_parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, len) = bytes.split_last_chunk::<4>()?;
    Some(rest.split_at((u32::from_le_bytes(*len) as usize).min(rest.len())))
}
