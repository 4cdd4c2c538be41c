// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! How large the rings of a recording are.

use crate::layout::PAGE_SIZE;
use crate::machine::Machine;

/// Largest AUX ring that nobody asked for.
const AUX: u64 = 4 << 20;
/// Smallest one: PT's driver wants two pages.
const LEAST_AUX: u64 = 2 * PAGE_SIZE as u64;
/// Data rings: a switch is 40 bytes, and a drain looks at them a hundred times a second. On a busy machine it may be kept from it
/// for a while, by other threads or by the disk.
const LEAST_DATA: u64 = 16 << 10;
/// Largest one beside an AUX ring.
const MOST_DATA: u64 = 1 << 20;

/// Bytes of the rings of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// The data ring.
    pub data: u64,
    /// The AUX ring, 0: there is none.
    pub aux: u64,
}

impl RingSizes {
    /// `largest` is that of the AUX ring, or of the data ring where there is no other.
    fn new(largest: u64, with_pt: bool) -> Self {
        if with_pt {
            Self { data: (largest / 2).clamp(LEAST_DATA, MOST_DATA), aux: largest }
        } else {
            Self { data: largest.max(LEAST_DATA), aux: 0 }
        }
    }

    /// What the mappings of one core take: control page and rings.
    pub fn all(self) -> u64 {
        PAGE_SIZE as u64 + self.data + self.aux
    }

    /// The next smaller rings, `None` when these are the smallest.
    pub fn halved(self) -> Option<Self> {
        let largest = self.aux.max(if self.aux == 0 { self.data } else { 0 });
        let smaller = Self::new(largest / 2, self.aux != 0);
        (smaller != self && largest / 2 >= LEAST_AUX).then_some(smaller)
    }

    /// Rings of a size that somebody asked for, rounded up to a power of two.
    pub fn requested(bytes: u64, with_pt: bool) -> Self {
        Self::new(bytes.clamp(LEAST_AUX, 1 << 40).next_power_of_two(), with_pt)
    }

    /// The largest rings that fit what the kernel lets every user map, so that nobody needs a right for them. Every core that
    /// there can be has some.
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
