//! Where a whole segment of hits lies in the log.

use std::collections::VecDeque;

use crate::verify::probes::Hit;

/// The first place in `log` at which all hits of `segment` stand in a row (Knuth, Morris and
/// Pratt: linear, whatever loops there are).
///
/// What is behind an unresolved stretch need not follow directly, so only the hits before
/// the first such one are placed.
pub(crate) fn first_place(segment: &VecDeque<Hit>, log: &VecDeque<u32>) -> Option<usize> {
    let solid = segment.iter().skip(1).position(|h| h.loose.is_some()).map_or(segment.len(), |n| n + 1);
    let ids: Vec<u32> = segment.iter().take(solid).map(|h| h.id).collect();
    if ids.is_empty() {
        return Some(0);
    }
    let borders = borders(&ids);
    let mut matched = 0;
    for (at, &entry) in log.iter().enumerate() {
        while matched > 0 && ids[matched] != entry {
            matched = borders[matched - 1];
        }
        if ids[matched] == entry {
            matched += 1;
        }
        if matched == ids.len() {
            return Some(at + 1 - matched);
        }
    }
    None
}

/// For each prefix the length of its longest proper border.
fn borders(ids: &[u32]) -> Vec<usize> {
    let mut all = vec![0; ids.len()];
    let mut matched = 0;
    for i in 1..ids.len() {
        while matched > 0 && ids[matched] != ids[i] {
            matched = all[matched - 1];
        }
        if ids[matched] == ids[i] {
            matched += 1;
        }
        all[i] = matched;
    }
    all
}

#[cfg(test)]
mod tests {
    use jportal_flow::{Cause, Provenance, Tier};

    use super::*;

    fn place(segment: &[u32], log: &[u32]) -> Option<usize> {
        let hole = Some((Tier::C2, Cause::OtherFold));
        let hit = |&id| Hit {
            id,
            event: 0,
            provenance: Provenance::Decoded,
            tier: Tier::C2,
            behind: Default::default(),
            loose: hole.filter(|_| id == 9),
        };
        first_place(&segment.iter().map(hit).collect(), &log.iter().copied().collect())
    }

    #[test]
    fn first_of_many_places() {
        let log = [1, 2, 1, 2, 1, 2, 3, 1, 2, 3];
        assert_eq!(place(&[1, 2, 3], &log), Some(4));
        assert_eq!(place(&[1, 2, 1, 2, 3], &log), Some(2));
        assert_eq!(place(&[2, 3], &log[..6]), None);
        assert_eq!(place(&[], &log), Some(0));
        assert_eq!(place(&[1, 2, 3, 9, 9], &log), Some(4), "behind an unresolved stretch all is open");
    }
}
