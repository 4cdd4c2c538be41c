// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Finds places in the captured data by the instructions before or after them, on several
//! scales.
//!
//! For every place after a transfer of control, the last 1, 4, 16 and 64 transfers are hashed.
//! One table per scale keeps a fair [sample](Samples) of the places with each hash, so that
//! what follows the sampled places is distributed as in the whole execution. To find a place by
//! what follows it, the same tables are searched for the place after the transfers that follow,
//! because the same instructions lie between the same transfers. Tables have a largest size,
//! and hashes may share a slot.

use super::samples::{Samples, WAYS};
use super::{Captured, SegmentId};
use jportal_bytecode::Node;
use std::panic::resume_unwind;
use std::thread::scope;

/// Numbers of transfers of control that are hashed.
const SCALES: [usize; 4] = [1, 4, 16, 64];
/// Largest number of hashes on a scale.
const SLOTS: usize = 1 << 19;

/// One table per scale.
#[derive(Debug)]
pub struct Contexts {
    tables: [Samples; SCALES.len()],
}

/// Some transfers of a segment: for each, the hash of the segment's transfers up to it, and the
/// place after it.
#[derive(Default)]
struct Batch {
    /// The first entry is for no transfer, or for one of the previous batch.
    hashes: Vec<u64>,
    places: Vec<u32>,
    /// Entries before this index are in the table already, or have no place.
    done: usize,
}

/// Number of places that are added to a table at once.
const BATCH: usize = 1 << 10;
/// Of these, the number of places whose samples are fetched at once.
const GROUP: usize = 32;

impl Batch {
    fn begin(&mut self) {
        self.hashes.clear();
        self.places.clear();
        self.push(0, 0);
        self.done = 1;
    }
    fn push(&mut self, hash: u64, place: u32) {
        self.hashes.push(hash);
        self.places.push(place);
    }
    /// Adds the transfers at `positions`, with the places after them.
    fn add(&mut self, nodes: &[Node], positions: &[u32]) {
        let mut hash = self.hashes.last().copied().unwrap_or_default();
        let hashes = positions.iter().map(|position| {
            hash = extend(hash, nodes[*position as usize]);
            hash
        });
        self.hashes.extend(hashes);
        self.places.extend(positions.iter().map(|position| position + 1));
    }
    /// Keeps only the entries that the hashes of the following transfers need.
    fn keep(&mut self, scale: usize) {
        let from = self.hashes.len().saturating_sub(scale);
        self.hashes.drain(..from);
        self.places.drain(..from);
        self.done = self.hashes.len();
    }
}

/// Base of the polynomial hash. The hash of the end of a sequence is the difference of two
/// hashes.
pub(super) const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

const fn extend(hash: u64, node: Node) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(node.0 as u64 + 1)
}

fn power(n: usize) -> u64 {
    (0..n).fold(1, |p: u64, _| p.wrapping_mul(BASE))
}

impl Contexts {
    /// The tables of `captured`. Two threads build them.
    pub fn new(captured: &Captured) -> Self {
        let slots = captured.transfer_count().next_power_of_two().clamp(16, SLOTS);
        let [a, b, c, d] = SCALES;
        let ([a, b], [c, d]) = scope(|scope| {
            let small = scope.spawn(|| tables(captured, [a, b], slots));
            let large = tables(captured, [c, d], slots);
            // The join fails only if the other thread panicked; then this thread panics, too.
            (small.join().unwrap_or_else(|panic| resume_unwind(panic)), large)
        });
        let tables = [a, b, c, d];
        Self { tables }
    }
    /// Places after `transfers`, the last of which is the nearest to them. Those on the largest
    /// scale come first. Some may follow other transfers.
    pub fn places(&self, transfers: &[Node]) -> Vec<u32> {
        self.of(hashes_of_ends(transfers).map(|hash| hash.map(|hash| (hash, 0))))
    }
    /// Places before `transfers`, the nearest of which comes first. Each transfer has the
    /// number of instructions from the place up to and including it. Places on the largest
    /// scale come first. Some may precede other transfers.
    pub fn places_before(&self, transfers: impl Iterator<Item = (Node, usize)>) -> Vec<u32> {
        let mut hash = 0;
        let mut hashes = [None; SCALES.len()];
        for (number, (node, distance)) in (1..).zip(transfers.take(Self::longest())) {
            hash = extend(hash, node);
            if let Some(at) = SCALES.iter().position(|scale| *scale == number) {
                hashes[at] = Some((hash, distance));
            }
        }
        self.of(hashes)
    }
    /// The places in the tables for the hash of each scale, each moved back by the distance
    /// beside the hash.
    fn of(&self, hashes: [Option<(u64, usize)>; SCALES.len()]) -> Vec<u32> {
        let mut all = Vec::with_capacity(WAYS * SCALES.len());
        for (table, hash) in self.tables.iter().zip(hashes).rev() {
            let Some((hash, distance)) = hash else { continue };
            for place in table.places(slot_of(hash, table.len())) {
                let place = u32::try_from(distance).ok().and_then(|distance| place.checked_sub(distance));
                all.extend(place.filter(|place| !all.contains(place)));
            }
        }
        all
    }
    /// The largest number of transfers that are hashed.
    pub const fn longest() -> usize {
        SCALES[SCALES.len() - 1]
    }
    /// Memory held, in bytes.
    pub fn memory(&self) -> usize {
        self.tables.iter().map(Samples::memory).sum()
    }
}

