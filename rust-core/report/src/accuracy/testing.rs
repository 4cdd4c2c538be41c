//! Words in memory, and random numbers that come again.

use std::io::Cursor;

use super::words::Words;

/// A sequence in memory.
pub(crate) fn words(all: &[u32]) -> Words {
    let mut words = Words::new(Box::new(Cursor::new(Vec::new())));
    all.iter().for_each(|&w| words.push(w).unwrap());
    words.flush().unwrap();
    words
}

/// xorshift64*: the same seed gives the same numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}
