// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Sequences in memory, a receiver of stretches, and reproducible random numbers.

use std::io::{self, Cursor};

use super::walk::{Match, Matches};
use super::words::Words;

/// Keeps all stretches.
#[derive(Default)]
pub(crate) struct All(pub(crate) Vec<Match>);

impl Matches for All {
    fn found(&mut self, _: &mut Words, _: &mut Words, found: Match) -> io::Result<()> {
        self.0.push(found);
        Ok(())
    }
}

/// A sequence in memory.
pub(crate) fn words(all: &[u32]) -> Words {
    let mut words = Words::new(Box::new(Cursor::new(Vec::new())));
    all.iter().for_each(|&w| words.push(w).unwrap());
    words.flush().unwrap();
    words
}

/// xorshift64*: the same seed gives the same numbers.
pub(crate) struct XorshiftStar(pub(crate) u64);

impl XorshiftStar {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}
