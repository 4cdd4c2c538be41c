// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The search for synchronisation points.

use memchr::memmem::Finder;
use std::sync::LazyLock;

/// The bytes of PSB (SDM, table "PSB Packet Definition").
pub const PSB: [u8; 16] = [2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82];

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&PSB));

/// Offset of the first PSB in `bytes` at or after `from`.
///
/// The SDM guarantees that no other packet's bytes contain the pattern, so each match is a PSB.
pub fn find_psb(bytes: &[u8], from: usize) -> Option<usize> {
    Some(from + FINDER.find(bytes.get(from..)?)?)
}

/// Offsets of all PSBs in `bytes`, ascending.
pub fn find_psbs(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    FINDER.find_iter(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_at_every_alignment() {
        for at in 0..80 {
            for behind in 0..40 {
                let mut bytes = vec![0x82u8; at];
                bytes.extend_from_slice(&PSB);
                bytes.resize(at + 16 + behind, 2);
                assert_eq!(find_psb(&bytes, 0), Some(at), "at {at}, {behind} bytes behind");
                assert_eq!(find_psb(&bytes, at), Some(at));
                assert_eq!(find_psb(&bytes, at + 1), None);
                assert_eq!(find_psb(&bytes[..at + 15], 0), None);
                assert_eq!(find_psb(&bytes, bytes.len() + 1), None);
            }
        }
    }

    #[test]
    fn all_of_them() {
        let mut bytes = Vec::new();
        for gap in [0usize, 1, 5, 14, 15, 16, 31] {
            bytes.resize(bytes.len() + gap, 0);
            bytes.extend_from_slice(&PSB);
        }
        let expect: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i..].starts_with(&PSB)).collect();
        assert_eq!(find_psbs(&bytes).collect::<Vec<_>>(), expect);
        assert_eq!(expect.len(), 7);
    }
}
