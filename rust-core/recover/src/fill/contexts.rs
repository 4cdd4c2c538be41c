//! Places in what was captured by what stands in front of them or behind them, on several scales.
//!
//! For every place behind a transfer of control, the last 1, 4, 16 and 64 transfers are hashed (for every one in front of a
//! transfer, the next ones), and a table per scale keeps a fair sample of the places with each hash (reservoir sampling, with numbers that are the same in every run), so that how the
//! sample went on is how the run goes on there. Tables have a fixed size at most, and hashes may share a slot.

use super::{Captured, SegmentId, Tier};
use jportal_bytecode::Node;

/// Transfers of control that are hashed.
const SCALES: [usize; 4] = [1, 4, 16, 64];
/// Places kept with one hash: with their number they are half a cache line.
const WAYS: usize = 7;
/// Most hashes kept on a scale.
const SLOTS: usize = 1 << 19;
const EMPTY: u32 = u32::MAX;

/// The tables.
#[derive(Debug)]
pub struct Contexts {
    tables: [Vec<Sample>; SCALES.len()],
}

/// Some of the places with a hash.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Sample {
    places: [u32; WAYS],
    /// How many there were.
    seen: u32,
}

impl Sample {
    const NONE: Self = Self { places: [EMPTY; WAYS], seen: 0 };

    fn add(&mut self, place: u32) {
        self.seen = self.seen.saturating_add(1);
        let way = match self.seen as usize {
            seen @ ..=WAYS => seen - 1,
            _ => ((scatter(place) * u64::from(self.seen)) >> 32) as usize,
        };
        if let Some(kept) = self.places.get_mut(way) {
            *kept = place;
        }
    }
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

impl Batch {
    fn begin(&mut self) {
        (self.hashes, self.places, self.done) = (vec![0], vec![EMPTY], 1);
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
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number below 2³² that says nothing of `place`.
const fn scatter(place: u32) -> u64 {
    let mixed = (place as u64 + 1).wrapping_mul(BASE);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)) >> 32
}

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
        let mut all = Self { tables: SCALES.map(|_| vec![Sample::NONE; slots]) };
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
        for ((table, scale), power) in self.tables.iter_mut().zip(SCALES).zip(powers) {
            for at in new.start.max(scale)..new.end {
                let before = batch.hashes[at - scale].wrapping_mul(*power);
                let slot = slot_of(batch.hashes[at].wrapping_sub(before), table.len());
                table[slot].add(batch.places[at]);
            }
        }
        batch.keep();
    }
    /// Places next to `transfers`, the last of which is the nearest to them: those on the largest scale first. Some may stand
    /// next to other transfers.
    pub fn places(&self, transfers: &[Node]) -> Vec<u32> {
        let mut all = Vec::with_capacity(WAYS * SCALES.len());
        for (table, scale) in self.tables.iter().zip(SCALES).rev() {
            let Some(from) = transfers.len().checked_sub(scale) else { continue };
            let hash = transfers[from..].iter().fold(0, |h, n| extend(h, *n));
            for place in table[slot_of(hash, table.len())].places {
                if place != EMPTY && !all.contains(&place) {
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
        self.tables.iter().map(|t| t.len() * size_of::<Sample>()).sum()
    }
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
    fn samples_are_fair() {
        let mut early = 0;
        for start in 0..200 {
            let mut sample = Sample::NONE;
            (0..1000).for_each(|i| sample.add(start * 1000 + i));
            early += sample.places.iter().filter(|p| **p % 1000 < 500).count();
        }
        assert!((700..900).contains(&early), "{early} of 1600");
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
