// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A long sequence of words outside memory: written once from front to back, then read in any
//! order.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// The storage of words. The caller provides it, so that this crate opens no file.
pub trait Storage: Read + Write + Seek + Send {}
impl<T: Read + Write + Seek + Send> Storage for T {}

/// Bits of a word that are compared. The bits above them are visible through [`Words::raw`]
/// only.
pub(crate) const WORD_BITS: u32 = 27;
/// Words per block, the unit of reading.
const BLOCK: u64 = 1 << 14;
/// Blocks in memory; a power of two.
const SLOTS: usize = 16;

/// Words of 4 bytes, little-endian, in a [`Storage`]; at most 1 MiB of them in memory.
pub(crate) struct Words {
    storage: Box<dyn Storage>,
    len: u64,
    /// Words that are not written yet.
    tail: Vec<u8>,
    /// Block number and words, indexed by the low bits of the block number.
    slots: Vec<(u64, Vec<u32>)>,
}

impl Words {
    pub(crate) fn new(storage: Box<dyn Storage>) -> Self {
        let slots = (0..SLOTS).map(|_| (u64::MAX, Vec::new())).collect();
        Self { storage, len: 0, tail: Vec::new(), slots }
    }
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
    /// Appends a word.
    pub(crate) fn push(&mut self, word: u32) -> io::Result<()> {
        self.tail.extend_from_slice(&word.to_le_bytes());
        self.len += 1;
        if self.tail.len() >= 4 * BLOCK as usize { self.flush() } else { Ok(()) }
    }
    /// Writes all words to the storage; must be called before the first word is read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.storage.write_all(&self.tail)?;
        self.tail = Vec::new();
        Ok(())
    }
    /// Appends all words of `other`. Both must have been flushed; the result is flushed.
    pub(crate) fn append(&mut self, other: &mut Self) -> io::Result<()> {
        self.storage.seek(SeekFrom::Start(4 * self.len))?;
        for at in 0..other.len {
            self.push(other.raw(at)?)?;
        }
        self.slots.iter_mut().for_each(|slot| slot.0 = u64::MAX);
        self.flush()
    }
    /// The compared bits of the word at `at`, which must be less than the length.
    #[inline]
    pub(crate) fn get(&mut self, at: u64) -> io::Result<u32> {
        Ok(self.raw(at)? & ((1 << WORD_BITS) - 1))
    }
    /// The word with all its bits.
    #[inline]
    pub(crate) fn raw(&mut self, at: u64) -> io::Result<u32> {
        let (block, rest) = (at / BLOCK, (at % BLOCK) as usize);
        let slot = block as usize % SLOTS;
        if self.slots[slot].0 != block {
            self.load(block, slot)?;
        }
        self.slots[slot].1.get(rest).copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
    /// The words of a range that lies within the length.
    pub(crate) fn range(&mut self, range: std::ops::Range<u64>) -> io::Result<Vec<u32>> {
        range.map(|at| self.get(at)).collect()
    }
    #[cold]
    fn load(&mut self, block: u64, slot: usize) -> io::Result<()> {
        let from = block * BLOCK;
        let mut bytes = vec![0; 4 * self.len.saturating_sub(from).min(BLOCK) as usize];
        self.storage.seek(SeekFrom::Start(4 * from))?;
        self.storage.read_exact(&mut bytes)?;
        let (number, words) = &mut self.slots[slot];
        *number = block;
        words.clear();
        words.extend(bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)));
        Ok(())
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_anywhere() {
        let mut words = Words::new(Box::new(io::Cursor::new(Vec::new())));
        let all = 40 * BLOCK + 7;
        (0..all).for_each(|i| words.push(i as u32 * 3).unwrap());
        words.flush().unwrap();
        assert_eq!(words.len(), all);
        for at in [0, all - 1, BLOCK, BLOCK - 1, 17 * BLOCK + 5, BLOCK + 5, 33 * BLOCK] {
            assert_eq!(words.get(at).unwrap(), at as u32 * 3);
        }
        assert_eq!(words.range(BLOCK - 1..BLOCK + 1).unwrap(), [3 * (BLOCK as u32 - 1), 3 * BLOCK as u32]);
        assert!(words.get(all).is_err());
        let mut more = Words::new(Box::new(io::Cursor::new(Vec::new())));
        (all..all + BLOCK).for_each(|i| more.push(i as u32 * 3).unwrap());
        more.flush().unwrap();
        words.append(&mut more).unwrap();
        for at in [0, all - 1, all, all + BLOCK - 1] {
            assert_eq!(words.get(at).unwrap(), at as u32 * 3);
        }
        assert_eq!(words.len(), all + BLOCK);
    }
}
