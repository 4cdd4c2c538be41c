// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds the sideband records of a core that must be damaged, because they contradict the
//! records around them.
//!
//! A data ring holds its records in order of time, and the ranges of its AUX records follow
//! each other. A damaged file may violate this. One wrong number must not cost more than its
//! own record. So the search finds the records that are out of order, not the records that
//! follow them: it keeps a longest sequence that is in order.

use hashbrown::{HashMap, HashSet};
use jportal_perf_abi::RecordReader;
use jportal_perf_abi::record::Body;
use jportal_units::Tsc;

/// The misfits, by number of the record. Records that cannot be read have no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misfits {
    /// AUX records whose range overlaps others, steps back, or ends after the largest possible
    /// offset.
    pub ranges: HashSet<usize>,
    /// Records whose time is out of order, each with a time that is in order.
    pub times: HashMap<usize, Tsc>,
}

/// The misfits of one core. `pieces` is its sideband; `None` is a piece that cannot be read.
pub(crate) fn misfits(pieces: &[Option<Vec<u8>>]) -> Misfits {
    if is_in_order(pieces) {
        return Misfits::default();
    }
    let (mut times, mut ranges) = (Vec::new(), Vec::new());
    for (number, (time, range)) in records(pieces).enumerate() {
        times.push(time);
        ranges.extend(range.map(|(offset, size)| (number, offset, size)));
    }
    let aux: HashSet<usize> = ranges.iter().map(|r| r.0).collect();
    Misfits { ranges: wrong_ranges(&ranges), times: mended_times(&times, &aux) }
}

/// The time of each record, and its range if it has one.
fn records(pieces: &[Option<Vec<u8>>]) -> impl Iterator<Item = (u64, Option<(u64, u64)>)> + '_ {
    pieces.iter().flatten().flat_map(|piece| RecordReader::new(piece)).flatten().map(|r| {
        let range = match r.body {
            Body::Aux { offset, size, .. } => Some((offset, size)),
            _ => None,
        };
        (r.sample.time, range)
    })
}

fn is_in_order(pieces: &[Option<Vec<u8>>]) -> bool {
    let (mut latest, mut end) = (0, 0);
    records(pieces).all(|(time, range)| {
        let follows = match range {
            None => true,
            Some((offset, size)) => {
                let begins_after = offset >= std::mem::replace(&mut end, offset.saturating_add(size));
                begins_after && offset.checked_add(size).is_some()
            }
        };
        follows && std::mem::replace(&mut latest, time) <= time
    })
}

/// The numbers of the records whose range is wrong. `ranges`: number, offset, size.
fn wrong_ranges(ranges: &[(usize, u64, u64)]) -> HashSet<usize> {
    let (whole, endless): (Vec<_>, Vec<_>) =
        ranges.iter().copied().partition(|&(_, offset, size)| offset.checked_add(size).is_some());
    let mut wrong: HashSet<usize> = endless.iter().map(|r| r.0).collect();
    let ends: Vec<u64> = whole.iter().map(|r| r.1 + r.2).collect();
    let kept: Vec<_> = in_order(&ends).into_iter().map(|i| whole[i]).collect();
    let numbers: HashSet<usize> = kept.iter().map(|r| r.0).collect();
    wrong.extend(whole.iter().map(|r| r.0).filter(|n| !numbers.contains(n)));
    // Nothing says which of two overlapping ranges is right.
    let overlap = kept.windows(2).filter(|w| w[0].1 + w[0].2 > w[1].1);
    wrong.extend(overlap.flat_map(|w| [w[0].0, w[1].0]));
    wrong
}

/// Times for the records that are out of order. An AUX range was closed at the latest when the
/// next record was written, so it gets the time of the next record. What any other record
/// reports happened at the earliest when the previous record was written, so it gets that time.
fn mended_times(times: &[u64], aux: &HashSet<usize>) -> HashMap<usize, Tsc> {
    let kept = in_order(times);
    let mut mended = HashMap::new();
    let mut next = 0;
    for number in 0..times.len() {
        if kept.get(next) == Some(&number) {
            next += 1;
            continue;
        }
        let before = next.checked_sub(1).map(|i| times[kept[i]]);
        let behind = kept.get(next).map(|&i| times[i]);
        let time = if aux.contains(&number) { behind.or(before) } else { before.or(behind) };
        mended.insert(number, Tsc(time.unwrap_or_default()));
    }
    mended
}

/// The indices of a longest subsequence of `values` that never decreases.
fn in_order(values: &[u64]) -> Vec<usize> {
    // `ends`: for each length, the index of the smallest last value. `before`: for each index,
    // the index before it in the subsequence.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; values.len()];
    for (place, &value) in values.iter().enumerate() {
        let length = ends.partition_point(|&end| values[end] <= value);
        before[place] = length.checked_sub(1).map_or(usize::MAX, |i| ends[i]);
        match ends.get_mut(length) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    let mut kept = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(place) = at {
        kept.push(place);
        at = Some(before[place]).filter(|&b| b != usize::MAX);
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_sequence_is_kept() {
        let of = |values: &[u64]| in_order(values).into_iter().map(|i| values[i]).collect::<Vec<_>>();
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[1, 1, 2]), [1, 1, 2]);
        assert_eq!(of(&[1, u64::MAX, 2, 3]), [1, 2, 3]);
        assert_eq!(of(&[5, 6, 0, 7, 8]), [5, 6, 7, 8]);
    }

    #[test]
    fn ranges_that_overlap_or_do_not_end_are_wrong() {
        let wrong = |ranges: &[(usize, u64, u64)]| {
            let mut all: Vec<_> = wrong_ranges(ranges).into_iter().collect();
            all.sort_unstable();
            all
        };
        assert_eq!(wrong(&[(3, 0, 100), (5, 100, 50), (9, 200, 50)]), []);
        assert_eq!(wrong(&[(3, 0, 100), (5, u64::MAX, 50), (9, 150, 50)]), [5]);
        assert_eq!(wrong(&[(3, 0, 100), (5, 1 << 63, 50), (9, 150, 50)]), [5]);
        assert_eq!(wrong(&[(3, 0, 100), (5, 100, 1 << 40), (9, 150, 50)]), [5]);
        assert_eq!(wrong(&[(3, 0, 100), (5, 100, 50), (9, 0, 50), (11, 200, 1)]), [9]);
        assert_eq!(wrong(&[(3, 0, 100), (5, 100, 60), (9, 150, 50), (11, 200, 1)]), [5, 9]);
        assert_eq!(wrong(&[(3, 0, 100), (5, 100, 0), (9, 100, 50)]), []);
        assert_eq!(wrong(&[(3, 7, u64::MAX)]), [3]);
    }

    #[test]
    fn a_time_out_of_order_is_that_of_a_neighbour() {
        let mended = |times: &[u64], aux: &[usize]| {
            let aux = aux.iter().copied().collect();
            let mut all: Vec<_> = mended_times(times, &aux).into_iter().map(|(n, t)| (n, t.0)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(mended(&[10, 20, u64::MAX, 30, 0, 40], &[]), [(2, 20), (4, 30)]);
        assert_eq!(mended(&[10, 20, u64::MAX, 30, 0, 40], &[2, 4]), [(2, 30), (4, 40)]);
        assert_eq!(mended(&[10, 20, 5], &[2]), [(2, 20)]);
    }
}
