//! Places in what was captured by what stands in front of them or behind them, on several scales.
//!
//! For every place behind a transfer of control, the last 1, 4, 16 and 64 transfers are hashed (for every one in front of a
//! transfer, the next ones), and a table per scale keeps a fair [sample](Samples) of the places with each hash, so that how the
//! sample went on is how the run goes on there. Tables have a fixed size at most, and hashes may share a slot.

use super::samples::{Samples, WAYS};
use super::{Captured, SegmentId, Tier};
use jportal_bytecode::Node;

/// Transfers of control that are hashed.
const SCALES: [usize; 4] = [1, 4, 16, 64];
/// Most hashes kept on a scale.
const SLOTS: usize = 1 << 19;

/// The tables.
#[derive(Debug)]
pub struct Contexts {
    tables: [Samples; SCALES.len()],
}

/// The hashes of the transfers of a segment up to each of some of them, and the places next to these.
#[derive(Default)]
struct Batch {
    /// The first is that of none, or of those before.
    hashes: Vec<u64>,
    places: Vec<u32>,
    /// So many are in the tables already, or of no place.
    done: usize,
}

/// Places that are added to the tables at once.
const BATCH: usize = 1 << 10;
/// Of these, places whose samples are fetched at once.
const GROUP: usize = 32;

impl Batch {
    fn begin(&mut self) {
        (self.hashes, self.places, self.done) = (vec![0], vec![0], 1);
    }
    fn push(&mut self, node: Node, place: u32) {
        let hash = self.hashes.last().copied().unwrap_or_default();
        self.hashes.push(extend(hash, node));
        self.places.push(place);
    }
    fn is_full(&self) -> bool {
        self.hashes.len() - self.done >= BATCH
    }
    /// Keeps what the hashes of those that follow need.
    fn keep(&mut self) {
        let from = self.hashes.len().saturating_sub(Contexts::longest());
        self.hashes.drain(..from);
        self.places.drain(..from);
        self.done = self.hashes.len();
    }
}

/// The hash of a sequence is polynomial, so that of its end is a difference.
pub(super) const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

const fn extend(hash: u64, node: Node) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(node.0 as u64 + 1)
}

fn power(n: usize) -> u64 {
    (0..n).fold(1, |p: u64, _| p.wrapping_mul(BASE))
}

impl Contexts {
    /// The tables of `captured` by what stands in front.
    pub fn new(captured: &Captured) -> Self {
        Self::tables(captured, false)
    }
    /// The tables by what stands behind: a place is that of the next transfer itself.
    pub fn backwards(captured: &Captured) -> Self {
        Self::tables(captured, true)
    }
    fn tables(captured: &Captured, backwards: bool) -> Self {
        let slots = captured.abstraction(Tier::Control).0.len().next_power_of_two().clamp(16, SLOTS);
        let mut all = Self { tables: SCALES.map(|_| Samples::new(slots)) };
        let powers = SCALES.map(power);
        let mut batch = Batch::default();
        let mut transfers = Vec::new();
        for segment in 0..captured.len() as u32 {
            captured.transfers(SegmentId(segment), &mut transfers);
            if backwards {
                transfers.reverse();
            }
            batch.begin();
            for position in &transfers {
                batch.push(captured.nodes()[*position as usize], position + u32::from(!backwards));
                if batch.is_full() {
                    all.add(&mut batch, &powers);
                }
            }
            all.add(&mut batch, &powers);
        }
        all
    }
    /// Adds the places of a batch, one table after the other: what is fetched for one place need not be there for the next.
    fn add(&mut self, batch: &mut Batch, powers: &[u64; SCALES.len()]) {
        let new = batch.done..batch.hashes.len();
        let mut slots = [0; GROUP];
        for ((table, scale), power) in self.tables.iter_mut().zip(SCALES).zip(powers) {
            let mut from = new.start.max(scale);
            while from < new.end {
                let places = &batch.places[from..new.end.min(from + GROUP)];
                let slots = &mut slots[..places.len()];
                for (at, slot) in (from..).zip(slots.iter_mut()) {
                    let before = batch.hashes[at - scale].wrapping_mul(*power);
                    *slot = slot_of(batch.hashes[at].wrapping_sub(before), table.len());
                }
                table.add(slots, places);
                from += GROUP;
            }
        }
        batch.keep();
    }
    /// Places next to `transfers`, the last of which is the nearest to them: those on the largest scale first. Some may stand
    /// next to other transfers.
    pub fn places(&self, transfers: &[Node]) -> Vec<u32> {
        let mut all = Vec::with_capacity(WAYS * SCALES.len());
        for (table, hash) in self.tables.iter().zip(hashes_of_ends(transfers)).rev() {
            let Some(hash) = hash else { continue };
            for place in table.places(slot_of(hash, table.len())) {
                if !all.contains(&place) {
                    all.push(place);
                }
            }
        }
        all
    }
    /// How many transfers are of use.
    pub const fn longest() -> usize {
        SCALES[SCALES.len() - 1]
    }
    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.tables.iter().map(Samples::memory).sum()
    }
}

/// For each scale the hash of so many of the last transfers, if there are as many.
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
    use crate::fill::Tiers;

    /// Even numbers are transfers.
    struct Even;
    impl Tiers for Even {
        fn tier(&self, node: Node) -> Tier {
            if node.0.is_multiple_of(2) { Tier::Control } else { Tier::Concrete }
        }
    }

    #[test]
    fn larger_scales_come_first() {
        let mut captured = Captured::default();
        let nodes = |all: &[u32]| all.iter().copied().map(Node).collect::<Vec<_>>();
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
    fn long_segments_are_added_in_parts() {
        let all: Vec<Node> = (0..4 * BATCH as u32).map(|i| Node(2 * i)).collect();
        let mut captured = Captured::default();
        captured.push(&Even, &all, &[]).unwrap();
        let (front, behind) = (Contexts::new(&captured), Contexts::backwards(&captured));
        for end in [1, 64, 65, BATCH, BATCH + 1, BATCH + 63, BATCH + 64, 3 * BATCH + 17] {
            let context = &all[end.saturating_sub(Contexts::longest())..end];
            assert!(front.places(context).contains(&(end as u32)), "{end}");
            let mut next = all[end..all.len().min(end + Contexts::longest())].to_vec();
            next.reverse();
            assert!(behind.places(&next).contains(&(end as u32)), "{end}");
        }
    }
}
