// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decoded blocks, indexed by the offset of their first byte.

use crate::block::{BasicBlock, MAX_BLOCK, MAX_INSTRUCTION, Terminator};

/// Bytes of code whose blocks are in one page of the directory.
const PAGE: usize = 1 << 10;
/// Words of the set of a page.
const WORDS: usize = PAGE / 64;

/// The index that means "no block".
pub(crate) const NONE: u32 = 0;
/// Index of a block whose bytes may change at any time: valid for one step, never linked.
pub(crate) const SCRATCH: u32 = 1;

/// Blocks with links to their successors. An entry that a change of code invalidates becomes
/// [`Terminator::Stale`] and keeps its index, so that the links to it need not be searched.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The blocks by index; [`NONE`] and [`SCRATCH`] are the first two.
    pub blocks: Vec<BasicBlock>,
    directory: Vec<Option<Box<DirectoryPage>>>,
    stale: usize,
    /// Changes when a block that is part of a leap becomes stale.
    pub stamp: u32,
}

/// The blocks that begin in one page of code. Each core has a directory, so a page takes memory by
/// the number of its blocks.
#[derive(Debug, Default)]
struct DirectoryPage {
    /// The set of the starts.
    starts: [u64; WORDS],
    /// For each word, the number of starts before it.
    before: [u16; WORDS],
    /// The index of each block, in order of start.
    blocks: Vec<u32>,
}

impl DirectoryPage {
    /// The word and the bit of a start.
    const fn place(start: u32) -> (usize, u64) {
        let at = start as usize % PAGE;
        (at / 64, 1 << (at % 64))
    }
    /// The number of starts before a place.
    #[inline]
    const fn rank(&self, (word, bit): (usize, u64)) -> usize {
        self.before[word] as usize + (self.starts[word] & (bit - 1)).count_ones() as usize
    }
    #[inline]
    fn find(&self, start: u32) -> u32 {
        let (word, bit) = Self::place(start);
        if self.starts[word] & bit == 0 { NONE } else { self.blocks[self.rank((word, bit))] }
    }
    fn insert(&mut self, start: u32, index: u32) {
        let (word, bit) = Self::place(start);
        let rank = self.rank((word, bit));
        if self.starts[word] & bit != 0 {
            self.blocks[rank] = index;
            return;
        }
        self.blocks.insert(rank, index);
        self.starts[word] |= bit;
        self.before[word + 1..].iter_mut().for_each(|n| *n += 1);
    }
    /// Removes the starts in `[from, to)`, offsets in the page, for whose blocks `is_hit` holds.
    fn remove(&mut self, from: usize, to: usize, mut is_hit: impl FnMut(u32) -> bool) {
        for word in from / 64..to.div_ceil(64) {
            let (low, high) = (from.max(word * 64) - word * 64, to.min(word * 64 + 64) - word * 64);
            let mut left = self.starts[word] & (u64::MAX << low) & (u64::MAX >> (64 - high));
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left ^= bit;
                let rank = self.rank((word, bit));
                if is_hit(self.blocks[rank]) {
                    self.blocks.remove(rank);
                    self.starts[word] ^= bit;
                    self.before[word + 1..].iter_mut().for_each(|n| *n -= 1);
                }
            }
        }
    }
}

impl Cache {
    /// An empty cache for a code cache of `len` bytes.
    pub fn new(len: u64) -> Self {
        let pages = (len as usize).div_ceil(PAGE);
        Self {
            blocks: vec![BasicBlock::STALE; 2],
            directory: (0..pages).map(|_| None).collect(),
            stale: 0,
            stamp: 1,
        }
    }

    /// Index of the block at `start`, or [`NONE`].
    #[inline]
    pub fn find(&self, start: u32) -> u32 {
        match self.directory.get(start as usize / PAGE) {
            Some(Some(page)) => page.find(start),
            _ => NONE,
        }
    }

