// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The sizes of a recording's rings.

use crate::layout::PAGE_SIZE;
use crate::machine::Machine;

/// Maximum size of an AUX ring if the user requests none.
const AUX: u64 = 4 << 20;
/// Minimum size of an AUX ring: the PT driver requires two pages.
const LEAST_AUX: u64 = 2 * PAGE_SIZE as u64;
/// Minimum size of a data ring. A switch record is 40 bytes, and a drain reads the ring a
/// hundred times a second. On a busy machine, other threads or the disk may keep the drain from
/// it for a while.
const LEAST_DATA: u64 = 16 << 10;
/// Maximum size of a data ring beside an AUX ring.
const MOST_DATA: u64 = 1 << 20;

/// Sizes of the rings of one core in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// The data ring.
    pub data: u64,
    /// The AUX ring; 0 if there is none.
    pub aux: u64,
}

impl RingSizes {
    /// `largest` is the size of the AUX ring, or of the data ring if there is no AUX ring.
    fn new(largest: u64, with_pt: bool) -> Self {
        if with_pt {
            Self { data: (largest / 2).clamp(LEAST_DATA, MOST_DATA), aux: largest }
        } else {
            Self { data: largest.max(LEAST_DATA), aux: 0 }
        }
    }

    /// Bytes that the mappings of one core take: control page and rings.
    pub fn all(self) -> u64 {
        PAGE_SIZE as u64 + self.data + self.aux
    }

    /// The next smaller rings, `None` when these are the smallest.
    pub fn halved(self) -> Option<Self> {
        let largest = self.aux.max(if self.aux == 0 { self.data } else { 0 });
        let smaller = Self::new(largest / 2, self.aux != 0);
        (smaller != self && largest / 2 >= LEAST_AUX).then_some(smaller)
    }

    /// Rings of a size that the user requested, rounded up to a power of two.
    pub fn requested(bytes: u64, with_pt: bool) -> Self {
        Self::new(bytes.clamp(LEAST_AUX, 1 << 40).next_power_of_two(), with_pt)
    }

    /// The largest rings for which every possible core fits into the memory that the kernel
    /// lets each user map. So no user needs a privilege for them.
    pub fn fitting(machine: &Machine, with_pt: bool) -> Self {
        let mut sizes = Self::new(AUX, with_pt);
        let each = machine.free_budget() / machine.possible.len().max(1) as u64;
        while !machine.may_lock_any_amount()
            && sizes.all() > each
            && let Some(smaller) = sizes.halved()
        {
            sizes = smaller;
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_shrink_to_two_pages_and_no_further() {
        let mut sizes = RingSizes::new(AUX, true);
        assert_eq!(sizes, RingSizes { data: 1 << 20, aux: 4 << 20 });
        let mut steps = 0;
        while let Some(smaller) = sizes.halved() {
            assert!(
                smaller.all() < sizes.all()
                    && smaller.aux.is_power_of_two()
                    && smaller.data.is_power_of_two()
            );
            sizes = smaller;
            steps += 1;
        }
        assert_eq!((sizes, steps), (RingSizes { data: 16 << 10, aux: 8 << 10 }, 9));
        let mut data = RingSizes::new(AUX, false);
        assert_eq!(data, RingSizes { data: 4 << 20, aux: 0 });
        while let Some(smaller) = data.halved() {
            data = smaller;
        }
        assert_eq!(data, RingSizes { data: 16 << 10, aux: 0 });
    }
}
