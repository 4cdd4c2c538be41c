// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Ranges of addresses that do not overlap, by their starts.
//!
//! A map of the standard library cannot say that there is no memory: it ends the process. One
//! sorted table would move megabytes for each range that is put in its middle. So there are several
//! tables of limited length.

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

use crate::error::Error;

/// Greatest number of ranges in one table: 24 KB.
const LONGEST: usize = 1024;

/// A range and what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// First address.
    pub(crate) start: u64,
    /// First address after it.
    pub(crate) end: u64,
    /// What is there.
    pub(crate) id: u32,
}

/// The ranges.
#[derive(Debug)]
pub(crate) struct Ranges<A: Allocator + Clone> {
    memory: A,
    /// None of them is empty, and the starts in each are below those in the next.
    tables: Vec<Vec<Placed, A>, A>,
}

impl<A: Allocator + Clone> Ranges<A> {
    pub(crate) fn new(memory: A) -> Self {
        Self { tables: Vec::new_in(memory.clone()), memory }
    }

    /// Table and place in it of the last range that starts before `address`.
    fn place_before(&self, address: u64) -> Option<(usize, usize)> {
        let starts_before = |table: &Vec<Placed, A>| table.first().is_some_and(|r| r.start < address);
        let table = self.tables.partition_point(starts_before).checked_sub(1)?;
        let place = self.tables[table].partition_point(|r| r.start < address).checked_sub(1)?;
        Some((table, place))
    }

    /// The last range that starts before `address`.
    pub(crate) fn last_before(&self, address: u64) -> Option<Placed> {
        self.place_before(address).map(|(table, place)| self.tables[table][place])
    }

    /// Removes the last range that starts before `address`.
    pub(crate) fn remove_last_before(&mut self, address: u64) {
        let Some((table, place)) = self.place_before(address) else { return };
        self.tables[table].remove(place);
        if self.tables[table].is_empty() {
            self.tables.remove(table);
        }
    }

    /// Adds a range, whose start is that of no other.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn add(&mut self, range: Placed) -> Result<(), Error> {
        let (mut table, mut place) = self.place_before(range.start).map_or((0, 0), |(t, p)| (t, p + 1));
        if self.tables.get(table).is_none_or(|full| full.len() == LONGEST) {
            // Addresses that only rise leave full tables.
            let keep = if place == LONGEST { place } else { LONGEST / 2 };
            let mut new = Vec::new_in(self.memory.clone());
            let bytes = (LONGEST * size_of::<Placed>()) as u64;
            new.try_reserve_exact(LONGEST).map_err(|_| Error::Memory { bytes })?;
            let bytes = (self.tables.len() * size_of::<Vec<Placed, A>>()) as u64;
            self.tables.try_reserve(1).map_err(|_| Error::Memory { bytes })?;
            let Some(full) = self.tables.get_mut(table) else {
                new.push(range);
                self.tables.push(new);
                return Ok(());
            };
            new.extend_from_slice(&full[keep..]);
            full.truncate(keep);
            if place >= keep {
                (table, place) = (table + 1, place - keep);
                new.insert(place, range);
                self.tables.insert(table, new);
                return Ok(());
            }
            self.tables.insert(table + 1, new);
        }
        // Each table has its memory.
        self.tables[table].insert(place, range);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::alloc::Global;
    use std::collections::BTreeMap;

    fn add(ranges: &mut Ranges<Global>, start: u64) {
        ranges.add(Placed { start, end: start + 1, id: start as u32 }).unwrap();
    }

    #[test]
    fn ranges_are_found_as_in_a_map() {
        let (mut ranges, mut map, mut x) = (Ranges::new(Global), BTreeMap::new(), 1_u64);
        for n in 0..60_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = match n % 3 {
                // Rising, falling, and anywhere.
                0 => 1_000_000 + n,
                1 => 1_000_000 - n,
                _ => (x >> 40) % 2_000_000,
            };
            if n % 7 == 6 || n > 50_000 {
                ranges.remove_last_before(at);
                map.range(..at).next_back().map(|(at, ())| *at).map(|at| map.remove(&at));
            } else if map.insert(at, ()).is_none() {
                add(&mut ranges, at);
            }
            let found = ranges.last_before(at + 1).map(|r| r.start);
            assert_eq!(found, map.range(..=at).next_back().map(|(at, ())| *at));
        }
        while let Some(last) = ranges.last_before(u64::MAX) {
            assert_eq!(map.pop_last(), Some((last.start, ())));
            ranges.remove_last_before(u64::MAX);
        }
        assert!(map.is_empty() && ranges.tables.is_empty());
    }

    #[test]
    fn tables_stay_short_and_are_used() {
        const N: u64 = 100_000;
        let full = (N as usize).div_ceil(LONGEST);
        for (order, most) in [("rising", full), ("falling", 2 * full), ("mixed", 2 * full)] {
            let mut ranges = Ranges::new(Global);
            for n in 0..N {
                let at = match order {
                    "rising" => n,
                    "falling" => N - n,
                    _ => n * 99_991 % 100_003,
                };
                add(&mut ranges, at);
            }
            let longest = ranges.tables.iter().map(Vec::capacity).max().unwrap();
            assert!(longest == LONGEST && ranges.tables.len() <= most, "{} tables", ranges.tables.len());
        }
    }
}