    /// Adds a block.
    pub fn insert(&mut self, block: BasicBlock) -> u32 {
        let index = self.blocks.len() as u32;
        if let Some(slot) = self.directory.get_mut(block.start as usize / PAGE) {
            slot.get_or_insert_default().insert(block.start, index);
        }
        self.blocks.push(block);
        index
    }

    /// Makes all blocks stale that have a byte in `[start, end)`.
    pub fn invalidate(&mut self, start: u32, end: u32) {
        let Self { blocks, directory, stale, stamp } = self;
        let mut at = start.saturating_sub(MAX_BLOCK + MAX_INSTRUCTION) as usize;
        while at < end as usize {
            let page_start = at / PAGE * PAGE;
            let page_end = page_start + PAGE;
            let Some(slot) = directory.get_mut(at / PAGE) else { return };
            if let Some(page) = slot {
                page.remove(at - page_start, page_end.min(end as usize) - page_start, |index| {
                    let block = &mut blocks[index as usize];
                    let is_hit = block.end > start;
                    if is_hit {
                        block.kind = Terminator::Stale;
                        *stamp = stamp.wrapping_add(block.leapt.into());
                        *stale += 1;
                    }
                    is_hit
                });
            }
            at = page_end;
        }
    }

    /// Whether most of the blocks are stale, so that [`Cache::clear`] pays.
    pub fn is_worn(&self) -> bool {
        self.stale > 1 << 16 && self.stale > self.blocks.len() / 2
    }

    /// Removes all blocks. Indices kept elsewhere become invalid.
    pub fn clear(&mut self) {
        self.blocks.truncate(2);
        self.directory.iter_mut().for_each(|slot| *slot = None);
        self.stale = 0;
        self.stamp = self.stamp.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_units::CodeId;
    use proptest::prelude::*;

    #[test]
    fn invalidation_is_exact() {
        let mut cache = Cache::new(0x10000);
        let block = |start, end| BasicBlock {
            start,
            end,
            kind: Terminator::Jump,
            code: CodeId(1),
            ..BasicBlock::STALE
        };
        let a = cache.insert(block(0x3f0, 0x410));
        let b = cache.insert(block(0x410, 0x420));
        cache.invalidate(0x420, 0x500);
        assert_eq!((cache.find(0x3f0), cache.find(0x410)), (a, b));
        cache.invalidate(0x40f, 0x410);
        assert_eq!((cache.find(0x3f0), cache.find(0x410)), (NONE, b));
        assert_eq!(cache.blocks[a as usize].kind, Terminator::Stale);
        cache.invalidate(0xffff, 0x10000);
        assert_eq!(cache.find(0x410), b);
    }

    const LEN: u32 = 5000;

    proptest! {
        /// Each step adds the block at a start or, if it is `None`, invalidates the range.
        #[test]
        fn a_directory_finds_what_a_table_of_all_starts_finds(
            steps in proptest::collection::vec((any::<Option<bool>>(), 0..LEN, 1..300_u32), 0..600),
        ) {
            let (mut cache, mut table) = (Cache::new(LEN.into()), vec![NONE; LEN as usize]);
            for (adds, start, len) in steps {
                if adds.is_some() {
                    let end = start + len.min(MAX_BLOCK);
                    let block = BasicBlock { start, end, kind: Terminator::Jump, ..BasicBlock::STALE };
                    table[start as usize] = cache.insert(block);
                    continue;
                }
                let end = (start + len * 4).min(LEN);
                cache.invalidate(start, end);
                for index in &mut table[..end as usize] {
                    if *index != NONE && cache.blocks[*index as usize].end > start {
                        prop_assert_eq!(cache.blocks[*index as usize].kind, Terminator::Stale);
                        *index = NONE;
                    }
                }
            }
            for (start, index) in (0..).zip(&table) {
                prop_assert_eq!(cache.find(start), *index);
            }
            cache.clear();
            prop_assert!((0..LEN).all(|start| cache.find(start) == NONE));
        }
    }
}
