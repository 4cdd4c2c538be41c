// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Where the outcomes of one TNT packet lead from a block, worked out once.
//!
//! A leap holds the blocks that are walked for the outcomes. It is valid until one of them, or the
//! block after them, becomes stale.

use crate::block::Terminator;
use crate::cache::{Cache, SCRATCH};
use crate::item::{Exit, Item};
use jportal_pt_packet::Tnt;
use jportal_units::CodeId;

/// Number of leaps that are kept, as a power of two.
const BITS: u32 = 13;
/// Most outcomes of a leap: those of a short TNT packet.
const MOST_OUTCOMES: u8 = 6;
/// Most blocks of a leap.
const MOST_BLOCKS: usize = 48;
/// Blocks kept. When there are more, all leaps are forgotten. A full table of leaps of average
/// length has some 75,000.
const MOST_KEPT: usize = 1 << 17;

/// A block of a leap, in few bytes: each core keeps 100,000 of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeapBlock {
    start: u32,
    code: CodeId,
    /// At most `MAX_BLOCK + MAX_INSTRUCTION`.
    len: u16,
    exit: Exit,
    /// It makes a call that returns to its end.
    pub calls: bool,
}

const _: () = assert!(size_of::<LeapBlock>() == 12);

impl LeapBlock {
    /// Offset of the first byte after the block.
    #[inline]
    pub fn end(&self) -> u32 {
        self.start + u32::from(self.len)
    }
    /// The block as an item.
    #[inline]
    pub fn item(&self) -> Item {
        Item::Block { start: self.start, end: self.end(), code: self.code, exit: self.exit }
    }
}

/// A leap: where it ends, and its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leap {
    /// Block and outcomes; 0 for none.
    key: u64,
    /// [`Cache::stamp`] when the leap was worked out. It is valid while the stamp is the same.
    stamp: u32,
    first: u32,
    pub len: u16,
    /// Some of the blocks make calls.
    pub calls: bool,
    /// Index of the block that executes next.
    pub to: u32,
    /// Start of that block.
    pub ip: u32,
}

impl Leap {
    const NONE: Self = Self { key: 0, stamp: 0, first: 0, len: 0, calls: false, to: 0, ip: 0 };
}

/// A direct-mapped table of leaps.
#[derive(Debug)]
pub(crate) struct Leaps {
    table: Box<[Leap]>,
    blocks: Vec<LeapBlock>,
}

impl Leaps {
    /// A table without leaps.
    pub fn new() -> Self {
        Self { table: vec![Leap::NONE; 1 << BITS].into(), blocks: Vec::new() }
    }
    /// The blocks of a leap.
    #[inline]
    pub fn blocks(&self, leap: &Leap) -> &[LeapBlock] {
        let first = leap.first as usize;
        self.blocks.get(first..first + usize::from(leap.len)).unwrap_or_default()
    }
    /// The leap from the block with index `from`. `None` if there is none, or not yet.
    #[inline]
    pub fn find(&mut self, cache: &mut Cache, from: u32, tnt: Tnt) -> Option<Leap> {
        if tnt.len > MOST_OUTCOMES || from <= SCRATCH {
            return None;
        }
        let key = u64::from(from) << 8 | 1 << tnt.len | tnt.bits;
        // Knuth's multiplicative hashing.
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize;
        let leap = self.table[slot];
        if leap.key == key && leap.stamp == cache.stamp {
            return (leap.len > 0).then_some(leap);
        }
        if leap.key == key {
            return self.work_out(cache, (slot, key), from, tnt);
        }
        // A leap is worked out when it is wanted for the second time.
        self.table[slot] = Leap { key, ..Leap::NONE };
        None
    }
    #[inline(never)]
    fn work_out(
        &mut self,
        cache: &mut Cache,
        (slot, key): (usize, u64),
        from: u32,
        tnt: Tnt,
    ) -> Option<Leap> {
        if self.blocks.len() > MOST_KEPT {
            self.table.fill(Leap::NONE);
            self.blocks.clear();
        }
        let (first, mut at, mut left) = (self.blocks.len(), from, tnt.len);
        let mut walk = || {
            let mut indices = Vec::new();
            while left > 0 {
                let block = cache.blocks.get(at as usize).filter(|_| indices.len() < MOST_BLOCKS)?;
                let (exit, side) = match block.kind {
                    Terminator::Conditional => {
                        left -= 1;
                        if tnt.bits >> left & 1 != 0 { (Exit::Taken, 0) } else { (Exit::NotTaken, 1) }
                    }
                    Terminator::Jump => (Exit::Jump, 0),
                    Terminator::Call | Terminator::CallNext => (Exit::Call, 0),
                    Terminator::FallThrough => (Exit::FallThrough, 0),
                    _ => return None,
                };
                let calls = block.kind == Terminator::Call;
                let len = (block.end - block.start) as u16;
                self.blocks.push(LeapBlock { start: block.start, code: block.code, len, exit, calls });
                indices.push(at);
                at = Some(block.links[side]).filter(|&next| next > SCRATCH)?;
            }
            indices.push(at);
            (cache.blocks[at as usize].kind != Terminator::Stale).then_some(indices)
        };
        let Some(indices) = walk() else {
            self.blocks.truncate(first);
            return None;
        };
        indices.iter().for_each(|&index| cache.blocks[index as usize].leapt = true);
        let blocks = &self.blocks[first..];
        let leap = Leap {
            key,
            stamp: cache.stamp,
            first: first as u32,
            len: blocks.len() as u16,
            calls: blocks.iter().any(|b| b.calls),
            to: at,
            ip: cache.blocks[at as usize].start,
        };
        self.table[slot] = leap;
        Some(leap)
    }
}