/// The tables of `captured` for `scales`, which must ascend.
fn tables<const N: usize>(captured: &Captured, scales: [usize; N], slots: usize) -> [Samples; N] {
    let mut tables = scales.map(|scale| (scale, power(scale), Samples::new(slots)));
    let mut batch = Batch::default();
    let mut transfers = Vec::new();
    for segment in 0..captured.len() as u32 {
        captured.transfers(SegmentId(segment), &mut transfers);
        batch.begin();
        for some in transfers.chunks(BATCH) {
            batch.add(captured.nodes(), some);
            add(&mut tables, &mut batch);
        }
    }
    tables.map(|(_, _, table)| table)
}

/// Adds the places of a batch in groups. The samples of a group do not depend on each other, so
/// they can be fetched in parallel.
fn add(tables: &mut [(usize, u64, Samples)], batch: &mut Batch) {
    for (scale, power, table) in &mut *tables {
        let from = batch.done.max(*scale).min(batch.hashes.len());
        let (hashes, places) = (batch.hashes[from..].chunks(GROUP), batch.places[from..].chunks(GROUP));
        let before = batch.hashes[from.saturating_sub(*scale)..].chunks(GROUP);
        let (mut slots, len) = ([0; GROUP], table.len());
        for ((hashes, before), places) in hashes.zip(before).zip(places) {
            let slots = &mut slots[..places.len()];
            for ((slot, hash), before) in slots.iter_mut().zip(hashes).zip(before) {
                *slot = slot_of(hash.wrapping_sub(before.wrapping_mul(*power)), len);
            }
            table.add(slots, places);
        }
    }
    batch.keep(tables.last().map_or(0, |(scale, _, _)| *scale));
}

/// For each scale, the hash of that many of the last transfers, if there are enough.
fn hashes_of_ends(transfers: &[Node]) -> [Option<u64>; SCALES.len()] {
    let (mut hash, mut power, mut done) = (0u64, 1u64, 0);
    SCALES.map(|scale| {
        let all = transfers.len().checked_sub(scale)?;
        for node in transfers[all..transfers.len() - done].iter().rev() {
            hash = hash.wrapping_add(power.wrapping_mul(u64::from(node.0) + 1));
            power = power.wrapping_mul(BASE);
        }
        done = scale;
        Some(hash)
    })
}

fn slot_of(hash: u64, slots: usize) -> usize {
    let mixed = (hash ^ hash >> 32).wrapping_mul(BASE);
    (mixed >> 40) as usize & (slots - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::{Tier, Tiers};

    /// Even numbers are transfers.
    struct Even;
    impl Tiers for Even {
        fn tier(&self, node: Node) -> Tier {
            if node.0.is_multiple_of(2) { Tier::Control } else { Tier::Concrete }
        }
    }

    fn nodes(all: &[u32]) -> Vec<Node> {
        all.iter().copied().map(Node).collect()
    }

    #[test]
    fn larger_scales_come_first() {
        let mut captured = Captured::default();
        captured.push(&Even, &nodes(&[20, 1, 8, 5]), &[]).unwrap();
        captured.push(&Even, &nodes(&[2, 1, 4, 6, 1, 8, 3]), &[]).unwrap();
        let contexts = Contexts::new(&captured);
        // Four transfers end at the 8 of the second segment.
        assert_eq!(contexts.places(&nodes(&[2, 4, 6, 8])), [10, 3]);
        assert_eq!(contexts.places(&nodes(&[8])), [3, 10]);
        assert_eq!(contexts.places(&nodes(&[22, 4, 6, 8])), [3, 10]);
        assert_eq!(contexts.places(&nodes(&[10])), []);
        assert!(contexts.memory() > 0);
    }

    #[test]
    fn places_are_known_by_what_stands_after() {
        let mut captured = Captured::default();
        captured.push(&Even, &nodes(&[3, 8, 5]), &[]).unwrap();
        captured.push(&Even, &nodes(&[7, 9, 8, 1, 4, 6, 1, 2]), &[]).unwrap();
        let contexts = Contexts::new(&captured);
        // Before the 8, and one instruction further away.
        assert_eq!(contexts.places_before([(Node(8), 1)].into_iter()), [1, 5]);
        assert_eq!(contexts.places_before([(Node(8), 2)].into_iter()), [0, 4]);
        let next = [(8, 2), (4, 4), (6, 5), (2, 7)];
        assert_eq!(contexts.places_before(next.map(|(n, d)| (Node(n), d)).into_iter()), [4, 0]);
        // No place lies before the captured data.
        assert_eq!(contexts.places_before([(Node(8), 3)].into_iter()), [3]);
    }

    #[test]
    fn long_segments_are_added_in_parts() {
        let all: Vec<Node> = (0..4 * BATCH as u32).map(|i| Node(2 * i)).collect();
        let mut captured = Captured::default();
        captured.push(&Even, &all, &[]).unwrap();
        let contexts = Contexts::new(&captured);
        for end in [1, 64, 65, BATCH, BATCH + 1, BATCH + 63, BATCH + 64, 3 * BATCH + 17] {
            let context = &all[end.saturating_sub(Contexts::longest())..end];
            assert!(contexts.places(context).contains(&(end as u32)), "{end}");
            let next = (1..).zip(&all[end..]).map(|(distance, node)| (*node, distance));
            assert!(contexts.places_before(next).contains(&(end as u32)), "{end}");
        }
    }
}
