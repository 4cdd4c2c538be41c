// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds where a whole segment of hits lies in the log.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::verify::probes::Hit;

/// The first index in `log` at which all hits of `segment` follow in a row (Knuth, Morris and
/// Pratt: linear time, also in loops).
///
/// Hits after an unresolved stretch need not follow directly, so only the hits before the first
/// such hit are placed.
pub(crate) fn first_place(segment: &VecDeque<Hit>, log: &VecDeque<u32>) -> Option<usize> {
    places(segment, log).next()
}

/// After an index from which all hits agree, number of entries that are examined for an index
/// that skips fewer entries.
const NEARER: usize = 1 << 10;

/// The index from which most hits of `segment` agree, and whether all do. Among equal ones, the
/// index with the fewest skipped entries. Up to `leeway` entries may be skipped before each hit
/// that [may skip](Hit::may_skip).
pub(crate) fn best_place(
    segment: &VecDeque<Hit>,
    log: &VecDeque<u32>,
    leeway: usize,
) -> Option<(usize, bool)> {
    let mut best: Option<((usize, Reverse<usize>), usize)> = None;
    let mut whole = None;
    for place in places(segment, log) {
        if whole.is_some_and(|first| place > first + NEARER) {
            break;
        }
        let (agree, skipped) = agreeing(segment, log, place, leeway);
        if agree == segment.len() {
            whole.get_or_insert(place);
        }
        let found = (agree, Reverse(skipped));
        if best.is_none_or(|(most, _)| found > most) {
            best = Some((found, place));
        }
    }
    best.map(|(_, place)| (place, whole.is_some()))
}

/// Number of hits of `segment` that agree with the log from `from` on, and number of entries
/// that are skipped.
fn agreeing(segment: &VecDeque<Hit>, log: &VecDeque<u32>, from: usize, leeway: usize) -> (usize, usize) {
    let mut at = from;
    let agrees = |hit: &&Hit| {
        let leeway = if hit.may_skip() { leeway } else { 0 };
        let skip = log.range(at.min(log.len())..).take(leeway + 1).position(|&id| id == hit.id);
        at += skip.map_or(0, |n| n + 1);
        skip.is_some()
    };
    let agree = segment.iter().take_while(agrees).count();
    (agree, at - from - agree)
}

/// All indices at which the hits before the first one that [may skip](Hit::may_skip) follow in
/// a row.
fn places(segment: &VecDeque<Hit>, log: &VecDeque<u32>) -> impl Iterator<Item = usize> {
    let solid = segment.iter().skip(1).position(Hit::may_skip).map_or(segment.len(), |n| n + 1);
    let ids: Vec<u32> = segment.iter().take(solid).map(|h| h.id).collect();
    let borders = borders(&ids);
    let nothing = ids.is_empty().then_some(0);
    let mut matched = 0;
    let found = log.iter().enumerate().filter_map(move |(at, &entry)| {
        if ids.is_empty() {
            return None;
        }
        while matched > 0 && (matched == ids.len() || ids[matched] != entry) {
            matched = borders[matched - 1];
        }
        if ids[matched] == entry {
            matched += 1;
        }
        (matched == ids.len()).then(|| at + 1 - matched)
    });
    nothing.into_iter().chain(found)
}

/// For each prefix, the length of its longest proper border.
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
            holed: false,
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
