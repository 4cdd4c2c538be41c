// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Decoded blocks, indexed by the offset of their first byte.

use crate::block::{BasicBlock, MAX_BLOCK, MAX_INSTRUCTION, Terminator};

const PAGE: usize = 1 << 10;

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
    directory: Vec<Option<Box<[u32; PAGE]>>>,
    stale: usize,
    /// Changes when a block that is part of a leap becomes stale.
    pub stamp: u32,
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
            Some(Some(page)) => page[start as usize % PAGE],
            _ => NONE,
        }
    }

    /// Adds a block.
    pub fn insert(&mut self, block: BasicBlock) -> u32 {
        let index = self.blocks.len() as u32;
        if let Some(slot) = self.directory.get_mut(block.start as usize / PAGE) {
            slot.get_or_insert_with(|| Box::new([NONE; PAGE]))[block.start as usize % PAGE] = index;
        }
        self.blocks.push(block);
        index
    }

    /// Makes all blocks stale that have a byte in `[start, end)`.
    pub fn invalidate(&mut self, start: u32, end: u32) {
        let mut at = start.saturating_sub(MAX_BLOCK + MAX_INSTRUCTION);
        while at < end {
            let page_end = (at as usize / PAGE + 1) * PAGE;
            let Some(slot) = self.directory.get_mut(at as usize / PAGE) else { return };
            if let Some(page) = slot {
                for i in at as usize..page_end.min(end as usize) {
                    let index = page[i % PAGE];
                    if index != NONE && self.blocks[index as usize].end > start {
                        let block = &mut self.blocks[index as usize];
                        block.kind = Terminator::Stale;
                        self.stamp = self.stamp.wrapping_add(block.leapt.into());
                        page[i % PAGE] = NONE;
                        self.stale += 1;
                    }
                }
            }
            at = page_end as u32;
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
}
