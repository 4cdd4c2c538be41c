// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A machine for tests: random programs with code that changes while it runs, executed
//! instruction by instruction, and a PT unit that encodes what they do.
#![allow(dead_code)]

pub mod machine;
pub mod unit;

use jportal_machine_flow::{Exit, Item};

/// Small reproducible generator (xorshift64*). The tests' fixed seeds are chosen for its sequence.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }
    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Joins blocks that were split without a branch and drops times, for the comparison with the
/// truth.
pub fn normalised(items: &[Item]) -> Vec<Item> {
    let mut out: Vec<Item> = Vec::new();
    for item in items {
        if matches!(item, Item::Time(_)) {
            continue;
        }
        if let (
            Some(Item::Block { end, code, exit: exit @ Exit::FallThrough, .. }),
            &Item::Block { start: s, end: e, code: c, exit: x },
        ) = (out.last_mut(), item)
            && *end == s
            && *code == c
        {
            (*end, *exit) = (e, x);
            continue;
        }
        out.push(item.clone());
    }
    out
}
