// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where the segments of a sequence begin, and which one holds a position.

use std::ops::Range;

/// Positions per block. The segment of each block's first position is noted: there are as many
/// segments as gaps, and a search among all of them, for each place that is considered, would
/// take longer than to consider the place.
const BLOCK: usize = 1 << 12;

/// Segments that follow each other from position 0 on.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    /// The start of each segment, then the end of the last one.
    all: Vec<u32>,
    /// The segment of each [`BLOCK`]'s first position.
    blocks: Vec<u32>,
}

impl Default for Starts {
    fn default() -> Self {
        Self { all: vec![0], blocks: Vec::new() }
    }
}

impl Starts {
    /// Adds a segment that ends at `end`.
    pub(super) fn push(&mut self, end: u32) {
        let number = self.len() as u32;
        self.all.push(end);
        let blocks = (end as usize).div_ceil(BLOCK);
        self.blocks.resize(blocks.max(self.blocks.len()), number);
    }
    /// The same segments, with each of `stretches` as a segment of its own.
    pub(super) fn with(&self, stretches: &[Range<usize>]) -> Self {
        let mut all = self.all.clone();
        all.extend(stretches.iter().flat_map(|s| [s.start as u32, s.end as u32]));
        all.sort_unstable();
        all.dedup();
        let mut with = Self::default();
        all.into_iter().skip(1).for_each(|end| with.push(end));
        with
    }
    /// Number of segments.
    pub(super) fn len(&self) -> usize {
        self.all.len() - 1
    }
    /// The positions of a segment; none if there is no segment with that number.
    pub(super) fn range(&self, number: usize) -> Range<usize> {
        match (self.all.get(number), self.all.get(number + 1)) {
            (Some(&a), Some(&b)) => a as usize..b as usize,
            _ => 0..0,
        }
    }
    /// The last segment that begins at or before `position`; the number of segments if
    /// `position` lies after all of them.
    pub(super) fn at(&self, position: usize) -> usize {
        let block = |at: usize| self.blocks.get(at).map(|number| *number as usize);
        // The segment begins in this block, or contains its first position.
        let least = block(position / BLOCK).unwrap_or(0);
        let most = block(position / BLOCK + 1).map_or(self.all.len(), |number| number + 1);
        least + self.all[least..most].partition_point(|start| *start as usize <= position) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_blocks() {
        let mut starts = Starts::default();
        let block = BLOCK as u32;
        let ends =
            [3, 3, block - 1, block, block, block + 1, 4 * block, 4 * block + 7, 5 * block, 5 * block + 1];
        ends.iter().for_each(|end| starts.push(*end));
        let simply = |position: usize| ends.iter().take_while(|end| **end as usize <= position).count();
        for position in 0..6 * BLOCK + 2 {
            assert_eq!(starts.at(position), simply(position), "{position}");
        }
        assert_eq!((starts.len(), starts.range(6), starts.range(10)), (10, BLOCK + 1..4 * BLOCK, 0..0));
        let with = starts.with(&[1..2, BLOCK..2 * BLOCK]);
        let ranges: Vec<_> = (0..5).map(|number| with.range(number)).collect();
        assert_eq!(ranges, [0..1, 1..2, 2..3, 3..BLOCK - 1, BLOCK - 1..BLOCK]);
        assert_eq!([1, 2 * BLOCK - 1, 2 * BLOCK].map(|position| with.at(position)), [1, 6, 7]);
    }
}
